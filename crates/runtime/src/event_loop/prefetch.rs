//! Asks for the memory of tasks before their turn comes.
//!
//! ```text
//!   few:   running │ 1 │ 2 │ 3: its stack, or its state │ … │ 8: its control block │ …
//!   many:  running │ 1 │ 2 │ 3: the same, more of it │ 4…19: its page │ 20…35: control block │ …
//!                                                    └─ every 16 turns, for 16 at once ──────┘
//! ```
//!
//! A micro-optimisation. The processor waits for a prefetch, too, where it has to look up the page
//! first. With many tasks the tables of their pages are in no cache. That wait is some 0.8 µs by a
//! profile, a tenth of a request at 15,000 connections. But the processor looks up several pages at
//! a time. So the loop asks for one line of each of sixteen pages, and for the other lines when the
//! pages are known.
//!
//! With many tasks, the loop asks for more of each stack than with few. It prefetches the frames to
//! which calls return before the task waits again, as far as can be told. A late line holds up more
//! than its reader. A store to it waits, all later stores wait behind that one, and so does
//! whatever needs them done. A system call that refers to a file is an example. With few tasks, all
//! this would cost more than it gains: a tenth of a wake.
//!
//! | gain | measured by | delete it if it gains less than |
//! | --- | --- | --- |
//! | 4 % of a request of http on uthreads at 15,000 connections (7.6 µs, and 7.9 without; medians of twelve and of six windows); nothing on epoll or at 5,000 | a plan with builds as peers, `blocks = 0`, `concurrency = [15000]`; `cargo bench -p duality-runtime --bench wakes` | 3 % of such a request |

use std::ptr;

use super::tasks::{Task, TaskBody, Tasks};
use crate::remote::TaskName;

/// The number of turns by which a stack is fetched ahead. That is far enough for memory to answer,
/// and not so far that it is gone again from the first-level cache.
const STACK_AHEAD: usize = 3;
/// The number of turns by which a control block is fetched ahead. The control block leads to the
/// stack.
const TASK_AHEAD: usize = 8;
/// The most lines of a stack to fetch, from the stack pointer on.
const LINES: usize = 2;

/// More tasks than this are many.
const MANY: usize = 4096;
/// The number of pages to fetch at once, from this page on.
const GROUP: usize = 16;
const PAGES: usize = STACK_AHEAD + 1;
const LINES_OF_MANY: usize = 16;

impl Tasks {
    /// Asks for the control block of a task that is woken soon after that of `index`.
    #[inline]
    pub(super) fn prefetch_woken(&self, woken: &[TaskName], index: usize) {
        if let Some(task) = woken.get(index + TASK_AHEAD).and_then(|later| self.at(later.slot())) {
            task.prefetch_block();
        }
    }

    /// Asks for the memory of the tasks that begin a round, where tasks are many: no turn came
    /// before them that could do so.
    pub(super) fn prefetch_first(&self) {
        let queued = self.ready.len();
        if self.used.get() <= MANY {
            return;
        }
        // The pages of all first, then the other lines of those that
        // [`prefetch_group`](Tasks::prefetch_group) leaves out.
        for (most, lines) in [(PAGES + GROUP, 1), (PAGES, LINES_OF_MANY)] {
            for others in 0..queued.min(most) {
                // SAFETY: so many are queued.
                unsafe { self.ahead(others) }.prefetch_body(lines);
            }
        }
    }

    /// Asks for the memory of tasks before their turn comes, of so many that are queued.
    ///
    /// # Safety
    ///
    /// So many are queued.
    #[inline]
    pub(super) unsafe fn prefetch_ahead(&self, queued: usize) {
        if queued > STACK_AHEAD {
            // SAFETY: the caller promises that so many are queued.
            unsafe { self.prefetch_some(queued) };
        }
    }

    /// Apart, since it would take registers that its caller has to save first, also when few tasks
    /// take turns.
    ///
    /// # Safety
    ///
    /// So many are queued, and more than [`STACK_AHEAD`].
    #[inline(never)]
    unsafe fn prefetch_some(&self, queued: usize) {
        if self.used.get() > MANY {
            // SAFETY: the caller promises that so many are queued, more than `STACK_AHEAD`.
            return unsafe { self.prefetch_group(queued) };
        }
        // SAFETY: more are queued.
        unsafe { self.ahead(STACK_AHEAD) }.prefetch_body(LINES);
        if queued > TASK_AHEAD {
            // SAFETY: so many are queued.
            unsafe { self.ahead(TASK_AHEAD) }.prefetch_block();
        }
    }

    /// The version for many tasks.
    ///
    /// # Safety
    ///
    /// So many are queued, and more than [`STACK_AHEAD`].
    #[inline(never)]
    unsafe fn prefetch_group(&self, queued: usize) {
        const BLOCKS: usize = PAGES + GROUP;
        if self.ready.taken().is_multiple_of(GROUP) {
            for others in PAGES..queued.min(PAGES + GROUP) {
                // SAFETY: so many are queued.
                unsafe { self.ahead(others) }.prefetch_body(1);
            }
            for others in BLOCKS..queued.min(BLOCKS + GROUP) {
                // SAFETY: so many are queued.
                unsafe { self.ahead(others) }.prefetch_block();
            }
        }
        // SAFETY: more are queued.
        unsafe { self.ahead(STACK_AHEAD) }.prefetch_body(LINES_OF_MANY);
    }

    /// The task that is queued after `others`.
    ///
    /// # Safety
    ///
    /// More than so many are queued.
    #[inline]
    unsafe fn ahead(&self, others: usize) -> &Task {
        // SAFETY: only control blocks of this table that have been written are queued.
        unsafe { self.ready.ahead(others).as_ref() }
    }
}

impl Task {
    /// Asks for what the task touches first, by its control block.
    #[inline(always)]
    fn prefetch_body(&self, lines: usize) {
        // SAFETY: there is no exclusive reference to the body. The loop calls this at the start of
        // a turn. Then no future is polled and no body is dropped. One fiber may still run: the
        // fiber that has queued itself and leaves. But fibers are reached by shared references. The
        // place of that fiber is null then, which leads to addresses that are fetched in vain.
        match unsafe { &*self.body.get() } {
            Some(TaskBody::Fiber(fiber)) => fiber.prefetch(lines),
            Some(TaskBody::Future(future)) => {
                duality_fiber::prefetch((&raw const **future).addr());
            }
            None => {}
        }
    }

    #[inline(always)]
    fn prefetch_block(&self) {
        duality_fiber::prefetch(ptr::from_ref(self).addr());
    }
}
