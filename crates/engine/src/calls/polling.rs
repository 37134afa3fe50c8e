//! Calls that wait for several events, or for time: poll, epoll, sleeps.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::calls::masked;
use crate::descriptors::closed;
use crate::descriptors::registry::{self, Direction};
use crate::kernel::clock::{self, NEVER, Nanoseconds};
use crate::kernel::frame::Frame;
use crate::kernel::lock::lock;
use crate::kernel::sys::{self, EINTR, EINVAL, RESTART, SUSPENDED, sys};
use crate::kernel::user;
use crate::schedule::edges::Seen;
use crate::schedule::poll_node::PollNode;
use crate::schedule::scheduler::park;
use crate::schedule::waiter::Reason;
use crate::schedule::worker::{current, first_deadline, waiter};
use crate::workers::helpers::{Interrupted, offload, offload_on_kept};
use crate::workers::in_place;
use crate::workers::pump::{self, count_call, give_turn};

/// How long a call may wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// Not at all.
    Now,
    Until(Nanoseconds),
    Forever,
}

impl Limit {
    fn milliseconds(time: i32) -> Self {
        match time {
            0 => Self::Now,
            1.. => Self::Until(first_deadline(clock::after_milliseconds(time))),
            _ => Self::Forever,
        }
    }

    pub(crate) fn of(time: Option<libc::timespec>) -> Result<Self, isize> {
        match time {
            None => Ok(Self::Forever),
            Some(time) if !clock::valid(&time) => Err(EINVAL),
            Some(time) if time.tv_sec == 0 && time.tv_nsec == 0 => Ok(Self::Now),
            Some(time) => Ok(Self::Until(first_deadline(clock::after(&time)))),
        }
    }

    pub(crate) fn deadline(self) -> Nanoseconds {
        match self {
            Self::Until(deadline) => deadline,
            Self::Now | Self::Forever => NEVER,
        }
    }
}

/// The most descriptors that a poll may name. The kernel's own limit is the limit of open files.
pub(crate) const MOST: usize = 1 << 20;

/// poll(2)
pub(crate) fn poll(frame: &mut Frame) -> isize {
    wait_for_list(
        frame.argument(0),
        frame.argument(1) as u32 as usize,
        Limit::milliseconds(frame.argument(2) as i32),
        None,
    )
}

/// ppoll(2)
pub(crate) fn ppoll(frame: &mut Frame) -> isize {
    let parse = || -> Result<_, isize> {
        let limit = Limit::of(user::read_optional(frame.argument(2))?)?;
        Ok((limit, masked::read(frame.argument(3), frame.argument(4))?))
    };
    let (limit, mask) = match parse() {
        Ok(parsed) => parsed,
        Err(error) => return error,
    };
    let result = wait_for_list(frame.argument(0), frame.argument(1) as u32 as usize, limit, mask);
    if result != SUSPENDED {
        write_back(frame.argument(2), limit);
    }
    result
}

/// The kernel does not write the remaining time back (`STICKY_TIMEOUTS`).
pub(crate) static LIMITS_STAY: AtomicBool = AtomicBool::new(false);

/// personality(2): decides whether calls report how much of a time limit was left.
pub(crate) fn personality(frame: &mut Frame) -> isize {
    const STICKY_TIMEOUTS: isize = 0x0400_0000;
    const ASK: u32 = u32::MAX;
    let result = frame.pass();
    let stay = sys!(SYS_personality, ASK) & STICKY_TIMEOUTS != 0;
    LIMITS_STAY.store(stay, Ordering::Relaxed);
    result
}

/// Writes back how much of the time limit was left, as the kernel does.
pub(crate) fn write_back(address: usize, limit: Limit) {
    if address != 0
        && !LIMITS_STAY.load(Ordering::Relaxed)
        && let Limit::Until(deadline) = limit
    {
        let _unchanged = user::write(address, &clock::left(deadline));
    }
}

fn wait_for_list(list: usize, count: usize, limit: Limit, mask: Option<u64>) -> isize {
    if count > MOST {
        return EINVAL;
    }
    let _masked = masked::with(mask);
    let mut over = Reason::Woken;
    loop {
        let seen = registry::all_seen();
        let ready = sys!(SYS_poll, list, count, 0);
        if ready != 0 {
            count_call();
            return ready;
        }
        match over {
            Reason::TimedOut => return 0,
            Reason::Interrupted => return EINTR,
            Reason::Woken | Reason::Suspended => {}
        }
        if limit == Limit::Now {
            give_turn();
            return 0;
        }
        over = match read_polls(list, count) {
            Ok(polls) => park_for_all(&polls, limit.deadline(), seen),
            Err(fault) => return fault,
        };
        if over == Reason::Suspended {
            return SUSPENDED;
        }
    }
}

fn read_polls(list: usize, count: usize) -> Result<Vec<libc::pollfd>, isize> {
    (0..count).map(|index| user::read(list + index * size_of::<libc::pollfd>())).collect()
}

/// Parks until one of the descriptors has an event.
pub(crate) fn park_for_all(polls: &[libc::pollfd], deadline: Nanoseconds, seen: Seen) -> Reason {
    let waiter = waiter();
    let mut locked = lock();
    let mut nodes = Vec::with_capacity(polls.len());
    for poll in polls.iter().filter(|poll| poll.fd >= 0) {
        let number = poll.fd as usize;
        if let Some(descriptor) = registry::get(number) {
            descriptor.kind(number);
            if descriptor.register(number) == Err(sys::EBADF) {
                // The descriptor was closed after the caller looked.
                return Reason::Woken;
            }
            nodes.push(PollNode::new(waiter, poll.events, &descriptor.polls));
        }
    }
    if registry::all_seen() != seen {
        // Another worker took an event after the caller looked. The event may be for these
        // descriptors.
        return Reason::Woken;
    }
    let nodes = nodes.into_boxed_slice();
    nodes.iter().for_each(|node| node.link(&mut locked));
    waiter.waits_for.set(polls.first().map_or(0, |poll| poll.fd as usize));
    let reason = park(&mut locked, deadline);
    if reason == Reason::Suspended
        && let Some(task) = current().task.get()
    {
        task.waits_by(nodes);
        return reason;
    }
    closed::end_wait(&mut locked, &nodes);
    reason
}

/// epoll_wait(2)
pub(crate) fn epoll_wait(frame: &mut Frame) -> isize {
    wait_for_epoll(frame, Limit::milliseconds(frame.argument(3) as i32), None)
}

/// epoll_pwait(2)
pub(crate) fn epoll_pwait(frame: &mut Frame) -> isize {
    match masked::read(frame.argument(4), frame.argument(5)) {
        Ok(mask) => wait_for_epoll(frame, Limit::milliseconds(frame.argument(3) as i32), mask),
        Err(fault) => fault,
    }
}

/// epoll_pwait2(2)
pub(crate) fn epoll_pwait2(frame: &mut Frame) -> isize {
    let parse = || {
        Ok((
            Limit::of(user::read_optional(frame.argument(3))?)?,
            masked::read(frame.argument(4), frame.argument(5))?,
        ))
    };
    match parse() {
        Ok((limit, mask)) => wait_for_epoll(frame, limit, mask),
        Err(error) => error,
    }
}

fn wait_for_epoll(frame: &Frame, limit: Limit, mask: Option<u64>) -> isize {
    let number = frame.argument(0);
    let _masked = masked::with(mask);
    let mut over = None;
    loop {
        let seen = registry::get(number).map(|descriptor| descriptor.seen(Direction::Read));
        let ready = sys!(SYS_epoll_wait, number, frame.argument(1), frame.argument(2), 0);
        if ready != 0 {
            count_call();
            return ready;
        }
        // As in the kernel, events that come together with a signal count.
        if let Some(ending) = over {
            return ending;
        }
        let (descriptor, seen) = match (registry::get(number), seen) {
            (Some(descriptor), Some(seen)) if limit != Limit::Now => (descriptor, seen),
            _ => {
                give_turn();
                return 0;
            }
        };
        if in_place::suits(libc::SYS_epoll_pwait2) {
            return wait_in_place(frame, limit);
        }
        descriptor.kind(number);
        let deadline = limit.deadline();
        let generation = descriptor.generation();
        let reason = descriptor.wait(&mut lock(), number, Direction::Read, deadline, seen);
        match reason {
            None => return offload(frame.number(), frame.arguments(), Interrupted::Fails),
            Some(Reason::Suspended) => return SUSPENDED,
            Some(_) if descriptor.generation() != generation => {
                let fails = Interrupted::Fails;
                if let Some(result) = offload_on_kept(frame.number(), frame.arguments(), fails) {
                    return result;
                }
            }
            Some(Reason::Woken) => {}
            Some(Reason::TimedOut) => over = Some(0),
            Some(Reason::Interrupted) => over = Some(EINTR),
        }
    }
}

/// Waits in the program's own epoll. With `EPOLLEXCLUSIVE`, the kernel then wakes one of several
/// processes.
fn wait_in_place(frame: &Frame, limit: Limit) -> isize {
    let time = match limit {
        Limit::Until(deadline) => Some(clock::left(deadline)),
        Limit::Now | Limit::Forever => None,
    };
    let time_at = time.as_ref().map_or(0, |time| &raw const *time as usize);
    let arguments = [frame.argument(0), frame.argument(1), frame.argument(2), time_at, 0, 8];
    match in_place::call(libc::SYS_epoll_pwait2, arguments) {
        RESTART => EINTR,
        result => result,
    }
}

/// nanosleep(2)
pub(crate) fn nanosleep(frame: &mut Frame) -> isize {
    sleep(libc::CLOCK_MONOTONIC, false, frame.argument(0), frame.argument(1))
}

/// clock_nanosleep(2)
pub(crate) fn clock_nanosleep(frame: &mut Frame) -> isize {
    let clock = frame.argument(0) as i32;
    if !matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC) {
        return offload(frame.number(), frame.arguments(), Interrupted::Fails);
    }
    sleep(
        clock,
        frame.argument(1) as i32 & libc::TIMER_ABSTIME != 0,
        frame.argument(2),
        frame.argument(3),
    )
}

fn sleep(clock: i32, absolute: bool, time_at: usize, left_at: usize) -> isize {
    let time: libc::timespec = match user::read(time_at) {
        Ok(time) => time,
        Err(fault) => return fault,
    };
    if !clock::valid(&time) {
        return EINVAL;
    }
    let deadline = if absolute { clock::at(&time, clock) } else { clock::after(&time) };
    let deadline = first_deadline(deadline);
    let reason = park(&mut lock(), deadline);
    match reason {
        Reason::Interrupted if absolute => EINTR,
        Reason::Interrupted => user::write_optional(left_at, &clock::left(deadline))
            .map_or_else(|fault| fault, |()| EINTR),
        Reason::Woken | Reason::TimedOut => 0,
        Reason::Suspended => SUSPENDED,
    }
}

/// pause(2)
pub(crate) fn pause(_: &mut Frame) -> isize {
    while park(&mut lock(), NEVER) != Reason::Interrupted {}
    EINTR
}

/// ioctl(2): most requests return at once. A helper makes the terminal requests that wait.
pub(crate) fn ioctl(frame: &mut Frame) -> isize {
    const TCSBRK: usize = 0x5409;
    const TCSETSW: usize = 0x5403;
    const TCSETSF: usize = 0x5404;
    const TCSBRKP: usize = 0x5425;
    const FIONBIO: usize = 0x5421;
    if matches!(frame.argument(1), TCSBRK | TCSETSW | TCSETSF | TCSBRKP) {
        return offload(frame.number(), frame.arguments(), Interrupted::Restarts);
    }
    let result = match registry::get(frame.argument(0)) {
        Some(descriptor) if frame.argument(1) == FIONBIO => descriptor.alone(|| frame.pass()),
        _ => frame.pass(),
    };
    if frame.argument(1) == FIONBIO
        && result == 0
        && let (Some(descriptor), Ok(on)) =
            (registry::get(frame.argument(0)), user::read::<i32>(frame.argument(2)))
    {
        descriptor.kind(frame.argument(0));
        descriptor.set_mode(on != 0);
    }
    result
}

/// sched_yield(2)
pub(crate) fn sched_yield(frame: &mut Frame) -> isize {
    // If no thread of ours waits for its turn, another process may.
    if pump::yield_now(&mut lock()) { 0 } else { frame.pass() }
}
