//! What the kernel keeps for each kernel thread, and a program sets for a thread of its own: the
//! nice value, the scheduling policy, the I/O priority and the timer slack.
//!
//! Each thread has a record of what it asked for, from which the calls that ask are answered. New
//! threads and the child of a fork inherit it. The workers run all threads, so they get what holds
//! for all:
//!
//! ```text
//!   nice value                           the lowest of all threads: the highest priority
//!   policy, I/O priority, timer slack    what all threads have, once all have the same
//! ```
//!
//! So a program that sets its one thread, or all its threads, has what it natively has. A thread
//! that differs from the others is not run before or behind them: docs/run.md.

use crate::kernel::lock::{Guarded, Locked};
use crate::kernel::sys::{self, Arguments, failed, sys};
use crate::schedule::every_worker;
use crate::schedule::thread::{self, MAIN, ThreadRef};

/// What a thread asked for. `None`: it never asked, and has what the program had.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) nice: Option<i32>,
    pub(crate) policy: Option<Policy>,
    pub(crate) io: Option<i32>,
    pub(crate) slack: Option<usize>,
}

/// A scheduling policy, as in sched(7).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) number: u32,
    pub(crate) priority: u32,
    pub(crate) resets_on_fork: bool,
}

/// What threads without a record have, and what the workers have now.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    base: Attributes,
    workers: Attributes,
}

static KNOWN: Guarded<Option<Known>> = Guarded::new(None);

/// The caller, for calls that take a number of a thread.
pub(crate) const SELF: usize = 0;
/// One thread (`IOPRIO_WHO_PROCESS`).
pub(crate) const WHO_PROCESS: usize = 1;
pub(crate) const SCHED_FLAG_RESET_ON_FORK: u32 = 1;
/// The words of the least `struct sched_attr`, and the places of the fields.
pub(crate) const ATTR_WORDS: usize = 12;
pub(crate) const ATTR_POLICY: usize = 1;
pub(crate) const ATTR_FLAGS: usize = 2;
pub(crate) const ATTR_NICE: usize = 4;
pub(crate) const ATTR_PRIORITY: usize = 5;

impl Attributes {
    pub(crate) const NONE: Self = Self { nice: None, policy: None, io: None, slack: None };

    /// The attributes of this worker.
    pub(crate) fn of_worker() -> Self {
        Self {
            nice: Some(20 - sys!(SYS_getpriority, libc::PRIO_PROCESS, SELF) as i32),
            policy: Policy::of_worker(),
            io: Some(sys!(SYS_ioprio_get, WHO_PROCESS, SELF) as i32),
            slack: Some(sys!(SYS_prctl, libc::PR_GET_TIMERSLACK) as usize),
        }
    }

    /// Its own fields, and the others of `base`.
    fn or(self, base: Self) -> Self {
        Self {
            nice: self.nice.or(base.nice),
            policy: self.policy.or(base.policy),
            io: self.io.or(base.io),
            slack: self.slack.or(base.slack),
        }
    }

    /// What a new thread or process inherits (`SCHED_RESET_ON_FORK`, sched(7)).
    pub(crate) fn inherited(self) -> Self {
        match self.policy {
            Some(Policy { resets_on_fork: true, number, .. }) => {
                let fair = Policy { number: 0, priority: 0, resets_on_fork: false };
                let keeps = !Policy { number, ..fair }.is_realtime();
                let policy = if keeps { Policy { number, ..fair } } else { fair };
                Self { nice: self.nice.map(|nice| nice.max(0)), policy: Some(policy), ..self }
            }
            _ => self,
        }
    }

    /// Gives the calling kernel thread the fields that differ from `now`, by `set`. A call that the
    /// kernel refuses changes nothing.
    fn apply(&self, now: &Self, set: impl Fn(i64, Arguments)) {
        if let Some(policy) = self.policy.filter(|_| self.policy != now.policy) {
            let attr = policy.attr(self.nice.unwrap_or(0));
            set(libc::SYS_sched_setattr, [SELF, attr.as_ptr() as usize, 0, 0, 0, 0]);
        }
        if let Some(nice) = self.nice.filter(|_| self.nice != now.nice) {
            let who = libc::PRIO_PROCESS as usize;
            set(libc::SYS_setpriority, [who, SELF, nice as usize, 0, 0, 0]);
        }
        if let Some(io) = self.io.filter(|_| self.io != now.io) {
            set(libc::SYS_ioprio_set, [WHO_PROCESS, SELF, io as usize, 0, 0, 0]);
        }
        if let Some(slack) = self.slack.filter(|_| self.slack != now.slack) {
            let option = libc::PR_SET_TIMERSLACK as usize;
            set(libc::SYS_prctl, [option, slack, 0, 0, 0, 0]);
        }
    }
}

impl Policy {
    fn of_worker() -> Option<Self> {
        let mut attr = [0u32; ATTR_WORDS];
        let length = size_of_val(&attr);
        let got = sys!(SYS_sched_getattr, SELF, &mut attr, length, 0);
        (!failed(got)).then_some(Self {
            number: attr[ATTR_POLICY],
            priority: attr[ATTR_PRIORITY],
            resets_on_fork: attr[ATTR_FLAGS] & SCHED_FLAG_RESET_ON_FORK != 0,
        })
    }

    pub(crate) fn attr(self, nice: i32) -> [u32; ATTR_WORDS] {
        let mut attr = [0; ATTR_WORDS];
        attr[0] = size_of_val(&attr) as u32;
        attr[ATTR_POLICY] = self.number;
        attr[ATTR_FLAGS] = u32::from(self.resets_on_fork) * SCHED_FLAG_RESET_ON_FORK;
        attr[ATTR_NICE] = nice as u32;
        attr[ATTR_PRIORITY] = self.priority;
        attr
    }

    pub(crate) fn is_realtime(self) -> bool {
        [libc::SCHED_FIFO as u32, libc::SCHED_RR as u32].contains(&self.number)
    }
}

/// What the kernel would say of the thread, if something was asked for since the program began.
pub(crate) fn of(locked: &mut Locked, thread: ThreadRef) -> Option<Attributes> {
    let base = KNOWN.of(locked).as_ref()?.base;
    Some(thread.attributes.get(locked.held()).or(base))
}

/// As [`of`]. If nothing was asked for, the thread has what the worker has.
pub(crate) fn known_of(locked: &mut Locked, thread: ThreadRef) -> Attributes {
    KNOWN.of(locked).get_or_insert_with(|| {
        let base = Attributes::of_worker();
        Known { base, workers: base }
    });
    of(locked, thread).unwrap_or(Attributes::NONE)
}

/// The program's only thread has other attributes, and all workers have the same.
pub(crate) fn learn(locked: &mut Locked, thread: ThreadRef) {
    let now = Attributes::of_worker();
    *KNOWN.of(locked) = Some(Known { base: now, workers: now });
    thread.attributes.set(locked.held(), Attributes::NONE);
}

/// The kernel has changed the nice value of all threads.
pub(crate) fn learn_nice(locked: &mut Locked, nice: i32) {
    let mut each = thread::each(locked);
    while let Some(thread) = each.next(locked.held()) {
        let record = thread.attributes.get(locked.held());
        thread.attributes.set(locked.held(), Attributes { nice: Some(nice), ..record });
    }
    if let Some(known) = KNOWN.of(locked) {
        known.workers.nice = Some(nice);
    }
}

/// Notes what one of several threads has asked for, and gives the workers what holds for all.
pub(crate) fn ask(mut locked: Locked, thread: ThreadRef, asked: Attributes) {
    thread.attributes.set(locked.held(), asked);
    let Some(known) = *KNOWN.of(&mut locked) else { return };
    let workers = for_all(&mut locked, known, asked);
    *KNOWN.of(&mut locked) = Some(Known { workers, ..known });
    drop(locked);
    workers.apply(&known.workers, |number, arguments| {
        // SAFETY: calls that change the calling kernel thread alone, and read what they get.
        let result = unsafe { sys::call(number, arguments) };
        if !failed(result) {
            every_worker::everywhere(number, arguments);
        }
    });
}

/// What the workers are to have, now that a thread has `asked`. Mostly the first thread that is
/// looked at decides, since it has another value.
fn for_all(locked: &mut Locked, known: Known, asked: Attributes) -> Attributes {
    let Known { base, workers } = known;
    let mut same = asked;
    let mut each = thread::each(locked);
    while let Some(other) = each.next(locked.held()) {
        let other = other.attributes.get(locked.held()).or(base);
        same.nice = same.nice.min(other.nice);
        same.policy = same.policy.filter(|_| same.policy == other.policy);
        same.io = same.io.filter(|_| same.io == other.io);
        same.slack = same.slack.filter(|_| same.slack == other.slack);
        let differ = Attributes { nice: None, ..same } == Attributes::NONE;
        if differ && same.nice <= workers.nice {
            break;
        }
    }
    same.or(workers)
}

/// The record of a new thread of `parent`.
pub(crate) fn inherited(locked: &mut Locked, parent: ThreadRef) -> Attributes {
    let record = parent.attributes.get(locked.held());
    let all = of(locked, parent).unwrap_or(record);
    let inherited = all.inherited();
    if inherited == all { record } else { inherited }
}

/// In the child of a fork, which has the attributes of a worker: it gets those of the thread that
/// forked.
pub(crate) fn become_child(locked: &mut Locked, thread: ThreadRef) {
    let wanted = of(locked, thread);
    MAIN.attributes.set(locked.held(), Attributes::NONE);
    *KNOWN.of(locked) = None;
    if let Some(wanted) = wanted {
        wanted.inherited().apply(&Attributes::of_worker(), |number, arguments| {
            // SAFETY: calls that change this kernel thread alone, and read what they get.
            unsafe { sys::call(number, arguments) };
        });
    }
}
