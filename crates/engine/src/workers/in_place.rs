//! Calls that block, made by the worker itself, for a program with one thread.
//!
//! While that thread waits, nothing else of the program could run, so it needs no helper. And the
//! kernel sees one thread, as natively: some calls refuse a process with several (`unshare`,
//! `setns`, `keyctl` of a child).

use core::sync::atomic::Ordering;

use crate::descriptors::ring;
use crate::kernel::frame::duality_wait;
use crate::kernel::lock::lock;
use crate::kernel::sys::{Arguments, EINTR, RESTART};
use crate::schedule::loops;
use crate::schedule::thread;
use crate::schedule::worker::{current, worker};
use crate::signals::flood;
use crate::signals::handling;

/// Whether the worker may block in this call, since the program has one thread and no tasks.
pub(crate) fn suits(number: i64) -> bool {
    // A completion of the ring would end a write after a part of its bytes, without any signal.
    if ring::is_active() && ends_in_part(number) {
        return false;
    }
    let mut locked = lock();
    thread::is_alone(&mut locked) && !loops::exist(&mut locked)
}

/// Whether a call that has written some bytes ends when it is interrupted.
fn ends_in_part(number: i64) -> bool {
    [
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_pwrite64,
        libc::SYS_pwritev,
        libc::SYS_pwritev2,
        libc::SYS_sendfile,
        libc::SYS_splice,
        libc::SYS_vmsplice,
        libc::SYS_copy_file_range,
    ]
    .contains(&number)
}

/// Makes a call of the program, which may block. A signal that the thread has to handle ends the
/// call: the result is then `RESTART`, or the kernel's `EINTR`. Other signals do not end the call.
pub(crate) fn call(number: i64, arguments: Arguments) -> isize {
    loop {
        // From here on, each signal leaves a mark, and the call does not begin.
        worker().attention.store(0, Ordering::Relaxed);
        if flood::is_sealed() {
            flood::unseal();
        }
        if is_called() {
            return RESTART;
        }
        // SAFETY: the program's call, which waits here for its end as it does natively.
        let result = unsafe { duality_wait(&raw const arguments, number) };
        // The completions of a ring interrupt a call, too.
        let by_engine = worker().attention.load(Ordering::Relaxed) != 0 || ring::is_active();
        match result {
            RESTART => {}
            EINTR if by_engine && !is_called() => {}
            result => return result,
        }
    }
}

/// Whether the thread has a signal to handle.
fn is_called() -> bool {
    handling::assign_held(&mut lock());
    current().deliverable() != 0
}
