//! What may go wrong, how strongly, and how often it did.

use std::fmt;
use std::time::Duration;

use crate::decisions::{Decisions, Kind};

/// The faults that a simulation may have. Each seed draws some of them, and how strong they are
/// (swarm testing, Groce et al. 2012).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Reads and writes of sockets, and writes of files, move fewer bytes than they could.
    pub short: bool,
    /// Events for descriptors that are not ready.
    pub spurious: bool,
    /// Events that come some turns late.
    pub late_events: bool,
    /// Timers that are late.
    pub late_timers: bool,
    /// Calls that a signal interrupts (EINTR).
    pub interrupts: bool,
    /// Calls that the kernel refuses: EMFILE, ENFILE, ENOBUFS, ENOMEM, and ECONNABORTED at accept.
    pub refusals: bool,
    /// Connections that the network resets.
    pub resets: bool,
    /// Datagrams that are lost, come twice, or are overtaken.
    pub datagrams: bool,
    /// Latencies of seconds, and turns of milliseconds.
    pub slow: bool,
    /// Buffers of some hundred bytes.
    pub small_buffers: bool,
    /// Links that carry few bytes in a second.
    pub narrow: bool,
    /// Clocks that are too fast or too slow, and times of day that are wrong.
    pub clocks: bool,
    /// Partitions, where a test asks [`Net::faults`](crate::Net::faults).
    pub partitions: bool,
    /// Crashes, where a test asks.
    pub crashes: bool,
    /// Writes that were not synced and that a crash loses.
    pub lost_writes: bool,
    /// Names of files that a crash loses or brings back, since their folder was not synced.
    pub lost_names: bool,
    /// Disks that are full for a while (ENOSPC at a write).
    pub full_disks: bool,
    /// Syncs of files that fail (EIO), and make nothing durable.
    pub failed_syncs: bool,
    /// Drains, where a test asks.
    pub drains: bool,
}

impl Faults {
    /// All of them.
    pub const ALL: Self = Self {
        short: true,
        spurious: true,
        late_events: true,
        late_timers: true,
        interrupts: true,
        refusals: true,
        resets: true,
        datagrams: true,
        slow: true,
        small_buffers: true,
        narrow: true,
        clocks: true,
        partitions: true,
        crashes: true,
        lost_writes: true,
        lost_names: true,
        full_disks: true,
        failed_syncs: true,
        drains: true,
    };

    /// What every program must bear without an error.
    pub const LEGAL: Self = Self {
        refusals: false,
        resets: false,
        slow: false,
        partitions: false,
        crashes: false,
        full_disks: false,
        failed_syncs: false,
        drains: false,
        ..Self::ALL
    };

    /// None: every decision but those of order and of time is tame.
    pub const NONE: Self = Self {
        short: false,
        spurious: false,
        late_events: false,
        late_timers: false,
        interrupts: false,
        refusals: false,
        resets: false,
        datagrams: false,
        slow: false,
        small_buffers: false,
        narrow: false,
        clocks: false,
        partitions: false,
        crashes: false,
        lost_writes: false,
        lost_names: false,
        full_disks: false,
        failed_syncs: false,
        drains: false,
    };

    /// Whether connections may break, or servers say that they cannot serve.
    #[must_use]
    pub fn break_connections(&self) -> bool {
        let Self { refusals, resets, slow, partitions, crashes, drains, .. } = *self;
        let disks_fail = self.full_disks || self.failed_syncs;
        refusals || resets || slow || partitions || crashes || drains || disks_fail
    }
}

/// What one seed has. Times are in nanoseconds, chances in a thousand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Profile {
    pub(crate) latency: (u64, u64),
    pub(crate) turn: u64,
    pub(crate) window: usize,
    /// The bytes that a link carries in a second, 0 for any number.
    pub(crate) bandwidth: u64,
    pub(crate) short: u64,
    pub(crate) spurious: u64,
    pub(crate) late_event: u64,
    pub(crate) late_timer: u64,
    pub(crate) interrupt: u64,
    pub(crate) refusal: u64,
    pub(crate) reset: u64,
    pub(crate) loss: u64,
    pub(crate) doubling: u64,
    pub(crate) overtaking: u64,
    /// 1 if a crash loses what was not synced.
    pub(crate) loses_writes: u64,
    /// 1 if a crash loses names that were not synced.
    pub(crate) loses_names: u64,
    pub(crate) full_disk: u64,
    pub(crate) failed_sync: u64,
    /// How many of the ready tasks the next one is drawn from.
    pub(crate) tasks: usize,
    /// The choices of a task at which one falls behind, if tasks go by priorities.
    pub(crate) changes: Option<[u64; CHANGES]>,
    /// How wrong a host's time of day is, at most.
    pub(crate) skew: u64,
    /// How much too fast or too slow a host's clock is at most, in millionths.
    pub(crate) drift: u64,
}

/// How often a task falls behind, at most.
const CHANGES: usize = 3;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;

impl Profile {
    const CALM: Self = Self {
        latency: (20 * MICROSECOND, 60 * MICROSECOND),
        turn: 2 * MICROSECOND,
        window: 64 << 10,
        bandwidth: 0,
        short: 0,
        spurious: 0,
        late_event: 0,
        late_timer: 0,
        interrupt: 0,
        refusal: 0,
        reset: 0,
        loss: 0,
        doubling: 0,
        overtaking: 0,
        loses_writes: 0,
        loses_names: 0,
        full_disk: 0,
        failed_sync: 0,
        tasks: usize::MAX,
        changes: None,
        skew: 0,
        drift: 0,
    };

    pub(crate) fn drawn(faults: Faults, decisions: &mut Decisions) -> Self {
        let mut of = |is_on: bool, choices: &[u64]| {
            let drawn = decisions.draw(Kind::Profile, choices.len() as u64);
            choices[if is_on { drawn as usize } else { 0 }]
        };
        let latency = [
            (20 * MICROSECOND, 60 * MICROSECOND),
            (200 * MICROSECOND, 5 * MILLISECOND),
            (MILLISECOND, 300 * MILLISECOND),
            (MILLISECOND, 3_000 * MILLISECOND),
        ];
        let slow = if faults.slow { 4 } else { 2 };
        let mut profile = Self {
            latency: latency[of(true, &[0, 1, 2, 3][..slow]) as usize],
            turn: of(faults.slow, &[2 * MICROSECOND, 20 * MICROSECOND, MILLISECOND]),
            window: of(faults.small_buffers, &[64 << 10, 4 << 10, 300]) as usize,
            short: of(faults.short, &[0, 100, 900]),
            spurious: of(faults.spurious, &[0, 50]),
            late_event: of(faults.late_events, &[0, 300]),
            late_timer: of(faults.late_timers, &[0, 2 * MILLISECOND, 2_000 * MILLISECOND]),
            interrupt: of(faults.interrupts, &[0, 50]),
            refusal: of(faults.refusals, &[0, 50, 300]),
            reset: of(faults.resets, &[0, 2, 20]),
            loss: of(faults.datagrams, &[0, 20, 300]),
            doubling: of(faults.datagrams, &[0, 100]),
            overtaking: of(faults.datagrams, &[0, 200]),
            loses_writes: of(faults.lost_writes, &[0, 1]),
            tasks: of(true, &[u64::MAX, 2, 1]) as usize,
            changes: None,
            bandwidth: of(faults.narrow, &[0, 10_000_000, 100_000]),
            skew: of(faults.clocks, &[0, 3_600_000 * MILLISECOND]),
            drift: of(faults.clocks, &[0, 500]),
            loses_names: of(faults.lost_names, &[0, 1]),
            full_disk: of(faults.full_disks, &[0, 20]),
            failed_sync: of(faults.failed_syncs, &[0, 50]),
        };
        if decisions.draw(Kind::Profile, 2) == 1 {
            profile.changes = Some([(); CHANGES].map(|()| change(decisions)));
        }
        profile
    }

    /// The profile of the liveness phase: faults have ended.
    pub(crate) fn calm(self) -> Self {
        let Self { window, loses_writes, loses_names, .. } = self;
        Self { window, loses_writes, loses_names, ..Self::CALM }
    }
}

/// How kernel threads run in one seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Threading {
    /// How often a thread gives way at a lock or a call, in a thousand.
    pub(crate) preempts: u64,
    /// How many processors a host says that it has.
    pub(crate) processors: usize,
}

impl Threading {
    pub(crate) fn drawn(decisions: &mut Decisions) -> Self {
        let mut of =
            |choices: &[u64]| choices[decisions.draw(Kind::Profile, choices.len() as u64) as usize];
        Self { preempts: of(&[0, 20, 300]), processors: of(&[2, 1, 4]) as usize }
    }
}

/// A choice at which a task falls behind. Early ones are as likely as late ones, since some tests
/// have a hundred choices, and others a million. 0 is none.
fn change(decisions: &mut Decisions) -> u64 {
    match decisions.draw(Kind::Profile, 20) {
        0 => 0,
        magnitude => (1 << magnitude) + decisions.draw(Kind::Profile, 1 << magnitude),
    }
}

/// How often what happened, so that a fault that never did is seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Turns of tasks.
    pub turns: u64,
    /// Packets that arrived.
    pub packets: u64,
    /// Connections that were opened.
    pub connections: u64,
    /// Packets that waited for a link that was busy.
    pub queued: u64,
    /// Starts of a host with a clock that is wrong.
    pub wrong_clocks: u64,
    /// Tasks that fell behind all others.
    pub priority_changes: u64,
    /// Reads and writes that moved less than they could.
    pub short: u64,
    /// Events for descriptors that were not ready.
    pub spurious: u64,
    /// Events that came some turns late.
    pub late_events: u64,
    /// Timers that were late.
    pub late_timers: u64,
    /// Calls that a signal interrupted.
    pub interrupts: u64,
    /// Calls that the kernel refused.
    pub refusals: u64,
    /// Packets that were sent again.
    pub again: u64,
    /// Connections that were reset.
    pub resets: u64,
    /// Datagrams that arrived.
    pub datagrams: u64,
    /// Datagrams that were lost.
    pub lost: u64,
    /// Datagrams that came twice.
    pub doubled: u64,
    /// Datagrams that took longer, so that later ones overtook them.
    pub overtaken: u64,
    /// Connections that ended because packets were lost for too long.
    pub timeouts: u64,
    /// Partitions.
    pub partitions: u64,
    /// Hosts that crashed.
    pub crashes: u64,
    /// Files that were synced.
    pub synced: u64,
    /// Files and blocks that a crash has lost.
    pub lost_writes: u64,
    /// Names that a crash has lost or brought back.
    pub lost_names: u64,
    /// Writes to files that moved less than they could.
    pub short_writes: u64,
    /// Writes to files that found no room on the disk.
    pub full_disks: u64,
    /// Syncs of files that failed.
    pub failed_syncs: u64,
    /// Packets and datagrams that a link held.
    pub held: u64,
    /// Hosts that drained.
    pub drains: u64,
    /// Threads that gave way at a lock or a call.
    pub preemptions: u64,
}

impl Counts {
    /// Adds those of another simulation.
    pub fn add(&mut self, other: &Self) {
        for (own, other) in self.each_mut().into_iter().zip(other.each()) {
            *own.1 += other.1;
        }
    }

    pub(crate) fn each(&self) -> [(&'static str, u64); 30] {
        let mut copy = *self;
        copy.each_mut().map(|(name, count)| (name, *count))
    }

    pub(crate) fn each_mut(&mut self) -> [(&'static str, &mut u64); 30] {
        [
            ("turns", &mut self.turns),
            ("packets", &mut self.packets),
            ("connections", &mut self.connections),
            ("queued", &mut self.queued),
            ("wrong clocks", &mut self.wrong_clocks),
            ("priority changes", &mut self.priority_changes),
            ("short", &mut self.short),
            ("spurious", &mut self.spurious),
            ("late events", &mut self.late_events),
            ("late timers", &mut self.late_timers),
            ("interrupted", &mut self.interrupts),
            ("refused", &mut self.refusals),
            ("sent again", &mut self.again),
            ("resets", &mut self.resets),
            ("datagrams", &mut self.datagrams),
            ("lost", &mut self.lost),
            ("doubled", &mut self.doubled),
            ("overtaken", &mut self.overtaken),
            ("timed out", &mut self.timeouts),
            ("partitions", &mut self.partitions),
            ("crashes", &mut self.crashes),
            ("synced", &mut self.synced),
            ("lost writes", &mut self.lost_writes),
            ("lost names", &mut self.lost_names),
            ("short writes", &mut self.short_writes),
            ("full disks", &mut self.full_disks),
            ("failed syncs", &mut self.failed_syncs),
            ("held", &mut self.held),
            ("drains", &mut self.drains),
            ("preemptions", &mut self.preemptions),
        ]
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, count)) in self.each().into_iter().enumerate() {
            write!(formatter, "{}{name} {count}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// A duration as nanoseconds, at most a century.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(100 * 365 * 86_400_000 * MILLISECOND)
}
