//! The block world: a wait puts the kernel thread to sleep.
//!
//! Processes, kernel threads and pools of either live here. An operation on a socket is the plain
//! blocking system call. The call's time-out is the socket's own (`SO_RCVTIMEO`, `SO_SNDTIMEO`), so
//! that it costs no further call. Only under an ambient deadline is the socket polled first. The
//! system call then does not wait.

use std::future::Future;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use duality_poller::Direction;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::event_loop::current;
use crate::gather;
use crate::places::Place;
use crate::thread_waker::{sleep_parked, with_waker_of_running};
use crate::threads;
use crate::visibility::{self, thread_slots};
use crate::wait::{Ambient, Waited, ambient, ambient_deadline, earlier, set_ambient};

/// Runs `future` to its end on this kernel thread, which waits in place for each of the future's
/// waits.
///
/// ```
/// # use duality_runtime as duality;
/// let answer = duality::block_on(async { 6 * 7 });
/// assert_eq!(answer, 42);
/// ```
pub fn block_on<F: Future>(future: F) -> F::Output {
    current::enter(None, || {
        let _seen = thread_slots::run_task();
        let outer = set_ambient(Ambient::Never);
        let mut future = pin!(future);
        let output = with_waker_of_running(|waker| {
            let mut context = Context::from_waker(waker);
            loop {
                match future.as_mut().poll(&mut context) {
                    Poll::Ready(output) => break output,
                    // Our own operations return `Pending` only within `timeout` and where waits are
                    // gathered. A foreign future may always return it.
                    Poll::Pending => drop(gather::wait_in_place(Ambient::Never)),
                }
            }
        });
        set_ambient(outer);
        output
    })
}

/// Sleeps until this kernel thread's waker is used or `deadline` passes. May return early.
pub(crate) fn wait(deadline: Option<Instant>) -> Waited {
    let ambient = match ambient() {
        Ambient::Never => None,
        Ambient::Before(ambient) => Some(ambient),
        Ambient::Gather => return Waited::Pending,
    };
    let end = earlier(deadline, ambient);
    sleep_parked(end.map(|end| end.saturating_duration_since(threads::now())));
    if passed(ambient) { Waited::Pending } else { Waited::Again }
}

/// The wait of an operation for its descriptor.
pub(crate) struct Waiting<'p> {
    pub(crate) direction: Direction,
    /// The place that other clients may want.
    pub(crate) place: Option<&'p Place<'p>>,
    /// Whether the operation must not be attempted before data or room are there.
    pub(crate) looks_first: bool,
}

/// The result of the wait for a descriptor.
pub(crate) enum Ready {
    /// Make the attempt: the descriptor is ready, or the attempt itself is the wait.
    Yes,
    /// The ambient deadline has passed.
    Cancelled,
    /// Other clients want the place.
    Displaced,
}

/// Waits for a descriptor where the operation itself cannot: under an ambient deadline, or if it
/// must check first. An error of `TimedOut` says that the operation's own deadline, the result of
/// `own`, has passed.
pub(crate) fn wait_for_descriptor(
    descriptor: BorrowedFd<'_>,
    waiting: &Waiting<'_>,
    own: impl FnOnce(Instant) -> Option<Instant>,
) -> io::Result<Ready> {
    let ambient = ambient_deadline();
    if ambient.is_none() && !waiting.looks_first {
        return Ok(Ready::Yes);
    }
    let own = own(threads::now());
    let deadline = earlier(own, ambient);
    let mut until_look = waiting.place.map(|_| Duration::ZERO);
    loop {
        let until_end = deadline.map(|end| end.saturating_duration_since(threads::now()));
        let left = earlier(until_end, until_look);
        visibility::count(|counters| counters.other_calls.add(1));
        match poll_one(descriptor, waiting.direction, left) {
            Ok(0) if passed(ambient) => return Ok(Ready::Cancelled),
            Ok(0) if passed(own) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(0) => {
                if let Some(place) = waiting.place {
                    until_look = place.look(descriptor);
                    if until_look.is_none() {
                        return Ok(Ready::Displaced);
                    }
                }
            }
            Err(rustix::io::Errno::INTR) => {}
            // The descriptor is ready, or has an error that the attempt will meet again and report.
            _ => return Ok(Ready::Yes),
        }
    }
}

/// poll(2) for one descriptor: how many are ready.
fn poll_one(
    descriptor: BorrowedFd<'_>,
    direction: Direction,
    limit: Option<Duration>,
) -> rustix::io::Result<usize> {
    if let Some(threads) = threads::here() {
        let deadline = limit.and_then(|limit| threads.now().checked_add(limit));
        let mut polled = [(descriptor.as_raw_fd(), direction, false)];
        threads::poll(&*threads, &mut polled, deadline);
        return Ok(usize::from(polled[0].2));
    }
    let flags = match direction {
        Direction::Read => PollFlags::IN,
        Direction::Write => PollFlags::OUT,
    };
    // Without an end, as the kernel counts time: the attempt itself waits.
    let Ok(left) = limit.map(Timespec::try_from).transpose() else { return Ok(1) };
    poll(&mut [PollFd::from_borrowed_fd(descriptor, flags)], left.as_ref())
}

/// Repeats `attempt` while signals interrupt it.
pub(crate) fn retry<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

fn passed(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| threads::now() >= deadline)
}
