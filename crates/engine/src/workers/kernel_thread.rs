//! Kernel threads of the engine. Each shares everything with the process, and has a stack and no
//! libc.

use crate::kernel::assertions::check;
use crate::kernel::clock::{self, Nanoseconds};
use crate::kernel::frame::duality_clone;
use crate::kernel::sys::{ESRCH, sys};

/// Starts a kernel thread that executes `work` with `argument` on a stack that ends at `stack_end`.
/// The thread begins with all signals blocked. A worker's `work` returns, and the worker's loop
/// follows. A helper's `work` never returns. Returns the number of the kernel thread, or the
/// kernel's error.
///
/// # Safety
///
/// The stack is writable, and nothing else uses it.
pub(crate) unsafe fn start_kernel_thread(
    stack_end: usize,
    work: extern "C" fn(usize),
    argument: usize,
) -> isize {
    let flags = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM;
    let top = (stack_end & !15) - 64;
    // SAFETY: the caller keeps the promise above.
    unsafe { (top as *mut [usize; 2]).write([work as usize, argument]) };
    // SAFETY: the new thread finds its function and argument on that stack, and uses nothing else
    // of this kernel thread.
    without_signals(|| unsafe { duality_clone(flags as usize, top) })
}

/// Whether a kernel thread of this process exists.
pub(crate) fn is_alive(id: i32) -> bool {
    sys!(SYS_tgkill, sys!(SYS_getpid), id, 0) != ESRCH
}

/// Waits until a kernel thread that is about to end has ended.
pub(crate) fn wait_for_end(id: i32) {
    /// A thread that is still there after so long has not been told to end. A busy machine may take
    /// seconds to end one.
    const MOST: Nanoseconds = 10_000_000_000;
    let deadline = clock::now() + MOST;
    while is_alive(id) && clock::now() < deadline {
        sys!(SYS_sched_yield);
    }
    check!(!is_alive(id), "a kernel thread was not told to end");
}

/// Blocks every signal for this kernel thread until the new thread exists.
fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    let all = u64::MAX;
    let mut before = 0u64;
    sys!(SYS_rt_sigprocmask, libc::SIG_SETMASK, &all, &mut before, 8);
    let result = work();
    sys!(SYS_rt_sigprocmask, libc::SIG_SETMASK, &before, 0, 8);
    result
}
