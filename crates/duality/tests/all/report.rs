//! `duality report` on made-up results: what it prints, and the exit codes that CI relies on.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use duality_lab::record::results::Results;
use duality_lab::record::{
    Cell, Clients, Constraints, Design, Heading, Machine, Measured, Origin, Outcome, UnitCosts,
    VERSION,
};
use duality_load::Latency;

/// An experiment in which epoll answers so many requests a second at 10 connections, or at 1,000 if
/// it is called so.
fn write(directory: &Path, name: &str, rate: f64, repeats: usize) {
    let load = if name == "many" { 1000 } else { 10 };
    let experiment = Heading {
        version: VERSION,
        duality: "0".into(),
        plan: Some(Origin {
            title: "?".into(),
            source: String::new(),
            experiment: name.into(),
            number: ["talk", "book"]
                .iter()
                .position(|one| *one == name)
                .map_or(0, |place| place + 1),
        }),
        command: vec![],
        started_at: String::new(),
        design: Design {
            service: if name == "talk" { "echo" } else { "http" }.into(),
            architectures: vec!["epoll".into()],
            variants: vec![],
            carriers: BTreeMap::new(),
            peers: vec![],
            ways: None,
            builds: None,
            control: None,
            concurrency: vec![load],
            load_command: None,
            clients: Clients::default(),
            keep_alive: true,
            tls: false,
            http2: false,
            blocks: 0,
            race: false,
            repeats,
            warm_up_seconds: 0.2,
            window_seconds: 0.5,
            seed: 7,
            server_cpus: vec![],
            client_cpus: vec![],
            server_arguments: vec![],
            path: "/".into(),
            store: None,
            recording: None,
            topology: None,
        },
        machine: Machine::default(),
        hosts: BTreeMap::new(),
        constraints: Constraints::default(),
        current: None,
        margin: None,
        unit_costs: UnitCosts::default(),
    };
    let mut results = Results::create(directory, &experiment).unwrap();
    for repeat in 0..repeats {
        let measured = measured(rate * (1.0 + 0.01 * repeat as f64));
        let outcome = Outcome::Measured(Box::new(measured));
        let (subject, started_at) = ("epoll".into(), String::new());
        results.append(&Cell { subject, concurrency: load, repeat, started_at, outcome }).unwrap();
    }
}

fn measured(rate: f64) -> Measured {
    Measured {
        requests_per_second: rate,
        requests: rate as u64,
        window_seconds: 0.5,
        latency_us: Latency { mean: 90.0, p50: 100.0, p99: 4000.0, ..Latency::default() },
        round_trip_us: None,
        measured_load: 10.0,
        server_cpu_us_per_request: 10.0,
        server_cpu_share: 0.5,
        server_peak_bytes: 4 << 20,
        session: None,
        voluntary_switches: 0,
        involuntary_switches: 0,
        operations: None,
        client_cpu_share: 0.5,
        client_was_limit: false,
        connections_served: 10,
        connections_opened: 10,
        server_connections_open: None,
        listen_overflows: 0,
        listen_drops: 0,
        listen_queue: None,
        errors: BTreeMap::new(),
        crowd: BTreeMap::new(),
        open_loop: None,
        replayed: None,
        warnings: vec![],
        disturbance: None,
        queues: Vec::new(),
        invalid: BTreeMap::new(),
        client_wait_share: 0.0,
        slices_requests_per_second: Vec::new(),
        histogram: String::new(),
    }
}

/// Runs `duality report` in a directory; returns the exit code and what it said.
fn report(directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duality"));
    let Output { status, stdout, stderr } =
        command.current_dir(directory).arg("report").args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

#[test]
fn regressions_decide_the_exit_code() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    write(&at.join("before"), "a", 50_000.0, 3);
    write(&at.join("slower"), "a", 40_000.0, 3);
    write(&at.join("once"), "a", 40_000.0, 1);
    write(&at.join("many"), "many", 40_000.0, 3);
    let flag = "--fail-on-regression";
    assert_eq!(report(at, &["before", "slower"]).0, 0);
    assert_eq!(report(at, &["slower", "before", flag]).0, 0);
    assert_eq!(report(at, &["before", "slower", "--fail-on-regression=30"]).0, 0);

    let (code, _, said) = report(at, &["before/results.jsonl", "slower", flag]);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((code, lines.len()), (1, 2), "{said}");
    assert!(lines[0].starts_with("regression: a: epoll at 10 connections: requests/s 0.80 times"));
    assert!(lines[1].contains("1 figure is worse by more than 5 %"), "{said}");

    for (arguments, message) in [
        (&["before", flag][..], "name both"),
        (&["before", "once", flag], "--repeats 5"),
        (&["before", "slower", "--fail-on-regression=much"], "a percentage such as 5"),
        (&["before", "absent"], "absent"),
        (&["before", "many"], "no measured cell in common"),
    ] {
        let (code, _, said) = report(at, arguments);
        assert_eq!((code, said.lines().count()), (2, 1), "{arguments:?}: {said}");
        assert!(said.contains(message), "{arguments:?}: {said}");
    }
}

#[test]
fn a_run_is_asked_anew_with_constraints() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    write(&at.join("run"), "a", 50_000.0, 3);
    let (code, answer, _) = report(at, &["run", "--slo", "p99=5ms", "--memory", "8MiB"]);
    assert_eq!(code, 0);
    assert!(answer.starts_with("Nothing to choose: only epoll was measured"), "{answer}");
    let (_, answer, _) = report(at, &["run", "--slo", "p99=1ms", "--json"]);
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["constraints"]["slo"], serde_json::json!(["p99=1ms"]));
    assert_eq!(answer["recommendation"]["architecture"], serde_json::Value::Null);
    let broken = &answer["recommendation"]["refused"][0]["broken"][0];
    assert_eq!((&broken["measured"], &broken["sure"]), (&"4.0 ms".into(), &true.into()));
    for (flag, answer) in [("--slo=p99.99=1ms", "do not keep"), ("--memory=lots", "200MB")] {
        let (code, _, said) = report(at, &["run", flag]);
        assert_eq!((code, said.lines().count()), (2, 1), "{said}");
        assert!(said.contains(answer), "{said}");
    }
}

#[test]
fn experiments_that_began_in_one_second_stay_in_the_order_of_the_plan() {
    let run = tempfile::tempdir().unwrap();
    for name in ["book", "talk"] {
        write(&run.path().join(name), name, 1000.0, 3);
    }
    let (code, said, errors) = report(run.path(), &[".", "--markdown", "rate"]);
    assert_eq!(code, 0, "{errors}");
    let [talk, book] = ["### talk", "### book"].map(|title| said.find(title).expect(&said));
    assert!(talk < book, "{said}");
}

#[test]
fn the_pages_of_a_plan_go_where_they_are_asked_for() {
    let run = tempfile::tempdir().unwrap();
    for name in ["book", "talk"] {
        write(&run.path().join("run").join(name), name, 1000.0, 3);
    }
    let (code, _, errors) = report(run.path(), &["run", "--out", "pages"]);
    assert_eq!(code, 0, "{errors}");
    let pages = run.path().join("pages");
    let index = std::fs::read_to_string(pages.join("index.html")).unwrap();
    for name in ["book", "talk"] {
        assert!(pages.join(name).join("report.html").exists(), "{name}");
        assert!(index.contains(&format!("\"{name}&#x2f;report.html")), "{index}");
        assert!(!run.path().join("run").join(name).join("report.html").exists());
    }
}

#[test]
fn plans_are_compared_experiment_by_experiment() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    for (run, name, rate) in [
        ("old", "pages", 50_000.0),
        ("old", "talk", 50_000.0),
        ("old", "gone", 50_000.0),
        ("new", "pages", 30_000.0),
        ("new", "talk", 60_000.0),
    ] {
        write(&at.join(run).join(name), name, rate, 3);
    }
    let arguments = ["old", "new", "--fail-on-regression", "--out", "page.html", "--json"];
    let (code, answer, said) = report(at, &arguments);
    assert_eq!(code, 1, "{said}");
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["version"], 2);
    assert_eq!(answer["experiments"].as_array().unwrap().len(), 2);
    assert_eq!(answer["unmatched_experiments"], serde_json::json!(["old/gone"]));
    let of =
        |place: usize| &answer["experiments"][place]["cells"][0]["requests_per_second"]["verdict"];
    assert_eq!((of(0), of(1)), (&"worse".into(), &"better".into()));
    assert!(answer["regressions"][0].as_str().unwrap().starts_with("pages: epoll at 10"));
    assert!(at.join("page.html").exists());

    let (code, _, said) = report(at, &["old/pages", "old/talk"]);
    assert_eq!(code, 2);
    assert!(said.contains("the service `http`, the second `echo`"), "{said}");
}

#[test]
fn the_page_is_opened_or_named() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results.jsonl");
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../runs/2026-11-25-vm/conversion");
    std::fs::copy(format!("{kept}/echo-short/results.jsonl"), &results).unwrap();
    let page = folder.path().join("report.html").canonicalize();
    assert!(page.is_err(), "there is no page yet");
    let report = |set: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_duality"));
        command.arg("report").arg(folder.path()).arg("--open");
        for name in ["BROWSER", "DISPLAY", "WAYLAND_DISPLAY"] {
            command.env_remove(name);
        }
        let done = command.envs(set.iter().copied()).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stderr).unwrap()
    };
    let told = report(&[]);
    let page = folder.path().join("report.html").canonicalize().unwrap();
    let line = told.lines().find(|line| line.starts_with("--open: ")).unwrap();
    assert!(
        line.contains("there is no desktop") && line.contains(page.to_str().unwrap()),
        "{told}"
    );
    // This browser notes what it opens, and the reader of the fifo waits for it.
    let (browser, opened) = (folder.path().join("browser"), folder.path().join("opened"));
    let made = Command::new("mkfifo").arg(&opened).status().unwrap();
    assert!(made.success());
    std::fs::write(&browser, format!("#!/bin/sh\necho \"$1\" > {}\n", opened.display())).unwrap();
    let runs = Command::new("chmod").arg("+x").arg(&browser).status().unwrap();
    assert!(runs.success());
    report(&[("BROWSER", browser.to_str().unwrap())]);
    let noted = std::fs::read_to_string(&opened).unwrap();
    assert_eq!(noted.trim(), page.to_str().unwrap());
}
