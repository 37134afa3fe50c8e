//! A task of a converted program, which waits without a stack. `convert/runtime/engine.h` describes
//! it in C.
//!
//! ```text
//!   the runtime                      the engine
//!   TRY ──▶ the same call as a thread's ──▶ done: its result
//!                    │ park
//!                    ▼
//!           Suspended: every caller returns ──▶ WAITS
//!           …
//!   NEXT ◀── woken, or time is up, or interrupted
//!   TRY ──▶ the call from its beginning, which finds here what it had come to
//! ```
//!
//! Each call that a task can make is written once, for threads. Where a thread would go on after
//! `park`, a task's call begins anew.

use alloc::boxed::Box;
use core::mem::{offset_of, size_of};

use crate::kernel::cells::Own;
use crate::kernel::clock::{NEVER, Nanoseconds};
use crate::kernel::lock::{Held, Locked};
use crate::schedule::edges::Side;
use crate::schedule::poll_node::PollNode;
use crate::schedule::waiter::{Reason, Waiter, WaiterRef};

/// The runtime gives a task's memory back only when the task is in no queue.
pub(crate) type TaskRef = &'static Task;

/// The runtime calls this structure `struct engine_task`. All zeros are a task that has never been
/// ready.
#[repr(C)]
pub(crate) struct Task {
    pub(crate) waiter: Waiter,
    /// The deadline of the call's first wait. Later waits of the call end at the same time.
    deadline: Own<Nanoseconds>,
    /// The number of bytes that the call has transferred so far.
    pub(crate) done: Own<usize>,
    /// The places in the lists of descriptors, while it waits for several.
    nodes: Own<Option<Box<Nodes>>>,
    /// The list in which the task waits for one descriptor.
    side: Own<Option<&'static Side>>,
    /// The call waited, and must go on.
    resumed: Own<bool>,
    /// How the wait ended, if that ends the call.
    ended: Own<Option<Reason>>,
    /// The engine keeps the descriptor for the call: see `descriptors/closed.rs`.
    kept: Own<bool>,
    /// The generation of the descriptor when the task began to wait, plus one. Zero without such a
    /// wait.
    generation: Own<u32>,
    pub(crate) number: Own<i64>,
    pub(crate) arguments: Own<[usize; 6]>,
    pub(crate) reason: Own<i32>,
    reserved: Own<i32>,
}

/// Boxed once more, since most tasks have none: a pointer is smaller than a slice.
struct Nodes(Box<[PollNode]>);

/// Words of `struct engine_task` that are the engine's.
const WORDS: usize = 14;

const _: () = assert!(offset_of!(Task, number) == WORDS * 8);
const _: () = assert!(size_of::<Task>() == (WORDS + 8) * 8);

impl Task {
    /// The task that waits by `waiter`.
    pub(crate) fn of(waiter: WaiterRef) -> TaskRef {
        assert!(waiter.home().is_some(), "a thread is taken for a task");
        // SAFETY: a waiter with a loop is the first field of a task, and a task has C's layout.
        unsafe { &*(&raw const *waiter).cast::<Self>() }
    }

    /// Makes the task one of the loop with this number.
    pub(crate) fn adopt(&'static self, home: usize) {
        let waiter = (&raw const self.waiter).cast_mut();
        // SAFETY: the task is in no queue, so no other code refers to its waiter. The caller runs
        // it, or has made it just now.
        unsafe { waiter.write(Waiter::of_task(home)) };
    }

    /// Called before a call, which may resume after a wait.
    pub(crate) fn begin(&self) {
        if !self.resumed.get() {
            self.deadline.set(NEVER);
            self.done.set(0);
            self.ended.set(None);
            self.generation.set(0);
        }
    }

    /// Called after a call, which waits or is over.
    pub(crate) fn end(&self, waits: bool) {
        self.resumed.set(waits);
    }

    pub(crate) fn is_resumed(&self) -> bool {
        self.resumed.get()
    }

    /// The reason of the wait's end, if the end of the wait ends the call. Take the reason once,
    /// where the call would wait again.
    pub(crate) fn take_end(&self) -> Option<Reason> {
        self.ended.take()
    }

    /// The deadline of the call. If the call has waited before, the deadline of its first wait.
    pub(crate) fn first_deadline(&self, deadline: Nanoseconds) -> Nanoseconds {
        if self.deadline.get() == NEVER { deadline } else { self.deadline.get() }
    }

    /// Whether the task waits in a call that ends with EINTR even for a handler with SA_RESTART. A
    /// call with a time limit, or a wait for several descriptors, ends so (signal(7)). A wait for
    /// an object is not a call.
    pub(crate) fn is_never_restarted(&self, held: Held<'_>) -> bool {
        let waits_for_several = matches!(
            self.number.get(),
            libc::SYS_poll
                | libc::SYS_ppoll
                | libc::SYS_select
                | libc::SYS_pselect6
                | libc::SYS_epoll_wait
                | libc::SYS_epoll_pwait
        );
        let has_limit = self.deadline.get() != NEVER;
        !self.waiter.futex_queued.get(held) && (waits_for_several || has_limit)
    }

    pub(crate) fn keep_deadline(&self, deadline: Nanoseconds) {
        self.deadline.set(deadline);
    }

    /// Notes that the task waits in the list of a descriptor, which had this generation.
    pub(crate) fn waits_in(&self, side: &'static Side, generation: u32) {
        let before = self.side.replace(Some(side));
        assert!(before.is_none(), "a task waits for two descriptors");
        self.generation.set(generation.wrapping_add(1));
    }

    /// Whether the call has waited for a descriptor that is not of this generation.
    pub(crate) fn waited_before(&self, generation: u32) -> bool {
        self.generation.get() != 0 && self.generation.get() != generation.wrapping_add(1)
    }

    /// Notes that the file that the task waits for has another number from now on. The task makes
    /// its call with the new number.
    pub(crate) fn go_on_with(&self, kept: usize, generation: u32) {
        let mut arguments = self.arguments.get();
        arguments[0] = kept;
        self.arguments.set(arguments);
        self.kept.set(true);
        self.generation.set(generation.wrapping_add(1));
    }

    /// The descriptor that is kept for the call.
    pub(crate) fn take_kept(&self) -> Option<usize> {
        self.kept.take().then(|| self.arguments.get()[0])
    }

    /// Notes that the task waits in several lists.
    pub(crate) fn waits_by(&self, nodes: Box<[PollNode]>) {
        let before = self.nodes.replace(Some(Box::new(Nodes(nodes))));
        assert!(before.is_none(), "a task waits for two sets of descriptors");
    }

    /// Ends the task's wait. The task leaves the list of its descriptor, and the call learns how
    /// the wait ended. If the task waited for several descriptors, returns its nodes in their
    /// lists. The caller removes them.
    pub(crate) fn leave(&'static self, locked: &mut Locked) -> Option<Box<[PollNode]>> {
        if let Some(side) = self.side.take() {
            side.remove(locked, &self.waiter);
        }
        let reason = self.waiter.reason.get(locked.held());
        self.reason.set(reason as i32);
        self.ended.set((reason != Reason::Woken).then_some(reason));
        self.nodes.take().map(|nodes| nodes.0)
    }
}
