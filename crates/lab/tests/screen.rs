//! The first screen of made-up experiments always fits, and says what is sure.

mod fixtures;
mod trials;

use std::path::Path;

use duality_lab::record::{Constraints, Outcome, kept_slo};
use duality_lab::tell::answer::Answer;

use trials::{Trial, busy, clear, trial};

/// The screen of a trial, without its styles.
fn screen(trial: &Trial) -> String {
    let answer = Answer::of(&trial.heading, &trial.records);
    let styled = answer.render_screen(Path::new("out/report.html"), "duality report out --tables");
    let text = anstream::adapter::strip_str(&styled).to_string();
    let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    assert!(text.lines().count() <= 23 && widest <= 80, "{widest} columns:\n{text}");
    assert!(
        text.contains("Report: out/report.html\nMore:   duality report out --tables"),
        "{text}"
    );
    text
}

/// The line of the table with this beginning.
fn line<'a>(screen: &'a str, begin: &str) -> &'a str {
    let found = screen.lines().find(|line| line.starts_with(begin));
    found.unwrap_or_else(|| panic!("no line begins with {begin:?}:\n{screen}"))
}

#[test]
fn the_best_is_marked_and_all_others_are_beside_it() {
    let shown = screen(&trial(&["threads", "epoll"], &[10, 100], clear));
    assert!(
        shown.starts_with("Choose epoll: it is the best at 10 and 100 connections.\n"),
        "{shown}"
    );
    assert!(line(&shown, "At 100 connections  ").ends_with("memory  beside the best"), "{shown}");
    assert!(line(&shown, "* epoll ").ends_with("best set"), "{shown}");
    assert!(line(&shown, "  threads ").ends_with(']'), "{shown}");
}

#[test]
fn a_replay_is_at_so_many_times_the_users() {
    let shown = screen(&trial(&["threads", "epoll"], &[300, 3000], clear).of_recording());
    let choice = "Choose epoll: it is the best at 300 and 3,000 times your users.";
    assert!(shown.contains(choice), "{shown}");
    line(&shown, "At 3,000 times your users ");
    assert_eq!(fixtures::in_connections(&shown), Vec::<String>::new(), "{shown}");
}

#[test]
fn a_crowd_of_subjects_fits() {
    let names: Vec<String> = (0..40).map(|number| format!("architecture-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let shown = screen(&trial(&names, &[100], |name, _| {
        busy(12.0 + name.rsplit('-').next().map_or(0.0, |number| number.parse().unwrap_or(0.0)))
    }));
    assert!(shown.contains(" more (--tables)"), "{shown}");
}

#[test]
fn what_was_not_measured_or_is_out_says_why() {
    let mut trial = trial(&["threads", "epoll", "fork", "pool"], &[100], clear);
    for cell in &mut trial.records.cells {
        match (cell.subject.as_str(), &mut cell.outcome) {
            ("fork", outcome) => {
                let reason =
                    "it needs more processes than this machine allows: raise the limit".into();
                *outcome = Outcome::Unavailable { reason };
            }
            ("pool", Outcome::Measured(measured)) => {
                measured.errors.insert("wrong reply".to_owned(), 3);
            }
            _ => {}
        }
    }
    let shown = screen(&trial);
    assert!(line(&shown, "  fork ").contains("unavailable: it needs more"), "{shown}");
    assert!(line(&shown, "! ").contains("not measured everywhere: fork"), "{shown}");
}

#[test]
fn half_an_experiment_and_one_without_a_verdict_fit() {
    let mut half = trial(&["threads", "epoll"], &[10, 100], clear);
    half.records.cells.truncate(9);
    assert!(screen(&half).contains("partial: 9 of 12 cells"));
    let mut nothing = trial(&["threads", "epoll"], &[10, 100], clear);
    nothing.records.cells.clear();
    nothing.records.blocks.clear();
    screen(&nothing);
    let noisy = Trial::new(&["threads", "epoll"], &[100], 3, 6, 0.6, 1, clear);
    let shown = screen(&noisy);
    assert!(line(&shown, "  epoll ").ends_with("no verdict"), "{shown}");
    let failed = trial(&["threads", "epoll"], &[100], clear).with_control("epoll", 1.3);
    assert!(screen(&failed).contains("no verdict: epoll differs from itself"));
}

#[test]
fn a_broken_limit_is_a_reason() {
    let mut trial = trial(&["threads", "epoll"], &[100], clear);
    let slo = vec![kept_slo("p50=1us").unwrap()];
    trial.heading.constraints = Constraints { slo, memory: None };
    let shown = screen(&trial);
    assert!(line(&shown, "  epoll ").ends_with("breaks a limit"), "{shown}");
}

#[test]
fn a_change_that_pays_is_the_first_word() {
    let names = ["threads", "epoll", "fork"];
    let mut trial = trial(&names, &[10, 100], |name, count| match (name, count) {
        ("epoll", 100) => busy(8.0),
        ("fork", _) => busy(60.0),
        _ => busy(12.0),
    });
    trial.heading.current = Some("threads".to_owned());
    let shown = screen(&trial);
    let first = "Yes, a change from threads pays at 100 connections: epoll takes 3";
    assert!(shown.starts_with(first), "{shown}");
    assert!(line(&shown, "At 100 connections  ").ends_with("beside threads"), "{shown}");
    assert!(line(&shown, "  threads ").ends_with("runs today"), "{shown}");
    let epoll = line(&shown, "* epoll ");
    assert!(epoll.contains("-3") && epoll.ends_with(']'), "{shown}");
    assert!(line(&shown, "  fork ").contains(" +"), "{shown}");
}

#[test]
fn a_change_that_does_not_pay_is_told_with_what_would_have_been_seen() {
    let names = ["threads", "epoll"];
    let mut level = trial(&names, &[100], |_, _| busy(12.0));
    level.heading.current = Some("threads".to_owned());
    let shown = screen(&level);
    assert!(
        shown.starts_with("No, a change from threads does not pay: at 100 connections"),
        "{shown}"
    );

    let mut noisy = Trial::new(&names, &[100], 3, 6, 0.6, 1, |_, _| busy(12.0));
    noisy.heading.current = Some("threads".to_owned());
    let shown = screen(&noisy);
    let first = "Cannot tell whether a change from threads pays: at 100 connections a\ngain under ";
    assert!(shown.starts_with(first), "{shown}");

    let mut alone = trial(&["epoll"], &[100], clear);
    alone.heading.current = Some("threads".to_owned());
    let shown = screen(&alone);
    assert!(shown.starts_with("Cannot tell whether a change from threads pays: "), "{shown}");
}
