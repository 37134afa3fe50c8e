//! Loads on a game: two connections hit a ball to and fro, by way of the server.

use duality_load::{Error, Options, Target, run};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{load, only_error, options, server, target};

/// A server that pairs its clients. `pass` may put something else in the place of a line, which it
/// gets with the number of the line over all pairs.
fn game(pass: impl Fn(u64, String) -> String + Send + Sync + 'static) -> Target {
    let waiting = Mutex::new(None::<TcpStream>);
    let count = AtomicU64::new(0);
    let address = server(move |mut second, _| {
        // One thread serves both players of a pair: the thread of the second player.
        let mut waiting = waiting.lock().unwrap();
        let Some(mut first) = waiting.take() else {
            *waiting = Some(second);
            return;
        };
        drop(waiting);
        let begun =
            first.write_all(b"PLAY first\n").and_then(|()| second.write_all(b"PLAY second\n"));
        if begun.is_err() {
            return;
        }
        let mut from_first = BufReader::new(first.try_clone().unwrap()).lines();
        let mut from_second = BufReader::new(second.try_clone().unwrap()).lines();
        // The players take turns, so the server notices at its turn that a player has left.
        loop {
            for (from, to) in [(&mut from_first, &mut second), (&mut from_second, &mut first)] {
                let Some(Ok(line)) = from.next() else {
                    let _ = to.write_all(b"* the other has left\n");
                    return;
                };
                let line = pass(count.fetch_add(1, Ordering::Relaxed), format!("{line}\n"));
                if to.write_all(line.as_bytes()).is_err() {
                    return;
                }
            }
        }
    });
    target("game", address)
}

#[test]
fn pairs_play_for_as_long_as_asked() {
    for connections in [2, 8] {
        let report = load(&options(game(|_, line| line), connections, 1_000));
        assert_eq!((report.requests, report.errors.len()), (1_000, 0), "{:?}", report.errors);
        assert_eq!(report.connections_opened, connections as u64);
        assert_eq!(report.connections_served, connections as u64);
    }
}

#[test]
fn without_keep_alive_each_hits_one_ball_and_leaves() {
    let target = game(|_, line| line);
    let report = load(&Options { keep_alive: false, ..options(target, 6, 300) });
    assert_eq!((report.requests, report.errors.len()), (300, 0), "{:?}", report.errors);
    assert_eq!(report.connections_opened, 300);
}

#[test]
fn any_other_ball_is_wrong() {
    let wrong: [fn(String) -> String; 5] = [
        |line| line.replace("BALL ", "BALL 1"),
        |line| line.replace("BALL", "CALL"),
        |line| line.replace('\n', "\r\n"),
        |line| line.replace("BALL ", "BALL +"),
        |line| line.repeat(2),
    ];
    for wrong in wrong {
        let target = game(move |number, line| if number == 50 { wrong(line) } else { line });
        let report = load(&options(target, 2, 100));
        assert_eq!((report.requests, only_error(&report)), (99, ("wrong-bytes", 1)));
        assert!(report.connections_opened >= 3, "{}", report.connections_opened);
    }
}

#[test]
fn a_ball_that_is_lost_is_waited_for_no_longer_than_asked() {
    let target = game(|number, line| if number == 50 { String::new() } else { line });
    let reply_timeout = Duration::from_millis(300);
    let report = load(&Options { reply_timeout, ..options(target, 2, 100) });
    // Both wait. The player that gives up later may hear first that the other has left.
    assert!((1..=2).contains(&report.errors["timed-out"]), "{:?}", report.errors);
    assert_eq!(report.requests + report.errors["timed-out"], 100);
}

#[test]
fn a_server_that_does_not_pair_is_told_before_the_load() {
    for (greeting, problem) in [
        ("PLAY first\n", "of two players, not one is to begin"),
        ("PLAY second\n", "of two players, not one is to begin"),
        ("PLAY\n", "neither PLAY first nor PLAY second"),
        ("", "not complete within the time limit"),
    ] {
        let address = server(move |mut stream: TcpStream, _| {
            stream.write_all(greeting.as_bytes()).unwrap();
            // Until the client leaves.
            let _ = stream.peek(&mut [0; 1]);
        });
        let reply_timeout = Duration::from_millis(300);
        let options = Options { reply_timeout, ..options(target("game", address), 2, 2) };
        let error = run(&options, &mut (), &AtomicBool::new(false)).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn an_odd_number_cannot_play() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (connections, requests) in [(3, 100), (2, 99)] {
        let options = options(target("game", address), connections, requests);
        let error = run(&options, &mut (), &AtomicBool::new(false)).unwrap_err();
        assert!(matches!(error, Error::Options(_)), "{error}");
        assert!(error.to_string().starts_with("game needs an even number of "), "{error}");
    }
}
