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
