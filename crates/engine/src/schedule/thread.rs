//! The program's threads, as the engine knows them.

use alloc::vec::Vec;
use core::mem::offset_of;
use core::ops::{Deref, Range};
use core::ptr;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::kernel::assertions::{LONGEST_WALK, check};
use crate::kernel::attributes::Attributes;
use crate::kernel::cells::{Own, Relaxed, UnderLock};
use crate::kernel::clock::Nanoseconds;
use crate::kernel::lock::{Guarded, Held, Locked};
use crate::kernel::sys;
use crate::schedule::aside::{self, Aside};
use crate::schedule::task::TaskRef;
use crate::schedule::waiter::{Reason, State, WaitQueue, Waiter, WaiterRef};

/// A thread. A thread's memory is never given back, so references to the thread stay valid. A
/// reference may come to refer to a later thread in the same place.
pub(crate) type ThreadRef = &'static Thread;

/// The first thread number. The kernel's numbers are all lower (`PID_MAX_LIMIT` is 2²²). The owner
/// field of a mutex (30 bits) has room for our numbers.
const FIRST_ID: i32 = 1 << 22;
/// The most threads that a process can have.
pub(crate) const MAX_THREADS: usize = 1 << 20;
/// The number of ranges of thread numbers. Processes with numbers near each other have different
/// ranges, because a mutex in shared memory names its owner by the thread's number alone.
const RANGES: i32 = 1019;
const LAST_ID: i32 = FIRST_ID + RANGES * MAX_THREADS as i32 - 1;

/// The first thread number in the range of a process.
fn first_id_of(process: i32) -> i32 {
    FIRST_ID + process % RANGES * MAX_THREADS as i32
}

/// A signal that waits for a thread.
#[derive(Clone, Copy)]
pub(crate) struct Pending {
    pub(crate) number: i32,
    pub(crate) info: libc::siginfo_t,
}

/// One thread of the program.
#[repr(C)]
pub(crate) struct Thread {
    waiter: Waiter,
    /// The stack pointer where the thread left its stack.
    pub(crate) stack_pointer: Own<usize>,
    /// The thread-local storage.
    pub(crate) fs: Own<usize>,
    pub(crate) id: Relaxed<i32>,
    /// The word to clear and wake when the thread ends (`CLONE_CHILD_CLEARTID`).
    pub(crate) clear_id: Own<usize>,
    /// The list of robust mutexes.
    pub(crate) robust_list: Relaxed<usize>,
    /// Signals that the thread blocks. Changed under the lock.
    pub(crate) mask: Relaxed<u64>,
    /// The mask to restore, once a call with a mask of its own has ended.
    pub(crate) mask_after: Own<Option<u64>>,
    /// Signals that the thread waits for in `sigtimedwait`.
    pub(crate) awaited: Relaxed<u64>,
    /// Signals sent to the thread, as bits and in order.
    pub(crate) pending_bits: AtomicU64,
    pub(crate) pending: Guarded<Vec<Pending>>,
    pub(crate) alternate_stack: Own<libc::stack_t>,
    /// Where the engine executes for the thread, if it interrupts the thread in its own code.
    pub(crate) aside: Aside,
    /// The lower end of the thread's stack, if the thread's maker said where that is.
    pub(crate) stack_end: Own<usize>,
    /// The addresses of the thread's stack, as far as known. At other addresses, nothing beneath
    /// the stack pointer is free: see `schedule/aside.rs`.
    stack_low: Own<usize>,
    stack_high: Own<usize>,
    /// The place where the thread left its own code, for debuggers. This is the address of its
    /// `Frame`, or the address of its `Context` plus one if the thread was interrupted.
    pub(crate) place: Relaxed<usize>,
    /// The call that the thread is in, for observers.
    pub(crate) call: Relaxed<u32>,
    pub(crate) name: UnderLock<[u8; 16]>,
    /// The end of the thread's last turn was forced, and the thread has not waited since.
    pub(crate) computes: UnderLock<bool>,
    /// The thread's processor time, as far as counted: see `schedule/processor_time.rs`.
    pub(crate) used: Own<Nanoseconds>,
    /// The CPUs that the thread asked for, if any.
    pub(crate) affinity: UnderLock<[u64; 2]>,
    /// The priorities and the timer slack that the thread asked for.
    pub(crate) attributes: UnderLock<Attributes>,
    /// The task for which the thread makes a call.
    pub(crate) task: Own<Option<TaskRef>>,
    /// The number of the loop that the thread runs, plus one.
    pub(crate) loop_number: Relaxed<u32>,
    /// The address of the word that says what is left of the turn, if the thread runs a loop.
    pub(crate) turn: Own<usize>,
    /// The address of the word for the mask of a thread that waits for a task.
    pub(crate) mask_word: Own<usize>,
    all_next: UnderLock<Option<ThreadRef>>,
    all_previous: UnderLock<Option<ThreadRef>>,
}

/// Offsets that the entry knows.
pub(crate) const STACK_LOW_OFFSET: usize = offset_of!(Thread, stack_low);
pub(crate) const STACK_HIGH_OFFSET: usize = offset_of!(Thread, stack_high);
pub(crate) const ASIDE_END_OFFSET: usize = offset_of!(Thread, aside) + aside::END_OFFSET;

/// No alternate stack (sigaltstack(2)).
pub(crate) const NO_STACK: libc::stack_t =
    libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };

impl Thread {
    pub(crate) const fn new() -> Self {
        Self {
            waiter: Waiter::new(),
            stack_pointer: Own::new(0),
            fs: Own::new(0),
            id: Relaxed::new(AtomicI32::new(0)),
            clear_id: Own::new(0),
            robust_list: Relaxed::new(AtomicUsize::new(0)),
            mask: Relaxed::new(AtomicU64::new(0)),
            mask_after: Own::new(None),
            awaited: Relaxed::new(AtomicU64::new(0)),
            pending_bits: AtomicU64::new(0),
            pending: Guarded::new(Vec::new()),
            alternate_stack: Own::new(NO_STACK),
            aside: Aside::new(),
            stack_end: Own::new(0),
            stack_low: Own::new(0),
            stack_high: Own::new(usize::MAX),
            place: Relaxed::new(AtomicUsize::new(0)),
            call: Relaxed::new(AtomicU32::new(0)),
            name: UnderLock::new([0; 16]),
            computes: UnderLock::new(false),
            used: Own::new(0),
            affinity: UnderLock::new([0; 2]),
            attributes: UnderLock::new(Attributes::NONE),
            task: Own::new(None),
            loop_number: Relaxed::new(AtomicU32::new(0)),
            turn: Own::new(0),
            mask_word: Own::new(0),
            all_next: UnderLock::new(None),
            all_previous: UnderLock::new(None),
        }
    }

    /// The thread's stack is at these addresses.
    pub(crate) fn set_stack(&self, stack: Range<usize>) {
        self.stack_low.set(stack.start);
        self.stack_high.set(stack.end);
    }

    /// Has the thread, which is another to the kernel now, go on in place of `other` with its
    /// stacks.
    pub(crate) fn take_stacks_of(&self, other: &Self) {
        self.set_stack(other.stack_low.get()..other.stack_high.get());
        self.stack_end.set(other.stack_end.get());
        self.aside.take_over(&other.aside);
    }

    /// Signals that are pending for the thread and not blocked.
    #[inline(always)]
    pub(crate) fn deliverable(&self) -> u64 {
        self.pending_bits.load(Ordering::Relaxed) & !self.mask.get()
    }

    /// Whether a signal is pending that ends a wait: a signal that the thread does not block, or
    /// waits for.
    #[inline(always)]
    pub(crate) fn is_called(&self) -> bool {
        self.pending_bits.load(Ordering::Relaxed) & (!self.mask.get() | self.awaited.get()) != 0
    }
}

impl Deref for Thread {
    type Target = Waiter;

    fn deref(&self) -> &Waiter {
        &self.waiter
    }
}

/// The thread that waits by `waiter`, which must not be a task's.
pub(crate) fn of(waiter: WaiterRef) -> ThreadRef {
    assert!(waiter.home().is_none(), "a task is taken for a thread");
    // SAFETY: a waiter that is not of a task is the first field of a thread, and a thread has C's
    // layout.
    unsafe { &*(&raw const *waiter).cast::<Thread>() }
}

/// All threads: the main one, and a table for the others.
pub(crate) struct Threads {
    table: *mut Thread,
    first_id: i32,
    room: usize,
    used: usize,
    /// Places of threads that ended, the oldest first, so that numbers are not reused at once.
    free: WaitQueue,
    free_count: usize,
    /// The threads alive other than the main one, the newest first.
    all: Option<ThreadRef>,
    /// The number of living threads.
    pub(crate) alive: usize,
    pub(crate) most: usize,
}

pub(crate) static THREADS: Guarded<Threads> = Guarded::new(Threads {
    table: ptr::null_mut(),
    first_id: FIRST_ID,
    room: 0,
    used: 0,
    free: WaitQueue::EMPTY,
    free_count: 0,
    all: None,
    alive: 1,
    most: 1,
});

/// The thread that the process began with, or forked.
pub(crate) static MAIN: Thread = Thread::new();

/// The table grows by this many places. `MAX_THREADS` is a multiple.
const STEP: usize = 1024;
/// The number of places that lie idle before one is used again.
const RESTED: usize = 256;

/// Stands for the thread of a worker that runs no thread. This thread is never alive.
pub(crate) static NOBODY: Thread = Thread::new();

impl Threads {
    /// Makes room for the table.
    pub(crate) fn reserve(&mut self) -> bool {
        self.room = sys::affordable(MAX_THREADS, size_of::<Thread>());
        let table = sys::reserve(self.room * size_of::<Thread>());
        self.table = table.unwrap_or(0) as *mut Thread;
        table.is_some()
    }

    /// Sets the range of thread numbers of this process. Only the main thread exists at this time.
    pub(crate) fn number_for(&mut self, process: i32) {
        self.first_id = first_id_of(process);
        for index in 0..self.used {
            // SAFETY: that many entries have been written.
            let thread = unsafe { &*self.table.add(index) };
            thread.id.set(self.first_id + index as i32);
        }
    }

    /// Where the address of the table is, and the number of its entries in use.
    pub(crate) fn for_inspection(&self) -> (usize, usize) {
        (&raw const self.table as usize, &raw const self.used as usize)
    }

    fn create(&mut self, held: Held<'_>) -> Option<ThreadRef> {
        let thread = if self.free_count > RESTED || self.used == self.room - 1 {
            let thread = of(self.free.pop(held)?);
            self.free_count -= 1;
            thread
        } else {
            let index = self.used;
            // SAFETY: the table has room for so many.
            let place = unsafe { self.table.add(index) };
            let at_step = index.is_multiple_of(STEP);
            if at_step && !sys::open_reserved(place as usize, STEP * size_of::<Thread>()) {
                return None;
            }
            self.used += 1;
            // SAFETY: the place is in the table, was opened, and is written for the first time.
            unsafe { place.write(Thread::new()) };
            // SAFETY: written just now, and never taken away.
            let thread = unsafe { &*place };
            thread.id.set(self.first_id + index as i32);
            thread
        };
        thread.assert_unused(held);
        let state = thread.state.get(held);
        assert!(state == State::Dead, "a place for a new thread has one that is {state:?}");
        thread.reason.set(held, Reason::Woken);
        thread.interruptible.set(held, false);
        thread.place.set(0);
        thread.clear_id.set(0);
        thread.robust_list.set(0);
        thread.mask_after.set(None);
        thread.awaited.set(0);
        thread.pending_bits.store(0, Ordering::Relaxed);
        thread.alternate_stack.set(NO_STACK);
        thread.affinity.set(held, [0; 2]);
        thread.attributes.set(held, Attributes::NONE);
        thread.used.set(0);
        thread.loop_number.set(0);
        thread.all_previous.set(held, None);
        thread.all_next.set(held, self.all);
        if let Some(next) = self.all {
            next.all_previous.set(held, Some(thread));
        }
        self.all = Some(thread);
        self.alive += 1;
        self.most = self.most.max(self.alive);
        check!(self.is_whole(held), "the list of threads is broken after one came");
        Some(thread)
    }

    fn remove(&mut self, held: Held<'_>, thread: ThreadRef) {
        thread.assert_unused(held);
        assert!(self.alive > 0, "more threads have ended than began");
        thread.state.set(held, State::Dead);
        self.alive -= 1;
        if thread.is(&MAIN) {
            return;
        }
        match thread.all_previous.get(held) {
            Some(previous) => {
                let next = previous.all_next.replace(held, thread.all_next.get(held));
                assert!(next.is_some_and(|next| next.is(thread)), "a thread is not in the list");
            }
            None => {
                let first = core::mem::replace(&mut self.all, thread.all_next.get(held));
                assert!(first.is_some_and(|first| first.is(thread)), "a thread ended twice");
            }
        }
        if let Some(next) = thread.all_next.get(held) {
            let previous = next.all_previous.replace(held, thread.all_previous.get(held));
            assert!(previous.is_some_and(|it| it.is(thread)), "the list of threads forks");
        }
        self.free.push(held, thread);
        self.free_count += 1;
        check!(self.is_whole(held), "the list of threads is broken after one ended");
    }

    /// The list has the living threads but for the main one, and leads back as it leads on.
    fn is_whole(&self, held: Held<'_>) -> bool {
        let main = usize::from(MAIN.state.get(held) != State::Dead);
        let (mut previous, mut count) = (None::<ThreadRef>, 0);
        let mut at = self.all;
        while let Some(thread) = at {
            let back = thread.all_previous.get(held);
            if back.map(ptr::from_ref) != previous.map(ptr::from_ref) {
                return false;
            }
            count += 1;
            if count > LONGEST_WALK {
                return true;
            }
            (previous, at) = (at, thread.all_next.get(held));
        }
        count + main == self.alive
    }

    fn find(&self, held: Held<'_>, id: i32) -> Option<ThreadRef> {
        let thread = if id == MAIN.id.get() {
            &MAIN
        } else {
            let index = usize::try_from(id.checked_sub(self.first_id)?).ok()?;
            if index >= self.used {
                return None;
            }
            // SAFETY: that many entries have been written.
            unsafe { &*self.table.add(index) }
        };
        (thread.state.get(held) != State::Dead).then_some(thread)
    }
}

/// A new thread, or `None` if there are too many.
pub(crate) fn create(locked: &mut Locked) -> Option<ThreadRef> {
    let (threads, held) = THREADS.with_cells(locked);
    threads.create(held)
}

/// Forgets a thread that has ended; its place can be used again.
pub(crate) fn remove(locked: &mut Locked, thread: ThreadRef) {
    thread.pending.of(locked).clear();
    thread.aside.give_back();
    let (threads, held) = THREADS.with_cells(locked);
    threads.remove(held, thread);
}

/// The living thread with this number.
pub(crate) fn find(locked: &mut Locked, id: i32) -> Option<ThreadRef> {
    let (threads, held) = THREADS.with_cells(locked);
    threads.find(held, id)
}

/// Whether the program has one thread.
pub(crate) fn is_alone(locked: &mut Locked) -> bool {
    THREADS.of(locked).alive == 1
}

/// Every living thread, the main one first.
pub(crate) fn all(locked: &mut Locked) -> impl Iterator<Item = ThreadRef> + use<'_> {
    let mut each = each(locked);
    let held = locked.held();
    core::iter::from_fn(move || each.next(held))
}

/// Goes through the threads as [`all`] does, and leaves the lock free for changes in between. The
/// thread that was returned last must not end meanwhile.
pub(crate) fn each(locked: &mut Locked) -> Each {
    Each { main: Some(&MAIN), next: THREADS.of(locked).all }
}

/// The threads that are left to go through.
pub(crate) struct Each {
    main: Option<ThreadRef>,
    next: Option<ThreadRef>,
}

impl Each {
    /// The next living thread.
    pub(crate) fn next(&mut self, held: Held<'_>) -> Option<ThreadRef> {
        let main = self.main.take().filter(|main| main.state.get(held) != State::Dead);
        main.or_else(|| {
            let thread = self.next?;
            self.next = thread.all_next.get(held);
            Some(thread)
        })
    }
}

/// Whether a number can be of a thread of ours, living or not, in this process or another one.
pub(crate) fn is_ours(id: i64) -> bool {
    (i64::from(FIRST_ID)..=i64::from(LAST_ID)).contains(&id)
}
