//! Ticks at equal distances.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::sleep::after;
use super::{Instant, Sleep, sleep_until};

/// What an interval does after a tick that came late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedTickBehavior {
    /// Makes up for all missed ticks at once.
    #[default]
    Burst,
    /// Counts the period from the late tick.
    Delay,
    /// Leaves missed ticks out, so that ticks stay multiples of the period.
    Skip,
}

impl MissedTickBehavior {
    fn next(self, due: Instant, now: Instant, period: Duration) -> Instant {
        match self {
            Self::Burst => after(due, period),
            Self::Delay => after(now, period),
            Self::Skip => {
                let late = now.saturating_duration_since(due).as_nanos() % period.as_nanos();
                let late = Duration::from_nanos(u64::try_from(late).unwrap_or(u64::MAX));
                after(now, period.saturating_sub(late))
            }
        }
    }
}

/// Ticks at equal distances.
#[derive(Debug)]
pub struct Interval {
    next: Pin<Box<Sleep>>,
    period: Duration,
    missed: MissedTickBehavior,
}

/// Ticks each `period`, the first at once.
///
/// # Panics
///
/// If `period` is zero.
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    interval_at(Instant::now(), period)
}

/// Ticks each `period`, the first at `start`.
///
/// # Panics
///
/// If `period` is zero.
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    assert!(!period.is_zero(), "`period` must be non-zero.");
    let next = Box::pin(sleep_until(start));
    Interval { next, period, missed: MissedTickBehavior::default() }
}

/// A tick that is late by less than this counts as punctual.
const PUNCTUAL: Duration = Duration::from_millis(5);

impl Interval {
    /// Waits for the next tick, and returns the time that it was due.
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|context| self.poll_tick(context)).await
    }

    /// Like [`tick`](Self::tick), for a future of one's own.
    pub fn poll_tick(&mut self, context: &mut Context<'_>) -> Poll<Instant> {
        ready!(self.next.as_mut().poll(context));
        let (due, now) = (self.next.deadline(), Instant::now());
        let next = match now > due + PUNCTUAL {
            true => self.missed.next(due, now, self.period),
            false => after(due, self.period),
        };
        self.next.as_mut().reset(next);
        Poll::Ready(due)
    }

    /// Has the next tick come one period from now.
    pub fn reset(&mut self) {
        self.reset_after(self.period);
    }

    /// Has the next tick come at once.
    pub fn reset_immediately(&mut self) {
        self.reset_at(Instant::now());
    }

    /// Has the next tick come `duration` from now.
    pub fn reset_after(&mut self, duration: Duration) {
        self.reset_at(after(Instant::now(), duration));
    }

    /// Has the next tick come at `deadline`.
    pub fn reset_at(&mut self, deadline: Instant) {
        self.next.as_mut().reset(deadline);
    }

    /// What happens after a tick that came late.
    #[must_use]
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.missed
    }

    /// Sets what happens after a tick that came late.
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.missed = behavior;
    }

    /// The distance of two ticks.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }
}
