//! A socket in whichever world uses it: attempt, register, wait (see [`world`](crate::world)).
//!
//! An attempt goes through [`Access`], which makes the system call. On a loop with a ring it takes
//! from the ring's queues and adds to them. The shape is the same.

mod blocking;
mod rest;
mod suspended;
mod time_limit;

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll};

use duality_poller::{Direction, Ring, Token};
use rustix::io::ioctl_fionbio;
use rustix::net::{RecvFlags, SendFlags, Shutdown, SocketFlags, accept_with, recv, send, shutdown};

pub(crate) use self::rest::Rest;
pub(crate) use self::time_limit::TimeLimit;
use super::injection::{Injected, Injections};
use crate::blocks::Source;
use crate::drain::{self, DrainTarget, Listed};
use crate::event_loop::core::Core;
use crate::event_loop::current;
use crate::remote::{self, LoopId};
use crate::visibility;
use crate::wait::Waited;
use crate::world::{Here, foreign};

/// A socket, and the state that its last world keeps for it.
pub(crate) struct Socket {
    /// `None` only while it is dropped.
    descriptor: Option<OwnedFd>,
    nonblocking: bool,
    /// Whether another socket has a duplicate of the descriptor.
    duplicated: bool,
    /// Whether the kernel ends a read after [`SILENCE`](crate::places::SILENCE), which is less than
    /// its time limit.
    is_sliced: bool,
    /// Where it is watched: the loop, and its token there.
    watched: Option<(LoopId, Token)>,
    /// Where it is registered with a reactor.
    source: Option<Arc<Source>>,
    /// Whether a ring receives or sends for it.
    is_the_rings: bool,
    /// Whether a loop with a ring makes system calls for it, as the other loops do: the ring only
    /// says when it is ready.
    pub(super) by_system_calls: bool,
    /// What is at the other end, if that is no network.
    pub(super) injected: Option<Box<Injected>>,
    /// What it is, if its input ends when the process drains.
    pub(super) ends_at_drain: Option<DrainTarget>,
    listed: Option<Listed>,
}

/// What an attempt moved.
pub(crate) struct Moved<T> {
    pub(crate) value: T,
    /// The attempt moved less than it could have, so another attempt would block.
    pub(crate) short: bool,
}

/// A socket in the hands of an attempt.
pub(crate) struct Access<'s> {
    descriptor: BorrowedFd<'s>,
    ring: Option<(&'s Core, Token)>,
    /// Another handle, maybe of another loop, may send on the same connection next, and what a ring
    /// sends later would come after that.
    sends_at_once: bool,
    /// Whether a listener leaves connections in the kernel's accept queue, also on a loop with a
    /// ring.
    on_demand: bool,
    injected: Option<&'s Injected>,
    /// Whether the process drains, so that nothing more is to be received than has come.
    drains: bool,
}

impl Access<'_> {
    /// Receives bytes.
    #[inline]
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Moved<usize>> {
        if let Some(client) = self.injected {
            return Ok(Moved::all(client.receive(buffer)));
        }
        let Some((core, token)) = self.ring else {
            let room = buffer.len();
            let (count, _) = recv(self.descriptor, buffer, RecvFlags::empty())?;
            count_read(count);
            // The end of input is no shortage: it is there again at the next attempt.
            return Ok(Moved { value: count, short: count != 0 && count < room });
        };
        let count = core.with_ring(|ring| {
            if self.drains {
                return ring.receive_rest(self.descriptor, token, buffer);
            }
            // SAFETY: a `Socket` closes its descriptor by way of the loop that watches it, which
            // tells the ring.
            unsafe { ring.receive(self.descriptor, token, buffer) }
        })?;
        count_read(count);
        Ok(Moved::all(count))
    }

    /// Sends some of `bytes`.
    #[inline]
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<Moved<usize>> {
        match self.ring {
            _ if self.injected.is_some() => self.send_to_injected(bytes.len()),
            Some(ring) if !self.sends_at_once => self.send_by_ring(ring, &[IoSlice::new(bytes)]),
            _ => self.send_by_call(bytes, SendFlags::empty()),
        }
    }

    /// Sends some of `bytes`, and the end of our side if that is all of them. `MSG_MORE` keeps the
    /// bytes for the shutdown(2), so that both leave in one packet. A close(2) alone would send
    /// them together too, but throws away what is kept where the peer has sent something that was
    /// not read.
    ///
    /// A ring has another kernel thread do a shutdown, so both are system calls under every poller.
    #[inline]
    pub(crate) fn send_last(&self, bytes: &[u8]) -> io::Result<Moved<usize>> {
        if self.injected.is_some() {
            return self.send_to_injected(bytes.len());
        }
        let moved = self.send_by_call(bytes, SendFlags::MORE)?;
        if !moved.short {
            visibility::count(|counters| counters.other_calls.add(1));
            shutdown(self.descriptor, Shutdown::Write)?;
        }
        Ok(moved)
    }

    /// Sends some of `bytes` by a system call, after all that was sent before.
    #[inline]
    fn send_by_call(&self, bytes: &[u8], flags: SendFlags) -> io::Result<Moved<usize>> {
        let mut flags = flags | SendFlags::NOSIGNAL;
        if let Some((core, token)) = self.ring {
            core.with_ring(|ring| ring.all_sent(token))?;
            // What a ring operates on is in blocking mode.
            flags |= SendFlags::DONTWAIT;
        }
        let count = send(self.descriptor, bytes, flags)?;
        count_written(count);
        Ok(Moved { value: count, short: count < bytes.len() })
    }

    /// Sends some of the bytes of `buffers`.
    #[inline]
    pub(crate) fn send_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<Moved<usize>> {
        let offered = || buffers.iter().map(|buffer| buffer.len()).sum();
        if self.injected.is_some() {
            return self.send_to_injected(offered());
        }
        let Some(ring) = self.ring else {
            let offered: usize = offered();
            let count = rustix::io::writev(self.descriptor, buffers)?;
            count_written(count);
            return Ok(Moved { value: count, short: count < offered });
        };
        if self.sends_at_once {
            // writev(2) has no flag that forbids waiting, so one buffer is sent alone.
            let some = buffers.iter().find(|buffer| !buffer.is_empty());
            return some.map_or(Ok(Moved::all(0)), |some| self.send(some));
        }
        self.send_by_ring(ring, buffers)
    }

    #[cold]
    fn send_to_injected(&self, count: usize) -> io::Result<Moved<usize>> {
        Ok(Moved::all(self.injected.map_or(0, |client| client.take(count))))
    }

    fn send_by_ring(
        &self,
        (core, token): (&Core, Token),
        buffers: &[IoSlice<'_>],
    ) -> io::Result<Moved<usize>> {
        let send = |ring: &mut Ring| {
            // SAFETY: a `Socket` closes its descriptor by way of the loop that watches it, which
            // tells the ring.
            unsafe { ring.send(self.descriptor, token, buffers) }
        };
        let count = core.with_ring(send)?;
        count_written(count);
        Ok(Moved::all(count))
    }

    /// Accepts an injected connection; `None` when there will be none.
    pub(super) fn accept_injected(&self, from: &Injections) -> io::Result<Moved<Option<OwnedFd>>> {
        Ok(Moved::all(from.accept(self.descriptor)?))
    }

    /// Accepts a connection; where the process drains, one of the `rest`.
    pub(crate) fn accept(&self, flags: SocketFlags, rest: &mut Rest) -> io::Result<Moved<OwnedFd>> {
        let by_ring = match self.ring {
            None => None,
            Some((core, token)) if self.on_demand => {
                core.with_ring(|ring| ring.accepted_before(token))
            }
            Some((core, token)) => {
                // SAFETY: a `Socket` closes its descriptor by way of the loop that watches it,
                // which tells the ring.
                Some(core.with_ring(|ring| unsafe { ring.accept(self.descriptor, token) })?)
            }
        };
        let accept = || rest.take(self.descriptor, |listener| Ok(accept_with(listener, flags)?));
        Ok(Moved::all(by_ring.map_or_else(accept, Ok)?))
    }

    /// Does what only a system call does, after all that was sent before, without blocking on a
    /// loop.
    pub(crate) fn call<T>(
        &self,
        mut call: impl FnMut(BorrowedFd<'_>) -> rustix::io::Result<T>,
    ) -> io::Result<Moved<T>> {
        let Some((core, token)) = self.ring else { return Ok(Moved::all(call(self.descriptor)?)) };
        core.with_ring(|ring| ring.all_sent(token))?;
        // What a ring operates on is in blocking mode.
        ioctl_fionbio(self.descriptor, true)?;
        let outcome = call(self.descriptor);
        ioctl_fionbio(self.descriptor, false)?;
        Ok(Moved::all(outcome?))
    }
}

impl<T> Moved<T> {
    /// Another attempt finds out whether it would block.
    const fn all(value: T) -> Self {
        Self { value, short: false }
    }
}

/// How an operation ended.
pub(crate) enum Done<T> {
    Moved(T),
    /// No bytes have come, and the input ends: the process drains, or others wait for the
    /// [place](crate::places) of this connection.
    Drained,
}

impl Socket {
    pub(crate) fn new(descriptor: OwnedFd, nonblocking: bool) -> Self {
        Self {
            descriptor: Some(descriptor),
            nonblocking,
            duplicated: false,
            is_sliced: false,
            watched: None,
            source: None,
            is_the_rings: false,
            by_system_calls: false,
            injected: None,
            ends_at_drain: None,
            listed: None,
        }
    }

    /// Marks a listener, or an accepted connection: its input ends when the process drains.
    pub(crate) fn ending_at_drain(mut self, input: DrainTarget) -> Self {
        self.ends_at_drain = Some(input);
        self
    }

    /// Has a listener's connections accepted one by one, by system calls, on a loop with a ring
    /// too.
    ///
    /// Returns whether a ring has accepted for it until now.
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

    /// Lets the other kernel threads go that wait for a connection of this listener. Its accept
    /// queue is empty.
    pub(super) fn end_listener(&self) {
        if let Some(input) = self.ends_at_drain {
            drain::end_listener(self.as_fd(), input);
        }
    }

    /// The same socket under a descriptor of its own, watched by no loop yet.
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
        context: &Context<'_>,
        direction: Direction,
        time_limit: &mut TimeLimit,
        mut attempt: impl FnMut(Access<'_>) -> io::Result<Moved<T>>,
    ) -> Poll<io::Result<Done<T>>> {
        // SAFETY: the references end with this call.
        let core = match unsafe { Here::find() } {
            Here::Loop(core) => core,
            Here::Block => return self.poll_blocking(direction, time_limit, attempt),
            Here::Reactor(task, reactor) => {
                let running = (task, reactor);
                return self.poll_suspended(running, context, direction, time_limit, attempt);
            }
        };
        let by_ring = core.has_ring() && !self.by_system_calls;
        self.join_loop(core, !by_ring)?;
        if by_ring {
            self.watch(core);
            self.is_the_rings |= direction == Direction::Read || !self.duplicated;
        }
        loop {
            let token = self.watched.map(|(_, token)| token);
            let tried = token.is_some_and(|token| core.exhausted(token, direction));
            // At a drain, what has come is read also if its event has not.
            if !tried || self.drains(core, direction) {
                if !core.spend() {
                    match core.wait(None) {
                        Waited::Again => continue,
                        Waited::Pending => return Poll::Pending,
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
            let token = self.watch(core);
            core.wake_when(self.as_fd(), token, direction)?;
            foreign::check(context, core.running_waker());
            match core.wait(deadline) {
                Waited::Again => {}
                Waited::Pending => return Poll::Pending,
            }
        }
    }

    /// Whether an operation ends because its loop drains, once there is nothing left for it.
    #[inline]
    fn drains(&self, core: &Core, direction: Direction) -> bool {
        self.ends_at_drain.is_some() && direction == Direction::Read && core.draining()
    }

    /// Whether nothing is left for the operation then. A ring may have yet to tell what it has
    /// received or accepted.
    fn has_drained(&self, core: &Core, direction: Direction) -> bool {
        let is_stopping = |(_, token): (LoopId, Token)| {
            core.has_ring() && core.with_ring(|ring| ring.is_stopping(token))
        };
        self.drains(core, direction) && !self.watched.is_some_and(is_stopping)
    }

    fn access<'s>(&'s self, ring: Option<(&'s Core, Token)>, direction: Direction) -> Access<'s> {
        let drains = ring.is_some_and(|(core, _)| self.drains(core, direction));
        let (sends_at_once, on_demand) = (self.duplicated, self.by_system_calls);
        let injected = self.injected.as_deref();
        Access { descriptor: self.as_fd(), ring, sends_at_once, on_demand, injected, drains }
    }

    /// Makes the socket one of this loop's, whatever world it comes from. System calls must not
    /// block. But a ring needs descriptors in blocking mode: it waits by itself, and would
    /// otherwise report "would block".
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

    /// Ends the watch by another loop: it keeps the old descriptor until it has forgotten it, and
    /// this socket goes on under a duplicate. What a ring has received for it would be lost.
    fn leave_loop(&mut self) -> io::Result<()> {
        if self.is_the_rings {
            let problem = "what a ring receives or sends for stays on its loop";
            return Err(io::Error::new(io::ErrorKind::Unsupported, problem));
        }
        if let Some((watcher, token)) = self.watched.take() {
            let duplicate = rustix::io::fcntl_dupfd_cloexec(self.as_fd(), 0)?;
            let old = self.descriptor.replace(duplicate);
            let old = old.expect("a socket has its descriptor until it is dropped");
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

fn count_read(count: usize) {
    visibility::count(|counters| counters.read_bytes.add(count as u64));
}

pub(super) fn count_written(count: usize) {
    visibility::count(|counters| counters.written_bytes.add(count as u64));
}

/// Whether new sockets of this kernel thread are to be in non-blocking mode.
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
        self.descriptor.as_ref().expect("a socket has its descriptor until it is dropped").as_fd()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Off the list before the number can mean something else.
        self.listed = None;
        if let (Some(source), Some(descriptor)) = (self.source.take(), &self.descriptor) {
            source.deregister(descriptor.as_fd(), self.duplicated);
        }
        let Some((watcher, token)) = self.watched else { return };
        let Some(descriptor) = self.descriptor.take() else { return };
        current::with_loop(|core| match core.filter(|core| core.id() == watcher) {
            Some(core) => core.close(descriptor, token, self.duplicated),
            None => remote::close(watcher, token, descriptor),
        });
    }
}
