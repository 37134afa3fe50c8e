//! Replaces a server while clients go on. Processes pass the socket on, and no connection is
//! refused, reset or left without a reply.
//!
//! `scripts/handover.py` makes the same test with 100,000 requests.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use duality_conformance::{PATIENCE, ServerProcess, eventually, for_every_architecture, runs_here};
use rustix::process::Signal;

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
const CLIENTS: usize = 4;
/// Requests between two steps.
const REQUESTS: usize = 100;
const RESTARTS: usize = 2;

macro_rules! handovers {
    ($name:ident $architecture:expr) => {
        #[test]
        fn $name() {
            if runs_here(&$architecture) {
                no_connection_is_lost(&$architecture, &$architecture);
            }
        }
    };
}

for_every_architecture!(handovers);

/// The architectures share one socket, and wait for it in different ways.
#[test]
fn the_next_server_may_have_another_architecture() {
    for (one, other) in
        [("epoll", "threads"), ("prefork", "uthreads"), ("pool", "epoll"), ("fork", "staged")]
    {
        if runs_here(&[one]) && runs_here(&[other]) {
            no_connection_is_lost(&[one], &[other]);
        }
    }
}

/// Starts a server as a service manager does: with the socket as descriptor 3.
fn serve(listener: &TcpListener, architecture: &[&str]) -> ServerProcess {
    let script = "exec 3<&0 </dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_served"), "serve", "http", "--architecture"]);
    let socket = OwnedFd::from(listener.try_clone().unwrap());
    let server = ServerProcess::start(command.args(architecture).stdin(Stdio::from(socket)));
    assert_eq!(server.address(), listener.local_addr().unwrap());
    server
}

fn ask(address: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(GET)?;
    let reply = io::read_to_string(stream)?;
    match reply.starts_with("HTTP/1.1 200 ") && reply.ends_with("</p>\n") {
        true => Ok(()),
        false => Err(io::Error::other(format!("not a page: {reply:?}"))),
    }
}

fn no_connection_is_lost(one: &[&str], other: &[&str]) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let (over, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let load = || -> io::Result<()> {
        while !over.load(Ordering::Relaxed) {
            ask(address)?;
            answered.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    let lost: Vec<io::Error> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(load)).collect();
        let go_on = || {
            let before = answered.load(Ordering::Relaxed);
            eventually("clients go on", || {
                let has_ended = clients.iter().any(thread::ScopedJoinHandle::is_finished);
                let is_enough = answered.load(Ordering::Relaxed) >= before + REQUESTS;
                (has_ended || is_enough).then_some(())
            });
        };
        let mut server = serve(&listener, one);
        for restart in 0..RESTARTS {
            go_on();
            let next = serve(&listener, if restart % 2 == 0 { other } else { one });
            let old = std::mem::replace(&mut server, next);
            old.signal(Signal::TERM);
            let (status, stderr) = old.wait();
            assert_eq!((status.code(), stderr.as_str()), (Some(0), ""), "{one:?} to {other:?}");
        }
        go_on();
        over.store(true, Ordering::Relaxed);
        clients.into_iter().filter_map(|client| client.join().unwrap().err()).collect()
    });
    assert!(lost.is_empty(), "{one:?} to {other:?}: {lost:?}");
}

/// While no server runs, connections wait in the socket's queue.
#[test]
fn a_connection_waits_for_the_next_server() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let client = thread::spawn(move || ask(address));
    let server = serve(&listener, &["epoll"]);
    client.join().unwrap().unwrap();
    server.signal(Signal::TERM);
    assert_eq!(server.wait().0.code(), Some(0));
}

#[test]
fn what_is_no_listening_socket_is_refused() {
    let script = "exec 3</dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$0\" serve http";
    let mut command = Command::new("sh");
    let refused = command.args(["-c", script, env!("CARGO_BIN_EXE_served")]).output().unwrap();
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{stderr}");
    assert!(stderr.starts_with("duality: LISTEN_FDS: descriptor 3: "), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}
