//! The JSON of models, unit costs and trials is as `schemas/` says. The model is of a kept run. The
//! events of trials are all that there are.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use duality_lab::statistics::Interval;
use duality_lab::trial::event::{
    Block, Dropped, Event, Finding, Measured, Reason, Standing, Told, Verdict,
};
use serde_json::{Value, json};

use crate::schema::{check, schema};

fn fits(name: &str, value: &Value) {
    check(&schema(name), value).unwrap_or_else(|problem| panic!("{name}: {problem}"));
}

fn kept() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    folder.join("runs/2026-11-22-vm/limit/keep-alive/results.jsonl")
}

/// What a command prints on standard output.
fn printed(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_duality")).args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The unit costs of a kept run, as `duality model --costs --json` writes them.
fn kept_costs() -> Value {
    let text = fs::read_to_string(kept()).unwrap();
    let heading = read(text.lines().find(|line| line.contains("\"unit_costs\"")).unwrap());
    let costs = heading["unit_costs"].as_object().unwrap().iter().map(|(cost, row)| {
        let subjects = row.as_object().unwrap().iter();
        let subjects: Vec<Value> =
            subjects.map(|(subject, ns)| json!({ "subject": subject, "ns": ns })).collect();
        json!({ "cost": cost, "subjects": subjects })
    });
    json!({ "version": 1, "costs": costs.collect::<Vec<_>>() })
}

#[test]
fn a_model_fits() {
    let folder = tempfile::tempdir().unwrap();
    let costs = folder.path().join("costs.json");
    fs::write(&costs, kept_costs().to_string()).unwrap();
    let (kept, costs) = (kept(), costs.to_str().unwrap());
    let arguments = ["model", kept.to_str().unwrap(), "--unit-costs", costs, "--json"];
    let model = read(&printed(&arguments));
    fits("model", &model);
    assert!(!model["workloads"][0]["architectures"].as_array().unwrap().is_empty());
    let mut lacking = model;
    lacking["workloads"][0].as_object_mut().unwrap().remove("coefficients");
    let problem = check(&schema("model"), &lacking).unwrap_err().to_string();
    assert!(problem.contains("coefficients is missing"), "{problem}");
}

#[test]
fn unit_costs_fit() {
    let peers = tempfile::tempdir().unwrap();
    let peers = peers.path().to_str().unwrap();
    let only = ["model", "--costs", "--quick", "--json", "--only", "lock", "--peers", peers];
    let costs = read(&printed(&only));
    fits("costs", &costs);
    let subjects = costs["costs"][0]["subjects"].as_array().unwrap();
    assert!(subjects.iter().any(|subject| subject["ns"].is_number()), "{costs}");
    // A peer that is not built is among them, with its reason.
    assert!(subjects.iter().any(|subject| subject["unavailable"].is_string()), "{costs}");
}

/// Every event but the first, with every reason and finding.
fn events() -> Vec<Event> {
    let candidate = || "epoll".to_owned();
    let interval = Interval { low: 0.1, high: 0.3 };
    let standings = vec![
        Standing { candidate: candidate(), excess: 0.0, interval: None },
        Standing { candidate: candidate(), excess: 0.2, interval: Some(interval) },
    ];
    let timed =
        Measured { requests: 2, p50_us: Some(8.0), p99_us: Some(9.5), ..Measured::default() };
    let measured: BTreeMap<_, _> = [("epoll", Measured::default()), ("threads", timed)]
        .map(|(name, of)| (name.to_owned(), of))
        .into();
    let block = |dropped| {
        let (measured, standings) = (measured.clone(), standings.clone());
        Event::Block(Block {
            number: 0,
            dropped,
            seconds: 1.5,
            order: vec![candidate()],
            measured,
            standings,
        })
    };
    let reasons = [
        Reason::Errors { share: 0.2, limit: 0.1 },
        Reason::Slow { share: 0.2, percentile: "p99".to_owned(), limit_us: 5e3 },
        Reason::Stuck { seconds: 2.5 },
        Reason::Silent { requests: 20, seconds: 2.5 },
        Reason::Memory { bytes: 2, limit: 1 },
        Reason::Died { how: "signal 9".to_owned() },
        Reason::Behind { best: candidate(), interval },
        Reason::NotChosen,
    ];
    let findings = [
        Finding::Winner { candidate: candidate() },
        Finding::Level { candidates: vec![candidate()] },
        Finding::LastOne { candidate: candidate() },
        Finding::OutOfTime,
        Finding::Interrupted,
    ];
    let mut events = vec![
        block(None),
        block(Some(Dropped::WarmUp)),
        block(Some(Dropped::Disturbed)),
        Event::Kept { candidate: candidate(), reason: reasons[0].clone() },
        Event::Restarted { candidate: candidate(), how: "signal 9".to_owned() },
        Event::Drained { candidate: candidate() },
        Event::Heir { candidate: candidate(), architecture: "threads".to_owned() },
        Event::Said { candidate: candidate(), line: "a line".to_owned() },
        Event::Ended,
    ];
    events.extend(reasons.map(|reason| Event::Out { candidate: candidate(), reason }));
    events.extend(findings.map(|finding| {
        let (measured, standings) = (measured.clone(), standings.clone());
        let serving = Some(candidate());
        let out = vec!["threads".to_owned()];
        Event::Decided(Box::new(Verdict { finding, serving, blocks: 3, measured, standings, out }))
    }));
    events
}

#[test]
fn every_event_of_a_trial_fits() {
    for event in events() {
        fits("trial", &serde_json::to_value(Told { at_s: 0.5, event }).unwrap());
    }
    let mut wrong = serde_json::to_value(Told { at_s: 0.5, event: Event::Ended }).unwrap();
    wrong["event"] = "over".into();
    assert!(check(&schema("trial"), &wrong).is_err());
}

#[test]
fn a_trial_fits_from_its_heading_to_its_end() {
    let arguments = ["trial", "echo", "--candidates", "epoll,threads", "--budget", "1s"];
    let rest = ["--then", "exit", "--json", "--listen", "127.0.0.1:0"];
    let events: Vec<Value> = printed(&[&arguments[..], &rest].concat()).lines().map(read).collect();
    events.iter().for_each(|event| fits("trial", event));
    let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!((names.first(), names.last()), (Some(&"began"), Some(&"ended")), "{names:?}");
    assert!(names.contains(&"decided"), "{names:?}");
}
