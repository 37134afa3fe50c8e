//! The worker's own loop: runs ready threads, looks at the descriptors, and waits if there is
//! nothing to run.

use crate::descriptors::registry;
use crate::descriptors::ring;
use crate::kernel::assertions::check;
use crate::kernel::bell::{BELL_DATA, EPOLL};
use crate::kernel::clock;
use crate::kernel::frame::duality_switch;
use crate::kernel::lock::{self, Locked, Setting, lock};
use crate::kernel::stats;
use crate::kernel::undelivered;
use crate::schedule::idle;
use crate::schedule::processor_time;
use crate::schedule::scheduler::{
    self, become_current, dequeue, expire, let_others_run, others_are_ready, woken_are_ready,
};
use crate::schedule::thread::{NOBODY, ThreadRef};
use crate::schedule::ticks;
use crate::schedule::waiter::State;
use crate::schedule::worker::{self, Worker, worker};
use crate::signals::flood;
use crate::signals::handling;
use crate::workers::helpers;
use crate::workers::more_workers;

/// What remains to be done for a thread that has ended, once its stack has been left
/// (`calls/processes.rs`).
pub(crate) static FINISH_THREAD: Setting<Option<Finish>> = Setting::new(None);
type Finish = fn(&mut Locked, ThreadRef);

/// Switches between two looks at the descriptors.
const SWITCHES: i32 = 64;
/// The number of calls without a wait after which other threads have their turn.
const CALLS: u32 = 128;

/// Lets the other ready threads run first. Returns whether another thread was ready.
pub(crate) fn yield_now(locked: &mut Locked) -> bool {
    if !others_are_ready(locked) {
        look(locked);
    }
    let_others_run(locked, false)
}

/// Counts a call that did not wait. After many such calls in a row, other threads have their turn.
#[inline(always)]
pub(crate) fn count_call() {
    let worker = worker();
    let calls = worker.calls_in_a_row.get() + 1;
    worker.calls_in_a_row.set(calls);
    if calls >= CALLS {
        give_turn();
    }
}

/// Looks at the descriptors, and lets other threads run.
#[cold]
pub(crate) fn give_turn() {
    pass_turn(false);
}

/// Ends the turn of the current thread. Looks at the descriptors, and lets other threads run.
/// Returns whether another thread was ready.
#[cold]
pub(crate) fn end_turn() -> bool {
    pass_turn(true)
}

fn pass_turn(computes: bool) -> bool {
    worker().calls_in_a_row.set(0);
    let mut locked = lock();
    idle::lose_patience(&mut locked);
    look(&mut locked);
    let_others_run(&mut locked, computes)
}

/// Looks at the descriptors. Returns whether woken threads wait for their turn on this worker.
pub(crate) fn look_for_woken() -> bool {
    let mut locked = lock();
    look(&mut locked);
    woken_are_ready(&mut locked)
}

/// Runs on a worker's own stack. Runs ready threads, and waits if none is ready.
pub(crate) extern "C" fn worker_loop() -> ! {
    let mut locked = Locked::taken_over();
    let worker = worker();
    loop {
        check!(lock::is_held_here(), "a worker goes on without the lock");
        check!(has_left(&mut locked, worker), "a thread has left its worker and still runs");
        processor_time::leave_thread(worker);
        worker.current.set(&NOBODY);
        if let Some(thread) = worker.ended.take() {
            let finish = FINISH_THREAD.get().expect("set before the first thread begins");
            finish(&mut locked, thread);
        }
        if more_workers::is_to_end() {
            more_workers::leave(locked);
        }
        if worker.switches_left.get() <= 0 {
            look(&mut locked);
        }
        match next(&mut locked) {
            Some(thread) => {
                become_current(&mut locked, worker, thread);
                // SAFETY: the thread is ready, as in `switch_away`.
                unsafe {
                    scheduler::assert_left(thread.stack_pointer.get());
                    duality_switch(
                        worker.stack_pointer.as_ptr(),
                        thread.stack_pointer.get(),
                        thread.fs.get(),
                    );
                }
            }
            None => wait(&mut locked),
        }
    }
}

/// Whether the thread that the worker ran has parked, waits for its turn or has ended.
fn has_left(locked: &mut Locked, worker: &Worker) -> bool {
    let thread = worker.current.get();
    let ended = worker.ended.get().is_some_and(|ended| ended.is(thread));
    ended || thread.is(&NOBODY) || thread.state.get(locked.held()) != State::Running
}

/// The thread that this worker runs next. Before a thread that computes, the worker looks at the
/// descriptors.
fn next(locked: &mut Locked) -> Option<ThreadRef> {
    let woken = dequeue(locked, false);
    if woken.is_some() || !others_are_ready(locked) {
        return woken;
    }
    look(locked);
    dequeue(locked, true)
}

/// Takes the events that have come, without waiting.
pub(crate) fn look(locked: &mut Locked) {
    expire(locked);
    take_events(locked, Some(clock::timespec(0)));
    idle::remind_watcher(locked);
    if ring::is_active() && idle::is_watched(locked) {
        // The watcher sleeps, and would not submit the requests of this look.
        ring::flush(locked);
    }
    settle(locked);
}

/// Waits for an event, as the watcher. If another worker watches, sleeps in reserve.
fn wait(locked: &mut Locked) {
    let worker = worker();
    if flood::is_sealed() {
        flood::unseal();
    }
    // From here on, a signal ends the sleep.
    worker.set_idle(true);
    ticks::hurry(false);
    // A sleeping process has begun all its calls. Observers may rely on this order.
    helpers::let_begin(locked);
    let workers = worker::count(locked);
    if worker.came_at.get() != 0 {
        idle::ran(locked, clock::now() - worker.came_at.get());
    }
    let as_deputy = idle::begins_as_deputy(locked, workers);
    if as_deputy || idle::is_watched(locked) {
        idle::stand_by(locked, as_deputy, awaited);
    } else {
        watch(locked);
    }
    let beside_others = idle::are_others_running(locked, workers);
    worker.came_at.set(if beside_others { clock::now() } else { 0 });
    worker.set_idle(false);
    settle(locked);
}

/// What a worker in reserve must come for: threads that are ready, or its own end.
fn awaited(locked: &mut Locked) -> usize {
    scheduler::ready(locked) + usize::from(more_workers::is_to_end())
}

fn watch(locked: &mut Locked) {
    expire(locked);
    let deadline = scheduler::next_deadline(locked);
    // The look before this watch may have taken the bell's event that called this worker to end.
    let must_look = undelivered::any() || others_are_ready(locked) || more_workers::is_to_end();
    let longest = if must_look { Some(clock::timespec(0)) } else { deadline.map(clock::left) };
    idle::begin_watch(locked, deadline);
    let summoned = take_events(locked, longest);
    idle::end_watch(locked);
    expire(locked);
    let ready = scheduler::ready(locked);
    if summoned {
        idle::came(locked, ready);
    }
    if ready > 0 {
        idle::call_deputy(locked);
    }
}

fn settle(locked: &mut Locked) {
    if undelivered::any() {
        handling::assign_held(locked);
    }
    if flood::is_sealed() {
        flood::unseal();
    }
    worker().switches_left.set(SWITCHES);
}

/// Takes the events from the kernel. Returns whether the bell's event was the only one.
fn take_events(locked: &mut Locked, timeout: Option<libc::timespec>) -> bool {
    if !ring::is_active() {
        return take_from_epoll(locked, timeout);
    }
    ring::enter(locked, timeout.as_ref());
    let (epoll, others) = ring::take(locked);
    if !epoll {
        stats::LOOKS.add(1);
        idle::looked(locked);
        return false;
    }
    let summoned = take_from_epoll(locked, Some(clock::timespec(0)));
    ring::poll_epoll(locked);
    summoned && !others
}

fn take_from_epoll(locked: &mut Locked, timeout: Option<libc::timespec>) -> bool {
    let worker = worker();
    let count = locked.released(|| worker.take_events(EPOLL.get(), timeout.as_ref()));
    stats::LOOKS.add(1);
    idle::looked(locked);
    let mut summoned = false;
    for index in 0..count {
        let event = worker.event(index);
        match event.u64 {
            BELL_DATA => {
                idle::heard(locked);
                summoned = !helpers::collect(locked) && count == 1;
            }
            data => registry::event(locked, data, event.events),
        }
    }
    summoned
}
