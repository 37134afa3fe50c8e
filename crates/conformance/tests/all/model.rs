//! Tests `duality model`, from its command line to its tables and its JSON. The sizes of times
//! decide no test.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use duality_conformance::{figures, skip};
use duality_lab::record::{Operations, Records, results};
use serde_json::{Value, json};

fn model(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.arg("model").args(arguments).output().unwrap()
}

fn told(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A folder of peers. Its State Threads takes `nanoseconds` for every cost, and lacks the cost of
/// memory.
fn peers(nanoseconds: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "#!/bin/sh\n[ $1 = memory ] && echo unavailable nobody counts && exit\n\
         echo $1 $2 $(($2 * {nanoseconds})) ns\n"
    );
    let write = |path: &Path| {
        fs::write(path, &script).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    write(&folder.path().join("st"));
    folder
}

#[test]
fn misuse_is_told_in_one_line() {
    for (arguments, names) in [
        (&["--service", "flight"][..], "`flight`"),
        (&["--architectures", "flight"], "`flight`"),
        (&["--service", "echo", "--check", "50"], "50"),
        (&["--unit-costs", "/does/not/exist"], "/does/not/exist"),
        (&["/does/not/exist.jsonl"], "/does/not/exist.jsonl"),
        (&["--costs", "--only", "switch,flight"], "`flight`"),
        (&["--costs", "--peers", "/does/not/exist"], "/does/not/exist"),
        (&["--only", "switch"], "--costs"),
        (&["--measure", "park", "switch", "often"], "`often`"),
        (&["--measure", "park", "flight", "1"], "`flight`"),
    ] {
        let output = model(arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
        assert!(stderr.contains(names), "{arguments:?}: {stderr}");
    }
}

#[test]
fn results_are_not_written_over() {
    let out = tempfile::tempdir().unwrap();
    let place = out.path().join("echo-short");
    fs::create_dir(&place).unwrap();
    fs::write(place.join("results.jsonl"), "what was measured before\n").unwrap();
    let output = model(&["--service", "echo-short", "--out", out.path().to_str().unwrap()]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("holds results already: choose another directory"), "{stderr}");
    let kept = fs::read_to_string(place.join("results.jsonl")).unwrap();
    assert_eq!(kept, "what was measured before\n");
}

#[test]
fn help_names_every_group_of_costs() {
    let help = told(&model(&["--help"]));
    for cost in duality_costs::ALL {
        assert!(help.contains(&format!("\n  {} ", cost.group())), "{}: {help}", cost.name);
    }
}

#[test]
fn parked_tasks_have_memory_in_every_world() {
    for world in duality_costs::World::ALL {
        let line = told(&model(&["--measure", world.name(), "memory", "500"]));
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["memory", count, bytes, "bytes"] = words[..] else { panic!("{line}") };
        assert!((1..=500).contains(&count.parse::<u64>().unwrap()), "{line}");
        assert!(bytes.parse::<u64>().unwrap() > 0, "{line}");
    }
}

#[test]
fn the_table_has_ours_and_the_peers() {
    let peers = peers("7");
    let folder = peers.path().to_str().unwrap();
    let table =
        told(&model(&["--costs", "--quick", "--only", "lock,poller-50", "--peers", folder]));
    let line = |start: &str| table.lines().find(|line| line.starts_with(start)).unwrap_or("");
    let header: Vec<&str> = line(" ").split_whitespace().collect();
    assert_eq!(
        header,
        ["block", "park", "suspend", "reactor", "st", "pth", "pthreads", "go"],
        "{table}"
    );
    assert!(line("lock, ns").contains(" 7.00 ±0%"), "{table}");
    assert!(line("lock, ns").contains("not built"), "{table}");
    assert!(line("poller-50, ns").contains('±'), "{table}");
    assert_eq!(line("pth: "), "pth: not built: cargo xtask peers", "{table}");
}

#[test]
fn json_has_every_subject_with_a_figure_or_the_reason() {
    let peers = peers("1000");
    let folder = peers.path().to_str().unwrap();
    let only = "lock,memory";
    let text = told(&model(&["--costs", "--quick", "--only", only, "--peers", folder, "--json"]));
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["version"], 1);
    let subject = |cost: usize, name: &str| {
        let subjects = json["costs"][cost]["subjects"].as_array().unwrap();
        subjects.iter().find(|subject| subject["subject"] == name).unwrap().clone()
    };
    assert_eq!(
        (&json["costs"][0]["cost"], &json["costs"][1]["unit"]),
        (&"lock".into(), &"bytes".into())
    );
    assert_eq!(subject(0, "st")["ns"], 1000.0);
    assert_eq!(subject(0, "st")["batches"].as_array().unwrap().len(), 15);
    assert!(subject(0, "park")["ns"].as_f64().unwrap() > 0.0);
    assert!(subject(1, "suspend")["bytes"].as_f64().unwrap() > 0.0);
    assert_eq!(subject(1, "st")["unavailable"], "nobody counts");
    assert_eq!(subject(1, "go")["unavailable"], "not built: cargo xtask peers");
}

/// Each program that `cargo xtask peers` has built answers to every cost in the format.
#[test]
fn real_peers_answer_to_every_cost() {
    let executable = Path::new(env!("CARGO_BIN_EXE_served"));
    let folder = executable.ancestors().nth(2).unwrap().join("peers");
    for peer in duality_costs::program::PEERS {
        let program = folder.join(peer.name);
        if !program.is_file() {
            let why = duality_costs::program::NOT_BUILT;
            skip(format_args!("{}: {why}", peer.name));
            continue;
        }
        for cost in duality_costs::ALL.iter().filter(|cost| cost.has_peers()) {
            let output = Command::new(&program).args([cost.name, "20"]).output().unwrap();
            let line = told(&output);
            let words: Vec<&str> = line.split_whitespace().collect();
            let [name, count, total, unit] = words[..] else { panic!("{}: {line}", peer.name) };
            assert_eq!((name, unit), (cost.name, cost.unit.symbol()), "{}", peer.name);
            assert!(count.parse::<u64>().unwrap() > 0, "{}: {line}", peer.name);
            total.parse::<u64>().unwrap();
        }
    }
}

/// A price list with 1 ns for every cost. Measured prices are uncertain on a busy machine, and an
/// architecture with terms above its measured time is not modelled. These terms never are.
fn prices() -> String {
    let costs: Vec<Value> = duality_costs::ALL
        .iter()
        .map(|cost| {
            let subjects = duality_costs::subjects(cost);
            let priced = subjects.iter().map(|subject| json!({ "subject": subject, "ns": 1.0 }));
            json!({ "cost": cost.name, "subjects": priced.collect::<Vec<Value>>() })
        })
        .collect();
    json!({ "version": 1, "costs": costs }).to_string()
}

/// Over real sockets, each architecture does its own operations, and none of the others'. How often
/// a request takes them, a busy machine decides too: server and load are read at different moments.
/// `visibility.rs` has exact counts.
#[test]
fn a_model_counts_what_architectures_do() {
    let out = tempfile::tempdir().unwrap();
    let folder = out.path().join("model");
    let costs = out.path().join("costs.json");
    fs::write(&costs, prices()).unwrap();
    let (costs, place) = (costs.to_str().unwrap(), folder.to_str().unwrap());
    let flags = ["--service=echo-short", "--architectures=threads,fork,epoll,uthreads"];
    let loads = ["--concurrency=4,8", "--check=16", "--repeats=1", "--window=250ms"];
    let kept = ["--unit-costs", costs, "--out", place];
    let text = told(&model(&[&flags[..], &loads, &kept].concat()));
    assert!(text.contains("echo-short, 8 connections"), "{text}");
    let results = folder.join("echo-short/results.jsonl");
    let (_, Records { cells, .. }) = results::read(std::slice::from_ref(&results)).unwrap();
    assert_eq!(cells.len(), 12, "{cells:?}");
    let counted: Vec<(&str, Operations)> = cells
        .iter()
        .filter_map(|cell| Some((&*cell.subject, figures(cell)?.operations?)))
        .collect();
    let most = |name: &str, operation: fn(&Operations) -> u64| {
        let own = counted.iter().filter(|(subject, _)| *subject == name);
        own.map(|(_, operations)| operation(operations)).max().unwrap_or(0)
    };
    for name in ["epoll", "uthreads"] {
        assert_eq!(most(name, |all| all.threads_created + all.processes_created), 0, "{name}");
    }
    for name in ["threads", "fork"] {
        assert_eq!(most(name, |all| all.switches + all.poller_rounds), 0, "{name}");
    }
    if counted.len() < cells.len() {
        return skip(format_args!("no model of all architectures: the machine is too busy"));
    }
    for name in ["epoll", "uthreads"] {
        assert!(most(name, |all| all.tasks_created) > 0 && most(name, |all| all.poller_rounds) > 0);
    }
    assert!(most("threads", |all| all.threads_created) > 0);
    assert!(most("fork", |all| all.processes_created) > 0);

    let json = fs::read_to_string(folder.join("model.json")).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    for workload in json["workloads"].as_array().unwrap() {
        assert_eq!(workload["architectures"].as_array().unwrap().len(), 4, "{workload}");
        assert!(workload["coefficients"]["no model"].as_f64().unwrap() > 0.0);
    }
    let predictions = json["predictions"].as_array().unwrap();
    assert_eq!(predictions.len(), 4, "{predictions:?}");
    assert!(predictions.iter().all(|one| one["measured_us"].as_f64().unwrap() > 0.0));
    let page = fs::read_to_string(folder.join("model.html")).unwrap();
    assert!(page.matches("<svg").count() == 2 && !page.contains("<script src"), "{page}");

    // The cells have their counts, so that a model can read the results of `compare`.
    let again = told(&model(&[results.to_str().unwrap(), "--unit-costs", costs, "--json"]));
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(again["workloads"][0]["architectures"], json["workloads"][0]["architectures"]);
}
