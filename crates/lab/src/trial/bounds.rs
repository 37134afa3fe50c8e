//! The limits of one candidate, and what speaks against it so far. Only counts and times come in,
//! so `simulated.rs` can ask about servers that do not exist.

use std::time::{Duration, Instant};

use duality_load::Slo;

use super::Limits;
use super::event::Reason;
use super::queue::{STUCK, Waited, Watch};
use super::totals::Totals;
use crate::judge::guard::Guard;

/// Requests that fail end by so much later than those that do not.
const LATER: Duration = Duration::from_secs(2);

/// The limits of one candidate.
pub(super) struct Bounds {
    slo: Option<Slo>,
    max_memory: Option<u64>,
    errors: Guard,
    late: Option<Guard>,
    queue: Watch,
    looked: Instant,
    /// Connections that waited in the queue for longer than the limit.
    waited_late: u64,
}

impl Bounds {
    /// A candidate of which nothing is known yet.
    pub(super) fn new(limits: &Limits, now: Instant) -> Self {
        let Limits { slo, max_errors, max_memory } = *limits;
        Self {
            slo,
            max_memory,
            errors: Guard::new(max_errors, LATER),
            late: slo.map(|slo| Guard::new(1.0 - slo.percentile.share(), LATER.max(2 * slo.limit))),
            queue: Watch::new(now),
            looked: now,
            waited_late: 0,
        }
    }

    /// Whether it must be known how many connections are accepted: the queue is not empty for a
    /// while.
    pub(super) fn tick(&mut self, now: Instant, has_connections: bool) -> bool {
        self.queue.tick(now, has_connections)
    }

    /// The servers have accepted so many connections until now. `length` is the length of the
    /// queue.
    pub(super) fn accepted(
        &mut self,
        now: Instant,
        accepted: u64,
        length: impl FnOnce() -> Option<u64>,
    ) {
        self.queue.accepted(now, accepted, length);
    }

    /// The limit that the candidate exceeds, if there is one. `before` has the counts of the last
    /// look, `all` those of this one, and `length` is the length of the queue.
    pub(super) fn look(
        &mut self,
        now: Instant,
        before: &Totals,
        all: &Totals,
        length: impl FnOnce() -> Option<u64>,
    ) -> Option<Reason> {
        let elapsed = now.saturating_duration_since(std::mem::replace(&mut self.looked, now));
        let waited = self.queue.look(elapsed, all.accepted.saturating_sub(before.accepted), length);
        if waited.time >= STUCK {
            return Some(Reason::Stuck { seconds: waited.time.as_secs_f64() });
        }
        self.too_many_errors(now, before, all)
            .or_else(|| self.too_slow(now, before, all, waited))
            .or_else(|| self.too_large(all))
    }

    fn too_many_errors(&mut self, now: Instant, before: &Totals, all: &Totals) -> Option<Reason> {
        let wrong = |totals: &Totals| totals.failed + totals.refused;
        let new = wrong(all).saturating_sub(wrong(before));
        let requests = all.answered.saturating_sub(before.answered) + new;
        let share = || wrong(all) as f64 / (all.answered + wrong(all)) as f64;
        self.errors
            .is_exceeded(now, new, requests)
            .then(|| Reason::Errors { share: share(), limit: self.errors.limit() })
    }

    fn too_slow(
        &mut self,
        now: Instant,
        before: &Totals,
        all: &Totals,
        waited: Waited,
    ) -> Option<Reason> {
        let (slo, guard) = (self.slo?, self.late.as_mut()?);
        let mut late = all.late.saturating_sub(before.late);
        if waited.time > slo.limit {
            // A connection that waited has one request at least.
            let more = waited.connections.saturating_sub(late);
            self.waited_late += more;
            late += more;
        }
        let requests = all.answered.saturating_sub(before.answered).max(late);
        let share = ((all.late + self.waited_late) as f64 / all.answered.max(1) as f64).min(1.0);
        guard.is_exceeded(now, late, requests).then(|| Reason::Slow {
            share,
            percentile: slo.percentile.name().to_owned(),
            limit_us: slo.limit.as_secs_f64() * 1e6,
        })
    }

    fn too_large(&self, all: &Totals) -> Option<Reason> {
        let (bytes, limit) = (all.peak_bytes, self.max_memory?);
        (bytes > limit).then_some(Reason::Memory { bytes, limit })
    }
}
