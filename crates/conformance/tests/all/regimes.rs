//! Measures, resumes and reports plans of regimes from the command line. A cell that cannot be
//! measured has a reason, and is never a zero.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const PLAN: &str = "title = 'a test'\n[regimes]\nclients = 100\nrepeats = 2\n\
    subjects = ['threads', 'fork', { name = 'priority of 2', architecture = 'workpool-priority', options = ['--workers=2'] }]\n\
    [[regime]]\nwait = '5us..100us'\n[[regime]]\nwait = '10us'\nname = 'steady'\n";

fn duality(arguments: &[&str], directory: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.args(arguments).current_dir(directory).output().unwrap()
}

#[test]
fn a_plan_of_regimes_is_measured_gone_on_with_and_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(path.join("plan.toml"), PLAN).unwrap();
    let compare = ["compare", "plan.toml", "--out", "run"];
    let done = duality(&compare, path);
    let (output, said) =
        (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap());
    assert!(done.status.success(), "{output}{said}");
    assert!(output.contains("fork takes connections from a network only"), "{output}");
    let lines = fs::read_to_string(path.join("run/regimes.jsonl")).unwrap();
    let cells: Vec<Value> =
        lines.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(cells.len(), 3 * 2 * 2);
    for cell in &cells {
        let is_fork = cell["subject"] == "fork";
        assert_eq!(cell["outcome"], if is_fork { "missing" } else { "measured" }, "{cell}");
        if is_fork {
            continue;
        }
        assert!(cell["requests_per_second"].as_f64().unwrap() > 0.0, "{cell}");
        for plot in ["time-blocks", "time-clients", "rate-clients"] {
            let bins = cell["sums"][plot].as_array().unwrap();
            let requests: u64 = bins.iter().map(|bin| bin[1].as_u64().unwrap()).sum();
            assert_eq!(requests, 100, "every request is in {plot} of {cell}");
        }
    }
    let again = duality(&compare, path);
    assert_eq!(again.status.code(), Some(2), "it holds results: {again:?}");
    let resumed = duality(&[&compare[..], &["--resume"]].concat(), path);
    assert!(resumed.status.success(), "{resumed:?}");
    assert_eq!(
        fs::read_to_string(path.join("run/regimes.jsonl")).unwrap(),
        lines,
        "nothing is left"
    );
    let page = fs::read_to_string(path.join("run/report.html")).unwrap();
    assert!(page.contains("priority of 2") && page.contains("TP against #CP"));
    let table = duality(&["report", "run", "--markdown", "rate,cpu"], path);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(
        table.contains("|  | steady | 5us..100us | kept |")
            || table.contains("|  | 5us..100us | steady | kept |"),
        "{table}"
    );
    assert!(table.contains("| fork | – | – | – |"), "{table}");
}

#[test]
fn over_tcp_the_same_plan_includes_processes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let plan =
        PLAN.replace("[regimes]", "[regimes]\nmode = 'tcp'").replace("repeats = 2", "repeats = 1");
    fs::write(
        path.join("plan.toml"),
        plan.replace("5us..100us", "1ms..2ms").replace("10us", "1ms"),
    )
    .unwrap();
    let done = duality(&["compare", "plan.toml", "--out", "run"], path);
    assert!(done.status.success(), "{done:?}");
    let lines = fs::read_to_string(path.join("run/regimes.jsonl")).unwrap();
    for line in lines.lines().skip(1) {
        let cell: Value = serde_json::from_str(line).unwrap();
        // On a busy machine the load generator may report that it was late. Nothing else may be
        // wrong.
        let reason = cell["reason"].as_str().unwrap_or("the figures are invalid");
        assert!(reason.contains("the figures are invalid"), "{line}");
    }
}

#[test]
fn mistakes_are_told_before_anything_starts() {
    let directory = tempfile::tempdir().unwrap();
    for (plan, message) in [
        (
            PLAN.replace("'threads'", "'treads'"),
            "subjects: treads: there is no architecture `treads`",
        ),
        (PLAN.replace("--workers=2", "--workers=none"), "subjects: priority of 2: "),
        (PLAN.replace("title", "tilte"), "unknown field `tilte`"),
    ] {
        fs::write(directory.path().join("plan.toml"), plan).unwrap();
        let refused = duality(&["compare", "plan.toml", "--out", "run"], directory.path());
        let stderr = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{stderr}");
        assert!(
            stderr.contains(message)
                && stderr.starts_with("duality: plan.toml: ")
                && stderr.lines().count() == 1,
            "{stderr}"
        );
        assert!(!directory.path().join("run").exists());
    }
}

#[test]
fn a_graph_is_drawn_in_every_form() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let outputs = ["--out=g.svg", "--out=g.dot", "--out=g.json"];
    let arguments =
        [&["graph", "phone", "-a", "workpool-priority", "-n200", "-c4"], &outputs[..]].concat();
    let drawn = duality(&arguments, path);
    let stdout = String::from_utf8(drawn.stdout).unwrap();
    assert!(
        drawn.status.success() && stdout.contains("Most processor time goes to the stage phone: "),
        "{stdout}"
    );
    let read = |name: &str| fs::read_to_string(path.join(name)).unwrap();
    assert!(read("g.svg").starts_with("<svg ") && read("g.dot").starts_with("digraph "));
    let graph: Value = serde_json::from_str(&read("g.json")).unwrap();
    assert_eq!((&graph["service"], &graph["version"]), (&"phone".into(), &1.into()));
    for (arguments, wrong) in [
        (["graph", "phone", "--out=g.png"], "the name ends with .svg, .dot or .json"),
        (["graph", "fone", "--out=g.svg"], "there is no service `fone`"),
        (["graph", "http", "--architecture=handwritten"], "handwritten has no tasks"),
    ] {
        let refused = duality(&arguments, path);
        let stderr = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(wrong) && stderr.lines().count() == 1, "{stderr}");
    }
}
