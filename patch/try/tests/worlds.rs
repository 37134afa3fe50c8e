//! The unmodified programs do the same under every world, byte for byte.

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::iter;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use common::{LIMIT, Server, command, run, without_date};

const SHOP: &str = env!("CARGO_BIN_EXE_shop");
const PIECES: &str = env!("CARGO_BIN_EXE_pieces");
const HELD: &str = env!("CARGO_BIN_EXE_held");

in_every_world! {
    pieces_find_the_same
    replies_are_the_same
    connections_are_served_at_once
    no_reply_is_lost_at_the_end
    no_thread_is_tokios
}

/// What the pieces print.
const FOUND: &str = "\
lines_by_a_codec: <one><two><three> 3
frames_go_through_halves: 0 1 1000 70000
both_ends_wait_for_room: 4000000 4000000
many_connections: 336300
readiness: b\"abc\" de
readiness_is_remembered: true operation would block
two_tasks_share_a_socket: 100
two_acceptors_share_a_listener: 40
a_stream_moves_between_tasks: abcdefgh
options_of_sockets: true Some(1s) ConnectionRefused
datagrams: hello
datagrams_in_frames: a line
unix_streams: over a path pair
unix_datagrams: by path, by pair
named_pipes: by name true
descriptors_of_others: abc 0
a_name_is_looked_up: true true
a_proxy: questionanswer (8, 6)
sleeps_and_resets: ((), ())
intervals: 5
what_is_always_ready_gives_way: ticks sleeps messages locks bytes yields
queues_of_delays: first second
time_outs_leave_no_bytes_behind: 200
channels: [1225, 1225, 1225, 1225] 49
locks: 200
join_sets: 321 1 7 0
aborts: true 7
panics: true true panicked with message \"on purpose\"
local_sets: (15, 1, 5, 6)
blocking_work: 190 2
blocking_in_place: 3
unordered_futures: 10
selects: 250 true
trackers: 5
handles: true true
names_of_runtimes: (Some(\"till\"), true)
another_executor: an answer
destructors: (true, true) (true, false) (true, false)
signals: three times
to standard output
standard_streams: from standard input
outputs_and_statuses: Some(3) said wrong signal: 9 (SIGKILL)
much_goes_through_a_child: 1249975000 true None
children_are_killed: signal: 9 (SIGKILL) None true
files: one TWO three \" three\" {\"copy\", \"file\"}
yields: 3000
tokens_of_threads: (3, 7)
blocking_where_it_may: (5, true)
blocking_where_it_may_not: true true true true Some(5) 7
nothing_waits_outside: [true, true, true, true]
large_futures: 262144 524288 786432
queued_blocking_work: 5
runtimes_of_threads: 4
local_guards: (3, true)
budgets: true true false false true 499500
yields_beside_a_socket: 9
paused_clocks: at once, or refused
";

fn pieces_find_the_same(world: &str) {
    check_pieces(&mut command(PIECES, world));
}

fn check_pieces(command: &mut Command) {
    let output = run(command, "from standard input");
    let (found, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((&*found, output.status.success()), (FOUND, true), "{errors}");
}

/// The replies but for those that name a port.
const REPLIES: [(&str, &str, &str); 8] = [
    ("GET /", "", "200 OK|a shop\n"),
    ("GET /stock", "", "200 OK|[{\"name\":\"tea\",\"price\":3}]"),
    ("POST /stock", "{\"name\":\"cup\",\"price\":5}", "201 Created|"),
    ("POST /order", "{\"item\":\"cup\",\"count\":4}", "200 OK|{\"total\":20}"),
    ("GET /ticks", "", "200 OK|true\n"),
    ("GET /count/1000", "", "200 OK|500500\n"),
    ("GET /never", "", "504 Gateway Timeout|too late\n"),
    ("GET /nowhere", "", "404 Not Found|"),
];

fn replies_are_the_same(world: &str) {
    let server = Server::start(&mut command(SHOP, world));
    for (request, body, expected) in REPLIES {
        let reply = String::from_utf8(server.ask(request, body.as_bytes())).unwrap();
        let (status, text) = expected.split_once('|').unwrap();
        let (head, found) = reply.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request}: {reply}");
        assert!(head.contains("\r\nx-shop: open"), "{request}: {reply}");
        assert_eq!(found, text, "{request}");
    }
    // The shop is its own client, by reqwest.
    let asked = server.ask(&format!("GET /ask/{}", server.address.port()), b"");
    let expected = "HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\nx-shop: open\r\n\
                    content-length: 8\r\nconnection: close\r\n\r\n2 items\n";
    assert_eq!(String::from_utf8(asked).unwrap(), expected);
    let large: Vec<u8> = (0..2_000_000_u32).map(|number| (number % 251) as u8).collect();
    let reply = server.ask("POST /echo", &large);
    assert!(reply.ends_with(&large));
    assert_eq!(server.end("INT"), "ended\n");
}

fn connections_are_served_at_once(world: &str) {
    check_connections(&mut command(SHOP, world));
}

/// Each client has a connection for many requests, and opens one for each of some others.
fn check_connections(command: &mut Command) {
    let server = Server::start(command);
    thread::scope(|scope| {
        for client in 0..24 {
            let server = &server;
            scope.spawn(move || {
                let mut stream = BufReader::new(server.connect());
                for round in 0..40 {
                    let number = client * 100 + round;
                    let request = format!("GET /count/{number} HTTP/1.1\r\nhost: shop\r\n\r\n");
                    stream.get_mut().write_all(request.as_bytes()).unwrap();
                    let sum = format!("{}\n", number * (number + 1) / 2);
                    assert_eq!(body(&mut stream), sum);
                    if round % 8 == 0 {
                        assert!(server.ask("GET /slow/2", b"").ends_with(b"slow\n"));
                    }
                }
            });
        }
    });
    assert_eq!(server.end("TERM"), "ended\n");
}

/// The body of a reply that tells its length.
fn body(stream: &mut impl BufRead) -> String {
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        if let Some(number) = line.strip_prefix("content-length: ") {
            length = number.trim_end().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    String::from_utf8(body).unwrap()
}

/// The signal comes while each reply is under way.
fn no_reply_is_lost_at_the_end(world: &str) {
    let mut server = Server::start(&mut command(SHOP, world));
    let mut idle = server.connect();
    idle.write_all(b"GET / HTTP/1.1\r\nhost: shop\r\n\r\n").unwrap();
    idle.read_exact(&mut [0; 64]).unwrap();
    let mut under_way = Vec::new();
    for _ in 0..20 {
        let mut stream = BufReader::new(server.connect());
        stream.get_mut().write_all(b"GET /stream/200 HTTP/1.1\r\nhost: shop\r\n\r\n").unwrap();
        let mut line = String::new();
        while line != "begun\n" {
            line.clear();
            assert!(stream.read_line(&mut line).unwrap() > 0);
        }
        under_way.push(stream);
    }
    common::signal(server.id(), "TERM");
    for mut stream in under_way {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        let rest = String::from_utf8(without_date(&rest)).unwrap();
        assert_eq!(rest, "\r\n5\r\ndone\n\r\n0\r\n\r\n");
    }
    idle.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(server.ended(), "ended\n");
}

fn no_thread_is_tokios(world: &str) {
    let server = Server::start(&mut command(SHOP, world));
    let streams: Vec<_> = (0..8).map(|_| server.connect()).collect();
    server.ask("GET /count/7", b"");
    server.ask(&format!("GET /ask/{}", server.address.port()), b"");
    let names = server.threads();
    assert!(!names.iter().any(|name| name.starts_with("tokio")), "{names:?}");
    if world != "threads" {
        let distinct: BTreeSet<_> = names.iter().map(String::as_str).collect();
        // The program's thread, the loops', those of `spawn_blocking`, and the watchdog.
        assert_eq!(distinct, BTreeSet::from(["duality", "duality-stalls", "shop"]), "{names:?}");
        let loops = std::thread::available_parallelism().unwrap().get();
        assert!(names.len() <= 4 + loops, "{names:?}");
    }
    drop(streams);
    assert_eq!(server.end("TERM"), "ended\n");
}

/// tokio's words, and those of the watchdog, in a program that holds its loop up.
#[test]
fn a_task_that_holds_its_loop_is_named() {
    for world in ["epoll", "uthreads"] {
        let mut held = command(HELD, world);
        let output = run(held.env("DUALITY_LOOPS", "1").env("DUALITY_STALL", "50"), "");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        assert!(errors.lines().any(names_the_task), "{errors}");
        let silent = run(held.env("DUALITY_STALL", "0"), "");
        assert_eq!(String::from_utf8_lossy(&silent.stderr), "");
    }
}

/// Whether a line of the watchdog names a task of the program `held`.
fn names_the_task(line: &str) -> bool {
    line.contains("stall: task ") && line.contains(", spawned at src/bin/held.rs:")
}

/// What docs/tokio-patch.md says of `block_on` of another executor: without end, and with a line.
#[test]
fn a_wait_for_what_comes_from_the_same_loop_is_named() {
    for (world, argument) in [("epoll", "a-task"), ("uthreads", "a-task"), ("epoll", "a-time")] {
        let mut held = command(HELD, world);
        held.arg(argument).env("DUALITY_LOOPS", "1").env("DUALITY_STALL", "50");
        let mut child = held.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = mpsc::channel();
        let reader = thread::spawn(move || {
            let mut errors = errors.lines().map_while(Result::ok);
            errors.all(|line| sender.send(line).is_ok());
        });
        // The program goes on for ever after the line.
        let is_it = |line: &String| {
            names_the_task(line)
                && line.contains(" ms, in a call that waits: ")
                && line.contains("it waits for ever")
        };
        let found = iter::from_fn(|| lines.recv_timeout(LIMIT).ok()).find(is_it);
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        reader.join().unwrap();
        assert!(found.is_some(), "{argument} on {world}");
        assert!(output.stdout.is_empty(), "{argument}: it has come");
    }
    let in_threads = run(command(HELD, "threads").arg("a-task"), "");
    assert_eq!(String::from_utf8_lossy(&in_threads.stdout), "7\n");
}

/// A loop that is held up is sent no further task. Another loop takes over those that have not
/// begun, and a further loop if there is none.
#[test]
fn tasks_do_not_begin_on_a_loop_that_is_held_up() {
    for (world, loops) in [("epoll", "1"), ("epoll", "2"), ("uthreads", "2"), ("threads", "1")] {
        let mut held = command(HELD, world);
        let output = run(held.arg("others").env("DUALITY_LOOPS", loops), "");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "28\n", "{world}: {errors}");
    }
}

#[test]
fn several_loops_share_the_tasks() {
    for world in ["epoll", "uring", "uthreads"] {
        check_pieces(command(PIECES, world).env("DUALITY_LOOPS", "3"));
        check_connections(command(SHOP, world).env("DUALITY_LOOPS", "3"));
    }
}

#[test]
fn a_wrong_setting_is_one_line_and_exit_code_2() {
    let wrong = [
        (
            command(PIECES, "green"),
            "DUALITY_WORLD=green is no world; choose from threads, uthreads, epoll, uring, poll, select\n",
        ),
        (
            {
                let mut command = command(PIECES, "epoll");
                command.env("DUALITY_LOOPS", "0");
                command
            },
            "DUALITY_LOOPS=0 is no number from 1 to 512\n",
        ),
    ];
    for (mut command, line) in wrong {
        let output = run(&mut command, "");
        assert_eq!(String::from_utf8_lossy(&output.stderr), line);
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty());
    }
}
