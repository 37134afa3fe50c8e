//! Names the task that holds a loop: the other tasks of this loop, its sockets and its times wait
//! until that task returns.
//!
//! ```text
//!   loop ── the turn, and its task ──▶ visible to other threads ◀── eight looks in a threshold ── watchdog
//! ```
//!
//! tokio has other threads that take over a part of such work. Here no other loop does, so that a
//! task which waits for another task of its loop, by a call that blocks, waits for ever.

use std::cell::Cell;
use std::collections::HashMap;
use std::env;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use duality_runtime::log;
use duality_runtime::visibility::{self, TaskTurn};
use rustix::thread::gettid;

use crate::world::misuse;

const VARIABLE: &str = "DUALITY_STALL";

/// The threshold by default. One line is enough then.
const BY_DEFAULT: Duration = Duration::from_secs(1);

/// The number of looks in a threshold.
const LOOKS: u32 = 8;

/// The running task of a loop's kernel thread. The threads of a process leave few of these.
#[derive(Debug)]
struct Shown {
    /// The kernel's number of the thread (gettid(2)). 0 without a loop.
    thread: AtomicU64,
    /// The number of the running task. 0 without one.
    task: AtomicU64,
    /// The place that spawned the running task.
    spawned: AtomicPtr<Location<'static>>,
}

thread_local! {
    static SHOWN: Cell<Option<&'static Shown>> = const { Cell::new(None) };
}

fn all() -> MutexGuard<'static, Vec<&'static Shown>> {
    static ALL: Mutex<Vec<&'static Shown>> = Mutex::new(Vec::new());
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Shows the running tasks of this kernel thread, which runs a loop, until the result is dropped.
/// Starts the watchdog.
pub(crate) fn watch() -> Watched {
    static BEGIN: Once = Once::new();
    BEGIN.call_once(|| {
        let (threshold, is_chosen) = threshold();
        if !threshold.is_zero() {
            let looks = move || look(threshold, is_chosen);
            // Without the thread, nothing is said.
            let _ = thread::Builder::new().name("duality-stalls".into()).spawn(looks);
        }
    });
    let thread = u64::from(gettid().as_raw_nonzero().get().unsigned_abs());
    let mut all = all();
    let free = all.iter().find(|shown| shown.thread.load(Ordering::Relaxed) == 0).copied();
    let shown = free.unwrap_or_else(|| {
        let (task, spawned) = (AtomicU64::new(0), AtomicPtr::default());
        let made = &*Box::leak(Box::new(Shown { thread: AtomicU64::new(0), task, spawned }));
        all.push(made);
        made
    });
    shown.thread.store(thread, Ordering::Relaxed);
    Watched(SHOWN.replace(Some(shown)))
}

/// Ends [`watch`] when it is dropped.
#[derive(Debug)]
pub(crate) struct Watched(Option<&'static Shown>);

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(shown) = SHOWN.replace(self.0) {
            shown.thread.store(0, Ordering::Relaxed);
        }
    }
}

/// Shows a task as the running one of this kernel thread. 0 and `None` stand for none. Returns what
/// was shown before.
pub(crate) fn show(
    task: u64,
    spawned: Option<&'static Location<'static>>,
) -> (u64, Option<&'static Location<'static>>) {
    let Some(shown) = SHOWN.get() else { return (0, None) };
    let spawned = spawned.map_or(ptr::null_mut(), |place| ptr::from_ref(place).cast_mut());
    let before = (shown.task.load(Ordering::Relaxed), shown.spawned.load(Ordering::Relaxed));
    shown.task.store(task, Ordering::Relaxed);
    shown.spawned.store(spawned, Ordering::Relaxed);
    (before.0, place(before.1))
}

fn place(spawned: *mut Location<'static>) -> Option<&'static Location<'static>> {
    // SAFETY: the pointer is null, or `show` has made it of a reference that lives for ever.
    unsafe { spawned.as_ref() }
}

/// The threshold, and whether the environment has chosen it. A wrong one ends the process.
fn threshold() -> (Duration, bool) {
    let Some(text) = env::var_os(VARIABLE) else { return (BY_DEFAULT, false) };
    match text.to_str().and_then(|text| text.parse().ok()) {
        Some(milliseconds) => (Duration::from_millis(milliseconds), true),
        None => misuse(&format!(
            "{VARIABLE}={} is no number of milliseconds; 0 reports nothing",
            text.to_string_lossy()
        )),
    }
}

/// The work of the watchdog. Without a chosen threshold, it reports one stall.
fn look(threshold: Duration, reports_all: bool) {
    let mut seen: HashMap<u32, (Option<TaskTurn>, Instant, bool)> = HashMap::new();
    loop {
        thread::sleep(threshold / LOOKS);
        let now = Instant::now();
        for found in visibility::loops() {
            let known = seen.entry(found.thread).or_insert((found.turn, now, false));
            if known.0 != found.turn || found.turn.is_none() {
                *known = (found.turn, now, false);
            } else if !known.2 && now - known.1 >= threshold {
                known.2 = tell(found.thread, now - known.1);
                if known.2 && !reports_all {
                    return;
                }
            }
        }
    }
}

/// Reports a stall. Returns false if the kernel thread runs no loop of this crate, or code that may
/// block.
fn tell(thread: u32, held: Duration) -> bool {
    let all = all();
    let Some(shown) =
        all.iter().find(|shown| shown.thread.load(Ordering::Relaxed) == u64::from(thread))
    else {
        return false;
    };
    let task = shown.task.load(Ordering::Relaxed);
    let who = match place(shown.spawned.load(Ordering::Relaxed)) {
        Some(spawned) => format!("task {task}, spawned at {spawned},"),
        None if task == 0 => "the future of block_on".to_owned(),
        None => return false,
    };
    log::warn(format_args!(
        "stall: {who} has held its loop (thread {thread}) for {} ms: the loop's tasks, sockets and times wait; a call \
         that blocks belongs in spawn_blocking or block_in_place ({VARIABLE}=0 reports nothing)",
        held.as_millis()
    ));
    true
}
