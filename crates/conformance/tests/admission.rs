//! `--max-connections`: one connection too many is refused, in words that its protocol has for it, and
//! the others do not notice.

use std::io::{Read, Write};
use std::process::Command;

use duality_conformance::{Served, eventually};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n";

// Not iterative and prefork, whose processes have one connection at a time and know of no other, and not
// two cores, which divide the limit, while the kernel chooses the core.
macro_rules! admission {
    ($($name:ident [$($argument:literal),*])*) => {
        $(#[test]
        fn $name() {
            one_too_many_is_refused(&[$($argument),*]);
        })*
    };
}

admission! {
    fork ["fork"]
    threads ["threads"]
    pool_accept ["pool", "--hand-over=accept"]
    pool_list ["pool", "--hand-over=list"]
    uthreads ["uthreads"]
    select ["select"]
    poll ["poll"]
    epoll ["epoll"]
    handwritten ["handwritten"]
}

fn one_too_many_is_refused(architecture: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.args(["serve", "http", "--listen=127.0.0.1:0", "--max-connections=3"]);
    let server = Served::start(command.arg("--architecture").args(architecture));
    let mut held: Vec<_> = (0..3).map(|_| server.connect()).collect();
    let mut page = Vec::new();
    for stream in &mut held {
        stream.write_all(GET).unwrap();
        page.resize(100, 0);
        stream.read_exact(&mut page).unwrap();
        assert!(page.starts_with(b"HTTP/1.1 200 "));
    }
    for _ in 0..3 {
        let refused = String::from_utf8(server.ask(GET)).unwrap();
        assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
        assert!(refused.contains("\r\nRetry-After: "), "{refused}");
        assert!(refused.contains("\r\nConnection: close\r\n"), "{refused}");
    }
    for stream in &mut held {
        stream.write_all(GET).unwrap();
        stream.read_exact(&mut page).unwrap();
    }
    drop(held);
    eventually("there is room again", || {
        let mut stream = server.connect();
        stream.write_all(GET).unwrap();
        let mut start = [0; 12];
        stream.read_exact(&mut start).unwrap();
        (&start == b"HTTP/1.1 200").then_some(())
    });
}
