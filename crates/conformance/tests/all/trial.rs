//! Tests trials on live traffic, with real processes and sockets, and with clients that count every
//! answer.
//!
//! The service `uneven` is worse under some architectures by more than any noise, so that no timing
//! decides these tests.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use duality_conformance::{PATIENCE, eventually};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The longest wait for a trial, which takes some seconds.
const LONG: Duration = Duration::from_secs(120);
const CLIENTS: usize = 4;

/// A trial that prints its events as JSON.
struct Trial {
    child: Child,
    address: SocketAddr,
    events: Receiver<Value>,
}

impl Trial {
    fn start(program: &str, arguments: &str) -> Self {
        let mut command = Command::new(program);
        command.arg("trial").args(arguments.split_whitespace());
        command.args(["--json", "--listen=127.0.0.1:0"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (event, events) = channel();
        thread::spawn(move || {
            let mut lines = lines.map_while(Result::ok);
            lines.try_for_each(|line| event.send(serde_json::from_str(&line).unwrap()))
        });
        let mut trial = Self { child, address: ([0; 4], 0).into(), events };
        trial.address = trial.event("began")["address"].as_str().unwrap().parse().unwrap();
        trial
    }

    /// Waits for an event.
    fn event(&self, name: &str) -> Value {
        let deadline = Instant::now() + LONG;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let event = self.events.recv_timeout(left);
            let event = event.unwrap_or_else(|error| panic!("no event {name}: {error}"));
            if event["event"] == name {
                return event;
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// The processes of candidates with this architecture.
    fn candidates(&self, architecture: &str) -> Vec<Pid> {
        let pid = self.child.id();
        let read = |file: String| std::fs::read_to_string(file).unwrap_or_default();
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let children =
            threads.map(|thread| read(format!("{}/children", thread.unwrap().path().display())));
        let children: Vec<String> = children.collect();
        let numbers = children.iter().flat_map(|text| text.split_whitespace());
        numbers
            .filter(|pid| {
                let line = read(format!("/proc/{pid}/cmdline"));
                line.split('\0').any(|word| word == architecture)
            })
            .filter_map(|pid| Pid::from_raw(pid.parse().ok()?))
            .collect()
    }

    /// Waits for the end, and returns the exit status and standard error.
    fn end(mut self) -> (ExitStatus, String) {
        let mut output = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut output).unwrap();
        let status = eventually("the trial ends", || self.child.try_wait().unwrap());
        (status, output)
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks on a new connection.
fn ask(address: SocketAddr, request: &[u8], end: &str) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    answer(&mut stream, request, end)
}

fn answer(stream: &mut TcpStream, request: &[u8], end: &str) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request)?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    match reply.ends_with(end) {
        true => Ok(()),
        false => Err(io::Error::other(format!("not an answer: {reply:?}"))),
    }
}

fn how(address: SocketAddr) -> io::Result<()> {
    ask(address, b"how?\n", "well\n")
}

/// Runs `body` while clients ask again and again. Returns the number of answered requests, and the
/// errors.
fn with_clients<T>(
    request: impl Fn() -> io::Result<()> + Sync,
    body: impl FnOnce(&AtomicUsize) -> T,
) -> (T, usize, Vec<io::Error>) {
    let (over, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let client = || {
            let mut lost = Vec::new();
            while !over.load(Ordering::Relaxed) {
                match request() {
                    Ok(()) => _ = answered.fetch_add(1, Ordering::Relaxed),
                    Err(error) => lost.push(error),
                }
            }
            lost
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&answered)));
        over.store(true, Ordering::Relaxed);
        let lost = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        let done = done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (done, answered.load(Ordering::Relaxed), lost)
    })
}

const UNEVEN: &str = env!("CARGO_BIN_EXE_uneven");
const SERVED: &str = env!("CARGO_BIN_EXE_served");

#[test]
fn the_better_one_wins_and_goes_on_serving() {
    let trial = Trial::start(UNEVEN, "--candidates threads,epoll --slot 100ms");
    let address = trial.address;
    let ((verdict, trial), answered, lost) = with_clients(
        || how(address),
        |answered| {
            let verdict = trial.event("decided");
            let drained = trial.event("drained");
            assert_eq!(drained["candidate"], "threads");
            let before = answered.load(Ordering::Relaxed);
            eventually("epoll goes on", || {
                (answered.load(Ordering::Relaxed) >= before + 100).then_some(())
            });
            (verdict, trial)
        },
    );
    assert!(lost.is_empty(), "{lost:?}");
    assert_eq!(verdict["finding"]["finding"], "winner", "{verdict}");
    assert_eq!(
        (&verdict["finding"]["candidate"], &verdict["serving"]),
        (&"epoll".into(), &"epoll".into())
    );
    assert!(verdict["measured"]["threads"]["requests"].as_u64().unwrap() > 100, "{verdict}");
    assert!(answered > 200);
    trial.signal(Signal::TERM);
    trial.event("ended");
    let (status, stderr) = trial.end();
    assert_eq!(status.code(), Some(0), "{stderr}");
}

/// A few blocks never decide. `duality-lab` tests the decision of many blocks.
#[test]
fn equal_candidates_are_not_told_apart() {
    let arguments = "http --candidates a=epoll,b=epoll --slot 100ms --budget 3s --then exit";
    let trial = Trial::start(SERVED, arguments);
    let address = trial.address;
    let get =
        || ask(address, b"GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n", "</p>\n");
    // Clients stop before the regular end of the trial.
    let (_, _, lost) = with_clients(get, |_| trial.event("block"));
    assert!(lost.is_empty(), "{lost:?}");
    let verdict = trial.event("decided");
    assert_eq!(verdict["finding"]["finding"], "out_of_time", "{verdict}");
    assert!(verdict["serving"].is_null(), "{verdict}");
    trial.event("ended");
    assert_eq!(trial.end().0.code(), Some(0));
}

#[test]
fn a_candidate_that_fails_is_out() {
    let arguments = "--candidates epoll,pool,uthreads --by connection --slot 100ms";
    let trial = Trial::start(UNEVEN, arguments);
    let (address, failed) = (trial.address, AtomicUsize::new(0));
    let request = || how(address).inspect_err(|_| _ = failed.fetch_add(1, Ordering::Relaxed));
    let (out, _, lost) = with_clients(request, |answered| {
        let out = trial.event("out");
        trial.event("drained");
        let state = || (failed.load(Ordering::Relaxed), answered.load(Ordering::Relaxed));
        let before = state();
        let after =
            eventually("others go on", || Some(state()).filter(|now| now.1 >= before.1 + 100));
        assert_eq!(after.0, before.0, "nothing fails any more");
        out
    });
    assert_eq!((&out["candidate"], &out["reason"]["why"]), (&"pool".into(), &"errors".into()));
    assert!(!lost.is_empty());
    trial.signal(Signal::TERM);
    assert_eq!(trial.end().0.code(), Some(0));
}

/// The service answers each request, but some answers report a failure.
/// Each client gives up soon, so that nothing but the missing replies tells of the candidate.
#[test]
fn a_candidate_that_never_answers_is_out() {
    let trial = Trial::start(UNEVEN, "--candidates epoll,select --slot 100ms");
    let address = trial.address;
    let impatient = || {
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(Duration::from_millis(50)))?;
        stream.write_all(b"how?\n")?;
        // No answer in time is no failure of this test.
        let _ = stream.read(&mut [0; 8]);
        Ok(())
    };
    let (out, _, lost) = with_clients(impatient, |_| trial.event("out"));
    assert!(lost.is_empty(), "{lost:?}");
    assert_eq!((&out["candidate"], &out["reason"]["why"]), (&"select".into(), &"silent".into()));
}

#[test]
fn a_candidate_that_answers_with_failures_is_out() {
    let arguments = "--candidates epoll,poll --by connection --slot 100ms";
    let trial = Trial::start(UNEVEN, arguments);
    let address = trial.address;
    let (out, answered, lost) = with_clients(|| how(address), |_| trial.event("out"));
    assert_eq!((&out["candidate"], &out["reason"]["why"]), (&"poll".into(), &"errors".into()));
    assert!(answered > 0 && lost.is_empty(), "{lost:?}");
    trial.signal(Signal::TERM);
    assert_eq!(trial.end().0.code(), Some(0));
}

/// Connections that a dead server had accepted are lost with it. All other connections get answers.
#[test]
fn a_candidate_that_dies_is_started_again_once() {
    let trial = Trial::start(UNEVEN, "--candidates epoll,uthreads --slot 100ms --budget 60s");
    let address = trial.address;
    with_clients(
        || how(address),
        |answered| {
            let kill = || {
                let found = eventually("it runs", || trial.candidates("uthreads").first().copied());
                kill_process(found, Signal::KILL).unwrap();
            };
            kill();
            assert_eq!(trial.event("restarted")["candidate"], "uthreads");
            kill();
            let out = trial.event("out");
            assert_eq!(
                (&out["candidate"], &out["reason"]["why"]),
                (&"uthreads".into(), &"died".into())
            );
            let verdict = trial.event("decided");
            assert_eq!(verdict["finding"]["finding"], "last_one", "{verdict}");
            // The trial starts the last candidate again each time that it dies.
            let found = trial.candidates("epoll")[0];
            kill_process(found, Signal::KILL).unwrap();
            assert_eq!(trial.event("restarted")["candidate"], "epoll");
            let before = answered.load(Ordering::Relaxed);
            eventually("epoll goes on", || {
                (answered.load(Ordering::Relaxed) >= before + 100).then_some(())
            });
        },
    );
    trial.signal(Signal::TERM);
    assert_eq!(trial.end().0.code(), Some(0));
}

/// Each client that is connected gets a reply; only new connections are refused, at the end.
#[test]
fn a_signal_in_mid_load_loses_nothing() {
    for by in ["slot", "connection"] {
        let arguments = format!("--candidates epoll,prefork,uthreads --slot 50ms --by {by}");
        let trial = Trial::start(UNEVEN, &arguments);
        let (address, ended) = (trial.address, AtomicBool::new(false));
        let request = || match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(mut stream) => answer(&mut stream, b"how?\n", "well\n"),
            // The trial has closed the address.
            Err(_) if ended.load(Ordering::Relaxed) => Ok(()),
            Err(error) => Err(error),
        };
        let (_, answered, lost) = with_clients(request, |answered| {
            eventually("all are under way", || {
                (answered.load(Ordering::Relaxed) >= 300).then_some(())
            });
            ended.store(true, Ordering::Relaxed);
            trial.signal(Signal::TERM);
            trial.event("ended");
        });
        assert!(lost.is_empty(), "{by}: {lost:?}");
        assert!(answered >= 300);
        assert_eq!(trial.end().0.code(), Some(0));
    }
}

#[test]
fn records_and_a_page_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let arguments = format!("--candidates epoll,uthreads --slot 50ms --out {}", out.display());
    let trial = Trial::start(UNEVEN, &arguments);
    let address = trial.address;
    let (_, _, lost) = with_clients(|| how(address), |_| trial.event("block"));
    assert!(lost.is_empty(), "{lost:?}");
    trial.signal(Signal::INT);
    assert_eq!(trial.end().0.code(), Some(0));
    let records = std::fs::read_to_string(out.join("trial.jsonl")).unwrap();
    let names: Vec<String> = records
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["event"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!((&*names[0], &*names[names.len() - 1]), ("began", "ended"), "{names:?}");
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("all servers have drained"));
    let again = refusal(UNEVEN, &arguments);
    assert!(again.1.contains("holds a trial: choose another --out"), "{again:?}");
}

/// The exit code and the complaint of a trial that does not begin.
fn refusal(program: &str, arguments: &str) -> (Option<i32>, String) {
    let mut command = Command::new(program);
    let output = command.arg("trial").args(arguments.split_whitespace()).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    (output.status.code(), stderr)
}

#[test]
fn what_cannot_be_tried_is_refused_in_one_line() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    for (arguments, code, problem) in [
        ("http --candidates epoll", 2, "give two at least"),
        ("http --candidates epoll,epoll", 2, "two have the same name"),
        ("http --candidates epoll,nothing", 2, "there is no architecture `nothing`"),
        ("nothing --candidates epoll,pool", 2, "there is no service `nothing`"),
        ("chat --candidates epoll,uthreads", 1, "chat on trial: needs shared memory"),
        ("http --candidates epoll,handwritten", 1, "does not count its requests"),
        ("http --candidates epoll,pool --root /nowhere", 2, "--root: /nowhere"),
        (
            &format!("http --candidates epoll,pool --listen {port}"),
            1,
            "stop the server that has it",
        ),
        (
            "http --candidates epoll,pool --share pool=100%",
            2,
            "leave a share for the other candidates",
        ),
        ("http --candidates epoll,pool --max-errors 3", 2, "give a share such as 0.5%"),
    ] {
        let (status, stderr) = refusal(SERVED, arguments);
        assert_eq!(status, Some(code), "{arguments}: {stderr}");
        assert!(
            stderr.starts_with("duality: ") && stderr.contains(problem),
            "{arguments}: {stderr}"
        );
    }
}

#[test]
fn a_listener_of_a_service_manager_is_refused() {
    let script = "exec 3<&0 </dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$0\" \"$@\"";
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let socket = std::os::fd::OwnedFd::from(listener);
    let mut command = Command::new("sh");
    command.args(["-c", script, SERVED, "trial", "http", "--candidates", "epoll,pool"]);
    let output = command.stdin(Stdio::from(socket)).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.starts_with("duality: LISTEN_FDS: ") && stderr.lines().count() == 1, "{stderr}");
}
