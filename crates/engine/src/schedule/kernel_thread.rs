//! Kernel threads of the engine. Each shares everything with the process, and has a stack and no
//! libc.

use crate::entry::frame::duality_clone;
use crate::kernel::sys::sys;

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

/// Blocks every signal for this kernel thread until the new thread exists.
fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    let all = u64::MAX;
    let mut before = 0u64;
    sys!(SYS_rt_sigprocmask, libc::SIG_SETMASK, &all, &mut before, 8);
    let result = work();
    sys!(SYS_rt_sigprocmask, libc::SIG_SETMASK, &before, 0, 8);
    result
}
