//! Kernel threads that execute calls which would block a worker.
//!
//! ```text
//!   thread ── job on its own stack ──▶ queue ──▶ helper: the raw call
//!     parked                                       │
//!     woken ◀── collect ◀── bell ◀── done ◀────────┘
//! ```
//!
//! A helper has no thread-local storage and no libc, only a stack and the raw call. A helper blocks
//! every signal except the engine's own, which interrupts a call on behalf of the waiting thread.

use alloc::vec::Vec;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};

use crate::descriptors::closed;
use crate::kernel::bell::ring;
use crate::kernel::clock;
use crate::kernel::disposition::{self, HELPER_SIGNAL, HELPER_VALUE, bit};
use crate::kernel::lock::{Guarded, Locked, lock};
use crate::kernel::stats;
use crate::kernel::sys::{
    self, Arguments, BEGIN, EINTR, NEEDS_THREAD, RESTART, error, failed, sys,
};
use crate::schedule::scheduler::{park, park_through_signals, wake};
use crate::schedule::thread::ThreadRef;
use crate::schedule::waiter::Reason;
use crate::schedule::worker::current;
use crate::signals::handling;
use crate::workers::in_place;
use crate::workers::kernel_thread::{self, start_kernel_thread};

/// The effect of a signal that interrupts a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupted {
    /// The call is executed again if the handler says `SA_RESTART`.
    Restarts,
    /// The call fails with `EINTR` in any case.
    Fails,
    /// No signal interrupts the call. A handler that comes before the call has begun does not end
    /// it.
    Never,
}

struct Job {
    number: i64,
    arguments: Arguments,
    result: Cell<isize>,
    thread: ThreadRef,
    next: Cell<*const Job>,
    /// The signal that the call sent to the helper, for the thread.
    signal: Cell<i32>,
    /// The credentials of the process when the call began: a helper with older ones must not
    /// execute it.
    credentials: u32,
    /// The helper that executes the call.
    helper: AtomicI32,
    done: AtomicBool,
}

/// The errors of calls that send their caller a signal. A call may send it after a part, too.
const EPIPE: isize = error(libc::EPIPE);
const EFBIG: isize = error(libc::EFBIG);

const HELPER_STACK: usize = 32 << 10;
/// The first and the last job that no helper has taken.
static QUEUE: AtomicPtr<Job> = AtomicPtr::new(core::ptr::null_mut());
static QUEUE_END: AtomicPtr<Job> = AtomicPtr::new(core::ptr::null_mut());
static DONE: AtomicPtr<Job> = AtomicPtr::new(core::ptr::null_mut());
static HELD: AtomicBool = AtomicBool::new(false);
/// Changes with every job. Idle helpers wait on this word.
static ARRIVALS: AtomicU32 = AtomicU32::new(0);
/// Jobs that no helper has taken, and helpers that wait for one.
static QUEUED: AtomicU32 = AtomicU32::new(0);
static IDLE: AtomicU32 = AtomicU32::new(0);
static HELPERS: AtomicU32 = AtomicU32::new(0);
/// The numbers of the kernel threads. Some may have ended.
static IDS: Guarded<Vec<i32>> = Guarded::new(Vec::new());

/// Changes with the credentials of the process, which a kernel thread keeps from its birth on.
static CREDENTIALS: AtomicU32 = AtomicU32::new(0);

/// Makes sure that no existing helper takes a call that begins from now on. The calls that wait are
/// left to the helpers that were to execute them.
pub(crate) fn retire() {
    with_queue(|| {
        CREDENTIALS.fetch_add(1, Ordering::Relaxed);
        IDLE.store(0, Ordering::Relaxed);
    });
    HELPERS.store(0, Ordering::Relaxed);
    ARRIVALS.fetch_add(1, Ordering::Relaxed);
    let flags = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    sys!(SYS_futex, &ARRIVALS, flags, i32::MAX);
}

/// Ends the helpers, which have nothing to do, and waits until the kernel has forgotten them.
pub(crate) fn end(locked: &mut Locked) {
    retire();
    let ids = core::mem::take(IDS.of(locked));
    locked.released(|| ids.into_iter().for_each(kernel_thread::wait_for_end));
}

/// Whether a helper may be alive.
pub(crate) fn exist() -> bool {
    HELPERS.load(Ordering::Relaxed) > 0
}

/// The lock between helpers and workers, held for a few instructions.
fn with_queue<T>(work: impl FnOnce() -> T) -> T {
    while HELD.swap(true, Ordering::Acquire) {
        sys!(SYS_sched_yield);
    }
    let result = work();
    let was_held = HELD.swap(false, Ordering::Release);
    assert!(was_held, "the queue of jobs was free before its release");
    result
}

/// Makes a call that may block. A helper executes the call while the current thread is parked. A
/// program with one thread needs no helper.
pub(crate) fn offload(number: i64, arguments: Arguments, interrupted: Interrupted) -> isize {
    if in_place::suits(number) {
        return match in_place::call(number, arguments) {
            RESTART | EINTR => interruption(interrupted),
            result => result,
        };
    }
    offload_until(number, arguments, interrupted, || None)
}

/// Has a helper execute a call on a file. The file's descriptor, `arguments[0]`, was closed while
/// the current thread waited. `None` if the thread did not wait yet: its call is for the number's
/// present file.
pub(crate) fn offload_on_kept(
    number: i64,
    arguments: Arguments,
    interrupted: Interrupted,
) -> Option<isize> {
    let kept = closed::goes_on_with(arguments[0])?;
    let mut rest = arguments;
    rest[0] = kept;
    let result = offload(number, rest, interrupted);
    closed::give_back(&mut lock(), kept);
    Some(result)
}

/// Like [`offload`], but ends the call early once `until` gives another result. The engine calls
/// `until` whenever the thread is woken.
pub(crate) fn offload_until(
    number: i64,
    arguments: Arguments,
    interrupted: Interrupted,
    until: impl Fn() -> Option<isize>,
) -> isize {
    if current().task.get().is_some() {
        return NEEDS_THREAD;
    }
    stats::OFFLOADS.add_unlocked(1);
    let job = Job {
        number,
        arguments,
        result: Cell::new(0),
        signal: Cell::new(0),
        thread: current(),
        next: Cell::new(core::ptr::null()),
        credentials: CREDENTIALS.load(Ordering::Relaxed),
        helper: AtomicI32::new(0),
        done: AtomicBool::new(false),
    };
    let mut locked = lock();
    if current().deliverable() != 0 {
        return interruption(interrupted);
    }
    if !submit(&mut locked, &job) {
        // No helper is available, so the call blocks the worker. This is slow but correct.
        drop(locked);
        // SAFETY: the program's call, which waits here for its end as it does natively.
        return unsafe { sys::call(number, arguments) };
    }
    while !job.done.load(Ordering::Acquire) {
        if let Some(result) = until() {
            if withdraw(&mut locked, &job) || job.result.get() == EINTR {
                return result;
            }
            // The call has ended by itself meanwhile, and may have opened a file.
            break;
        }
        if park(&mut locked, clock::NEVER) == Reason::Interrupted && withdraw(&mut locked, &job) {
            return interruption(interrupted);
        }
    }
    if job.signal.get() != 0 {
        handling::raise(&mut locked, current(), job.signal.get());
    }
    match job.result.get() {
        EINTR => interruption(interrupted),
        result => result,
    }
}

fn interruption(interrupted: Interrupted) -> isize {
    match interrupted {
        Interrupted::Restarts => RESTART,
        Interrupted::Fails => EINTR,
        Interrupted::Never => BEGIN,
    }
}

/// Puts a job into the queue, and makes sure that a helper takes the job.
fn submit(locked: &mut Locked, job: &Job) -> bool {
    let address = (&raw const *job).cast_mut();
    let starve = with_queue(|| {
        let last = QUEUE_END.load(Ordering::Relaxed);
        if last.is_null() {
            QUEUE.store(address, Ordering::Relaxed);
        } else {
            // SAFETY: jobs in the queue live until they are done.
            unsafe { (*last).next.set(address) };
        }
        QUEUE_END.store(address, Ordering::Relaxed);
        ARRIVALS.fetch_add(1, Ordering::Relaxed);
        QUEUED.fetch_add(1, Ordering::Relaxed) + 1 > IDLE.load(Ordering::Relaxed)
    });
    if !starve {
        sys!(SYS_futex, &ARRIVALS, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1);
        return true;
    }
    if start_helper(locked) || HELPERS.load(Ordering::Relaxed) > 0 {
        return true;
    }
    !with_queue(|| unlink(address))
}

/// Gives helpers time to begin the waiting jobs, before the worker sleeps.
pub(crate) fn let_begin(locked: &mut Locked) {
    const PATIENCE: u32 = 64;
    for _ in 0..PATIENCE {
        if QUEUED.load(Ordering::Relaxed) == 0 {
            return;
        }
        locked.released(|| sys!(SYS_sched_yield));
    }
}

/// Takes a job out of the queue, if no helper has taken it. The caller holds the queue.
fn unlink(job: *const Job) -> bool {
    let mut previous: *const Job = core::ptr::null();
    let mut at: *const Job = QUEUE.load(Ordering::Relaxed);
    while !at.is_null() {
        // SAFETY: jobs in the queue live until they are done.
        let next = unsafe { (*at).next.get() };
        if core::ptr::eq(at, job) {
            if previous.is_null() {
                QUEUE.store(next.cast_mut(), Ordering::Relaxed);
            } else {
                // SAFETY: the job before it is in the queue too, so it lives.
                unsafe { (*previous).next.set(next) };
            }
            if next.is_null() {
                QUEUE_END.store(previous.cast_mut(), Ordering::Relaxed);
            }
            let queued = QUEUED.fetch_sub(1, Ordering::Relaxed);
            assert!(queued > 0, "more jobs have left the queue than came");
            return true;
        }
        previous = at;
        at = next;
    }
    false
}

/// Ends a job early. Returns whether no helper had begun the job. If a helper has begun it, waits
/// until the call has ended.
fn withdraw(locked: &mut Locked, job: &Job) -> bool {
    if with_queue(|| unlink(job)) {
        return true;
    }
    while !job.done.load(Ordering::Acquire) {
        // The signal may come before the helper is inside the call. Then another signal is needed.
        poke(job.helper.load(Ordering::Relaxed));
        park_through_signals(locked, clock::now() + 1_000_000);
    }
    false
}

/// Interrupts the call that a helper is in.
fn poke(helper: i32) {
    if helper != 0 {
        disposition::send(helper, HELPER_SIGNAL, HELPER_VALUE);
    }
}

fn start_helper(locked: &mut Locked) -> bool {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let Some(stack) = sys::map(HELPER_STACK, protection, libc::MAP_NORESERVE) else { return false };
    // The helper has the credentials of this moment, or later ones.
    let credentials = CREDENTIALS.load(Ordering::Relaxed) as usize;
    // SAFETY: the stack is the helper's own, and the helper uses nothing else of this kernel
    // thread.
    let helper = unsafe { start_kernel_thread(stack + HELPER_STACK, helper, credentials) };
    if failed(helper) {
        // SAFETY: mapped just now, for a helper that could not be started.
        unsafe { sys::unmap(stack, HELPER_STACK) };
        return false;
    }
    HELPERS.fetch_add(1, Ordering::Relaxed);
    let ids = IDS.of(locked);
    if ids.len() == ids.capacity() {
        ids.retain(|&id| kernel_thread::is_alive(id));
    }
    ids.push(helper as i32);
    true
}

/// A helper's loop. A helper does not end while it may be useful, because the kernel would cancel
/// its requests to an io_uring.
extern "C" fn helper(credentials: usize) {
    let mask = !(1u64 << (HELPER_SIGNAL - 1));
    sys!(SYS_rt_sigprocmask, libc::SIG_SETMASK, &mask, 0, 8);
    sys!(SYS_prctl, libc::PR_SET_NAME, c"duality-helper");
    let me = sys!(SYS_gettid) as i32;
    let credentials = credentials as u32;
    let retired = || credentials != CREDENTIALS.load(Ordering::Relaxed);
    loop {
        let seen = ARRIVALS.load(Ordering::Relaxed);
        match with_queue(|| take(me, credentials)) {
            HelperStep::Job(job) => execute(job),
            HelperStep::Wait => {
                let flags = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
                sys!(SYS_futex, &ARRIVALS, flags, seen, 0);
                with_queue(|| {
                    if !retired() {
                        let idle = IDLE.fetch_sub(1, Ordering::Relaxed);
                        assert!(idle > 0, "more helpers have work than waited for it");
                    }
                });
            }
            HelperStep::Nothing => {
                sys!(SYS_exit, 0);
            }
        }
    }
}

/// The next step of a helper.
enum HelperStep {
    Job(&'static Job),
    Wait,
    /// The helper has been retired.
    Nothing,
}

/// Takes the first job of the queue. Without a job, the helper is idle. A helper with old
/// credentials takes the jobs that began before the change. In the kernel, such calls go on with
/// old credentials too. Otherwise no helper might take them.
fn take(me: i32, credentials: u32) -> HelperStep {
    let retired = credentials != CREDENTIALS.load(Ordering::Relaxed);
    let job = QUEUE.load(Ordering::Relaxed);
    if job.is_null() && !retired {
        IDLE.fetch_add(1, Ordering::Relaxed);
        return HelperStep::Wait;
    }
    // SAFETY: a job lives until it is done, and this helper decides when.
    let Some(job) = (unsafe { job.as_ref() }) else { return HelperStep::Nothing };
    if retired && job.credentials.wrapping_sub(credentials) as i32 > 0 {
        return HelperStep::Nothing;
    }
    let queued = QUEUED.fetch_sub(1, Ordering::Relaxed);
    assert!(queued > 0, "more jobs are taken than were queued");
    assert!(!job.done.load(Ordering::Relaxed), "a job that is done is in the queue");
    let next = job.next.get().cast_mut();
    QUEUE.store(next, Ordering::Relaxed);
    if next.is_null() {
        let last = QUEUE_END.swap(next, Ordering::Relaxed);
        assert!(core::ptr::eq(last, job), "the queue of jobs ends elsewhere");
    }
    let before = job.helper.swap(me, Ordering::Relaxed);
    assert!(before == 0, "two helpers take a job");
    HelperStep::Job(job)
}

fn execute(job: &'static Job) {
    // SAFETY: the program's call. The program's thread waits until the job is done.
    job.result.set(unsafe { sys::call(job.number, job.arguments) });
    if [EPIPE, EFBIG].contains(&job.result.get()) || job.result.get() > 0 {
        job.signal.set(signal_of_call());
    }
    with_queue(|| {
        job.next.set(DONE.load(Ordering::Relaxed));
        DONE.store((&raw const *job).cast_mut(), Ordering::Relaxed);
    });
    ring();
}

/// The signal that the last call sent to the kernel thread which made the call, or zero. The helper
/// blocks the signal.
fn signal_of_call() -> i32 {
    let sent = bit(libc::SIGPIPE) | bit(libc::SIGXFSZ);
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    sys!(SYS_rt_sigtimedwait, &sent, 0, &now, 8).max(0) as i32
}

/// Wakes the threads with calls that have ended. Returns whether any call had ended.
pub(crate) fn collect(locked: &mut Locked) -> bool {
    let first: *const Job = with_queue(|| DONE.swap(core::ptr::null_mut(), Ordering::Relaxed));
    let mut job = first;
    while !job.is_null() {
        // SAFETY: its thread waits for `done`, which is set here, after the last use.
        let (thread, next) = unsafe { ((*job).thread, (*job).next.get()) };
        // SAFETY: its thread has not seen `done`, so the job still lives.
        let was_done = unsafe { (*job).done.swap(true, Ordering::Release) };
        assert!(!was_done, "a job is done twice");
        wake(locked, thread, Reason::Woken);
        job = next;
    }
    !first.is_null()
}

/// Called in the child of a fork, which has no helpers.
pub(crate) fn reset_after_fork(locked: &mut Locked) {
    IDS.of(locked).clear();
    QUEUE.store(core::ptr::null_mut(), Ordering::Relaxed);
    QUEUE_END.store(core::ptr::null_mut(), Ordering::Relaxed);
    DONE.store(core::ptr::null_mut(), Ordering::Relaxed);
    HELD.store(false, Ordering::Relaxed);
    QUEUED.store(0, Ordering::Relaxed);
    IDLE.store(0, Ordering::Relaxed);
    HELPERS.store(0, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::thread::NOBODY;
    use core::ptr;

    fn job(credentials: u32) -> &'static Job {
        Box::leak(Box::new(Job {
            number: 0,
            arguments: [0; 6],
            result: Cell::new(0),
            signal: Cell::new(0),
            thread: &NOBODY,
            next: Cell::new(core::ptr::null()),
            credentials,
            helper: AtomicI32::new(0),
            done: AtomicBool::new(false),
        }))
    }

    fn queue(jobs: &[&'static Job]) {
        for pair in jobs.windows(2) {
            pair[0].next.set(pair[1]);
        }
        let [first, last] =
            [jobs[0], jobs[jobs.len() - 1]].map(|job| ptr::from_ref(job).cast_mut());
        QUEUE.store(first, Ordering::Relaxed);
        QUEUE_END.store(last, Ordering::Relaxed);
        QUEUED.store(jobs.len() as u32, Ordering::Relaxed);
    }

    /// The only test of this file, because tests run in parallel and the queue is one.
    #[test]
    fn a_change_of_credentials_leaves_no_job_behind_and_old_helpers_take_no_new_one() {
        let old = CREDENTIALS.load(Ordering::Relaxed);
        let [before, after] = [job(old), job(old + 1)];
        queue(&[before, after]);
        CREDENTIALS.store(old + 1, Ordering::Relaxed);
        let taken = |next: HelperStep| match next {
            HelperStep::Job(job) => Some(job),
            HelperStep::Wait | HelperStep::Nothing => None,
        };
        let first = taken(take(7, old)).expect("the call began before the change");
        assert!(ptr::eq(first, before));
        assert!(matches!(take(7, old), HelperStep::Nothing), "the call began after the change");
        let second = taken(take(8, old + 1)).expect("the new helper");
        assert!(ptr::eq(second, after));
        assert!(matches!(take(7, old), HelperStep::Nothing));
        assert!(matches!(take(8, old + 1), HelperStep::Wait));
    }
}
