//! What waits in the engine's queues: a thread of the program, or a task of a converted program,
//! which has no stack.

use core::cell::Cell;
use core::ptr;

use crate::kernel::clock::{NEVER, Nanoseconds};
use crate::schedule::timers::Timed;

/// A thread or a task. Its memory is not given back while it is in a queue.
pub(crate) type WaiterRef = &'static Waiter;

/// What a thread or a task does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum State {
    Dead,
    Ready,
    Running,
    Parked,
}

/// Why a wait is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Reason {
    /// What was waited for may have come.
    Woken,
    /// The deadline passed.
    TimedOut,
    /// For a thread, a signal that it does not block is pending; for a task, its program said so.
    Interrupted,
    /// It is not over: a task waits, and the call must be left. See `schedule/task.rs`.
    Suspended,
}

/// The part of a thread or a task by which it waits.
#[repr(C)]
pub(crate) struct Waiter {
    /// The next that is ready.
    pub(crate) next_ready: Cell<Option<WaiterRef>>,
    /// The number of a task's loop, plus one; zero for a thread.
    home: Cell<u32>,
    timer_place: Cell<u32>,
    pub(crate) deadline: Cell<Nanoseconds>,
    /// The next that waits for the same descriptor.
    pub(crate) next_waiter: Cell<Option<WaiterRef>>,
    /// The descriptor or the address that it waits for.
    pub(crate) waits_for: Cell<usize>,
    /// Its place in a bucket of futexes.
    pub(crate) futex_key: Cell<usize>,
    pub(crate) futex_next: Cell<Option<WaiterRef>>,
    pub(crate) futex_previous: Cell<Option<WaiterRef>>,
    pub(crate) futex_bits: Cell<u32>,
    pub(crate) futex_queued: Cell<bool>,
    pub(crate) state: Cell<State>,
    pub(crate) reason: Cell<Reason>,
    /// A thread is parked in a call that a signal ends.
    pub(crate) interruptible: Cell<bool>,
}

// The runtime of converted programs tells debuggers where the state of a task is:
// `convert/runtime/memory.c`.
const _: () = assert!(core::mem::offset_of!(Waiter, state) == 69 && State::Parked as u8 == 3);

const NO_PLACE: u32 = u32::MAX;

impl Waiter {
    pub(crate) const fn new() -> Self {
        Self {
            next_ready: Cell::new(None),
            home: Cell::new(0),
            timer_place: Cell::new(NO_PLACE),
            deadline: Cell::new(NEVER),
            next_waiter: Cell::new(None),
            waits_for: Cell::new(0),
            futex_key: Cell::new(0),
            futex_next: Cell::new(None),
            futex_previous: Cell::new(None),
            futex_bits: Cell::new(0),
            futex_queued: Cell::new(false),
            state: Cell::new(State::Dead),
            reason: Cell::new(Reason::Woken),
            interruptible: Cell::new(false),
        }
    }

    /// One of a task that belongs to the loop with this number.
    pub(crate) fn of_task(home: usize) -> Self {
        let waiter = Self::new();
        waiter.home.set(home as u32 + 1);
        waiter
    }

    /// The loop that it belongs to, if it is a task.
    pub(crate) fn home(&self) -> Option<usize> {
        (self.home.get() as usize).checked_sub(1)
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        ptr::eq(self, other)
    }
}

impl Timed for WaiterRef {
    fn deadline(self) -> Nanoseconds {
        self.deadline.get()
    }

    fn place(self) -> Option<usize> {
        let place = self.timer_place.get();
        (place != NO_PLACE).then_some(place as usize)
    }

    fn moved(self, place: Option<usize>) {
        self.timer_place.set(place.map_or(NO_PLACE, |place| place as u32));
    }
}

/// Waiters in the order in which they run.
#[derive(Clone, Copy)]
pub(crate) struct Queue {
    head: Option<WaiterRef>,
    tail: Option<WaiterRef>,
}

impl Queue {
    pub(crate) const EMPTY: Self = Self { head: None, tail: None };

    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    /// The next to be popped.
    pub(crate) fn first(&self) -> Option<WaiterRef> {
        self.head
    }

    pub(crate) fn push(&mut self, waiter: WaiterRef) {
        waiter.next_ready.set(None);
        match self.tail {
            Some(tail) => tail.next_ready.set(Some(waiter)),
            None => self.head = Some(waiter),
        }
        self.tail = Some(waiter);
    }

    pub(crate) fn pop(&mut self) -> Option<WaiterRef> {
        let waiter = self.head?;
        self.head = waiter.next_ready.get();
        if self.head.is_none() {
            self.tail = None;
        }
        Some(waiter)
    }
}
