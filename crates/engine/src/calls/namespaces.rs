//! Namespaces and keys, which the kernel keeps for each kernel thread: unshare(2), setns(2),
//! keyctl(2).

use crate::kernel::frame::Frame;
use crate::kernel::lock::lock;
use crate::kernel::sys::{EINVAL, failed, sys};
use crate::schedule::thread;
use crate::workers::helpers::{self, Interrupted, offload};
use crate::workers::more_workers;

/// unshare(2) and setns(2). The kernel refuses some of these calls if the process has several
/// threads. Helpers that exist keep the old namespaces, so they take no more calls.
pub(crate) fn change(frame: &mut Frame) -> isize {
    /// The kernel takes these for a process with one thread alone.
    const OF_ONE_THREAD: i32 =
        libc::CLONE_THREAD | libc::CLONE_SIGHAND | libc::CLONE_VM | libc::CLONE_NEWUSER;
    /// A call that is wrong in itself costs so many system calls.
    const TRIES: u32 = 100;
    let mut locked = lock();
    let is_alone = thread::is_alone(&mut locked);
    if is_alone {
        helpers::end(&mut locked);
        more_workers::end_others(&mut locked);
    } else if frame.number() == libc::SYS_unshare && frame.argument(0) as i32 & OF_ONE_THREAD != 0 {
        return EINVAL;
    }
    drop(locked);
    let mut result = frame.pass();
    // A kernel thread that no signal finds any more still shares the handlers for a moment.
    let mut tries = if is_alone { TRIES } else { 0 };
    while result == EINVAL && tries > 0 {
        tries -= 1;
        sys!(SYS_sched_yield);
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
    match frame.argument(0) as i32 {
        JOIN_SESSION_KEYRING | SET_REQKEY_KEYRING | ASSUME_AUTHORITY => change(frame),
        _ => offload(frame.number(), frame.arguments(), Interrupted::Restarts),
    }
}
