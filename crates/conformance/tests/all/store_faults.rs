//! Tests the services with a store under faults of the store, and with a client that takes more
//! than its share.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use duality_conformance::soak::kills::{Victim, kill};
use duality_conformance::{PATIENCE, Redis, ServerProcess, runs_here};
use duality_lab::random::SplitMix64;
use rustix::process::Signal;

fn command(service: &str, architecture: &[&str], store: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.args(["serve", service, "--listen=127.0.0.1:0", "--store", store, "--architecture"]);
    command.args(architecture);
    command
}

fn serve(service: &str, architecture: &[&str], store: &str) -> ServerProcess {
    ServerProcess::start(&mut command(service, architecture, store))
}

/// A client sends entries without end. The server takes turns between these entries and the entry
/// of another client.
///
/// The server alone decides the order, since the other client sends its three requests at once. The
/// numbers under `turn` tell how many entries of the endless client were stored before and after
/// the other client's entry.
fn a_client_that_pipelines_leaves_others_their_turn(architecture: &[&str]) {
    const MOST_IN_BETWEEN: u64 = 1000;
    if !runs_here(architecture) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", directory.path().join("store.sqlite").display());
    let server = serve("phone", architecture, &store);
    let mut output = server.connect();
    let mut input = output.try_clone().unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // The client sends many entries at a time, so that the server never has to wait for the
            // next.
            let blocks = (0..).map(|block| {
                let entry = |number| format!("ADD turn {number}\n");
                (block * 1000..(block + 1) * 1000).map(entry).collect::<String>()
            });
            blocks
                .take_while(|_| !done.load(Ordering::Relaxed))
                .take_while(|block| output.write_all(block.as_bytes()).is_ok())
                .for_each(drop);
            let _ = output.shutdown(std::net::Shutdown::Both);
        });
        let (replied, first) = std::sync::mpsc::channel();
        scope.spawn(move || {
            let mut replies = [0; 4096];
            while input.read(&mut replies).is_ok_and(|count| count > 0) {
                let _ = replied.send(());
            }
        });
        first.recv().unwrap();
        let mut other = server.talk();
        other.say("FIND turn\nADD mine 1\nFIND turn\n");
        let replies = [(); 3].map(|()| other.hear());
        done.store(true, Ordering::Relaxed);
        let turn = |reply: &str| reply.strip_prefix("FOUND turn ").unwrap().parse::<u64>().unwrap();
        assert_eq!(replies[1], "ADDED mine 1");
        let in_between = turn(&replies[2]) - turn(&replies[0]);
        assert!(in_between < MOST_IN_BETWEEN, "{in_between} entries came first");
    });
}

/// The place of a test's book.
fn book(directory: &Path) -> PathBuf {
    directory.join("store.sqlite")
}

fn log(book: &Path) -> PathBuf {
    book.with_extension("sqlite-wal")
}

/// The result of starting a service again on a harmed file.
#[derive(Clone, Copy)]
enum Start {
    /// The service does not start, and says why.
    Refused(&'static str),
    /// The service has all acknowledged data.
    WithAll,
    /// The service has the data of the file.
    WithSome,
}

/// A running service with a harmed file stores no more entries, and reports the reason. After a
/// `kill -9`, the service does not start with an empty store.
fn a_harmed_file_takes_no_more(harm: fn(&Path), refused: &str, start: Start) {
    const ENTRIES: usize = 1500;
    let directory = tempfile::tempdir().unwrap();
    let book = book(directory.path());
    let store = format!("sqlite:{}", book.display());
    let mut server = serve("phone", &["epoll"], &store);
    let complaints = server.complaints();
    let mut client = server.talk();
    let name = |number| format!("a-name-that-fills-pages-{number}");
    client.say(&(0..ENTRIES).map(|number| format!("ADD {} 1\n", name(number))).collect::<String>());
    for _ in 0..ENTRIES {
        assert!(client.hear().starts_with("ADDED "));
    }
    assert!(fs::metadata(&book).unwrap().len() > 30_000, "the log has been emptied into the file");
    harm(&book);
    for number in 0..3 {
        assert_eq!(client.ask(&format!("ADD late{number} 1")), "ERROR the store is unavailable");
    }
    let said = complaints.next("the reason is said");
    assert!(said.contains("is unavailable") && said.contains(refused), "{said}");
    // The drop sends SIGKILL.
    drop(server);
    assert_eq!(complaints.rest().collect::<Vec<_>>(), [""; 0], "it is said once");
    if let Start::Refused(reason) = start {
        let ended = command("phone", &["epoll"], &store).output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert!(!ended.status.success() && said.contains(reason), "{said}");
        return;
    }
    let server = serve("phone", &["epoll"], &store);
    let mut client = server.talk();
    let found = (0..ENTRIES).filter(|number| {
        let name = name(*number);
        client.ask(&format!("FIND {name}")) == format!("FOUND {name} 1")
    });
    let found = found.count();
    assert!(found > 0 && (found == ENTRIES || matches!(start, Start::WithSome)), "{found}");
}

fn cut(book: &Path, length: impl Fn(u64) -> u64) {
    let file = OpenOptions::new().write(true).open(book).unwrap();
    file.set_len(length(file.metadata().unwrap().len())).unwrap();
}

fn overwrite(book: &Path, from: u64, with: u8) {
    let file = OpenOptions::new().write(true).open(book).unwrap();
    let length = file.metadata().unwrap().len() - from;
    file.write_all_at(&vec![with; length as usize], from).unwrap();
}

macro_rules! harms {
    ($($name:ident $harm:expr, $refused:expr, $start:expr;)*) => {
        $(#[test]
        fn $name() {
            a_harmed_file_takes_no_more($harm, $refused, $start);
        })*
    };
}

harms! {
    a_file_cut_to_nothing |book| cut(book, |_| 0), "damaged", Start::Refused("the file is empty");
    a_file_cut_to_half |book| cut(book, |length| length / 2), "damaged", Start::Refused("damaged");
    a_file_of_zeroes |book| overwrite(book, 0, 0), "damaged", Start::Refused("damaged");
    a_file_of_garbage |book| overwrite(book, 0, 0xa5), "damaged", Start::Refused("damaged");
    a_file_of_garbage_after_its_head |book| overwrite(book, 4096, 0xa5), "damaged", Start::Refused("damaged");
    a_file_that_was_deleted |book| fs::remove_file(book).unwrap(), "is gone", Start::Refused("not its log");
    a_file_that_was_replaced |book| {
        let copy = book.with_extension("copy");
        fs::copy(book, &copy).unwrap();
        fs::rename(&copy, book).unwrap();
    }, "another file", Start::WithSome;
    a_log_that_was_deleted |book| fs::remove_file(log(book)).unwrap(), "its log", Start::WithAll;
    a_log_that_was_replaced |book| {
        fs::remove_file(log(book)).unwrap();
        File::create(log(book)).unwrap();
    }, "its log", Start::WithAll;
}

/// With one helper thread, the server sends a file while another process holds the lock of the
/// store.
fn a_lock_holds_up_no_file(architecture: &[&str]) {
    if !runs_here(architecture) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let root = tempfile::tempdir().unwrap();
    // The file is longer than files that are sent from memory.
    fs::write(root.path().join("long.txt"), vec![b'x'; 70_000]).unwrap();
    let book = book(directory.path());
    let store = format!("sqlite:{}", book.display());
    let mut command = command("guestbook", architecture, &store);
    let server =
        ServerProcess::start(command.arg("--disk-helpers=1").arg("--root").arg(root.path()));
    let get = |path| format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    let page = || String::from_utf8(server.ask(get("/guestbook").as_bytes())).unwrap();
    assert!(page().starts_with("HTTP/1.1 200 "));
    let lock = rusqlite::Connection::open(&book).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    thread::scope(|scope| {
        let visitor = scope.spawn(page);
        // The visitor's request comes before some of these requests.
        for _ in 0..50 {
            let file = server.ask(get("/long.txt").as_bytes());
            assert!(file.starts_with(b"HTTP/1.1 200 ") && file.len() > 70_000, "{}", file.len());
        }
        assert!(!visitor.is_finished(), "the lock is held still");
        lock.execute_batch("COMMIT").unwrap();
        let page = visitor.join().unwrap();
        assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
    });
}

/// All processes together report in a few lines that a store comes and goes many times a second.
fn a_flapping_store_is_told_of_in_a_few_lines(architecture: &[&str]) {
    const LINES: usize = 2;
    const QUIET: Duration = Duration::from_secs(10);
    if !runs_here(architecture) {
        return;
    }
    // The listener closes half of the connections at once.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let store = format!("redis://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            if number % 2 == 0 && stream.read(&mut [0; 1024]).is_ok_and(|length| length > 0) {
                let _ = stream.write_all(b":1\r\n*0\r\n");
            }
        }
    });
    let start = Instant::now();
    let mut server = serve("guestbook", architecture, &store);
    let complaints = server.complaints();
    let request = b"GET /guestbook HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
    let (mut found, mut missed) = (0, 0);
    while found < 20 || missed < 20 {
        match server.ask(request).get(..13) {
            Some(b"HTTP/1.1 200 ") => found += 1,
            Some(b"HTTP/1.1 503 ") => missed += 1,
            _ => panic!("neither a page nor a refusal"),
        }
        assert!(start.elapsed() < PATIENCE, "found {found} times, missed {missed} times");
    }
    let windows = 1 + start.elapsed().as_secs() / QUIET.as_secs();
    server.signal(Signal::TERM);
    assert!(server.wait().0.success());
    let lines = complaints.rest().filter(|line| line.contains("the store")).collect::<Vec<_>>();
    assert!((1..=LINES * windows as usize).contains(&lines.len()), "{lines:#?}");
}

macro_rules! on {
    ($body:ident: $($name:ident $architecture:expr;)*) => {
        mod $body {
            $(#[test]
            fn $name() {
                super::$body(&$architecture);
            })*
        }
    };
}

on! { a_client_that_pipelines_leaves_others_their_turn:
    threads ["threads"];
    select ["select"];
    epoll ["epoll"];
    uring ["uring"];
    uthreads_on_epoll ["uthreads", "--poller=epoll"];
}

on! { a_lock_holds_up_no_file:
    epoll ["epoll"];
    uthreads ["uthreads"];
    uring ["uring"];
}

on! { a_flapping_store_is_told_of_in_a_few_lines:
    epoll ["epoll"];
    fork ["fork"];
    prefork ["prefork", "--workers=8"];
}

/// Before the first request, the store may be missing. The service uses a store that comes later.
#[test]
fn a_store_that_is_away_is_told_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let mut redis = Redis::start(directory.path());
    let store = format!("redis://{}", redis.address());
    for architecture in ["prefork", "uthreads"] {
        let (mut server, mut complaints) = (None, None);
        redis.restart(directory.path(), || {
            let started = server.insert(serve("phone", &[architecture], &store));
            let lines = complaints.insert(started.complaints());
            let line = lines.next("that the store is away");
            assert!(line.contains(&store) && line.contains("cannot be reached"), "{line}");
        });
        let server = server.unwrap();
        assert_eq!(server.talk().ask("ADD one 1"), "ADDED one 1");
        let line = complaints.unwrap().next("that the store is back");
        assert!(line.contains("is back"), "{line}");
    }
}

/// A short run of `cargo xtask soak --kills`.
fn what_is_acknowledged_outlives_kills(service: &str, victim: Victim) {
    const KILLS: usize = 3;
    let program = Path::new(env!("CARGO_BIN_EXE_served"));
    for architecture in ["prefork", "epoll"] {
        let mut random = SplitMix64::new(1);
        let tally = kill(program, architecture, service, victim, KILLS, &mut random);
        assert!(tally.as_ref().is_ok_and(|tally| tally.acknowledged > 0), "{tally:?}");
    }
}

#[test]
fn entries_outlive_kills_of_the_server() {
    what_is_acknowledged_outlives_kills("phone", Victim::ServerOnSqlite);
    what_is_acknowledged_outlives_kills("phone", Victim::ServerOnRedis);
}

#[test]
fn remarks_outlive_kills_of_the_server() {
    what_is_acknowledged_outlives_kills("guestbook", Victim::ServerOnSqlite);
    what_is_acknowledged_outlives_kills("guestbook", Victim::ServerOnRedis);
}

#[test]
fn what_is_kept_in_redis_outlives_its_kills() {
    what_is_acknowledged_outlives_kills("phone", Victim::Redis);
    what_is_acknowledged_outlives_kills("guestbook", Victim::Redis);
}
