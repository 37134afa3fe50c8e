//! The memory of tasks whose turn comes soon, asked for before it is touched.
//!
//! ```text
//!   ready:  running │ 1 │ 2 │ 3: its stack, or its state │ … │ 8: its control block, which leads there │ …
//! ```
//!
//! The processor waits for a fetch, too, where it has to look up the page first, and with many tasks the tables of their pages
//! are in no cache (0.2 µs, a fiftieth of a request at 15,000 connections). But it looks up several at a time; so it is asked
//! for several then, and for more of each stack, since what there are many of waits in the calls of a service. With few, both
//! cost more than they gain: a tenth of a wake.

use super::tasks::{Body, TaskRef, Tasks};

/// How many tasks ahead of its turn a stack is fetched: far enough for memory to answer, not so far
/// that it is gone again from the first-level cache.
pub(super) const STACK_AHEAD: usize = 3;
/// And a control block, which leads to the stack.
const TASK_AHEAD: usize = 8;
/// How many lines of a stack, from where it was left.
const LINES: usize = 2;

/// So many tasks are many.
const MANY: usize = 4096;
const GROUP: usize = 4;
const LINES_OF_MANY: usize = 4;

impl Tasks {
    /// Asks for the memory of tasks whose turn comes soon, of so many that are queued.
    ///
    /// Apart, since it would take registers that its caller has to save first, also when few tasks take turns.
    ///
    /// # Safety
    ///
    /// So many are queued, and more than [`STACK_AHEAD`].
    #[inline(never)]
    pub(super) unsafe fn fetch_ahead(&self, queued: usize) {
        if self.used.get() > MANY {
            // SAFETY: as is asked of the caller.
            return unsafe { self.fetch_group(queued) };
        }
        // SAFETY: more are queued.
        unsafe { self.ready.ahead(STACK_AHEAD) }.fetch_body(LINES);
        if queued > TASK_AHEAD {
            // SAFETY: so many are queued.
            unsafe { self.ready.ahead(TASK_AHEAD) }.fetch_block();
        }
    }

    /// The same where tasks are many: for `GROUP` of them at every so many turns.
    ///
    /// # Safety
    ///
    /// So many are queued.
    #[inline(never)]
    unsafe fn fetch_group(&self, queued: usize) {
        if !self.ready.taken().is_multiple_of(GROUP) {
            return;
        }
        for others in STACK_AHEAD..queued.min(STACK_AHEAD + GROUP) {
            // SAFETY: so many are queued.
            unsafe { self.ready.ahead(others) }.fetch_body(LINES_OF_MANY);
        }
        for others in TASK_AHEAD..queued.min(TASK_AHEAD + GROUP) {
            // SAFETY: so many are queued.
            unsafe { self.ready.ahead(others) }.fetch_block();
        }
    }
}

impl TaskRef {
    /// Asks for what the task touches first, by its control block.
    #[inline(always)]
    fn fetch_body(self, lines: usize) {
        // SAFETY: a task that is queued does not run, and nobody else has its body.
        match unsafe { &*self.body.get() } {
            Some(Body::Fiber(fiber)) => fiber.fetch(lines),
            Some(Body::Future(future)) => duality_fiber::fetch((&raw const **future).addr()),
            None => {}
        }
    }

    #[inline(always)]
    fn fetch_block(self) {
        duality_fiber::fetch(self.0.addr().get());
    }
}
