//! Services under architectures: the threads, queues and locks of an architecture in orders that
//! seeds draw. `cargo xtask simulate` runs more seeds, and all services.

use duality_architectures::ALL;
use duality_simulate::seeds;
use duality_simulate::services::{Size, simulation, unsimulated};

/// The seeds of each architecture in the ordinary tests.
const SEEDS: u64 = 2;

/// Each seed runs twice, and must take the same decisions.
fn serve_under(name: &'static str) {
    let service = simulation("http").expect("it is one of ours");
    let size = Size { architecture: Some(name), ..Size::default() };
    let tally = seeds(0..SEEDS).run(service.run(size));
    assert!(tally.counts.connections > 0, "clients connect");
}

macro_rules! architectures {
    ($($name:ident $text:literal)*) => {
        /// Every architecture that can be simulated has a test here.
        const TESTED: &[&str] = &[$($text),*];
        $(
            #[test]
            fn $name() {
                serve_under($text);
            }
        )*
    };
}

architectures! {
    iterative "iterative"
    threads "threads"
    pool "pool"
    uthreads "uthreads"
    select "select"
    poll "poll"
    epoll "epoll"
    workpool_fifo "workpool-fifo"
    workpool_priority "workpool-priority"
    workpool_serial "workpool-serial"
    staged "staged"
}

/// Players write to each other, so their sockets move between loops. Once, the simulation did not
/// learn of a socket's next descriptor, and no event came for it.
#[test]
fn a_socket_that_moves_between_loops_has_events() {
    let service = simulation("game").expect("it is one of ours");
    let size = Size { architecture: Some("epoll"), ..Size::default() };
    seeds(6..7).run(service.run(size));
}

/// Once, the reactor of a server that drained did not sleep any more, and took 90,000 turns.
#[test]
fn a_drain_ends_one_sleep() {
    let service = simulation("blocks").expect("it is one of ours");
    let size = Size { architecture: Some("staged"), ..Size::default() };
    let tally = seeds(2..3).once().run(service.run(size));
    assert!(tally.counts.drains > 0 && tally.counts.turns < 30_000, "{}", tally.counts);
}

#[test]
fn every_architecture_is_tested_or_says_why_not() {
    let able: Vec<_> = ALL.iter().filter(|one| unsimulated(**one).is_none()).collect();
    let able: Vec<_> = able.iter().map(|one| one.name()).collect();
    assert_eq!(able, TESTED);
    let fork = duality_architectures::find("fork").and_then(unsimulated);
    let why = fork.expect("its processes share no memory");
    assert!(why.contains("choose iterative, "), "{why}");
}
