//! What a reader sees first: wrong replies, what is sure, and what is not known.

use duality_lab::record::{Outcome, kept_slo};

use crate::trials::{Shape, Trial, busy, clear, said, says, text, trial};

#[test]
fn wrong_replies_in_slices_stand_in_the_first_line() {
    let names = ["threads", "uring", "epoll"];
    let wrong = |shape: fn(&str, usize) -> Shape| {
        trial(&names, &[100], shape).with_failures("uring", 5, "wrong-bytes", 72)
    };
    let first = |trial: &Trial| text(&said(trial))[0].to_owned();
    let sentence = " Disqualified for wrong replies: uring (72 of ";
    let chosen = first(&wrong(clear));
    assert!(chosen.starts_with("Choose epoll: it is the best at 100 connections."), "{chosen}");
    assert!(chosen.contains(sentence) && chosen.ends_with(" at 100 connections)."), "{chosen}");
    let level = first(&wrong(|_, _| busy(12.0)));
    assert!(level.starts_with("No difference above ") && level.contains(sentence), "{level}");
    let few = Trial::new(&names, &[100], 3, 1, 0.01, 1, clear);
    let few = first(&few.with_failures("uring", 2, "wrong-bytes", 72));
    assert!(few.contains(sentence), "{few}");
    // It is a warning beside its row, too.
    let text = wrong(clear).summary().render_text(&said(&wrong(clear)), None);
    assert!(text.contains("! uring: wrong-bytes 72 times in slices. (at 100)"), "{text}");
}

#[test]
fn requests_of_the_best_that_failed_stand_in_the_first_line() {
    let cut = trial(&["threads", "epoll"], &[100], clear).with_failures("epoll", 5, "reset", 12);
    let first = text(&said(&cut))[0].to_owned();
    assert!(first.starts_with("Choose epoll: it is the best at 100 connections."), "{first}");
    assert!(first.contains(" Requests failed: epoll (12 of "), "{first}");
    let other =
        trial(&["threads", "epoll"], &[100], clear).with_failures("threads", 5, "reset", 12);
    assert_eq!(text(&said(&other))[0], "Choose epoll: it is the best at 100 connections.");
}

/// Never "No, a change does not pay" together with "Choose uring".
#[test]
fn beside_what_runs_today_there_is_one_verdict() {
    let names = ["threads", "epoll", "uring"];
    let mut seen = [0; 3];
    for seed in 0..48_u64 {
        // From level to far apart, one load or both, and from quiet to noisy.
        let gain = [1.0, 0.97, 0.9, 0.6][seed as usize % 4];
        let noise = [0.02, 0.1, 0.5][seed as usize / 4 % 3];
        let mut trial =
            Trial::new(&names, &[10, 100], 3, 6, noise, seed, |name, count| match name {
                "uring" if count == 100 || seed % 2 == 0 => busy(12.0 * gain),
                "epoll" if seed % 5 == 0 => busy(12.0 / gain),
                _ => busy(12.0),
            });
        trial.heading.current = Some("threads".to_owned());
        let answer = said(&trial);
        let first = text(&answer)[0].to_owned();
        let chosen = answer.architecture.as_deref();
        if first.starts_with("Yes, a change from threads pays") {
            seen[0] += 1;
            let named = chosen.is_some_and(|name| first.contains(&format!(": {name} takes ")));
            assert!(named && chosen != Some("threads"), "{chosen:?}: {first}");
        } else if first.starts_with("No, a change from threads does not pay") {
            seen[1] += 1;
            assert_eq!(chosen, Some("threads"), "{first}");
        } else {
            seen[2] += 1;
            assert!(first.starts_with("Cannot tell"), "{first}");
            assert_eq!(chosen, None, "{first}");
        }
        let whole = trial.summary().render_text(&answer, None);
        assert!(!whole.contains("Choose "), "{whole}");
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}

#[test]
fn what_is_sure_is_said_where_none_can_be_chosen() {
    let names = ["threads", "fork", "poll", "uring", "epoll"];
    let trial =
        Trial::new(&names, &[100, 1000], 3, 6, 0.25, 1, |name, count| match (name, count) {
            ("threads", _) => busy(30.0),
            ("fork", 1000) => busy(40.0),
            _ => busy(12.0),
        });
    let answer = said(&trial);
    assert_eq!(answer.architecture, None);
    assert_eq!(
        text(&answer)[0],
        "Choose any of epoll, fork, poll and uring at 100 connections; any of epoll, poll and uring at 1,000 connections (differences under 35 % \
         among them would not have been seen); worse for sure at 1,000 connections: threads by 153 % more processor time [87 to 240] and \
         fork by 231 %."
    );
    let why =
        "At 100 connections it is not known which of the best set is best: only differences above ";
    assert!(
        says(&answer, why, " would be seen: give it more --repeats, or a quieter machine."),
        "{answer:#?}"
    );
    let out = "Worse for sure at 100 connections, by processor time for a request: threads +1";
    assert!(says(&answer, out, "]."), "{answer:#?}");
    let found = "What is not told apart from the best is at most ";
    assert!(
        says(&answer, found, "four times the --repeats halve what is not known."),
        "{answer:#?}"
    );
    let text = trial.summary().render_text(&answer, None);
    assert!(!text.contains("No recommendation"), "{text}");
}

#[test]
fn who_serves_more_than_the_best_is_explained() {
    let names = ["threads", "epoll"];
    let explained = |client_us: f64, rate: f64| {
        let trial = trial(&names, &[100], |name, _| match name {
            "epoll" => Shape { server_us: 12.0, client_us, rate },
            _ => Shape { server_us: 24.0, client_us: 15.0, rate: 70_000.0 },
        });
        let answer = said(&trial);
        assert_eq!(answer.architecture.as_deref(), Some("epoll"), "{answer:#?}");
        text(&answer)[1].to_owned()
    };
    let limited = explained(15.0, 60_000.0);
    assert!(
        limited.starts_with("At 100 connections threads serves more requests/s, "),
        "{limited}"
    );
    assert!(
        limited.ends_with(
            "because the load generator was the limit of epoll: its rate may be higher."
        ),
        "{limited}"
    );
    let moved = explained(20.0, 30_000.0);
    assert!(moved.contains(" of its own time for a request beside "), "{moved}");
    let idle = explained(15.0, 30_000.0);
    assert!(
        idle.contains("epoll used 3") && idle.ends_with("the rest could serve more."),
        "{idle}"
    );
    let mut shared = trial(&names, &[100], |name, _| match name {
        "epoll" => Shape { server_us: 12.0, client_us: 15.0, rate: 30_000.0 },
        _ => Shape { server_us: 24.0, client_us: 15.0, rate: 70_000.0 },
    });
    for block in &mut shared.records.blocks {
        block.disturbance.processors[0].strangers = 0.6;
    }
    let shared = text(&said(&shared))[1].to_owned();
    assert!(shared.contains("because other processes used its processors meanwhile"), "{shared}");
    let agreed = explained(15.0, 90_000.0);
    assert!(agreed.starts_with("At 100 connections it takes "), "{agreed}");
}

/// A latency of an invalid window does not count: it neither keeps nor breaks a limit.
#[test]
fn nothing_follows_from_the_latencies_of_invalid_windows() {
    let names = ["threads", "epoll"];
    let asked = |invalid: &[&str], slo: &str| {
        let mut trial = trial(&names, &[100], clear);
        trial.heading.constraints.slo = vec![kept_slo(slo).unwrap()];
        for cell in trial.records.cells.iter_mut().filter(|one| invalid.contains(&&*one.subject)) {
            let Outcome::Measured(figures) = &mut cell.outcome else { panic!() };
            figures.invalid.insert("starved".to_owned(), "It had no processor.".to_owned());
        }
        said(&trial)
    };
    for slo in ["p99=1us", "p99=1s"] {
        let all = asked(&names, slo);
        let first = text(&all)[0];
        assert!(
            first.starts_with(
                "No recommendation: it is not known which architecture keeps p99 ≤ 1.0 "
            ),
            "{first}"
        );
        assert!(
            !text(&all).iter().any(|sentence| sentence.starts_with("No architecture keeps")),
            "{all:#?}"
        );
        assert!(all.refused.is_empty() && all.doubts.is_empty(), "{all:#?}");
    }
    let one = asked(&["epoll"], "p99=1s");
    let sentence = "It is not known whether epoll keeps p99 ≤ 1.0 s at 100 connections, because the load generator could not do its \
                work in their windows (✗): no choice there.";
    assert!(text(&one).contains(&sentence), "{one:#?}");
    assert_eq!(one.architecture, None);
    let broken = asked(&[], "p99=1us");
    assert!(
        says(&broken, "No architecture keeps p99 ≤ 1.0 µs at 100 connections; ", "."),
        "{broken:#?}"
    );
}

/// A block in which one server alone answered compares nothing, and was measured all the same.
#[test]
fn no_more_blocks_are_disturbed_than_there_are() {
    let mut trial = trial(&["threads", "epoll"], &[100], clear);
    for block in &mut trial.records.blocks {
        block.disturbance.processors[1].strangers = 0.5;
    }
    let slices = &mut trial.records.blocks[3].slices;
    slices.iter_mut().filter(|one| one.subject == "threads").for_each(|one| one.requests = 0);
    let disturbance = said(&trial).disturbance;
    assert!(disturbance[0].contains(" in 21 of 21 blocks, up to 50 %: "), "{disturbance:?}");
}

#[test]
fn one_round_is_told_as_one() {
    let mut trial = Trial::new(&["threads", "epoll"], &[100], 1, 0, 0.0, 1, clear);
    trial.heading.design.clients.pattern = "serial".to_owned();
    let answer = said(&trial);
    let sentence = "At 100 connections no verdict: 1 round of windows is too few, it takes 3: give it more --repeats.";
    assert!(text(&answer).contains(&sentence), "{answer:#?}");
}
