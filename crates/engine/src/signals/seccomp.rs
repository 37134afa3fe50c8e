//! System calls that a filter of seccomp(2) turns into `SIGSYS` (`SECCOMP_RET_TRAP`). The engine
//! makes these calls for the program, and the program's handler emulates them.

use crate::kernel::frame::Frame;
use crate::kernel::info::{of_words, words};
use crate::kernel::sys::error;
use crate::kernel::undelivered;
use crate::schedule::context::Context;
use crate::schedule::thread::{Pending, Thread};
use crate::show::report::{NAMES, say};

/// `SYS_SECCOMP`, the code of such a signal.
pub(crate) const CODE: i32 = 1;

/// Words of such a signal: the address of the call, its number, and a word that the kernel leaves
/// free. The engine stores the thread in the free word.
const CALL_ADDRESS: usize = 2;
const CALL_NUMBER: usize = 3;
const THREAD: usize = 15;

/// Holds the signal back until the trapped call returns to the program. Returns `false` if the
/// engine needs the call.
pub(crate) fn holds(thread: &Thread, info: &libc::siginfo_t, context: &mut Context) -> bool {
    let trapped = words(info)[CALL_NUMBER] as u32;
    if trapped != thread.call.get() {
        let name = NAMES.get().map_or("a call", |name| name(trapped));
        say(format_args!(
            "the program's filter (seccomp) forbids {name}, which the engine needs; allow it, or run the program without duality"
        ));
        return false;
    }
    // SAFETY: the place is the call that the thread is in. An interrupted thread makes no call.
    let frame = unsafe { &*(thread.place.get() as *const Frame) };
    let mut information = *words(info);
    information[CALL_ADDRESS] = frame.return_address() as u64;
    information[THREAD] = thread.id.get() as u64;
    undelivered::hold(of_words(&information));
    context.fail(error(libc::ENOSYS));
    true
}

/// The thread that made the trapped call, if a signal says so.
pub(crate) fn thread(pending: &Pending) -> Option<i32> {
    let trapped = pending.number == libc::SIGSYS && pending.info.si_code == CODE;
    trapped.then(|| words(&pending.info)[THREAD] as i32)
}
