//! Servers with planted faults: what makes a server wrong is named, and fails the gate of CI.
//! `scripts/planted.py truths` has all faults, and measures longer.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A plan of two equal servers and one with these faults.
fn plan(folder: &Path, name: &str, faults: &[&str]) -> PathBuf {
    let faulty = env!("CARGO_BIN_EXE_faulty");
    let peer = |name: &str, faults: &[&str]| {
        let faults: String = faults.iter().map(|fault| format!(", {fault:?}")).collect();
        format!("[[peer]]\nname = {name:?}\ncommand = [{faulty:?}, \"{{port}}\"{faults}]\n\n")
    };
    let plan = format!(
        "title = \"Is what was planted found?\"\nsource = \"a test\"\n\n{}{}{}[[experiment]]\n\
         name = \"planted\"\nservice = \"http\"\narchitectures = []\npeers = [\"ada\", \"bob\", \"sue\"]\n\
         concurrency = [8]\nrepeats = 2\nblocks = 2\nwindow = \"300ms\"\n",
        peer("ada", &[]),
        peer("bob", &[]),
        peer("sue", faults),
    );
    let path = folder.join(format!("{name}.toml"));
    std::fs::write(&path, plan).unwrap();
    path
}

fn duality(folder: &Path, arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_served");
    Command::new(program).current_dir(folder).args(arguments).output().unwrap()
}

/// Measures the plan into `out`, and returns its summary.
fn measured(folder: &Path, name: &str, faults: &[&str]) -> Value {
    let plan = plan(folder, name, faults);
    let done = duality(folder, &["compare", plan.to_str().unwrap(), "--out", name]);
    let stderr = String::from_utf8_lossy(&done.stderr);
    let summary = std::fs::read_to_string(folder.join(name).join("planted/summary.json"));
    serde_json::from_str(&summary.unwrap_or_else(|error| panic!("{error}: {stderr}"))).unwrap()
}

#[test]
fn what_makes_a_server_wrong_is_named_and_fails_the_gate() {
    let folder = tempfile::tempdir().unwrap();
    let good = measured(folder.path(), "good", &[]);
    // On a busy machine the load generator may have been late, which is no fault of the server.
    let found = |of: &Value, fault: &str| {
        let cells = of["cells"].as_array().unwrap();
        let sue = cells.iter().find(|cell| cell["architecture"] == "sue").unwrap();
        sue["faults"].as_array().unwrap().contains(&fault.into())
    };
    for fault in ["wrong-replies", "ended", "failing"] {
        assert!(!found(&good, fault), "{fault}: {good}");
    }
    for (name, faults, fault, message) in [
        ("wrong", "wrong-every=20", "wrong-replies", "Disqualified for wrong replies: sue"),
        ("cut", "cut-every=20", "wrong-replies", "Disqualified for wrong replies: sue"),
        ("crash", "crash-after=300", "ended", "Failed while it was measured: sue"),
    ] {
        let summary = measured(folder.path(), name, &[faults]);
        // On a busy machine, the first sentence says that there is no recommendation.
        let sentences = summary["recommendation"]["sentences"].as_array().unwrap();
        let is_told = |sentence: &Value| sentence.as_str().unwrap().contains(message);
        assert!(sentences.iter().any(is_told), "{name}: {sentences:?}");
        assert!(found(&summary, fault), "{name}: {summary}");
        let gate = duality(folder.path(), &["report", "good", name, "--fail-on-regression=500"]);
        let stdout = String::from_utf8_lossy(&gate.stdout);
        assert_eq!(gate.status.code(), Some(1), "{name}: {stdout}");
        let first = stdout.lines().next().unwrap_or_default();
        assert!(
            first.starts_with("The second run cannot be chosen: sue at 8 connections"),
            "{first}"
        );
    }
}
