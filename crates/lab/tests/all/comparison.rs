//! Compares two made-up runs: which cells are faster, slower or level, and the exit code for CI.

use std::slice;

use duality_lab::record::{Heading, Measured, Outcome, Records};
use duality_lab::tell::answers::runs;
use duality_lab::tell::comparison::{Comparison, Direction, Metric};
use duality_lab::tell::render::html::html;
use duality_lab::tell::render::text::{WIDE, text};

use crate::fixtures;
use crate::trials::{Shape, Trial};

type Run = (Heading, Records);

/// A run of epoll and threads at 10 and 100 connections; `change` alters each cell.
fn run(repeats: usize, change: impl Fn(&str, usize, &mut Measured)) -> Run {
    let names = ["threads", "epoll"];
    let heading = fixtures::heading(&names, &[10, 100], repeats);
    let mut cells = Vec::new();
    for name in names {
        for count in [10, 100] {
            for repeat in 0..repeats {
                let wobble = 1.0 + 0.01 * repeat as f64;
                let mut measured = fixtures::measured(count, 50_000.0 * wobble, 12.0 * wobble, 4.0);
                change(name, count, &mut measured);
                let outcome = Outcome::Measured(Box::new(measured));
                cells.push(fixtures::cell(name, count, repeat, outcome));
            }
        }
    }
    (heading, Records { cells, blocks: Vec::new() })
}

/// The comparison on a terminal.
fn shown(comparison: &Comparison) -> String {
    text(&runs::sheet(["a", "b"], slice::from_ref(comparison), &[]), WIDE)
}

fn same(_: &str, _: usize, _: &mut Measured) {}

/// epoll at 100 connections is half as fast again, and takes a third less processor time.
fn quicker(name: &str, count: usize, measured: &mut Measured) {
    if (name, count) == ("epoll", 100) {
        measured.requests_per_second *= 1.5;
        measured.server_cpu_us_per_request /= 1.5;
    }
}

fn verdict(comparison: &Comparison, name: &str, count: usize, metric: Metric) -> Direction {
    let mut pairs = comparison.pairs.iter();
    let pair = pairs.find(|pair| pair.subject == name && pair.concurrency == count);
    pair.unwrap().change(metric).unwrap().verdict
}

#[test]
fn what_did_not_change_is_level() {
    let comparison = Comparison::of(&run(3, same), &run(3, same)).unwrap();
    assert_eq!(comparison.pairs.len(), 4);
    let changes = || comparison.pairs.iter().flat_map(|pair| &pair.changes);
    assert_eq!(changes().count(), 4 * Metric::ALL.len());
    assert!(changes().all(|change| change.verdict == Direction::Level));
    assert!(comparison.differences.is_empty() && comparison.regressions(0.0).is_empty());
    assert!(shown(&comparison).starts_with("No change above 3."), "{}", shown(&comparison));
}

#[test]
fn what_is_within_no_margin_is_not_told_apart() {
    let mut after = run(3, same);
    after.0.margin = Some(0.01);
    let comparison = Comparison::of(&run(3, same), &after).unwrap();
    assert_eq!(verdict(&comparison, "epoll", 100, Metric::Rate), Direction::NotTold);
    let answer = shown(&comparison);
    assert!(
        answer.starts_with("The two runs are not told apart: a change of up to 3."),
        "{answer}"
    );
    assert!(answer.contains("requests/s, of 4 cells: 4 not told apart."), "{answer}");
}

#[test]
fn cells_without_figures_are_no_obstacle() {
    let run = fixtures::comparison();
    let comparison = Comparison::of(&run, &run).unwrap();
    // Nine architectures at four loads. A cell of fork failed, and a cell of select is unavailable.
    assert_eq!(comparison.pairs.len(), 34);
    assert!(comparison.only_before.is_empty() && comparison.regressions(0.0).is_empty());
    let starved = "iterative at 10 connections, in both runs: connections got no reply at all.";
    assert!(shown(&comparison).contains(starved));
}

#[test]
fn faster_one_way_is_slower_the_other() {
    let (one, other) = (run(3, same), run(3, quicker));
    let gain = Comparison::of(&one, &other).unwrap();
    assert_eq!(verdict(&gain, "epoll", 100, Metric::Rate), Direction::Better);
    assert_eq!(verdict(&gain, "epoll", 100, Metric::Cpu), Direction::Better);
    assert_eq!(verdict(&gain, "epoll", 10, Metric::Rate), Direction::Level);
    assert!(gain.regressions(0.0).is_empty());
    let answer = shown(&gain);
    assert!(answer.starts_with("The second run is faster: epoll at 100 connections, "), "{answer}");
    assert!(answer.contains("requests/s, of 4 cells: 1 faster, 3 level."), "{answer}");
    assert!(answer.contains("server CPU per request, of 4 cells: 1 less, 3 level."), "{answer}");

    let loss = Comparison::of(&other, &one).unwrap();
    let answer = shown(&loss);
    assert!(answer.starts_with("The second run is slower: epoll at 100 connections, "), "{answer}");
    assert!(answer.contains(" 2 of 8 figures are worse, and 0 better."), "{answer}");
    let regressions = loss.regressions(5.0);
    assert_eq!(regressions.len(), 2, "{regressions:?}");
    assert!(
        regressions[0].starts_with("epoll at 100 connections: requests/s 0.67 times as before")
    );
    assert!(regressions[1].contains("server CPU per request 1.50 times as before"));
    assert!(loss.regressions(60.0).is_empty());
}

#[test]
fn replays_are_compared_at_times_the_users() {
    let replay = |change: fn(&str, usize, &mut Measured)| {
        let mut run = run(3, change);
        run.0.design.recording = Some(fixtures::recording());
        run
    };
    let loss = Comparison::of(&replay(quicker), &replay(same)).unwrap();
    let text = shown(&loss);
    assert!(text.contains("10 times your users"), "{text}");
    assert_eq!(fixtures::in_connections(&text), Vec::<String>::new(), "{text}");
    let worse = &loss.regressions(5.0)[0];
    assert!(worse.starts_with("epoll at 100 times your users: requests/s 0.67"), "{worse}");
    let page = html(&runs::sheet(["a", "b"], &[loss], &[]));
    assert!(page.contains(">Times your users</th>") && !page.contains(">Connections<"), "{page}");
}

#[test]
fn a_threshold_is_for_the_interval_and_not_for_the_median() {
    let slower = |_: &str, _: usize, measured: &mut Measured| measured.requests_per_second *= 0.93;
    let comparison = Comparison::of(&run(3, same), &run(3, slower)).unwrap();
    // 7 % less, but the interval reaches to 5 % less.
    assert_eq!(comparison.regressions(0.0).len(), 4);
    assert!(comparison.regressions(5.5).is_empty());
}

/// A run of blocks, in two sessions, on a machine that is slow in some sessions; it answers `times`
/// as many requests.
fn moody(seed: u64, times: f64, mood: [f64; 2]) -> Run {
    let names = ["threads", "epoll", "poll", "uthreads", "pool"];
    let shape = |_: &str, _: usize| {
        let (server_us, rate) = (12.0 / times, 50_000.0 * times);
        Shape { server_us, client_us: 10.0, rate }
    };
    let mut trial = Trial::new(&names, &[10, 100], 2, 12, 0.01, seed, shape);
    for block in &mut trial.records.blocks {
        // In one session, epoll's server got unlucky memory.
        let luck = if (block.concurrency, block.session) == (100, 0) { 0.7 } else { 1.0 };
        for slice in &mut block.slices {
            let by = mood[block.session] * if slice.subject == "epoll" { luck } else { 1.0 };
            slice.requests_per_second *= by;
            slice.server_cpu_us /= by;
        }
    }
    (trial.heading, trial.records)
}

#[test]
fn where_both_runs_have_blocks_their_slices_are_compared() {
    let (one, other) = (moody(1, 1.0, [1.0, 0.95]), moody(2, 1.7, [1.05, 1.0]));
    let comparison = Comparison::of(&one, &other).unwrap();
    for pair in &comparison.pairs {
        for metric in [Metric::Rate, Metric::Cpu] {
            let change = pair.change(metric).unwrap();
            let interval = change.ratio.interval.unwrap();
            // Two sessions of one subject alone would give epoll at 100 connections one from 0.1 to
            // 30.
            let place = format!("{} at {}: {interval:?}", pair.subject, pair.concurrency);
            assert!(interval.high / interval.low < 2.5, "{place}");
            assert_eq!(change.verdict, Direction::Better, "{place}");
            let true_ratio = if metric == Metric::Rate { 1.7 } else { 1.0 / 1.7 };
            assert!(interval.contains(true_ratio), "{place}");
        }
    }
    // A run compared with itself is level, though one of the two was slower as a whole.
    let again = Comparison::of(&one, &moody(3, 1.0, [0.96, 1.02])).unwrap();
    let changes = || again.pairs.iter().flat_map(|pair| pair.change(Metric::Rate));
    let is_sure = [Direction::Better, Direction::Worse];
    assert!(changes().all(|change| !is_sure.contains(&change.verdict)), "{}", shown(&again));
}

#[test]
fn blocks_of_one_session_are_compared_without_an_interval() {
    let single = |seed| {
        let mut run = moody(seed, 1.0, [1.0, 1.0]);
        run.1.blocks.retain(|block| block.session == 0);
        run.1.cells.retain(|cell| cell.repeat == 0);
        run
    };
    let comparison = Comparison::of(&single(1), &single(2)).unwrap();
    assert_eq!(verdict(&comparison, "epoll", 100, Metric::Rate), Direction::Unsure);
    assert!(!comparison.is_sure_of_anything());
}

#[test]
fn windows_that_were_invalid_do_not_matter_to_blocks() {
    let mut after = moody(2, 1.7, [1.0, 1.0]);
    for cell in &mut after.1.cells {
        if let Outcome::Measured(measured) = &mut cell.outcome {
            measured.invalid.insert("starved".to_owned(), "It stood still.".to_owned());
        }
    }
    let comparison = Comparison::of(&moody(1, 1.0, [1.0, 1.0]), &after).unwrap();
    assert_eq!(verdict(&comparison, "epoll", 10, Metric::Rate), Direction::Better);
    assert_eq!(verdict(&comparison, "epoll", 10, Metric::P50), Direction::Unsure);
}

#[test]
fn blocks_in_which_the_load_generator_waited_tell_nothing_of_a_rate() {
    let mut after = moody(2, 0.5, [1.0, 1.0]);
    for cell in &mut after.1.cells {
        if let Outcome::Measured(measured) = &mut cell.outcome {
            measured.invalid.insert("starved".to_owned(), "It stood still.".to_owned());
        }
    }
    for block in &mut after.1.blocks {
        block.disturbance.processors[1].strangers = 0.6;
        block.slices.iter_mut().for_each(|slice| slice.client_wait_share = 0.5);
    }
    let comparison = Comparison::of(&moody(1, 1.0, [1.0, 1.0]), &after).unwrap();
    assert_eq!(verdict(&comparison, "epoll", 10, Metric::Rate), Direction::Unsure);
    assert_eq!(verdict(&comparison, "epoll", 10, Metric::Cpu), Direction::Worse);
    let answer = shown(&comparison);
    assert!(answer.contains("In the second, other processes used more than a tenth"), "{answer}");
    assert!(!answer.contains("In the first, other processes"), "{answer}");
}

#[test]
fn one_repeat_can_tell_nothing() {
    let comparison = Comparison::of(&run(1, quicker), &run(3, same)).unwrap();
    assert_eq!(verdict(&comparison, "epoll", 100, Metric::Rate), Direction::Unsure);
    assert!(comparison.regressions(0.0).is_empty() && !comparison.is_sure_of_anything());
    assert!(shown(&comparison).contains("measure with --repeats 3 or more"));
}

#[test]
fn where_the_load_generator_was_the_limit_the_server_may_be_quicker_than_it_looks() {
    let limited = |_: &str, _: usize, measured: &mut Measured| {
        measured.client_was_limit = true;
        measured.requests_per_second *= 0.5;
        measured.server_cpu_us_per_request *= 2.0;
    };
    let comparison = Comparison::of(&run(3, same), &run(3, limited)).unwrap();
    assert_eq!(verdict(&comparison, "epoll", 10, Metric::Rate), Direction::Unsure);
    assert_eq!(verdict(&comparison, "epoll", 10, Metric::Cpu), Direction::Worse);
}

#[test]
fn what_fails_or_starves_now_is_a_regression() {
    let mut after = run(3, |name, count, measured| {
        if (name, count) == ("threads", 100) {
            measured.connections_served = 3;
        }
    });
    for cell in after.1.cells.iter_mut().filter(|cell| cell.subject == "epoll") {
        cell.outcome = match cell.concurrency {
            10 => Outcome::Failed { reason: "it crashed".into() },
            _ => Outcome::lacking("no epoll here"),
        };
    }
    let comparison = Comparison::of(&run(3, same), &after).unwrap();
    assert_eq!(
        comparison.regressions(5.0),
        [
            "epoll at 10 connections, in the second run: the server failed in 3 of 3 sessions: it crashed",
            "threads at 100 connections, in the second run: connections got no reply at all",
        ]
    );
    let answer = shown(&comparison);
    assert!(
        answer.contains("only in the first: epoll at 100 (the other: unavailable: no epoll here)")
    );
}

/// The kinds of faults that exclude a subject from a choice also fail a build, and stand first.
#[test]
fn what_excludes_a_subject_fails_the_gate() {
    let failed = |kind: &'static str, count: u64| {
        run(3, move |name, load, measured| {
            if (name, load) == ("epoll", 100) {
                measured.errors.insert(kind.to_owned(), count);
            }
        })
    };
    for (kind, count, message) in [
        ("wrong-bytes", 1, "3 of 303,003 replies were wrong"),
        ("cut-short", 1, " replies were wrong"),
        ("wrong-status", 1, " replies were wrong"),
        ("malformed", 1, " replies were wrong"),
        ("reset", 5_000, " requests failed"),
        ("timed-out", 5_000, " requests failed"),
    ] {
        let after = failed(kind, count);
        let comparison = Comparison::of(&run(3, same), &after).unwrap();
        let regressions = comparison.regressions(5.0);
        let first = &regressions[0];
        assert!(first.starts_with("epoll at 100 connections, in the second run: "), "{first}");
        assert!(first.contains(message), "{kind}: {first}");
        let choice = "The second run cannot be chosen: ";
        assert!(shown(&comparison).starts_with(&format!("{choice}{first}")), "{kind}");
        let page = html(&runs::sheet(["a", "b"], slice::from_ref(&comparison), &[]));
        assert!(page.contains(first.as_str()), "{kind}");
        // A choice leaves the same subject out.
        let chosen = duality_lab::judge::summary::Summary::of(&after.0, &after.1);
        assert!(chosen.excluded().any(|(name, ..)| name == "epoll"), "{kind}");
    }
    // A wrong reply is never good enough, but other faults of both runs are no change.
    let both = |kind, count| {
        let (one, other) = (failed(kind, count), failed(kind, count));
        Comparison::of(&one, &other).unwrap().regressions(5.0).len()
    };
    assert_eq!((both("wrong-bytes", 1), both("reset", 5_000)), (1, 0));
    // Failures of the load generator's own, and few of the server's, exclude no subject.
    for (kind, count) in [("no-ports", 5_000), ("reset", 3)] {
        let comparison = Comparison::of(&run(3, same), &failed(kind, count)).unwrap();
        assert_eq!(comparison.regressions(5.0), Vec::<String>::new(), "{kind}");
    }
}

#[test]
fn what_differs_is_named_and_what_is_incomparable_refused() {
    let before = run(3, same);
    let mut after = run(3, same);
    after.0.machine.kernel = "Linux 7.0".into();
    after.0.machine.settings.remove("clock source");
    after.0.design.window_seconds = 4.0;
    after.0.design.server_arguments = vec!["--workers=4".into()];
    let answer = shown(&Comparison::of(&before, &after).unwrap());
    for line in [
        "kernel: Linux 6.12.0 → Linux 7.0",
        "clock source: tsc → not known",
        "window: 2.0 s → 4.0 s",
        "server arguments: --root /srv/www → --workers=4",
    ] {
        assert!(answer.contains(line), "{answer}");
    }
    after.0.design.service = "echo".into();
    let refused = Comparison::of(&before, &after).unwrap_err().to_string();
    assert!(refused.contains("`http`") && refused.contains("`echo`"), "{refused}");
    assert!(!refused.contains('\n'));
}

#[test]
fn the_page_is_whole_and_escapes_what_it_shows() {
    let mut after = run(3, quicker);
    after.0.machine.cpu = "</script><script>alert(1)</script>".into();
    after.0.design.architectures.push("<b>only</b>".into());
    after.1.cells.push(fixtures::cell("<b>only</b>", 10, 0, after.1.cells[0].outcome.clone()));
    let comparison = Comparison::of(&run(3, same), &after).unwrap();
    let data = serde_json::to_string(&comparison.data()).unwrap();
    assert!(data.contains(r#""verdict":"better""#), "{data}");
    let page = html(&runs::sheet(["<i>a</i>", "b"], &[comparison], &[]));
    assert!(!page.contains("<script>alert") && !page.contains("<i>a") && !page.contains("<b>only"));
    assert!(page.contains("1.50 [1.45 to 1.56] faster"), "{page}");
    assert!(page.contains("class=\"chart forest\""));
}
