//! Servers of which nothing exists but their counts, and the load on them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::super::totals::Totals;
use crate::random::SplitMix64;

/// What a server does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Conduct {
    /// It answers each request in its time.
    Good,
    /// It stands still again and again.
    Pauses { every: u64, length: u64 },
    /// It accepts nothing from a moment on.
    Deaf { from: u64 },
    /// It holds this many connections, which never end.
    Full { most: usize },
    /// It reads requests from a moment on, and answers none.
    Mute { from: u64 },
    /// It fails this share of its requests, after some time.
    Fails { share: f64, after: u64 },
    /// It answers this share of its requests later than the limit.
    Late { share: f64, by: u64 },
}

/// The load, which candidates get in turns.
#[derive(Debug)]
pub(super) struct Load {
    /// Connections in a thousand seconds.
    pub(super) rate: u64,
    /// Connections that come at once.
    pub(super) burst: u64,
    /// Requests of a connection, one after the other.
    pub(super) requests: u64,
    /// The share of connections without a request.
    pub(super) probes: f64,
    /// The length of a turn in milliseconds.
    pub(super) slot: u64,
}

pub(super) struct Seeded(pub(super) SplitMix64);

impl Seeded {
    pub(super) fn from(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.below(high - low + 1)
    }

    /// Small values as often as large ones.
    pub(super) fn scale(&mut self, low: u64, high: u64) -> u64 {
        let share = self.0.below(1 << 20) as f64 / f64::from(1 << 20);
        (low as f64 * (high as f64 / low as f64).powf(share)).round() as u64
    }

    pub(super) fn is(&mut self, share: f64) -> bool {
        (self.0.below(1 << 30) as f64) < share * f64::from(1 << 30)
    }

    pub(super) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.0.below(all.len() as u64) as usize]
    }
}

/// A connection that is being served.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reply {
    at: u64,
    /// When the request was read.
    since: u64,
    /// Requests of the connection after this one.
    left: u64,
    fails: bool,
}

pub(super) struct Server {
    pub(super) conduct: Conduct,
    /// The time of a request in milliseconds.
    pub(super) service: u64,
    pub(super) queue: VecDeque<u64>,
    pub(super) replies: BinaryHeap<Reverse<Reply>>,
    pub(super) held: usize,
    pub(super) totals: Totals,
    /// Since when no connection was accepted, although some wait.
    pub(super) standing: Option<u64>,
}

impl Server {
    pub(super) fn is_still(&self, now: u64) -> bool {
        matches!(self.conduct, Conduct::Pauses { every, length } if now % every < length)
    }

    pub(super) fn accepts(&self, now: u64) -> bool {
        match self.conduct {
            Conduct::Deaf { from } => now < from,
            Conduct::Full { most } => self.held < most,
            _ => true,
        }
    }

    /// A millisecond.
    pub(super) fn step(&mut self, now: u64, load: &Load, slo_ms: Option<u64>, seeded: &mut Seeded) {
        if self.is_still(now) {
            if !self.queue.is_empty() {
                self.standing.get_or_insert(now);
            }
            return;
        }
        while !self.queue.is_empty() && self.accepts(now) {
            self.queue.pop_front();
            self.standing = None;
            self.held += 1;
            self.totals.accepted += 1;
            if !seeded.is(load.probes) {
                self.read(now, load.requests - 1, slo_ms, seeded);
            } else if !matches!(self.conduct, Conduct::Full { .. }) {
                self.held -= 1;
            }
        }
        if self.queue.is_empty() {
            self.standing = None;
        } else {
            self.standing.get_or_insert(now);
        }
        while self.replies.peek().is_some_and(|reply| reply.0.at <= now) {
            let Some(Reverse(reply)) = self.replies.pop() else { break };
            if matches!(self.conduct, Conduct::Mute { from } if now >= from) {
                continue;
            }
            match self.conduct {
                Conduct::Fails { .. } if reply.fails => self.totals.failed += 1,
                _ => {
                    self.totals.answered += 1;
                    self.totals.progress.replies += 1;
                    if slo_ms.is_some_and(|limit| now - reply.since > limit) {
                        self.totals.late += 1;
                    }
                }
            }
            if reply.left > 0 {
                self.read(now, reply.left - 1, slo_ms, seeded);
            } else if !matches!(self.conduct, Conduct::Full { .. }) {
                self.held -= 1;
            }
        }
    }

    pub(super) fn length(&self) -> u64 {
        self.queue.len() as u64
    }

    pub(super) fn read(&mut self, now: u64, left: u64, slo_ms: Option<u64>, seeded: &mut Seeded) {
        self.totals.progress.begun += 1;
        let (more, fails) = match self.conduct {
            Conduct::Late { share, by } if seeded.is(share) => (slo_ms.unwrap_or(0) + by, false),
            Conduct::Fails { share, after } if seeded.is(share) => (after, true),
            _ => (0, false),
        };
        self.replies.push(Reverse(Reply {
            at: now + self.service + more,
            since: now,
            left,
            fails,
        }));
    }
}
