//! The clock of a host, beside the time of the simulation.

use super::EPOCH;

/// How wrong the clock of a host is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    /// How far its time of day is ahead, in nanoseconds.
    pub(super) skew: i64,
    /// How much faster it goes, in millionths.
    pub(super) drift: i64,
}

/// A million.
const MILLION: i128 = 1_000_000;

impl Clock {
    /// What this clock says at a time of the simulation.
    pub(crate) fn at(self, time: u64) -> u64 {
        (i128::from(time) * (MILLION + i128::from(self.drift)) / MILLION) as u64
    }

    /// The first time of the simulation at which this clock says `own`.
    pub(crate) fn when(self, own: u64) -> u64 {
        let speed = MILLION + i128::from(self.drift);
        ((i128::from(own) * MILLION + speed - 1) / speed) as u64
    }

    /// What this clock takes for the time since 1970, at a time of the simulation.
    pub(crate) fn time_of_day(self, time: u64) -> u64 {
        (EPOCH + self.at(time)).saturating_add_signed(self.skew)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_due_when_it_says_so_and_not_before() {
        for drift in [-500, -1, 0, 1, 500] {
            let clock = Clock { skew: -7, drift };
            for own in [1, 999_999, 1_000_000, 123_456_789_012_345] {
                let when = clock.when(own);
                assert!(clock.at(when) >= own && clock.at(when - 1) < own, "{drift}: {own}");
            }
            assert_eq!(clock.time_of_day(0), EPOCH - 7);
        }
        assert_eq!(Clock { skew: 0, drift: 500 }.at(1_000_000), 1_000_500);
    }
}
