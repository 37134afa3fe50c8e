//! The processor time of each thread. Counting begins with the first query, since it costs a system
//! call for each switch.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::kernel::clock::Nanoseconds;
use crate::kernel::lock::Locked;
use crate::kernel::sys::{failed, sys};
use crate::schedule::thread::{MAIN, NOBODY, ThreadRef};
use crate::schedule::worker::{self, Worker, worker};

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
    let now = time_of(libc::CLOCK_THREAD_CPUTIME_ID);
    let before = worker.charged_at.replace(now);
    let thread = worker.current.get();
    if !thread.is(&NOBODY) {
        thread.used.set(thread.used.get() + since(before, now, thread));
    }
}

/// The time from `before` to `now` that belongs to a thread. A worker's first charge covers all its
/// time so far. Only the main thread takes that time.
fn since(before: Nanoseconds, now: Nanoseconds, thread: ThreadRef) -> Nanoseconds {
    // In the child of a fork, the kernel counts anew.
    if before != 0 || thread.is(&MAIN) { now.saturating_sub(before) } else { 0 }
}

fn time_of(clock: i32) -> Nanoseconds {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    if failed(sys!(SYS_clock_gettime, clock, &mut time)) {
        return 0;
    }
    time.tv_sec as Nanoseconds * 1_000_000_000 + time.tv_nsec as Nanoseconds
}

/// The processor time of a thread.
pub(crate) fn of(locked: &mut Locked, thread: ThreadRef) -> Nanoseconds {
    IS_COUNTED.store(true, Ordering::Relaxed);
    if thread.is(worker().current.get()) {
        charge(worker());
        return thread.used.get();
    }
    // Another worker charges the thread that it runs when it leaves it.
    let running = worker::runner(locked, thread)
        .map_or(0, |runner| since(runner.charged_at.get(), time_of(clock_of(runner)), thread));
    thread.used.get() + running
}

/// The kernel's clock of a worker's processor time.
fn clock_of(worker: &Worker) -> i32 {
    const SCHEDULED: i32 = 2;
    const THREAD: i32 = 4;
    !worker.kernel_id.get() << 3 | THREAD | SCHEDULED
}
