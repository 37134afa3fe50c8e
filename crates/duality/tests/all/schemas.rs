//! The JSON that scripts read fits the schemas in `schemas/`: kept results of every version, and
//! today's output of the commands. `kept_runs.rs` checks the summaries of all kept runs.
//!
//! The schemas come from the types that are written. After a change of a type, look at the
//! difference, and write the schemas anew: `DUALITY_BLESS=1 cargo test -p duality schemas`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::derived;
use crate::schema::{check, schema};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The JSON output of a command.
fn printed(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_duality")).args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {stderr}"))
}

fn fits(name: &str, value: &Value) {
    check(&schema(name), value).unwrap_or_else(|problem| panic!("{name}: {problem}"));
}

/// The results files beneath a folder.
fn results(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            results(&path, found);
        } else if path.ends_with("results.jsonl") {
            found.push(path);
        }
    }
}

#[test]
fn schemas_are_those_of_the_types() {
    for (name, schema) in derived::schemas() {
        let file = root().join(format!("schemas/{name}.json"));
        if std::env::var_os("DUALITY_BLESS").is_some() {
            fs::write(&file, &schema).unwrap();
        }
        let kept = fs::read_to_string(&file).unwrap();
        let line = kept.lines().zip(schema.lines()).find(|(kept, derived)| kept != derived);
        assert_eq!(line, None, "schemas/{name}.json: see the head of this test");
        assert_eq!(kept, schema, "schemas/{name}.json");
    }
}

#[test]
fn kept_results_fit() {
    let mut files = Vec::new();
    results(&root().join("runs"), &mut files);
    assert!(files.len() >= 70, "{} files", files.len());
    let schema = schema("results");
    for file in files {
        for (index, line) in fs::read_to_string(&file).unwrap().lines().enumerate() {
            let line: Value = serde_json::from_str(line).unwrap();
            check(&schema, &line)
                .unwrap_or_else(|problem| panic!("{}:{}: {problem}", file.display(), index + 1));
        }
    }
}

#[test]
fn a_line_that_lacks_something_does_not_fit() {
    let file = root().join("runs/2026-11-22-vm/limit/active/results.jsonl");
    let text = fs::read_to_string(file).unwrap();
    let cell = text.lines().find(|line| line.contains("\"measured\"")).unwrap();
    let cell: Value = serde_json::from_str(cell).unwrap();
    let schema = schema("results");
    assert_eq!(check(&schema, &cell), Ok(()));
    let mut lacking = cell.clone();
    lacking.as_object_mut().unwrap().remove("requests_per_second");
    let problem = check(&schema, &lacking).unwrap_err().to_string();
    assert!(problem.contains("requests_per_second is missing"), "{problem}");
    let mut wrong = cell;
    wrong["concurrency"] = "many".into();
    assert!(
        check(&schema, &wrong).unwrap_err().to_string().contains("/concurrency: no \"integer\"")
    );
}

#[test]
fn lists_fit() {
    fits("architectures", &printed(&["architectures", "--json"]));
    fits("services", &printed(&["services", "--json"]));
}

#[test]
fn a_prediction_and_a_comparison_fit() {
    let run = |name: &str| root().join("runs").join(name).to_str().unwrap().to_owned();
    let capacity = run("2026-11-21-vm/overload/http-keep-alive");
    fits("capacity", &printed(&["capacity", &capacity, "--connections", "40000", "--json"]));
    fits("capacity-check", &printed(&["capacity", &capacity, "--check=1000", "--json"]));
    let (before, after) = (
        run("2026-11-25-vm/conversion/echo-short"),
        run("2026-11-25-vm/conversion-again/echo-short"),
    );
    fits("comparison", &printed(&["report", &before, &after, "--json"]));
}

#[test]
fn a_trace_fits() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("nginx.trace").to_str().unwrap().to_owned();
    let log = root().join("crates/trace/tests/logs/nginx.jsonl");
    let made = Command::new(env!("CARGO_BIN_EXE_duality"))
        .args(["trace", "from"])
        .arg(log)
        .args(["-o", &trace])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    fits("trace", &printed(&["trace", "show", &trace, "--json"]));
}

/// A server that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_load_fits() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_duality"))
        .args(["serve", "echo", "--architecture", "epoll", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let _server = Server(child);
    let ready = stdout.lines().next().unwrap().unwrap();
    let address = ready.strip_prefix("listening on ").unwrap();
    let target = format!("echo://{address}");
    fits("load", &printed(&["load", &target, "-c", "2", "-n", "100", "--json"]));
}
