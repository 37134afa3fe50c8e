//! The system calls about signals.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::calls::credentials;
use crate::calls::files;
use crate::calls::masked;
use crate::calls::threads;
use crate::descriptors::registry::{self, Direction, Kind};
use crate::kernel::clock::{self, NEVER};
use crate::kernel::disposition::{Action, FIRST_QUEUED, bit};
use crate::kernel::frame::{Frame, duality_resume};
use crate::kernel::info;
use crate::kernel::lock::lock;
use crate::kernel::plain::zeroed;
use crate::kernel::sys::{EAGAIN, EFAULT, EINTR, EINVAL, ESRCH, error, failed, sys};
use crate::kernel::user;
use crate::schedule::context::{Context, on_alternate};
use crate::schedule::scheduler::park;
use crate::schedule::thread::{self, MAIN, NO_STACK, Pending, ThreadRef, is_ours};
use crate::schedule::waiter::Reason;
use crate::schedule::worker::{current, worker};
use crate::signals::flood;
use crate::signals::handling::{
    self, act_by_default, add_pending, install, process_bits, set_mask, take_pending,
    take_process_signal,
};
use crate::signals::masks;

/// The signal by which libc announces a change of credentials to every thread.
const SETXID_SIGNAL: i32 = 33;

/// Runs a body that may fail, as a system call's result.
fn result(body: impl FnOnce() -> Result<isize, isize>) -> isize {
    body().unwrap_or_else(|error| error)
}

/// rt_sigprocmask(2)
pub(crate) fn rt_sigprocmask(frame: &mut Frame) -> isize {
    result(|| {
        let thread = current();
        let before = thread.mask.get();
        if frame.argument(3) != 8 {
            return Err(EINVAL);
        }
        if let Some(set) = user::read_optional::<u64>(frame.argument(1))? {
            let mask = match frame.argument(0) as i32 {
                libc::SIG_BLOCK => before | set,
                libc::SIG_UNBLOCK => before & !set,
                libc::SIG_SETMASK => set,
                _ => return Err(EINVAL),
            };
            set_mask(&mut lock(), thread, mask);
        }
        user::write_optional(frame.argument(2), &before)?;
        Ok(0)
    })
}

/// rt_sigaction(2)
pub(crate) fn rt_sigaction(frame: &mut Frame) -> isize {
    result(|| {
        let number = frame.argument(0) as i32;
        if !(1..=64).contains(&number) || frame.argument(3) != 8 {
            return Err(EINVAL);
        }
        let wanted = user::read_optional::<Action>(frame.argument(1))?;
        let mut locked = lock();
        let before = handling::action(&mut locked, number);
        if let Some(action) = wanted {
            if matches!(number, libc::SIGKILL | libc::SIGSTOP) {
                return Err(EINVAL);
            }
            let installed = install(&mut locked, number, action);
            if failed(installed) {
                return Err(installed);
            }
        }
        drop(locked);
        user::write_optional(frame.argument(2), &before)?;
        Ok(0)
    })
}

/// rt_sigreturn(2): the frame is the one that the stack pointer points into.
pub(crate) fn rt_sigreturn(frame: &mut Frame) -> isize {
    // SAFETY: the program says that a frame is there. Without a frame, the program dies as it would
    // natively.
    let context = unsafe { &mut *(frame.stack() as *mut Context) };
    let thread = current();
    flood::leaves_by_sigreturn();
    set_mask(&mut lock(), thread, context.mask);
    thread.alternate_stack.set(context.stack);
    frame.go_on_at(duality_resume as *const () as usize);
    frame.value() as isize
}

/// rt_sigsuspend(2)
pub(crate) fn rt_sigsuspend(frame: &mut Frame) -> isize {
    result(|| {
        if frame.argument(1) != size_of::<u64>() {
            return Err(EINVAL);
        }
        let mask: u64 = user::read(frame.argument(0))?;
        let _masked = masked::with_mask(mask);
        while park(&mut lock(), NEVER) != Reason::Interrupted {}
        Ok(EINTR)
    })
}

/// rt_sigpending(2)
pub(crate) fn rt_sigpending(frame: &mut Frame) -> isize {
    result(|| {
        // Only in this call does the kernel accept shorter sets.
        if frame.argument(1) > size_of::<u64>() {
            return Err(EINVAL);
        }
        let mut pending = 0u64;
        sys!(SYS_rt_sigpending, &mut pending, 8);
        let thread = current();
        pending |= thread.pending_bits.load(Ordering::Relaxed) | process_bits();
        pending &= thread.mask.get();
        user::write_bytes(frame.argument(0), (&raw const pending).cast(), frame.argument(1))?;
        Ok(0)
    })
}

/// rt_sigtimedwait(2)
pub(crate) fn rt_sigtimedwait(frame: &mut Frame) -> isize {
    result(|| {
        if frame.argument(3) != size_of::<u64>() {
            return Err(EINVAL);
        }
        let set: u64 = user::read(frame.argument(0))?;
        let deadline = match user::read_optional::<libc::timespec>(frame.argument(2))? {
            Some(time) if !clock::valid(&time) => return Err(EINVAL),
            Some(time) => clock::after(&time),
            None => NEVER,
        };
        let taken = wait_for_signal(set, deadline)?;
        user::write_optional(frame.argument(1), &taken.info)?;
        Ok(taken.number as isize)
    })
}

/// Takes a signal of `set` that is pending in the engine or in the kernel.
fn wait_for_signal(set: u64, deadline: u64) -> Result<Pending, isize> {
    let thread = current();
    // This stands before the first look, so that a signal that another worker assigns later ends
    // the wait.
    thread.awaited.set(set);
    let found = wait_for_one_of(thread, set, deadline);
    thread.awaited.set(0);
    found
}

fn wait_for_one_of(thread: ThreadRef, set: u64, deadline: u64) -> Result<Pending, isize> {
    let mut watched: Option<usize> = None;
    let found = loop {
        let seen =
            watched.and_then(registry::get).map(|descriptor| descriptor.seen(Direction::Read));
        if let Some(taken) = take_now(thread, set)? {
            break Ok(taken);
        }
        if deadline != NEVER && clock::now() >= deadline {
            break Err(EAGAIN);
        }
        let number = match watched {
            Some(number) => number,
            None => {
                let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
                let made = sys!(SYS_signalfd4, -1isize, &set, 8, flags);
                if failed(made) {
                    return Err(made);
                }
                registry::opened(made, Kind::Polled, true);
                *watched.insert(made as usize)
            }
        };
        let descriptor = registry::get(number).ok_or(EAGAIN)?;
        let seen = seen.unwrap_or_else(|| descriptor.seen(Direction::Read));
        let reason = descriptor.wait(&mut lock(), number, Direction::Read, deadline, seen);
        if reason == Some(Reason::Interrupted)
            && thread.pending_bits.load(Ordering::Relaxed) & set == 0
        {
            break Err(EINTR);
        }
    };
    if let Some(number) = watched {
        registry::renewed(number as isize);
        sys!(SYS_close, number);
    }
    found
}

fn take_now(thread: ThreadRef, set: u64) -> Result<Option<Pending>, isize> {
    let mut locked = lock();
    handling::assign_held(&mut locked);
    if let Some(taken) = take_pending(&mut locked, thread, set) {
        return Ok(Some(taken));
    }
    // The kernel holds signals that every thread blocks, and the engine holds earlier signals. The
    // lower number comes first.
    let ours = process_bits() & set;
    let lower = if ours == 0 { set } else { set & ((1 << ours.trailing_zeros()) - 1) };
    match take_from_kernel(lower)? {
        None => Ok(take_process_signal(&mut locked, set)),
        taken => Ok(taken),
    }
}

/// Takes a signal of `set` that the kernel holds for the process.
fn take_from_kernel(set: u64) -> Result<Option<Pending>, isize> {
    let mut info: libc::siginfo_t = zeroed();
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let taken = sys!(SYS_rt_sigtimedwait, &set, &mut info, &now, 8);
    match taken {
        1.. => Ok(Some(Pending { number: taken as i32, info })),
        EAGAIN | EINTR => Ok(None),
        failure => Err(failure),
    }
}

/// sigaltstack(2): every thread has its own.
pub(crate) fn sigaltstack(frame: &mut Frame) -> isize {
    /// `MINSIGSTKSZ` of the kernel.
    const SMALLEST: usize = 2048;
    result(|| {
        let thread = current();
        let mut before = thread.alternate_stack.get();
        let inside = on_alternate(&before, frame.stack() as u64);
        if let Some(stack) = user::read_optional::<libc::stack_t>(frame.argument(0))? {
            let flags = stack.ss_flags & !(1 << 31);
            if inside {
                return Err(error(libc::EPERM));
            }
            if !matches!(flags, 0 | libc::SS_ONSTACK | libc::SS_DISABLE) {
                return Err(EINVAL);
            }
            if flags == libc::SS_DISABLE {
                thread.alternate_stack.set(NO_STACK);
            } else if stack.ss_size < SMALLEST {
                return Err(error(libc::ENOMEM));
            } else {
                thread.alternate_stack.set(libc::stack_t { ss_flags: 0, ..stack });
            }
        }
        if inside {
            before.ss_flags = libc::SS_ONSTACK;
        }
        user::write_optional(frame.argument(1), &before)?;
        Ok(0)
    })
}

/// kill(2)
pub(crate) fn kill(frame: &mut Frame) -> isize {
    let number = frame.argument(1) as i32;
    match signals_itself(frame.argument(0) as i32, number) {
        true => take_now_and_here(number, from_us(number, libc::SI_USER)),
        false => threads::about_process(frame),
    }
}

/// rt_sigqueueinfo(2)
pub(crate) fn rt_sigqueueinfo(frame: &mut Frame) -> isize {
    let number = frame.argument(1) as i32;
    match user::read::<libc::siginfo_t>(frame.argument(2)) {
        Ok(info) if signals_itself(frame.argument(0) as i32, number) => {
            take_now_and_here(number, info)
        }
        _ => threads::about_process(frame),
    }
}

/// Whether the current thread sends its process a signal for which it has a handler.
fn signals_itself(process: i32, number: i32) -> bool {
    process == MAIN.id.get()
        && !threads::IS_TRACED.load(Ordering::Relaxed)
        && (1..=64).contains(&number)
        && current().mask.get() & bit(number) == 0
        && handling::action(&mut lock(), number).runs()
}

/// The handler has run when the call returns, whatever kernel thread the kernel would have given
/// the signal to.
fn take_now_and_here(number: i32, mut info: libc::siginfo_t) -> isize {
    info.si_signo = number;
    add_pending(&mut lock(), current(), Pending { number, info });
    0
}

/// tgkill(2)
pub(crate) fn tgkill(frame: &mut Frame) -> isize {
    send(
        frame,
        Some(frame.argument(0) as i32),
        frame.argument(1) as i32,
        frame.argument(2) as i32,
        None,
    )
}

/// tkill(2)
pub(crate) fn tkill(frame: &mut Frame) -> isize {
    send(frame, None, frame.argument(0) as i32, frame.argument(1) as i32, None)
}

/// rt_tgsigqueueinfo(2)
pub(crate) fn rt_tgsigqueueinfo(frame: &mut Frame) -> isize {
    match user::read::<libc::siginfo_t>(frame.argument(3)) {
        Ok(info) => send(
            frame,
            Some(frame.argument(0) as i32),
            frame.argument(1) as i32,
            frame.argument(2) as i32,
            Some(info),
        ),
        Err(fault) => fault,
    }
}

fn send(
    frame: &Frame,
    process: Option<i32>,
    id: i32,
    number: i32,
    info: Option<libc::siginfo_t>,
) -> isize {
    let own = MAIN.id.get();
    let mut locked = lock();
    if process.is_some_and(|process| process != own) {
        return if is_ours(i64::from(id)) { ESRCH } else { frame.pass() };
    }
    let Some(thread) = thread::find(&mut locked, id) else {
        return if is_ours(i64::from(id)) { ESRCH } else { frame.pass() };
    };
    if number == 0 {
        return 0;
    }
    if !(1..=64).contains(&number) {
        return EINVAL;
    }
    if number == SETXID_SIGNAL {
        credentials::announce_credentials(&mut locked);
    }
    let action = handling::action(&mut locked, number);
    let blocked = thread.mask.get() & bit(number) != 0;
    if !action.runs() && !blocked {
        if !action.ignores(number) {
            act_by_default(number);
        }
        return 0;
    }
    if number >= FIRST_QUEUED && thread.pending.of(&mut locked).len() as u64 >= most_pending() {
        return EAGAIN;
    }
    let mut info = info.unwrap_or_else(|| from_us(number, libc::SI_TKILL));
    info.si_signo = number;
    if !blocked || !leave_to_kernel(number, &info) {
        add_pending(&mut locked, thread, Pending { number, info });
    }
    0
}

/// The signals that some signalfd(2) reports.
static REPORTED: AtomicU64 = AtomicU64::new(0);

/// signalfd(2) and signalfd4(2)
pub(crate) fn signalfd(frame: &mut Frame) -> isize {
    if let Ok(set) = user::read::<u64>(frame.argument(1)) {
        REPORTED.fetch_or(set, Ordering::Relaxed);
        let mut locked = lock();
        let reported = set & masks::wanted();
        while let Some(waiting) = take_pending(&mut locked, current(), reported) {
            leave_to_kernel(waiting.number, &waiting.info);
        }
    }
    files::opens(frame)
}

/// Hands a signal for a thread that blocks it to the kernel, since the kernel's descriptors report
/// signals that the kernel holds. Every thread blocks the signal, so it waits for the process.
/// Returns whether the kernel has the signal.
fn leave_to_kernel(number: i32, info: &libc::siginfo_t) -> bool {
    if REPORTED.load(Ordering::Relaxed) & masks::wanted() & bit(number) == 0 {
        return false;
    }
    let process = MAIN.id.get();
    !failed(sys!(SYS_rt_sigqueueinfo, process, number, info))
        || !failed(sys!(SYS_kill, process, number))
}

/// How many signals may wait (`RLIMIT_SIGPENDING`).
fn most_pending() -> u64 {
    let mut limits = [0u64; 2];
    sys!(SYS_prlimit64, 0, libc::RLIMIT_SIGPENDING, 0, &mut limits);
    limits[0]
}

/// The fields of a signal that the process sends to itself.
fn from_us(number: i32, code: i32) -> libc::siginfo_t {
    let mut info = info::bare(number, code);
    let sender = [MAIN.id.get(), sys!(SYS_getuid) as i32];
    info::set_sender(&mut info, sender);
    info
}

/// timer_create(2): a timer for one of our threads signals the process, and the engine finds the
/// thread.
pub(crate) fn timer_create(frame: &mut Frame) -> isize {
    const THREAD_FIELD: usize = 16;
    let Ok(Some(mut event)) = user::read_optional::<[u64; 8]>(frame.argument(1)) else {
        return frame.pass();
    };
    let notify = (event[1] >> 32) as i32;
    let thread = event[THREAD_FIELD / 8] as i32;
    if notify != libc::SIGEV_THREAD_ID || !(is_ours(i64::from(thread)) || thread == MAIN.id.get()) {
        return frame.pass();
    }
    if thread::find(&mut lock(), thread).is_none() {
        return EINVAL;
    }
    event[THREAD_FIELD / 8] = worker().kernel_id.get() as u64;
    let number = event[1] as i32;
    let made = sys!(SYS_timer_create, frame.argument(0), &event, frame.argument(2));
    if made == 0 {
        match user::read::<i32>(frame.argument(2)) {
            Ok(timer) => handling::route_timer(number, timer, thread),
            Err(_) => return EFAULT,
        }
    }
    made
}
