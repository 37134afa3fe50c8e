//! Preemption: a thread that computes gives way to others after a tick.
//!
//! A timer measures the processor time of the worker and signals the worker, so an idle program
//! gets no tick. The handler sets the interrupted context aside on the thread's own stack. Then
//! `dispatch::resume` is executed there like a call of the program, and may switch to another
//! thread. A tick inside `malloc` or `printf` is harmless: their locks are futexes, and other
//! threads park at them.
//!
//! A turn ends with its second tick, because the first may come a moment after the turn began. The
//! thread may then hold a lock for which others spin. Each of those threads would then spin for a
//! whole turn before the lock's holder runs again.
//!
//! A thread *computes* if the end of its turn was forced. Threads that wake go before threads that
//! compute, since woken threads mostly wait again soon. Woken threads have a credit of several
//! ticks. When the credit is used up, a thread that computes has the next turn. While credit is
//! left, a thread that computes gives way at any tick.

use core::sync::atomic::Ordering;

use crate::kernel::disposition::{TICK_SIGNAL, TICK_VALUE};
use crate::kernel::settings;
use crate::kernel::sys::{failed, sys};
use crate::schedule::worker::{Worker, worker};

/// The interval in microseconds. A tick costs about five microseconds.
const SHORTEST: u64 = 1000;

/// Starts the ticks of this worker, unless they have already started. Called when there is a second
/// thread.
pub(crate) fn start() {
    if worker().tick_timer.get() >= 0 || settings::TICK.get() == 0 {
        return;
    }
    let Some(timer) = timer(libc::CLOCK_THREAD_CPUTIME_ID, TICK_VALUE) else { return };
    worker().tick_timer.set(timer);
    worker().short_ticks.set(false);
    set_period(settings::TICK.get());
}

/// Makes a timer that signals this worker with a value.
pub(crate) fn timer(clock: i32, value: usize) -> Option<i32> {
    let mut event = [0u64; 8];
    event[0] = value as u64;
    event[1] = TICK_SIGNAL as u64 | (libc::SIGEV_THREAD_ID as u64) << 32;
    event[2] = worker().kernel_id.get() as u64;
    let mut timer = -1i32;
    let made = sys!(SYS_timer_create, clock, &event, &mut timer);
    (!failed(made)).then_some(timer)
}

/// The credit, in ticks, of threads that wake while others compute.
const CREDIT: u32 = 2;

/// Begins the turn of a thread.
#[inline(always)]
pub(crate) fn begin_turn(worker: &Worker, computes: bool) {
    worker.ticks.store(0, Ordering::Relaxed);
    worker.gives_way.set(computes && !credit_is_used(worker));
    if computes {
        renew_credit(worker);
    }
}

/// Whether a thread that computes is to have the next turn, although others have woken.
pub(crate) fn credit_is_used(worker: &Worker) -> bool {
    worker.credit_used.load(Ordering::Relaxed) >= CREDIT
}

/// Gives the threads that wake a new credit, when a thread that computes begins or ends its turn.
pub(crate) fn renew_credit(worker: &Worker) {
    worker.credit_used.store(0, Ordering::Relaxed);
}

/// Counts a tick. Returns whether the engine must handle it.
pub(crate) fn count(worker: &Worker) -> bool {
    worker.credit_used.fetch_add(1, Ordering::Relaxed);
    worker.ticks.fetch_add(1, Ordering::Relaxed) > 0 || worker.gives_way.get()
}

/// Whether there has been a tick, and the thread gives way to threads that wake.
pub(crate) fn may_give_way(worker: &Worker) -> bool {
    worker.gives_way.get() && worker.ticks.load(Ordering::Relaxed) > 0
}

/// Whether the turn of the thread is over.
#[inline(always)]
pub(crate) fn turn_is_over(worker: &Worker) -> bool {
    worker.ticks.load(Ordering::Relaxed) > 1
}

/// Other threads have their turn. If there are none, the next tick checks again.
pub(crate) fn pass_turn(worker: &Worker) {
    worker.ticks.store(1, Ordering::Relaxed);
}

/// Called after a turn. If other threads were waiting for their turn, the next ticks come sooner.
/// So threads that compute, or spin until another one acts, pass the worker on faster.
pub(crate) fn hurry(others_waited: bool) {
    const FASTER: u64 = 8;
    if worker().short_ticks.replace(others_waited) != others_waited {
        let tick = settings::TICK.get();
        set_period(if others_waited { (tick / FASTER).max(SHORTEST.min(tick)) } else { tick });
    }
}

fn set_period(microseconds: u64) {
    let period = crate::kernel::clock::timespec(microseconds * 1000);
    let setting = [period, period];
    sys!(SYS_timer_settime, worker().tick_timer.get(), 0, &setting, 0);
}

/// Called in the child of a fork, which inherits no timers.
pub(crate) fn reset_after_fork() {
    worker().tick_timer.set(-1);
}
