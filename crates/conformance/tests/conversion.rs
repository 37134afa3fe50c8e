//! `plans/conversion.toml`: every subject of every experiment is built and serves.
//!
//! A subject may need clang 19, the pass of `duality cc`, its runtime or a library of Debian.
//! Without these, the test leaves the subject out, with a line about it. It also leaves out a
//! subject that could not answer because the machine was busy.

use std::collections::BTreeMap;
use std::process::Command;

use duality_conformance::programs::{finish, folder};

#[test]
fn every_subject_of_the_plan_serves_its_requests() {
    let out = tempfile::tempdir().expect("a folder");
    let plan = folder("../../plans/conversion.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.arg("compare").arg(&plan).arg("--out").arg(out.path());
    command.args(["-c", "2", "--repeats", "1", "--blocks", "0"]);
    let output = finish(command.args(["--window", "50ms", "--warm-up", "20ms"]));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut outcomes = BTreeMap::new();
    for entry in std::fs::read_dir(out.path()).expect("a folder") {
        let folder = entry.expect("readable").path();
        // The index beside the experiments is no experiment.
        let Ok(results) = std::fs::read_to_string(folder.join("results.jsonl")) else { continue };
        let experiment = folder.file_name().expect("a name").to_string_lossy().into_owned();
        for line in results.lines() {
            let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
            if line["kind"] == "cell" {
                let subject = line["architecture"].as_str().expect("a name").to_owned();
                outcomes.insert((experiment.clone(), subject), line);
            }
        }
    }
    let mut experiments: Vec<&String> = outcomes.keys().map(|(name, _)| name).collect();
    experiments.dedup();
    assert_eq!(experiments.len(), 8, "{stderr}");
    assert_eq!(outcomes.len(), 46, "{stderr}");
    for ((experiment, subject), cell) in &outcomes {
        match cell["outcome"].as_str() {
            Some("measured") => {
                assert!(cell["requests"].as_u64() > Some(0), "{experiment}: {cell}");
                assert_eq!(cell["errors"], serde_json::json!({}), "{experiment}: {cell}");
            }
            Some("unavailable") => {
                let reason = cell["reason"].as_str().expect("a reason");
                let is_busy = cell["obstacle"] == "silence";
                let lacks =
                    ["needs ", "missing", "not support this machine", "cannot find", "not found"];
                let is_missing = lacks.iter().any(|part| reason.contains(part));
                assert!(is_busy || is_missing, "{subject}: {reason}");
                duality_conformance::skip(format_args!("{subject} in {experiment}: {reason}"));
            }
            _ => panic!("{experiment}: {cell}"),
        }
    }
}
