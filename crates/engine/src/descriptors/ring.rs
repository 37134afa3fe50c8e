//! The engine's own ring of io_uring(7), with `--poller uring`: two queues in memory shared with
//! the kernel.
//!
//! ```text
//!   receive.rs ── push ──▶ submissions ──▶ the kernel receives into a parked thread's buffer
//!   the watcher ── enter: submits all of them, and waits: one call
//!   pump.rs ◀── next ◀── completions ◀── (data, result)
//! ```
//!
//! The ring receives from stream sockets, and does nothing else. epoll reports all other events. A
//! poll on the ring completes when epoll has events, and is submitted again after each look.
//!
//! A submission names its descriptor by number until the kernel has taken the submission. So before
//! a descriptor is closed, the kernel takes the submissions that name it (`take_before_close`).
//!
//! With one worker, the kernel completes requests when the worker enters the kernel
//! (`DEFER_TASKRUN`). With several workers, any worker may submit or look, so the kernel interrupts
//! the worker that submitted.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::descriptors::ring_wait;
use crate::descriptors::spare_numbers::out_of_the_way;
use crate::kernel::lock::{Guarded, Locked, Setting};
use crate::kernel::plain::Plain;
use crate::kernel::settings;
use crate::kernel::sys::{self, EAGAIN, EINTR, EINVAL, ENOSYS, error, failed, sys};
use crate::show::report::say;

/// Submissions that wait for the next entry into the kernel; more enter at once.
const SUBMISSIONS: u32 = 256;
/// Completions that the queue holds; the kernel keeps more elsewhere.
const COMPLETIONS: u32 = 4096;

/// `io_uring_setup(2)`.
const CQSIZE: u32 = 1 << 3;
const TASKRUN_FLAG: u32 = 1 << 9;
const SINGLE_ISSUER: u32 = 1 << 12;
const DEFER_TASKRUN: u32 = 1 << 13;
/// Needed features: one mapping, no lost completions, polls inside, waits with a time, silent
/// successes.
const FEATURES: u32 = 1 | 1 << 1 | 1 << 5 | 1 << 8 | 1 << 11;
const ENTRIES_AT: usize = 0x1000_0000;
/// `io_uring_enter(2)`.
const GETEVENTS: u32 = 1;
const EXT_ARG: u32 = 1 << 3;
/// A flag of the submission queue: completions wait for an entry into the kernel.
const CQ_OVERFLOW: u32 = 1 << 1;
const TASKRUN: u32 = 1 << 2;

const POLL_ADD: u8 = 6;
const ASYNC_CANCEL: u8 = 14;
const RECV: u8 = 27;
const CQE_SKIP_SUCCESS: u8 = 1 << 6;
const POLL_FIRST: u16 = 1;
const CANCEL_ALL: u32 = 1 | 1 << 2;

/// The data of completions that nothing waits for, and of the poll of epoll. All other data are
/// addresses.
const IGNORED: u64 = 0;
const EPOLL_DATA: u64 = 1;

/// `struct io_uring_sqe`
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Submission {
    operation: u8,
    flags: u8,
    priority: u16,
    descriptor: i32,
    offset: u64,
    address: u64,
    length: u32,
    operation_flags: u32,
    data: u64,
    rest: [u64; 3],
}

/// `struct io_uring_cqe`
#[derive(Clone, Copy)]
#[repr(C)]
struct Completion {
    data: u64,
    result: i32,
    flags: u32,
}

/// The subject of a completion.
pub(crate) enum Event {
    /// epoll has events.
    Epoll,
    /// The request at this address has ended.
    Ended(usize, i32),
}

#[derive(Clone, Copy)]
struct RingQueue {
    head: &'static AtomicU32,
    tail: &'static AtomicU32,
    mask: u32,
}

#[derive(Clone, Copy)]
struct Ring {
    submissions: RingQueue,
    entries: *mut Submission,
    flags: &'static AtomicU32,
    completions: RingQueue,
    results: *const Completion,
    /// Requests with completions that their threads have not taken.
    under_way: usize,
}

static RING: Guarded<Option<Ring>> = Guarded::new(None);
static DESCRIPTOR: Setting<i32> = Setting::new(-1);
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// The epoll that reports all other events.
static EPOLL: Setting<i32> = Setting::new(-1);

/// Whether threads receive by way of the ring.
#[inline(always)]
pub(crate) fn is_active() -> bool {
    ACTIVE.load(Ordering::Relaxed)
}

/// The ring's descriptor; negative without one.
pub(crate) fn descriptor() -> i32 {
    DESCRIPTOR.get()
}

/// Sets up the ring, if the settings ask for a ring. If the kernel refuses, prints a message and
/// leaves the work to epoll.
pub(crate) fn open(locked: &mut Locked, epoll: i32) {
    EPOLL.set(epoll);
    ACTIVE.store(false, Ordering::Relaxed);
    DESCRIPTOR.set(-1);
    *RING.of(locked) = None;
    if !settings::URING.get() {
        return;
    }
    match set_up() {
        Ok((descriptor, ring)) => {
            *RING.of(locked) = Some(ring);
            DESCRIPTOR.set(descriptor as i32);
            ACTIVE.store(true, Ordering::Relaxed);
            poll_epoll(locked);
        }
        Err(error) => {
            // Children do not try again.
            settings::URING.set(false);
            refused(error);
        }
    }
}

fn refused(error: isize) {
    let reason = match error {
        ENOSYS => "the kernel has no io_uring",
        EINVAL => "--poller uring needs Linux 6.1 or later",
        _ if error == sys::error(libc::EPERM) => {
            "kernel.io_uring_disabled or a filter of system calls forbids io_uring"
        }
        _ => "the kernel sets up no ring",
    };
    say(format_args!("{reason}; goes on with --poller epoll (error {})", -error));
}

fn set_up() -> Result<(isize, Ring), isize> {
    // `struct io_uring_params`, as words.
    let mut parameters = [0u32; 30];
    let deferred = DEFER_TASKRUN | SINGLE_ISSUER | TASKRUN_FLAG;
    (parameters[1], parameters[2]) = (COMPLETIONS, CQSIZE | deferred);
    if settings::CORES.get() > 1 {
        // A kernel that knows these flags has all features that the engine uses below.
        let mut tried = parameters;
        let probe = sys!(SYS_io_uring_setup, 1, &mut tried);
        if failed(probe) {
            return Err(probe);
        }
        sys!(SYS_close, probe);
        parameters[2] = CQSIZE;
    }
    let made = sys!(SYS_io_uring_setup, SUBMISSIONS, &mut parameters);
    let descriptor = out_of_the_way(made)?;
    let ring = if parameters[5] & FEATURES == FEATURES {
        map(descriptor, &parameters)
    } else {
        Err(EINVAL)
    };
    if ring.is_err() {
        sys!(SYS_close, descriptor);
    }
    ring.map(|ring| (descriptor, ring))
}

fn map(descriptor: isize, parameters: &[u32; 30]) -> Result<Ring, isize> {
    let [submissions, completions] = [parameters[0] as usize, parameters[1] as usize];
    let [array, results] = [parameters[16] as usize, parameters[25] as usize];
    let share = |length: usize, offset: usize| {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let address = sys::map_near(0, length, protection, flags, descriptor as i32, offset)?;
        // SAFETY: a child has a ring of its own, and does not use this one.
        unsafe { sys::advise(address, length, libc::MADV_DONTFORK) };
        Ok::<_, isize>(address)
    };
    let length = (array + submissions * 4).max(results + completions * size_of::<Completion>());
    let base = share(length, 0)?;
    let entries = share(submissions * size_of::<Submission>(), ENTRIES_AT)?;
    // SAFETY: the kernel says where in the mapping its words are. The mapping is never taken away.
    let word =
        |index: usize| unsafe { &*((base + parameters[index] as usize) as *const AtomicU32) };
    for index in 0..submissions {
        // Each place of the queue means the entry of the same number.
        // SAFETY: as above; the array has so many words.
        unsafe { ((base + array) as *mut u32).add(index).write(index as u32) };
    }
    let queue = |first: usize| RingQueue {
        head: word(first),
        tail: word(first + 1),
        mask: word(first + 2).load(Ordering::Relaxed),
    };
    Ok(Ring {
        submissions: queue(10),
        entries: entries as *mut Submission,
        flags: word(14),
        completions: queue(20),
        results: (base + results) as *const Completion,
        under_way: 0,
    })
}

impl RingQueue {
    fn length(&self) -> u32 {
        self.tail.load(Ordering::Acquire).wrapping_sub(self.head.load(Ordering::Acquire))
    }
}

impl Ring {
    /// The submissions that the kernel has not taken.
    fn waiting(&self) -> impl Iterator<Item = &Submission> {
        let head = self.submissions.head.load(Ordering::Acquire);
        // SAFETY: the mask keeps the index inside the entries, which are written under the lock
        // alone.
        let entry = |at: u32| unsafe { &*self.entries.add((at & self.submissions.mask) as usize) };
        (0..self.submissions.length()).map(move |index| entry(head.wrapping_add(index)))
    }
}

/// Puts a submission into the queue.
fn push(locked: &mut Locked, submission: Submission) {
    let Some(ring) = *RING.of(locked) else { return };
    if ring.submissions.length() > ring.submissions.mask {
        flush(locked);
    }
    assert!(ring.submissions.length() <= ring.submissions.mask, "a full queue gets more");
    let tail = ring.submissions.tail.load(Ordering::Relaxed);
    // SAFETY: the mask keeps the index inside the entries. The queue is not full, so the kernel has
    // taken the former entry of this place. The caller holds the lock.
    unsafe { ring.entries.add((tail & ring.submissions.mask) as usize).write(submission) };
    ring.submissions.tail.store(tail.wrapping_add(1), Ordering::Release);
}

/// Submits a poll that completes when epoll has events.
pub(crate) fn poll_epoll(locked: &mut Locked) {
    push(
        locked,
        Submission {
            operation: POLL_ADD,
            descriptor: EPOLL.get(),
            operation_flags: libc::POLLIN as u32,
            data: EPOLL_DATA,
            ..Submission::default()
        },
    );
}

/// Has the kernel receive into `length` bytes at `address`, once there is data.
///
/// The memory, and the value at the address `data`, belong to the kernel until the completion has
/// come.
pub(crate) fn receive(
    locked: &mut Locked,
    number: usize,
    address: usize,
    length: u32,
    data: usize,
) {
    if let Some(ring) = RING.of(locked) {
        ring.under_way += 1;
    }
    push(
        locked,
        Submission {
            operation: RECV,
            priority: POLL_FIRST,
            descriptor: number as i32,
            address: address as u64,
            length,
            data: data as u64,
            ..Submission::default()
        },
    );
}

/// Cancels a request, which may already have ended. The request's completion comes in any case.
pub(crate) fn cancel(locked: &mut Locked, data: usize) {
    push(
        locked,
        Submission {
            operation: ASYNC_CANCEL,
            flags: CQE_SKIP_SUCCESS,
            descriptor: -1,
            address: data as u64,
            data: IGNORED,
            ..Submission::default()
        },
    );
    flush(locked);
}

/// Called before a descriptor is closed. The kernel takes the submissions that name the descriptor,
/// and so holds a reference to its file.
pub(crate) fn take_before_close(locked: &mut Locked, number: usize) {
    let Some(ring) = *RING.of(locked) else { return };
    if ring.waiting().any(|entry| entry.operation == RECV && entry.descriptor == number as i32) {
        flush(locked);
    }
}

/// Has the kernel take all submissions now.
pub(crate) fn flush(locked: &mut Locked) {
    loop {
        let Some(ring) = *RING.of(locked) else { return };
        let count = ring.submissions.length();
        if count == 0 {
            return;
        }
        let result = sys!(SYS_io_uring_enter, DESCRIPTOR.get(), count, 0, 0, 0, 0);
        expect(result);
        if failed(result) {
            // The kernel lacks memory, or room for completions.
            take(locked);
            sys!(SYS_sched_yield);
        }
    }
}

/// Ends the process if the kernel refuses the ring, because threads would wait for ever.
fn expect(result: isize) {
    const BUSY: isize = error(libc::EBUSY);
    const TIME: isize = error(libc::ETIME);
    if failed(result) && !matches!(result, EINTR | EAGAIN | BUSY | TIME) {
        say(format_args!(
            "the kernel refuses io_uring_enter (error {}); run the program without --poller uring",
            -result
        ));
        sys::exit_group(70);
    }
}

/// `struct io_uring_getevents_arg`
#[derive(Clone, Copy)]
#[repr(C)]
struct Wait {
    mask: u64,
    mask_size: u32,
    pause: u32,
    time: *const libc::timespec,
}

// SAFETY: integers, and an address that only the kernel follows.
unsafe impl Plain for Wait {}

/// Submits, and waits for a completion or for `timeout`, without the lock. A time of zero does not
/// wait.
pub(crate) fn enter(locked: &mut Locked, timeout: Option<&libc::timespec>) {
    let Some(ring) = *RING.of(locked) else { return };
    let at_once = timeout.is_some_and(|time| time.tv_sec == 0 && time.tv_nsec == 0);
    let count = ring.submissions.length();
    let asks = ring.flags.load(Ordering::Relaxed) & (CQ_OVERFLOW | TASKRUN) != 0;
    let there = ring.completions.length() > 0;
    if (at_once || there) && count == 0 && !asks {
        return;
    }
    let least = u32::from(!at_once && !there);
    let time = timeout.map_or(core::ptr::null(), |time| &raw const *time);
    let wait = Wait { mask: 0, mask_size: 8, pause: 0, time };
    let flags = GETEVENTS | EXT_ARG;
    let (argument, size) = (&wait, size_of::<Wait>());
    let number = DESCRIPTOR.get();
    expect(
        locked.released(|| sys!(SYS_io_uring_enter, number, count, least, flags, argument, size)),
    );
}

/// Takes all completions. Returns whether epoll has events, and whether requests have ended.
pub(crate) fn take(locked: &mut Locked) -> (bool, bool) {
    let (mut epoll, mut others) = (false, false);
    while let Some(event) = next(locked) {
        match event {
            Event::Epoll => epoll = true,
            Event::Ended(request, result) => {
                others = true;
                ring_wait::ended(locked, request, result);
            }
        }
    }
    (epoll, others)
}

fn next(locked: &mut Locked) -> Option<Event> {
    loop {
        let ring = RING.of(locked).as_mut()?;
        if ring.completions.length() == 0 {
            return None;
        }
        let head = ring.completions.head.load(Ordering::Relaxed);
        // SAFETY: the mask keeps the index inside the mapping. The kernel has written the
        // completions before the tail.
        let done = unsafe { ring.results.add((head & ring.completions.mask) as usize).read() };
        ring.completions.head.store(head.wrapping_add(1), Ordering::Release);
        match done.data {
            IGNORED => {}
            EPOLL_DATA => return Some(Event::Epoll),
            data => {
                assert!(ring.under_way > 0, "a completion comes without a request");
                ring.under_way -= 1;
                return Some(Event::Ended(data as usize, done.result));
            }
        }
    }
}

/// Gives up the ring for good, before the program forbids itself system calls. Threads that receive
/// go on with epoll.
pub(crate) fn retire(locked: &mut Locked) {
    if !is_active() {
        return;
    }
    ACTIVE.store(false, Ordering::Relaxed);
    // Children have the same filter.
    settings::URING.set(false);
    push(
        locked,
        Submission {
            operation: ASYNC_CANCEL,
            descriptor: -1,
            operation_flags: CANCEL_ALL,
            data: IGNORED,
            ..Submission::default()
        },
    );
    flush(locked);
    while RING.of(locked).is_some_and(|ring| ring.under_way > 0) {
        enter(locked, Some(&crate::kernel::clock::timespec(1_000_000)));
        take(locked);
    }
    say(format_args!(
        "the program forbids itself system calls (seccomp); goes on with --poller epoll"
    ));
}
