//! A socket in the world that uses it: attempt, register, wait (see [`world`](crate::world)).
//!
//! An attempt goes through [`Access`], which makes the system call.

mod access;
mod blocking;
mod channel;
mod direct;
mod gathered;
mod null;
mod rest;
mod suspended;
mod time_limit;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use duality_poller::{Direction, Token};
use rustix::io::ioctl_fionbio;

pub(in crate::net) use self::access::count_written;
pub(crate) use self::access::{Access, Moved};
pub(crate) use self::channel::Channel;
#[cfg(feature = "rustls")]
pub(in crate::net) use self::channel::unfinished;
pub(crate) use self::direct::internet_address;
pub(in crate::net) use self::null::null;
pub(crate) use self::rest::Rest;
pub(crate) use self::time_limit::TimeLimit;
use crate::blocks::Source;
use crate::drain::{self, DrainTarget, Listed};
use crate::event_loop::core::Core;
use crate::event_loop::current;
use crate::gather::leave_turn;
use crate::remote::{self, LoopId};
use crate::visibility;
use crate::wait::{Waited, earlier, gathers};
use crate::world::{Here, foreign};

/// A socket, and the state that its last world keeps.
pub(crate) struct Socket {
    /// `None` during the drop, and where simulated sockets share one.
    descriptor: Option<OwnedFd>,
    nonblocking: bool,
    /// Whether another socket has a duplicate of the descriptor.
    duplicated: bool,
    /// Whether the kernel ends a read after [`SILENCE`](crate::places::SILENCE), which is less than
    /// the read's time limit.
    is_sliced: bool,
    /// The loop that watches the socket, and its token there.
    watched: Option<(LoopId, Token)>,
    /// The socket's registration with a reactor.
    source: Option<Arc<Source>>,
    /// Whether a ring receives or sends for the socket.
    is_the_rings: bool,
    /// Whether a loop with a ring makes system calls for the socket, like other loops: the ring
    /// only reports readiness.
    pub(super) by_system_calls: bool,
    /// What stands between the service and the socket, such as TLS.
    pub(super) channel: Option<Box<dyn Channel>>,
    /// The kind of the socket, if its input ends when the process drains.
    pub(super) ends_at_drain: Option<DrainTarget>,
    listed: Option<Listed>,
    /// Whether the socket is an accepted connection that has sent nothing yet.
    is_new: bool,
    /// Whether gathered waits have noted the socket, in a way that ends with the socket.
    is_noted: bool,
    /// Whether the last read of a gathered wait has taken all bytes.
    was_short: bool,
    /// Whether a drain does not end the input, because the socket's user is told of the drain.
    outlives_drain: bool,
    /// Whether a poll-style read has found the end of the input.
    pub(super) has_ended: bool,
}

/// The end of an operation.
pub(crate) enum Done<T> {
    Moved(T),
    /// No bytes have come, and the input ends: the process drains, or other clients wait for the
    /// [place](crate::places) of this connection.
    Drained,
}

impl Socket {
    pub(crate) fn new(descriptor: OwnedFd, nonblocking: bool) -> Self {
        Self::with(Some(descriptor), nonblocking)
    }

    #[inline]
    fn with(descriptor: Option<OwnedFd>, nonblocking: bool) -> Self {
        Self {
            descriptor,
            nonblocking,
            duplicated: false,
            is_sliced: false,
            watched: None,
            source: None,
            is_the_rings: false,
            by_system_calls: false,
            channel: None,
            ends_at_drain: None,
            listed: None,
            is_new: false,
            is_noted: false,
            was_short: false,
            outlives_drain: false,
            has_ended: false,
        }
    }

    /// A simulated socket that shares its descriptor with others.
    pub(super) fn without_descriptor() -> Self {
        Self::with(None, true)
    }

    /// Marks a listener, or an accepted connection: the input ends when the process drains.
    pub(crate) fn ending_at_drain(mut self, input: DrainTarget) -> Self {
        self.is_new = input == DrainTarget::Connection;
        self.ends_at_drain = Some(input);
        self
    }

    /// Has a listener's connections accepted one by one, by system calls, even on a loop with a
    /// ring.
    ///
    /// Returns whether a ring has accepted for the listener so far.
    pub(super) fn make_system_calls(&mut self) -> bool {
        if std::mem::replace(&mut self.by_system_calls, true) {
            return false;
        }
        let Some((watcher, token)) = self.watched else { return false };
        current::with_loop(|core| {
            let ours = core.filter(|core| core.id() == watcher && core.has_ring());
            ours.map(|core| core.with_ring(|ring| ring.stop_accepting(token))).is_some()
        })
    }

    /// At a drain, leaves the end of the input to the socket's user, or no longer does.
    #[inline]
    pub(super) fn set_outlives_drain(&mut self, outlives: bool) {
        self.outlives_drain = outlives;
        if outlives {
            self.listed = None;
        }
    }

    /// Releases the other kernel threads that wait for a connection of this listener. The accept
    /// queue is empty.
    pub(super) fn end_listener(&self) {
        if let Some(input) = self.ends_at_drain {
            drain::end_listener(self.as_fd(), input);
        }
    }

    /// A duplicate of the socket with its own descriptor, which no loop watches yet.
    pub(crate) fn try_clone(&mut self) -> io::Result<Self> {
        let duplicate = rustix::io::fcntl_dupfd_cloexec(self.as_fd(), 0)?;
        let mut channel = None;
        if let Some(own) = &self.channel {
            channel = own.duplicate(self.as_fd(), duplicate.as_fd());
            if channel.is_none() {
                let problem = "a connection with TLS has one handle: read and write by turns";
                return Err(io::Error::new(io::ErrorKind::Unsupported, problem));
            }
        }
        self.duplicated = true;
        let mut twin = Self::new(duplicate, self.nonblocking);
        (twin.channel, twin.by_system_calls) = (channel, self.by_system_calls);
        (twin.duplicated, twin.ends_at_drain) = (true, self.ends_at_drain);
        Ok(twin)
    }

    /// Performs one operation. `attempt` is the system call, blocking or not as in the world.
    #[inline]
    pub(crate) fn poll<T>(
        &mut self,
        context: &Context<'_>,
        direction: Direction,
        time_limit: &mut TimeLimit,
        attempt: impl FnMut(Access<'_>) -> io::Result<Moved<T>>,
    ) -> Poll<io::Result<Done<T>>> {
        if self.channel.is_some() {
            return self.poll_channel(context, direction, time_limit, attempt);
        }
        self.poll_network(context, direction, time_limit, attempt)
    }

    /// The operation on the socket itself.
    #[inline]
    fn poll_network<T>(
        &mut self,
        context: &Context<'_>,
        direction: Direction,
        time_limit: &mut TimeLimit,
        mut attempt: impl FnMut(Access<'_>) -> io::Result<Moved<T>>,
    ) -> Poll<io::Result<Done<T>>> {
        // SAFETY: the references end with this call.
        let core = match unsafe { Here::find() } {
            Here::Loop(core) => core,
            Here::Block if gathers() => {
                return self.poll_gathered(context, direction, time_limit, attempt);
            }
            Here::Block => return self.poll_blocking(context, direction, time_limit, attempt),
            Here::Reactor(task, reactor) => {
                let running = (task, reactor);
                return self.poll_suspended(running, context, direction, time_limit, attempt);
            }
        };
        self.enter_loop(core, direction)?;
        loop {
            let token = self.watched.map(|(_, token)| token);
            let tried = token.is_some_and(|token| core.exhausted(token, direction));
            // At a drain, bytes that have come are read even before their event.
            if !tried || self.drains(core, direction) || (self.outlives_drain && core.draining()) {
                if !core.spend() {
                    match core.wait(None) {
                        Waited::Again => continue,
                        Waited::Pending => {
                            leave_turn(context);
                            return Poll::Pending;
                        }
                    }
                }
                visibility::count(|counters| counters.attempts.add(1));
                let ring = token.filter(|_| core.has_ring()).map(|token| (core, token));
                match attempt(self.access(ring, direction)) {
                    Ok(moved) => {
                        if moved.short
                            && let Some(token) = token
                        {
                            core.exhaust(token, direction);
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
            if self.has_drained(core, direction) {
                return Poll::Ready(Ok(Done::Drained));
            }
            let deadline = time_limit.deadline(core.now());
            if deadline.is_some_and(|deadline| core.now() >= deadline) {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            match self.wait_on_loop(core, context, direction, deadline)? {
                Waited::Again => {}
                Waited::Pending => return Poll::Pending,
            }
        }
    }

    /// Registers the socket with this loop, for an operation.
    #[inline]
    fn enter_loop(&mut self, core: &Core, direction: Direction) -> io::Result<()> {
        let by_ring = core.has_ring() && !self.by_system_calls;
        self.join_loop(core, !by_ring)?;
        if by_ring {
            self.watch(core);
            self.is_the_rings |= direction == Direction::Read || !self.duplicated;
        }
        Ok(())
    }

    /// Waits for the socket or the `deadline`, or notes the wait. Called after an attempt that met
    /// "would block".
    ///
    /// Inlined, as [`Core::wait`] is.
    #[inline(always)]
    fn wait_on_loop(
        &mut self,
        core: &Core,
        context: &Context<'_>,
        direction: Direction,
        deadline: Option<Instant>,
    ) -> io::Result<Waited> {
        let token = self.watch(core);
        core.wake_when(self.as_fd(), token, direction)?;
        foreign::check(context, core.running_waker());
        let first = self.first_bytes_end(direction, core.first_bytes_until(), core.now());
        let deadline = earlier(deadline, first);
        if gathers() {
            self.note_on_loop((core, token), direction, deadline, context);
            return Ok(Waited::Pending);
        }
        Ok(core.wait(deadline))
    }

    /// Whether an operation ends because its loop drains, once no data are left for it.
    #[inline]
    fn drains(&self, core: &Core, direction: Direction) -> bool {
        self.ends_at_drain.is_some()
            && !self.outlives_drain
            && direction == Direction::Read
            && core.draining()
            && self.first_bytes_end(direction, core.first_bytes_until(), core.now()).is_none()
    }

    /// The time at which a read ends without first bytes, if a drain waits for them until `until`.
    #[inline]
    fn first_bytes_end(
        &self,
        direction: Direction,
        until: Option<Instant>,
        now: Instant,
    ) -> Option<Instant> {
        until.filter(|end| self.is_new && direction == Direction::Read && now < *end)
    }

    /// Whether no data are left for the operation then. A ring may still have to report bytes or
    /// connections.
    fn has_drained(&self, core: &Core, direction: Direction) -> bool {
        let is_stopping = |(_, token): (LoopId, Token)| {
            core.has_ring() && core.with_ring(|ring| ring.is_stopping(token))
        };
        self.drains(core, direction) && !self.watched.is_some_and(is_stopping)
    }

    /// See [`TcpStream::is_quiet`](super::TcpStream::is_quiet).
    pub(super) fn is_quiet(&self) -> bool {
        if let Some(channel) = &self.channel {
            if channel.has_input() {
                return false;
            }
            if let Some(is_quiet) = channel.is_quiet(self.as_fd()) {
                return is_quiet;
            }
        }
        current::with_loop(|core| {
            let own = self.watched.zip(core).filter(|((watcher, _), core)| core.id() == *watcher);
            let ring = own.map(|((_, token), core)| (core, token));
            self.access(ring.filter(|(core, _)| core.has_ring()), Direction::Read).is_quiet()
        })
    }

    fn access<'s>(&'s self, ring: Option<(&'s Core, Token)>, direction: Direction) -> Access<'s> {
        let drains = ring.is_some_and(|(core, _)| self.drains(core, direction));
        let (sends_at_once, by_system_calls) = (self.duplicated, self.by_system_calls);
        let channel = self.channel.as_deref();
        let descriptor = self.as_fd();
        let (may_begin, at_once, waits) = (false, false, false);
        Access {
            descriptor,
            ring,
            sends_at_once,
            by_system_calls,
            channel,
            drains,
            may_begin,
            at_once,
            waits,
        }
    }

    /// Registers the socket with this loop, from any world. System calls must not block. But a ring
    /// needs descriptors in blocking mode. The ring itself waits, and would otherwise report "would
    /// block".
    #[inline]
    fn join_loop(&mut self, core: &Core, nonblocking: bool) -> io::Result<()> {
        if self.nonblocking != nonblocking {
            visibility::count(|counters| counters.other_calls.add(1));
            ioctl_fionbio(self.as_fd(), nonblocking)?;
            self.nonblocking = nonblocking;
        }
        self.listed = None;
        self.leave_reactor();
        if let Some((watcher, _)) = self.watched
            && watcher != core.id()
        {
            self.leave_loop()?;
        }
        Ok(())
    }

    fn make_blocking(&mut self) -> io::Result<()> {
        self.leave_loop()?;
        self.leave_reactor();
        if self.nonblocking {
            visibility::count(|counters| counters.other_calls.add(1));
            ioctl_fionbio(self.as_fd(), false)?;
            self.nonblocking = false;
        }
        Ok(())
    }

    /// Ends the watch by another loop. The other loop keeps the old descriptor until it has ended
    /// the watch. This socket goes on with a duplicate. Bytes that a ring has received for the
    /// socket would be lost.
    fn leave_loop(&mut self) -> io::Result<()> {
        if self.is_the_rings {
            let problem = "what a ring receives or sends for stays on its loop";
            return Err(io::Error::new(io::ErrorKind::Unsupported, problem));
        }
        if let Some((watcher, token)) = self.watched.take() {
            let duplicate = rustix::io::fcntl_dupfd_cloexec(self.as_fd(), 0)?;
            let old = self.descriptor.replace(duplicate);
            let old = old.expect("a socket has its descriptor until it is dropped");
            if let Some(channel) = &self.channel {
                channel.moves(old.as_fd(), self.as_fd());
            }
            remote::close(watcher, token, old);
        }
        Ok(())
    }

    #[inline]
    fn watch(&mut self, core: &Core) -> Token {
        let client = self.ends_at_drain.is_some();
        self.watched.get_or_insert_with(|| (core.id(), core.watch(client))).1
    }
}

/// Whether new sockets of this kernel thread must be in non-blocking mode.
pub(crate) fn nonblocking_here() -> bool {
    // SAFETY: the references end with this call.
    match unsafe { Here::find() } {
        Here::Block => false,
        Here::Loop(core) => !core.has_ring(),
        Here::Reactor(..) => true,
    }
}

impl AsFd for Socket {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.descriptor {
            Some(descriptor) => descriptor.as_fd(),
            None => null::shared(),
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.close_channel();
        // The socket leaves the lists before its number can mean another file.
        self.listed = None;
        if self.is_noted {
            self.forget_noted();
        }
        if let (Some(source), Some(descriptor)) = (self.source.take(), &self.descriptor) {
            source.deregister(descriptor.as_fd(), self.duplicated);
        }
        let Some((watcher, token)) = self.watched else { return };
        let descriptor = self.descriptor.take();
        current::with_loop(|core| match (core.filter(|core| core.id() == watcher), descriptor) {
            (Some(core), Some(descriptor)) => core.close(descriptor, token, self.duplicated),
            (None, Some(descriptor)) => remote::close(watcher, token, descriptor),
            (Some(core), None) => core.unwatch(null::shared(), token),
            (None, None) => {}
        });
    }
}
