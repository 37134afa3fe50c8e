//! select(2): one bit per descriptor number, copied in and out and scanned at every round.
//!
//! ```text
//!    descriptor       0 1 2 3 4 5 …                     bound
//!    read.interest  [ 0 0 0 1 0 1 … 1 ]  ─ copy ─▶ read.ready   ┐
//!    write.interest [ 0 0 0 0 0 1 … 0 ]  ─ copy ─▶ write.ready  ┴▶ pselect6 keeps the ready bits
//!    tokens         [ · · · 7 · 2 … 9 ]  ◀─ the token of a bit ─────────┘
//! ```
//!
//! A round costs O(highest descriptor), in the kernel and here, though 64 numbers share a word. The
//! known limit of 1,024 descriptors is that of libc's `fd_set`. The kernel takes bitmaps of any
//! size, and this poller uses them. select(2) cannot tell a hang-up from data. So [`Event::hangup`]
//! stays false, as it may with a level-triggered poller.
//!
//! Source: 4.2BSD, 1983; select(2).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use rustix::event::{
    FdSetElement, FdSetIter, Timespec, fd_set_bound, fd_set_insert, fd_set_num_elements,
    fd_set_remove,
};
use rustix::io::Errno;

use crate::{Direction, Event, Poller, Token, timespec};

pub(crate) const SUMMARY: &str =
    "bitmaps of descriptor numbers; a round costs O(highest descriptor) (4.2BSD, 1983)";

pub(crate) struct Select {
    read: Set,
    write: Set,
    /// The token of each descriptor, by number. An entry is valid only if one of the sets has the
    /// descriptor's bit.
    tokens: Vec<Token>,
}

impl Select {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { read: Set::default(), write: Set::default(), tokens: Vec::new() })
    }
}

impl Poller for Select {
    fn arm(
        &mut self,
        descriptor: BorrowedFd<'_>,
        token: Token,
        direction: Direction,
    ) -> io::Result<()> {
        let number = descriptor.as_raw_fd();
        let index = number as usize;
        if index >= self.tokens.len() {
            self.tokens.resize(index + 1, Token(0));
            self.read.grow(number);
            self.write.grow(number);
        }
        self.tokens[index] = token;
        match direction {
            Direction::Read => fd_set_insert(&mut self.read.interest, number),
            Direction::Write => fd_set_insert(&mut self.write.interest, number),
        }
        Ok(())
    }

    fn forget(&mut self, descriptor: BorrowedFd<'_>, _token: Token) {
        let number = descriptor.as_raw_fd();
        if (number as usize) < self.tokens.len() {
            fd_set_remove(&mut self.read.interest, number);
            fd_set_remove(&mut self.write.interest, number);
        }
    }

    fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        events.clear();
        let bound = fd_set_bound(&self.read.interest).max(fd_set_bound(&self.write.interest));
        self.read.prepare(bound);
        self.write.prepare(bound);
        match select(bound, &mut self.read.ready, &mut self.write.ready, timespec(timeout)) {
            // After an error the bitmaps still hold the interest, not the answer, so they must not
            // be read.
            Ok(0) | Err(Errno::INTR) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        for number in FdSetIter::new(&self.read.ready) {
            fd_set_remove(&mut self.read.interest, number);
            let token = self.tokens[number as usize];
            events.push(Event { token, readable: true, writable: false, hangup: false });
        }
        for number in FdSetIter::new(&self.write.ready) {
            fd_set_remove(&mut self.write.interest, number);
            let token = self.tokens[number as usize];
            events.push(Event { token, readable: false, writable: true, hangup: false });
        }
        Ok(())
    }
}

/// One direction: the bitmap that we keep, and the copy that the kernel overwrites.
#[derive(Default)]
struct Set {
    interest: Vec<FdSetElement>,
    ready: Vec<FdSetElement>,
}

impl Set {
    /// Makes room for descriptor `number`.
    fn grow(&mut self, number: RawFd) {
        let elements = fd_set_num_elements(1, number + 1);
        self.interest.resize(elements, FdSetElement::default());
    }

    /// Copies the interest in descriptors below `bound` to where the kernel will answer.
    fn prepare(&mut self, bound: RawFd) {
        let elements = fd_set_num_elements(1, bound);
        self.ready.clear();
        self.ready.extend_from_slice(&self.interest[..elements]);
    }
}

/// Calls pselect6 on the bitmaps of the descriptors below `bound`.
fn select(
    bound: RawFd,
    read: &mut [FdSetElement],
    write: &mut [FdSetElement],
    timeout: Option<Timespec>,
) -> rustix::io::Result<i32> {
    // SAFETY: rustix asks that the descriptors be open. The descriptors are open, because
    // `Poller::forget` is called before a close. If a caller breaks this rule, the kernel answers
    // EBADF or looks at the readiness of the descriptor's successor. The kernel touches neither the
    // successor's data nor our memory.
    unsafe { rustix::event::select(bound, Some(read), Some(write), None, timeout.as_ref()) }
}
