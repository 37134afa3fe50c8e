//! Tests that preemption and signals leave the program's memory alone.

use std::process::Command;

use duality_conformance::programs::{Program, finish};

/// A program with the commands of `duality`.
const DUALITY: &str = env!("CARGO_BIN_EXE_served");

fn is_left_alone(argument: &[&str]) {
    let program = Program::new("stack_in_heap", &["-pthread"]);
    let natively = finish(Command::new(program.path()).args(argument));
    assert!(natively.status.success(), "{natively:?}");
    for options in [
        &["--cores=1", "--poller=epoll"],
        &["--cores=2", "--poller=epoll"],
        &["--cores=1", "--poller=uring"],
        &["--cores=2", "--poller=uring"],
    ] {
        let mut command = Command::new(DUALITY);
        command.args(["run", "--tick=1ms"]).args(options).arg("--").arg(program.path());
        let ours = finish(command.args(argument));
        assert_eq!(ours.stdout, natively.stdout, "{options:?}: {ours:?}");
    }
}

#[test]
fn a_tick_writes_nothing_beneath_a_stack_pointer_that_is_in_the_heap() {
    is_left_alone(&[]);
}

#[test]
fn a_signal_writes_nothing_beneath_a_stack_pointer_that_is_in_the_heap() {
    is_left_alone(&["signals"]);
}

#[test]
fn a_tick_needs_no_room_on_the_stack() {
    let program = Program::new("full_stack", &["-pthread"]);
    for options in [["--cores=1", "--stats"], ["--cores=2", "--stats"]] {
        let mut command = Command::new(DUALITY);
        command.args(["run", "--tick=1ms"]).args(options).arg("--").arg(program.path());
        let output = finish(&mut command);
        assert_eq!(output.stdout, b"right\n", "{options:?}: {output:?}");
    }
}

#[test]
fn a_tick_does_not_interrupt_the_handler_of_a_fault() {
    let program = Program::new("write_barrier", &["-pthread"]);
    for options in [["--cores=1", "--poller=epoll"], ["--cores=2", "--poller=uring"]] {
        let mut command = Command::new(DUALITY);
        command.args(["run", "--tick=1ms"]).args(options).arg("--").arg(program.path());
        let output = finish(&mut command);
        assert_eq!(output.stdout, b"60000 faults, 0 wrong, alarms\n", "{options:?}: {output:?}");
    }
}
