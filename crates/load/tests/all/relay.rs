//! A relay: loads that take turns, over real sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use duality_load::{Error, Options, Pattern, Relay, Stop};

use crate::common::{http, http_server, read_request, reply, server};

/// Long enough for a reply on a machine with a load of 20.
const SLICE: Duration = Duration::from_millis(200);

/// A server, and how many requests it has answered.
fn counting() -> (SocketAddr, Arc<AtomicU64>) {
    let count = Arc::new(AtomicU64::new(0));
    let counted = count.clone();
    let answer = move |_: &str, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        (reply("hello"), true)
    };
    (http_server(answer), count)
}

fn load(address: SocketAddr, connections: usize) -> Options {
    Options {
        connections,
        stop: Stop::After(Duration::from_millis(500)),
        warm_up: Duration::from_millis(20),
        ..Options::new(http(address))
    }
}

fn join(relay: &mut Relay, options: &Options) -> duality_load::Report {
    relay.join(options, &mut (), &AtomicBool::new(false)).unwrap()
}

#[test]
fn loads_make_requests_in_their_turns_and_at_no_other_time() {
    let servers = [counting(), counting(), counting()];
    let mut relay = Relay::new(&[]).unwrap();
    for (address, _) in &servers {
        let report = join(&mut relay, &load(*address, 8));
        assert!(report.requests > 0 && report.errors.is_empty(), "{:?}", report.errors);
        assert_eq!(report.connections_served, 8);
    }
    let answered = || servers.each_ref().map(|(_, count)| count.load(Ordering::SeqCst));
    for turn in [2, 0, 1, 1, 0, 2] {
        let before = answered();
        let done = relay.slice(turn, SLICE).unwrap();
        let after = answered();
        for number in 0..servers.len() {
            // The server's answers are equal to the load's count: nothing is under way at either
            // end.
            let expected = if number == turn { done.requests } else { 0 };
            assert_eq!(
                after[number] - before[number],
                expected,
                "load {number} in the turn of {turn}"
            );
        }
        assert!(done.requests > 0 && done.requests_per_second > 0.0);
        assert!(done.errors.is_empty() && done.unanswered == 0, "{done:?}");
        assert!(done.elapsed >= SLICE && !done.cpu.is_zero(), "{done:?}");
    }
}

#[test]
fn a_load_without_keep_alive_takes_turns_too() {
    let (address, _) = counting();
    let mut relay = Relay::new(&[]).unwrap();
    join(&mut relay, &Options { keep_alive: false, ..load(address, 4) });
    let done = relay.slice(0, SLICE).unwrap();
    assert!(done.requests > 0 && done.errors.is_empty(), "{done:?}");
}

/// Each reply is checked, in the warm-up and in slices as in the window.
#[test]
fn wrong_replies_are_told_by_kind_in_slices_and_outside_the_window() {
    let answered = AtomicU64::new(0);
    let address = http_server(move |_, _| {
        let number = answered.fetch_add(1, Ordering::SeqCst);
        // The probe is the first, and the next are in the warm-up.
        let is_wrong = number > 0 && (number < 5 || number.is_multiple_of(100));
        (reply(if is_wrong { "hallo" } else { "hello" }), true)
    });
    let mut relay = Relay::new(&[]).unwrap();
    let report = join(&mut relay, &load(address, 2));
    assert!(report.failure().unwrap().contains("of its replies were wrong"), "{report:?}");
    let wrong = (0..100).find_map(|_| {
        Some(relay.slice(0, SLICE).unwrap().errors).filter(|errors| !errors.is_empty())
    });
    assert!(wrong.unwrap().keys().eq(&["wrong-bytes"]));
}

#[test]
fn a_server_that_leaves_connections_unserved_is_not_waited_for() {
    // All but the first are left waiting; the probe is number 0.
    let address = server(|mut stream, number| {
        while read_request(&mut stream).is_some() {
            if number > 1 {
                std::thread::park();
            }
            use std::io::Write;
            stream.write_all(&reply("hello")).unwrap();
        }
    });
    let mut relay = Relay::new(&[]).unwrap();
    assert_eq!(join(&mut relay, &load(address, 3)).connections_served, 1);
    let done = relay.slice(0, SLICE).unwrap();
    assert_eq!((done.unanswered, done.connections_served), (2, 1));
    assert!(done.requests > 0);
}

#[test]
fn a_server_that_closes_every_connection_is_connected_to_again() {
    let gone = Arc::new(AtomicBool::new(false));
    let closes = gone.clone();
    let address = http_server(move |_, _| (reply("hello"), !closes.load(Ordering::SeqCst)));
    let (other, _) = counting();
    let mut relay = Relay::new(&[]).unwrap();
    join(&mut relay, &load(address, 2));
    join(&mut relay, &load(other, 2));
    gone.store(true, Ordering::SeqCst);
    relay.slice(0, SLICE).unwrap();
    assert!(relay.slice(1, SLICE).unwrap().errors.is_empty());
}

#[test]
fn who_is_not_there_does_not_join_and_the_others_go_on() {
    let nobody = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let (there, _) = counting();
    let mut relay = Relay::new(&[]).unwrap();
    let refused = relay.join(&load(nobody, 2), &mut (), &AtomicBool::new(false));
    assert!(matches!(refused, Err(Error::Unanswered { .. })));
    join(&mut relay, &load(there, 2));
    assert!(relay.slice(0, SLICE).unwrap().requests > 0);
    assert!(matches!(
        relay.join(&load(there, 2), &mut (), &AtomicBool::new(true)),
        Err(Error::Interrupted)
    ));
}

#[test]
fn only_closed_loops_take_turns() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let there = nobody.local_addr().unwrap();
    let options = load(there, 1);
    assert!(Relay::can_carry(&options));
    assert!(!Relay::can_carry(&Options { pattern: Pattern::Serial, ..options.clone() }));
    assert!(!Relay::can_carry(&Options { stop: Stop::Requests(10), ..options.clone() }));
    let chat = format!("chat://{there}").parse().unwrap();
    assert!(!Relay::can_carry(&Options { target: chat, ..options }));
}
