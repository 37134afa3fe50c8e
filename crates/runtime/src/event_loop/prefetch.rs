//! Asks for the memory of tasks before their turn comes.
//!
//! ```text
//!   few:   running │ 1 │ 2 │ 3: its stack, or its state │ … │ 8: its control block │ …
//!   many:  running │ 1 │ 2 │ 3: the same, more of it │ 4…19: its page │ 20…35: control block │ …
//!                                                    └─ every 16 turns, for 16 at once ──────┘
//! ```
//!
//! A micro-optimisation. The processor waits for a prefetch too, if it has to look up the page
//! first. With many tasks, the tables of their pages are in no cache. According to a profile, the
//! wait takes some 0.8 µs, a tenth of a request at 15,000 connections. But the processor looks up
//! several pages at a time. So the loop asks for one line of each of sixteen pages, and for the
//! other lines when the pages have been looked up.
//!
//! With many tasks, the loop asks for more of each stack than with few. The loop prefetches the
//! frames to which calls return before the task waits again, as far as can be told. A late line
//! delays more code than its reader. A store to the line waits, and all later stores wait behind
//! it. So does any operation that needs these stores to be done. A system call that refers to a
//! file is an example. With few tasks, all this would cost more than it gains: a tenth of a wake.
//!
//! | gain | measured by | delete it if it gains less than |
//! | --- | --- | --- |
//! | 4 % of a request of http on uthreads at 15,000 connections (7.6 µs, and 7.9 without; medians of twelve and of six windows); nothing on epoll or at 5,000 | a plan with builds as peers, `blocks = 0`, `concurrency = [15000]`; `cargo bench -p duality-runtime --bench wakes` | 3 % of such a request |

use std::ptr;

use super::tasks::{Task, TaskBody, Tasks};
use crate::remote::TaskName;

/// The number of turns by which a stack is fetched ahead. In this time memory answers, and the
/// first-level cache still holds the line.
const STACK_AHEAD: usize = 3;
/// The number of turns by which a control block is fetched ahead. The control block leads to the
/// stack.
const TASK_AHEAD: usize = 8;
/// The most lines of a stack to fetch, from the stack pointer on.
const LINES: usize = 2;

/// More tasks than this count as many.
const MANY: usize = 4096;
/// The number of pages to fetch at once, from this page on.
const GROUP: usize = 16;
const PAGES: usize = STACK_AHEAD + 1;
const LINES_OF_MANY: usize = 16;

impl Tasks {
    /// Asks for the control block of the task that comes soon after that of `index`.
    #[inline]
    pub(super) fn prefetch_woken(&self, woken: &[TaskName], index: usize) {
        if let Some(task) = woken.get(index + TASK_AHEAD).and_then(|later| self.at(later.slot())) {
            task.prefetch_block();
        }
    }

    /// Asks for the memory of the tasks that begin a round, if tasks are many. No turn before them
    /// could ask.
    pub(super) fn prefetch_first(&self) {
        let queued = self.ready.len();
        if self.used.get() <= MANY {
            return;
        }
        // First the pages of all tasks, then the other lines that
        // [`prefetch_group`](Tasks::prefetch_group) leaves out.
        for (most, lines) in [(PAGES + GROUP, 1), (PAGES, LINES_OF_MANY)] {
            for others in 0..queued.min(most) {
                // SAFETY: this many are queued.
                unsafe { self.ahead(others) }.prefetch_body(lines);
            }
        }
    }

    /// Asks for the memory of tasks before their turn. `queued` is the number of queued tasks.
    ///
    /// # Safety
    ///
    /// At least `queued` tasks are queued.
    #[inline]
    pub(super) unsafe fn prefetch_ahead(&self, queued: usize) {
        if queued > STACK_AHEAD {
            // SAFETY: the caller promises that this many are queued.
            unsafe { self.prefetch_some(queued) };
        }
    }

    /// A separate function, because it uses registers that its caller would have to save first,
    /// even when few tasks take turns.
    ///
    /// # Safety
    ///
    /// At least `queued` tasks are queued, and more than [`STACK_AHEAD`].
    #[inline(never)]
    unsafe fn prefetch_some(&self, queued: usize) {
        if self.used.get() > MANY {
            // SAFETY: the caller promises that this many are queued, more than `STACK_AHEAD`.
            return unsafe { self.prefetch_group(queued) };
        }
        // SAFETY: more are queued.
        unsafe { self.ahead(STACK_AHEAD) }.prefetch_body(LINES);
        if queued > TASK_AHEAD {
            // SAFETY: this many are queued.
            unsafe { self.ahead(TASK_AHEAD) }.prefetch_block();
        }
    }

    /// The version for many tasks.
    ///
    /// # Safety
    ///
    /// At least `queued` tasks are queued, and more than [`STACK_AHEAD`].
    #[inline(never)]
    unsafe fn prefetch_group(&self, queued: usize) {
        const BLOCKS: usize = PAGES + GROUP;
        if self.ready.taken().is_multiple_of(GROUP) {
            for others in PAGES..queued.min(PAGES + GROUP) {
                // SAFETY: this many are queued.
                unsafe { self.ahead(others) }.prefetch_body(1);
            }
            for others in BLOCKS..queued.min(BLOCKS + GROUP) {
                // SAFETY: this many are queued.
                unsafe { self.ahead(others) }.prefetch_block();
            }
        }
        // SAFETY: more are queued.
        unsafe { self.ahead(STACK_AHEAD) }.prefetch_body(LINES_OF_MANY);
    }

    /// The task at the queue's position `others`.
    ///
    /// # Safety
    ///
    /// The queue has more than `others` tasks.
    #[inline]
    unsafe fn ahead(&self, others: usize) -> &Task {
        // SAFETY: only control blocks of this table that have been written are queued.
        unsafe { self.ready.ahead(others).as_ref() }
    }
}

impl Task {
    /// Asks for the memory that the task touches first, as its control block names it.
    #[inline(always)]
    fn prefetch_body(&self, lines: usize) {
        // SAFETY: there is no exclusive reference to the body. The loop calls this at the start of
        // a turn. Then no future is polled and no body is dropped. One fiber may still run: the
        // fiber that has queued itself and is leaving. But fibers are reached by shared references.
        // That fiber's place is null then, which leads to addresses that are fetched in vain.
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
