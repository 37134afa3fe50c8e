//! Architectures made of processes. The tests show a server with a process that is signalled, that
//! is killed, or that ends at once. Other tests show which programs may fork at all.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use duality_conformance::{PATIENCE, ServerProcess, eventually};
use rustix::process::{Pid, Signal, kill_process};

fn command(program: &str, architecture: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(["serve", "--listen=127.0.0.1:0", "--architecture"]).args(architecture);
    command
}

fn serve(architecture: &[&str]) -> ServerProcess {
    ServerProcess::start(&mut command(env!("CARGO_BIN_EXE_panicky"), architecture))
}

/// The living child processes of a server.
fn children(server: &ServerProcess) -> Vec<Pid> {
    let pid = server.pid();
    let all = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let numbers = all.unwrap_or_default();
    numbers.split_whitespace().filter_map(|number| Pid::from_raw(number.parse().ok()?)).collect()
}

#[test]
fn a_worker_that_is_signalled_ends_alone_and_is_replaced() {
    for signal in [Signal::TERM, Signal::INT, Signal::USR2] {
        let server = serve(&["prefork", "--workers=4"]);
        let workers = eventually("four workers", || {
            Some(children(&server)).filter(|workers| workers.len() == 4)
        });
        kill_process(workers[0], signal).unwrap();
        eventually("another takes its place", || {
            let now = children(&server);
            let others = workers[1..].iter().all(|worker| now.contains(worker));
            assert!(others, "{signal:?} to one worker ended another");
            (now.len() == 4 && !now.contains(&workers[0])).then_some(())
        });
        for _ in 0..8 {
            assert_eq!(server.ask(b"hello"), b"hello", "after {signal:?}");
        }
        server.signal(Signal::TERM);
        let (status, stderr) = server.wait();
        assert_eq!(status.code(), Some(0), "{signal:?}: {stderr}");
    }
}

/// A worker reloads only together with its parent.
#[test]
fn a_worker_ignores_the_signal_for_a_reload() {
    let server = serve(&["prefork", "--workers=4"]);
    let workers =
        eventually("four workers", || Some(children(&server)).filter(|workers| workers.len() == 4));
    workers.iter().for_each(|worker| kill_process(*worker, Signal::HUP).unwrap());
    for _ in 0..8 {
        assert_eq!(server.ask(b"hello"), b"hello");
    }
    assert_eq!(children(&server), workers);
    server.signal(Signal::TERM);
    let (status, stderr) = server.wait();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
}

#[test]
fn workers_that_end_at_once_are_replaced_slowly_and_not_for_ever() {
    let mut server = serve(&["prefork", "--workers=2"]);
    let mut killed = HashSet::new();
    eventually("the parent gives up", || {
        for worker in children(&server) {
            if kill_process(worker, Signal::KILL).is_ok() {
                killed.insert(worker);
            }
        }
        thread::yield_now();
        server.has_ended().then_some(())
    });
    let (status, stderr) = server.wait();
    assert_eq!(status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("starting others more slowly"), "{stderr}");
    let last = stderr.lines().last().unwrap();
    assert!(
        last.contains("prefork: cannot serve: ") && last.contains("killed by signal 9"),
        "{stderr}"
    );
    // A parent that does not slow down makes thousands of workers.
    assert!(killed.len() < 200, "{} workers were started", killed.len());
}

#[test]
fn a_server_outlives_its_killed_processes() {
    for architecture in [&["fork"][..], &["prefork", "--workers=4"]] {
        let server = serve(architecture);
        let (over, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        let mut stream = server.connect();
                        let mut back = [0; 5];
                        // A connection may end with its process, but the server must accept another
                        // at once.
                        if stream.write_all(b"hello").is_ok()
                            && stream.read_exact(&mut back).is_ok()
                        {
                            assert_eq!(&back, b"hello");
                            answered.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            for kill in 0..40 {
                let signal = [Signal::KILL, Signal::TERM, Signal::SEGV, Signal::ABORT][kill % 4];
                let before = answered.load(Ordering::Relaxed);
                eventually("a process to kill", || {
                    let children = children(&server);
                    let victim = children.get(kill % children.len().max(1))?;
                    kill_process(*victim, signal).ok()
                });
                eventually("the next answers", || {
                    (answered.load(Ordering::Relaxed) > before + 2).then_some(())
                });
            }
            over.store(true, Ordering::Relaxed);
        });
        assert_eq!(server.ask(b"still there"), b"still there");
        server.signal(Signal::TERM);
        let (status, stderr) = server.wait();
        assert_eq!(status.code(), Some(0), "{architecture:?}: {stderr}");
    }
}

#[test]
fn a_program_with_threads_of_its_own_does_not_fork() {
    let program = env!("CARGO_BIN_EXE_threaded");
    for architecture in ["fork", "prefork"] {
        let output = command(program, &[architecture]).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("1 threads of its own") && stderr.lines().count() == 1, "{stderr}");
        assert!(output.stdout.is_empty(), "it does not listen");
    }
    let server = ServerProcess::start(&mut command(program, &["threads"]));
    assert_eq!(server.ask(b"a"), b"a");
}

#[test]
fn a_second_server_on_the_port_of_a_first_is_refused_on_several_cores_too() {
    for cores in ["--cores=1", "--cores=2"] {
        let first = serve(&["epoll", "--cores=2"]);
        let mut second = Command::new(env!("CARGO_BIN_EXE_panicky"));
        second.args(["serve", "--architecture=epoll", cores, "--listen"]);
        let mut second = second
            .arg(first.address().to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let deadline = std::time::Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = second.try_wait().unwrap() {
                break Some(status);
            }
            if std::time::Instant::now() > deadline {
                second.kill().unwrap();
                break None;
            }
            thread::yield_now();
        };
        let stderr = std::io::read_to_string(second.stderr.take().unwrap()).unwrap();
        second.wait().unwrap();
        assert_eq!(status.and_then(|status| status.code()), Some(1), "{cores}: {stderr}");
        assert!(stderr.contains("cannot listen at") && stderr.contains("in use"), "{stderr}");
    }
}
