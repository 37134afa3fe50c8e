//! System calls that other workers make. The kernel applies some calls, such as `setuid`, to the
//! calling thread alone, but the program means them for the process. The kernel accepts other
//! calls, such as `ptrace`, from one thread alone.

use core::sync::atomic::{AtomicIsize, AtomicU32, AtomicUsize, Ordering};

use crate::kernel::lock::{Locked, Setting, lock};
use crate::kernel::sys::{self, Arguments, sys};
use crate::schedule::worker::{self, Worker, worker};

/// A call for other workers.
struct Errand {
    number: Setting<i64>,
    arguments: Setting<Arguments>,
    /// The worker that the errand is for. `EVERYBODY` means every worker.
    index: Setting<usize>,
    result: AtomicIsize,
    /// Workers that have not looked at the errand. The next errand is not written until all workers
    /// have looked.
    left: AtomicU32,
    /// Changes with each errand. A worker remembers the last number that it has seen.
    generation: AtomicUsize,
}

const EVERYBODY: usize = usize::MAX;

static ERRAND: Errand = Errand {
    number: Setting::new(0),
    arguments: Setting::new([0; 6]),
    index: Setting::new(EVERYBODY),
    result: AtomicIsize::new(0),
    left: AtomicU32::new(0),
    generation: AtomicUsize::new(0),
};

/// Has every other worker execute a call, and waits until all workers have executed it.
pub(crate) fn everywhere(number: i64, arguments: Arguments) {
    send(&mut lock(), number, arguments, EVERYBODY);
}

/// Has the other workers execute the call, one after the other, until a worker's result differs
/// from `refusal`. For calls that the kernel accepts from one thread alone.
pub(crate) fn until_done(number: i64, arguments: Arguments, refusal: isize) -> isize {
    let mut locked = lock();
    for other in worker::others(&mut locked) {
        send(&mut locked, number, arguments, other.index.get());
        let result = ERRAND.result.load(Ordering::Relaxed);
        if result != refusal {
            return result;
        }
    }
    refusal
}

fn send(locked: &mut Locked, number: i64, arguments: Arguments, index: usize) {
    let count = worker::others(locked).count();
    let next = ERRAND.generation.load(Ordering::Relaxed) + 1;
    let left = ERRAND.left.load(Ordering::Acquire);
    assert!(left == 0, "an errand is written while {left} workers have not seen the last one");
    ERRAND.number.set(number);
    ERRAND.arguments.set(arguments);
    ERRAND.index.set(index);
    ERRAND.left.store(count as u32, Ordering::Relaxed);
    // Another nudge may come here meanwhile.
    worker().errand.set(next);
    ERRAND.generation.store(next, Ordering::Release);
    worker::others(locked).for_each(Worker::nudge);
    // The handlers need no lock.
    while ERRAND.left.load(Ordering::Acquire) > 0 {
        sys!(SYS_sched_yield);
    }
}

/// Handles a nudge, in the worker's signal handler.
pub(crate) fn run(worker: &Worker) {
    let generation = ERRAND.generation.load(Ordering::Acquire);
    if worker.errand.replace(generation) == generation {
        return;
    }
    if [EVERYBODY, worker.index.get()].contains(&ERRAND.index.get()) {
        // SAFETY: the program's call, which its thread has every worker make.
        let result = unsafe { sys::call(ERRAND.number.get(), ERRAND.arguments.get()) };
        ERRAND.result.store(result, Ordering::Relaxed);
    }
    let left = ERRAND.left.fetch_sub(1, Ordering::Release);
    assert!(left > 0, "more workers have seen an errand than there are");
}

/// The errands that a new worker need not do, since it inherits the effects.
pub(crate) fn done_so_far() -> usize {
    ERRAND.generation.load(Ordering::Relaxed)
}
