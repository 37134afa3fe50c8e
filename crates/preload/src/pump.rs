//! The worker's own loop: runs what is ready, looks at the descriptors, waits where there is nothing to run.

use crate::clock;
use crate::descriptors;
use crate::frame::duality_switch;
use crate::helpers;
use crate::lock::{Locked, lock};
use crate::process;
use crate::scheduler::{
    self, BELL, BELL_DATA, EPOLL, become_current, dequeue, enqueue, expire, others_are_ready,
    switch_away,
};
use crate::signals;
use crate::stats;
use crate::sys::sys;
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
        enqueue(locked, current());
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
    look(&mut locked);
    let others = others_are_ready(&mut locked);
    yield_now(&mut locked);
    others
}

/// A worker's own stack: runs what is ready, and waits where nothing is.
pub(crate) extern "C" fn worker_loop() -> ! {
    let mut locked = Locked::taken_over();
    loop {
        let worker = worker();
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
    take_events(locked, Some(libc::timespec { tv_sec: 0, tv_nsec: 0 }));
    settle(locked);
}

/// Waits until something comes.
fn wait(locked: &mut Locked) {
    let worker = worker();
    expire(locked);
    // From here on, a signal rings the bell.
    worker.set_idle(true);
    let nothing = if worker.has_held() || others_are_ready(locked) {
        Some(libc::timespec { tv_sec: 0, tv_nsec: 0 })
    } else {
        scheduler::next_deadline(locked).map(clock::left)
    };
    take_events(locked, nothing);
    worker.set_idle(false);
    expire(locked);
    settle(locked);
}

fn settle(locked: &mut Locked) {
    let worker = worker();
    if worker.has_held() {
        signals::assign_held(locked);
    }
    worker.switches_left.set(SWITCHES);
}

fn take_events(locked: &mut Locked, timeout: Option<libc::timespec>) {
    let worker = worker();
    let room = worker.room_for_events();
    let timeout = timeout.as_ref().map_or(core::ptr::null(), |timeout| &raw const *timeout);
    let count = sys!(SYS_epoll_pwait2, EPOLL.get(), room, EVENTS, timeout, 0, 8);
    stats::LOOKS.add(1);
    for index in 0..count.max(0) as usize {
        let event = worker.event(index);
        match event.u64 {
            BELL_DATA => {
                let mut rings = 0u64;
                sys!(SYS_read, BELL.get(), &raw mut rings, 8);
                helpers::collect(locked);
            }
            data => descriptors::event(locked, data, event.events),
        }
    }
}
