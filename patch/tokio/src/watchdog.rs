//! Names the task that holds a loop: the other tasks of this loop, its sockets and its times wait
//! until that task returns.
//!
//! ```text
//!   loop ── the turn, and its task ──▶ visible to other threads ◀── eight looks in a threshold ── watchdog
//!   other loops ◀── tasks that have not begun, if the thread of the loop waits in the kernel ────┘
//! ```
//!
//! With tokio, other threads take over such tasks, sockets and times. Here another loop takes over
//! the tasks that have not begun. So a task which waits for a task that has begun on its loop, by a
//! call that blocks, waits for ever.

use std::cell::Cell;
use std::collections::HashMap;
use std::env;
use std::fs;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
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

/// After this time in a call that waits, a loop is sent no further task.
const PATIENCE: Duration = Duration::from_millis(100);

/// The running task of a loop's kernel thread. The threads of a process leave few of these.
struct Shown {
    /// The kernel's number of the thread (gettid(2)). 0 without a loop.
    thread: AtomicU64,
    /// The number of the running task. 0 without one.
    task: AtomicU64,
    /// The place that spawned the running task.
    spawned: AtomicPtr<Location<'static>>,
    pass_over: Mutex<Option<PassOver>>,
}

/// Has a loop sent no further task, for `true`, or again.
pub(crate) type PassOver = Arc<dyn Fn(bool) + Send + Sync>;

thread_local! {
    static SHOWN: Cell<Option<&'static Shown>> = const { Cell::new(None) };
}

fn all() -> MutexGuard<'static, Vec<&'static Shown>> {
    static ALL: Mutex<Vec<&'static Shown>> = Mutex::new(Vec::new());
    lock(&ALL)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Shows the running tasks of this kernel thread, which runs a loop, until the result is dropped.
/// Without `pass_over`, no other loop can take tasks over. Starts the watchdog.
pub(crate) fn watch(pass_over: Option<PassOver>) -> Watched {
    static BEGIN: Once = Once::new();
    BEGIN.call_once(|| {
        let (threshold, is_chosen) = threshold();
        let looks = move || look(threshold, is_chosen);
        // Without the thread, nothing is said, and each loop keeps its tasks.
        let _ = thread::Builder::new().name("duality-stalls".into()).spawn(looks);
    });
    let thread = u64::from(gettid().as_raw_nonzero().get().unsigned_abs());
    let mut all = all();
    let free = all.iter().find(|shown| shown.thread.load(Ordering::Relaxed) == 0).copied();
    let shown = free.unwrap_or_else(|| {
        let made = &*Box::leak(Box::new(Shown {
            thread: AtomicU64::new(0),
            task: AtomicU64::new(0),
            spawned: AtomicPtr::default(),
            pass_over: Mutex::default(),
        }));
        all.push(made);
        made
    });
    *lock(&shown.pass_over) = pass_over;
    shown.thread.store(thread, Ordering::Relaxed);
    Watched(SHOWN.replace(Some(shown)))
}

/// Ends [`watch`] when it is dropped.
pub(crate) struct Watched(Option<&'static Shown>);

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(shown) = SHOWN.replace(self.0) {
            *lock(&shown.pass_over) = None;
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

/// What the watchdog knows of a loop's kernel thread.
struct Seen {
    turn: Option<TaskTurn>,
    /// The time of the first look that found this turn.
    since: Instant,
    /// Whether the turn has been reported, and as a wait.
    told: Option<Found>,
    /// Set while the loop is sent no further task.
    passed_over: Option<PassOver>,
}

/// What a thread that holds its loop does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Computes,
    Waits,
}

impl Seen {
    fn new(turn: Option<TaskTurn>, since: Instant) -> Self {
        Self { turn, since, told: None, passed_over: None }
    }
}

/// The work of the watchdog. Without a chosen threshold, it reports one stall.
fn look(threshold: Duration, reports_all: bool) {
    let mut seen: HashMap<u32, Seen> = HashMap::new();
    let mut reports = !threshold.is_zero();
    let pause = if reports { (threshold / LOOKS).min(PATIENCE) } else { PATIENCE };
    loop {
        thread::sleep(pause);
        let now = Instant::now();
        for found in visibility::loops() {
            let known = seen.entry(found.thread).or_insert_with(|| Seen::new(found.turn, now));
            if known.turn != found.turn || found.turn.is_none() {
                known.passed_over.iter().for_each(|pass_over| pass_over(false));
                *known = Seen::new(found.turn, now);
                continue;
            }
            let held = now - known.since;
            if held < pause || (known.told == Some(Found::Waits) && known.passed_over.is_some()) {
                continue;
            }
            let does = if waits(found.thread) { Found::Waits } else { Found::Computes };
            if does == Found::Waits && held >= PATIENCE && known.passed_over.is_none() {
                let shown = shown_of(&all(), found.thread);
                // Called without the locks of this file.
                known.passed_over = shown.and_then(|shown| lock(&shown.pass_over).clone());
                known.passed_over.iter().for_each(|pass_over| pass_over(true));
            }
            let is_due = reports && held >= threshold && known.told != Some(does);
            if is_due && tell(found.thread, held, does) {
                known.told = Some(does);
                reports = reports_all;
            }
        }
    }
}

/// Whether a kernel thread of this process waits in the kernel. In proc(5)'s `stat`, the state
/// follows the name in parentheses.
fn waits(thread: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    status.rsplit_once(") ").is_some_and(|(_, after)| after.starts_with(['S', 'D']))
}

fn shown_of(all: &[&'static Shown], thread: u32) -> Option<&'static Shown> {
    let is_of = |shown: &&&Shown| shown.thread.load(Ordering::Relaxed) == u64::from(thread);
    all.iter().find(is_of).copied()
}

/// Reports a stall. Returns false if the kernel thread runs no loop of this crate, or code that may
/// block.
fn tell(thread: u32, held: Duration, does: Found) -> bool {
    let Some(shown) = shown_of(&all(), thread) else { return false };
    let task = shown.task.load(Ordering::Relaxed);
    let who = match place(shown.spawned.load(Ordering::Relaxed)) {
        Some(spawned) => format!("task {task}, spawned at {spawned},"),
        None if task == 0 => "the future of block_on".to_owned(),
        None => return false,
    };
    let held = format!("{who} has held its loop (thread {thread}) for {} ms", held.as_millis());
    match does {
        Found::Waits => log::warn(format_args!(
            "stall: {held}, in a call that waits: the loop's tasks, sockets and times wait, too; if the call waits for \
             one of them, as another executor's block_on does, it waits for ever: use .await, or spawn_blocking \
             ({VARIABLE}=0 reports nothing)"
        )),
        Found::Computes => log::warn(format_args!(
            "stall: {held}, and computes: the loop's tasks, sockets and times wait; long work belongs in \
             spawn_blocking or block_in_place ({VARIABLE}=0 reports nothing)"
        )),
    }
    true
}
