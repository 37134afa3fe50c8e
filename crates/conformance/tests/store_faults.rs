//! The services with a store when something is wrong with it, or with a client that takes more than its share.

use std::io::{Read, Write};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use duality_conformance::{Served, runs_here};

fn serve(service: &str, architecture: &[&str], store: &str) -> Served {
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.args(["serve", service, "--listen=127.0.0.1:0", "--store", store, "--architecture"]);
    Served::start(command.args(architecture))
}

/// A client that sends entries without end gets them in turn with another client's one.
///
/// The order is the server's own: the other client sends its three requests at once, and the number under
/// `turn` tells how many entries of the endless client were kept before and after its own.
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
            // Many at a time, so that the server never has to wait for the next.
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

macro_rules! on {
    ($($name:ident $architecture:expr;)*) => {
        $(mod $name {
            #[test]
            fn a_client_that_pipelines_leaves_others_their_turn() {
                super::a_client_that_pipelines_leaves_others_their_turn(&$architecture);
            }
        })*
    };
}

on! {
    threads ["threads"];
    select ["select"];
    epoll ["epoll"];
    uring ["uring"];
    uthreads_on_epoll ["uthreads", "--poller=epoll"];
}
