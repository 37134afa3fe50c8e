//! What a kernel thread knows of runtimes: the current one, and whether its code may block.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use super::{Handle, RuntimeId, TryCurrentError, simulated};
use crate::budget::without_budget;
use crate::watchdog;

thread_local! {
    static CURRENT: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
    static PLACE: Cell<Place> = const { Cell::new(Place::OUTSIDE) };
}

/// Where the code of this kernel thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    /// Whether a task, or the future of `block_on`, runs.
    is_inside: bool,
    /// Whether this code may call `block_in_place`.
    may_leave: bool,
    /// The runtime with a loop that gives this code its turn.
    runtime: Option<RuntimeId>,
    /// The number of the loop that this code holds up, by `block_in_place`.
    held_up: Option<usize>,
}

impl Place {
    const OUTSIDE: Self = Self { is_inside: false, may_leave: true, runtime: None, held_up: None };
}

/// Calls `operation` with the current runtime.
///
/// # Panics
///
/// If there is none.
#[track_caller]
pub(crate) fn with_current<R>(operation: impl FnOnce(&Handle) -> R) -> R {
    match try_current() {
        Ok(handle) => operation(&handle),
        Err(error) => panic!("{error}"),
    }
}

/// Checks that there is a current runtime.
///
/// # Panics
///
/// If there is none.
#[track_caller]
pub(crate) fn check() {
    let has_any = CURRENT.try_with(|current| !current.borrow().is_empty());
    if !has_any.unwrap_or_default() {
        with_current(|_| ());
    }
}

pub(crate) fn try_current() -> Result<Handle, TryCurrentError> {
    if let Some(handle) = simulated::current() {
        return Ok(handle);
    }
    let current = CURRENT.try_with(|current| current.borrow().last().cloned());
    current.map_err(|_| TryCurrentError::gone())?.ok_or(TryCurrentError::missing())
}

/// Makes `handle` the current runtime. [`exit`] ends that. At the end of the thread, which drops
/// runtimes in its thread-local variables, no runtime is current.
pub(crate) fn enter(handle: Handle) -> usize {
    if let Some(depth) = simulated::enter(&handle) {
        return depth;
    }
    let entered = CURRENT.try_with(|current| {
        let mut current = current.borrow_mut();
        current.push(handle);
        current.len()
    });
    entered.unwrap_or_default()
}

/// Ends [`enter`], which returned `depth`.
pub(crate) fn exit(depth: usize) {
    if simulated::exit(depth) {
        return;
    }
    let left = CURRENT.try_with(|current| {
        let mut current = current.borrow_mut();
        let is_last = current.len() == depth;
        current.pop().filter(|_| is_last)
    });
    if let Ok(None) = left
        && !std::thread::panicking()
    {
        panic!("`EnterGuard` values dropped out of order. Drop them in reverse order");
    }
}

/// Whether a task, or the future of `block_on`, runs on this kernel thread.
pub(crate) fn is_inside() -> bool {
    PLACE.get().is_inside || simulated::is_here()
}

/// Whether a loop of the runtime with this number runs the calling code.
pub(crate) fn is_on_loop_of(runtime: RuntimeId) -> bool {
    PLACE.get().runtime == Some(runtime)
}

/// The number of the loop that the calling code holds up.
pub(crate) fn held_up() -> Option<usize> {
    PLACE.get().held_up
}

/// The number of the loop of this kernel thread, for [`held_up`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Driver {
    /// Each wait is in place.
    InPlace,
    /// The loop with this number, of the runtime with this one.
    Loop { runtime: RuntimeId, number: usize },
}

thread_local! {
    static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The number of the loop of this kernel thread.
pub(crate) fn loop_number() -> Option<usize> {
    NUMBER.get()
}

/// Restores the state of the kernel thread.
#[derive(Debug)]
pub(crate) struct Restore {
    place: Place,
    number: Option<usize>,
    /// The depth of the context that was entered, if one was.
    depth: Option<usize>,
}

impl Drop for Restore {
    fn drop(&mut self) {
        PLACE.set(self.place);
        NUMBER.set(self.number);
        if let Some(depth) = self.depth {
            exit(depth);
        }
    }
}

/// Calls `body`, which runs tasks or a future of `handle` on this kernel thread. `may_leave` says
/// whether they may call `block_in_place`.
///
/// # Panics
///
/// If this kernel thread runs a task or a future already.
#[track_caller]
pub(crate) fn run<R>(
    handle: Handle,
    driver: Driver,
    may_leave: bool,
    body: impl FnOnce() -> R,
) -> R {
    assert!(
        !is_inside(),
        "Cannot start a runtime from within a runtime. This happens because a function (like `block_on`) attempted to \
         block the current thread while the thread is being used to drive asynchronous tasks. If you are in an async \
         function, use `.await` on the future instead of blocking on it."
    );
    let (runtime, number) = match driver {
        Driver::InPlace => (None, None),
        Driver::Loop { runtime, number } => (Some(runtime), Some(number)),
    };
    let pass_over = number.filter(|_| may_leave).map(|number| {
        let shared = Arc::downgrade(&handle.shared);
        let pass_over = move |is_passed_over: bool| {
            shared.upgrade().iter().for_each(|shared| shared.pass_over(number, is_passed_over));
        };
        Arc::new(pass_over) as watchdog::PassOver
    });
    let _restore = Restore {
        depth: Some(enter(handle)),
        // The code may have left a loop by `block_in_place`, and hold it up still.
        place: PLACE.replace(Place { is_inside: true, may_leave, runtime, held_up: held_up() }),
        number: NUMBER.replace(number),
    };
    let _watched = number.map(|_| watchdog::watch(pass_over));
    without_blocking(body)
}

/// Calls `body`. In it, the genuine tokio's calls that block panic, such as `blocking_recv`. On a
/// loop they would wait for ever for other tasks of the loop.
///
/// The genuine tokio forbids them within its own runtimes. So this kernel thread waits on one that
/// has neither threads nor tasks.
fn without_blocking<R>(body: impl FnOnce() -> R) -> R {
    static GENUINE: OnceLock<real::runtime::Runtime> = OnceLock::new();
    let build = || real::runtime::Builder::new_current_thread().build();
    let genuine =
        GENUINE.get_or_init(|| build().expect("a runtime without I/O and time needs memory alone"));
    let mut body = Some(body);
    genuine.handle().block_on(poll_fn(|_| match body.take() {
        Some(body) => Poll::Ready(body()),
        None => Poll::Pending,
    }))
}

/// Forbids the code of this kernel thread to call `block_in_place`, until the result is dropped.
pub(crate) fn stay() -> Restore {
    let place = PLACE.get();
    // Outside of a runtime, code may always block.
    let may_leave = place.may_leave && !place.is_inside;
    Restore {
        depth: None,
        place: PLACE.replace(Place { may_leave, ..place }),
        number: NUMBER.get(),
    }
}

/// Stands for a task that may block.
const BLOCKS: u64 = u64::MAX;

/// Calls `work`, which may block this kernel thread.
///
/// # Panics
///
/// If the calling code may not block.
#[track_caller]
pub(crate) fn leave<R>(work: impl FnOnce() -> R) -> R {
    if simulated::is_here() {
        return work();
    }
    let place = PLACE.get();
    assert!(place.may_leave, "can call blocking only when running on the multi-threaded runtime");
    let held_up = place.held_up.or(NUMBER.get());
    let _restore = Restore {
        depth: None,
        place: PLACE.replace(Place { held_up, ..Place::OUTSIDE }),
        number: NUMBER.get(),
    };
    let (task, spawned) = watchdog::show(BLOCKS, None);
    // Without a worker of its own, the genuine tokio does not put the task's budget back.
    let done = without_budget(&mut Context::from_waker(Waker::noop()), |_| {
        real::task::block_in_place(work)
    });
    watchdog::show(task, spawned);
    done
}
