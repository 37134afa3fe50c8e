//! Tests a kernel that refuses io_uring, as the system call filters of containers do. A variant
//! that needs a ring is unavailable, with the reason. A variant that can work without a ring does
//! so, and reports it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};
use std::thread;

use duality_conformance::PATIENCE;
use rustix::process::{Pid, Signal, kill_process};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};

const REFUSED: &str = "the kernel refuses uring here";

/// The numbers of io_uring_setup(2) and io_uring_enter(2), which are the same on all machines.
const SETUP: i64 = 425;
const ENTER: i64 = 426;

/// Calls `act` in a thread that may not make a ring. The processes that it starts may not either
/// (seccomp(2)).
fn without_a_ring<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    without(SETUP, act)
}

fn without<T: Send>(call: i64, act: impl FnOnce() -> T + Send) -> T {
    let rules = [(call, vec![])].into_iter().collect();
    let refuse = SeccompAction::Errno(rustix::io::Errno::PERM.raw_os_error().unsigned_abs());
    let machine = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, machine).unwrap();
    let filter: BpfProgram = filter.try_into().unwrap();
    let acting = || {
        apply_filter(&filter).unwrap();
        act()
    };
    thread::scope(|threads| threads.spawn(acting).join().unwrap())
}

fn served() -> Command {
    Command::new(env!("CARGO_BIN_EXE_served"))
}

fn run(arguments: &[&str]) -> (Output, String) {
    let output = without_a_ring(|| served().args(arguments).output().unwrap());
    let stderr = String::from_utf8(output.stderr.clone()).unwrap();
    (output, stderr)
}

/// Serves one client, and returns the server's standard error until its end.
fn serve(arguments: &[&str]) -> String {
    let mut command = served();
    command.args(["serve", "echo", "--listen=127.0.0.1:0"]).args(arguments);
    let mut child =
        without_a_ring(|| command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let mut client = TcpStream::connect(line.trim().rsplit(' ').next().unwrap()).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.write_all(b"hello").unwrap();
    client.read_exact(&mut [0; 5]).unwrap();
    drop(client);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn user_level_threads_are_on_epoll_and_say_so() {
    let said = serve(&["--architecture=uthreads"]);
    assert!(said.starts_with(&format!("uthreads on epoll: {REFUSED}")), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(serve(&["--architecture=uthreads", "--poller=poll"]), "");
}

#[test]
fn who_asks_for_a_ring_is_told_where_to_look() {
    for arguments in [
        &["serve", "--architecture=uring"][..],
        &["serve", "--architecture=uthreads", "--poller=uring"],
    ] {
        let (output, said) = run(arguments);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(REFUSED) && said.contains("kernel.io_uring_disabled"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

/// On this kernel a program can make a ring, but the ring does nothing.
#[test]
fn a_filter_that_refuses_to_enter_a_ring_is_told_of_as_well() {
    let start = || served().args(["serve", "echo", "--architecture=uring"]).output().unwrap();
    let output = without(ENTER, start);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(REFUSED) && stderr.lines().count() == 1, "{stderr}");
}

#[test]
fn the_list_of_architectures_tells_it() {
    let (output, _) = run(&["architectures"]);
    let list = String::from_utf8(output.stdout).unwrap();
    // Further lines of an entry begin with a space.
    let entry = |name: &str| {
        let own = list.lines().skip_while(|line| !line.starts_with(name));
        let more = own.clone().skip(1).take_while(|line| line.starts_with(' '));
        let words = own.take(1).chain(more).flat_map(str::split_whitespace);
        words.collect::<Vec<_>>().join(" ")
    };
    assert!(entry("uring ").contains(&format!("[unavailable: {REFUSED}")), "{list}");
    assert!(entry("uthreads ").contains(&format!("[on epoll: {REFUSED}")), "{list}");
    assert!(!entry("epoll ").contains('['), "{list}");
}

#[test]
fn a_comparison_does_without_it() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("results").display().to_string();
    let (output, said) = run(&[
        "compare",
        "echo",
        "--architectures=uthreads,uring",
        "--concurrency=2",
        "--repeats=1",
        "--warm-up=50ms",
        "--window=100ms",
        "--out",
        &out,
    ]);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(&format!("uthreads on epoll: {REFUSED}")), "{said}");
    let table = String::from_utf8(output.stdout).unwrap();
    let row = table.lines().find(|line| line.trim_start().starts_with("uring")).unwrap();
    assert!(row.contains("n/a"), "{table}");
    // The results contain the reason, too.
    let results = fs::read_to_string(format!("{out}/results.jsonl")).unwrap();
    assert!(results.contains("--poller=epoll") && results.contains(REFUSED));
}
