//! Waits for the completions of an io_uring.

use libc::POLLIN;

use crate::clock::NEVER;
use crate::descriptors::{self, Direction};
use crate::frame::Frame;
use crate::helpers::{Interrupted, offload};
use crate::lock::lock;
use crate::sys::{self, EINTR, failed, sys};
use crate::thread::Reason;

/// io_uring_enter(2): submits at once, and waits for completions like for a descriptor.
pub(crate) fn io_uring_enter(frame: &mut Frame) -> isize {
    const GETEVENTS: usize = 1;
    let [ring, submit, wanted, flags, argument, size] = frame.arguments();
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
    let result = match descriptors::get(ring) {
        // A set of signals, a timeout or several completions: the kernel knows how to wait for them.
        Some(descriptor) if argument == 0 && wanted as u32 == 1 => loop {
            let seen = descriptor.seen(Direction::Read);
            // Completions that the kernel holds back for this thread are posted now.
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
                Some(Reason::Interrupted) => break EINTR,
            }
        },
        _ => by_helper(),
    };
    if submitted > 0 { submitted } else { result }
}
