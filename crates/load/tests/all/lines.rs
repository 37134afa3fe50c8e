//! Loads on services with requests and replies that are lines: quote and phone.

use duality_load::{Options, Target, run};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::{load, only_error, options, server, target};

/// A server that answers each line with what `answer` makes of it and of its number over all
/// connections. The connection ends after an answer without a line end.
fn line_server(answer: impl Fn(&str, u64) -> String + Send + Sync + 'static) -> SocketAddr {
    let count = AtomicU64::new(0);
    server(move |stream: TcpStream, _| {
        let mut writer = stream.try_clone().unwrap();
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let reply = answer(&line, count.fetch_add(1, Ordering::Relaxed));
            if writer.write_all(reply.as_bytes()).is_err() || !reply.ends_with('\n') {
                return;
            }
        }
    })
}

fn quote(address: SocketAddr) -> Target {
    target("quote", address)
}

fn phone(address: SocketAddr) -> Target {
    target("phone", address)
}

/// The price by the protocol, computed in another way than by the client.
fn price(symbol: &str) -> f64 {
    let mut hash: u64 = 2_166_136_261;
    for byte in symbol.bytes() {
        hash = ((hash ^ u64::from(byte)) * 16_777_619) % (1 << 32);
    }
    (100 + hash % 99_900) as f64 / 100.0
}

#[test]
fn right_prices_are_right() {
    for keep_alive in [true, false] {
        let asked = Arc::new(Mutex::new(HashMap::new()));
        let seen = asked.clone();
        let address = line_server(move |symbol, _| {
            *seen.lock().unwrap().entry(symbol.to_owned()).or_insert(0) += 1;
            format!("{symbol} {:.2}\n", price(symbol))
        });
        let report = load(&Options { keep_alive, ..options(quote(address), 5, 400) });
        assert_eq!((report.requests, report.errors.len()), (400, 0), "{:?}", report.errors);
        assert_eq!(report.connections_opened, if keep_alive { 5 } else { 400 });
        let asked = asked.lock().unwrap();
        assert!(asked.len() >= 20 && asked.values().all(|times| *times >= 10), "{asked:?}");
    }
}

#[test]
fn anything_but_the_price_is_wrong() {
    let wrong: [fn(&str) -> String; 6] = [
        |symbol| format!("{symbol} {:.2}\n", price(symbol) + 0.01),
        |symbol| format!("{symbol} {:.2}\r\n", price(symbol)),
        |symbol| format!("{symbol} {:.1}\n", price(symbol)),
        |symbol| format!("X{symbol} {:.2}\n", price(symbol)),
        |symbol| format!("{symbol} {:.2}\nMORE 1.00\n", price(symbol)),
        |_| "ERROR a symbol is 1 to 8 letters A to Z\n".to_owned(),
    ];
    for wrong in wrong {
        let address = line_server(move |symbol, number| match number {
            5 => wrong(symbol),
            _ => format!("{symbol} {:.2}\n", price(symbol)),
        });
        let report = load(&options(quote(address), 1, 20));
        assert_eq!((report.requests, only_error(&report)), (19, ("wrong-bytes", 1)));
    }
}

#[test]
fn a_server_of_something_else_is_told_before_the_load() {
    let address = line_server(|symbol, _| format!("{symbol}\n"));
    for (target, name) in [(quote(address), "quote"), (phone(address), "phone")] {
        let error = run(&options(target, 1, 1), &mut (), &AtomicBool::new(false)).unwrap_err();
        let message = error.to_string();
        assert!(message.ends_with(&format!("is it really a server of {name}?")), "{message}");
    }
}

/// A phone book in memory; `answer` may put something else in the place of a right answer.
fn phone_book(
    answer: impl Fn(u64, &str, String) -> String + Send + Sync + 'static,
) -> (SocketAddr, Arc<Mutex<HashMap<String, String>>>) {
    let entries = Arc::new(Mutex::new(HashMap::new()));
    let book = entries.clone();
    let address = line_server(move |line, number| {
        let words: Vec<_> = line.split(' ').collect();
        let mut book = book.lock().unwrap();
        let right = match words[..] {
            ["ADD", name, digits] => {
                book.insert(name.to_owned(), digits.to_owned());
                format!("ADDED {name} {digits}\n")
            }
            ["FIND", name] => match book.get(name) {
                Some(digits) => format!("FOUND {name} {digits}\n"),
                None => format!("NONE {name}\n"),
            },
            _ => "ERROR what?\n".to_owned(),
        };
        answer(number, line, right)
    });
    (address, entries)
}

#[test]
fn every_entry_is_added_and_looked_up() {
    let (address, entries) = phone_book(|_, _, right| right);
    let report = load(&options(phone(address), 4, 400));
    assert_eq!((report.requests, report.errors.len()), (400, 0), "{:?}", report.errors);
    // Of n requests on a connection, half the entries of n, rounded up; and the probe's.
    let entries = entries.lock().unwrap().len();
    assert!((201..=205).contains(&entries), "{entries}");
}

#[test]
fn a_connection_for_one_request_adds_one_entry() {
    let (address, entries) = phone_book(|_, line, right| {
        assert!(line.starts_with("ADD "), "{line}");
        right
    });
    let report = load(&Options { keep_alive: false, ..options(phone(address), 4, 100) });
    assert_eq!((report.requests, report.connections_opened), (100, 100));
    assert_eq!(entries.lock().unwrap().len(), 101);
}

#[test]
fn an_entry_that_was_lost_or_changed_is_wrong() {
    // After the probe's, the odd ones are additions and the even ones look-ups.
    for (place, wrong) in [
        (6, "NONE"),
        (6, "FOUND name 1234"),
        (5, "ADDED"),
        (5, "ERROR a name is 1 to 64 bytes"),
        (5, "ERROR the store is unavailable for ever"),
    ] {
        let (address, _) = phone_book(move |number, line, right| {
            let name = line.split(' ').nth(1).unwrap();
            if number == place { format!("{}\n", wrong.replace("name", name)) } else { right }
        });
        let report = load(&options(phone(address), 1, 20));
        assert_eq!((report.requests, only_error(&report)), (19, ("wrong-bytes", 1)), "{wrong}");
    }
}

#[test]
fn two_replies_to_one_request_are_malformed() {
    let (address, _) = phone_book(|number, _, right| right.repeat(if number == 5 { 2 } else { 1 }));
    let report = load(&options(phone(address), 1, 20));
    assert_eq!((report.requests, only_error(&report)), (19, ("malformed", 1)));
}

#[test]
fn a_store_that_is_away_is_an_error_of_its_own() {
    let (address, _) = phone_book(|number, _, right| match number {
        5..8 => "ERROR the store is unavailable\n".to_owned(),
        _ => right,
    });
    let report = load(&options(phone(address), 1, 20));
    assert_eq!((report.requests, only_error(&report)), (17, ("store-unavailable", 3)));
}

#[test]
fn an_acknowledged_entry_is_looked_up_on_the_next_connection_if_need_be() {
    // The server dies instead of answering a look-up, and comes back without (or with) the entry.
    for forgetful in [true, false] {
        let forgotten = Arc::new(Mutex::new(String::new()));
        let (address, entries) = phone_book(move |number, line, right| match number {
            6 => {
                line.clone_into(&mut forgotten.lock().unwrap());
                "FOU".to_owned()
            }
            _ if forgetful && *forgotten.lock().unwrap() == line => "NONE\n".to_owned(),
            _ => right,
        });
        let report = load(&options(phone(address), 1, 20));
        assert_eq!(report.errors["cut-short"], 1);
        assert_eq!(report.errors.get("wrong-bytes"), forgetful.then_some(&1));
        assert_eq!(report.requests + report.errors.values().sum::<u64>(), 20);
        assert!(!entries.lock().unwrap().is_empty());
    }
}
