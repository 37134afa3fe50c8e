//! The time that measuring may take: until a moment, or until the user interrupts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// When to stop.
#[derive(Clone, Copy, Debug)]
pub struct Clock<'a> {
    interrupted: &'a AtomicBool,
    /// The end of the time. `None` without a limit.
    until: Option<Instant>,
}

impl<'a> Clock<'a> {
    /// A clock that starts now and stops after `budget`, or when `interrupted` is set.
    pub fn new(interrupted: &'a AtomicBool, budget: Option<Duration>) -> Self {
        Self { interrupted, until: budget.and_then(|budget| Instant::now().checked_add(budget)) }
    }

    /// The clock of the next part of the work. The parts share the remaining time in proportion to
    /// their estimated lengths. `rest` is the length of this part and of all that follow, in the
    /// same unit.
    ///
    /// A part that took longer than estimated leaves less time to all later parts, in proportion.
    /// So each later part has some time, however slow the machine is.
    #[must_use]
    pub fn share(self, part: f64, rest: f64) -> Self {
        let Some(left) = self.left().filter(|_| part < rest) else { return self };
        let share = left.mul_f64(part / rest);
        Self { until: Instant::now().checked_add(share), ..self }
    }

    /// A clock that stops with this one, or after `length` if this one has no limit.
    #[must_use]
    pub(super) fn within(self, length: Duration) -> Self {
        Self { until: self.until.or_else(|| Instant::now().checked_add(length)), ..self }
    }

    /// The time that is left. `None` without a budget.
    pub fn left(self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// Whether the time is up, or the user has interrupted.
    pub fn is_over(self) -> bool {
        self.is_interrupted() || self.left().is_some_and(|left| left.is_zero())
    }

    /// Whether the user has interrupted.
    pub fn is_interrupted(self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// The flag that the user sets.
    pub fn interrupted(self) -> &'a AtomicBool {
        self.interrupted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    /// The hours that are left, to a hundredth. The test itself takes a negligible time.
    fn hours(clock: Clock<'_>) -> f64 {
        let hours = clock.left().unwrap().as_secs_f64() / HOUR.as_secs_f64();
        (hours * 100.0).round() / 100.0
    }

    #[test]
    fn parts_share_what_is_left_by_their_length() {
        let interrupted = AtomicBool::new(false);
        let clock = Clock::new(&interrupted, Some(6 * HOUR));
        assert_eq!(hours(clock.share(1.0, 3.0)), 2.0);
        // The first part took four hours instead of two.
        let late = Clock::new(&interrupted, Some(2 * HOUR));
        assert_eq!(hours(late.share(1.0, 2.0)), 1.0);
        assert_eq!(hours(late.share(1.0, 1.0)), 2.0);
        assert_eq!(hours(late.share(0.0, 0.0)), 2.0);
        assert!(late.share(0.0, 1.0).is_over());
    }

    #[test]
    fn without_a_budget_only_the_user_ends_it() {
        let interrupted = AtomicBool::new(false);
        let clock = Clock::new(&interrupted, None).share(1.0, 2.0);
        assert!(clock.left().is_none() && !clock.is_over());
        interrupted.store(true, Ordering::Relaxed);
        assert!(clock.is_over());
        assert!(Clock::new(&AtomicBool::new(false), Some(Duration::ZERO)).is_over());
    }
}
