//! A summary of a known trace.

use super::*;
use duality_trace::{Head, Step};

/// A trace of 1,000 s: a new connection every 10 s. Each has three requests 2 s apart, and stays
/// open for 5 s more.
pub(crate) fn trace() -> Trace {
    let seconds = Duration::from_secs;
    let class = |reply, count| Class {
        method: Method::Get,
        request: 0,
        reply,
        status: 2,
        count,
        path: None,
    };
    let step = |think, class| Step { think: seconds(think), class };
    let connections = (0..100).map(|number| Connection {
        start: seconds(10 * number),
        rate: (number == 0).then_some(1000),
        steps: vec![step(0, 0), step(2, 1), step(2, 1)],
        open_after: seconds(5),
    });
    let inferred = vec![Inferred {
        what: "times".to_owned(),
        value: "at random within the second, in the order of lines".to_owned(),
        why: "stamps are of one second, and <b>so</b> they are spread".to_owned(),
    }];
    let head = Head {
        length: seconds(1000),
        source: "combined log".to_owned(),
        inferred,
        warnings: vec!["12 lines are no request, and are left out; 300 requests are in".to_owned()],
        classes: vec![class(512, 0), class(65_536, 0)],
        ..Head::default()
    };
    Trace::new(head, connections.collect())
}

#[test]
fn a_summary_has_what_is_in_the_trace() {
    let summary = Summary::of(&trace());
    assert_eq!((summary.requests, summary.connections), (300, 100));
    assert_eq!(summary.arrivals.iter().sum::<u64>(), 300);
    assert!((summary.open_mean - 0.9).abs() < 1e-6, "{}", summary.open_mean);
    assert_eq!((summary.open_most, summary.limited), (1, 1));
    assert_eq!((summary.per_connection.mean, summary.per_connection.p50), (3.0, 3.0));
    assert_eq!((summary.think_us.count, summary.think_us.most), (200, 2e6));
    assert_eq!((summary.reply.p50, summary.reply.most), (65_536.0, 65_536.0));
    assert_eq!(summary.methods, [(Method::Get, 300)]);
    assert_eq!(summary.status, [0, 0, 300, 0, 0, 0]);
    // Each interval of 10 s has exactly three requests.
    assert_eq!(summary.dispersion[1], Some(0.0));
}

#[test]
fn an_empty_trace_has_a_summary() {
    let summary = Summary::of(&Trace::new(Head::default(), Vec::new()));
    assert_eq!((summary.requests, summary.open_most), (0, 0));
}

#[test]
fn json_has_a_version() {
    let json: serde_json::Value = serde_json::from_str(&Summary::of(&trace()).json()).unwrap();
    assert_eq!((&json["version"], &json["requests"]), (&1.into(), &300.into()));
    assert_eq!(json["think_us"]["p50"], 2e6);
}
