//! A descriptor that several tasks use at once, on any kernel threads. For crates that give
//! Duality's worlds another library's interface.
//!
//! ```text
//!   task on loop A ──▶ attempt ─ would block ─▶ registration with A's poller ─▶ woken by A
//!   task on loop B ──▶ attempt ─ would block ─▶ registration with B's poller ─▶ woken by B
//!   task in place  ──▶ attempt ─ would block ─▶ note for poll(2) of its thread
//!   staged task    ──▶ attempt ─ would block ─▶ registration with the reactor
//! ```
//!
//! Each operation is one non-blocking system call, also on a loop with a ring. The ring then only
//! reports readiness. The first loop watches the descriptor itself, and each further loop watches a
//! duplicate. So a task may go on with the descriptor on any kernel thread, and no wait is lost.
//!
//! The operations do not count in the task's budget. The crate with the other library's interface
//! has that library's way to count.
//!
//! A loop names one waiting task for each direction. Other waiting tasks, and tasks of combinators,
//! stand in a [`Crowd`], which the event wakes as a whole.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake, Waker, ready};

use duality_poller::{Direction, Token};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionbio;

use super::simulated::SimulatedSockets;
use super::socket::count_written;
use crate::blocks::{Reactor, Source};
use crate::event_loop::core::Core;
use crate::event_loop::current;
use crate::gather::{forget_descriptor, note_descriptor};
use crate::remote::{self, LoopId};
use crate::thread_waker::running_waker;
use crate::visibility;
use crate::world::Here;

/// A non-blocking descriptor for any number of tasks and kernel threads. Its methods are
/// poll-style, in every world.
pub struct SharedDescriptor {
    /// `None` only during the drop.
    descriptor: Option<OwnedFd>,
    /// The registration with a reactor.
    source: Mutex<Option<Arc<Source>>>,
    /// The loops that watch the descriptor. The first one watches the descriptor itself.
    watches: Mutex<Vec<Watch>>,
    /// The waiting tasks that no loop names, for each direction.
    crowds: OnceLock<[Arc<Crowd>; 2]>,
    /// Whether kernel threads have noted the descriptor for their poll(2).
    is_noted_in_place: AtomicBool,
}

/// A loop that watches the descriptor.
struct Watch {
    watcher: LoopId,
    token: Token,
    /// `None` for the descriptor itself.
    duplicate: Option<OwnedFd>,
}

impl fmt::Debug for SharedDescriptor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("SharedDescriptor").field(&self.descriptor).finish()
    }
}

impl SharedDescriptor {
    /// Makes `descriptor` non-blocking. Its file must be one that a poller can watch, such as a
    /// socket or a pipe.
    ///
    /// # Errors
    ///
    /// The errors of ioctl(2).
    pub fn new(descriptor: OwnedFd) -> io::Result<Self> {
        ioctl_fionbio(&descriptor, true)?;
        Ok(Self::of_nonblocking(descriptor))
    }

    /// A descriptor that is in non-blocking mode already.
    #[must_use]
    pub const fn of_nonblocking(descriptor: OwnedFd) -> Self {
        Self {
            descriptor: Some(descriptor),
            watches: Mutex::new(Vec::new()),
            source: Mutex::new(None),
            crowds: OnceLock::new(),
            is_noted_in_place: AtomicBool::new(false),
        }
    }

    /// Makes one attempt. If the attempt would block, has the waker of `context` used when the
    /// descriptor becomes ready in this direction.
    ///
    /// # Errors
    ///
    /// The errors of `attempt`, except `WouldBlock` and `Interrupted`. If no descriptor is left for
    /// a further loop.
    pub fn poll<T>(
        &self,
        context: &Context<'_>,
        direction: Direction,
        mut attempt: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        self.poll_attempt(context, direction, |_| false, &mut attempt)
    }

    /// Like [`poll`](Self::poll), for an attempt that moves up to `room` bytes and returns how
    /// many. After a short one, a loop waits for an event before the next attempt.
    ///
    /// # Errors
    ///
    /// The errors of [`poll`](Self::poll).
    #[inline]
    pub fn poll_moving(
        &self,
        context: &Context<'_>,
        direction: Direction,
        room: usize,
        mut attempt: impl FnMut(BorrowedFd<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let is_short = |count: &usize| *count != 0 && *count < room;
        let moved = ready!(self.poll_attempt(context, direction, is_short, &mut attempt))?;
        match direction {
            Direction::Read => visibility::count(|counters| counters.read_bytes.add(moved as u64)),
            Direction::Write => count_written(moved),
        }
        Poll::Ready(Ok(moved))
    }

    /// Waits until the descriptor is ready in this direction, or has an error.
    ///
    /// # Errors
    ///
    /// The errors of [`poll`](Self::poll) and of poll(2).
    pub fn poll_ready(&self, context: &Context<'_>, direction: Direction) -> Poll<io::Result<()>> {
        self.poll(context, direction, |descriptor| match ready_now(descriptor, direction)? {
            true => Ok(()),
            false => Err(io::ErrorKind::WouldBlock.into()),
        })
    }

    /// Whether the descriptor is ready in this direction now, or has an error.
    ///
    /// # Errors
    ///
    /// The errors of poll(2).
    pub fn is_ready(&self, direction: Direction) -> io::Result<bool> {
        ready_now(self.as_fd(), direction)
    }

    #[inline]
    fn poll_attempt<T>(
        &self,
        context: &Context<'_>,
        direction: Direction,
        is_short: impl Fn(&T) -> bool,
        attempt: &mut impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        // SAFETY: the references end with this call.
        match unsafe { Here::find() } {
            Here::Loop(core) => self.poll_on_loop(core, context, direction, is_short, attempt),
            Here::Block => self.poll_in_place(context, direction, attempt),
            Here::Reactor(_, reactor) => self.poll_suspended(reactor, context, direction, attempt),
        }
    }

    #[inline]
    fn poll_on_loop<T>(
        &self,
        core: &Core,
        context: &Context<'_>,
        direction: Direction,
        is_short: impl Fn(&T) -> bool,
        attempt: &mut impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        let token = self.token_on(core);
        // After the event that began a drain, no further event may come for the same bytes.
        if token.is_none_or(|token| !core.exhausted(token, direction)) || core.draining() {
            match attempted(|| attempt(self.as_fd())) {
                Poll::Ready(Ok(value)) => {
                    // A short move of a simulated socket says nothing of what is left.
                    if let Some(token) = token
                        && is_short(&value)
                        && core.machine().is_none()
                    {
                        core.exhaust(token, direction);
                    }
                    return Poll::Ready(Ok(value));
                }
                Poll::Ready(error) => return Poll::Ready(error),
                Poll::Pending => {}
            }
        }
        self.wait_on_loop(core, context, direction)?;
        Poll::Pending
    }

    #[inline]
    fn token_on(&self, core: &Core) -> Option<Token> {
        let watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        watches.iter().find(|watch| watch.watcher == core.id()).map(|watch| watch.token)
    }

    /// Notes a wait with this loop. The caller has made an attempt.
    fn wait_on_loop(
        &self,
        core: &Core,
        context: &Context<'_>,
        direction: Direction,
    ) -> io::Result<()> {
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        let index = match watches.iter().position(|watch| watch.watcher == core.id()) {
            Some(index) => index,
            None => {
                let duplicate = match watches.len() {
                    0 => None,
                    _ => Some(rustix::io::fcntl_dupfd_cloexec(self.as_fd(), 0)?),
                };
                let token = core.watch(false);
                watches.push(Watch { watcher: core.id(), token, duplicate });
                watches.len() - 1
            }
        };
        let Watch { token, duplicate, .. } = &watches[index];
        let descriptor = duplicate.as_ref().map_or_else(|| self.as_fd(), AsFd::as_fd);
        let named = core.waiter(*token, direction);
        core.wake_when(descriptor, *token, direction)?;
        let token = *token;
        drop(watches);
        let is_own = context.waker().data().addr() == core.running_waker();
        let displaced = named.filter(|waker| waker.data().addr() != core.running_waker());
        if is_own && displaced.is_none() {
            return Ok(());
        }
        let crowd = self.crowd(direction);
        crowd.join(displaced.as_ref());
        crowd.join((!is_own).then(|| context.waker()));
        core.gathered.note_foreign(token, direction, &Waker::from(crowd.clone()));
        Ok(())
    }

    fn poll_in_place<T>(
        &self,
        context: &Context<'_>,
        direction: Direction,
        attempt: &mut impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        let outcome = attempted(|| attempt(self.as_fd()));
        if outcome.is_pending() {
            self.is_noted_in_place.store(true, Ordering::Relaxed);
            let number = self.as_fd().as_raw_fd();
            let is_own = context.waker().data().addr() == running_waker();
            if is_own
                && self.crowds.get().is_none_or(|crowds| crowds[direction as usize].is_empty())
            {
                note_descriptor(number, direction, context);
            } else {
                let crowd = self.crowd(direction);
                crowd.join(Some(context.waker()));
                let waker = Waker::from(crowd.clone());
                note_descriptor(number, direction, &Context::from_waker(&waker));
            }
        }
        outcome
    }

    fn poll_suspended<T>(
        &self,
        reactor: &Reactor,
        context: &Context<'_>,
        direction: Direction,
        attempt: &mut impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            let outcome = attempted(|| attempt(self.as_fd()));
            if outcome.is_ready() {
                return outcome;
            }
            let source = self.source(reactor)?;
            let crowd = self.crowd(direction);
            crowd.join(Some(context.waker()));
            let waker = Waker::from(crowd.clone());
            if source.poll_ready(&Context::from_waker(&waker), direction).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// The registration with this reactor.
    fn source(&self, reactor: &Reactor) -> io::Result<Arc<Source>> {
        let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(source) = source.as_ref().filter(|source| source.reactor().is(reactor)) {
            return Ok(source.clone());
        }
        let registered = reactor.register(self.as_fd())?;
        if let Some(other) = source.replace(registered.clone()) {
            other.deregister(self.as_fd(), true);
        }
        Ok(registered)
    }

    fn crowd(&self, direction: Direction) -> &Arc<Crowd> {
        &self.crowds.get_or_init(Default::default)[direction as usize]
    }
}

/// One attempt, repeated while signals interrupt it. Pending if it would block.
#[inline]
fn attempted<T>(mut attempt: impl FnMut() -> io::Result<T>) -> Poll<io::Result<T>> {
    loop {
        visibility::count(|counters| counters.attempts.add(1));
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                visibility::count(|counters| counters.would_blocks.add(1));
                return Poll::Pending;
            }
            other => return Poll::Ready(other),
        }
    }
}

fn ready_now(descriptor: BorrowedFd<'_>, direction: Direction) -> io::Result<bool> {
    if let Some(sockets) = SimulatedSockets::here()
        && let Some(is_ready) = sockets.is_ready(descriptor, direction)
    {
        return Ok(is_ready);
    }
    let flags = match direction {
        Direction::Read => PollFlags::IN,
        Direction::Write => PollFlags::OUT,
    };
    let mut polled = [PollFd::from_borrowed_fd(descriptor, flags)];
    Ok(poll(&mut polled, Some(&Timespec::default()))? > 0)
}

impl AsFd for SharedDescriptor {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_ref().expect("the descriptor stays until the drop").as_fd()
    }
}

impl Drop for SharedDescriptor {
    fn drop(&mut self) {
        if let Some(sockets) = SimulatedSockets::here() {
            sockets.closes(self.as_fd());
        }
        if self.is_noted_in_place.load(Ordering::Relaxed) {
            // The notes of other kernel threads end with their next poll(2).
            forget_descriptor(self.as_fd().as_raw_fd());
        }
        let source = self.source.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(source) = source {
            source.deregister(self.as_fd(), true);
        }
        let watches = self.watches.get_mut().unwrap_or_else(PoisonError::into_inner);
        let is_shared = watches.len() > 1;
        for Watch { watcher, token, duplicate } in watches.drain(..) {
            let Some(descriptor) = duplicate.or_else(|| self.descriptor.take()) else { continue };
            current::with_loop(|core| match core.filter(|core| core.id() == watcher) {
                Some(core) => core.close(descriptor, token, is_shared),
                None => remote::close(watcher, token, descriptor),
            });
        }
    }
}

/// Tasks that wait for one direction of a descriptor. An event wakes all of them.
#[derive(Default)]
struct Crowd(Mutex<Vec<Waker>>);

impl Crowd {
    fn join(&self, waker: Option<&Waker>) {
        let Some(waker) = waker else { return };
        let mut wakers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !wakers.iter().any(|other| other.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }

    fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

impl Wake for Crowd {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let wakers = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        wakers.into_iter().for_each(Waker::wake);
    }
}
