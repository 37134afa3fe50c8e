//! Preemption: a thread that computes gives way to others after a tick.
//!
//! A timer measures the processor time of the worker and signals it, so an idle program is never disturbed.
//! The handler sets the interrupted context aside on the thread's own stack; [`preempted`] is then executed
//! there like a call of the program, and may switch to another thread. A tick inside `malloc` or `printf`
//! is harmless: their locks are futexes, for which others park.

use core::sync::atomic::Ordering;

use crate::context::SignalFrame;
use crate::lock::{Setting, lock};
use crate::scheduler;
use crate::signals::{self, ENGINE_SIGNAL};
use crate::stats;
use crate::sys::{failed, sys};
use crate::worker::worker;

/// The value in the signal of a tick.
pub(crate) const TICK_VALUE: usize = 0x6475_616c_7469_636b;

/// Microseconds of processor time between two ticks; zero for none.
pub(crate) static TICK: Setting<u64> = Setting::new(10_000);
static TIMER: Setting<i32> = Setting::new(-1);

/// Starts the ticks of this worker. Called when there is a second thread.
pub(crate) fn start() {
    if TIMER.get() >= 0 || TICK.get() == 0 {
        return;
    }
    let mut event = [0u64; 8];
    event[0] = TICK_VALUE as u64;
    event[1] = ENGINE_SIGNAL as u64 | (libc::SIGEV_THREAD_ID as u64) << 32;
    event[2] = worker().kernel_id.get() as u64;
    let mut timer = -1i32;
    let clock = libc::CLOCK_THREAD_CPUTIME_ID;
    if failed(sys!(SYS_timer_create, clock, &raw const event, &raw mut timer)) {
        return;
    }
    TIMER.set(timer);
    let period = crate::clock::timespec(TICK.get() * 1000);
    let setting = [period, period];
    sys!(SYS_timer_settime, timer, 0, setting.as_ptr(), 0);
}

/// In the child of a fork, which inherits no timers.
pub(crate) fn reset_after_fork() {
    TIMER.set(-1);
}

/// Executed on the stack of a thread that was interrupted in its own code.
pub(crate) extern "C" fn preempted(frame: &mut SignalFrame) {
    if worker().turn_is_over.swap(false, Ordering::Relaxed) {
        stats::PREEMPTIONS.add(1);
        scheduler::give_turn();
    }
    loop {
        signals::deliver_on_context(&mut frame.context);
        signals::seal(&mut frame.context);
        worker().set_in_engine(false);
        if !worker().has_held() {
            return;
        }
        worker().set_in_engine(true);
    }
}

/// A call that returns to the program after the end of its thread's turn.
#[cold]
pub(crate) fn turn_over() {
    worker().turn_is_over.store(false, Ordering::Relaxed);
    stats::PREEMPTIONS.add(1);
    let mut locked = lock();
    scheduler::look(&mut locked);
    scheduler::yield_now(&mut locked);
}
