//! The recommendation's words, and the terminal's tables, for made-up experiments.

use std::fs;
use std::path::Path;

use duality_lab::judge::summary::Summary;
use duality_lab::measure::peers::ReadyMade;
use duality_lab::record::Peer;
use duality_lab::record::{Constraints, Design, Outcome, Variant, Ways, kept_slo};
use duality_lab::tell::recommendation::{Recommendation, recommend};
use duality_load::Exhausted;

use crate::fixtures;
use crate::trials::{Shape, Trial, busy, clear, said, says, text, trial};

#[test]
fn one_is_the_best_everywhere() {
    let answer = said(&trial(&["threads", "epoll"], &[10, 100], clear));
    assert_eq!(answer.architecture.as_deref(), Some("epoll"));
    assert_eq!(text(&answer)[0], "Choose epoll: it is the best at 10 and 100 connections.");
    assert!(says(&answer, "At 100 connections it takes 1", "]."), "{answer:#?}");
    let next = "of processor time for a request (";
    assert!(text(&answer)[1].contains(next), "{answer:#?}");
    assert!(
        text(&answer)[1].contains("the next that is worse for sure is threads, with 2"),
        "{answer:#?}"
    );
    assert!(
        says(&answer, "There its p99 latency is ", "4.0 MiB (the least: 3.0 MiB of threads)."),
        "{answer:#?}"
    );
    assert!(!says(&answer, "What is not told apart", ""), "nothing is left: {answer:#?}");
    assert!(answer.crossovers.is_empty() && answer.disturbance.is_empty());
}

#[test]
fn one_is_best_here_and_another_there() {
    let trial = trial(&["threads", "epoll"], &[1, 100, 1000], |name, count| match (name, count) {
        ("threads", 1) => busy(13.0),
        ("threads", _) => busy(18.0),
        (_, 1) => busy(16.0),
        _ => busy(12.0),
    });
    let answer = said(&trial);
    assert_eq!(
        text(&answer)[0],
        "Choose epoll: no other is better at 2 of 3 numbers of connections (100 and 1,000 connections)."
    );
    let elsewhere =
        "Others are better elsewhere: threads at 1 connection, where epoll is behind with ";
    assert!(says(&answer, elsewhere, "]."), "{answer:#?}");
    let passes = "The lead passes from threads to epoll between 1 and 100 connections.";
    assert!(text(&answer).contains(&passes), "{answer:#?}");
}

#[test]
fn those_that_are_level_are_named() {
    let names = ["threads", "uring", "epoll"];
    let trial = trial(&names, &[100], |name, _| busy(if name == "threads" { 15.0 } else { 12.0 }));
    let answer = said(&trial);
    let chosen = answer.architecture.as_deref().unwrap();
    assert!(["uring", "epoll"].contains(&chosen));
    let first = text(&answer)[0];
    assert!(
        first.starts_with(&format!("Choose {chosen}: no other is better at 100 connections (")),
        "{first}"
    );
    assert!(first.contains(" (not told apart from it: "), "{first}");
}

#[test]
fn among_equals_it_is_one_that_does_not_look_at_idle_connections() {
    let names = ["threads", "poll", "epoll"];
    let level = trial(&names, &[100], |name, _| busy(if name == "threads" { 15.0 } else { 12.0 }));
    assert_eq!(said(&level).architecture.as_deref(), Some("epoll"));
    let ahead = trial(&names, &[100], |name, _| busy(if name == "poll" { 12.0 } else { 15.0 }));
    let answer = said(&ahead);
    assert_eq!(answer.architecture.as_deref(), Some("poll"));
    let sentence = "poll looks at every open connection in each round, also at idle ones: where there will be many, measure \
                with as many (--idle).";
    assert!(text(&answer).contains(&sentence), "{answer:#?}");
}

#[test]
fn no_difference_is_no_recommendation() {
    let answer = said(&trial(&["threads", "epoll"], &[100], |_, _| busy(12.0)));
    assert_eq!(answer.architecture, None);
    assert!(text(&answer)[0].starts_with("No difference above "), "{answer:#?}");
    assert!(
        text(&answer)[0]
            .ends_with(" was found between any of them: choose by something else than speed.")
    );
}

#[test]
fn the_sole_survivor_is_no_leader() {
    let answer = said(&trial(&["epoll"], &[100], clear));
    assert_eq!(answer.architecture, None);
    assert_eq!(
        text(&answer)[0],
        "No recommendation: only epoll was measured and can be chosen, so there is nothing to compare it with."
    );
}

#[test]
fn half_an_experiment_recommends_nothing() {
    let mut trial = trial(&["threads", "epoll"], &[10, 100], clear);
    trial.records.cells.truncate(9);
    let answer = said(&trial);
    assert_eq!(answer.architecture, None);
    assert_eq!(
        text(&answer)[0],
        "No recommendation: the experiment is not complete (partial: 9 of 12 cells)."
    );
}

#[test]
fn a_cause_and_a_remedy_are_told_where_nothing_can_be_said() {
    let names = ["threads", "epoll"];
    let failed = said(&trial(&names, &[100], clear).with_control("epoll", 1.3));
    assert_eq!(failed.architecture, None);
    let cause = "At 100 connections no verdict: epoll differs from itself by ";
    assert!(says(&failed, cause, "measure again, with more --repeats."), "{failed:#?}");

    let noisy = said(&Trial::new(&names, &[100], 3, 6, 0.6, 1, clear));
    let cause = "At 100 connections no verdict: only differences above ";
    let remedy = "would be seen: give it more --repeats, or a quieter machine.";
    assert!(says(&noisy, cause, remedy), "{noisy:#?}");

    let few = said(&Trial::new(&names, &[100], 3, 2, 0.01, 1, |_, _| busy(12.0)));
    let cause = "At 100 connections no verdict: 6 blocks in 3 sessions are too few, it takes 15 in 3: give it more \
                 --repeats.";
    assert!(text(&few).contains(&cause), "{few:#?}");
}

#[test]
fn what_the_machine_did_is_told_first() {
    let mut trial = trial(&["threads", "epoll"], &[100], clear);
    trial.records.blocks[3].disturbance.processors[0].stolen = 0.31;
    trial.records.blocks[15].disturbance.processors[1].strangers = 0.5;
    let disturbance = said(&trial).disturbance;
    assert_eq!(
        disturbance,
        [
            "The hypervisor took more than a tenth of a processor (up to 31 % of processor 0) in or around 3 of 21 blocks, which \
             count less; 0 more were measured.",
            "Other processes used more than a tenth of a processor of the measurement in 1 of 21 blocks, up to 50 %: processor times \
             allow for them, rates and latencies suffer. End them, or measure on other processors (--server-cpus, --client-cpus).",
        ]
    );
    let text = trial.summary().render_text(&said(&trial), None);
    assert!(text.starts_with("The hypervisor took"), "{text}");
}

#[test]
fn a_quota_of_a_control_group_is_no_other_process() {
    let mut trial = trial(&["threads", "epoll"], &[100], |_, _| Shape {
        server_us: 12.0,
        client_us: 5.0,
        rate: 30_000.0,
    });
    let written = r#"{"group":"/sys/fs/cgroup/a","processors":0.5,"times":3}"#;
    let quota: Exhausted = serde_json::from_str(written).unwrap();
    for block in trial.records.blocks.iter_mut().skip(1) {
        block.disturbance.quota = Some(quota.clone());
        for slice in &mut block.slices {
            slice.client_wait_share = 0.5;
        }
    }
    let answer = said(&trial);
    let sentence = "The CPU quota of the control group ran out in 20 of ";
    assert!(answer.disturbance.iter().any(|line| line.starts_with(sentence)), "{answer:#?}");
    let cause =
        "the CPU quota of the control group disturbed 20 of 21 blocks: raise it (`cpu.max`)";
    assert!(text(&answer).join("\n").contains(cause), "{answer:#?}");
    assert!(!text(&answer).join("\n").contains("other processes"), "{answer:#?}");
}

#[test]
fn work_that_moved_is_told() {
    let trial = trial(&["threads", "epoll"], &[1000], |name, _| match name {
        "epoll" => Shape { server_us: 16.4, client_us: 35.1, rate: 27_600.0 },
        _ => Shape { server_us: 23.6, client_us: 23.9, rate: 39_000.0 },
    });
    let answer = said(&trial);
    let sentence = "Not ranked by the server's time alone: over loopback either end may do the kernel's work for a \
                connection, and this work moved: at 1,000 connections epoll takes 1";
    assert!(says(&answer, sentence, "."), "{answer:#?}");
}

#[test]
fn superlatives_are_over_all() {
    // The leader has the second least memory of all, though the others are far behind.
    let mut trial = trial(&["threads", "pool", "epoll"], &[100], |name, _| {
        busy(if name == "epoll" { 12.0 } else { 18.0 })
    });
    for cell in &mut trial.records.cells {
        let Outcome::Measured(figures) = &mut cell.outcome else { panic!() };
        let mib = match cell.subject.as_str() {
            "threads" => 6.8,
            "pool" => 8.2,
            _ => 12.2,
        };
        figures.server_peak_bytes = (mib * 1024.0 * 1024.0) as u64;
    }
    let answer = said(&trial);
    assert!(
        says(&answer, "There its p99", "12.2 MiB (the least: 6.8 MiB of threads)."),
        "{answer:#?}"
    );
}

#[test]
fn what_disqualifies_is_told_and_changes_the_choice() {
    let mut trial = trial(&["threads", "pool", "epoll"], &[1000], |name, _| match name {
        "epoll" => busy(12.0),
        "pool" => busy(14.0),
        _ => busy(16.0),
    });
    for cell in trial.records.cells.iter_mut().filter(|cell| cell.subject == "epoll") {
        let Outcome::Measured(figures) = &mut cell.outcome else { panic!() };
        figures.connections_served = 2;
    }
    for slice in trial.records.blocks.iter_mut().flat_map(|block| &mut block.slices) {
        if slice.subject == "epoll" {
            slice.connections_served = 2;
        }
    }
    let answer = said(&trial);
    assert_eq!(answer.architecture.as_deref(), Some("pool"));
    let why =
        "No choice, because connections got no reply at all: epoll (998 connections of 1,000).";
    assert!(text(&answer).contains(&why), "{answer:#?}");
}

#[test]
fn the_yardstick_is_not_chosen() {
    let names = ["handwritten", "threads", "epoll"];
    let answer = said(&trial(&names, &[100], |name, _| match name {
        "handwritten" => busy(10.5),
        "epoll" => busy(12.0),
        _ => busy(15.0),
    }));
    assert_eq!(answer.architecture.as_deref(), Some("epoll"));
    let yardstick =
        "handwritten is a yardstick and no choice: only hand-written services run on it.";
    assert!(text(&answer).contains(&yardstick), "{answer:#?}");
}

#[test]
fn a_peer_is_no_choice_but_a_reference() {
    let mut trial = trial(&["threads", "epoll", "nginx"], &[100], |name, _| match name {
        "nginx" => busy(24.0),
        name => clear(name, 100),
    });
    trial.heading.design.architectures.pop();
    trial.heading.design.peers = vec![ReadyMade::named("nginx").unwrap().peer(false)];
    let answer = said(&trial);
    assert_eq!(answer.architecture.as_deref(), Some("epoll"));
    let beside = "Peers beside epoll at 100 connections, by processor time for a request: nginx +";
    assert!(says(&answer, beside, "]."), "{answer:#?}");
    let shown = trial.summary().render_text(&answer, None);
    assert!(
        shown.contains("server CPU per request as a multiple of nginx's, 99 % interval"),
        "{shown}"
    );
    let shown = trial.summary().render_text(&answer, Some("threads"));
    assert!(
        shown.contains("as a multiple of threads's") && !shown.contains("of nginx's"),
        "{shown}"
    );
}

#[test]
fn what_looks_at_idle_connections_is_known_by_its_poller() {
    let mut design = fixtures::heading(&["uthreads", "epoll", "poll"], &[100], 1).design;
    let looking = |design: &mut Design| {
        design.carriers.clear();
        design.add_older_carriers();
        design.subjects().map(|name| design.looks_at_all(name)).collect::<Vec<_>>()
    };
    design.server_arguments = vec!["--cores=1".into(), "--poller=epoll".into()];
    assert_eq!(looking(&mut design), [false, false, true]);
    for (poller, looks) in [("select", true), ("poll", true), ("uring", false)] {
        design.variants = vec![Variant {
            name: "uthreads".into(),
            architecture: "uthreads".into(),
            options: vec![format!("--poller={poller}")],
            server_arguments: vec!["--cores=1".into(), format!("--poller={poller}")],
        }];
        assert_eq!(looking(&mut design), [looks, false, true]);
    }
}

#[test]
fn a_whole_comparison_in_the_terminal() {
    let (heading, records) = fixtures::comparison();
    let summary = Summary::of(&heading, &records);
    let shown = summary.render_text(&recommend(&summary, &heading, &records), None);
    println!("{shown}");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/fixtures/comparison.txt");
    if std::env::var_os("DUALITY_BLESS").is_some() {
        fs::write(&file, &shown).unwrap();
    }
    assert_eq!(shown, fs::read_to_string(&file).unwrap());
}

/// The sentences under constraints, for architectures of which epoll has the shorter tail.
fn constrained(slo: &[&str], memory: Option<u64>) -> Recommendation {
    let mut trial = trial(&["threads", "pool", "epoll"], &[100, 1000], |name, _| match name {
        "epoll" => Shape { rate: 60_000.0, ..busy(12.0) },
        "pool" => Shape { rate: 55_000.0, ..busy(14.0) },
        _ => Shape { rate: 40_000.0, ..busy(18.0) },
    });
    let slo = slo.iter().map(|text| kept_slo(text).unwrap()).collect();
    trial.heading.constraints = Constraints { slo, memory };
    said(&trial)
}

#[test]
fn who_breaks_a_limit_is_excluded_and_the_nearest_named() {
    let answer = constrained(&["p99=5ms"], None);
    assert_eq!(answer.architecture.as_deref(), Some("epoll"));
    let sentences = text(&answer);
    assert!(
        sentences[0].starts_with(
            "Choose epoll: of those that keep p99 ≤ 5.0 ms, no other is better at 100"
        ),
        "{sentences:#?}"
    );
    for sentence in [
        "No architecture keeps p99 ≤ 5.0 ms at 1,000 connections; the nearest is epoll with a p99 of 42.5 ms.",
        "Excluded: threads by p99 ≤ 5.0 ms (6.4 ms at 100).",
    ] {
        assert!(sentences.contains(&sentence), "{sentence}: {sentences:#?}");
    }
    assert_eq!(answer.refused.len(), 4);

    let answer = constrained(&[], Some(7 << 19));
    assert_eq!(answer.architecture.as_deref(), Some("pool"));
    let sentence = "Excluded: epoll by memory ≤ 3.5 MiB (4.0 MiB at 100, 4.0 MiB at 1,000).";
    assert!(text(&answer).contains(&sentence), "{answer:?}");

    let answer = constrained(&["p50=1us"], Some(1));
    assert_eq!(answer.architecture, None);
    assert!(
        text(&answer)[0].contains("no architecture keeps p50 ≤ 1.0 µs and memory"),
        "{answer:?}"
    );
}

/// Compares `run` and `cc` with `native`.
fn asking(mut trial: Trial) -> Trial {
    let peer = |name: &str| Peer {
        name: name.to_owned(),
        ..ReadyMade::named("nginx").unwrap().peer(false)
    };
    let design = &mut trial.heading.design;
    design.architectures.clear();
    design.peers = ["native", "run", "cc"].map(peer).to_vec();
    let asked = [("run", "Should you run it so?"), ("cc", "Should you convert it?")];
    design.ways = Some(Ways {
        native: "native".into(),
        questions: asked.map(|(name, question)| (name.to_owned(), question.to_owned())).into(),
    });
    trial
}

#[test]
fn each_way_to_run_a_program_has_its_answer() {
    let names = ["native", "run", "cc"];
    let mut trial = asking(trial(&names, &[1, 100, 1000], |name, count| match (name, count) {
        ("cc", 1000) => busy(10.0),
        ("cc", 100) => busy(12.0),
        ("run", 1000) => busy(15.0),
        ("run", 1) => busy(25.0),
        _ => busy(20.0),
    }));
    let answer = said(&trial);
    let run = "Should you run it so? Yes at 1,000 connections: beside native it takes 2";
    assert!(says(&answer, run, "that of native 3.0 MiB."), "{answer:#?}");
    let convert =
        "Should you convert it? Yes at 100 and 1,000 connections: beside native it takes ";
    assert!(says(&answer, convert, "that of native 3.0 MiB."), "{answer:#?}");
    for part in [
        " No at 1 connection: beside native it takes 2",
        "% more processor time for a request [",
        "At 100 connections it is not told apart from native: they differ by ",
        "% less processor time for a request at 100 [",
        "% less at 1,000 [",
        "At 1 connection it is not told apart from native: they differ by ",
    ] {
        assert!(
            text(&answer).iter().any(|sentence| sentence.contains(part)),
            "{part}: {answer:#?}"
        );
    }
    let shown = trial.summary().render_text(&answer, None);
    assert!(shown.contains("as a multiple of native's, 99 % interval"), "{shown}");
    trial.records.cells.clear();
    let answer = said(&trial);
    assert!(says(&answer, "Should you convert it? ", "This run cannot tell."), "{answer:#?}");
}

#[test]
fn a_large_difference_is_an_answer_where_small_ones_cannot_be_seen() {
    let names = ["native", "run", "cc"];
    let answer = said(&asking(Trial::new(&names, &[100], 3, 7, 0.5, 1, |name, _| match name {
        "cc" => busy(5.0),
        _ => busy(20.0),
    })));
    assert_eq!(answer.architecture.as_deref(), Some("cc"));
    // The answer comes first.
    let first = text(&answer)[0];
    assert!(first.starts_with("Should you convert it? Yes at 100 connections"), "{answer:#?}");
    assert!(says(&answer, "Choose cc: it is the best at 100 connections.", ""), "{answer:#?}");
    assert!(says(&answer, "Should you run it so? ", "This run cannot tell."), "{answer:#?}");
}
