//! `duality simulate`: what it prints, and its mistakes in one line.

use std::process::{Command, Output};

fn simulate(arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_duality");
    Command::new(program).arg("simulate").args(arguments).output().unwrap()
}

#[test]
fn seeds_pass_and_come_back() {
    let words = ["chat", "--seeds", "3", "--for", "10s"];
    let first = simulate(&words);
    let text = String::from_utf8(first.stdout).unwrap();
    assert!(first.status.success(), "{text}");
    assert!(text.starts_with("chat: 3 seeds pass"), "{text}");
    let hash = |text: &str| text.lines().last().map(str::to_owned);
    let again = String::from_utf8(simulate(&words).stdout).unwrap();
    assert_eq!(hash(&text), hash(&again), "another process takes the same decisions");
}

#[test]
fn a_seed_is_told() {
    let output = simulate(&["time", "--seed", "3", "--for", "2s", "--trace"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("client1 → server1"), "{text}");
}

#[test]
fn a_mistake_is_one_line() {
    for (arguments, says) in [
        (&["nothing"][..], "there is no simulation of nothing; choose from echo"),
        (&["chat", "--seed", "x"], "'--seed <NUMBER>'"),
        (&["chat", "--trace"], "--seed"),
        (&["chat", "--clients", "0"], "--servers and --clients: from 1"),
        (&["chat", "--seed", "1", "--seeds", "2"], "cannot be used with"),
    ] {
        let output = simulate(arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(says) && text.lines().count() == 1, "{arguments:?}: {text}");
    }
}
