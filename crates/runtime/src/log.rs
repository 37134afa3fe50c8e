//! Messages of a program to its operator: lines to standard error. Writing a line cannot fail.
//!
//! `eprintln!` panics if standard error cannot be written, as on a full disk or a pipe without a
//! reader. A server must not end because of a lost line. So clippy forbids `eprintln!` in this
//! workspace, and all messages go through this module.

use std::fmt::Display;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::event_loop::current;

/// PIPE_BUF of pipe(7): a pipe that is ready takes this many bytes without a wait.
const LONGEST: usize = 4096;

/// Writes a line to the operator of a server: `duality: MESSAGE`, in one write(2).
///
/// Never waits: if standard error cannot take the line now, the line is lost. Takes no lock, so
/// that a child that is forked at the same time does not inherit a locked one.
pub fn warn(message: impl Display) {
    if let Some(machine) = current::machine() {
        machine.log(&message.to_string());
        return;
    }
    let mut line = format!("duality: {message}").into_bytes();
    line.truncate(LONGEST - 1);
    line.push(b'\n');
    let output = rustix::stdio::stderr();
    let mut ready = [PollFd::new(&output, PollFlags::OUT)];
    // Miri does not know ppoll(2), and its standard error never waits.
    if cfg!(miri) || poll(&mut ready, Some(&Timespec::default())) == Ok(1) {
        let _ = rustix::io::write(output, &line);
    }
}

/// Writes a line to the user of a command: `MESSAGE`, whole. Waits for a slow reader. If standard
/// error cannot be written, the line is lost.
pub fn tell(message: impl Display) {
    if let Some(machine) = current::machine() {
        machine.log(&message.to_string());
        return;
    }
    let line = format!("{message}\n");
    let mut rest = line.as_bytes();
    while !rest.is_empty() {
        match rustix::io::write(rustix::stdio::stderr(), rest) {
            Ok(count) => rest = &rest[count..],
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}
