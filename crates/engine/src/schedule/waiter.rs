//! A waiter in the engine's queues: a thread of the program, or a task of a converted program,
//! which has no stack.

use core::ptr;
use core::sync::atomic::AtomicUsize;

use crate::kernel::assertions::{LONGEST_WALK, check};
use crate::kernel::cells::{Relaxed, UnderLock};
use crate::kernel::clock::{NEVER, Nanoseconds};
use crate::kernel::lock::Held;
use crate::schedule::timers::Timed;

/// A thread or a task. The memory of a waiter is not given back while the waiter is in a queue.
pub(crate) type WaiterRef = &'static Waiter;

/// The state of a thread or a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum State {
    Dead,
    Ready,
    Running,
    Parked,
}

/// The reason for which a wait is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Reason {
    /// The awaited event may have come.
    Woken,
    /// The deadline passed.
    TimedOut,
    /// For a thread: a signal that the thread does not block is pending. For a task: the program
    /// interrupted the task.
    Interrupted,
    /// The wait is not over: a task waits, and the engine must leave the call. See
    /// `schedule/task.rs`.
    Suspended,
}

/// The part of a thread or a task that stands in queues.
#[repr(C)]
pub(crate) struct Waiter {
    /// The next ready waiter. The last one of a queue has itself here, so a waiter in no queue is
    /// known by `None`.
    next_ready: UnderLock<Option<WaiterRef>>,
    /// The number of a task's loop, plus one. Zero for a thread.
    home: u32,
    timer_place: UnderLock<u32>,
    pub(crate) deadline: UnderLock<Nanoseconds>,
    /// The next waiter for the same descriptor.
    pub(crate) next_waiter: UnderLock<Option<WaiterRef>>,
    /// The descriptor or the address that the thread or task waits for.
    pub(crate) waits_for: Relaxed<usize>,
    /// The waiter's place in a bucket of futexes.
    pub(crate) futex_key: UnderLock<usize>,
    pub(crate) futex_next: UnderLock<Option<WaiterRef>>,
    pub(crate) futex_previous: UnderLock<Option<WaiterRef>>,
    pub(crate) futex_bits: UnderLock<u32>,
    pub(crate) futex_queued: UnderLock<bool>,
    pub(crate) state: UnderLock<State>,
    pub(crate) reason: UnderLock<Reason>,
    /// A thread is parked in a call that a signal ends.
    pub(crate) interruptible: UnderLock<bool>,
}

// The runtime of converted programs tells debuggers where the state of a task is:
// `convert/runtime/memory.c`.
const _: () = assert!(core::mem::offset_of!(Waiter, state) == 69 && State::Parked as u8 == 3);

const NO_PLACE: u32 = u32::MAX;

impl Waiter {
    pub(crate) const fn new() -> Self {
        Self {
            next_ready: UnderLock::new(None),
            home: 0,
            timer_place: UnderLock::new(NO_PLACE),
            deadline: UnderLock::new(NEVER),
            next_waiter: UnderLock::new(None),
            waits_for: Relaxed::new(AtomicUsize::new(0)),
            futex_key: UnderLock::new(0),
            futex_next: UnderLock::new(None),
            futex_previous: UnderLock::new(None),
            futex_bits: UnderLock::new(0),
            futex_queued: UnderLock::new(false),
            state: UnderLock::new(State::Dead),
            reason: UnderLock::new(Reason::Woken),
            interruptible: UnderLock::new(false),
        }
    }

    /// A waiter of a task that belongs to the loop with this number.
    pub(crate) fn of_task(home: usize) -> Self {
        Self { home: home as u32 + 1, ..Self::new() }
    }

    /// The loop of the waiter's task. `None` for a thread.
    pub(crate) fn home(&self) -> Option<usize> {
        (self.home as usize).checked_sub(1)
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        ptr::eq(self, other)
    }

    /// Whether the waiter is in a queue of ready ones, or of free places.
    pub(crate) fn is_in_queue(&self, held: Held<'_>) -> bool {
        self.next_ready.get(held).is_some()
    }

    /// Whether the waiter waits for a deadline.
    pub(crate) fn has_timer(&self, held: Held<'_>) -> bool {
        self.timer_place.get(held) != NO_PLACE
    }

    /// Nothing of the engine's may refer to the waiter any more, except the queue of free places.
    pub(crate) fn assert_unused(&self, held: Held<'_>) {
        assert!(!self.is_in_queue(held), "a thread that ended is in a queue");
        assert!(!self.has_timer(held), "a thread that ended has a deadline");
        assert!(!self.futex_queued.get(held), "a thread that ended waits for a word");
    }
}

impl Timed for WaiterRef {
    type Right<'a> = Held<'a>;

    fn deadline(self, held: Held<'_>) -> Nanoseconds {
        self.deadline.get(held)
    }

    fn place(self, held: Held<'_>) -> Option<usize> {
        let place = self.timer_place.get(held);
        (place != NO_PLACE).then_some(place as usize)
    }

    fn moved(self, held: Held<'_>, place: Option<usize>) {
        self.timer_place.set(held, place.map_or(NO_PLACE, |place| place as u32));
    }
}

/// Waiters in the order in which they run.
#[derive(Clone, Copy)]
pub(crate) struct WaitQueue {
    head: Option<WaiterRef>,
    tail: Option<WaiterRef>,
}

impl WaitQueue {
    pub(crate) const EMPTY: Self = Self { head: None, tail: None };

    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    /// The next to be popped.
    pub(crate) fn first(&self) -> Option<WaiterRef> {
        self.head
    }

    pub(crate) fn push(&mut self, held: Held<'_>, waiter: WaiterRef) {
        let before = waiter.next_ready.replace(held, Some(waiter));
        assert!(before.is_none(), "a waiter is in two queues");
        match self.tail {
            Some(tail) => {
                let last = tail.next_ready.replace(held, Some(waiter));
                assert!(last.is_some_and(|last| last.is(tail)), "a queue goes on after its end");
            }
            None => self.head = Some(waiter),
        }
        self.tail = Some(waiter);
        check!(self.is_whole(held), "a queue is broken after a push");
    }

    pub(crate) fn pop(&mut self, held: Held<'_>) -> Option<WaiterRef> {
        check!(self.is_whole(held), "a queue is broken before a pop");
        let waiter = self.head?;
        let next = waiter.next_ready.replace(held, None);
        let next = next.expect("a waiter in a queue has a link");
        if next.is(waiter) {
            let last = self.tail.take();
            assert!(last.is_some_and(|last| last.is(waiter)), "a queue ends before its end");
            self.head = None;
        } else {
            self.head = Some(next);
        }
        Some(waiter)
    }

    /// Takes all waiters out.
    pub(crate) fn clear(&mut self, held: Held<'_>) {
        while self.pop(held).is_some() {}
    }

    /// The number of waiters; `None` if there are too many to count at each step.
    pub(crate) fn length(&self, held: Held<'_>) -> Option<usize> {
        let next = |waiter: &WaiterRef| waiter.next_ready.get(held).filter(|next| !next.is(waiter));
        let count = core::iter::successors(self.head, next).take(LONGEST_WALK + 1).count();
        (count <= LONGEST_WALK).then_some(count)
    }

    /// Both ends are there or none, and the end is reached from the head.
    fn is_whole(&self, held: Held<'_>) -> bool {
        let (Some(head), Some(tail)) = (self.head, self.tail) else {
            return self.head.is_none() && self.tail.is_none();
        };
        let next = |waiter: &WaiterRef| waiter.next_ready.get(held).filter(|next| !next.is(waiter));
        let mut walk = core::iter::successors(Some(head), next).skip(LONGEST_WALK);
        let ends = tail.next_ready.get(held).is_some_and(|last| last.is(tail));
        let short = walk.next().is_none();
        let last = core::iter::successors(Some(head), next).take(LONGEST_WALK).last();
        ends && (!short || last.is_some_and(|last| last.is(tail)))
    }
}
