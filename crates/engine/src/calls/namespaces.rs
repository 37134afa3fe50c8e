//! Namespaces and keys, which the kernel keeps for each kernel thread: unshare(2), setns(2),
//! keyctl(2).

use crate::kernel::frame::Frame;
use crate::kernel::lock::lock;
use crate::kernel::sys::{EINVAL, failed, sys};
use crate::schedule::thread;
use crate::workers::helpers::{self, Interrupted, offload};
use crate::workers::more_workers;

/// A kernel thread that no signal finds any more still shares the handlers, until it has run for
/// another moment. On a busy machine that may take some time slices. A call that is wrong in itself
/// costs so many yields, and the pauses too if threads have ended for it.
const YIELDS: u32 = 100;
const PAUSES: u32 = 500;
const PAUSE: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 200_000 };

/// unshare(2) and setns(2). The kernel refuses some of these calls if the process has several
/// threads. Helpers that exist keep the old namespaces, so they take no more calls.
pub(crate) fn change(frame: &mut Frame) -> isize {
    /// The kernel takes these for a process with one thread alone.
    const OF_ONE_THREAD: i32 =
        libc::CLONE_THREAD | libc::CLONE_SIGHAND | libc::CLONE_VM | libc::CLONE_NEWUSER;
    let mut locked = lock();
    let is_alone = thread::is_alone(&mut locked);
    let mut others_ended = false;
    if is_alone {
        others_ended = helpers::end(&mut locked);
        others_ended |= more_workers::end_others(&mut locked);
    } else if frame.number() == libc::SYS_unshare && frame.rdi as i32 & OF_ONE_THREAD != 0 {
        return EINVAL;
    }
    drop(locked);
    let mut result = frame.pass();
    let mut tries = 0;
    while result == EINVAL && is_alone && tries < YIELDS + if others_ended { PAUSES } else { 0 } {
        match tries < YIELDS {
            true => sys!(SYS_sched_yield),
            false => sys!(SYS_nanosleep, &PAUSE, 0),
        };
        tries += 1;
        result = frame.pass();
    }
    if !failed(result) {
        helpers::retire();
    }
    result
}

/// keyctl(2): the worker makes the operations that change the caller's own keys.
pub(crate) fn keyctl(frame: &mut Frame) -> isize {
    const JOIN_SESSION_KEYRING: i32 = 1;
    const SET_REQKEY_KEYRING: i32 = 14;
    const ASSUME_AUTHORITY: i32 = 16;
    match frame.rdi as i32 {
        JOIN_SESSION_KEYRING | SET_REQKEY_KEYRING | ASSUME_AUTHORITY => change(frame),
        _ => offload(frame.number(), frame.arguments(), Interrupted::Restarts),
    }
}
