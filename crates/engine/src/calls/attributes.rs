//! Calls that ask for and set what `schedule/attributes.rs` keeps for each thread: getpriority(2),
//! sched_setscheduler(2), ioprio_set(2), and similar.
//!
//! If the program has one thread, the kernel decides, and all workers get the same. If it has
//! several, the functions here decide as the kernel would.

use crate::kernel::attributes::{
    ATTR_FLAGS, ATTR_NICE, ATTR_POLICY, ATTR_PRIORITY, ATTR_SHARE, ATTR_WORDS, Attributes, Policy,
    SCHED_DEADLINE, SCHED_FLAG_RESET_ON_FORK, SELF, WHO_PROCESS,
};
use crate::kernel::frame::Frame;
use crate::kernel::lock::{Locked, lock};
use crate::kernel::sys::{self, Arguments, EINVAL, failed, sys};
use crate::kernel::user;
use crate::schedule::attributes;
use crate::schedule::every_worker;
use crate::schedule::thread::{self, MAIN, ThreadRef, is_ours};
use crate::schedule::worker::current;

const SCHED_FLAG_KEEP_POLICY: u32 = 8;
const SCHED_FLAG_KEEP_PARAMS: u32 = 16;

/// The thread or process that a call names.
enum Whom {
    Ours(ThreadRef),
    /// A process that is not ours, which the kernel knows.
    Other,
    Nobody,
}

fn whom(locked: &mut Locked, id: usize) -> Whom {
    match id as i32 {
        0 => Whom::Ours(current()),
        id if id == MAIN.id.get() || is_ours(i64::from(id)) => {
            thread::find(locked, id).map_or(Whom::Nobody, Whom::Ours)
        }
        _ => Whom::Other,
    }
}

/// A call that asks for an attribute of the thread `id`. `answer` gives the result from the
/// thread's record; without one, the kernel answers for the worker.
fn answer(
    id: usize,
    pass: impl Fn(usize) -> isize,
    answer: impl Fn(&Attributes) -> isize,
) -> isize {
    let mut locked = lock();
    let asked = match whom(&mut locked, id) {
        Whom::Ours(thread) => attributes::of(&mut locked, thread),
        Whom::Other => {
            drop(locked);
            return pass(id);
        }
        Whom::Nobody => return sys::ESRCH,
    };
    drop(locked);
    asked.map_or_else(|| pass(SELF), |asked| answer(&asked))
}

/// A call that sets an attribute of the thread `id`. `wanted` gives the new attributes from those
/// before, or an error. If the program has one thread, the kernel decides, by `pass`.
fn change(
    id: usize,
    pass: impl Fn(usize) -> (i64, Arguments),
    wanted: impl Fn(Attributes) -> Result<Attributes, isize>,
) -> isize {
    let mut locked = lock();
    let thread = match whom(&mut locked, id) {
        Whom::Ours(thread) => thread,
        Whom::Nobody => return sys::ESRCH,
        Whom::Other => {
            drop(locked);
            let (number, arguments) = pass(id);
            // SAFETY: the program's own call, on another process.
            return unsafe { sys::call(number, arguments) };
        }
    };
    let before = attributes::known_of(&mut locked, thread);
    if thread::is_alone(&mut locked) {
        drop(locked);
        let (number, arguments) = pass(SELF);
        // SAFETY: the program's own call, on its only thread.
        let result = unsafe { sys::call(number, arguments) };
        if !failed(result) {
            every_worker::everywhere(number, arguments);
            attributes::learn(&mut lock(), thread);
        }
        return result;
    }
    match wanted(before) {
        Ok(asked) => attributes::ask(locked, thread, asked),
        Err(error) => return error,
    }
    0
}

/// getpriority(2). The kernel counts from 20 down.
pub(crate) fn getpriority(frame: &mut Frame) -> isize {
    if frame.argument(0) as i32 != libc::PRIO_PROCESS as i32 {
        return frame.pass();
    }
    let pass = |id| frame.with(frame.number(), [frame.argument(0), id, 0, 0, 0, 0]).pass();
    answer(frame.argument(1), pass, |asked| 20 - asked.nice.unwrap_or(0) as isize)
}

/// setpriority(2)
pub(crate) fn setpriority(frame: &mut Frame) -> isize {
    let nice = (frame.argument(2) as i32).clamp(-20, 19);
    if frame.argument(0) as i32 != libc::PRIO_PROCESS as i32 {
        return set_priority_of_many(frame, nice);
    }
    let pass = |id| (frame.number(), [frame.argument(0), id, frame.argument(2), 0, 0, 0]);
    change(frame.argument(1), pass, |before| {
        let lower = before.nice.is_some_and(|before| nice < before);
        if lower && !may_have_nice(nice) {
            return Err(sys::error(libc::EACCES));
        }
        Ok(Attributes { nice: Some(nice), ..before })
    })
}

/// Sets the priority of all threads of a group or of a user.
fn set_priority_of_many(frame: &Frame, nice: i32) -> isize {
    let result = frame.pass();
    let own = match frame.argument(0) as u32 {
        libc::PRIO_PGRP => sys!(SYS_getpgid, 0),
        _ => sys!(SYS_getuid),
    };
    if !failed(result) && (frame.argument(1) == 0 || frame.argument(1) as isize == own) {
        attributes::learn_nice(&mut lock(), nice);
    }
    result
}

/// sched_getscheduler(2)
pub(crate) fn sched_getscheduler(frame: &mut Frame) -> isize {
    let pass = |id| frame.with(frame.number(), [id, 0, 0, 0, 0, 0]).pass();
    answer(frame.argument(0), pass, |asked| {
        let policy = asked.policy;
        let reset = policy.is_some_and(|policy| policy.resets_on_fork);
        let flag = if reset { libc::SCHED_RESET_ON_FORK as isize } else { 0 };
        policy.map_or(0, |policy| policy.number as isize) | flag
    })
}

/// sched_getparam(2)
pub(crate) fn sched_getparam(frame: &mut Frame) -> isize {
    let pass = |id| frame.with(frame.number(), [id, frame.argument(1), 0, 0, 0, 0]).pass();
    if frame.argument(1) == 0 {
        return EINVAL;
    }
    answer(frame.argument(0), pass, |asked| {
        let priority = asked.policy.map_or(0, |policy| policy.priority);
        user::write(frame.argument(1), &priority).map_or_else(|fault| fault, |()| 0)
    })
}

/// sched_getattr(2): the kernel fills in what the worker has, and the record comes over it.
pub(crate) fn sched_getattr(frame: &mut Frame) -> isize {
    let pass = |id| {
        frame
            .with(
                frame.number(),
                [id, frame.argument(1), frame.argument(2), frame.argument(3), 0, 0],
            )
            .pass()
    };
    answer(frame.argument(0), pass, |asked| {
        let result = pass(SELF);
        let (Some(policy), false) = (asked.policy, failed(result)) else { return result };
        let attr = policy.attr(asked.nice.filter(|_| !policy.is_realtime()).unwrap_or(0));
        let at = |word: usize| frame.argument(1) + word * size_of::<u32>();
        let share = if policy.number == SCHED_DEADLINE { &attr[ATTR_SHARE..] } else { &[] };
        let written = user::write_slice(at(ATTR_SHARE), share)
            .and_then(|()| user::write(at(ATTR_POLICY), &attr[ATTR_POLICY]))
            .and_then(|()| user::write(at(ATTR_FLAGS), &attr[ATTR_FLAGS]))
            .and_then(|()| user::write(at(ATTR_NICE), &attr[ATTR_NICE]))
            .and_then(|()| user::write(at(ATTR_PRIORITY), &attr[ATTR_PRIORITY]));
        written.map_or_else(|fault| fault, |()| result)
    })
}

/// sched_setscheduler(2) and sched_setparam(2)
pub(crate) fn sched_setscheduler(frame: &mut Frame) -> isize {
    let sets_policy = frame.number() == libc::SYS_sched_setscheduler;
    let parameter = if sets_policy { frame.argument(2) } else { frame.argument(1) };
    if parameter == 0
        || (frame.argument(0) as i32) < 0
        || (sets_policy && (frame.argument(1) as i32) < 0)
    {
        return EINVAL;
    }
    let priority: u32 = match user::read(parameter) {
        Ok(priority) => priority,
        Err(fault) => return fault,
    };
    let flag = libc::SCHED_RESET_ON_FORK as u32;
    let pass = |id| (frame.number(), [id, frame.argument(1), frame.argument(2), 0, 0, 0]);
    change(frame.argument(0), pass, |before| {
        let old = before.policy.ok_or(EINVAL)?;
        let (number, resets_on_fork) = match sets_policy {
            true => (frame.argument(1) as u32 & !flag, frame.argument(1) as u32 & flag != 0),
            false => (old.number, old.resets_on_fork),
        };
        with_policy(before, Policy { number, priority, resets_on_fork, share: [0; 3] }, None)
    })
}

/// sched_setattr(2)
pub(crate) fn sched_setattr(frame: &mut Frame) -> isize {
    const MOST_BYTES: u32 = 56;
    if frame.argument(1) == 0 || (frame.argument(0) as i32) < 0 || frame.argument(2) != 0 {
        return EINVAL;
    }
    let attr: [u32; ATTR_WORDS] = match user::read(frame.argument(1)) {
        Ok(attr) => attr,
        Err(fault) => return fault,
    };
    let pass = |id| (frame.number(), [id, frame.argument(1), frame.argument(2), 0, 0, 0]);
    change(frame.argument(0), pass, |before| {
        let flags = attr[ATTR_FLAGS];
        if attr[0] != 0 && !(size_of_val(&attr) as u32..=MOST_BYTES).contains(&attr[0]) {
            return Err(sys::error(libc::E2BIG));
        }
        let old = before.policy.ok_or(EINVAL)?;
        let keeps = flags & SCHED_FLAG_KEEP_PARAMS != 0;
        let policy = Policy {
            number: if flags & SCHED_FLAG_KEEP_POLICY != 0 {
                old.number
            } else {
                attr[ATTR_POLICY]
            },
            priority: if keeps { old.priority } else { attr[ATTR_PRIORITY] },
            resets_on_fork: flags & SCHED_FLAG_RESET_ON_FORK != 0,
            share: if keeps { old.share } else { Policy::share_of(&attr, attr[ATTR_POLICY]) },
        };
        let sets_nice = !keeps && !policy.is_realtime();
        let nice = (attr[ATTR_NICE] as i32).clamp(-20, 19);
        with_policy(before, policy, sets_nice.then_some(nice))
    })
}

fn with_policy(before: Attributes, policy: Policy, nice: Option<i32>) -> Result<Attributes, isize> {
    if !is_valid(policy) || (policy.number == SCHED_DEADLINE && !is_share(policy.share)) {
        return Err(EINVAL);
    }
    let old = before.policy.ok_or(EINVAL)?;
    let old_nice = before.nice.unwrap_or(0);
    let lower = nice.is_some_and(|nice| nice < old_nice && !may_have_nice(nice));
    if lower || !is_allowed(policy, old, nice.unwrap_or(old_nice)) {
        return Err(sys::error(libc::EPERM));
    }
    Ok(Attributes { policy: Some(policy), nice: nice.or(before.nice), ..before })
}

/// ioprio_get(2)
pub(crate) fn ioprio_get(frame: &mut Frame) -> isize {
    if frame.argument(0) as i32 as usize != WHO_PROCESS {
        return frame.pass();
    }
    let pass = |id| frame.with(frame.number(), [frame.argument(0), id, 0, 0, 0, 0]).pass();
    answer(frame.argument(1), pass, |asked| asked.io.unwrap_or(0) as isize)
}

/// ioprio_set(2)
pub(crate) fn ioprio_set(frame: &mut Frame) -> isize {
    if frame.argument(0) as i32 as usize != WHO_PROCESS {
        return frame.pass();
    }
    let pass = |id| (frame.number(), [frame.argument(0), id, frame.argument(2), 0, 0, 0]);
    change(frame.argument(1), pass, |before| {
        // The kernel says whether the value is right, and the worker gets its own value back.
        let own = sys!(SYS_ioprio_get, WHO_PROCESS, SELF);
        let tried = sys!(SYS_ioprio_set, WHO_PROCESS, SELF, frame.argument(2));
        if failed(tried) {
            return Err(tried);
        }
        sys!(SYS_ioprio_set, WHO_PROCESS, SELF, own);
        Ok(Attributes { io: Some(frame.argument(2) as i32), ..before })
    })
}

/// prctl(2) with `PR_GET_TIMERSLACK`
pub(crate) fn timer_slack(frame: &Frame) -> isize {
    answer(SELF, |_| frame.pass(), |asked| asked.slack.unwrap_or(0) as isize)
}

/// prctl(2) with `PR_SET_TIMERSLACK`
pub(crate) fn set_timer_slack(frame: &Frame) -> isize {
    let pass = |_| (frame.number(), [frame.argument(0), frame.argument(1), 0, 0, 0, 0]);
    change(SELF, pass, |before| {
        /// Zero asks for the value that the thread began with, mostly the kernel's own.
        const DEFAULT: Option<usize> = Some(50_000);
        let slack = if frame.argument(1) == 0 { DEFAULT } else { Some(frame.argument(1)) };
        Ok(Attributes { slack, ..before })
    })
}

/// The numbers that the kernel has, each with a priority in its range.
fn is_valid(policy: Policy) -> bool {
    let least = sys!(SYS_sched_get_priority_min, policy.number);
    let most = sys!(SYS_sched_get_priority_max, policy.number);
    !failed(least) && (least..=most).contains(&(policy.priority as isize))
}

/// Whether the kernel takes this share of `SCHED_DEADLINE`.
fn is_share([runtime, deadline, period]: [u64; 3]) -> bool {
    const LEAST: u64 = 1 << 10;
    let fits = runtime <= deadline && (period == 0 || deadline <= period);
    fits && (LEAST..1 << 63).contains(&runtime) && deadline >> 63 == 0 && period >> 63 == 0
}

/// Whether the kernel lets a thread with `before` have this policy, as in sched(7).
fn is_allowed(policy: Policy, before: Policy, nice: i32) -> bool {
    let limit = limit(libc::RLIMIT_RTPRIO as usize);
    let as_before = policy.number == before.number;
    let above = u64::from(policy.priority) > limit && policy.priority > before.priority;
    let realtime = policy.is_realtime() && (above || (limit == 0 && !as_before));
    let idle = libc::SCHED_IDLE as u32;
    let leaves_idle = before.number == idle && policy.number != idle;
    let stays_reset = policy.resets_on_fork || !before.resets_on_fork;
    let free = !realtime
        && policy.number != SCHED_DEADLINE
        && stays_reset
        && (!leaves_idle || may_have_nice(nice));
    free || is_privileged()
}

/// A soft limit of resources.
fn limit(resource: usize) -> u64 {
    let mut limits = [0u64; 2];
    sys!(SYS_prlimit64, SELF, resource, 0, &mut limits);
    limits[0]
}

/// Whether the process may set all priorities (`CAP_SYS_NICE`).
fn is_privileged() -> bool {
    const VERSION: u32 = 0x2008_0522;
    const CAP_SYS_NICE: u32 = 23;
    let (mut header, mut sets) = ([VERSION, 0], [0u32; 6]);
    !failed(sys!(SYS_capget, &mut header, &mut sets)) && sets[0] & 1 << CAP_SYS_NICE != 0
}

/// Whether a thread may change its nice value to this one, if that is lower than before.
fn may_have_nice(nice: i32) -> bool {
    (20 - nice) as u64 <= limit(libc::RLIMIT_NICE as usize) || is_privileged()
}
