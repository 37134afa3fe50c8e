//! Plan files, which may come from any source.
//!
//! An experiment's name is fit for a directory, no two names are the same, and settings are within
//! their bounds. A peer has a command that can be started. An error is one line, with a place in
//! the text.

#![no_main]

use std::collections::BTreeSet;

use duality_lab::ask::file::{Problem, parse};
use duality_lab::ask::settings::Misfit;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let plan = match parse(text) {
        Ok(plan) => plan,
        Err(problem) => return check_problem(&problem, text),
    };
    assert!(!plan.title.trim().is_empty() && !plan.title.contains(char::is_control));
    assert!(!plan.source.contains(char::is_control));
    assert!((1..=100).contains(&plan.experiments.len()));
    let mut peers = BTreeSet::new();
    for peer in &plan.peers {
        assert!((1..=32).contains(&peer.name.len()) && peers.insert(&peer.name));
        assert!(
            !peer.command[0].is_empty() && !peer.command.iter().any(|word| word.contains('\0'))
        );
        assert!(0.0 < peer.start_seconds && peer.start_seconds <= 600.0);
    }
    let mut names = BTreeSet::new();
    for experiment in &plan.experiments {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        assert!((1..=64).contains(&experiment.name.len()) && experiment.name.bytes().all(is_plain));
        assert!(!experiment.name.starts_with('-') && names.insert(&experiment.name));
        assert!(experiment.settings.check().is_ok());
        for key in ["service", "concurrency", "window", "no such key", Misfit::WHOLE] {
            check_problem(&experiment.problem(&Misfit::new(key, "no")), text);
        }
    }
});

fn check_problem(problem: &Problem, text: &str) {
    let message = problem.to_string();
    assert!(!message.contains('\n'), "{message:?}");
    let line = text.split('\n').nth(problem.position.line - 1).expect("the line is there");
    assert!((1..=line.chars().count() + 1).contains(&problem.position.column), "{message:?}");
}
