//! The recommendation's words, and the terminal's tables, for made-up experiments.

mod fixtures;

use duality_lab::peers::ReadyMade;
use duality_lab::recommendation::{Constraints, Recommendation, constraints, recommend};
use duality_lab::record::{Cell, Design, Experiment, Outcome, Variant};
use duality_lab::summary::Summary;

#[test]
fn one_leads_and_another_wins_elsewhere() {
    let (experiment, cells) = trial(&[1, 100, 1000], 3, |name, count| match (name, count) {
        ("threads", 1) => (20_000.0, 15.0, false),
        ("threads", _) => (40_000.0, 18.0, false),
        (_, 1) => (18_000.0, 16.0, false),
        _ => (60_000.0, 12.0, false),
    });
    let said = recommend(&Summary::of(&experiment, &cells));
    assert_eq!(said.architecture.as_deref(), Some("epoll"));
    assert_eq!(
        text(&said),
        [
            "Choose epoll: it leads at 2 of 3 concurrencies (100 and 1,000 connections).",
            "At 1,000 connections it answers 60,600 requests/s (95 % interval 59,126 to 62,107), 1.50 times the rate of the next, threads (interval 1.45 to 1.56).",
            "There it costs 4.0 MiB of memory (least: threads, 3.0 MiB) and a p99 latency of 42.0 ms (the shortest).",
            "Another leads elsewhere: threads at 1 connection, 1.11 times its rate (interval 1.071 to 1.15), with a p99 latency of 126 µs and 3.0 MiB of memory.",
            "The lead passes from threads to epoll between 1 and 100 connections: at about 2.6 (interval 1.8 to 3.6, interpolated).",
            "Figures are medians of 3 repeats.",
        ]
    );
}

#[test]
fn the_yardstick_is_not_chosen() {
    let names = ["handwritten", "epoll"];
    let experiment = fixtures::experiment(&names, &[100], 1);
    let cells = names.map(|name| {
        let rate = if name == "epoll" { 50_000.0 } else { 60_000.0 };
        let measured = fixtures::measured(100, rate, 12.0, 4.0);
        fixtures::cell(name, 100, 0, Outcome::Measured(Box::new(measured)))
    });
    let said = recommend(&Summary::of(&experiment, &cells));
    assert_eq!(said.architecture.as_deref(), Some("epoll"));
    let yardstick = "handwritten is a yardstick and no choice: it runs no other code.";
    assert!(text(&said).contains(&yardstick), "{said:?}");
}

#[test]
fn a_peer_is_no_choice_but_a_reference() {
    let mut experiment = fixtures::experiment(&["threads", "epoll"], &[100], 1);
    experiment.design.peers =
        ["nginx", "st"].map(|name| ReadyMade::named(name).unwrap().peer()).into();
    let rates = [("threads", 40_000.0), ("epoll", 50_000.0), ("nginx", 40_000.0), ("st", 80_000.0)];
    let cells = rates.map(|(name, rate)| {
        let cpu_us = if name == "nginx" { 16.0 } else { 12.0 };
        let measured = fixtures::measured(100, rate, cpu_us, 4.0);
        fixtures::cell(name, 100, 0, Outcome::Measured(Box::new(measured)))
    });
    let summary = Summary::of(&experiment, &cells);
    let said = recommend(&summary);
    assert_eq!(said.architecture.as_deref(), Some("epoll"));
    let reference = "For reference, epoll beside the peers at 100 connections: nginx: 1.25 times its rate; \
                     st: 0.62 times its rate.";
    assert!(text(&said).contains(&reference), "{said:?}");
    let told = summary.render_text();
    let beside = "server CPU per request as a multiple of nginx's, 99 % interval";
    let beside = told.split_once(beside).expect("a peer is a measure").1;
    let rows: Vec<&str> = beside.lines().skip(2).take(4).collect();
    let expected = [
        "  threads                  0.75",
        "  epoll                    0.75",
        "  nginx (peer)             1.00",
        "  st (peer)                0.75",
    ];
    assert_eq!(rows, expected);
}

#[test]
fn level_ones_are_named() {
    let (experiment, cells) = trial(&[100], 3, |name, _| match name {
        "threads" => (50_010.0, 15.0, false),
        _ => (50_000.0, 15.0, false),
    });
    assert_eq!(
        text(&recommend(&Summary::of(&experiment, &cells))),
        [
            "Choose threads: it leads, or is level with the leader, at 100 connections.",
            "At 100 connections it answers 50,510 requests/s (95 % interval 49,281 to 51,766), level with epoll (the interval of their ratio includes 1).",
            "There it costs 3.0 MiB of memory (the least) and a p99 latency of 5.0 ms (the shortest).",
            "Figures are medians of 3 repeats.",
        ]
    );
}

#[test]
fn among_equals_it_is_one_that_does_not_look_at_idle_connections() {
    let level = |name: &str, _| (if name == "epoll" { 50_000.0 } else { 50_010.0 }, 15.0, false);
    let (experiment, cells) = trial_of(&["select", "poll", "epoll"], &[100], 3, level);
    let said = recommend(&Summary::of(&experiment, &cells));
    assert_eq!(said.architecture.as_deref(), Some("epoll"));
    let told = "select and poll are no choice among equals: they look at every open connection in each round, and fall \
                behind with each one that is idle.";
    assert!(text(&said).contains(&told), "{said:?}");

    let ahead = |name: &str, _| (if name == "poll" { 60_000.0 } else { 50_000.0 }, 15.0, false);
    let (experiment, cells) = trial_of(&["poll", "epoll"], &[100], 3, ahead);
    let said = recommend(&Summary::of(&experiment, &cells));
    assert_eq!(said.architecture.as_deref(), Some("poll"));
    let told = "poll looks at every open connection in each round, also at idle ones: where there will be many, measure \
                with as many (--idle).";
    assert!(text(&said).contains(&told), "{said:?}");
}

#[test]
fn what_looks_at_idle_connections_is_known_by_its_poller() {
    let mut design = fixtures::experiment(&["uthreads", "epoll", "poll"], &[100], 1).design;
    let looking = |design: &Design| {
        design.subjects().map(|name| design.looks_at_all(name)).collect::<Vec<_>>()
    };
    design.server_arguments = vec!["--cores=1".into(), "--poller=epoll".into()];
    assert_eq!(looking(&design), [false, false, true]);
    for (poller, looks) in [("select", true), ("poll", true), ("uring", false)] {
        design.variants = vec![Variant {
            name: "uthreads".into(),
            architecture: "uthreads".into(),
            options: vec![format!("--poller={poller}")],
            server_arguments: vec!["--cores=1".into(), format!("--poller={poller}")],
        }];
        assert_eq!(looking(&design), [looks, false, true]);
    }
}

#[test]
fn the_client_was_the_limit() {
    let (experiment, cells) = trial(&[100], 3, |name, _| match name {
        "threads" => (90_500.0, 9.0, true),
        _ => (90_000.0, 6.0, true),
    });
    assert_eq!(
        text(&recommend(&Summary::of(&experiment, &cells))),
        [
            "Choose epoll: it leads at 100 connections.",
            "At 100 connections the load generator was the limit (at 90,900 requests/s), so server CPU decides: epoll takes 6.1 µs per request, 67 % of the CPU time of the next, threads (interval 64 to 69 %).",
            "There it costs 4.0 MiB of memory (least: threads, 3.0 MiB) and a p99 latency of 2.8 ms (the shortest).",
            "Figures are medians of 3 repeats.",
        ]
    );
}

#[test]
fn one_repeat_is_not_sure() {
    let (experiment, cells) = trial(&[100], 1, |name, _| match name {
        "threads" => (40_000.0, 15.0, false),
        _ => (50_000.0, 12.0, false),
    });
    assert_eq!(
        text(&recommend(&Summary::of(&experiment, &cells))),
        [
            "Choose epoll: it leads at 100 connections.",
            "At 100 connections it answers 50,000 requests/s, 1.25 times the rate of the next, threads.",
            "There it costs 4.0 MiB of memory (least: threads, 3.0 MiB) and a p99 latency of 5.1 ms (the shortest).",
            "Each cell was measured once, so there are no intervals and small differences may be chance.",
        ]
    );
}

#[test]
fn a_whole_comparison_in_the_terminal() {
    let (experiment, cells) = fixtures::comparison();
    let shown = Summary::of(&experiment, &cells).render_text();
    println!("{shown}");
    assert_eq!(shown, include_str!("fixtures/comparison.txt"));
}

/// threads lead on few connections, epoll on many; between them they are level.
fn passing(name: &str, count: usize) -> (f64, f64, bool) {
    let rate = match (name, count) {
        ("threads", 1) => 20_000.0,
        ("threads", 1000) => 40_000.0,
        ("threads", _) => 50_000.0,
        (_, 1) => 18_000.0,
        (_, 1000) => 60_000.0,
        _ => 50_010.0,
    };
    (rate, 15.0, false)
}

#[test]
fn the_lead_passes_across_a_tie() {
    let (experiment, cells) = trial(&[1000, 1, 10], 3, passing);
    let said = recommend(&Summary::of(&experiment, &cells));
    let [crossover] = said.crossovers.as_slice() else { panic!("{said:?}") };
    assert_eq!((crossover.from.as_str(), crossover.to.as_str()), ("threads", "epoll"));
    assert_eq!((crossover.above, crossover.below), (Some(1), 1000));
    let (estimate, interval) = (crossover.estimate.unwrap(), crossover.interval.unwrap());
    // A hair in favour of epoll at 10, where the ends of the interval lie on both sides.
    assert!((9.0..10.0).contains(&estimate), "{estimate}");
    assert!(interval.low < 9.0 && interval.high > 10.0 && interval.high < 16.0, "{interval:?}");
    // Level at 10, so the reign of whoever goes on longer includes it.
    let reigns: Vec<_> = said.reigns.iter().map(|reign| (reign.from, reign.to)).collect();
    assert_eq!(reigns, [(1, 10), (1000, 1000)]);
    assert_eq!(said.loads.iter().map(|load| load.leaders.len()).collect::<Vec<_>>(), [1, 2, 1]);
}

#[test]
fn without_repeats_a_crossover_lies_between_two_loads() {
    let (experiment, cells) = trial(&[1, 1000], 1, passing);
    let said = recommend(&Summary::of(&experiment, &cells));
    let passes = "The lead passes from threads to epoll between 1 and 1,000 connections.";
    assert!(text(&said).contains(&passes), "{said:?}");
    assert_eq!(said.crossovers[0].interval, None);
}

#[test]
fn where_another_measure_decides_there_is_no_estimate() {
    // At 1,000 connections the load generator is the limit, and epoll takes less processor time.
    let (experiment, cells) = trial(&[1, 1000], 3, |name, count| match (name, count) {
        (_, 1) => passing(name, count),
        ("threads", _) => (90_000.0, 15.0, true),
        _ => (90_000.0, 10.0, true),
    });
    let said = recommend(&Summary::of(&experiment, &cells));
    let passes = "The lead passes from threads to epoll between 1 and 1,000 connections.";
    assert!(text(&said).contains(&passes), "{said:?}");
}

#[test]
fn no_crossover_is_said_in_words() {
    let (experiment, cells) = trial(&[10, 100], 3, |name, _| match name {
        "threads" => (40_000.0, 15.0, false),
        _ => (50_000.0, 12.0, false),
    });
    let said = recommend(&Summary::of(&experiment, &cells));
    assert!(said.crossovers.is_empty());
    let none =
        "epoll leads at every load measured, from 10 to 100 connections: there is no crossover.";
    assert!(text(&said).contains(&none), "{said:?}");
}

/// What is said under constraints of architectures of which epoll has the shorter tail from 100 connections on.
fn constrained(slo: &[&str], memory: Option<u64>) -> Recommendation {
    let (mut experiment, cells) = trial(&[1, 100, 1000], 3, |name, count| match (name, count) {
        ("threads", 1) => (20_000.0, 15.0, false),
        ("threads", _) => (40_000.0, 18.0, false),
        (_, 1) => (18_000.0, 16.0, false),
        _ => (60_000.0, 12.0, false),
    });
    let slo = slo.iter().map(|text| constraints::kept_slo(text).unwrap()).collect();
    experiment.constraints = Constraints { slo, memory };
    recommend(&Summary::of(&experiment, &cells))
}

#[test]
fn who_breaks_a_limit_is_excluded_and_the_nearest_named() {
    let said = constrained(&["p99=5ms"], None);
    assert_eq!(said.architecture.as_deref(), Some("epoll"));
    let told = text(&said);
    assert_eq!(
        told[0],
        "Choose epoll: of those that keep p99 ≤ 5.0 ms, it leads at 1 of 3 concurrencies (100 connections)."
    );
    for sentence in [
        "No architecture keeps p99 ≤ 5.0 ms at 1,000 connections; the nearest is epoll with a p99 of 42.0 ms.",
        "Excluded: threads by p99 ≤ 5.0 ms (6.3 ms at 100).",
    ] {
        assert!(told.contains(&sentence), "{sentence}: {told:#?}");
    }
    assert_eq!(said.refused.len(), 3);

    let said = constrained(&[], Some(7 << 19));
    assert_eq!(said.architecture.as_deref(), Some("threads"));
    let told =
        "Excluded: epoll by memory ≤ 3.5 MiB (4.0 MiB at 1, 4.0 MiB at 100, 4.0 MiB at 1,000).";
    assert!(text(&said).contains(&told), "{said:?}");

    let said = constrained(&["p50=1us"], Some(1));
    assert_eq!(said.architecture, None);
    assert!(text(&said)[0].contains("no architecture keeps p50 ≤ 1.0 µs and memory"), "{said:?}");
}

#[test]
fn a_limit_within_the_interval_is_not_sure() {
    let said = constrained(&["p99=4.2ms"], None);
    let told = "Not sure, for the interval holds the limit: epoll breaks p99 ≤ 4.2 ms at 100 connections with 4.2 ms.";
    assert!(text(&said).contains(&told), "{said:?}");
    assert!(!said.refused.iter().find(|one| one.architecture == "epoll").unwrap().broken[0].sure);
}

#[test]
fn reasons_stand_beside_the_choice() {
    let (experiment, cells) = trial(&[100], 3, |_, _| (50_000.0, 15.0, false));
    let reason = "Creation is 41 % of threads' time per request here.";
    let summary = Summary { reasons: vec![reason.into()], ..Summary::of(&experiment, &cells) };
    assert_eq!(text(&recommend(&summary))[3], reason);
}

/// Two architectures whose rate, CPU time and limit `figures` gives; repeats differ by 1 %.
fn trial(
    concurrency: &[usize],
    repeats: usize,
    figures: impl Fn(&str, usize) -> (f64, f64, bool),
) -> (Experiment, Vec<Cell>) {
    trial_of(&["threads", "epoll"], concurrency, repeats, figures)
}

fn trial_of(
    names: &[&str],
    concurrency: &[usize],
    repeats: usize,
    figures: impl Fn(&str, usize) -> (f64, f64, bool),
) -> (Experiment, Vec<Cell>) {
    let experiment = fixtures::experiment(names, concurrency, repeats);
    let mut cells = Vec::new();
    for &name in names {
        for &count in concurrency {
            for repeat in 0..repeats {
                let (rate, cpu, limit) = figures(name, count);
                let wobble = 1.0 + 0.01 * repeat as f64;
                let memory = if name == "epoll" { 4.0 } else { 3.0 };
                let mut measured = fixtures::measured(count, rate * wobble, cpu * wobble, memory);
                measured.client_was_limit = limit;
                cells.push(fixtures::cell(
                    name,
                    count,
                    repeat,
                    Outcome::Measured(Box::new(measured)),
                ));
            }
        }
    }
    (experiment, cells)
}

fn text(recommendation: &Recommendation) -> Vec<&str> {
    recommendation.sentences.iter().map(String::as_str).collect()
}
