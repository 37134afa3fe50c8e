//! `duality trace` and `duality record`: the commands of docs/trace.md on real logs, what they
//! refuse, and a proxy between a client and a server.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_duality");

fn log(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../trace/tests/logs")).join(name)
}

/// Runs the program in a directory: the exit code, and what it said.
fn duality(directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(PROGRAM);
    let Output { status, stdout, stderr } =
        command.args(arguments).current_dir(directory).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

fn summary(directory: &Path, trace: &str) -> Value {
    let (code, output, errors) = duality(directory, &["trace", "show", trace, "--json"]);
    assert_eq!(code, 0, "{errors}");
    serde_json::from_str(&output).unwrap()
}

#[test]
fn the_commands_of_the_page_work() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(log("shuffled-minutes.log"), folder.path().join("access.log")).unwrap();
    let (code, output, errors) =
        duality(folder.path(), &["trace", "from", "access.log", "-o", "my.trace"]);
    assert_eq!(code, 0, "{errors}");
    assert!(output.starts_with("my.trace: 450 requests on "), "{output}");
    assert!(errors.contains("these times are not those of arrivals"), "{errors}");

    let (code, text, errors) = duality(folder.path(), &["trace", "show", "my.trace"]);
    assert_eq!((code, &*errors), (0, ""));
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    for output in ["450 requests", "Open connections", "Think time", "Inferred", "To know"] {
        assert!(text.contains(output), "{output}: {text}");
    }

    let shown = summary(folder.path(), "my.trace");
    assert_eq!((&shown["version"], &shown["requests"]), (&1.into(), &450.into()));

    let page = ["trace", "show", "my.trace", "--page", "my.html"];
    assert_eq!(duality(folder.path(), &page).0, 0);
    let page = fs::read_to_string(folder.path().join("my.html")).unwrap();
    assert!(page.contains("<svg") && !page.contains("src=") && !page.contains("192.0.2."));
}

#[test]
fn flags_change_what_is_inferred() {
    let folder = tempfile::tempdir().unwrap();
    let own = log("shuffled-minutes.log");
    let own = own.to_str().unwrap();
    let connections = |flags: &[&str]| {
        let (code, _, errors) = duality(folder.path(), &[&["trace", "from", own], flags].concat());
        assert_eq!(code, 0, "{errors}");
        summary(folder.path(), "my.trace")
    };
    assert_eq!(connections(&["--keep-alive", "0"])["connections"], 450);
    assert_eq!(connections(&["--format", "combined"])["paths"], 0);
    assert!(connections(&["--paths", "--stamp=start"])["paths"].as_u64().unwrap() > 100);
    let most = connections(&["--max-size", "64KiB"])["reply"]["most"].as_f64().unwrap();
    assert_eq!(most, 65_536.0);
}

#[test]
fn standard_input_is_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(PROGRAM)
        .args(["trace", "from", "-"])
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&fs::read(log("nginx.jsonl")).unwrap()).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(summary(folder.path(), "my.trace")["connections"], 138);
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("empty"), "").unwrap();
    fs::write(folder.path().join("binary"), [0, 1, 2, 255]).unwrap();
    let own = log("nasa.log");
    let own = own.to_str().unwrap();
    for (arguments, code, message) in [
        (&["trace", "from", "no.log"][..], 2, "no.log: No such file"),
        (&["trace", "from", "empty"], 1, "empty: it is empty"),
        (&["trace", "from", "binary"], 1, "binary: line 1"),
        (&["trace", "from", own, "-o", "no/x"], 1, "no/x: No such file"),
        (&["trace", "from", own, "--keep-alive", "5"], 2, "has no unit"),
        (&["trace", "from", own, "--format", "iis"], 2, "combined"),
        (&["trace", "show", "no.trace"], 2, "no.trace: No such file"),
        (&["trace", "show", "empty"], 2, "empty: line 1: this is no trace"),
        (&["trace", "show", "binary"], 2, "binary: line 1: this is no trace"),
        (&["trace", "show", own], 2, "this is no trace"),
        (&["record", "--listen", "0"], 2, "--to"),
        (&["record", "--listen", "0", "--to", "1", "-o", "no/x"], 2, "no: no such directory"),
        (&["record", "--listen", "192.0.2.1:1", "--to", "1"], 1, "192.0.2.1:1"),
        (&["record", "--listen", "0", "--to", "1", "--duration=1ms"], 1, "no request came"),
    ] {
        let (found, _, said) = duality(folder.path(), arguments);
        assert_eq!(found, code, "{arguments:?}: {said}");
        let last = said.lines().last().unwrap_or_default();
        assert!(last.contains(message), "{arguments:?}: {said}");
    }
    assert!(!folder.path().join("my.trace").exists());
}

/// A server that answers each line by a thousand bytes, and closes with its client.
fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().unwrap());
                let mut line = String::new();
                while lines.read_line(&mut line).is_ok_and(|count| count > 0) {
                    let _ = stream.write_all(&[b'x'; 1000]);
                    line.clear();
                }
            });
        }
    });
    port
}

/// Makes requests on a connection, each after the reply before.
fn ask(port: u16, requests: usize) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    for _ in 0..requests {
        stream.write_all(b"a request\n").unwrap();
        stream.read_exact(&mut [0; 1000]).unwrap();
    }
}

#[test]
fn a_proxy_records_what_passes() {
    let folder = tempfile::tempdir().unwrap();
    let to = server().to_string();
    let mut child = Command::new(PROGRAM)
        .args(["record", "--listen", "0", "--to", &to, "-o", "my.trace"])
        .current_dir(folder.path())
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    errors.read_line(&mut line).unwrap();
    let port = line.split(',').next().unwrap().rsplit(':').next().unwrap().parse().unwrap();

    // One connection alone, which waits for each reply; then many at once.
    ask(port, 200);
    let crowd: Vec<_> = (0..20).map(|_| thread::spawn(move || ask(port, 50))).collect();
    crowd.into_iter().for_each(|client| client.join().unwrap());
    // One connection is silent, and one is open at the end.
    let _silent = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut open = TcpStream::connect(("127.0.0.1", port)).unwrap();
    open.write_all(b"a request\n").unwrap();
    open.read_exact(&mut [0; 1000]).unwrap();

    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
    let shown = summary(folder.path(), "my.trace");
    assert_eq!((&shown["requests"], &shown["connections"]), (&1201.into(), &22.into()));
    assert_eq!(shown["per_connection"]["most"], 200.0);
    // 1,000 bytes in quarter powers of two.
    assert_eq!((&shown["reply"]["p50"], &shown["source"]), (&1024.0.into(), &"proxy".into()));
    let text = fs::read(folder.path().join("my.trace")).unwrap();
    assert!(!text.windows(9).any(|window| window == b"a request"));
}

/// Records packets to `port` while `traffic` passes, and returns the summary of the trace. `None`
/// without CAP_NET_RAW, which root has. A stalled recorder reads nothing until the traffic is over.
fn recorded(folder: &Path, port: u16, stalls: bool, traffic: impl FnOnce()) -> Option<Value> {
    let mut child = Command::new(PROGRAM)
        .args(["record", "--interface", "lo", "--port", &port.to_string(), "-o", "my.trace"])
        .current_dir(folder)
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    errors.read_line(&mut line).unwrap();
    if line.contains("CAP_NET_RAW") {
        assert_eq!(child.wait().unwrap().code(), Some(1));
        // `eprintln!` would go into the test's own output.
        drop(writeln!(std::io::stderr(), "skipped: {line}"));
        return None;
    }
    assert!(line.starts_with("recording packets of port"), "{line}");
    let pid = Pid::from_child(&child);
    if stalls {
        kill_process(pid, Signal::STOP).unwrap();
    }
    traffic();
    kill_process(pid, Signal::TERM).unwrap();
    kill_process(pid, Signal::CONT).unwrap();
    assert!(child.wait().unwrap().success());
    line.clear();
    errors.read_to_string(&mut line).unwrap();
    assert!(!line.contains("dropped"), "{line}");
    Some(summary(folder, "my.trace"))
}

#[test]
fn packets_of_an_interface_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let port = server();
    let shown = recorded(folder.path(), port, false, || {
        ask(port, 100);
        let crowd: Vec<_> = (0..10).map(|_| thread::spawn(move || ask(port, 20))).collect();
        crowd.into_iter().for_each(|client| client.join().unwrap());
        // Traffic of another server does not count.
        ask(server(), 5);
    });
    let Some(shown) = shown else { return };
    assert_eq!((&shown["requests"], &shown["connections"]), (&300.into(), &11.into()));
    assert_eq!(shown["per_connection"]["most"], 100.0);
    assert_eq!((&shown["reply"]["p50"], &shown["source"]), (&1024.0.into(), &"packets".into()));
    let text = fs::read(folder.path().join("my.trace")).unwrap();
    assert!(!text.windows(9).any(|window| window == b"a request"));
}

/// A recorder on a busy machine reads packets late, also after its end.
#[test]
fn packets_that_are_read_after_the_end_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..5 {
        let port = server();
        let Some(shown) = recorded(folder.path(), port, true, || ask(port, 50)) else { return };
        assert_eq!((&shown["requests"], &shown["connections"]), (&50.into(), &1.into()));
    }
}
