//! The processor time of each thread, for converted programs. Counting begins with the first query,
//! since it costs a system call for each switch.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::kernel::clock::Nanoseconds;
use crate::kernel::sys::sys;
use crate::schedule::thread::{MAIN, NOBODY};
use crate::schedule::worker::{Worker, worker};

static IS_COUNTED: AtomicBool = AtomicBool::new(false);

/// Called before a worker runs another thread, or none.
#[inline(always)]
pub(crate) fn leave_thread(worker: &Worker) {
    if IS_COUNTED.load(Ordering::Relaxed) {
        charge(worker);
    }
}

/// Charges the running thread with the worker's time since the last charge.
#[cold]
fn charge(worker: &Worker) {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    sys!(SYS_clock_gettime, libc::CLOCK_THREAD_CPUTIME_ID, &mut time);
    let now = time.tv_sec as Nanoseconds * 1_000_000_000 + time.tv_nsec as Nanoseconds;
    let before = worker.charged_at.replace(now);
    let thread = worker.current.get();
    // A worker's first charge covers all its time so far. Only the main thread takes that time.
    let knows = before != 0 || thread.is(&MAIN);
    if knows && !thread.is(&NOBODY) {
        // In the child of a fork, the kernel counts anew.
        thread.used.set(thread.used.get() + now.saturating_sub(before));
    }
}

/// The processor time of the current thread.
pub(crate) fn time_of_current() -> Nanoseconds {
    let worker = worker();
    IS_COUNTED.store(true, Ordering::Relaxed);
    charge(worker);
    worker.current.get().used.get()
}
