//! Dunnett's comparisons with one control: how far the farthest of several equal means lies from
//! that of the control by chance (Dunnett 1955 and 1964).
//!
//! The quantile is two-sided. The quantile is that of the largest `|t|` of k differences from one
//! mean. Every mean has the same number of values, so all differences have the same correlation of
//! 1/2. If some means have fewer values, the quantile is nearly the same. With one other mean, the
//! quantile is Student's.

use std::collections::BTreeMap;
use std::f64::consts::SQRT_2;
use std::sync::{Mutex, PoisonError};

use super::studentized_range::{PLACES, exceeded_with, normal, over_deviations};

/// Computed quantiles, by the bits of alpha, the count and the degrees of freedom.
static FOUND: Mutex<BTreeMap<(u64, usize, usize), f64>> = Mutex::new(BTreeMap::new());

/// The quantile of the largest of `others` absolute differences from the control, in standard
/// errors of a difference. Chance exceeds the quantile with probability `alpha`, with `freedom`
/// degrees of freedom.
///
/// # Panics
///
/// Without another mean, without a degree of freedom, or with an `alpha` outside of 0 to 1.
pub fn critical(alpha: f64, others: usize, freedom: usize) -> f64 {
    assert!(others >= 1 && freedom >= 1 && alpha > 0.0 && alpha < 1.0, "no such quantile");
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    let exceeds =
        |quantile: f64| over_deviations(freedom, |s| farthest(SQRT_2 * quantile * s, others));
    *found
        .entry((alpha.to_bits(), others, freedom))
        .or_insert_with(|| exceeded_with(alpha, exceeds))
}

/// The probability that one of `others` standard normal values is farther than `width` from the
/// control, another such value.
fn farthest(width: f64, others: usize) -> f64 {
    let others = i32::try_from(others).unwrap_or(i32::MAX);
    let within = PLACES
        .iter()
        .map(|&(z, density, _)| density * (normal(z + width) - normal(z - width)).powi(others));
    (1.0 - within.sum::<f64>()).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::super::studentized_range::{critical as range, student};
    use super::*;

    /// From the tables of Dunnett (1964), two-sided.
    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (alpha, others, freedom, expected) in [
            (0.05, 2, 10, 2.57),
            (0.05, 3, 10, 2.76),
            (0.05, 2, 20, 2.38),
            (0.05, 5, 20, 2.73),
            (0.05, 2, 100_000, 2.21),
            (0.05, 5, 100_000, 2.51),
            (0.05, 9, 100_000, 2.69),
        ] {
            let found = critical(alpha, others, freedom);
            assert!(
                (found - expected).abs() < 0.0101,
                "{others} {freedom}: {found}, not {expected}"
            );
        }
    }

    #[test]
    fn of_one_it_is_student_and_of_many_less_than_the_range_asks() {
        for freedom in [1, 4, 30] {
            let [one, t] = [critical(0.05, 1, freedom), student(0.05, freedom)];
            assert!((one / t - 1.0).abs() < 1e-3, "{freedom}: {one}, not {t}");
        }
        // Thirteen comparisons with one subject, instead of ninety-one among fourteen.
        let ratio = critical(0.025, 13, 500) / (range(0.025, 14, 500) / SQRT_2);
        assert!((0.80..0.90).contains(&ratio), "{ratio}");
    }
}
