//! The block world: a wait puts the kernel thread to sleep.
//!
//! Processes, kernel threads and pools of either live here. An operation on a socket is the plain
//! blocking system call; its time-out is the socket's own (`SO_RCVTIMEO`, `SO_SNDTIMEO`), so that it
//! costs no call of its own. Only under an ambient deadline is the socket polled first.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::os::fd::BorrowedFd;
use std::pin::pin;
use std::task::{Context, Poll};
use std::thread;
use std::time::Instant;

use duality_poller::Direction;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::event_loop::current;
use crate::visibility::{self, thread_slots};
use crate::wait::{
    Waited, ambient_deadline, earlier, set_ambient_deadline, with_waker_of_this_thread,
};

thread_local! {
    /// Where the data of the waker is that the future of the innermost [`block_on`] is polled with;
    /// 0 without one.
    static WAKER: Cell<usize> = const { Cell::new(0) };
}

/// The address of the data of the running task's waker; 0 where no task runs.
pub(super) fn waker_here() -> usize {
    WAKER.get()
}

/// Runs `future` to its end on this kernel thread; whatever it waits for, the kernel thread waits for.
///
/// ```
/// # use duality_runtime as duality;
/// let answer = duality::block_on(async { 6 * 7 });
/// assert_eq!(answer, 42);
/// ```
pub fn block_on<F: Future>(future: F) -> F::Output {
    current::enter(None, || {
        let _seen = thread_slots::run_task();
        let outer = set_ambient_deadline(None);
        let mut future = pin!(future);
        let output = with_waker_of_this_thread(|waker| {
            let _outer = Outer(WAKER.replace(waker.data().addr()));
            let mut context = Context::from_waker(waker);
            loop {
                match future.as_mut().poll(&mut context) {
                    Poll::Ready(output) => break output,
                    // None of our operations does this outside `timeout`; a foreign future may.
                    Poll::Pending => thread::park(),
                }
            }
        });
        set_ambient_deadline(outer);
        output
    })
}

/// Restores the address of the waker before, even after a panic.
struct Outer(usize);

impl Drop for Outer {
    fn drop(&mut self) {
        WAKER.set(self.0);
    }
}

/// Sleeps until this kernel thread's waker is used or `deadline` passes. May return early.
pub(crate) fn wait(deadline: Option<Instant>) -> Waited {
    let ambient = ambient_deadline();
    match earlier(deadline, ambient) {
        None => thread::park(),
        Some(end) => thread::park_timeout(end.saturating_duration_since(Instant::now())),
    }
    if passed(ambient) { Waited::Pending } else { Waited::Again }
}

/// Waits for a descriptor under the ambient deadline, if there is one; `Pending` when it has passed, and
/// an error of `TimedOut` when the operation's own deadline, which `own` tells, has passed before it.
pub(crate) fn wait_for_descriptor(
    descriptor: BorrowedFd<'_>,
    direction: Direction,
    own: impl FnOnce(Instant) -> Option<Instant>,
) -> io::Result<Waited> {
    let Some(ambient) = ambient_deadline() else { return Ok(Waited::Again) };
    let own = own(Instant::now());
    let deadline = own.map_or(ambient, |own| own.min(ambient));
    let flags = match direction {
        Direction::Read => PollFlags::IN,
        Direction::Write => PollFlags::OUT,
    };
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(left) = Timespec::try_from(left) else { return Ok(Waited::Again) };
        visibility::count(|counters| counters.other_calls.add(1));
        match poll(&mut [PollFd::from_borrowed_fd(descriptor, flags)], Some(&left)) {
            Ok(0) if passed(Some(ambient)) => return Ok(Waited::Pending),
            Ok(0) if passed(own) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            // Ready, or an error that the attempt will meet again and report.
            _ => return Ok(Waited::Again),
        }
    }
}

/// Repeats `attempt` while signals interrupt it, and names a socket's own time-out as what it is.
pub(crate) fn retry<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            other => return other,
        }
    }
}

fn passed(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}
