//! Calls that may wait for another process. The engine tries each call first. A helper makes the
//! calls that would wait.
//!
//! A helper costs some microseconds, most of them for two switches. Each call here has a form that
//! fails at once where it would wait.

use crate::kernel::frame::Frame;
use crate::kernel::plain::zeroed;
use crate::kernel::sys::{self, EAGAIN, ETIMEDOUT, error, failed, sys};
use crate::kernel::user;
use crate::workers::helpers::{Interrupted, offload};
use crate::workers::pump::count_call;

/// Makes the call with other arguments at first. A helper makes the call itself if the result is
/// `would_wait`.
fn try_first(
    frame: &Frame,
    arguments: sys::Arguments,
    would_wait: isize,
    interrupted: Interrupted,
) -> isize {
    count_call();
    // SAFETY: the program's own call, with a flag against waiting.
    match unsafe { sys::call(frame.number(), arguments) } {
        result if result == would_wait => offload(frame.number(), frame.arguments(), interrupted),
        result => result,
    }
}

/// Makes the call with a flag against waiting in the argument at `place`.
fn with_flag(
    frame: &Frame,
    place: usize,
    flag: i32,
    would_wait: isize,
    interrupted: Interrupted,
) -> isize {
    let mut arguments = frame.arguments();
    if arguments[place] & flag as usize != 0 {
        return frame.pass();
    }
    arguments[place] |= flag as usize;
    try_first(frame, arguments, would_wait, interrupted)
}

/// msgsnd(2)
pub(crate) fn msgsnd(frame: &mut Frame) -> isize {
    with_flag(frame, 3, libc::IPC_NOWAIT, EAGAIN, Interrupted::Fails)
}

/// msgrcv(2)
pub(crate) fn msgrcv(frame: &mut Frame) -> isize {
    with_flag(frame, 4, libc::IPC_NOWAIT, error(libc::ENOMSG), Interrupted::Fails)
}

/// semop(2) and semtimedop(2): each operation has a flag of its own.
pub(crate) fn semop(frame: &mut Frame) -> isize {
    /// The words of a `struct sembuf`: number, operation, flags.
    const WORDS: usize = 3;
    /// The kernel refuses longer lists, or a helper makes the call.
    const MOST: usize = 64;
    let mut operations = [0u16; WORDS * MOST];
    let used = &mut operations[..WORDS * frame.argument(2).min(MOST)];
    if frame.argument(2) > MOST || user::read_slice(frame.argument(1), used).is_err() {
        return offload(frame.number(), frame.arguments(), Interrupted::Fails);
    }
    used.chunks_exact_mut(WORDS).for_each(|operation| operation[2] |= libc::IPC_NOWAIT as u16);
    let mut arguments = frame.arguments();
    arguments[1] = operations.as_ptr() as usize;
    try_first(frame, arguments, EAGAIN, Interrupted::Fails)
}

/// mq_timedsend(2) and mq_timedreceive(2): with a time that has passed, they end where they would
/// wait.
pub(crate) fn message_queue(frame: &mut Frame) -> isize {
    let past = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let mut arguments = frame.arguments();
    arguments[4] = &raw const past as usize;
    match user::read_optional::<libc::timespec>(frame.argument(4)) {
        Ok(time) if time.is_none_or(|time| crate::kernel::clock::valid(&time)) => {
            try_first(frame, arguments, ETIMEDOUT, Interrupted::Restarts)
        }
        // The kernel reports the error.
        _ => frame.pass(),
    }
}

/// splice(2): the flag applies to pipes alone, so the other end must be a file that does not wait.
pub(crate) fn splice(frame: &mut Frame) -> isize {
    if [frame.argument(0), frame.argument(2)].into_iter().any(|number| !is_pipe_or_regular(number))
    {
        return offload(frame.number(), frame.arguments(), Interrupted::Restarts);
    }
    with_flag(frame, 5, libc::SPLICE_F_NONBLOCK as i32, EAGAIN, Interrupted::Restarts)
}

/// tee(2) and vmsplice(2), which accept pipes alone.
pub(crate) fn tee(frame: &mut Frame) -> isize {
    with_flag(frame, 3, libc::SPLICE_F_NONBLOCK as i32, EAGAIN, Interrupted::Restarts)
}

fn is_pipe_or_regular(number: usize) -> bool {
    let mut status: libc::stat = zeroed();
    let known = !failed(sys!(SYS_fstat, number as i32, &mut status));
    known && matches!(status.st_mode & libc::S_IFMT, libc::S_IFIFO | libc::S_IFREG)
}

/// fcntl(2) with `F_SETLKW` or `F_OFD_SETLKW`
pub(crate) fn lock_file(frame: &Frame) -> isize {
    let at_once =
        if frame.argument(1) as i32 == libc::F_SETLKW { libc::F_SETLK } else { libc::F_OFD_SETLK };
    let mut arguments = frame.arguments();
    arguments[1] = at_once as usize;
    try_first(frame, arguments, EAGAIN, Interrupted::Restarts)
}
