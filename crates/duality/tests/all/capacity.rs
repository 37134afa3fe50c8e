//! `duality capacity` on kept runs: what it prints, and how it refuses.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn kept(run: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../runs")).join(run)
}

/// Runs `duality capacity` on a kept run; returns the exit code and what it said.
fn capacity(run: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duality"));
    let Output { status, stdout, stderr } =
        command.arg("capacity").arg(run).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

fn json(run: &Path, arguments: &[&str]) -> Value {
    let (code, answer, errors) = capacity(run, &[arguments, &["--json"]].concat());
    assert_eq!(code, 0, "{errors}");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["version"], 1);
    answer
}

const KEEP_ALIVE: &str = "2026-11-21-vm/overload/http-keep-alive";
const GUESTBOOK: &str = "2026-11-21-vm/zerohttpd";

#[test]
fn every_architecture_has_a_prediction_and_a_first_limit() {
    let asked = ["--connections", "40000", "--rate", "1e6", "--processors", "64", "--hosts", "2"];
    let answer = json(&kept(KEEP_ALIVE), &asked);
    let architectures = answer["experiments"][0]["architectures"].as_array().unwrap();
    assert_eq!(architectures.len(), 3);
    for architecture in architectures {
        let time = &architecture["server_cpu_us_per_request"];
        let [low, value, high] =
            [&time["interval"]["low"], &time["value"], &time["interval"]["high"]]
                .map(|figure| figure.as_f64().unwrap());
        assert!(low < value && value < high && (1.0..100.0).contains(&value), "{architecture}");
        let first = &architecture["limits"][0];
        let expected = match architecture["architecture"].as_str().unwrap() {
            "pool" => ("workers", 100),
            // 20,000 descriptors, of which 20 are in use and 1,024 in reserve.
            _ => ("descriptors", 18_956),
        };
        assert_eq!(
            (&first["what"], &first["connections"]),
            (&expected.0.into(), &expected.1.into())
        );
        assert!(architecture["server_bytes"]["value"].as_f64().unwrap() > 1e6, "{architecture}");
        assert!(architecture["need"]["processors"]["value"].as_f64().unwrap() > 1.0);
    }
    assert!(answer["experiments"][0]["notes"].as_array().unwrap().len() >= 2, "{answer}");
}

#[test]
fn tables_have_80_columns_and_name_what_runs_out() {
    let asked = ["--connections", "40000", "--rate", "1e6", "--hosts", "9"];
    let (code, told, _) = capacity(&kept(KEEP_ALIVE), &asked);
    assert_eq!(code, 0);
    for words in ["first limit", "! 18,956 descriptors", "Raise ulimit -n", "processors", "/s: "] {
        assert!(told.contains(words), "{words}: {told}");
    }
    for line in told.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn long_requests_are_predicted_within_their_interval() {
    let answer = json(&kept(GUESTBOOK), &["--check"]);
    // Eight architectures, at 3,000, 8,000, 11,000 and 15,000 connections.
    let accuracy = &answer["checks"][0]["accuracy"];
    assert_eq!((&accuracy["count"], &accuracy["within_interval"]), (&32.into(), &30.into()));
    let checked = answer["checks"][0]["checked"].as_array().unwrap().iter();
    let farthest: Vec<&Value> =
        checked.filter(|checked| checked["connections"] == 15_000).collect();
    assert_eq!(farthest.len(), 8);
    for checked in farthest {
        assert!(checked["off"].as_f64().unwrap().abs() <= 0.1, "{checked}");
    }
}

#[test]
fn a_page_shows_what_was_measured_and_what_is_predicted() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("capacity.html");
    let out = page.to_str().unwrap();
    // 15,000 connections were measured.
    assert_eq!(capacity(&kept(KEEP_ALIVE), &["--out", out]).0, 2);
    assert!(!page.exists());
    // Three architectures: their processor time, and where it is predicted their memory.
    for (arguments, charts) in [(&["--connections", "100000"][..], 6), (&["--check"], 3)] {
        let (code, _, errors) = capacity(&kept(KEEP_ALIVE), &[arguments, &["--out", out]].concat());
        assert_eq!(code, 0, "{errors}");
        let text = std::fs::read_to_string(&page).unwrap();
        assert_eq!(text.matches("class=\"band\"").count(), charts, "{arguments:?}");
    }
}

#[test]
fn what_cannot_be_answered_is_refused_in_one_line() {
    for (run, arguments, message) in [
        (KEEP_ALIVE, &["--connections", "500"][..], "ask for more by --connections"),
        ("2026-11-21-vm/knot/idle-0", &[], "--concurrency 100,1000"),
        (KEEP_ALIVE, &["-c", "99999", "-a", "none"], "choose from pool, uthreads, epoll"),
        (KEEP_ALIVE, &["--check=20000"], "nothing was measured beyond"),
        (KEEP_ALIVE, &["--check=100"], "two numbers of connections"),
        (KEEP_ALIVE, &["--hosts"], "--rate"),
        (KEEP_ALIVE, &["--rate", "much"], "such as 20000"),
        (KEEP_ALIVE, &["--connections", "0"], "from 1 to"),
        ("absent", &[], "absent"),
    ] {
        let (code, _, said) = capacity(&kept(run), arguments);
        assert_eq!((code, said.lines().count()), (2, 1), "{arguments:?}: {said}");
        assert!(said.contains(message), "{arguments:?}: {said}");
    }
}
