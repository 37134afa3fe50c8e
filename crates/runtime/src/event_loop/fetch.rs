//! The memory of tasks whose turn comes soon, asked for before it is touched.
//!
//! ```text
//!   few:   running │ 1 │ 2 │ 3: its stack, or its state │ … │ 8: its control block, which leads there │ …
//!   many:  running │ 1 │ 2 │ 3: the same, more of it    │ 4 … 19: its page │ 20 … 35: its control block │ …
//!                                                       └─ every sixteen turns, for sixteen at once ────┘
//! ```
//!
//! The processor waits for a fetch, too, where it has to look up the page first, and with many tasks the tables of their pages
//! are in no cache (some 0.8 µs by a profile, a tenth of a request at 15,000 connections). But it looks up several at a time; so it is asked
//! for a line of each of sixteen pages then, and for the others when the page is known. These are more of each stack than with
//! few tasks: all that calls return to before the task waits again, as far as can be told. For a line that comes late is not only waited for where it is
//! read. Where it is written, the store waits, and behind it all later ones; so does whatever needs them done, as a
//! system call does that refers to a file. With few tasks, all this would cost more than it gains: a tenth of a wake.

use super::tasks::{Body, Task, Tasks};
use super::waker::TaskName;
use std::ptr;

/// How many tasks ahead of its turn a stack is fetched: far enough for memory to answer, not so far
/// that it is gone again from the first-level cache.
pub(super) const STACK_AHEAD: usize = 3;
/// And a control block, which leads to the stack.
pub(super) const TASK_AHEAD: usize = 8;
/// How many lines of a stack at most, from where it was left.
const LINES: usize = 2;

/// So many tasks are many.
const MANY: usize = 4096;
/// How many pages are asked for at once, from this one on.
const GROUP: usize = 16;
const PAGES: usize = STACK_AHEAD + 1;
const LINES_OF_MANY: usize = 16;

impl Tasks {
    /// Asks for the control block of a task that will be woken.
    #[inline]
    pub(super) fn fetch(&self, name: TaskName) {
        if let Some(task) = self.at(name.slot()) {
            task.fetch_block();
        }
    }

    /// Asks for the memory of the tasks that begin a round, where tasks are many: nobody had his turn before them to do so.
    pub(super) fn fetch_first(&self) {
        let queued = self.ready.len();
        if self.used.get() <= MANY {
            return;
        }
        // The pages of all first, then the other lines of those that [`fetch_group`](Tasks::fetch_group) leaves out.
        for (most, lines) in [(PAGES + GROUP, 1), (PAGES, LINES_OF_MANY)] {
            for others in 0..queued.min(most) {
                // SAFETY: so many are queued.
                unsafe { self.ahead(others) }.fetch_body(lines);
            }
        }
    }

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
            // SAFETY: so many are queued, and more than `STACK_AHEAD`, by what is asked of the caller.
            return unsafe { self.fetch_group(queued) };
        }
        // SAFETY: more are queued.
        unsafe { self.ahead(STACK_AHEAD) }.fetch_body(LINES);
        if queued > TASK_AHEAD {
            // SAFETY: so many are queued.
            unsafe { self.ahead(TASK_AHEAD) }.fetch_block();
        }
    }

    /// The same where tasks are many.
    ///
    /// # Safety
    ///
    /// So many are queued, and more than [`STACK_AHEAD`].
    #[inline(never)]
    unsafe fn fetch_group(&self, queued: usize) {
        const BLOCKS: usize = PAGES + GROUP;
        if self.ready.taken().is_multiple_of(GROUP) {
            for others in PAGES..queued.min(PAGES + GROUP) {
                // SAFETY: so many are queued.
                unsafe { self.ahead(others) }.fetch_body(1);
            }
            for others in BLOCKS..queued.min(BLOCKS + GROUP) {
                // SAFETY: so many are queued.
                unsafe { self.ahead(others) }.fetch_block();
            }
        }
        // SAFETY: more are queued.
        unsafe { self.ahead(STACK_AHEAD) }.fetch_body(LINES_OF_MANY);
    }
}

impl Task {
    /// Asks for what the task touches first, by its control block.
    #[inline(always)]
    fn fetch_body(&self, lines: usize) {
        // SAFETY: nobody has an exclusive reference to it. It is asked for as a turn begins, so no future is polled, nor is a
        // body dropped. A fiber may run even so, the one that has queued itself and leaves; but fibers are reached by shared
        // references, and its place is null then, which leads to addresses that are fetched in vain.
        match unsafe { &*self.body.get() } {
            Some(Body::Fiber(fiber)) => fiber.fetch(lines),
            Some(Body::Future(future)) => duality_fiber::fetch(future.address()),
            None => {}
        }
    }

    #[inline(always)]
    fn fetch_block(&self) {
        duality_fiber::fetch(ptr::from_ref(self).addr());
    }
}
