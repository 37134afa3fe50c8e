//! Ticks at equal distances.

use super::{Duration, Instant, now, sleep_until};

/// Ticks: the first at once, each further one `period` after the tick before.
///
/// A task that comes late has its tick at once. Ticks that it has missed entirely are left out, so
/// that the ticks stay multiples of the period.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::block_on;
/// use duality::time::{Duration, interval};
///
/// block_on(async {
///     let mut ticks = interval(Duration::from_millis(1));
///     let first = ticks.tick().await;
///     let second = ticks.tick().await;
///     assert!(second - first >= Duration::from_millis(1));
/// });
/// ```
///
/// # Panics
///
/// When `period` is zero.
#[must_use]
pub fn interval(period: Duration) -> Interval {
    assert!(!period.is_zero(), "the ticks of an interval need a distance");
    Interval { next: now(), period }
}

/// The ticks of [`interval()`].
#[derive(Debug)]
pub struct Interval {
    next: Instant,
    period: Duration,
}

impl Interval {
    /// Waits for the next tick, and returns the time that it was due. A wait that is given up
    /// loses no tick.
    #[track_caller]
    pub fn tick(&mut self) -> impl Future<Output = Instant> + Send + '_ {
        let due = sleep_until(self.next);
        async {
            due.await;
            let tick = self.next;
            self.next = after(tick, self.period, now());
            tick
        }
    }

    /// The distance of two ticks.
    #[must_use]
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// Has the next tick come one period from now.
    pub fn reset(&mut self) {
        self.next = now() + self.period.min(CENTURY);
    }
}

/// The first tick after `tick` with a successor that has not come by `now`.
fn after(tick: Instant, period: Duration, now: Instant) -> Instant {
    let passed = now.saturating_duration_since(tick).as_nanos() / period.as_nanos();
    let periods = u32::try_from(passed.max(1)).unwrap_or(u32::MAX);
    // A tick beyond what the clock can tell: a century from now.
    let distance = period.checked_mul(periods).unwrap_or(CENTURY).min(CENTURY);
    tick + distance
}

const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_ticks_are_left_out() {
        let begin = Instant::now();
        let millis = |count| begin + Duration::from_millis(count);
        for (now, next) in [(0, 10), (9, 10), (10, 10), (19, 10), (20, 20), (25, 20), (1001, 1000)]
        {
            let next_tick = after(begin, Duration::from_millis(10), millis(now));
            assert_eq!(next_tick, millis(next), "{now} ms");
        }
        assert_eq!(after(begin, Duration::MAX, begin), begin + CENTURY);
        let an_hour = begin + Duration::from_secs(3600);
        assert!(after(begin, Duration::from_nanos(1), an_hour) > begin);
    }
}
