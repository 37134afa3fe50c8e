//! What the kernel keeps for each kernel thread, and a program sets for a thread of its own. These
//! are the nice value, the scheduling policy, the I/O priority and the timer slack.

use crate::kernel::sys::{Arguments, failed, sys};

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
    /// Runtime, deadline and period of `SCHED_DEADLINE`, in nanoseconds.
    pub(crate) share: [u64; 3],
}

pub(crate) const SCHED_DEADLINE: u32 = 6;
/// The share of the processor in the words of `struct sched_attr`.
pub(crate) const ATTR_SHARE: usize = 6;

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
    pub(crate) fn or(self, base: Self) -> Self {
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
                let fair = Policy { number: 0, ..Policy::FAIR };
                let keeps = !Policy { number, ..fair }.is_realtime();
                let policy = if keeps { Policy { number, ..fair } } else { fair };
                Self { nice: self.nice.map(|nice| nice.max(0)), policy: Some(policy), ..self }
            }
            _ => self,
        }
    }

    /// Gives the calling kernel thread the fields that differ from `now`, by `set`. A call that the
    /// kernel refuses changes nothing.
    pub(crate) fn apply(&self, now: &Self, set: impl Fn(i64, Arguments)) {
        // A worker with a deadline could start no thread.
        let fits = |policy: &Policy| policy.number != SCHED_DEADLINE;
        if let Some(policy) = self.policy.filter(|_| self.policy != now.policy).filter(fits) {
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
    const FAIR: Self = Self { number: 0, priority: 0, resets_on_fork: false, share: [0; 3] };

    fn of_worker() -> Option<Self> {
        let mut attr = [0u32; ATTR_WORDS];
        let length = size_of_val(&attr);
        let got = sys!(SYS_sched_getattr, SELF, &mut attr, length, 0);
        (!failed(got)).then_some(Self {
            number: attr[ATTR_POLICY],
            priority: attr[ATTR_PRIORITY],
            resets_on_fork: attr[ATTR_FLAGS] & SCHED_FLAG_RESET_ON_FORK != 0,
            share: Self::share_of(&attr, attr[ATTR_POLICY]),
        })
    }

    /// The share in the words of `struct sched_attr`, for this policy.
    pub(crate) fn share_of(attr: &[u32; ATTR_WORDS], policy: u32) -> [u64; 3] {
        let word = |at: usize| u64::from(attr[at]) | u64::from(attr[at + 1]) << 32;
        if policy == SCHED_DEADLINE { [0, 2, 4].map(|at| word(ATTR_SHARE + at)) } else { [0; 3] }
    }

    pub(crate) fn attr(self, nice: i32) -> [u32; ATTR_WORDS] {
        let mut attr = [0; ATTR_WORDS];
        attr[0] = size_of_val(&attr) as u32;
        attr[ATTR_POLICY] = self.number;
        attr[ATTR_FLAGS] = u32::from(self.resets_on_fork) * SCHED_FLAG_RESET_ON_FORK;
        attr[ATTR_NICE] = nice as u32;
        attr[ATTR_PRIORITY] = self.priority;
        for (words, part) in attr[ATTR_SHARE..].chunks_exact_mut(2).zip(self.share) {
            words.copy_from_slice(&[part as u32, (part >> 32) as u32]);
        }
        attr
    }

    pub(crate) fn is_realtime(self) -> bool {
        [libc::SCHED_FIFO as u32, libc::SCHED_RR as u32].contains(&self.number)
    }
}
