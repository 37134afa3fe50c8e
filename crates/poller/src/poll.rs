//! poll(2): the kernel gets the list of armed descriptors, and scans it in every round.
//!
//! ```text
//!    token        0 1 2 …
//!    positions  [ 2 · 0 … ]           where a token stands in the lists
//!                 │   └────┐
//!                 └──────┐ │
//!    position            2 1 0
//!    entries    [ pollfd 9 5 7 ] ───▶ ppoll writes the answer into each
//!    watches    [ token  0 8 2 ]      the token of an entry, and what is armed
//! ```
//!
//! A round costs O(armed descriptors), in the kernel and here, for any descriptor numbers. An entry
//! leaves the lists with its last armed direction. The system call reports errors and hang-ups even
//! for an entry that asks for nothing. So an entry left behind would make the loop spin.
//!
//! Source: System V Release 3, 1986; poll(2).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use crate::{Direction, Event, Poller, Token, timespec};

pub(crate) const SUMMARY: &str =
    "a list of what is armed; a round costs O(armed descriptors) (System V, 1986)";

/// RDHUP goes with IN: an end of stream is readable, so one report disarms both.
const READ: PollFlags = PollFlags::IN.union(PollFlags::RDHUP);
const WRITE: PollFlags = PollFlags::OUT;
/// What the kernel reports unasked. NVAL: the descriptor was closed without `forget`, and the next
/// attempt fails with EBADF.
const FAILED: PollFlags = PollFlags::HUP.union(PollFlags::ERR).union(PollFlags::NVAL);
const HANGUP: PollFlags = FAILED.union(PollFlags::RDHUP);

/// The position of a token that has nothing armed.
const NOWHERE: u32 = u32::MAX;

pub(crate) struct Poll {
    /// The entries that the kernel sees. `watches` has the same order, and the kernel does not see
    /// it.
    entries: Vec<PollFd<'static>>,
    watches: Vec<Watch>,
    /// The position of each token in those lists.
    positions: Vec<u32>,
}

/// One armed descriptor.
struct Watch {
    token: Token,
    armed: PollFlags,
}

impl Poll {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { entries: Vec::new(), watches: Vec::new(), positions: Vec::new() })
    }
}

impl Poller for Poll {
    fn arm(
        &mut self,
        descriptor: BorrowedFd<'_>,
        token: Token,
        direction: Direction,
    ) -> io::Result<()> {
        let index = token.0 as usize;
        if index >= self.positions.len() {
            self.positions.resize(index + 1, NOWHERE);
        }
        let wanted = match direction {
            Direction::Read => READ,
            Direction::Write => WRITE,
        };
        if self.positions[index] == NOWHERE {
            self.positions[index] = self.entries.len() as u32;
            self.entries.push(entry(descriptor.as_raw_fd(), wanted));
            self.watches.push(Watch { token, armed: wanted });
        } else {
            let position = self.positions[index] as usize;
            self.set(position, self.watches[position].armed | wanted);
        }
        Ok(())
    }

    fn forget(&mut self, _descriptor: BorrowedFd<'_>, token: Token) {
        match self.positions.get(token.0 as usize) {
            None | Some(&NOWHERE) => {}
            Some(&position) => self.set(position as usize, PollFlags::empty()),
        }
    }

    fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        events.clear();
        let mut ready = match rustix::event::poll(&mut self.entries, timespec(timeout).as_ref()) {
            Ok(ready) => ready,
            Err(Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        // The loop goes backwards: removing an entry moves the last entry, which has been seen
        // already, into its place.
        let mut position = self.entries.len();
        while ready > 0 {
            position -= 1;
            let flags = self.entries[position].revents();
            if flags.is_empty() {
                continue;
            }
            ready -= 1;
            let Watch { token, armed } = self.watches[position];
            let readable = flags.intersects(READ | FAILED);
            let writable = flags.intersects(WRITE | FAILED);
            events.push(Event { token, readable, writable, hangup: flags.intersects(HANGUP) });
            let mut left = armed;
            left.set(READ, armed.contains(READ) && !readable);
            left.set(WRITE, armed.contains(WRITE) && !writable);
            self.set(position, left);
        }
        Ok(())
    }
}

impl Poll {
    /// Arms exactly the directions in `armed`; with none, removes the entry.
    fn set(&mut self, position: usize, armed: PollFlags) {
        if armed.is_empty() {
            self.entries.swap_remove(position);
            let gone = self.watches.swap_remove(position);
            self.positions[gone.token.0 as usize] = NOWHERE;
            if let Some(moved) = self.watches.get(position) {
                self.positions[moved.token.0 as usize] = position as u32;
            }
        } else {
            let number = self.entries[position].as_fd().as_raw_fd();
            self.entries[position] = entry(number, armed);
            self.watches[position].armed = armed;
        }
    }
}

/// The entry that asks the kernel about descriptor `number`.
fn entry(number: RawFd, armed: PollFlags) -> PollFd<'static> {
    // SAFETY: the number came from a `BorrowedFd`, and `Poller::forget` removes the entry before
    // that descriptor is closed. If a caller breaks this rule, the kernel answers NVAL or looks at
    // the readiness of the descriptor's successor. The kernel touches neither the successor's data
    // nor our memory.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    PollFd::from_borrowed_fd(descriptor, armed)
}
