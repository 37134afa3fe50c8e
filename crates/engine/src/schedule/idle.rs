//! Workers without work: where these workers sleep, and the events that wake them.
//!
//! ```text
//!              nothing is ready                           the watcher has a thread to run
//!   worker ──┬──▶ watcher: sleeps in epoll, until an event or the next deadline ───────────┐
//!            └──▶ reserve: sleeps on a futex ──▶ deputy: looks again after a millisecond ◀─┘
//! ```
//!
//! One worker at a time is the watcher, so an event wakes one worker. The worker that ran a thread
//! last waits for that thread's next event. While the watcher runs a thread, a reserve stands in
//! for it as deputy. If no worker has looked at the descriptors for a millisecond, the deputy
//! becomes the watcher.
//!
//! A reserve is summoned when threads are ready. A single ready thread often runs in a moment, when
//! the current thread waits. Then the reserve has come for nothing. So after each needless wake-up,
//! the engine skips some single threads. The engine looks at a skipped thread again at the next
//! release of the lock, at the latest when the current turn is over.
//!
//! Waking a worker often costs more time than a thread runs for. Some workers come and soon have
//! nothing to run. After several of them, the next worker without work does not watch while others
//! run. That worker becomes deputy at once. The running workers look for events when they have run
//! the ready threads.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::kernel::bell::ring;
use crate::kernel::clock::{self, NEVER, Nanoseconds};
use crate::kernel::lock::{self, Guarded, Locked, Setting};
use crate::kernel::sys::{ETIMEDOUT, sys};
use crate::kernel::undelivered;
use crate::schedule::worker::MOST_WORKERS;

/// The reserve that stands in for the watcher.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Deputy {
    None,
    /// A reserve has been woken to serve.
    Called,
    Serving,
}

struct Idle {
    /// A worker sleeps in epoll, at most until `armed`.
    watched: bool,
    armed: Nanoseconds,
    /// The bell has been rung for the watcher: its deadline is now earlier, or it is to end.
    hurried: bool,
    /// The number of looks at the descriptors so far.
    looks: u32,
    reserves: usize,
    deputy: Deputy,
    /// A worker has been woken but has not come yet.
    summoned: bool,
    /// Single ready threads without a summoned worker.
    skipped: u32,
    /// The number of threads to skip after the next worker that comes for nothing.
    patience: u32,
    /// Counts workers that came for little work. A worker that had enough work halves the count.
    short_runs: u32,
}

const AWAKE: Idle = Idle {
    watched: false,
    armed: NEVER,
    hurried: false,
    looks: 0,
    reserves: 0,
    deputy: Deputy::None,
    summoned: false,
    skipped: 0,
    patience: 0,
    short_runs: 0,
};

static IDLE: Guarded<Idle> = Guarded::new(AWAKE);

/// The word that reserves sleep on. The word changes whenever a reserve is woken.
static CALLS: AtomicU32 = AtomicU32::new(0);

/// The function that starts one more worker, while more are allowed.
pub(crate) static START_WORKER: Setting<Option<fn(&mut Locked)>> = Setting::new(None);

/// After this many workers that came for little, the next one becomes deputy.
const FEW_RUNS: u32 = 8;
/// How long a deputy waits for some worker to look at the descriptors.
const STAND_IN: Nanoseconds = 1_000_000;

/// Called before the lock is released, with the number of ready threads. Decides whether to wake
/// another worker.
pub(crate) fn distribute(locked: &mut Locked, ready: usize) {
    let idle = IDLE.of(locked);
    if ready == 0 {
        return lock::attend(locked, false);
    }
    if idle.summoned {
        return;
    }
    if ready == 1 && idle.skipped > 0 {
        idle.skipped -= 1;
        return;
    }
    if idle.reserves > 0 {
        idle.summoned = true;
        owe_call(locked, RESERVE);
    } else if idle.watched {
        idle.summoned = true;
        lock::owe(locked, BELL);
    } else if let Some(start) = START_WORKER.get() {
        start(locked);
    }
}

/// Called at the end of a turn: ready threads have waited long enough.
pub(crate) fn lose_patience(locked: &mut Locked) {
    IDLE.of(locked).skipped = 0;
}

/// Called when a thread parks with a deadline: the watcher must not sleep longer.
pub(crate) fn expect(locked: &mut Locked, deadline: Nanoseconds) {
    let idle = IDLE.of(locked);
    if idle.watched && (idle.armed == NEVER || deadline < idle.armed) {
        idle.armed = deadline;
        idle.hurried = true;
        lock::owe(locked, BELL);
    }
}

/// Called when a worker that was not asleep has looked. The worker may have taken the event of the
/// bell that the watcher should receive: epoll reports an edge once.
pub(crate) fn remind_watcher(locked: &mut Locked) {
    let idle = IDLE.of(locked);
    if idle.watched && idle.hurried {
        lock::owe(locked, BELL);
    }
}

/// Takes note that a worker looks at the descriptors.
pub(crate) fn looked(locked: &mut Locked) {
    let idle = IDLE.of(locked);
    idle.looks = idle.looks.wrapping_add(1);
}

/// Whether another worker is the watcher.
pub(crate) fn is_watched(locked: &mut Locked) -> bool {
    IDLE.of(locked).watched
}

/// Makes this worker the watcher, until the next deadline.
pub(crate) fn begin_watch(locked: &mut Locked, deadline: Option<Nanoseconds>) {
    let idle = IDLE.of(locked);
    assert!(!idle.watched, "two workers watch");
    idle.watched = true;
    idle.armed = deadline.unwrap_or(NEVER);
    idle.hurried = false;
}

/// Ends this worker's time as the watcher.
pub(crate) fn end_watch(locked: &mut Locked) {
    let watched = core::mem::replace(&mut IDLE.of(locked).watched, false);
    assert!(watched, "a worker that does not watch stops watching");
}

/// Called when the worker that watched has a thread to run. A reserve must stand in.
pub(crate) fn call_deputy(locked: &mut Locked) {
    let idle = IDLE.of(locked);
    if idle.reserves > 0 && idle.deputy == Deputy::None {
        idle.deputy = Deputy::Called;
        owe_call(locked, DEPUTY);
    }
}

/// Notes that a worker has received the bell's event.
pub(crate) fn heard(locked: &mut Locked) {
    IDLE.of(locked).summoned = false;
    lock::attend(locked, true);
}

/// Notes that a woken worker has found so many threads ready.
pub(crate) fn came(locked: &mut Locked, ready: usize) {
    const MOST_PATIENCE: u32 = 1024;
    let idle = IDLE.of(locked);
    idle.summoned = false;
    if ready == 0 {
        idle.patience = (idle.patience * 2 + 1).min(MOST_PATIENCE);
        idle.skipped = idle.patience;
    } else {
        idle.patience /= 2;
        idle.skipped = 0;
    }
}

/// Notes how long a woken worker ran threads, before it had nothing more to run.
pub(crate) fn ran(locked: &mut Locked, time: Nanoseconds) {
    /// Several times the cost of waking a worker.
    const WORTH_WHILE: Nanoseconds = 50_000;
    let idle = IDLE.of(locked);
    if time < WORTH_WHILE {
        idle.short_runs = (idle.short_runs + 1).min(2 * FEW_RUNS);
    } else {
        idle.short_runs /= 2;
    }
}

/// Whether a worker without work becomes deputy at once, while one of `workers` runs threads.
pub(crate) fn begins_as_deputy(locked: &mut Locked, workers: usize) -> bool {
    let idle = IDLE.of(locked);
    let one_runs = others_run(idle, workers);
    one_runs && !idle.watched && idle.deputy == Deputy::None && idle.short_runs >= FEW_RUNS
}

/// Whether any of `workers` other than the caller's runs threads.
pub(crate) fn are_others_running(locked: &mut Locked, workers: usize) -> bool {
    others_run(IDLE.of(locked), workers)
}

fn others_run(idle: &Idle, workers: usize) -> bool {
    idle.reserves + usize::from(idle.watched) + 1 < workers
}

/// Sleeps in reserve while there is nothing to do: no thread is ready, as `ready` counts, and no
/// signal waits. A deputy's sleep also ends when no worker looks at the descriptors any more.
pub(crate) fn stand_by(
    locked: &mut Locked,
    mut serving: bool,
    ready: impl Fn(&mut Locked) -> usize,
) {
    let idle = IDLE.of(locked);
    idle.reserves += 1;
    assert!(idle.reserves <= MOST_WORKERS, "more workers sleep than exist");
    if serving {
        assert!(idle.deputy == Deputy::None, "two reserves stand in for the watcher");
        idle.deputy = Deputy::Serving;
    }
    loop {
        let looks = IDLE.of(locked).looks;
        let calls = CALLS.load(Ordering::Relaxed);
        if ready(locked) > 0 || undelivered::any() {
            break;
        }
        let timed_out = sleep(locked, calls, serving);
        let found = ready(locked);
        if IDLE.of(locked).summoned {
            // Check for a summons after a time-out too. The summons may have come at the same
            // moment, and no other worker would answer it.
            came(locked, found);
        }
        let idle = IDLE.of(locked);
        if idle.deputy == Deputy::Called {
            idle.deputy = Deputy::Serving;
            serving = true;
        } else if serving && timed_out && looks == idle.looks {
            if !idle.watched {
                // The running workers run for long, so this worker must look at the descriptors.
                idle.short_runs = 0;
                break;
            }
            // The program rests.
            idle.deputy = Deputy::None;
            serving = false;
        }
    }
    let idle = IDLE.of(locked);
    assert!(idle.reserves > 0, "a worker leaves the reserve that is not in it");
    idle.reserves -= 1;
    if serving {
        idle.deputy = Deputy::None;
    }
}

/// Sleeps until a call later than `calls`, or for a deputy's time. Returns whether the deputy's
/// time has passed.
fn sleep(locked: &mut Locked, calls: u32, serving: bool) -> bool {
    let time = clock::timespec(STAND_IN);
    let longest = serving.then_some(&time);
    let flags = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    locked.released(|| sys!(SYS_futex, &CALLS, flags, calls, longest)) == ETIMEDOUT
}

/// System calls that are made once the lock is free. The calls wake a reserve, the next deputy, and
/// the watcher.
const RESERVE: u32 = 1;
const DEPUTY: u32 = 2;
const BELL: u32 = 4;

/// Has a reserve woken. The word that the reserve sleeps on changes under the lock, so that the
/// reserve does not fall asleep meanwhile.
fn owe_call(locked: &mut Locked, call: u32) {
    CALLS.fetch_add(1, Ordering::Relaxed);
    lock::owe(locked, call);
}

/// Makes the calls that are due. Called after the lock has been released.
pub(crate) fn make_calls(owed: u32) {
    if owed & BELL != 0 {
        ring();
    }
    let reserves = (owed & (RESERVE | DEPUTY)).count_ones();
    if reserves > 0 {
        wake_reserves(reserves);
    }
}

/// Wakes a reserve. The signal handler may call this function.
pub(crate) fn call_reserve() {
    CALLS.fetch_add(1, Ordering::Relaxed);
    wake_reserves(1);
}

/// Wakes all workers that sleep. If another worker takes the bell's event, its look rings again.
pub(crate) fn call_all(locked: &mut Locked) {
    IDLE.of(locked).hurried = true;
    CALLS.fetch_add(1, Ordering::Relaxed);
    wake_reserves(i32::MAX as u32);
    ring();
}

fn wake_reserves(count: u32) {
    let flags = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    sys!(SYS_futex, &CALLS, flags, count);
}

/// Called in the child of a fork, which has no other workers.
pub(crate) fn reset_after_fork(locked: &mut Locked) {
    *IDLE.of(locked) = AWAKE;
}
