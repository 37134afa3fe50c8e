//! What a socket was not ready for when it was last asked. `readable` and `writable` are tokio's: a
//! direction stays ready until an operation would block.
//!
//! ```text
//!   an operation would block ──▶ blocked ──▶ poll(2) reports readiness ──▶ not blocked
//! ```

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

use duality_poller::Direction;

use crate::io::{Interest, Ready};

/// The directions that need a question to the kernel. The other directions count as ready.
#[derive(Debug)]
pub(super) struct Blocked(AtomicU8);

const READ: u8 = 1;
const WRITE: u8 = 2;

const fn bit(direction: Direction) -> u8 {
    match direction {
        Direction::Read => READ,
        Direction::Write => WRITE,
    }
}

fn bits(interest: Interest) -> u8 {
    let read = if interest.is_readable() { READ } else { 0 };
    let write = if interest.is_writable() { WRITE } else { 0 };
    read | write
}

impl Blocked {
    /// Of a socket that nothing is known of.
    pub(super) const fn both() -> Self {
        Self(AtomicU8::new(READ | WRITE))
    }

    /// Of an accepted connection, which tokio takes for ready until an operation would block.
    pub(super) const fn neither() -> Self {
        Self(AtomicU8::new(0))
    }

    pub(super) fn contains(&self, direction: Direction) -> bool {
        self.0.load(Ordering::Relaxed) & bit(direction) != 0
    }

    pub(super) fn add(&self, direction: Direction) {
        self.0.fetch_or(bit(direction), Ordering::Relaxed);
    }

    pub(super) fn remove(&self, direction: Direction) {
        self.0.fetch_and(!bit(direction), Ordering::Relaxed);
    }

    /// Adds a direction if `outcome` is that the operation would block.
    pub(super) fn note<T>(&self, direction: Direction, outcome: io::Result<T>) -> io::Result<T> {
        if would_block(&outcome) {
            self.add(direction);
        }
        outcome
    }

    /// Like [`note`](Self::note), for the directions of an interest.
    pub(super) fn note_all<T>(&self, interest: Interest, outcome: io::Result<T>) -> io::Result<T> {
        if would_block(&outcome) {
            self.0.fetch_or(bits(interest), Ordering::Relaxed);
        }
        outcome
    }

    /// The directions of an interest that count as ready.
    pub(super) fn known(&self, interest: Interest) -> Ready {
        let ready = bits(interest) & !self.0.load(Ordering::Relaxed);
        let pairs = [(READ, Ready::READABLE), (WRITE, Ready::WRITABLE)];
        let set = pairs.into_iter().filter(|(bit, _)| ready & bit != 0);
        set.fold(Ready::EMPTY, |all, (_, ready)| all | ready)
    }

    /// Removes the directions that poll(2) has reported as ready.
    pub(super) fn learn(&self, ready: Ready) {
        let read = if ready.is_readable() { READ } else { 0 };
        let write = if ready.is_writable() { WRITE } else { 0 };
        self.0.fetch_and(!(read | write), Ordering::Relaxed);
    }
}

pub(super) fn would_block<T>(outcome: &io::Result<T>) -> bool {
    outcome.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}
