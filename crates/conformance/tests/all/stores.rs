//! Tests phone and guestbook under every architecture. Acknowledged entries are kept. Without its
//! store a service reports an error, and it finds the store again.

use std::process::Command;

use duality_conformance::{
    Conversation, Redis, ServerProcess, eventually, for_every_architecture_of_straight_line_code,
    runs_here,
};
use rustix::process::Signal;
use tempfile::TempDir;

fn serve(service: &str, architecture: &[&str], store: &str) -> ServerProcess {
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.args(["serve", service, "--listen=127.0.0.1:0", "--store", store, "--architecture"]);
    ServerProcess::start(command.args(architecture))
}

/// A store in its own directory.
fn file() -> (TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", directory.path().join("store.sqlite").display());
    (directory, store)
}

macro_rules! stores {
    ($name:ident $architecture:expr) => {
        mod $name {
            const ARCHITECTURE: &[&str] = &$architecture;
            stores! { @ entries_outlive_a_killed_server
                clients_at_the_same_time_lose_nothing
                remarks_are_kept_in_a_file
                remarks_are_kept_in_redis
                a_store_that_was_away_is_found_again }
        }
    };
    (@ $($body:ident)*) => {
        $(#[test] fn $body() {
            if super::runs_here(ARCHITECTURE) {
                super::$body(ARCHITECTURE);
            }
        })*
    };
}

for_every_architecture_of_straight_line_code!(stores);

fn entries_outlive_a_killed_server(architecture: &[&str]) {
    let (_directory, store) = file();
    for round in 0..3 {
        let server = serve("phone", architecture, &store);
        let mut client = server.talk();
        for earlier in 0..round * 10 {
            assert_eq!(
                client.ask(&format!("FIND n{earlier}")),
                format!("FOUND n{earlier} {earlier}")
            );
        }
        for entry in round * 10..round * 10 + 10 {
            let added = client.ask(&format!("ADD n{entry} {entry}"));
            assert_eq!(added, format!("ADDED n{entry} {entry}"));
        }
        assert_eq!(client.ask("FIND nobody"), "NONE nobody");
        assert!(client.ask("ADD nobody").starts_with("ERROR "));
        // The drop sends SIGKILL.
        drop(server);
    }
}

fn clients_at_the_same_time_lose_nothing(architecture: &[&str]) {
    const CLIENTS: usize = 6;
    const ENTRIES: usize = 20;
    let (_directory, store) = file();
    let server = serve("phone", architecture, &store);
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let mut client = server.talk();
            scope.spawn(move || {
                for entry in 0..ENTRIES {
                    let added = client.ask(&format!("ADD c{number}e{entry} {entry}"));
                    assert_eq!(added, format!("ADDED c{number}e{entry} {entry}"));
                }
            });
        }
    });
    let mut client = server.talk();
    for (number, entry) in (0..CLIENTS).flat_map(|number| (0..ENTRIES).map(move |e| (number, e))) {
        let name = format!("c{number}e{entry}");
        assert_eq!(client.ask(&format!("FIND {name}")), format!("FOUND {name} {entry}"));
    }
}

fn get(server: &ServerProcess) -> String {
    let request = b"GET /guestbook HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
    String::from_utf8(server.ask(request)).unwrap()
}

fn post(server: &ServerProcess, form: &str) -> String {
    let request = format!(
        "POST /guestbook HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: {}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\n\r\n{form}",
        form.len()
    );
    String::from_utf8(server.ask(request.as_bytes())).unwrap()
}

/// The number that the page shows.
fn visitors(page: &str) -> u64 {
    assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
    let (_, after) = page.split_once("id=\"visitors\">").expect("the page counts visitors");
    after.split('<').next().unwrap().parse().unwrap()
}

fn remarks_are_kept_in_a_file(architecture: &[&str]) {
    let (_directory, store) = file();
    remarks_are_kept_and_shown(architecture, &store);
}

fn remarks_are_kept_in_redis(architecture: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let redis = Redis::start(directory.path());
    remarks_are_kept_and_shown(architecture, &format!("redis://{}", redis.address()));
}

fn remarks_are_kept_and_shown(architecture: &[&str], store: &str) {
    let server = serve("guestbook", architecture, store);
    let first = visitors(&get(&server));
    assert_eq!(visitors(&get(&server)), first + 1);
    let added =
        post(&server, "guest-name=Bj%C3%B6rn+%26+co&guest-remarks=%3Cscript%3E1%3C%2Fscript%3E");
    assert!(added.starts_with("HTTP/1.1 303 "), "{added}");
    assert!(added.contains("\r\nLocation: /guestbook\r\n"), "{added}");
    let page = get(&server);
    assert!(page.contains("Björn &amp; co"), "{page}");
    assert!(!page.contains("<script>1"), "what guests write is escaped: {page}");
    // Another server finds the entries of this server.
    drop(server);
    let server = serve("guestbook", architecture, store);
    let page = get(&server);
    assert!(page.contains("Björn &amp; co"), "{page}");
    assert_eq!(visitors(&page), first + 3);
}

fn a_store_that_was_away_is_found_again(architecture: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let mut redis = Redis::start(directory.path());
    let store = format!("redis://{}", redis.address());
    let guestbook = serve("guestbook", architecture, &store);
    let phone = serve("phone", architecture, &store);
    let before = visitors(&get(&guestbook));
    let mut client: Conversation = phone.talk();
    assert_eq!(client.ask("ADD ada 1815"), "ADDED ada 1815");
    redis.restart(directory.path(), || {
        let missed = get(&guestbook);
        assert!(
            missed.starts_with("HTTP/1.1 503 ") && missed.contains("\r\nRetry-After: "),
            "{missed}"
        );
        assert!(post(&guestbook, "guest-name=a&guest-remarks=b").starts_with("HTTP/1.1 503 "));
        assert_eq!(client.ask("FIND ada"), "ERROR the store is unavailable");
    });
    // The same connections find the store again within a back-off, without a restart.
    let found = eventually("the store is found again", || {
        Some(client.ask("FIND ada")).filter(|reply| !reply.starts_with("ERROR "))
    });
    assert_eq!(found, "FOUND ada 1815");
    let page = eventually("the guestbook is back", || {
        Some(get(&guestbook)).filter(|page| !page.starts_with("HTTP/1.1 503 "))
    });
    assert!(visitors(&page) > before);
    for server in [guestbook, phone] {
        server.signal(Signal::TERM);
        let (status, stderr) = server.wait();
        assert!(status.success(), "{status}: {stderr}");
    }
}
