//! Random lives of several connections under each poller, against a model that knows which reports
//! are owed. A direction that was armed and is ready must be among the events of the next wait.

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use crate::common::{END, fill, pair, read_once, report};
use duality_poller::{Direction, Event, Kind, Poller, Token};
use proptest::prelude::*;

const CONNECTIONS: usize = 4;

#[derive(Clone, Debug)]
enum Step {
    /// The peer sends so many bytes.
    Send(usize, usize),
    /// The peer takes everything that was sent to it.
    Drain(usize),
    /// The peer shuts down its sending direction.
    Shutdown(usize),
    /// A task reads into a buffer of this size until a read is short, and then arms.
    Read(usize, usize),
    /// A task writes until a write would block, and then arms.
    Write(usize),
    /// The connection closes. Another takes its token, and usually its number.
    Replace(usize),
    /// The loop collects events.
    Wait,
}

fn step() -> impl Strategy<Value = Step> {
    let which = 0..CONNECTIONS;
    prop_oneof![
        4 => (which.clone(), 1..200_usize).prop_map(|(which, count)| Step::Send(which, count)),
        2 => which.clone().prop_map(Step::Drain),
        1 => which.clone().prop_map(Step::Shutdown),
        5 => (which.clone(), 1..300_usize).prop_map(|(which, size)| Step::Read(which, size)),
        2 => which.clone().prop_map(Step::Write),
        1 => which.prop_map(Step::Replace),
        6 => Just(Step::Wait),
    ]
}

/// One connection, and the model's state of it.
struct Connection {
    near: OwnedFd,
    far: OwnedFd,
    /// Bytes that `near` has not read yet.
    pending: usize,
    shut_down: bool,
    /// `near` has been filled and not drained since.
    full: bool,
    /// An event has said `hangup`: a short read no longer shows that nothing is left.
    hangup: bool,
    waits_for_reading: bool,
    waits_for_writing: bool,
}

impl Connection {
    fn new() -> io::Result<Self> {
        let (near, far) = pair()?;
        Ok(Self {
            near,
            far,
            pending: 0,
            shut_down: false,
            full: false,
            hangup: false,
            waits_for_reading: false,
            waits_for_writing: false,
        })
    }

    /// Reads as a task does: to the end, to "would block", or to a short read if that is enough.
    fn read(&mut self, size: usize) -> io::Result<()> {
        loop {
            match read_once(&self.near, size)? {
                END => return Ok(()),
                Some(count) => {
                    self.pending -= count;
                    if count < size && !self.hangup {
                        break;
                    }
                }
                None => break,
            }
        }
        self.waits_for_reading = true;
        Ok(())
    }

    /// Compares the events of a wait with the reports that are owed. A report settles its debt.
    fn check(&mut self, token: Token, events: &[Event]) {
        let readable = report(events, token, Direction::Read).is_some();
        let writable = report(events, token, Direction::Write).is_some();
        let owed = self.waits_for_reading && (self.pending > 0 || self.shut_down);
        assert!(readable || !owed, "{token:?}: lost the report of {} bytes", self.pending);
        let owed = self.waits_for_writing && !self.full;
        assert!(writable || !owed, "{token:?}: lost the report of room");
        self.waits_for_reading &= !readable;
        self.waits_for_writing &= !writable;
        self.hangup |= events.iter().any(|event| event.token == token && event.hangup);
    }
}

/// Plays the steps. Panics if the poller breaks a promise.
fn play(poller: &mut dyn Poller, steps: &[Step]) -> io::Result<()> {
    let mut connections =
        (0..CONNECTIONS).map(|_| Connection::new()).collect::<io::Result<Vec<_>>>()?;
    let mut events = Vec::new();
    for step in steps.iter().chain([&Step::Wait]) {
        match *step {
            Step::Send(which, count) => {
                let connection = &mut connections[which];
                if !connection.shut_down {
                    connection.pending += rustix::io::write(&connection.far, &vec![1; count])?;
                }
            }
            Step::Drain(which) => {
                while read_once(&connections[which].far, 64 * 1024)?.is_some() {}
                connections[which].full = false;
            }
            Step::Shutdown(which) => {
                rustix::net::shutdown(&connections[which].far, rustix::net::Shutdown::Write)?;
                connections[which].shut_down = true;
            }
            Step::Read(which, size) => {
                let connection = &mut connections[which];
                connection.read(size)?;
                if connection.waits_for_reading {
                    poller.arm(connection.near.as_fd(), token(which), Direction::Read)?;
                }
            }
            Step::Write(which) => {
                let connection = &mut connections[which];
                fill(&connection.near)?;
                (connection.full, connection.waits_for_writing) = (true, true);
                poller.arm(connection.near.as_fd(), token(which), Direction::Write)?;
            }
            Step::Replace(which) => {
                poller.forget(connections[which].near.as_fd(), token(which));
                let old = std::mem::replace(&mut connections[which], Connection::new()?);
                drop(old);
            }
            Step::Wait => {
                poller.wait(Some(Duration::ZERO), &mut events)?;
                for (which, connection) in connections.iter_mut().enumerate() {
                    connection.check(token(which), &events);
                }
            }
        }
    }
    Ok(())
}

fn token(which: usize) -> Token {
    Token(which as u32)
}

/// Plays under one kind, if this machine can run it.
fn play_under(kind: Kind, steps: &[Step]) {
    match kind.unavailable() {
        Some(reason) => {
            let _ = writeln!(io::stderr(), "skipped: {reason}");
        }
        None => kind.open().and_then(|mut poller| play(&mut *poller, steps)).unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn select_loses_no_report(steps in prop::collection::vec(step(), 0..150)) {
        play_under(Kind::Select, &steps);
    }

    #[test]
    fn poll_loses_no_report(steps in prop::collection::vec(step(), 0..150)) {
        play_under(Kind::Poll, &steps);
    }

    #[test]
    fn epoll_loses_no_report(steps in prop::collection::vec(step(), 0..150)) {
        play_under(Kind::Epoll, &steps);
    }
}
