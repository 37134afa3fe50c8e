//! The task of blocks that this kernel thread runs.

use std::cell::Cell;
use std::ptr;

use super::TaskState;

thread_local! {
    /// Points to the state that [`enter`] borrows, on the stack below. Null if no block runs.
    static RUNNING: Cell<*const TaskState> = const { Cell::new(ptr::null()) };
}

/// Calls `operation` with the task of the block that this kernel thread runs, if it runs one.
#[inline]
pub(crate) fn running<R>(operation: impl FnOnce(Option<&TaskState>) -> R) -> R {
    // SAFETY: the operation is called now, and cannot keep a reference.
    operation(unsafe { this_task() })
}

/// The task of the block that this kernel thread runs, if it runs one. Operations that wait use it.
///
/// # Safety
///
/// The reference must not outlive the call within which it was made.
#[inline(always)]
pub(crate) unsafe fn this_task<'a>() -> Option<&'a TaskState> {
    // SAFETY: non-null only while the guard that `enter` returned, which borrows the state, is
    // alive.
    unsafe { RUNNING.get().as_ref() }
}

/// Makes `task` the running one for as long as the result lives.
pub(super) fn enter(task: Option<&TaskState>) -> Entered<'_> {
    Entered { outer: RUNNING.replace(task.map_or(ptr::null(), ptr::from_ref)), _task: task }
}

/// Restores the former state, even after a panic.
pub(super) struct Entered<'a> {
    outer: *const TaskState,
    _task: Option<&'a TaskState>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        RUNNING.set(self.outer);
    }
}

/// While this value lives, no block runs here: another world was entered within a block.
pub(crate) struct Outside(#[expect(dead_code, reason = "restores on drop")] Entered<'static>);

impl Outside {
    pub(crate) fn enter() -> Self {
        Self(enter(None))
    }
}
