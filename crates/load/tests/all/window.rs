//! Tests when the measured window opens and closes, which requests count in it, and how the report
//! shows the rest.

use duality_load::{Error, Observer, Options, Stop, WarningKind, run};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::{http, http_server, load, options, read_request, reply};

/// Records the announcements.
#[derive(Default)]
struct Diary {
    edges: Vec<&'static str>,
    progress: Vec<(u64, Duration)>,
}

impl Observer for Diary {
    fn window_opened(&mut self) {
        self.edges.push("opened");
    }

    fn window_closed(&mut self) {
        self.edges.push("closed");
    }

    fn progress(&mut self, requests: u64, elapsed: Duration) {
        self.progress.push((requests, elapsed));
    }
}

#[test]
fn a_load_for_a_time_has_a_window_of_that_time() {
    let address = http_server(|_, _| (reply("hello"), true));
    let asked = Duration::from_millis(300);
    let options = Options {
        stop: Stop::After(asked),
        warm_up: Duration::from_millis(100),
        ..options(http(address), 4, 1)
    };
    let mut diary = Diary::default();
    let report = run(&options, &mut diary, &AtomicBool::new(false)).unwrap();
    assert_eq!(diary.edges, ["opened", "closed"]);
    assert!(!diary.progress.is_empty() && diary.progress.is_sorted());
    assert!(report.window_seconds >= asked.as_secs_f64());
    assert!(report.requests > 0 && report.errors.is_empty());
    assert!(report.client_cpu_share > 0.0 && report.client_cpu_share < 1.1);
    let expected = report.requests as f64 / report.window_seconds;
    assert!((report.requests_per_second - expected).abs() < 1e-6);
}

/// Interrupts the load when its window opens.
struct Impatient<'a>(&'a AtomicBool);

impl Observer for Impatient<'_> {
    fn window_opened(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn an_interrupted_load_reports_what_it_has() {
    let address = http_server(|_, _| (reply("hello"), true));
    let an_hour = Stop::After(Duration::from_secs(3600));
    let options = Options { stop: an_hour, ..options(http(address), 2, 1) };
    let interrupted = AtomicBool::new(false);
    let report = run(&options, &mut Impatient(&interrupted), &interrupted).unwrap();
    assert!(report.requests > 0);
    assert!(report.warnings[0].kind == WarningKind::Interrupted, "{:?}", report.warnings);
    // The flag is still set: now there is not even a window.
    let options = Options { warm_up: Duration::from_secs(3600), ..options };
    let error = run(&options, &mut (), &interrupted).unwrap_err();
    assert!(matches!(error, Error::Interrupted), "{error}");
}

#[test]
fn connections_that_are_never_served_are_told() {
    // One connection at a time, each for as long as its client likes; the load ends after 1,000
    // replies.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let enough = Arc::new(AtomicBool::new(false));
    let set_enough = enough.clone();
    thread::spawn(move || {
        let mut replies = 0;
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            while read_request(&mut stream).is_some() && stream.write_all(&reply("hello")).is_ok() {
                replies += 1;
                set_enough.fetch_or(replies == 1_000, Ordering::Relaxed);
            }
        }
    });
    let options =
        Options { stop: Stop::After(Duration::from_secs(3600)), ..options(http(address), 5, 1) };
    let report = run(&options, &mut (), &enough).unwrap();
    assert_eq!(report.connections_served, 1);
    assert!(report.measured_load < 1.1, "{}", report.measured_load);
    let warnings = report.warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert!(warnings.contains("4 of 5 connections were never served"), "{warnings}");
    assert!(report.render_text().contains("something other than the server's speed"));
}

#[test]
fn a_server_that_goes_away_does_not_make_a_busy_loop() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        // The probe and the first request, then nothing.
        for stream in listener.incoming().take(2) {
            let mut stream = stream.unwrap();
            assert!(read_request(&mut stream).is_some());
            stream.write_all(&reply("hello")).unwrap();
            // Until the client closes, which it may do with a reset.
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    let report = load(&Options { keep_alive: false, ..options(http(address), 1, 5) });
    assert_eq!(report.requests + report.errors.values().sum::<u64>(), 5);
    assert!(report.errors["connect-refused"] >= 3, "{:?}", report.errors);
}
