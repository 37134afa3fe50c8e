//! What may go wrong, how strongly, and how often it did.

use std::fmt;
use std::time::Duration;

use crate::decisions::{Decisions, Kind};

/// The faults that a simulation may have. Each seed draws some of them, and how strong they are
/// (swarm testing, Groce et al. 2012).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Reads and writes move fewer bytes than they could, down to one.
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
    /// Latencies of seconds, and turns of milliseconds.
    pub slow: bool,
    /// Buffers of some hundred bytes.
    pub small_buffers: bool,
    /// Partitions, where a test asks [`Net::faults`](crate::Net::faults).
    pub partitions: bool,
    /// Crashes, where a test asks.
    pub crashes: bool,
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
        slow: true,
        small_buffers: true,
        partitions: true,
        crashes: true,
        drains: true,
    };

    /// What every program must bear without an error.
    pub const LEGAL: Self = Self {
        refusals: false,
        resets: false,
        slow: false,
        partitions: false,
        crashes: false,
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
        slow: false,
        small_buffers: false,
        partitions: false,
        crashes: false,
        drains: false,
    };

    /// Whether connections may break.
    #[must_use]
    pub fn break_connections(&self) -> bool {
        let Self { refusals, resets, slow, partitions, crashes, drains, .. } = *self;
        refusals || resets || slow || partitions || crashes || drains
    }
}

/// What one seed has. Times are in nanoseconds, chances in a thousand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Profile {
    pub(crate) latency: (u64, u64),
    pub(crate) turn: u64,
    pub(crate) window: usize,
    pub(crate) short: u64,
    pub(crate) spurious: u64,
    pub(crate) late_event: u64,
    pub(crate) late_timer: u64,
    pub(crate) interrupt: u64,
    pub(crate) refusal: u64,
    pub(crate) reset: u64,
    /// How many of the ready tasks the next one is drawn from.
    pub(crate) tasks: usize,
    /// The skew of a host's time of day, at most.
    pub(crate) skew: u64,
}

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;

impl Profile {
    const CALM: Self = Self {
        latency: (20 * MICROSECOND, 60 * MICROSECOND),
        turn: 2 * MICROSECOND,
        window: 64 << 10,
        short: 0,
        spurious: 0,
        late_event: 0,
        late_timer: 0,
        interrupt: 0,
        refusal: 0,
        reset: 0,
        tasks: usize::MAX,
        skew: 0,
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
        Self {
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
            tasks: of(true, &[u64::MAX, 2, 1]) as usize,
            skew: of(faults.slow, &[0, 3_600_000 * MILLISECOND]),
        }
    }

    /// The profile of the liveness phase: faults have ended.
    pub(crate) fn calm(self) -> Self {
        Self { window: self.window, ..Self::CALM }
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
    /// Connections that ended because packets were lost for too long.
    pub timeouts: u64,
    /// Partitions.
    pub partitions: u64,
    /// Hosts that crashed.
    pub crashes: u64,
    /// Hosts that drained.
    pub drains: u64,
}

impl Counts {
    /// Adds those of another simulation.
    pub fn add(&mut self, other: &Self) {
        for (own, other) in self.each_mut().into_iter().zip(other.each()) {
            *own.1 += other.1;
        }
    }

    fn each(&self) -> [(&'static str, u64); 15] {
        let mut copy = *self;
        copy.each_mut().map(|(name, count)| (name, *count))
    }

    fn each_mut(&mut self) -> [(&'static str, &mut u64); 15] {
        [
            ("turns", &mut self.turns),
            ("packets", &mut self.packets),
            ("connections", &mut self.connections),
            ("short", &mut self.short),
            ("spurious", &mut self.spurious),
            ("late events", &mut self.late_events),
            ("late timers", &mut self.late_timers),
            ("interrupted", &mut self.interrupts),
            ("refused", &mut self.refusals),
            ("sent again", &mut self.again),
            ("resets", &mut self.resets),
            ("timed out", &mut self.timeouts),
            ("partitions", &mut self.partitions),
            ("crashes", &mut self.crashes),
            ("drains", &mut self.drains),
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
