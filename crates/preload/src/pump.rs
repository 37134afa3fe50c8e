//! The worker's own loop: runs what is ready, looks at the descriptors, waits where there is nothing to run.

use crate::clock;
use crate::descriptors;
use crate::frame::duality_switch;
use crate::held;
use crate::helpers;
use crate::lock::{Locked, lock};
use crate::process;
use crate::scheduler::{
    self, ALARM_DATA, BELL_DATA, EPOLL, become_current, dequeue, enqueue_behind, expire,
    others_are_ready, switch_away,
};
use crate::signals;
use crate::stats;
use crate::sys::sys;
use crate::thread::NOBODY;
use crate::worker::{EVENTS, current, worker};

/// Switches between two looks at the descriptors.
const SWITCHES: i32 = 64;
/// Calls that did not wait, until others have their turn.
const CALLS: u32 = 128;

/// Lets the other ready threads run first.
pub(crate) fn yield_now(locked: &mut Locked) {
    if !others_are_ready(locked) {
        look(locked);
    }
    if others_are_ready(locked) {
        enqueue_behind(locked, current());
        switch_away(locked);
    }
}

/// Counts a call that did not wait: after many in a row, the others have their turn.
#[inline(always)]
pub(crate) fn count_call() {
    let worker = worker();
    let calls = worker.calls_in_a_row.get() + 1;
    worker.calls_in_a_row.set(calls);
    if calls >= CALLS {
        give_turn();
    }
}

/// Has a look at the descriptors, and lets others run. Returns whether there were any.
#[cold]
pub(crate) fn give_turn() -> bool {
    worker().calls_in_a_row.set(0);
    let mut locked = lock();
    scheduler::lose_patience(&mut locked);
    look(&mut locked);
    let others = others_are_ready(&mut locked);
    yield_now(&mut locked);
    others
}

/// A worker's own stack: runs what is ready, and waits where nothing is.
pub(crate) extern "C" fn worker_loop() -> ! {
    let mut locked = Locked::taken_over();
    let worker = worker();
    loop {
        worker.current.set(&NOBODY);
        if let Some(thread) = worker.ended.take() {
            process::finish_thread(&mut locked, thread);
        }
        if worker.switches_left.get() <= 0 {
            look(&mut locked);
        }
        match dequeue(&mut locked) {
            Some(thread) => {
                become_current(worker, thread);
                // SAFETY: as in `switch_away`.
                unsafe {
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

/// Takes what has come, without waiting.
pub(crate) fn look(locked: &mut Locked) {
    expire(locked);
    take_events(locked, Some(clock::timespec(0)));
    settle(locked);
}

/// Waits until something comes.
fn wait(locked: &mut Locked) {
    let worker = worker();
    expire(locked);
    if worker.storm.get() != 0 {
        signals::calm();
    }
    // From here on, a signal rings the bell.
    worker.set_idle(true);
    let longest = scheduler::begin_sleep(locked);
    let longest = if held::any() { Some(clock::timespec(0)) } else { longest };
    let summoned = take_events(locked, longest);
    worker.set_idle(false);
    scheduler::end_sleep(locked);
    expire(locked);
    settle(locked);
    if summoned {
        scheduler::account_for_summons(locked);
    }
}

fn settle(locked: &mut Locked) {
    if held::any() {
        signals::assign_held(locked);
    }
    if worker().storm.get() != 0 {
        signals::calm();
    }
    worker().switches_left.set(SWITCHES);
}

/// Has the kernel tell what has come. Returns whether the bell was all.
fn take_events(locked: &mut Locked, timeout: Option<libc::timespec>) -> bool {
    let worker = worker();
    let room = worker.room_for_events();
    let timeout = timeout.as_ref().map_or(core::ptr::null(), |timeout| &raw const *timeout);
    let count = locked
        .released(|| sys!(SYS_epoll_pwait2, EPOLL.get(), room, EVENTS, timeout, 0, 8))
        .max(0) as usize;
    stats::LOOKS.add(1);
    let mut summoned = false;
    for index in 0..count {
        let event = worker.event(index);
        match event.u64 {
            BELL_DATA => {
                scheduler::heard(locked);
                summoned = !helpers::collect(locked) && count == 1;
            }
            ALARM_DATA => {
                scheduler::alarm(locked);
                expire(locked);
            }
            data => descriptors::event(locked, data, event.events),
        }
    }
    summoned
}
