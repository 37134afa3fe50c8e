//! Signals: the kernel's handler is always ours, and what the program sees is delivered by the engine.
//!
//! ```text
//!   kernel ──▶ handler, on the worker's signal stack, with all signals blocked
//!                in the program: the interrupted context is changed to enter the program's handler
//!                in the engine:  the signal is held back; the dispatcher delivers it when it returns
//!   tgkill among our threads:    never reaches the kernel; pending for the thread, which is woken
//! ```
//!
//! What the kernel blocks is what every thread blocks. libc blocks all signals around the making of a
//! thread: such a mask is not told to the kernel, and what comes in the meantime waits in the engine.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::context::{Context, Delivery};
use crate::frame::{Frame, duality_preempted, duality_restorer};
use crate::helpers::HELPER_VALUE;
use crate::lock::{Guarded, Locked, Setting, lock};
use crate::preemption;
use crate::report;
use crate::scheduler::{ring, wake};
use crate::sys::{self, EINTR, RESTART, sys};
use crate::thread::{MAIN, Pending, Reason, State, THREADS, Thread, ThreadRef};
use crate::user;
use crate::worker::{current, worker};

/// The engine's own signal: ticks, and interruptions of helpers. The program can use it too.
pub(crate) const ENGINE_SIGNAL: i32 = 62;

pub(crate) const SA_ONSTACK: u64 = libc::SA_ONSTACK as u32 as u64;
const SA_RESTORER: u64 = 0x0400_0000;
const SIG_DFL: u64 = 0;
const SIG_IGN: u64 = 1;

/// The kernel's `struct sigaction`.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Action {
    pub(crate) handler: u64,
    pub(crate) flags: u64,
    pub(crate) restorer: u64,
    pub(crate) mask: u64,
}

impl Action {
    const DEFAULT: Self = Self { handler: SIG_DFL, flags: 0, restorer: 0, mask: 0 };

    fn has(&self, flag: i32) -> bool {
        self.flags & flag as u32 as u64 != 0
    }

    pub(crate) fn runs(&self) -> bool {
        self.handler > SIG_IGN
    }

    fn ignores(&self, number: i32) -> bool {
        let by_default =
            matches!(number, libc::SIGCHLD | libc::SIGURG | libc::SIGWINCH | libc::SIGCONT);
        self.handler == SIG_IGN || (self.handler == SIG_DFL && by_default)
    }
}

/// What the program has asked for, by signal number.
pub(crate) static ACTIONS: [Setting<Action>; 65] =
    [const { Setting::new(Action::DEFAULT) }; 65];

/// Signals sent to the process that every thread blocks at the moment.
static PROCESS: Guarded<Vec<Pending>> = Guarded::new(Vec::new());
static PROCESS_BITS: AtomicU64 = AtomicU64::new(0);

/// How many threads block each signal, and how many threads count.
struct Masks {
    counts: [u32; 64],
    blocked_somewhere: u64,
    threads: u32,
}

static MASKS: Guarded<Masks> =
    Guarded::new(Masks { counts: [0; 64], blocked_somewhere: 0, threads: 0 });

/// Threads that receive the signals of a timer (`SIGEV_THREAD_ID`), by the timer's number.
static TIMERS: Guarded<Vec<(i32, i32)>> = Guarded::new(Vec::new());

pub(crate) const fn bit(number: i32) -> u64 {
    1 << (number - 1)
}

const NEVER_BLOCKED: u64 = bit(libc::SIGKILL) | bit(libc::SIGSTOP);
/// What a faulting instruction raises. The kernel never blocks them for us.
const FAULTS: u64 = bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGFPE)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGSYS);

/// libc's own mask for a few instructions: everything, its internal signals included.
fn is_brief(mask: u64) -> bool {
    mask | NEVER_BLOCKED == u64::MAX
}

impl Masks {
    fn count(&mut self, mask: u64, enters: bool) {
        if is_brief(mask) {
            return;
        }
        self.threads = if enters { self.threads + 1 } else { self.threads - 1 };
        let mut bits = mask;
        while bits != 0 {
            let index = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            let count = self.counts[index];
            self.counts[index] = if enters { count + 1 } else { count - 1 };
            if self.counts[index] == 0 {
                self.blocked_somewhere &= !(1 << index);
            } else {
                self.blocked_somewhere |= 1 << index;
            }
        }
    }

    fn blocked_everywhere(&self) -> u64 {
        let mut everywhere = 0;
        let mut bits = self.blocked_somewhere;
        while bits != 0 {
            let index = bits.trailing_zeros();
            bits &= bits - 1;
            if self.counts[index as usize] == self.threads {
                everywhere |= 1 << index;
            }
        }
        everywhere & !(NEVER_BLOCKED | FAULTS | bit(ENGINE_SIGNAL))
    }
}

/// Changes what a thread blocks.
pub(crate) fn set_mask(locked: &mut Locked, thread: ThreadRef, mask: u64) {
    let mask = mask & !NEVER_BLOCKED;
    let before = thread.mask.replace(mask);
    if before == mask {
        return;
    }
    let masks = MASKS.of(locked);
    masks.count(before, false);
    masks.count(mask, true);
    follow_masks(locked);
    adopt_from_process(locked, thread);
}

fn follow_masks(locked: &mut Locked) {
    let masks = MASKS.of(locked);
    if masks.threads == 0 {
        return;
    }
    let blocked = masks.blocked_everywhere();
    if worker().kernel_mask.replace(blocked) != blocked {
        sys!(SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const blocked, 0, 8);
    }
}

/// Signals of the process that the thread does not block become its own.
fn adopt_from_process(locked: &mut Locked, thread: ThreadRef) {
    let accepted = !thread.mask.get() | thread.awaited.get();
    while PROCESS_BITS.load(Ordering::Relaxed) & accepted != 0 {
        let Some(pending) = take_from(PROCESS.of(locked), &PROCESS_BITS, accepted) else { return };
        add_pending(locked, thread, pending);
    }
}

fn take_from(list: &mut Vec<Pending>, bits: &AtomicU64, wanted: u64) -> Option<Pending> {
    let index = list.iter().position(|pending| bit(pending.number) & wanted != 0)?;
    let pending = list.remove(index);
    bits.store(list.iter().fold(0, |bits, pending| bits | bit(pending.number)), Ordering::Relaxed);
    Some(pending)
}

/// A signal that the process took and that every thread blocks, if it is one of `wanted`.
pub(crate) fn take_process_signal(locked: &mut Locked, wanted: u64) -> Option<Pending> {
    take_from(PROCESS.of(locked), &PROCESS_BITS, wanted)
}

/// The signals that wait in the engine for the process.
pub(crate) fn process_bits() -> u64 {
    PROCESS_BITS.load(Ordering::Relaxed) | worker().held_bits()
}

/// Takes the first signal that is pending for the thread and one of `wanted`.
pub(crate) fn take_pending(locked: &mut Locked, thread: &Thread, wanted: u64) -> Option<Pending> {
    let list = thread.pending(locked);
    let index = list.iter().position(|pending| bit(pending.number) & wanted != 0)?;
    let pending = list.remove(index);
    let left = list.iter().fold(0, |bits, pending| bits | bit(pending.number));
    thread.pending_bits.set(left);
    Some(pending)
}

/// Makes a signal pending for a thread, and wakes it if it accepts the signal.
pub(crate) fn add_pending(locked: &mut Locked, thread: ThreadRef, pending: Pending) {
    let signal = bit(pending.number);
    // Ordinary signals do not queue, nor do libc's own two.
    if pending.number < 34 && thread.pending_bits.get() & signal != 0 {
        return;
    }
    thread.pending(locked).push(pending);
    thread.pending_bits.set(thread.pending_bits.get() | signal);
    let accepted = (!thread.mask.get() | thread.awaited.get()) & signal != 0;
    if accepted && thread.state.get() == State::Parked && thread.interruptible.get() {
        wake(locked, thread, Reason::Interrupted);
    }
}

/// Gives the signals that were held back to threads that accept them.
pub(crate) fn assign_held(locked: &mut Locked) {
    let worker = worker();
    while worker.has_held() {
        let all = u64::MAX;
        let mut before = 0u64;
        sys!(SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const all, &raw mut before, 8);
        let taken = worker.take_held(|_| true);
        sys!(SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const before, 0, 8);
        let Some(info) = taken else { return };
        assign(locked, Pending { number: info.si_signo, info });
    }
}

fn assign(locked: &mut Locked, pending: Pending) {
    if let Some(thread) = timer_thread(locked, &pending.info) {
        return add_pending(locked, thread, pending);
    }
    let signal = bit(pending.number);
    let accepts = |thread: &ThreadRef| {
        (!thread.mask.get() | thread.awaited.get()) & signal != 0
    };
    let running = current();
    let main: ThreadRef = &MAIN;
    let preferred = [running, main];
    let chosen = preferred
        .into_iter()
        .find(|thread| thread.state.get() != State::Dead && accepts(thread))
        .or_else(|| THREADS.of(locked).iter().find(accepts));
    match chosen {
        Some(thread) => add_pending(locked, thread, pending),
        None => {
            let known = PROCESS_BITS.load(Ordering::Relaxed) & signal != 0;
            if pending.number >= 34 || !known {
                PROCESS.of(locked).push(pending);
                PROCESS_BITS.fetch_or(signal, Ordering::Relaxed);
            }
        }
    }
}

/// The thread that a timer's signals are for.
fn timer_thread(locked: &mut Locked, info: &libc::siginfo_t) -> Option<ThreadRef> {
    if info.si_code != libc::SI_TIMER {
        return None;
    }
    // SAFETY: a timer's signal has the timer's number 16 bytes from the start.
    let timer = unsafe { (&raw const *info).cast::<i32>().add(4).read() };
    let id = TIMERS.of(locked).iter().find(|(number, _)| *number == timer)?.1;
    THREADS.of(locked).find(id)
}

/// Remembers for which thread a timer is.
pub(crate) fn route_timer(timer: i32, thread: i32) {
    let mut locked = lock();
    let timers = TIMERS.of(&mut locked);
    timers.retain(|(number, _)| *number != timer);
    timers.push((timer, thread));
}

/// The value that a signal carries.
fn value(info: &libc::siginfo_t) -> usize {
    // SAFETY: queued signals and those of timers have their value 24 bytes from the start.
    unsafe { (&raw const *info).cast::<usize>().add(3).read() }
}

/// What the kernel calls for every signal.
pub(crate) extern "C" fn handler(number: i32, info: &mut libc::siginfo_t, context: &mut Context) {
    if number == ENGINE_SIGNAL && info.si_code == libc::SI_QUEUE && value(info) == HELPER_VALUE {
        return;
    }
    if number == libc::SIGSEGV || number == libc::SIGBUS {
        if let Some(next) = user::after_fault(context.rip as usize) {
            context.rip = next as u64;
            return;
        }
    }
    let worker = worker();
    let faulted = FAULTS & bit(number) != 0 && info.si_code > 0;
    if faulted {
        return fault(number, info, context);
    }
    let foreign = worker.vfork_parent.get() != 0;
    let tick = number == ENGINE_SIGNAL
        && info.si_code == libc::SI_TIMER
        && value(info) == preemption::TICK_VALUE;
    if tick {
        worker.turn_is_over.store(true, Ordering::Relaxed);
    } else {
        worker.hold(info);
    }
    if worker.is_in_engine() || foreign {
        if worker.is_idle() {
            ring();
        }
        return;
    }
    // The program was executing: the engine looks at the signal on the thread's own stack.
    worker.set_in_engine(true);
    context.set_aside(duality_preempted);
}

/// A faulting instruction: the thread's own handler, or the death that the program would die natively.
fn fault(number: i32, info: &libc::siginfo_t, context: &mut Context) {
    let worker = worker();
    let thread = current();
    let action = ACTIONS[number as usize].get();
    if worker.is_in_engine() && worker.vfork_parent.get() == 0 {
        report::engine_fault(number, context);
        return die_natively(number);
    }
    let blocked = thread.mask.get() & bit(number) != 0;
    if !action.runs() || blocked {
        report::stack_overflow(thread, info);
        return die_natively(number);
    }
    let mask = thread.mask.get();
    let delivery = Delivery { number, info, action: &action, mask };
    context.enter_handler(thread, &delivery, false);
    enter(thread, number, &action);
}

/// The instruction is executed again, and the kernel does what it does by default.
fn die_natively(number: i32) {
    let action = Action::DEFAULT;
    sys!(SYS_rt_sigaction, number, &raw const action, 0, 8);
}

/// While a handler runs: its signals are blocked, and it may be for one time only.
fn enter(thread: ThreadRef, number: i32, action: &Action) {
    let own = if action.has(libc::SA_NODEFER) { 0 } else { bit(number) };
    set_mask(&mut lock(), thread, thread.mask.get() | action.mask | own);
    if action.has(libc::SA_RESETHAND) {
        let once = Action { handler: SIG_DFL, ..*action };
        install(number, once);
    }
}

/// A signal that is pending for the current thread and has a handler to run. Those without are dealt with.
fn next_delivery(locked: &mut Locked) -> Option<(Pending, Action)> {
    loop {
        let thread = current();
        let pending = take_pending(locked, thread, !thread.mask.get())?;
        let action = ACTIONS[pending.number as usize].get();
        if action.runs() {
            return Some((pending, action));
        }
        if !action.ignores(pending.number) {
            act_by_default(pending.number);
        }
    }
}

/// Has the kernel do what it does with a signal by default: stop or end the process.
pub(crate) fn act_by_default(number: i32) {
    let nothing = 0u64;
    let mut before = 0u64;
    die_natively(number);
    sys!(SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const nothing, &raw mut before, 8);
    sys!(SYS_tgkill, sys!(SYS_getpid), worker().kernel_id.get(), number);
    sys!(SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const before, 0, 8);
}

/// The mask that the program returns to after a handler.
fn mask_after(thread: &Thread) -> u64 {
    thread.mask_after.take().unwrap_or(thread.mask.get())
}

/// Before a call returns to the program: handlers of pending signals come first.
#[cold]
pub(crate) fn deliver_on_return(frame: &mut Frame, result: isize) -> isize {
    let mut locked = lock();
    assign_held(&mut locked);
    let thread = current();
    let Some((pending, action)) = next_delivery(&mut locked) else {
        if let Some(mask) = thread.mask_after.take() {
            set_mask(&mut locked, thread, mask);
        }
        if result == RESTART {
            frame.rip = frame.restart_address();
            return frame.rax as isize;
        }
        return result;
    };
    drop(locked);
    let (rip, value) = if result == RESTART {
        // libc's own signals unwind the stack from here, which they can from an address of the text alone.
        let internal = matches!(pending.number, 32 | 33);
        let restarts = action.has(libc::SA_RESTART) && (frame.restarts_in_text() || !internal);
        if restarts {
            (frame.restart_address(), frame.rax)
        } else {
            (frame.return_address(), EINTR as usize)
        }
    } else if frame.rip == frame.after {
        (frame.return_address(), result as usize)
    } else {
        (frame.rip, result as usize)
    };
    let number = pending.number;
    let delivery =
        Delivery { number, info: &pending.info, action: &action, mask: mask_after(thread) };
    enter(thread, number, &action);
    frame.enter_handler(thread, &delivery, rip, value);
    0
}

/// Before a thread that was interrupted in its own code goes on.
pub(crate) fn deliver_on_context(context: &mut Context) {
    loop {
        let mut locked = lock();
        assign_held(&mut locked);
        let Some((pending, action)) = next_delivery(&mut locked) else { return };
        drop(locked);
        let thread = current();
        let number = pending.number;
        let delivery =
            Delivery { number, info: &pending.info, action: &action, mask: mask_after(thread) };
        enter(thread, number, &action);
        context.enter_handler(thread, &delivery, true);
    }
}

/// Prepares a context for `sigreturn`: what it restores of the kernel's state is the kernel's own.
pub(crate) fn seal(context: &mut Context) {
    let worker = worker();
    context.mask = worker.kernel_mask.get();
    context.stack = libc::stack_t {
        ss_sp: worker.signal_stack.get() as *mut libc::c_void,
        ss_flags: 0,
        ss_size: SIGNAL_STACK,
    };
}

/// The stack on which the kernel delivers signals to a worker.
pub(crate) const SIGNAL_STACK: usize = 64 << 10;

/// Tells the kernel what to do with a signal, such that the engine learns what the program wants to know.
pub(crate) fn install(number: i32, action: Action) -> isize {
    let previous = ACTIONS[number as usize].replace(action);
    let ours = action.runs() || number == ENGINE_SIGNAL || number == libc::SIGSEGV || number == libc::SIGBUS;
    let kept = (libc::SA_NOCLDSTOP | libc::SA_NOCLDWAIT) as u64;
    let kernel = if ours {
        Action {
            handler: handler as *const () as u64,
            flags: (action.flags & kept)
                | (libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK) as u64
                | SA_RESTORER,
            restorer: duality_restorer as *const () as u64,
            mask: u64::MAX,
        }
    } else {
        action
    };
    let result = sys!(SYS_rt_sigaction, number, &raw const kernel, 0, 8);
    if sys::failed(result) {
        ACTIONS[number as usize].set(previous);
    }
    result
}

/// Takes over the process's signals.
pub(crate) fn take_over() {
    let worker = worker();
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let stack = sys::map(SIGNAL_STACK, protection, libc::MAP_NORESERVE).unwrap_or(0);
    worker.signal_stack.set(stack);
    use_signal_stack();
    for number in 1..=64 {
        let mut action = Action::DEFAULT;
        sys!(SYS_rt_sigaction, number, 0, &raw mut action, 8);
        ACTIONS[number as usize].set(action);
    }
    let mut mask = 0u64;
    sys!(SYS_rt_sigprocmask, 0, 0, &raw mut mask, 8);
    worker.kernel_mask.set(mask);
    for number in [libc::SIGSEGV, libc::SIGBUS, ENGINE_SIGNAL] {
        install(number, ACTIONS[number as usize].get());
    }
    let mut locked = lock();
    MASKS.of(&mut locked).count(u64::MAX, true);
    MASKS.of(&mut locked).count(mask, true);
    MAIN.mask.set(mask);
    follow_masks(&mut locked);
}

/// Tells the kernel where to put the frames of signals.
fn use_signal_stack() {
    let stack = libc::stack_t {
        ss_sp: worker().signal_stack.get() as *mut libc::c_void,
        ss_flags: 0,
        ss_size: SIGNAL_STACK,
    };
    sys!(SYS_sigaltstack, &raw const stack, 0);
}

/// A new thread blocks what its maker blocks; a thread that has ended blocks nothing.
pub(crate) fn count_thread(locked: &mut Locked, mask: u64, enters: bool) {
    if !is_brief(mask) {
        MASKS.of(locked).count(mask, enters);
        follow_masks(locked);
    }
}

/// In the child of a fork: signals that waited for the process wait for the parent.
pub(crate) fn reset_after_fork(locked: &mut Locked) {
    worker().forget_held();
    PROCESS.of(locked).clear();
    PROCESS_BITS.store(0, Ordering::Relaxed);
    TIMERS.of(locked).clear();
    let masks = MASKS.of(locked);
    *masks = Masks { counts: [0; 64], blocked_somewhere: 0, threads: 0 };
    masks.count(current().mask.get(), true);
    follow_masks(locked);
}

/// Runs a call with another mask, and goes back to the old one: after the handler, if one will run.
pub(crate) fn with_mask(mask: u64) -> impl Drop {
    struct Back(u64);
    impl Drop for Back {
        fn drop(&mut self) {
            let mut locked = lock();
            assign_held(&mut locked);
            let thread = current();
            if thread.deliverable() != 0 {
                thread.mask_after.set(Some(self.0));
            } else {
                set_mask(&mut locked, thread, self.0);
            }
        }
    }
    let thread = current();
    let before = thread.mask.get();
    set_mask(&mut lock(), thread, mask);
    Back(before)
}
