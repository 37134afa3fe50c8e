//! A socket of a task with blocks that run on any kernel thread. The socket waits in a [`Reactor`].

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::task::{Context, Poll};

use duality_poller::Direction;
use rustix::io::ioctl_fionbio;

use super::{Access, Done, Moved, Socket, TimeLimit};
use crate::blocks::{Reactor, Source, TaskState};
use crate::threads;
use crate::visibility::{self, Wait};
use crate::wait::{Waited, earlier, gathers};
use crate::world::Here;

impl Socket {
    /// Performs one operation of `task`, like [`Socket::poll`].
    pub(super) fn poll_suspended<T>(
        &mut self,
        (task, reactor): (&TaskState, &Reactor),
        context: &Context<'_>,
        direction: Direction,
        time_limit: &mut TimeLimit,
        mut attempt: impl FnMut(Access<'_>) -> io::Result<Moved<T>>,
    ) -> Poll<io::Result<Done<T>>> {
        self.join_reactor(reactor)?;
        loop {
            // Checked before the attempt, so that bytes from before the drain are read.
            let drains = self.drains_on(reactor, direction);
            let looks = drains || (self.outlives_drain && reactor.draining());
            if looks || !self.source.as_ref().is_some_and(|source| source.is_exhausted(direction)) {
                if let Some(given_way) = Here::Reactor(task, reactor).spend(context) {
                    match given_way {
                        Waited::Again => continue,
                        Waited::Pending => return Poll::Pending,
                    }
                }
                visibility::count(|counters| counters.attempts.add(1));
                match attempt(self.access(None, direction)) {
                    Ok(moved) => {
                        if moved.short
                            && let Some(source) = &self.source
                        {
                            source.exhaust(direction);
                        }
                        self.is_new &= direction == Direction::Write;
                        return Poll::Ready(Ok(Done::Moved(moved.value)));
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        visibility::count(|counters| counters.would_blocks.add(1));
                    }
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            if drains {
                return Poll::Ready(Ok(Done::Drained));
            }
            // Registered before the check for a drain: a drain that comes in between finds the
            // source.
            let source = self.register(reactor)?;
            if self.drains_on(reactor, direction) {
                continue;
            }
            let now = threads::now();
            let deadline = time_limit.deadline(now);
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            if source.poll_ready(context, direction).is_pending() {
                let wait = Wait::descriptor(direction, self.as_fd().as_raw_fd());
                let first = self.first_bytes_end(direction, reactor.first_bytes_until(), now);
                let mut deadline = earlier(deadline, first);
                if gathers() {
                    self.note_deadline(direction, deadline.take(), context);
                }
                match task.wait(context, reactor, wait, deadline) {
                    Waited::Again => {}
                    Waited::Pending => return Poll::Pending,
                }
            }
        }
    }

    /// Whether an operation ends because its reactor drains, once no data are left for it.
    fn drains_on(&self, reactor: &Reactor, direction: Direction) -> bool {
        self.ends_at_drain.is_some()
            && !self.outlives_drain
            && direction == Direction::Read
            && reactor.draining()
            && self
                .first_bytes_end(direction, reactor.first_bytes_until(), threads::now())
                .is_none()
    }

    /// Registers the socket with this reactor, from any world.
    fn join_reactor(&mut self, reactor: &Reactor) -> io::Result<()> {
        self.listed = None;
        if self.watched.is_some() {
            self.leave_loop()?;
        }
        if self.source.as_ref().is_some_and(|source| !source.reactor().is(reactor)) {
            self.leave_reactor();
        }
        if !self.nonblocking {
            visibility::count(|counters| counters.other_calls.add(1));
            ioctl_fionbio(self.as_fd(), true)?;
            self.nonblocking = true;
        }
        Ok(())
    }

    fn register(&mut self, reactor: &Reactor) -> io::Result<Arc<Source>> {
        if let Some(source) = &self.source {
            return Ok(source.clone());
        }
        let source = reactor.register(self.as_fd())?;
        self.source = Some(source.clone());
        Ok(source)
    }

    /// Deregisters the socket from its reactor, if it has one.
    pub(super) fn leave_reactor(&mut self) {
        if let Some(source) = self.source.take() {
            source.deregister(self.as_fd(), true);
        }
    }
}
