//! Starts workers beyond the first, and ends them.

use alloc::vec::Vec;
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::kernel::frame::{duality_worker_start, initial_context};
use crate::kernel::lock::{Locked, lock};
use crate::kernel::settings;
use crate::kernel::sys::{self, error, failed, sys};
use crate::schedule::every_worker;
use crate::schedule::idle::{self, START_WORKER};
use crate::schedule::scheduler;
use crate::schedule::ticks;
use crate::schedule::worker::{self, FIRST, MOST_WORKERS, Worker, set_in_engine, worker};
use crate::signals::handling;
use crate::signals::masks;
use crate::workers::kernel_thread::{self, start_kernel_thread};

/// The size of a worker's own stack. The worker sleeps on it, and the signal handler uses the other
/// part.
const STACK: usize = 64 << 10;
/// The first worker's stack is larger, because the patcher runs on it.
const FIRST_STACK: usize = 256 << 10;

/// Makes the kernel thread that the process began with the first worker, and allows for more.
///
/// # Errors
///
/// There is no memory.
pub(crate) fn prepare() -> Result<(), isize> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let stack = sys::map(FIRST_STACK, protection, libc::MAP_NORESERVE | libc::MAP_STACK);
    let end = stack.ok_or(error(libc::ENOMEM))? + FIRST_STACK - 64;
    // SAFETY: the stack was mapped just now, so the 64 bytes below its end are free.
    FIRST.stack_pointer.set(unsafe { initial_context(end, duality_worker_start) });
    worker::stand_alone(&mut lock());
    allow_more();
    Ok(())
}

/// From now on, workers start on demand.
fn allow_more() {
    let more = settings::CORES.get() > 1;
    START_WORKER.set(more.then_some(start_another));
}

/// Called when a second thread exists: threads may then run on other workers.
pub(crate) fn expect_threads(locked: &mut Locked) {
    ticks::start();
    if settings::CORES.get() > 1 {
        scheduler::share(locked);
    }
}

fn start_another(locked: &mut Locked) {
    let enough = settings::CORES.get().min(MOST_WORKERS);
    if worker::count(locked) >= enough {
        START_WORKER.set(None);
        return;
    }
    if start(locked).is_none() {
        // The kernel has no threads or no memory left, so the existing workers do the work.
        START_WORKER.set(None);
    }
}

fn start(locked: &mut Locked) -> Option<()> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let length = STACK + handling::STACK_BYTES;
    let memory = sys::map(length, protection, libc::MAP_NORESERVE)?;
    let Some(added) = worker::add(locked) else {
        // SAFETY: mapped just now, for a worker that could not be added.
        unsafe { sys::unmap(memory, length) };
        return None;
    };
    // The signal stack is the lower part. `begin` finds the signal stack by the end of its own
    // stack.
    added.stack_pointer.set(memory);
    added.errand.set(every_worker::done_so_far());
    // SAFETY: mapped just now, for the new worker alone.
    let made = unsafe { start_kernel_thread(memory + length, begin, &raw const *added as usize) };
    if failed(made) {
        worker::take_back(locked);
        // SAFETY: mapped just now, for a worker that could not be started.
        unsafe { sys::unmap(memory, length) };
        return None;
    }
    added.kernel_id.set(made as i32);
    Some(())
}

/// The first code of every worker but the first. The code returns into the worker's loop with the
/// lock held.
extern "C" fn begin(argument: usize) {
    // SAFETY: `start` passed a worker, which is never taken away once its kernel thread exists.
    let worker: &'static Worker = unsafe { &*(argument as *const Worker) };
    worker.adopt();
    set_in_engine(true);
    handling::use_stack(worker.stack_pointer.get());
    worker.kernel_id.set(sys!(SYS_gettid) as i32);
    // From here on, signals come.
    masks::adopt();
    ticks::start();
    lock().hand_over();
}

/// The other workers are to end.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Ends all workers but the first, which goes on with the current thread, the only one. Later
/// threads start workers anew.
pub(crate) fn end_others(locked: &mut Locked) {
    let ids: Vec<i32> = worker::all(locked).map(|worker| worker.kernel_id.get()).collect();
    if ids.len() == 1 {
        return;
    }
    START_WORKER.set(None);
    ENDING.store(true, Ordering::Relaxed);
    idle::call_all(locked);
    if is_first() {
        locked.released(|| wait_for(&ids));
    } else {
        // This worker ends as soon as the thread has left it.
        scheduler::go_on_elsewhere(locked, &FIRST);
        locked.released(|| wait_for(&ids));
    }
    reset_after_fork(locked);
    idle::reset_after_fork(locked);
    ENDING.store(false, Ordering::Relaxed);
}

fn wait_for(ids: &[i32]) {
    let own = FIRST.kernel_id.get();
    ids.iter().filter(|&&id| id != own).for_each(|&id| kernel_thread::wait_for_end(id));
}

fn is_first() -> bool {
    ptr::eq(worker(), &raw const FIRST)
}

/// Whether the calling worker is to end.
pub(crate) fn is_to_end() -> bool {
    ENDING.load(Ordering::Relaxed) && !is_first()
}

/// Ends the calling worker, on its own stack. The memory stays, because others may look at it.
pub(crate) fn leave(locked: Locked) -> ! {
    let worker = worker();
    for timer in [worker.tick_timer.get(), worker.recall_timer.get()] {
        if timer >= 0 {
            sys!(SYS_timer_delete, timer);
        }
    }
    drop(locked);
    loop {
        sys!(SYS_exit, 0);
    }
}

/// Called in the child of a fork, which has only this worker's kernel thread.
pub(crate) fn reset_after_fork(locked: &mut Locked) {
    crate::kernel::lock::unshare(locked);
    worker::stand_alone(locked);
    allow_more();
}
