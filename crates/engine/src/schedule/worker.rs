//! Kernel threads that run the program's threads, and the state that belongs to each kernel thread
//! alone.
//!
//! The first worker is the kernel thread with which the process began. The other workers start when
//! there is work for them, up to `--cores`, and live as long as the process.

use core::arch::asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::kernel::cells::Own;
use crate::kernel::clock::Nanoseconds;
use crate::kernel::disposition::{self, NUDGE_VALUE, TICK_SIGNAL};
use crate::kernel::lock::{Guarded, Locked};
use crate::kernel::sys::{self, sys};
use crate::schedule::inspection::DESCRIPTION;
use crate::schedule::thread::{NOBODY, ThreadRef};
use crate::schedule::waiter::{State, WaiterRef};

/// Events taken from epoll at a time.
const EVENTS: usize = 256;
/// The most workers that a process can have.
pub(crate) const MOST_WORKERS: usize = 64;

/// A signal has come.
pub(crate) const SIGNAL_CAME: u32 = 1;
/// The thread must enter a handler, and other handlers may come first.
pub(crate) const HANDLER_ENTERED: u32 = 2;

/// Offsets that the entry knows.
pub(crate) const CURRENT_OFFSET: usize = offset_of!(Worker, current);
pub(crate) const VFORK_PARENT_OFFSET: usize = offset_of!(Worker, vfork_parent);
pub(crate) const STACK_POINTER_OFFSET: usize = offset_of!(Worker, stack_pointer);
pub(crate) const IN_ENGINE_OFFSET: usize = offset_of!(Worker, in_engine);
pub(crate) const KERNEL_MASK_OFFSET: usize = offset_of!(Worker, kernel_mask);
pub(crate) const ATTENTION_OFFSET: usize = offset_of!(Worker, attention);
pub(crate) const MASK_IS_STALE_OFFSET: usize = offset_of!(Worker, mask_is_stale);

/// The state of a kernel thread. The entry and debuggers know the offsets of the first fields.
#[repr(C)]
pub(crate) struct Worker {
    this: Own<usize>,
    /// Whether the engine is executing, and not the program. While the engine executes, a signal
    /// waits.
    in_engine: Own<u32>,
    /// The worker sleeps until an event, or is about to.
    idle: Own<u32>,
    /// For debuggers.
    description: Own<usize>,
    /// The signals that the kernel blocks for this worker.
    pub(crate) kernel_mask: AtomicU64,
    /// The reason why the thread cannot go on as last prepared (`dispatch::resume`): the two bits
    /// above.
    pub(crate) attention: AtomicU32,
    /// The kernel may block other signals than the threads do, until the engine is left: see
    /// `signals/flood.rs`.
    pub(crate) mask_is_stale: Own<u32>,
    /// The thread that the worker runs. `NOBODY` while the worker uses its own stack.
    pub(crate) current: Own<ThreadRef>,
    /// The worker's place among the workers.
    pub(crate) index: Own<usize>,
    /// The stack pointer where the worker left its own stack.
    pub(crate) stack_pointer: Own<usize>,
    /// A thread that has ended on this worker. The thread's stack is no longer in use.
    pub(crate) ended: Own<Option<ThreadRef>>,
    /// Ticks in the turn of the thread that runs, see `schedule/ticks.rs`.
    pub(crate) ticks: AtomicU32,
    /// Ticks since a thread that computes had a turn.
    pub(crate) credit_used: AtomicU32,
    /// The running thread computes, and gives way to threads that wake.
    pub(crate) gives_way: Own<bool>,
    /// The number of handlers that threads have entered before they went on, and the time at which
    /// the count began: see `signals/flood.rs`.
    pub(crate) deliveries: Own<u32>,
    pub(crate) deliveries_since: Own<Nanoseconds>,
    /// The timer that ends a moment without signals. Negative without a timer.
    pub(crate) recall_timer: Own<i32>,
    /// A child of vfork(2) uses our memory: the id of its parent.
    pub(crate) vfork_parent: Own<i32>,
    /// Switches until the descriptors are looked at.
    pub(crate) switches_left: Own<i32>,
    /// Calls in a row that did not wait.
    pub(crate) calls_in_a_row: Own<u32>,
    /// The number of the kernel thread.
    pub(crate) kernel_id: Own<i32>,
    /// The timer of its ticks; negative without one.
    pub(crate) tick_timer: Own<i32>,
    /// The processor time of the kernel thread when `schedule/processor_time.rs` looked last; zero:
    /// never.
    pub(crate) charged_at: Own<Nanoseconds>,
    /// The worker's ticks come faster for now.
    pub(crate) short_ticks: Own<bool>,
    /// The time at which this worker woke while other workers ran threads. Zero if no other ran.
    pub(crate) came_at: Own<Nanoseconds>,
    /// The last errand that the worker has executed (`every_worker::everywhere`).
    pub(crate) errand: Own<usize>,
    /// The events that epoll wrote last.
    events: Own<[libc::epoll_event; EVENTS]>,
}

/// The worker of the kernel thread that the process began with.
pub(crate) static FIRST: Worker = Worker::new();

/// The workers that have been started.
struct Workers {
    list: [Option<&'static Worker>; MOST_WORKERS],
    count: usize,
}

static WORKERS: Guarded<Workers> = Guarded::new(Workers { list: [None; MOST_WORKERS], count: 0 });

/// The worker that executes this.
#[inline(always)]
pub(crate) fn worker() -> &'static Worker {
    let this: usize;
    // SAFETY: `gs` points to the kernel thread's worker, and a worker's first field is its own
    // address.
    unsafe {
        asm!("mov {}, gs:[0]", out(reg) this, options(nostack, pure, readonly, preserves_flags));
        &*(this as *const Worker)
    }
}

/// Notes whether the engine or the program executes from now on. This is one instruction, because
/// outside the engine a signal may move the thread to another worker at any time.
#[inline(always)]
pub(crate) fn set_in_engine(inside: bool) {
    // SAFETY: `gs` points to the worker, which the second field at offset 8 belongs to. No memory
    // access moves across.
    unsafe {
        asm!(
            "mov dword ptr gs:[{offset}], {inside:e}",
            offset = const IN_ENGINE_OFFSET,
            inside = in(reg) u32::from(inside),
            options(nostack, preserves_flags)
        );
    }
}

/// The thread that executes this.
#[inline(always)]
pub(crate) fn current() -> ThreadRef {
    worker().current.get()
}

/// The waiter of the current call: the current thread, or the task for which the thread makes the
/// call.
#[inline(always)]
pub(crate) fn waiter() -> WaiterRef {
    let thread = current();
    match thread.task.get() {
        Some(task) => &task.waiter,
        None => thread,
    }
}

/// The deadline of a call. If the call has waited before, the deadline of its first wait.
pub(crate) fn first_deadline(deadline: Nanoseconds) -> Nanoseconds {
    current().task.get().map_or(deadline, |task| task.first_deadline(deadline))
}

/// Adds a worker without a kernel thread, which begins later. `None` if there are too many, or no
/// memory.
pub(crate) fn add(locked: &mut Locked) -> Option<&'static Worker> {
    let workers = WORKERS.of(locked);
    if workers.count == MOST_WORKERS {
        return None;
    }
    let place = sys::map(size_of::<Worker>(), libc::PROT_READ | libc::PROT_WRITE, 0)?;
    let place = place as *mut Worker;
    // SAFETY: mapped just now, large enough, and aligned to a page. Workers are never taken away.
    let added: &'static Worker = unsafe {
        place.write(Worker::new());
        &*place
    };
    enlist(workers, added);
    Some(added)
}

fn enlist(workers: &mut Workers, worker: &'static Worker) {
    assert!(workers.count < MOST_WORKERS, "there is no place for another worker");
    worker.index.set(workers.count);
    workers.list[workers.count] = Some(worker);
    workers.count += 1;
}

/// Takes back the worker that was added last, because its kernel thread could not be made.
pub(crate) fn take_back(locked: &mut Locked) {
    let workers = WORKERS.of(locked);
    assert!(workers.count > 1, "the first worker is taken back");
    workers.count -= 1;
    let last = workers.list[workers.count].take();
    assert!(last.is_some_and(|last| last.index.get() == workers.count), "a worker is misplaced");
}

/// This kernel thread's worker is the only one: at the start, and in the child of a fork.
pub(crate) fn stand_alone(locked: &mut Locked) {
    let workers = WORKERS.of(locked);
    *workers = Workers { list: [None; MOST_WORKERS], count: 0 };
    enlist(workers, worker());
}

/// How many workers there are.
pub(crate) fn count(locked: &mut Locked) -> usize {
    WORKERS.of(locked).count
}

/// All workers.
pub(crate) fn all(locked: &mut Locked) -> impl Iterator<Item = &'static Worker> + use<> {
    WORKERS.of(locked).list.into_iter().flatten()
}

/// The workers other than the calling one.
pub(crate) fn others(locked: &mut Locked) -> impl Iterator<Item = &'static Worker> + use<> {
    let own = worker().index.get();
    all(locked).filter(move |worker| worker.index.get() != own)
}

/// The worker that runs `thread`, if another worker runs it.
pub(crate) fn runner(locked: &mut Locked, thread: ThreadRef) -> Option<&'static Worker> {
    if thread.state.get(locked.held()) != State::Running {
        return None;
    }
    others(locked).find(|worker| worker.current.get().is(thread))
}

impl Worker {
    const fn new() -> Self {
        Self {
            this: Own::new(0),
            in_engine: Own::new(0),
            idle: Own::new(0),
            description: Own::new(0),
            current: Own::new(&NOBODY),
            index: Own::new(0),
            stack_pointer: Own::new(0),
            ended: Own::new(None),
            ticks: AtomicU32::new(0),
            credit_used: AtomicU32::new(0),
            gives_way: Own::new(false),
            mask_is_stale: Own::new(0),
            deliveries: Own::new(0),
            deliveries_since: Own::new(0),
            recall_timer: Own::new(-1),
            vfork_parent: Own::new(0),
            switches_left: Own::new(64),
            calls_in_a_row: Own::new(0),
            kernel_id: Own::new(0),
            kernel_mask: AtomicU64::new(0),
            attention: AtomicU32::new(0),
            tick_timer: Own::new(-1),
            charged_at: Own::new(0),
            short_ticks: Own::new(false),
            came_at: Own::new(0),
            errand: Own::new(0),
            events: Own::new([libc::epoll_event { events: 0, u64: 0 }; EVENTS]),
        }
    }

    /// Makes this the worker of the kernel thread that executes this.
    pub(crate) fn adopt(&'static self) {
        assert!(self.this.get() == 0, "a worker gets a second kernel thread");
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

    pub(crate) fn set_idle(&self, idle: bool) {
        self.idle.set(u32::from(idle));
        core::sync::atomic::compiler_fence(Ordering::SeqCst);
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.idle.get() != 0
    }

    /// Interrupts the worker, so that it looks at the signals for its thread.
    pub(crate) fn nudge(&self) {
        disposition::send(self.kernel_id.get(), TICK_SIGNAL, NUDGE_VALUE);
    }

    /// Takes up to `EVENTS` events from epoll. Returns the number of events. The buffer is in the
    /// worker, since threads have small stacks.
    pub(crate) fn take_events(&self, epoll: i32, timeout: Option<&libc::timespec>) -> usize {
        // SAFETY: only this function refers to the room, on this kernel thread.
        let room = unsafe { &mut *self.events.as_ptr() };
        sys!(SYS_epoll_pwait2, epoll, room, EVENTS, timeout, 0, 8).max(0) as usize
    }

    /// An event of the last call of `take_events`.
    pub(crate) fn event(&self, index: usize) -> libc::epoll_event {
        // SAFETY: nothing refers to the room outside `take_events`.
        unsafe { (&*self.events.as_ptr())[index] }
    }
}
