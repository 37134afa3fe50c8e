//! Tests that the echo servers of peers/ send back every byte. Otherwise measurements of them would
//! mean nothing.
//!
//! `cargo xtask peers` builds the servers. The tests skip a peer that is not built, with a line
//! about it.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use duality_conformance::{ServerProcess, eventually};

/// Whether both queues of one end of a connection hold bytes. The program at this end has not read
/// the received bytes, and the peer has no room for more.
fn are_full(own: SocketAddr, peer: SocketAddr) -> bool {
    let [own, peer] = [own, peer].map(|address| format!(":{:04X}", address.port()));
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().skip(1).any(|line| {
        // The fields: number, two addresses, state, and the queues (to send, and received).
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_it = fields[1].ends_with(&own) && fields[2].ends_with(&peer);
        is_it && fields[4].split(':').all(|queue| queue != "00000000")
    })
}

/// Calls `test` with each server that is built.
fn every_server(test: fn(&ServerProcess)) {
    for name in ["echo_st", "echo_pth", "echo_pthreads", "echo_epoll"] {
        // The program is target/debug/served, and peers are in target/peers.
        let target = Path::new(env!("CARGO_BIN_EXE_served")).ancestors().nth(2).unwrap();
        let program = target.join("peers").join(name);
        if !program.exists() {
            duality_conformance::skip(format_args!(
                "{} is not built (cargo xtask peers)",
                program.display()
            ));
            continue;
        }
        test(&ServerProcess::start(Command::new(program).args(["--listen", "127.0.0.1:0"])));
    }
}

#[test]
fn what_was_sent_before_the_end_comes_back() {
    every_server(|server| {
        for message in [&b"a"[..], &[b'b'; 4096], &[b'c'; 4097]] {
            assert_eq!(server.ask(message), message);
        }
    });
}

#[test]
fn a_client_that_does_not_read_gets_everything_later() {
    every_server(|server| {
        const PERIOD: usize = 251;
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let mut writer = stream.try_clone().unwrap();
        let is_enough = Arc::new(AtomicBool::new(false));
        let stop = is_enough.clone();
        // The size of the buffers depends on the kernel, so the client writes until they are full.
        let writing = thread::spawn(move || {
            let part: Vec<u8> = (0..PERIOD as u8).cycle().take(256 * PERIOD).collect();
            let mut sent = 0;
            while !stop.load(Ordering::Relaxed) {
                writer.write_all(&part).unwrap();
                sent += part.len();
            }
            writer.shutdown(Shutdown::Write).unwrap();
            sent
        });
        let client = stream.local_addr().unwrap();
        eventually("the server has to wait until it can write", || {
            (are_full(client, server.address()) && are_full(server.address(), client)).then_some(())
        });
        is_enough.store(true, Ordering::Relaxed);
        let mut came = Vec::new();
        stream.read_to_end(&mut came).unwrap();
        let sent = writing.join().unwrap();
        assert_eq!(came.len(), sent);
        assert!(came.iter().zip((0..PERIOD as u8).cycle()).all(|(came, sent)| *came == sent));
    });
}

#[test]
fn connections_are_served_side_by_side() {
    every_server(|server| {
        let connect = |_| TcpStream::connect(server.address()).unwrap();
        let mut streams: Vec<TcpStream> = (0..100).map(connect).collect();
        for round in 0_u8..3 {
            for stream in streams.iter_mut().rev() {
                stream.write_all(&[round; 64]).unwrap();
            }
            for stream in &mut streams {
                let mut came = [0; 64];
                stream.read_exact(&mut came).unwrap();
                assert_eq!(came, [round; 64]);
            }
        }
    });
}
