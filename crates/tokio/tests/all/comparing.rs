//! The command line of an application: it compares the members, and results name the runtime.

use std::process::Command;

use serde_json::Value;

fn application() -> Command {
    Command::new(env!("CARGO_BIN_EXE_application"))
}

#[test]
fn a_comparison_records_what_part_tokio_has() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = application();
    command.args(["compare", "--architectures=tokio-multi,tokio-per-core,epoll,threads"]);
    command.args(["--concurrency=2", "--repeats=1", "--blocks=0", "--window=60ms", "--no-control"]);
    command.args(["--warm-up=20ms", "--path=/", "--out"]).arg(directory.path().join("run"));
    // The exit code says whether there is a verdict. A busy machine allows no verdict.
    let output = command.output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let text = std::fs::read_to_string(directory.path().join("run/results.jsonl")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let carriers = &lines[0]["design"]["carriers"];
    let part = |name: &str| carriers[name]["foreign"]["part"].as_str().unwrap_or_default();
    assert_eq!(part("tokio-multi"), "steals");
    assert_eq!(part("tokio-per-core"), "carries");
    assert_eq!((part("epoll"), part("threads")), ("beside", "beside"));
    assert_eq!(carriers["epoll"]["foreign"]["runtime"], "tokio");
    // Where no window had a reply, there is no screen.
    let has_figures = |line: &Value| line["kind"] == "cell" && line["obstacle"] != "silence";
    if lines.iter().any(has_figures) {
        assert!(stdout.contains("tokio-multi"), "{stdout}");
    }
}

#[test]
fn architectures_lists_the_layouts_after_those_of_ours() {
    let output = application().args(["architectures", "--json"]).output().unwrap();
    let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = listed["architectures"].as_array().unwrap();
    let runtime = |name: &str| {
        let found = all.iter().find(|entry| entry["name"] == name).unwrap();
        found["foreign_runtime"].as_str()
    };
    assert_eq!((runtime("tokio-prefork"), runtime("epoll")), (Some("tokio"), None));
    assert_eq!(all.last().unwrap()["name"], "tokio-thread-per-connection");
}

#[test]
fn an_architecture_that_cannot_carry_the_application_is_refused_in_one_line() {
    let output = application().args(["serve", "-a", "iterative", "-l", "0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("application under iterative: "), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let output = application().args(["serve", "-a", "tokio-magic"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
