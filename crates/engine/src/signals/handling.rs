//! Signals. The kernel's handler is always ours, and the engine delivers signals to the program.
//!
//! ```text
//!   kernel ──▶ handler, on the worker's signal stack, with all signals blocked
//!                in the program: the interrupted context is changed to enter the program's handler
//!                in the engine:  the signal is held back; the dispatcher delivers it on its return
//!   tgkill among our threads:    never reaches the kernel; pending for the thread, which is woken
//! ```

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::kernel::assertions::check;
use crate::kernel::bell::ring;
use crate::kernel::disposition::{
    Action, FIRST_QUEUED, HELPER_SIGNAL, HELPER_VALUE, NUDGE_VALUE, RECALL_VALUE, SA_RESTORER,
    SIG_DFL, TICK_SIGNAL, TICK_VALUE, bit,
};
use crate::kernel::frame::{
    after_wait, duality_preempted, duality_restorer, duality_resume, is_resuming,
};
use crate::kernel::info::{self, value};
use crate::kernel::lock::{Guarded, Locked, lock};
use crate::kernel::settings;
use crate::kernel::stats;
use crate::kernel::sys::{self, sys};
use crate::kernel::undelivered;
use crate::kernel::user;
use crate::schedule::context::{Beneath, Context, Delivery};
use crate::schedule::every_worker;
use crate::schedule::idle;
use crate::schedule::scheduler::wake;
use crate::schedule::thread::{self, MAIN, Pending, Thread, ThreadRef};
use crate::schedule::ticks;
use crate::schedule::waiter::{Reason, State};
use crate::schedule::worker::{self, SIGNAL_CAME, current, set_in_engine, worker};
use crate::show::report;
use crate::signals::flood;
use crate::signals::masks;
use crate::signals::seccomp;

/// The actions that the program has set, by signal number.
static ACTIONS: Guarded<[Action; 65]> = Guarded::new([Action::DEFAULT; 65]);

/// The action that the program has set for this signal.
pub(crate) fn action(locked: &mut Locked, number: i32) -> Action {
    ACTIONS.of(locked)[number as usize]
}

/// Signals sent to the process that every thread blocks at the moment.
static PROCESS: Guarded<Vec<Pending>> = Guarded::new(Vec::new());
static PROCESS_BITS: AtomicU64 = AtomicU64::new(0);

/// Signals that timers send to threads.
static ROUTED: AtomicU64 = AtomicU64::new(0);
/// Threads that receive the signals of a timer (`SIGEV_THREAD_ID`), by the timer's number.
static TIMERS: Guarded<Vec<(i32, i32)>> = Guarded::new(Vec::new());

/// Changes the mask of a thread.
pub(crate) fn set_mask(locked: &mut Locked, thread: ThreadRef, mask: u64) {
    let mask = mask & !masks::NEVER_BLOCKED;
    let before = thread.mask.get();
    if before == mask {
        return;
    }
    thread.mask.set(mask);
    masks::change(locked, before, mask);
    adopt_from_process(locked, thread);
}

/// Signals of the process that the thread does not block become its own.
fn adopt_from_process(locked: &mut Locked, thread: ThreadRef) {
    let accepted = !thread.mask.get() | thread.awaited.get();
    while PROCESS_BITS.load(Ordering::Relaxed) & accepted != 0 {
        let Some(pending) = take_from(PROCESS.of(locked), &PROCESS_BITS, accepted) else { return };
        add_pending(locked, thread, pending);
    }
}

/// Whether the bits are those of the signals in the list.
fn are_noted(list: &[Pending], bits: &AtomicU64) -> bool {
    let listed = list.iter().fold(0, |bits, pending| bits | bit(pending.number));
    listed == bits.load(Ordering::Relaxed)
}

fn take_from(list: &mut Vec<Pending>, bits: &AtomicU64, wanted: u64) -> Option<Pending> {
    check!(are_noted(list, bits), "a signal of the process is noted that does not wait");
    let pending = list.remove(next_of(list, wanted)?);
    bits.store(list.iter().fold(0, |bits, pending| bits | bit(pending.number)), Ordering::Relaxed);
    Some(pending)
}

/// The place of the first signal, in the kernel's order. Faults come before all others, then the
/// lowest number. Of signals with one number, the oldest comes first.
fn next_of(list: &[Pending], wanted: u64) -> Option<usize> {
    let wanted_ones = list.iter().enumerate().filter(|(_, one)| bit(one.number) & wanted != 0);
    let order = |number: i32| (bit(number) & masks::FAULTS == 0, number);
    wanted_ones.min_by_key(|(_, one)| order(one.number)).map(|(index, _)| index)
}

/// Takes a signal among `wanted` that the process received and that every thread blocks.
pub(crate) fn take_process_signal(locked: &mut Locked, wanted: u64) -> Option<Pending> {
    take_from(PROCESS.of(locked), &PROCESS_BITS, wanted)
}

/// The signals that wait in the engine for the process.
pub(crate) fn process_bits() -> u64 {
    PROCESS_BITS.load(Ordering::Relaxed) | undelivered::bits()
}

/// Takes the first signal of `wanted` that is pending for the thread.
pub(crate) fn take_pending(locked: &mut Locked, thread: &Thread, wanted: u64) -> Option<Pending> {
    let list = thread.pending.of(locked);
    check!(are_noted(list, &thread.pending_bits), "a signal is noted that does not wait");
    let pending = list.remove(next_of(list, wanted)?);
    let left = list.iter().fold(0, |bits, pending| bits | bit(pending.number));
    thread.pending_bits.store(left, Ordering::Relaxed);
    Some(pending)
}

/// Makes a signal pending for a thread, and wakes the thread if it accepts the signal.
pub(crate) fn add_pending(locked: &mut Locked, thread: ThreadRef, pending: Pending) {
    let signal = bit(pending.number);
    // Ordinary signals do not queue, nor do libc's own two.
    if pending.number < FIRST_QUEUED && thread.pending_bits.load(Ordering::Relaxed) & signal != 0 {
        return;
    }
    if pending.info.si_code == libc::SI_TIMER && overruns(thread.pending.of(locked), &pending) {
        return;
    }
    thread.pending.of(locked).push(pending);
    thread.pending_bits.fetch_or(signal, Ordering::Relaxed);
    check!(are_noted(thread.pending.of(locked), &thread.pending_bits), "a signal is not noted");
    let accepted = (!thread.mask.get() | thread.awaited.get()) & signal != 0;
    if !accepted {
        return;
    }
    let held = locked.held();
    if thread.state.get(held) == State::Parked && thread.interruptible.get(held) {
        wake(locked, thread, Reason::Interrupted);
    } else if let Some(runner) = worker::runner(locked, thread) {
        runner.nudge();
    }
}

/// Sends a thread a signal that a call of its own has caused.
pub(crate) fn raise(locked: &mut Locked, thread: ThreadRef, number: i32) {
    let action = action(locked, number);
    if action.runs() || thread.mask.get() & bit(number) != 0 {
        let mut info = info::bare(number, libc::SI_USER);
        info::set_sender(&mut info, [MAIN.id.get(), sys!(SYS_getuid) as i32]);
        add_pending(locked, thread, Pending { number, info });
    } else if !action.ignores(number) {
        act_by_default(number);
    }
}

/// Gives the signals that were held back to threads that accept them.
pub(crate) fn assign_held(locked: &mut Locked) {
    while let Some(info) = undelivered::take() {
        assign(locked, Pending { number: info.si_signo, info });
    }
}

fn assign(locked: &mut Locked, pending: Pending) {
    if is_dump(locked, pending.number)
        && let Some(dump) = report::DUMP.get()
    {
        return dump(locked);
    }
    if let Some(thread) = timer_thread(locked, &pending.info) {
        return add_pending(locked, thread, pending);
    }
    if let Some(thread) = seccomp::thread(&pending) {
        let thread = thread::find(locked, thread).unwrap_or(&MAIN);
        let blocked = thread.mask.get() & bit(pending.number) != 0;
        if blocked || !action(locked, pending.number).runs() {
            act_by_default(pending.number);
        }
        return add_pending(locked, thread, pending);
    }
    let signal = bit(pending.number);
    let accepts = |thread: &ThreadRef| (!thread.mask.get() | thread.awaited.get()) & signal != 0;
    let running = current();
    let main: ThreadRef = &MAIN;
    let preferred = [running, main];
    let chosen = preferred
        .into_iter()
        .find(|thread| thread.state.get(locked.held()) != State::Dead && accepts(thread))
        .or_else(|| thread::all(locked).find(accepts));
    match chosen {
        Some(thread) => add_pending(locked, thread, pending),
        None => {
            let known = PROCESS_BITS.load(Ordering::Relaxed) & signal != 0;
            if pending.number >= FIRST_QUEUED || !known {
                PROCESS.of(locked).push(pending);
                PROCESS_BITS.fetch_or(signal, Ordering::Relaxed);
            }
        }
    }
}

/// Whether this signal asks for a list of all threads. A handler of the program for the signal
/// comes first.
fn is_dump(locked: &mut Locked, number: i32) -> bool {
    number == settings::DUMP_SIGNAL.get() && !action(locked, number).runs()
}

/// The thread that receives a timer's signals.
fn timer_thread(locked: &mut Locked, info: &libc::siginfo_t) -> Option<ThreadRef> {
    if info.si_code != libc::SI_TIMER {
        return None;
    }
    let [timer, _] = info::timer(info);
    let id = TIMERS.of(locked).iter().find(|(number, _)| *number == timer)?.1;
    thread::find(locked, id)
}

/// A timer has one signal at a time. If the timer's signal already waits, the timer has overrun.
fn overruns(list: &mut [Pending], pending: &Pending) -> bool {
    let [timer, more] = info::timer(&pending.info);
    let same = |other: &&mut Pending| {
        let info = &other.info;
        other.number == pending.number
            && info.si_code == libc::SI_TIMER
            && info::timer(info)[0] == timer
    };
    let Some(first) = list.iter_mut().find(same) else { return false };
    let [_, times] = info::timer(&first.info);
    let times = times.saturating_add(more).saturating_add(1);
    info::set_overrun(&mut first.info, times);
    true
}

/// Remembers the thread of a timer.
pub(crate) fn route_timer(number: i32, timer: i32, thread: i32) {
    let mut locked = lock();
    if (1..=64).contains(&number) {
        // The kernel would act by default, because it does not know that the thread waits for the
        // signal.
        ROUTED.fetch_or(bit(number), Ordering::Relaxed);
        let action = action(&mut locked, number);
        install(&mut locked, number, action);
    }
    let timers = TIMERS.of(&mut locked);
    timers.retain(|(number, _)| *number != timer);
    timers.push((timer, thread));
}

/// The handler that the kernel calls for every signal.
pub(crate) extern "C" fn handler(number: i32, info: &mut libc::siginfo_t, context: &mut Context) {
    if number == HELPER_SIGNAL && info.si_code == libc::SI_QUEUE && value(info) == HELPER_VALUE {
        return;
    }
    if (number == libc::SIGSEGV || number == libc::SIGBUS)
        && let Some(next) = user::after_fault(context.rip as usize)
    {
        context.rip = next as u64;
        return;
    }
    let worker = worker();
    let foreign = worker.vfork_parent.get() != 0;
    if !foreign {
        masks::adopt_in_handler(&mut context.mask);
    }
    let faulted = masks::FAULTS & bit(number) != 0 && info.si_code > 0;
    if faulted {
        return fault(number, info, context);
    }
    let tick = number == TICK_SIGNAL && info.si_code == libc::SI_TIMER && value(info) == TICK_VALUE;
    let nudge =
        number == TICK_SIGNAL && info.si_code == libc::SI_QUEUE && value(info) == NUDGE_VALUE;
    let recall =
        number == TICK_SIGNAL && info.si_code == libc::SI_TIMER && value(info) == RECALL_VALUE;
    let program = !(tick || nudge || recall);
    if tick {
        if !ticks::count(worker) {
            return;
        }
    } else if nudge {
        every_worker::run(worker);
    } else if program {
        stats::SIGNALS.add_unlocked(1);
        undelivered::hold(info);
    }
    worker.attention.fetch_or(SIGNAL_CAME, Ordering::Relaxed);
    if worker.is_in_engine() || foreign {
        if worker.is_idle() {
            idle::call_reserve();
            ring();
        }
        if program && !foreign {
            flood::seal(worker, &mut context.mask);
        }
        if let Some(interrupted) = after_wait(context.rip as usize) {
            context.rip = interrupted as u64;
        }
        return;
    }
    // The program was executing, so the engine handles the signal for the thread. The memory
    // beneath the thread's stack pointer is the program's: see `schedule/aside.rs`.
    if is_resuming(context.rip as usize) {
        context.rip = duality_resume as *const () as u64;
    } else if context.set_aside(current(), duality_preempted).is_err() {
        return;
    }
    set_in_engine(true);
    if program {
        flood::seal(worker, &mut context.mask);
    }
}

/// Handles a faulting instruction. The thread enters its own handler, or the program dies as it
/// would natively.
fn fault(number: i32, info: &libc::siginfo_t, context: &mut Context) {
    let worker = worker();
    let thread = current();
    if worker.is_in_engine() && worker.vfork_parent.get() == 0 {
        let trap = number == libc::SIGSYS && info.si_code == seccomp::CODE;
        if trap && seccomp::holds(thread, info, context) {
            return;
        }
        report::engine_fault(number, context);
        return die_natively(number);
    }
    // The program was executing, so this worker does not hold the lock.
    let mut locked = lock();
    let action = action(&mut locked, number);
    let blocked = thread.mask.get() & bit(number) != 0;
    if !action.runs() || blocked {
        drop(locked);
        report::stack_overflow(thread, info, context);
        return die_natively(number);
    }
    let mask = thread.mask.get();
    let delivery = Delivery { number, info, action: &action, mask };
    if context.enter_handler(thread, &delivery, Beneath::Nothing).is_err() {
        return die_natively(number);
    }
    // The kernel blocks every signal until this handler returns, and takes the new mask from the
    // context. With the new mask at once, a tick would interrupt this handler like code of the
    // program. The handler's stack would serve the next signal meanwhile.
    let stale = worker.mask_is_stale.replace(1);
    begin_handler(&mut locked, thread, number, &action);
    drop(locked);
    worker.mask_is_stale.set(stale);
    masks::adopt_in_handler(&mut context.mask);
}

/// The instruction is executed again, and the kernel takes the default action.
fn die_natively(number: i32) {
    let action = Action::DEFAULT;
    sys!(SYS_rt_sigaction, number, &action, 0, 8);
}

/// Applies the flags of a handler that begins. The handler's signals are blocked, and a one-time
/// handler is reset.
pub(crate) fn begin_handler(locked: &mut Locked, thread: ThreadRef, number: i32, action: &Action) {
    let own = if action.has(libc::SA_NODEFER) { 0 } else { bit(number) };
    set_mask(locked, thread, thread.mask.get() | action.mask | own);
    if action.has(libc::SA_RESETHAND) {
        let once = Action { handler: SIG_DFL, ..*action };
        install(locked, number, once);
    }
}

/// Has the kernel take a signal's default action: stop or end the process.
pub(crate) fn act_by_default(number: i32) {
    let nothing = 0u64;
    let mut before = 0u64;
    die_natively(number);
    sys!(SYS_rt_sigprocmask, libc::SIG_SETMASK, &nothing, &mut before, 8);
    sys!(SYS_tgkill, sys!(SYS_getpid), worker().kernel_id.get(), number);
    sys!(SYS_rt_sigprocmask, libc::SIG_SETMASK, &before, 0, 8);
}

/// The length of the stack on which the kernel delivers signals to a worker.
pub(crate) const STACK_BYTES: usize = 64 << 10;

/// Sets the kernel's action for a signal, so that the engine sees every signal that the program
/// wants to see.
pub(crate) fn install(locked: &mut Locked, number: i32, action: Action) -> isize {
    // This comes first, because a signal may come as soon as the kernel has the new action.
    let previous = core::mem::replace(&mut ACTIONS.of(locked)[number as usize], action);
    let always = [TICK_SIGNAL, HELPER_SIGNAL, libc::SIGSEGV, libc::SIGBUS];
    let dump = settings::DUMP_SIGNAL.get();
    let routed = ROUTED.load(Ordering::Relaxed) & bit(number) != 0;
    let ours = action.runs() || always.contains(&number) || number == dump || routed;
    let kept = (libc::SA_NOCLDSTOP | libc::SA_NOCLDWAIT) as u64;
    // A helper's call must end. A worker's call goes on.
    let restart = if number == HELPER_SIGNAL { 0 } else { libc::SA_RESTART as u64 };
    let kernel = if ours {
        Action {
            handler: handler as *const () as u64,
            flags: (action.flags & kept)
                | (libc::SA_SIGINFO | libc::SA_ONSTACK) as u64
                | restart
                | SA_RESTORER,
            restorer: duality_restorer as *const () as u64,
            mask: u64::MAX,
        }
    } else {
        action
    };
    let result = sys!(SYS_rt_sigaction, number, &kernel, 0, 8);
    if sys::failed(result) {
        ACTIONS.of(locked)[number as usize] = previous;
    }
    result
}

/// Called in the child of a fork that begins without its parent's handlers. The kernel has taken
/// the engine's handlers away too.
pub(crate) fn clear_handlers(locked: &mut Locked) {
    for number in 1..=64 {
        let action = action(locked, number);
        install(locked, number, if action.runs() { Action::DEFAULT } else { action });
    }
}

/// Takes over the process's signals.
pub(crate) fn take_over() {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    use_stack(sys::map(STACK_BYTES, protection, libc::MAP_NORESERVE).unwrap_or(0));
    let mut locked = lock();
    for number in 1..=64 {
        let mut action = Action::DEFAULT;
        sys!(SYS_rt_sigaction, number, 0, &mut action, 8);
        ACTIONS.of(&mut locked)[number as usize] = action;
    }
    let mut mask = 0u64;
    sys!(SYS_rt_sigprocmask, 0, 0, &mut mask, 8);
    worker().kernel_mask.store(mask, Ordering::Relaxed);
    masks::WANTED.store(mask, Ordering::Relaxed);
    let always =
        [libc::SIGSEGV, libc::SIGBUS, TICK_SIGNAL, HELPER_SIGNAL, settings::DUMP_SIGNAL.get()];
    for number in always.into_iter().filter(|&number| number != 0) {
        let action = action(&mut locked, number);
        install(&mut locked, number, action);
    }
    MAIN.mask.set(mask);
    masks::restart(&mut locked, mask);
}

/// Tells the kernel on which stack to put the frames of signals to this worker.
pub(crate) fn use_stack(address: usize) {
    let address = address as *mut libc::c_void;
    let stack = libc::stack_t { ss_sp: address, ss_flags: 0, ss_size: STACK_BYTES };
    sys!(SYS_sigaltstack, &stack, 0);
}

/// Called in the child of a fork. Signals that waited for the process wait for the parent.
pub(crate) fn reset_after_fork(locked: &mut Locked) {
    PROCESS.of(locked).clear();
    PROCESS_BITS.store(0, Ordering::Relaxed);
    TIMERS.of(locked).clear();
    masks::restart(locked, current().mask.get());
}
