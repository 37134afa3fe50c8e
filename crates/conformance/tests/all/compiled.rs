//! `duality compare --binary … --compiled …`: one server natively, on the engine, and compiled by
//! `duality cc`.

use std::path::Path;
use std::process::{Command, Output};

use duality_conformance::programs::{compile, copy_program, finish, folder};

/// A program with the commands of `duality`.
const DUALITY: &str = env!("CARGO_BIN_EXE_served");

/// Puts the example into a folder: as `server`, as `server-cc` by `duality cc`, and with a site.
fn example(place: &Path) {
    let source = folder("../../examples/c/server.c");
    compile(std::slice::from_ref(&source), &["-pthread"], &place.join("server"));
    std::fs::create_dir(place.join("site")).expect("a folder");
    std::fs::write(place.join("site/index.html"), "hello").expect("written");
    let mut command = Command::new(DUALITY);
    command.args(["cc", "-O2", "-pthread"]).arg(&source).arg("-o").arg(place.join("server-cc"));
    let output = finish(&mut command);
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        duality_conformance::skip(format_args!(
            "nothing is converted here, the third way is native: {}",
            stderr.trim()
        ));
        copy_program(&place.join("server"), &place.join("server-cc"));
    }
}

fn compare(place: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(DUALITY);
    command.current_dir(place).args(["compare", "--binary", "./server {port} site"]);
    finish(command.args(arguments))
}

/// Compares the three ways, and returns the lines of the results.
fn measured(place: &Path, arguments: &[&str]) -> Vec<serde_json::Value> {
    let three = ["--compiled", "./server-cc {port} site", "--seed", "7", "--tables"];
    let output = compare(place, &[&three[..], arguments, &["--out", "out"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        stdout.contains("as a multiple of native's") && stdout.contains("duality-cc"),
        "{stdout}"
    );
    let page = std::fs::read_to_string(place.join("out/report.html")).expect("a page");
    assert!(page.contains("duality-cc") && page.contains("duality-run"), "a way is missing");
    let results = std::fs::read_to_string(place.join("out/results.jsonl")).expect("results");
    results.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Checks that each way has the same number of measurements, and that all are good.
fn each_way_was_measured(lines: &[serde_json::Value], cells: usize) {
    for way in ["native", "duality-run", "duality-cc"] {
        let own: Vec<_> = lines
            .iter()
            .filter(|line| line["kind"] == "cell" && line["architecture"] == way)
            .collect();
        assert_eq!(own.len(), cells, "{way}");
        for cell in own {
            assert_eq!(
                (&cell["outcome"], &cell["errors"]),
                (&"measured".into(), &serde_json::json!({}))
            );
            assert!(cell["requests"].as_u64() > Some(0), "{cell}");
        }
    }
    let blocks = lines.iter().filter(|line| line["kind"] == "block");
    for block in blocks {
        let slices = block["slices"].as_array().expect("slices");
        let of = |way: &str| slices.iter().filter(|slice| slice["architecture"] == way).count();
        assert_eq!([of("native"), of("duality-run"), of("duality-cc")], [2, 2, 2], "{block}");
    }
}

#[test]
fn a_compiled_server_is_the_third_way() {
    let place = tempfile::tempdir().expect("a folder");
    example(place.path());
    let arguments = ["-c", "5,50", "--repeats", "1", "--blocks", "2", "--cores", "1"];
    let lines = measured(place.path(), &arguments);
    each_way_was_measured(&lines, 2);
    let design = &lines[0]["design"];
    assert_eq!(design["ways"]["native"], "native");
    let peers = design["peers"].as_array().expect("peers");
    assert_eq!(peers[2]["command"], serde_json::json!(["./server-cc", "{port}", "site"]));
    assert_eq!(peers[2]["environment"]["DUALITY_CORES"], "1");
}

/// Makes requests to a web server, each on its own connection.
const LOAD: &str = "import socket, sys\n\
    for _ in range(20):\n\
    \x20   s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n\
    \x20   s.sendall(b'GET / HTTP/1.1\\r\\nConnection: close\\r\\n\\r\\n')\n\
    \x20   reply = b''\n\
    \x20   while part := s.recv(4096): reply += part\n\
    \x20   assert reply.endswith(b'hello'), reply\n\
    print('requests 20')\n";

#[test]
fn a_load_command_loads_all_three() {
    let place = tempfile::tempdir().expect("a folder");
    example(place.path());
    std::fs::write(place.path().join("load.py"), LOAD).expect("written");
    let load = ["--load-command", "python3 load.py {port}", "--repeats", "1", "--blocks", "1"];
    let lines = measured(place.path(), &load);
    each_way_was_measured(&lines, 1);
}

#[test]
fn what_is_wrong_with_a_compiled_program_is_told_in_a_line() {
    let place = tempfile::tempdir().expect("a folder");
    let path = |name: &str| place.path().join(name);
    compile(&[folder("../../examples/c/server.c")], &["-pthread"], &path("server"));
    for (compiled, message) in [
        ("./server-cc {port} site", "no such program: build it by CC=\"duality cc\""),
        ("./server", "put {port} into the command"),
        ("./server {port} site", "is the command of --binary"),
        ("./server '{port}", "a quote is not closed"),
    ] {
        let output = compare(place.path(), &["--check", "--compiled", compiled]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let one_line = said.trim().lines().count() == 1;
        let starts = said.contains("--compiled: ");
        assert!(
            output.status.code() == Some(2) && said.contains(message) && one_line && starts,
            "{said}"
        );
    }
    let alone = Command::new(DUALITY)
        .args(["compare", "--compiled", "./server {port}", "--check"])
        .output()
        .expect("it runs");
    assert_eq!(alone.status.code(), Some(2), "{alone:?}");
    // The command measures a native program, and prints a line about it.
    copy_program(&path("server"), &path("other"));
    let output = compare(place.path(), &["--check", "--compiled", "./other {port} site"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && said.contains("lacks the runtime of `duality cc`"),
        "{said}"
    );
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("native, duality-run, duality-cc"), "{said}");
}
