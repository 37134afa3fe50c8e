//! A socket with [gathered](crate::task::gather) waits: an attempt notes its wait.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::task::{Context, Poll};
use std::time::Instant;

use duality_poller::{Direction, Token};
use rustix::io::ioctl_fionbio;

use super::{Access, Done, Moved, Socket, TimeLimit};
use crate::event_loop::core::Core;
use crate::gather::{self, Key};
use crate::threads;
use crate::visibility;
use crate::world::gather::{forget_time, note_time};
use crate::world::{Here, block};

impl Socket {
    /// Performs one operation in the block world, like [`Socket::poll`].
    ///
    /// poll(2) is level-triggered. So a read that follows a short one waits first, and saves the
    /// attempt.
    pub(super) fn poll_gathered<T>(
        &mut self,
        context: &Context<'_>,
        direction: Direction,
        time_limit: &mut TimeLimit,
        mut attempt: impl FnMut(Access<'_>) -> io::Result<Moved<T>>,
    ) -> Poll<io::Result<Done<T>>> {
        if Here::Block.spend(context).is_some() {
            return Poll::Pending;
        }
        self.prepare_to_gather()?;
        let was_short = direction == Direction::Read && std::mem::take(&mut self.was_short);
        if !was_short && let Some(ended) = self.attempt_once(direction, &mut attempt) {
            return Poll::Ready(ended.map(Done::Moved));
        }
        let now = threads::now();
        let deadline = time_limit.deadline(now);
        if deadline.is_some_and(|deadline| now >= deadline) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        gather::note_descriptor(self.as_fd().as_raw_fd(), direction, context);
        self.note_deadline(direction, deadline, context);
        self.is_noted = true;
        Poll::Pending
    }

    /// The outcome of an attempt. `None` if it would block.
    fn attempt_once<T>(
        &mut self,
        direction: Direction,
        attempt: &mut impl FnMut(Access<'_>) -> io::Result<Moved<T>>,
    ) -> Option<io::Result<T>> {
        visibility::count(|counters| counters.attempts.add(1));
        match block::retry(|| attempt(self.access(None, direction))) {
            Ok(moved) => {
                self.was_short = moved.short && direction == Direction::Read;
                self.is_new &= direction == Direction::Write;
                Some(Ok(moved.value))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                visibility::count(|counters| counters.would_blocks.add(1));
                None
            }
            Err(error) => Some(Err(error)),
        }
    }

    /// Notes a wait of a loop's socket. The poller already watches the socket.
    #[cold]
    pub(super) fn note_on_loop(
        &mut self,
        (core, token): (&Core, Token),
        direction: Direction,
        deadline: Option<Instant>,
        context: &Context<'_>,
    ) {
        if context.waker().data().addr() != core.running_waker() {
            core.gathered.note_foreign(token, direction, context.waker());
        }
        self.note_deadline(direction, deadline, context);
    }

    /// Notes the deadline of an operation. The next operation of its direction replaces it.
    pub(super) fn note_deadline(
        &mut self,
        direction: Direction,
        deadline: Option<Instant>,
        context: &Context<'_>,
    ) {
        if let Some(deadline) = deadline {
            note_time(self.key(direction), deadline, context);
            self.is_noted = true;
        }
    }

    /// Removes the socket from the notes, before its number can mean another file.
    #[cold]
    pub(super) fn forget_noted(&mut self) {
        gather::forget_descriptor(self.as_fd().as_raw_fd());
        for direction in [Direction::Read, Direction::Write] {
            forget_time(self.key(direction));
        }
        self.is_noted = false;
    }

    fn key(&self, direction: Direction) -> Key {
        Key::Descriptor(self.as_fd().as_raw_fd(), direction as u8)
    }

    fn prepare_to_gather(&mut self) -> io::Result<()> {
        self.leave_loop()?;
        self.leave_reactor();
        if !self.nonblocking {
            visibility::count(|counters| counters.other_calls.add(1));
            ioctl_fionbio(self.as_fd(), true)?;
            self.nonblocking = true;
        }
        self.list()
    }
}
