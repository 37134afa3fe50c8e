//! A kernel thread that runs the program's threads, and what belongs to it alone.

use core::arch::asm;
use core::cell::{Cell, UnsafeCell};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::inspection::DESCRIPTION;
use crate::thread::{MAIN, ThreadRef};

/// Signals that one worker can hold back until the engine can look at them.
const HELD_SIGNALS: usize = 128;

/// Events taken from epoll at a time.
pub(crate) const EVENTS: usize = 256;

/// The state of a kernel thread. The entry and debuggers know the offsets of the first fields.
#[repr(C)]
pub(crate) struct Worker {
    this: Cell<usize>,
    /// Whether the engine is executing, as opposed to the program: a signal then waits.
    in_engine: Cell<u32>,
    /// Asleep until an event, or about to be.
    idle: Cell<u32>,
    /// For debuggers.
    description: Cell<usize>,
    pub(crate) current: Cell<ThreadRef>,
    /// Where the worker's own stack was left.
    pub(crate) stack_pointer: Cell<usize>,
    /// A thread that has ended on this worker, and whose stack has been left.
    pub(crate) ended: Cell<Option<ThreadRef>>,
    /// Another thread should have its turn.
    pub(crate) turn_is_over: AtomicBool,
    /// A child of vfork(2) uses our memory: the id of its parent.
    pub(crate) vfork_parent: Cell<i32>,
    /// Switches until the descriptors are looked at.
    pub(crate) switches_left: Cell<i32>,
    /// Calls in a row that did not wait.
    pub(crate) calls_in_a_row: Cell<u32>,
    /// The number of the kernel thread.
    pub(crate) kernel_id: Cell<i32>,
    /// What the kernel blocks for this worker.
    pub(crate) kernel_mask: Cell<u64>,
    /// The stack on which the kernel delivers signals.
    pub(crate) signal_stack: Cell<usize>,
    /// What epoll wrote last.
    events: UnsafeCell<[libc::epoll_event; EVENTS]>,
    held: UnsafeCell<[libc::siginfo_t; HELD_SIGNALS]>,
    held_count: AtomicUsize,
}

// SAFETY: a worker's fields are used by its own kernel thread.
unsafe impl Sync for Worker {}

// SAFETY: all zeros are a `siginfo_t`.
const NO_SIGNALS: [libc::siginfo_t; HELD_SIGNALS] = unsafe { core::mem::zeroed() };

/// The worker of the kernel thread that the process began with.
pub(crate) static FIRST: Worker = Worker {
    this: Cell::new(0),
    in_engine: Cell::new(0),
    idle: Cell::new(0),
    description: Cell::new(0),
    current: Cell::new(&MAIN),
    stack_pointer: Cell::new(0),
    ended: Cell::new(None),
    turn_is_over: AtomicBool::new(false),
    vfork_parent: Cell::new(0),
    switches_left: Cell::new(64),
    calls_in_a_row: Cell::new(0),
    kernel_id: Cell::new(0),
    kernel_mask: Cell::new(0),
    signal_stack: Cell::new(0),
    events: UnsafeCell::new([libc::epoll_event { events: 0, u64: 0 }; EVENTS]),
    held: UnsafeCell::new(NO_SIGNALS),
    held_count: AtomicUsize::new(0),
};

/// The worker that executes this.
#[inline(always)]
pub(crate) fn worker() -> &'static Worker {
    let this: usize;
    // SAFETY: `gs` points to the worker of the kernel thread, whose first field is its own address.
    unsafe {
        asm!("mov {}, gs:[0]", out(reg) this, options(nostack, pure, readonly, preserves_flags));
        &*(this as *const Worker)
    }
}

/// The thread that executes this.
#[inline(always)]
pub(crate) fn current() -> ThreadRef {
    worker().current.get()
}

impl Worker {
    /// Makes this the worker of the kernel thread that executes this.
    pub(crate) fn adopt(&'static self) {
        self.this.set(&raw const *self as usize);
        self.description.set(&raw const DESCRIPTION as usize);
        // SAFETY: nothing else uses `gs`; the start has checked that the instruction is allowed.
        unsafe { asm!("wrgsbase {}", in(reg) self.this.get(), options(nostack, preserves_flags)) };
    }

    #[inline(always)]
    pub(crate) fn is_in_engine(&self) -> bool {
        // SAFETY: a handler on the same kernel thread reads what the thread wrote.
        unsafe { (&raw const self.in_engine).read_volatile().get() != 0 }
    }

    #[inline(always)]
    pub(crate) fn set_in_engine(&self, inside: bool) {
        self.in_engine.set(u32::from(inside));
        core::sync::atomic::compiler_fence(Ordering::SeqCst);
    }

    pub(crate) fn set_idle(&self, idle: bool) {
        self.idle.set(u32::from(idle));
        core::sync::atomic::compiler_fence(Ordering::SeqCst);
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.idle.get() != 0
    }

    /// Room for `EVENTS` events, which the kernel writes. Threads have small stacks.
    pub(crate) fn room_for_events(&self) -> *mut libc::epoll_event {
        self.events.get().cast()
    }

    /// One of the events that the kernel wrote.
    pub(crate) fn event(&self, index: usize) -> libc::epoll_event {
        // SAFETY: only the kernel writes there, for a call of this kernel thread, which is not under way.
        unsafe { (&*self.events.get())[index] }
    }

    /// Holds back a signal; called by the handler alone.
    pub(crate) fn hold(&self, info: &libc::siginfo_t) {
        let count = self.held_count.load(Ordering::Relaxed);
        if count < HELD_SIGNALS {
            // SAFETY: the handler runs with all signals blocked, and the engine reads with all blocked.
            unsafe { (*self.held.get())[count] = *info };
            self.held_count.store(count + 1, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    pub(crate) fn has_held(&self) -> bool {
        self.held_count.load(Ordering::Relaxed) != 0
    }

    /// Takes a signal that was held back, in the order of arrival, if `wanted` says so.
    ///
    /// The caller has blocked all signals in the kernel.
    pub(crate) fn take_held(
        &self,
        wanted: impl Fn(&libc::siginfo_t) -> bool,
    ) -> Option<libc::siginfo_t> {
        let count = self.held_count.load(Ordering::Relaxed);
        // SAFETY: no handler runs, see above.
        let held = unsafe { &mut *self.held.get() };
        let index = held[..count].iter().position(wanted)?;
        let info = held[index];
        held.copy_within(index + 1..count, index);
        self.held_count.store(count - 1, Ordering::Relaxed);
        Some(info)
    }

    /// The numbers of the signals held back, as bits.
    pub(crate) fn held_bits(&self) -> u64 {
        let count = self.held_count.load(Ordering::Relaxed);
        // SAFETY: entries below the count are complete; a handler only appends.
        let held = unsafe { &(&*self.held.get())[..count] };
        held.iter().fold(0, |bits, info| bits | 1 << (info.si_signo - 1))
    }

    /// Forgets what was held back.
    pub(crate) fn forget_held(&self) {
        self.held_count.store(0, Ordering::Relaxed);
    }
}
