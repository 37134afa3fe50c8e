//! The search for the highest rate that meets a condition, as a pure function of the probes'
//! results.
//!
//! ```text
//!   rate    first ──×2──▶ met ──×2──▶ met ──×2──▶ missed       bracket: double, or halve
//!                                      │   ◀─ met ─│           bisect, in the middle of the ratio
//!                                          │ missed
//!                                         ▲ until the two are 3 % apart: a long window confirms
//! ```
//!
//! A measurement is noisy, in both directions. A rate that is missed by bad luck would hide all
//! rates above it. So a miss in a short window counts only if it is repeated. The long window
//! detects a rate that was met by good luck. Then the search goes down until a rate is met in a
//! long window too. From that rate it goes up again, in long windows only.

/// The description of the next probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    /// A short probe, one of many that narrow the search.
    Short,
    /// A long probe, on which the result may rest.
    Long,
}

/// The bounds of the search. All rates are in requests a second, and more than 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    /// The first rate to try.
    pub(super) first: f64,
    /// The lowest and the highest rate to try.
    pub(super) lowest: f64,
    pub(super) highest: f64,
    /// A missed rate and a met rate count as equal if their ratio is below this. The ratio is more
    /// than 1.
    pub(super) precision: f64,
}

/// The highest rate at which `met` is true in a long window. `None` if there is none.
///
/// # Errors
///
/// The first error of `met`, which ends the search.
pub(super) fn highest<E>(
    range: Range,
    mut met: impl FnMut(f64, Length) -> Result<bool, E>,
) -> Result<Option<f64>, E> {
    let mut met_once_of_two = |rate| Ok(met(rate, Length::Short)? || met(rate, Length::Short)?);
    let Some((good, bad)) = bracket(range, &mut met_once_of_two)? else { return Ok(None) };
    let good = bisect(good, bad, range.precision, met_once_of_two)?;
    confirm(good, range, |rate| met(rate, Length::Long))
}

/// A met rate, and a higher missed one. `None` if even the lowest rate is missed. The same rate
/// twice if even the highest is met.
fn bracket<E>(
    range: Range,
    mut met: impl FnMut(f64) -> Result<bool, E>,
) -> Result<Option<(f64, f64)>, E> {
    let mut rate = range.first;
    if met(rate)? {
        while rate < range.highest {
            let higher = (2.0 * rate).min(range.highest);
            if !met(higher)? {
                return Ok(Some((rate, higher)));
            }
            rate = higher;
        }
        return Ok(Some((rate, rate)));
    }
    while rate > range.lowest {
        let lower = (rate / 2.0).max(range.lowest);
        if met(lower)? {
            return Ok(Some((lower, rate)));
        }
        rate = lower;
    }
    Ok(None)
}

/// The highest rate between `good` and `bad` that is met.
fn bisect<E>(
    mut good: f64,
    mut bad: f64,
    precision: f64,
    mut met: impl FnMut(f64) -> Result<bool, E>,
) -> Result<f64, E> {
    while bad / good > precision {
        let middle = (good * bad).sqrt();
        if met(middle)? {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Ok(good)
}

/// The highest rate up to `rate` that is met.
fn confirm<E>(
    mut rate: f64,
    range: Range,
    mut met: impl FnMut(f64) -> Result<bool, E>,
) -> Result<Option<f64>, E> {
    let mut missed = None;
    let mut step = range.precision;
    while !met(rate)? {
        if rate <= range.lowest {
            return Ok(None);
        }
        missed = Some(rate);
        rate = (rate / step).max(range.lowest);
        step *= step;
    }
    match missed {
        None => Ok(Some(rate)),
        Some(missed) => bisect(rate, missed, range.precision, met).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    const RANGE: Range = Range { first: 1_000.0, lowest: 10.0, highest: 1e6, precision: 1.03 };

    /// The result if `met` decides, and the number of probes.
    fn search(range: Range, mut met: impl FnMut(f64, Length) -> bool) -> (Option<f64>, usize) {
        let mut probes = 0;
        let found = highest(range, |rate, length| {
            assert!((range.lowest..=range.highest).contains(&rate), "{rate}");
            probes += 1;
            Ok::<_, Infallible>(met(rate, length))
        });
        (found.unwrap(), probes)
    }

    proptest! {
        #[test]
        fn a_sharp_limit_is_found(limit in 10.0..1e6_f64, first in 10.0..1e6_f64) {
            let (found, probes) = search(Range { first, ..RANGE }, |rate, _| rate <= limit);
            let found = found.unwrap();
            prop_assert!(found <= limit && limit / found <= RANGE.precision, "{}", found);
            prop_assert!(probes <= 50, "{}", probes);
        }

        #[test]
        fn a_miss_by_bad_luck_changes_nothing(limit in 10.0..1e6_f64, luck: Vec<bool>) {
            let mut luck = luck.into_iter();
            let mut unlucky = false;
            let (found, _) = search(RANGE, |rate, length| {
                // Bad luck never occurs twice in a row, and never in a long window.
                unlucky = length == Length::Short && !unlucky && luck.next().unwrap_or_default();
                rate <= limit && !unlucky
            });
            let found = found.unwrap();
            prop_assert!(found <= limit && limit / found <= RANGE.precision, "{}", found);
        }

        #[test]
        fn good_luck_in_short_windows_is_found_out(
            limit in 10.0..1e6_f64,
            optimism in 1.0..4.0_f64,
        ) {
            let (found, probes) = search(RANGE, |rate, length| match length {
                Length::Short => rate <= limit * optimism,
                Length::Long => rate <= limit,
            });
            let found = found.unwrap();
            prop_assert!(found <= limit && limit / found <= RANGE.precision, "{}", found);
            prop_assert!(probes <= 60, "{}", probes);
        }

        #[test]
        fn the_result_was_met_in_a_long_window(answers: Vec<bool>) {
            let mut answers = answers.into_iter();
            let mut confirmed = Vec::new();
            let (found, probes) = search(RANGE, |rate, length| {
                let met = answers.next().unwrap_or_default();
                if met && length == Length::Long {
                    confirmed.push(rate);
                }
                met
            });
            prop_assert!(found.is_none_or(|found| confirmed.contains(&found)));
            prop_assert!(probes <= 80, "{}", probes);
        }
    }

    #[test]
    fn limits_outside_the_range_are_its_edges() {
        assert_eq!(search(RANGE, |rate, _| rate <= 9.9).0, None);
        assert_eq!(search(RANGE, |_, _| true).0, Some(1e6));
        assert_eq!(search(RANGE, |rate, _| rate <= 10.0).0, Some(10.0));
        // The rate is met in short windows, but never in a long one.
        assert_eq!(search(RANGE, |_, length| length == Length::Short).0, None);
    }

    #[test]
    fn an_error_ends_the_search() {
        let mut probes = 0;
        let found = highest(RANGE, |_, _| {
            probes += 1;
            if probes == 3 { Err("gone") } else { Ok(true) }
        });
        assert_eq!((found, probes), (Err("gone"), 3));
    }
}
