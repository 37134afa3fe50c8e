//! The runs that are kept in `runs/`, of every version so far, still make a report, with the answer
//! that `runs/answers.txt` has for each. What they print as JSON fits `schemas/summary.json`.
//! The tables and charts of docs/reproductions are what these runs give.
//!
//! An answer may change when the method does. Then look at each difference, and write the file
//! anew: `DUALITY_BLESS=1 cargo test -p duality --test kept_runs`.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::schema::{check, schema};

fn runs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runs")
}

/// The folders with results beneath a folder, in the order of their names.
fn kept(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            kept(&entry, found);
        } else if entry.file_name().is_some_and(|name| name == "results.jsonl") {
            found.push(folder.to_owned());
        }
    }
}

/// The first sentence of the answer: the choice, or the reason why there is none. The page goes to
/// a folder of its own.
fn answer(run: &Path, pages: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_duality"))
        .arg("report")
        .arg(run)
        .arg("--json")
        .arg("--out")
        .arg(pages.join("report.html"))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {stderr}", run.display());
    let data: Value = serde_json::from_slice(&output.stdout).unwrap();
    check(&schema("summary"), &data)
        .unwrap_or_else(|problem| panic!("{}: {problem}", run.display()));
    let text = |value: &Value| {
        value.as_str().unwrap_or_else(|| panic!("{}: no answer", run.display())).to_owned()
    };
    let recommendation = &data["recommendation"];
    text(&recommendation["headline"]) + "\n    " + &text(&recommendation["sentences"][0])
}

/// The run of the card in the guide.
const CARD: &str = "2026-11-24-vm/knot/haboob";

/// Writes a card of a kept run. The exit code, and what was said.
fn card(run: &str, file: &Path) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_duality"))
        .arg("report")
        .arg(runs().join(run))
        .arg("--card")
        .arg(file)
        .arg("--out")
        .arg(file.with_extension("html"))
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn the_card_in_the_guide_is_that_of_a_kept_run() {
    let docs = runs().join("../docs");
    let folder = tempfile::tempdir().unwrap();
    let made = |name: &str| {
        let file = folder.path().join(name);
        assert_eq!(card(CARD, &file).0, Some(0));
        fs::read_to_string(file).unwrap()
    };
    let (text, picture) = (made("card.md"), made("card.svg"));
    let page = docs.join("report.md");
    let guide = fs::read_to_string(&page).unwrap();
    let (before, rest) = guide.split_once("````markdown\n").unwrap();
    let (_, after) = rest.split_once("````\n").unwrap();
    let filled = format!("{before}````markdown\n{text}````\n{after}");
    let drawn = docs.join("pictures/card.svg");
    if std::env::var_os("DUALITY_BLESS").is_some() {
        fs::write(&page, &filled).unwrap();
        fs::write(&drawn, &picture).unwrap();
    }
    assert_eq!(fs::read_to_string(&page).unwrap(), filled, "see the head of this file");
    assert_eq!(fs::read_to_string(&drawn).unwrap(), picture, "see the head of this file");
}

#[test]
fn a_card_is_of_one_experiment_and_in_a_known_form() {
    let folder = tempfile::tempdir().unwrap();
    for (run, name, told) in [
        (CARD, "card.gif", "end the name in .md, .svg or .png"),
        ("2026-11-21-vm/services", "card.md", "--card shows one experiment: name a directory in"),
    ] {
        let (code, said) = card(run, &folder.path().join(name));
        assert_eq!((code, said.trim_end().lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(told), "{said}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was written");
}

#[test]
fn kept_runs_answer_as_they_did() {
    let mut folders = Vec::new();
    kept(&runs(), &mut folders);
    assert!(folders.len() >= 70, "{} kept runs", folders.len());
    let pages = tempfile::tempdir().unwrap();
    let mut answers = String::new();
    for folder in &folders {
        let name = folder.strip_prefix(runs()).unwrap().display();
        writeln!(answers, "{name}\n    {}", answer(folder, pages.path())).unwrap();
    }
    let file = runs().join("answers.txt");
    if std::env::var_os("DUALITY_BLESS").is_some() {
        fs::write(&file, &answers).unwrap();
    }
    let before = fs::read_to_string(&file).unwrap();
    for (now, then) in answers.lines().zip(before.lines()) {
        assert_eq!(now, then, "an answer has changed: see the head of this test");
    }
    assert_eq!(answers.lines().count(), before.lines().count());
}

#[test]
fn the_papers_pages_have_the_figures_of_the_runs() {
    let folder = runs().join("../docs/reproductions");
    for (script, argument) in
        [("fill.py", Some(env!("CARGO_BIN_EXE_duality"))), ("bandwidth.py", None)]
    {
        let mut python = Command::new("python3");
        python.arg(folder.join(script)).arg("--check").args(argument);
        match python.output() {
            Ok(output) => {
                let stderr = String::from_utf8_lossy(&output.stderr);
                let remedy = "write the pages anew: docs/reproductions/README.md";
                assert!(output.status.success(), "{script}: {stderr}; {remedy}");
            }
            Err(error) => {
                let _ = writeln!(std::io::stderr(), "skipped: python3: {error}");
            }
        }
    }
}
