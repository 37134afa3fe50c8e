//! Each service under some seeds, with all faults: as state machines and as stacks it must take the
//! same decisions. `cargo xtask simulate` runs more seeds.

use duality_simulate::services::{ALL, PLANTED, Size, simulation};
use duality_simulate::{Faults, seeds};

/// The seeds of each service in the ordinary tests.
const SEEDS: u64 = 6;

fn in_both_waits(name: &str) {
    let service = simulation(name).expect("it is one of ours");
    let tally = seeds(0..SEEDS).in_both_waits().run(service.run(Size::default()));
    assert!(tally.counts.turns > 0, "something happens");
}

macro_rules! services {
    ($($name:ident)*) => {
        /// Every service has a test here.
        const TESTED: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                in_both_waits(stringify!($name));
            }
        )*
    };
}

/// Servers that Redis joins, or that keep what they are told there.
#[test]
fn services_across_servers() {
    for name in ["guestbook", "phone", "chat", "game"] {
        let service = simulation(name).expect("it is one of ours");
        let size = Size { servers: 3, ..Size::default() };
        seeds(0..SEEDS).in_both_waits().run(service.run(size));
    }
}

/// Seeds that have found a fault: a service, the number of its servers, and the seed.
const FOUND: [(&str, usize, u64); 5] =
    [("guestbook", 1, 0), ("phone", 1, 12), ("phone", 1, 28), ("game", 3, 14), ("game", 3, 60)];

#[test]
fn what_was_found_once_stays_mended() {
    for (name, servers, seed) in FOUND {
        let service = simulation(name).expect("it is one of ours");
        let size = Size { servers, ..Size::default() };
        seeds(seed..seed + 1).once().run(service.run(size));
    }
}

services! { echo time quote http guestbook phone chat game blocks relay }

#[test]
fn every_service_has_a_test() {
    let names: Vec<&str> = ALL.iter().map(|simulation| simulation.name).collect();
    assert_eq!(names, TESTED);
    for entry in duality_services::ALL {
        assert!(names.contains(&entry.name), "{} has no simulation", entry.name);
    }
}

/// What every program must bear without an error.
#[test]
fn legal_trouble_breaks_no_connection() {
    for service in ALL {
        seeds(0..SEEDS).once().faults(Faults::LEGAL).run(service.run(Size::default()));
    }
}

/// Faults that never happen test nothing.
#[test]
fn each_fault_happens() {
    let service = simulation("echo").expect("it is one of ours");
    let counts = seeds(0..40).once().run(service.run(Size::default())).counts;
    for count in [
        counts.queued,
        counts.wrong_clocks,
        counts.priority_changes,
        counts.short,
        counts.spurious,
        counts.late_events,
        counts.late_timers,
        counts.interrupts,
        counts.refusals,
        counts.again,
        counts.resets,
        counts.partitions,
        counts.crashes,
        counts.drains,
    ] {
        assert!(count > 0, "{counts}");
    }
}

/// A store that acknowledges before it syncs loses remarks, if its machine crashes.
#[test]
fn a_guestbook_that_does_not_sync_is_found() {
    let found = seeds(0..1000).once().unshrunk().try_run(PLANTED.run(Size::default()));
    let why = found.expect_err("a crash loses a remark").why;
    assert!(why.contains("which was kept"), "{why}");
}
