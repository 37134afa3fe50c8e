//! Tests connections at the same time, if an architecture allows them: each goes on while others
//! wait.

use std::io::{Read, Write};
use std::process::Command;

use duality_conformance::{ServerProcess, for_every_architecture, runs_here};

macro_rules! interleaving {
    ($name:ident $architecture:expr) => {
        #[test]
        fn $name() {
            if runs_here(&$architecture) {
                connections_take_turns(&$architecture);
            }
        }
    };
}

for_every_architecture!(interleaving);

/// Six connections of one client. The client uses each in turn, so the server must serve all six.
fn connections_take_turns(architecture: &[&str]) {
    let given =
        duality_architectures::find(architecture[0]).expect("it is in the list").about().gives;
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.args(["serve", "echo", "--listen=127.0.0.1:0", "--architecture"]);
    let server = ServerProcess::start(command.args(architecture));
    let count = if given.concurrent_connections { 6u8 } else { 1 };
    let mut streams: Vec<_> = (0..count).map(|_| server.connect()).collect();
    for round in 0..50u8 {
        for (number, stream) in (0..count).zip(&mut streams) {
            stream.write_all(&[round, number]).unwrap();
        }
        // Last in, first out: no order of service is assumed.
        for (number, stream) in (0..count).zip(&mut streams).rev() {
            let mut back = [0; 2];
            stream.read_exact(&mut back).unwrap();
            assert_eq!(back, [round, number]);
        }
    }
}
