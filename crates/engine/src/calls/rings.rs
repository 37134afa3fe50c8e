//! Rings of io_uring(7): a program waits for completions like for a descriptor.
//!
//! A ring has flags that save time. With `IORING_SETUP_COOP_TASKRUN` or
//! `IORING_SETUP_DEFER_TASKRUN`, completions come only when the submitting thread enters the kernel
//! for them. With `IORING_SETUP_SINGLE_ISSUER`, the ring serves one kernel thread alone. Here the
//! submitting thread sleeps in epoll and would never hear of a completion. Threads also share
//! workers. So the engine removes these flags.

use libc::POLLIN;

use crate::descriptors::facts;
use crate::descriptors::registry::{self, Direction};
use crate::descriptors::ring;
use crate::kernel::clock::NEVER;
use crate::kernel::frame::Frame;
use crate::kernel::lock::lock;
use crate::kernel::sys::{self, EFAULT, EINTR, EINVAL, failed, sys};
use crate::kernel::user;
use crate::schedule::waiter::Reason;
use crate::workers::helpers::{Interrupted, offload};

const IOPOLL: u32 = 1 << 0;
const COOP_TASKRUN: u32 = 1 << 8;
const TASKRUN_FLAG: u32 = 1 << 9;
const SINGLE_ISSUER: u32 = 1 << 12;
const DEFER_TASKRUN: u32 = 1 << 13;
const HINTS: u32 = COOP_TASKRUN | TASKRUN_FLAG | SINGLE_ISSUER | DEFER_TASKRUN;

/// io_uring_setup(2)
pub(crate) fn io_uring_setup(frame: &mut Frame) -> isize {
    /// The offset of the flags in `struct io_uring_params`.
    const FLAGS: usize = 8;
    let flags_at = frame.argument(1).wrapping_add(FLAGS);
    let Ok(flags) = user::read::<u32>(flags_at) else { return EFAULT };
    if flags & DEFER_TASKRUN != 0 && flags & SINGLE_ISSUER == 0 {
        // The kernel makes this check only if the flags are set. So the engine makes the check
        // here.
        return EINVAL;
    }
    if user::write(flags_at, &(flags & !HINTS)).is_err() {
        return EFAULT;
    }
    let ring = frame.pass();
    let _readable = user::write(flags_at, &flags);
    if !failed(ring) {
        registry::renewed(ring);
        if flags & IOPOLL != 0
            && let Some(descriptor) = registry::get(ring as usize)
        {
            // The engine has to look for completions, because epoll does not report them.
            descriptor.set(facts::REFUSED);
        }
    }
    ring
}

/// io_uring_register(2). The short names of rings belong to a kernel thread. So the engine offers
/// none, like kernels before Linux 5.18.
pub(crate) fn io_uring_register(frame: &mut Frame) -> isize {
    const REGISTER_RING_FDS: u32 = 20;
    const SYNC_CANCEL: u32 = 24;
    match frame.argument(1) as u32 {
        REGISTER_RING_FDS => EINVAL,
        SYNC_CANCEL => offload(frame.number(), frame.arguments(), Interrupted::Fails),
        _ => frame.pass(),
    }
}

/// io_uring_enter(2): submits at once, and waits for completions like for a descriptor.
pub(crate) fn io_uring_enter(frame: &mut Frame) -> isize {
    const GETEVENTS: usize = 1;
    let [ring, submit, wanted, flags, argument, size] = frame.arguments();
    if ring::is_active() {
        // The program's ring may close a descriptor that a submission of ours names.
        ring::flush(&mut lock());
    }
    if flags & GETEVENTS == 0 || wanted == 0 {
        return frame.pass();
    }
    let submitted = if submit > 0 {
        sys!(SYS_io_uring_enter, ring, submit, 0, flags & !GETEVENTS, 0, 8)
    } else {
        0
    };
    if failed(submitted) {
        return submitted;
    }
    let by_helper = || {
        let flags = flags as i32 as usize;
        offload(
            libc::SYS_io_uring_enter,
            [ring, 0, wanted, flags, argument, size],
            Interrupted::Fails,
        )
    };
    let result = match registry::get(ring) {
        // The kernel waits if the call names a set of signals, a timeout or several completions.
        Some(descriptor) if argument == 0 && wanted as u32 == 1 => loop {
            let seen = descriptor.seen(Direction::Read);
            // The kernel now posts the completions that it holds back for this thread.
            let posted = sys!(SYS_io_uring_enter, ring, 0, 0, flags, 0, 8);
            if failed(posted) {
                break posted;
            }
            if sys::is_ready(ring, POLLIN) {
                break 0;
            }
            descriptor.kind(ring);
            let reason = descriptor.wait(&mut lock(), ring, Direction::Read, NEVER, seen);
            match reason {
                None => break by_helper(),
                Some(Reason::Woken | Reason::TimedOut) => {}
                Some(Reason::Interrupted | Reason::Suspended) => break EINTR,
            }
        },
        _ => by_helper(),
    };
    if submitted > 0 { submitted } else { result }
}
