//! A socket in whichever world uses it: attempt, register, wait (see [`world`](crate::world)).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::task::Poll;
use std::time::{Duration, Instant};

use duality_poller::{Direction, Token};
use rustix::io::ioctl_fionbio;

use crate::drain::Listed;
use crate::event_loop::core::Core;
use crate::event_loop::remote::{self, Message};
use crate::visibility::{self, Wait, seats};
use crate::world::{self, Waited, block};

/// A socket, and what the world that last used it keeps for it.
pub(crate) struct Socket {
    /// `None` only while it is dropped.
    descriptor: Option<OwnedFd>,
    nonblocking: bool,
    /// Whether another socket has a duplicate of the descriptor.
    duplicated: bool,
    /// Where it is watched: the loop's lane, and its token there.
    watched: Option<(u16, Token)>,
    /// Whether its input ends when the process drains.
    ends_at_drain: bool,
    listed: Option<Listed>,
}

/// What an attempt moved.
pub(crate) struct Moved<T> {
    pub(crate) value: T,
    /// It moved less than it could have, so that another attempt would block.
    pub(crate) short: bool,
}

/// How long one operation may wait; kept across the polls of that operation.
pub(crate) struct Patience {
    limit: Option<Duration>,
    deadline: Option<Instant>,
}

impl Patience {
    pub(crate) const fn new(limit: Option<Duration>) -> Self {
        Self { limit, deadline: None }
    }

    /// The deadline, counted from the first wait; `None` is never.
    fn deadline(&mut self, now: Instant) -> Option<Instant> {
        if self.deadline.is_none() {
            self.deadline = self.limit.and_then(|limit| now.checked_add(limit));
        }
        self.deadline
    }
}

/// How an operation ended.
pub(crate) enum Done<T> {
    Moved(T),
    /// The process drains, and there was nothing to read.
    Drained,
}

impl Socket {
    pub(crate) fn new(descriptor: OwnedFd, nonblocking: bool) -> Self {
        Self {
            descriptor: Some(descriptor),
            nonblocking,
            duplicated: false,
            watched: None,
            ends_at_drain: false,
            listed: None,
        }
    }

    /// Marks a listener, or an accepted connection: its input ends when the process drains.
    pub(crate) fn ending_at_drain(mut self) -> Self {
        self.ends_at_drain = true;
        self
    }

    /// The same socket under a descriptor of its own, watched by nobody yet.
    pub(crate) fn try_clone(&mut self) -> io::Result<Self> {
        let duplicate = rustix::io::fcntl_dupfd_cloexec(self.as_fd(), 0)?;
        self.duplicated = true;
        let mut twin = Self::new(duplicate, self.nonblocking);
        (twin.duplicated, twin.ends_at_drain) = (true, self.ends_at_drain);
        Ok(twin)
    }

    /// Performs one operation: `attempt` is the system call, blocking or not as the world has it.
    #[inline]
    pub(crate) fn poll<T>(
        &mut self,
        direction: Direction,
        patience: &mut Patience,
        attempt: impl FnMut(BorrowedFd<'_>) -> io::Result<Moved<T>>,
    ) -> Poll<io::Result<Done<T>>> {
        world::with_loop(|core| match core {
            None => self.poll_blocking(direction, patience, attempt),
            Some(core) => self.poll_on_loop(core, direction, patience, attempt),
        })
    }

    fn poll_blocking<T>(
        &mut self,
        direction: Direction,
        patience: &mut Patience,
        mut attempt: impl FnMut(BorrowedFd<'_>) -> io::Result<Moved<T>>,
    ) -> Poll<io::Result<Done<T>>> {
        self.make_blocking()?;
        if self.ends_at_drain && self.listed.is_none() {
            self.listed = Some(Listed::new(self.as_fd()));
        }
        let _seen = seats::waiting(Wait::descriptor(direction, self.as_fd().as_raw_fd()));
        let own = |now| patience.deadline(now);
        match block::wait_for_descriptor(self.as_fd(), direction, own)? {
            Waited::Pending => Poll::Pending,
            Waited::Again => {
                visibility::count(|counters| counters.attempts.add(1));
                let moved = block::retry(|| attempt(self.as_fd()));
                Poll::Ready(moved.map(|moved| Done::Moved(moved.value)))
            }
        }
    }

    #[inline]
    fn poll_on_loop<T>(
        &mut self,
        core: &Core,
        direction: Direction,
        patience: &mut Patience,
        mut attempt: impl FnMut(BorrowedFd<'_>) -> io::Result<Moved<T>>,
    ) -> Poll<io::Result<Done<T>>> {
        self.join_loop(core)?;
        loop {
            let token = self.watched.map(|(_, token)| token);
            let worth_it = token.is_none_or(|token| !core.exhausted(token, direction));
            if worth_it {
                if !core.spend() {
                    match core.wait(None) {
                        Waited::Again => continue,
                        Waited::Pending => return Poll::Pending,
                    }
                }
                visibility::count(|counters| counters.attempts.add(1));
                match attempt(self.as_fd()) {
                    Ok(moved) => {
                        if moved.short
                            && let Some(token) = token
                        {
                            core.exhaust(token, direction);
                        }
                        return Poll::Ready(Ok(Done::Moved(moved.value)));
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        visibility::count(|counters| counters.would_blocks.add(1));
                    }
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            if self.ends_at_drain && direction == Direction::Read && core.draining() {
                return Poll::Ready(Ok(Done::Drained));
            }
            let deadline = patience.deadline(core.now());
            if deadline.is_some_and(|deadline| core.now() >= deadline) {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            let token = self.watch(core);
            core.wake_when(self.as_fd(), token, direction)?;
            match core.wait(deadline) {
                Waited::Again => {}
                Waited::Pending => return Poll::Pending,
            }
        }
    }

    /// Makes the socket one of this loop's, whatever world it comes from.
    #[inline]
    fn join_loop(&mut self, core: &Core) -> io::Result<()> {
        if !self.nonblocking {
            ioctl_fionbio(self.as_fd(), true)?;
            self.nonblocking = true;
            self.listed = None;
        }
        if let Some((lane, _)) = self.watched
            && lane != core.lane()
        {
            self.leave_loop()?;
        }
        Ok(())
    }

    fn make_blocking(&mut self) -> io::Result<()> {
        if self.nonblocking {
            self.leave_loop()?;
            ioctl_fionbio(self.as_fd(), false)?;
            self.nonblocking = false;
        }
        Ok(())
    }

    /// Ends the watch by another loop: it keeps the old descriptor until it has forgotten it, and this
    /// socket goes on under a duplicate.
    fn leave_loop(&mut self) -> io::Result<()> {
        if let Some((lane, token)) = self.watched.take() {
            let duplicate = rustix::io::fcntl_dupfd_cloexec(self.as_fd(), 0)?;
            let old = self.descriptor.replace(duplicate);
            let old = old.expect("a socket has its descriptor until it is dropped");
            remote::send(lane, Message::Close(token, old));
        }
        Ok(())
    }

    #[inline]
    fn watch(&mut self, core: &Core) -> Token {
        let client = self.ends_at_drain;
        self.watched.get_or_insert_with(|| (core.lane(), core.watch(client))).1
    }
}

impl AsFd for Socket {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_ref().expect("a socket has its descriptor until it is dropped").as_fd()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Off the list before the number can mean something else.
        self.listed = None;
        let Some((lane, token)) = self.watched else { return };
        let here = world::with_loop(|core| {
            core.filter(|core| core.lane() == lane)
                .map(|core| match self.duplicated {
                    true => core.forget_duplicate(self.as_fd(), token),
                    false => core.forget(self.as_fd(), token),
                })
                .is_some()
        });
        if !here && let Some(descriptor) = self.descriptor.take() {
            remote::send(lane, Message::Close(token, descriptor));
        }
    }
}
