//! The open loop, and the search for the peak goodput.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use duality_load::{
    Arrivals, Error, Observer, Options, Pattern, Percentile, Probe, Slo, Stop, peak_goodput, run,
};

use crate::common::{http, http_server, load, options, reply};

const MILLISECOND: Duration = Duration::from_millis(1);

#[test]
fn every_request_is_made_exactly_once_whatever_the_arrivals() {
    for arrivals in [
        Arrivals::Constant { rate: 5_000.0 },
        Arrivals::Poisson { rate: 5_000.0 },
        Arrivals::Uniform { shortest: Duration::ZERO, longest: MILLISECOND },
        Arrivals::Sinusoidal {
            shortest: MILLISECOND / 10,
            longest: MILLISECOND,
            period: 100 * MILLISECOND,
        },
    ] {
        for keep_alive in [true, false] {
            let seen = Arc::new(AtomicU64::new(0));
            let counter = seen.clone();
            let address = http_server(move |_, _| {
                counter.fetch_add(1, Ordering::Relaxed);
                (reply("hello"), keep_alive)
            });
            let pattern = Pattern::Open(arrivals);
            let report = load(&Options { pattern, keep_alive, ..options(http(address), 8, 300) });
            assert_eq!((report.requests, report.errors.len()), (300, 0), "{:?}", report.errors);
            assert_eq!(seen.load(Ordering::Relaxed), 301, "the probe and the load");
            assert_eq!(report.connections_opened, if keep_alive { 8 } else { 300 });
            let open = report.open_loop.as_ref().unwrap();
            assert_eq!((open.due, open.unsent, open.arrivals.as_str()), (300, 0, arrivals.name()));
            assert!((open.intended_per_second - arrivals.rate()).abs() < 1e-6);
            // No reply is ahead of its schedule.
            assert!(report.latency_us.min >= open.raw_latency_us.min);
            assert!(
                report.render_text().contains(&format!("open loop, {} arrivals", arrivals.name()))
            );
        }
    }
}

#[test]
fn a_stall_is_in_the_corrected_latencies_and_not_in_the_raw_ones() {
    // The 200th request takes 400 ms, in which 400 others are due; only one connection waits for
    // it.
    let address = http_server(|_, number| {
        if number == 200 {
            thread::sleep(400 * MILLISECOND);
        }
        (reply("hello"), true)
    });
    let pattern = Pattern::Open(Arrivals::Constant { rate: 1_000.0 });
    let report = load(&Options { pattern, ..options(http(address), 1, 1_000) });
    assert_eq!((report.requests, report.errors.len()), (1_000, 0), "{:?}", report.errors);
    let open = report.open_loop.unwrap();
    assert_eq!((open.due, open.unsent), (1_000, 0));
    // The 300 that were due in the first three quarters of it have waited for at least 100 ms, on
    // whatever machine. On one connection at 100 ms each, they would take 30 s.
    let stall = 100_000.0;
    assert!(report.latency_us.p90 >= stall, "{:?}", report.latency_us);
    assert!(open.raw_latency_us.p90 < stall, "{:?}", open.raw_latency_us);
    assert!(open.raw_latency_us.max >= 4.0 * stall, "{:?}", open.raw_latency_us);
    assert!(open.send_lag_us.p90 >= stall, "{:?}", open.send_lag_us);
}

#[test]
fn arrivals_without_sense_are_refused() {
    let address = http_server(|_, _| (reply("hello"), true));
    for arrivals in [
        Arrivals::Constant { rate: 0.0 },
        Arrivals::Poisson { rate: f64::NAN },
        Arrivals::Uniform { shortest: 2 * MILLISECOND, longest: MILLISECOND },
        Arrivals::sinusoidal(100.0, Duration::ZERO),
    ] {
        let options = Options { pattern: Pattern::Open(arrivals), ..options(http(address), 1, 1) };
        let error = run(&options, &mut (), &AtomicBool::new(false)).unwrap_err();
        assert!(matches!(error, Error::Options(_)), "{error}");
    }
}

/// Options for a search with windows of 50 ms, and 250 ms at the end.
fn search_options(address: std::net::SocketAddr) -> Options {
    Options {
        pattern: Pattern::Open(Arrivals::Constant { rate: 400.0 }),
        stop: Stop::After(250 * MILLISECOND),
        ..options(http(address), 8, 1)
    }
}

/// Counts probes.
#[derive(Default)]
struct Probes(Vec<Probe>);

impl Observer for Probes {
    fn probed(&mut self, probe: &Probe) {
        self.0.push(probe.clone());
    }
}

#[test]
fn the_peak_is_not_above_what_the_server_can_do() {
    // The server takes one request at a time, and at least a millisecond for each. So it never
    // answers more than a thousand a second.
    let turn = Mutex::new(());
    let address = http_server(move |_, _| {
        let _turn = turn.lock().unwrap();
        let begun = Instant::now();
        while begun.elapsed() < MILLISECOND {
            thread::yield_now();
        }
        (reply("hello"), true)
    });
    let slo = Slo { percentile: Percentile::P50, limit: 50 * MILLISECOND };
    let mut probes = Probes::default();
    let found =
        peak_goodput(&search_options(address), &slo, &mut probes, &AtomicBool::new(false)).unwrap();
    assert_eq!(found.probes, probes.0);
    // On a busy machine, no rate may keep the limit.
    let (Some(peak), Some(report)) = (found.peak_per_second, &found.report) else {
        eprintln!("skipped: the machine is too busy for a peak");
        return;
    };
    // Requests beyond a thousand a second are in the queue when the window closes. A reply of each
    // connection may have waited when the window opened, and one may be on its way.
    let most = 1_000.0 + (8.0 + 1.0) / report.window_seconds;
    assert!(report.requests_per_second <= most, "{found:?}");
    assert!((10.0..1_500.0).contains(&peak), "{found:?}");
    let confirmed = found.probes.iter().rfind(|probe| probe.met).unwrap();
    assert!(confirmed.rate.total_cmp(&peak).is_eq() && confirmed.window_seconds >= 0.25);
    assert!(found.render_text().contains("Peak goodput: "));
}

#[test]
fn a_limit_that_cannot_be_kept_is_told() {
    let address = http_server(|_, _| {
        thread::sleep(MILLISECOND);
        (reply("hello"), true)
    });
    let slo = Slo { percentile: Percentile::Max, limit: MILLISECOND / 2 };
    let found =
        peak_goodput(&search_options(address), &slo, &mut (), &AtomicBool::new(false)).unwrap();
    assert_eq!((found.peak_per_second, found.report.is_some()), (None, false));
    // On a busy machine the generator may be late too, and then the report says nothing of the
    // server.
    let text = found.render_text();
    let lowest = || found.probes.iter().filter(|probe| probe.rate <= 10.0);
    match lowest().any(|probe| probe.client_was_limit && probe.failed == 0) {
        true => assert!(text.contains("No peak is known: the generator was the limit"), "{text}"),
        false => assert!(text.contains("No peak: even at 10/s max=500µs was not kept"), "{text}"),
    }
    assert_eq!(found.failure().is_some(), text.contains("No peak is known"), "{found:?}");
}

#[test]
fn a_failure_is_a_miss_however_fast_it_is() {
    let address = http_server(|_, number| {
        (reply(if number > 0 && number % 2 == 0 { "hellO" } else { "hello" }), true)
    });
    let slo = Slo { percentile: Percentile::P50, limit: Duration::from_secs(10) };
    // The first reply of a load is learnt, and half of the others differ from it.
    let found =
        peak_goodput(&search_options(address), &slo, &mut (), &AtomicBool::new(false)).unwrap();
    assert_eq!(found.peak_per_second, None);
    // A probe of a busy machine may end before its first reply.
    assert!(found.probes.iter().all(|probe| !probe.met), "{found:?}");
    assert!(found.probes.iter().any(|probe| probe.failed > 0), "{found:?}");
}

/// Interrupts the search after this many probes.
struct Impatient<'a>(usize, &'a AtomicBool);

impl Observer for Impatient<'_> {
    fn probed(&mut self, _: &Probe) {
        self.0 -= 1;
        self.1.fetch_or(self.0 == 0, Ordering::Relaxed);
    }
}

#[test]
fn an_interrupted_search_tells_what_it_has() {
    let address = http_server(|_, _| (reply("hello"), true));
    let slo = Slo { percentile: Percentile::P50, limit: Duration::from_secs(10) };
    let interrupted = AtomicBool::new(false);
    let mut observer = Impatient(2, &interrupted);
    let found = peak_goodput(&search_options(address), &slo, &mut observer, &interrupted).unwrap();
    assert_eq!((found.probes.len(), found.peak_per_second), (2, None));
    assert!(found.warnings[0].starts_with("Interrupted"), "{found:?}");
    let error = peak_goodput(&search_options(address), &slo, &mut (), &interrupted).unwrap_err();
    assert!(matches!(error, Error::Interrupted), "{error}");
}

#[test]
fn a_search_needs_an_open_loop_of_a_certain_time() {
    let address = http_server(|_, _| (reply("hello"), true));
    let slo = Slo { percentile: Percentile::P50, limit: MILLISECOND };
    let right = search_options(address);
    for wrong in [
        Options { pattern: Pattern::Closed, ..right.clone() },
        Options { stop: Stop::Requests(10), ..right },
    ] {
        let error = peak_goodput(&wrong, &slo, &mut (), &AtomicBool::new(false)).unwrap_err();
        assert!(matches!(error, Error::Options(_)), "{error}");
    }
}
