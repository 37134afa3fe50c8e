//! Tukey's studentized range: how far apart the best and the worst of several equal means lie by
//! chance.
//!
//! The distribution is that of `(max − min) / s` for k independent standard normal values. `s²` is
//! an independent estimate of their variance with ν degrees of freedom. R calls it `ptukey`. This
//! module computes it by the trapezoidal rule, which is nearly exact for integrands that decay like
//! these (Trefethen & Weideman 2014). For two values, the range is √2 times the size of Student's
//! t.

use std::collections::BTreeMap;
use std::f64::consts::{PI, SQRT_2};
use std::sync::{LazyLock, Mutex, PoisonError};

/// Computed quantiles, by the bits of alpha, the count and the degrees of freedom. A quantile takes
/// up to half a second to compute, and a report needs the same few again and again.
static FOUND: Mutex<BTreeMap<(u64, usize, usize), f64>> = Mutex::new(BTreeMap::new());

/// The quantile that the range of `count` values exceeds with probability `alpha`, with `freedom`
/// degrees of freedom.
///
/// # Panics
///
/// With fewer than two values, without a degree of freedom, or with an `alpha` outside of 0 to 1.
pub fn critical(alpha: f64, count: usize, freedom: usize) -> f64 {
    assert!(count >= 2 && freedom >= 1 && alpha > 0.0 && alpha < 1.0, "no such quantile");
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    let exceeds = |quantile| exceeds(quantile, count, freedom);
    *found.entry((alpha.to_bits(), count, freedom)).or_insert_with(|| exceeded_with(alpha, exceeds))
}

/// The quantile that is exceeded with probability `alpha`. The curve `exceeds` falls from 1 at 0.
/// Its logarithm bends little, so a line through two points leads close to the root. If one end of
/// the interval stays, half of its height counts (the Illinois rule, Dowell & Jarratt 1971).
pub(super) fn exceeded_with(alpha: f64, exceeds: impl Fn(f64) -> f64) -> f64 {
    let above = |quantile| (exceeds(quantile) / alpha).max(f64::MIN_POSITIVE).ln();
    let (mut low, mut high) = ((0.0, -alpha.ln()), (1.0, above(1.0)));
    while high.1 > 0.0 {
        (low, high) = (high, (2.0 * high.0, above(2.0 * high.0)));
    }
    let mut was_low = None;
    while high.0 - low.0 > 1e-6 * high.0 {
        let next = low.0 + (high.0 - low.0) * low.1 / (low.1 - high.1);
        let next = (next, above(next));
        let is_low = next.1 > 0.0;
        let (end, other) = if is_low { (&mut low, &mut high) } else { (&mut high, &mut low) };
        *end = next;
        if was_low == Some(is_low) {
            other.1 /= 2.0;
        }
        was_low = Some(is_low);
        if next.1 == 0.0 {
            break;
        }
    }
    high.0
}

/// The two-sided quantile of Student's distribution, which `|t|` exceeds with probability `alpha`.
///
/// # Panics
///
/// In the same cases as [`critical`].
pub fn student(alpha: f64, freedom: usize) -> f64 {
    critical(alpha, 2, freedom) / SQRT_2
}

/// The probability that the range exceeds `quantile`.
fn exceeds(quantile: f64, count: usize, freedom: usize) -> f64 {
    over_deviations(freedom, |s| range_exceeds(quantile * s, count))
}

/// The mean of `of` over the estimates `s` of a standard deviation of 1 with `freedom` degrees of
/// freedom.
pub(super) fn over_deviations(freedom: usize, of: impl Fn(f64) -> f64) -> f64 {
    /// Where the density is e to the power of minus this, it is negligible.
    const REACH: f64 = 32.0;
    const STEPS: u32 = 128;
    let degrees = freedom as f64;
    // The density of s is that of the root of χ²/ν. In terms of its logarithm it is smooth, and
    // decays fast on both sides, however few degrees of freedom there are.
    let scale = 0.5 * degrees * degrees.ln() - libm::lgamma(0.5 * degrees)
        + (1.0 - 0.5 * degrees) * 2_f64.ln();
    let density = |log: f64| (scale + degrees * (log - 0.5 * (2.0 * log).exp())).exp();
    let few = REACH / degrees;
    let (from, to) = (-few - few.sqrt(), 0.5 * (1.0 + 2.0 * few + 2.0 * few.sqrt()).ln());
    let step = (to - from) / f64::from(STEPS);
    let at = |place: u32| {
        let log = from + step * f64::from(place);
        density(log) * of(log.exp())
    };
    (0..=STEPS).map(at).sum::<f64>() * step
}

/// The points of a sum over standard normal values. Each point has its density times the step, and
/// its probability of not being exceeded.
pub(super) static PLACES: LazyLock<Vec<(f64, f64, f64)>> = LazyLock::new(|| {
    let place = |place: i32| {
        let z = STEP * f64::from(place);
        (z, STEP * (-0.5 * z * z).exp() / (2.0 * PI).sqrt(), normal(z))
    };
    (-REACH..=REACH).map(place).collect()
});

/// The distance of the points, and their number on each side of zero.
const STEP: f64 = 0.1;
const REACH: i32 = 60;

/// The probability that a standard normal value is at most `z`.
pub(super) fn normal(z: f64) -> f64 {
    0.5 * libm::erfc(-z / SQRT_2)
}

/// The probability that the range of `count` standard normal values exceeds `width`.
fn range_exceeds(width: f64, count: usize) -> f64 {
    if width > 2.0 * STEP * f64::from(REACH) {
        return 0.0;
    }
    let others = i32::try_from(count - 1).unwrap_or(i32::MAX);
    let mut sum = 0.0;
    // The largest value lies at z, and all others within the width beneath it.
    for &(z, density, below) in PLACES.iter() {
        sum += density * (below - normal(z - width)).powi(others);
    }
    (1.0 - count as f64 * sum).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the tables of Harter (1960), and R's `qtukey`.
    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (alpha, count, freedom, expected) in [
            (0.05, 2, 10, 3.151),
            (0.05, 3, 10, 3.877),
            (0.05, 10, 20, 5.008),
            (0.01, 10, 20, 6.085),
            (0.01, 5, 5, 8.421),
            (0.05, 3, 2, 8.331),
            (0.05, 2, 1, 17.97),
            (0.05, 10, 120, 4.560),
        ] {
            let found = critical(alpha, count, freedom);
            assert!(
                (found / expected - 1.0).abs() < 6e-4,
                "{count} {freedom}: {found}, not {expected}"
            );
        }
    }

    #[test]
    fn of_two_it_is_student() {
        for (freedom, expected) in [(1, 12.706), (4, 2.776), (30, 2.042), (1000, 1.962)] {
            let found = student(0.05, freedom);
            assert!((found / expected - 1.0).abs() < 6e-4, "{freedom}: {found}, not {expected}");
        }
    }
}
