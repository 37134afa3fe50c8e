//! System calls that every worker makes: the kernel applies them to the calling thread alone, and the program
//! means them for the process, as `setuid` is.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::lock::{Setting, lock};
use crate::sys::{self, Arguments, sys};
use crate::worker::{self, Worker, worker};

/// A call for every worker.
struct Errand {
    number: Setting<i64>,
    arguments: Setting<Arguments>,
    /// Workers that have not executed it.
    left: AtomicU32,
    /// Changes with each errand; a worker remembers the last that it has done.
    generation: AtomicUsize,
}

static ERRAND: Errand = Errand {
    number: Setting::new(0),
    arguments: Setting::new([0; 6]),
    left: AtomicU32::new(0),
    generation: AtomicUsize::new(0),
};

/// Has every other worker execute a call, and waits until they have.
pub(crate) fn everywhere(number: i64, arguments: Arguments) {
    let mut locked = lock();
    let others = worker::others(&mut locked).count();
    if others == 0 {
        return;
    }
    ERRAND.number.set(number);
    ERRAND.arguments.set(arguments);
    ERRAND.left.store(others as u32, Ordering::Relaxed);
    ERRAND.generation.fetch_add(1, Ordering::Release);
    worker::others(&mut locked).for_each(Worker::nudge);
    // The handlers need no lock.
    while ERRAND.left.load(Ordering::Acquire) > 0 {
        sys!(SYS_sched_yield);
    }
    let generation = ERRAND.generation.load(Ordering::Relaxed);
    worker().errand.set(generation);
}

/// What a worker does about a nudge, in the handler.
pub(crate) fn run(worker: &Worker) {
    let generation = ERRAND.generation.load(Ordering::Acquire);
    if worker.errand.replace(generation) != generation {
        sys::call(ERRAND.number.get(), ERRAND.arguments.get());
        ERRAND.left.fetch_sub(1, Ordering::Release);
    }
}

/// What a new worker need not do, since it inherits the effects.
pub(crate) fn done_so_far() -> usize {
    ERRAND.generation.load(Ordering::Relaxed)
}
