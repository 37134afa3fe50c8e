//! The race by the records of made-up experiments: which subjects are out, since when, and which go
//! on.

use std::collections::BTreeSet;

use duality_lab::judge::race::{Lane, lane};
use duality_lab::judge::verdict::{Cause, Finding, Question, Verdict};
use duality_lab::record::Outcome;

use crate::trials::{Trial, busy, trial};

/// The race at 100 connections, with these subjects disqualified.
fn raced(trial: &Trial, disqualified: &[&str]) -> Lane {
    let disqualified: BTreeSet<(String, usize)> =
        disqualified.iter().map(|name| ((*name).to_owned(), 100)).collect();
    let Trial { heading, records, .. } = trial;
    lane(Question { heading, records, disqualified: &disqualified }, 100)
}

/// Three sessions of a race, in which these take so many microseconds.
fn race(costs: &[(&'static str, f64)]) -> Trial {
    let names: Vec<&str> = costs.iter().map(|(name, _)| *name).collect();
    let cost = |name: &str| costs.iter().find(|(known, _)| *known == name).unwrap().1;
    let mut trial = trial(&names, &[100], |name, _| busy(cost(name)));
    trial.heading.design.race = true;
    trial
}

/// Takes away what a race would not have measured: slices of these after so many blocks.
fn leave(trial: &mut Trial, names: &[&str], blocks: usize) {
    for block in trial.records.blocks.iter_mut().skip(blocks) {
        block.slices.retain(|slice| !names.contains(&slice.subject.as_str()));
    }
    let is_kept = |session: usize, name: &str| session == 0 || !names.contains(&name);
    trial.records.cells.retain(|cell| is_kept(cell.repeat, &cell.subject));
}

const FOUR: [(&str, f64); 4] = [("epoll", 12.0), ("uring", 12.0), ("pool", 30.0), ("fork", 40.0)];

#[test]
fn what_is_worse_for_sure_is_out_since_a_look_and_the_others_go_on() {
    let lane = raced(&race(&FOUR), &[]);
    assert_eq!(lane.goes_on, ["epoll", "uring"]);
    let pool = lane.out("pool").unwrap();
    assert!(pool.blocks <= 5 && pool.sessions == 1, "{pool:?}");
    assert!(0.5 < pool.low && pool.low < pool.behind, "{pool:?}");
    assert!(!lane.is_out("uring"));

    let mut no_race = race(&FOUR);
    no_race.heading.design.race = false;
    let lane = raced(&no_race, &[]);
    assert_eq!((lane.out.len(), lane.goes_on.len()), (0, 4));
}

#[test]
fn in_the_first_session_only_what_no_process_explains_is_out() {
    let mut trial = race(&[("epoll", 12.0), ("uring", 12.0), ("poll", 15.0), ("fork", 40.0)]);
    trial.records.blocks.truncate(7);
    let lane = raced(&trial, &[]);
    assert_eq!(lane.goes_on, ["epoll", "uring", "poll"]);
    assert!(!lane.is_answered());
}

#[test]
fn a_subject_comes_back_if_the_one_that_put_it_out_fails() {
    let trial = race(&[("epoll", 6.0), ("uring", 12.0), ("poll", 12.0), ("fork", 40.0)]);
    assert_eq!(raced(&trial, &[]).out.len(), 3);
    let lane = raced(&trial, &["epoll"]);
    assert!(!lane.is_out("uring") && !lane.is_out("poll") && lane.is_out("fork"), "{lane:?}");
}

#[test]
fn one_that_never_ran_is_not_tried_in_each_session() {
    let mut trial = race(&FOUR);
    for cell in trial.records.cells.iter_mut().filter(|cell| cell.subject == "fork") {
        cell.outcome = Outcome::Failed { reason: "it ended".into() };
    }
    for block in &mut trial.records.blocks {
        block.slices.retain(|slice| slice.subject != "fork");
    }
    assert_eq!(raced(&trial, &["fork"]).goes_on, ["epoll", "uring"]);
}

#[test]
fn what_runs_today_goes_on() {
    let mut trial = race(&FOUR);
    trial.heading.current = Some("fork".into());
    let lane = raced(&trial, &[]);
    assert!(!lane.is_out("fork") && lane.is_out("pool"), "{lane:?}");
}

#[test]
fn the_control_races_like_the_others() {
    let trial = race(&[("epoll", 12.0), ("uring", 30.0)]).with_control("epoll", 1.0);
    let lane = raced(&trial, &[]);
    assert_eq!(lane.goes_on, ["epoll", "epoll (again)"]);
    let slow = race(&[("epoll", 12.0), ("uring", 12.0)]).with_control("epoll", 3.0);
    assert!(raced(&slow, &[]).is_out("epoll (again)"));
    // A control that differs from itself withholds the verdict, as it does without a race.
    assert_eq!(slow.verdict().finding, Finding::Withheld { cause: Cause::Control });
}

#[test]
fn the_next_best_goes_on_beside_a_sole_one_until_there_are_three_sessions() {
    let mut trial = race(&[("epoll", 12.0), ("uring", 30.0), ("fork", 60.0)]);
    trial.records.blocks.truncate(7);
    let lane = raced(&trial, &[]);
    assert_eq!(
        (lane.goes_on.as_slice(), lane.is_told),
        (&["epoll".into(), "uring".into()][..], true)
    );
    let lane = raced(&race(&[("epoll", 12.0), ("uring", 30.0), ("fork", 60.0)]), &[]);
    assert_eq!(lane.goes_on, ["epoll"]);
    assert!(lane.is_answered());
}

#[test]
fn the_verdict_keeps_what_is_out_with_what_was_seen() {
    let mut trial = race(&FOUR);
    leave(&mut trial, &["pool", "fork"], 5);
    let verdict: Verdict = trial.verdict();
    let standing = |name: &str| verdict.standings.iter().find(|one| one.subject == name).unwrap();
    for name in ["pool", "fork"] {
        let one = standing(name);
        let out = one.out.expect(name);
        assert!(!one.level && out.low <= one.low && one.low < one.high, "{one:?}");
    }
    assert!(standing("epoll").out.is_none() && standing("uring").level, "{verdict:?}");
    assert_ne!(verdict.finding, Finding::Withheld { cause: Cause::Partial });
    let summary = trial.summary();
    assert_eq!(summary.done, summary.planned, "what a race leaves out is not missing");
}
