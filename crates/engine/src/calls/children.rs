//! Waiting for child processes.

use crate::kernel::disposition::bit;
use crate::kernel::frame::Frame;
use crate::kernel::lock::lock;
use crate::kernel::plain::zeroed;
use crate::kernel::sys::{BEGIN, RESTART, error, failed, sys};
use crate::kernel::user;
use crate::schedule::thread::Pending;
use crate::schedule::worker::current;
use crate::workers::helpers::{Interrupted, offload};

/// wait4(2)
pub(crate) fn wait4(frame: &mut Frame) -> isize {
    if frame.argument(2) as i32 & libc::WNOHANG != 0 {
        return frame.pass();
    }
    let now = frame.with(
        frame.number(),
        [
            frame.argument(0),
            frame.argument(1),
            frame.argument(2) | libc::WNOHANG as usize,
            frame.argument(3),
            0,
            0,
        ],
    );
    loop {
        let result = now.pass();
        if result != 0 {
            return result;
        }
        let process = frame.argument(0) as i32;
        let which = match process {
            1.. => (libc::P_PID, process),
            0 => (libc::P_PGID, 0),
            -1 => (libc::P_ALL, 0),
            _ => (libc::P_PGID, -process),
        };
        let waited = wait_for_child(which.0, which.1, frame.argument(2) as i32);
        if failed(waited) {
            // As in the kernel, the child counts if its end has sent the signal.
            return match now.pass() {
                0 => interruption(waited),
                result => result,
            };
        }
    }
}

/// waitid(2)
pub(crate) fn waitid(frame: &mut Frame) -> isize {
    if frame.argument(3) as i32 & libc::WNOHANG != 0 || frame.argument(0) as u32 == libc::P_PIDFD {
        let blocks = frame.argument(3) as i32 & libc::WNOHANG == 0;
        return if blocks {
            offload(frame.number(), frame.arguments(), Interrupted::Restarts)
        } else {
            frame.pass()
        };
    }
    let mut info: libc::siginfo_t = zeroed();
    let mut interrupted = None;
    loop {
        let options = frame.argument(3) | libc::WNOHANG as usize;
        let result = sys!(
            SYS_waitid,
            frame.argument(0),
            frame.argument(1),
            &mut info,
            options,
            frame.argument(4)
        );
        // SAFETY: the kernel wrote the fields of a child's signal, or left zeros.
        if failed(result) || unsafe { info.si_pid() } != 0 {
            return match user::write_optional(frame.argument(2), &info) {
                Err(fault) if !failed(result) => fault,
                _ => result,
            };
        }
        if let Some(result) = interrupted {
            return result;
        }
        let waited = wait_for_child(
            frame.argument(0) as u32,
            frame.argument(1) as i32,
            frame.argument(3) as i32,
        );
        interrupted = failed(waited).then(|| interruption(waited));
    }
}

/// Waits until a child's state changes, and does not consume the change (`WNOWAIT`). A descriptor
/// of the child (pidfd_open(2)) would cost no helper, but it does not report the stops of a traced
/// child.
fn wait_for_child(kind: libc::idtype_t, id: i32, options: i32) -> isize {
    let mut info: libc::siginfo_t = zeroed();
    let states = options & (libc::WSTOPPED | libc::WCONTINUED);
    let special = options & (libc::__WALL | libc::__WCLONE);
    let states = libc::WEXITED | libc::WNOWAIT | states | special;
    let arguments = [kind as usize, id as usize, &raw mut info as usize, states as usize, 0, 0];
    match offload(libc::SYS_waitid, arguments, Interrupted::Restarts) {
        // Another thread may have waited for the child already, so the caller asks the kernel.
        result if result == error(libc::ECHILD) => 0,
        result => result,
    }
}

/// The result of a call that a signal has interrupted. The signal of a child that has been waited
/// for already comes late, because the kernel gave it to another worker. It does not end the call.
fn interruption(result: isize) -> isize {
    let mut locked = lock();
    let thread = current();
    let mask = thread.mask.get();
    let mut signals = thread.pending.of(&mut locked).iter();
    let late = result == RESTART && signals.all(|one| mask & bit(one.number) != 0 || is_late(one));
    if late { BEGIN } else { result }
}

/// Whether this is the signal of a child that no longer exists.
fn is_late(signal: &Pending) -> bool {
    // SAFETY: the kernel wrote the fields of a child's signal, or others of the same size.
    let child = unsafe { signal.info.si_pid() };
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    signal.number == libc::SIGCHLD
        && sys!(SYS_waitid, libc::P_PID, child, 0, options, 0) == error(libc::ECHILD)
}
