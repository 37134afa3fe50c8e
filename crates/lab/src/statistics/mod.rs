//! Medians, their confidence, and straight lines: the arithmetic of a summary. docs/method.md has
//! the reasons.
//!
//! A value is a median, which one bad repeat does not move. The interval is Student's, of the mean
//! of the repeats' logarithms. The bootstrap assumes less, but is wrong for few repeats. Resamples
//! of three values have no other median than these three. So 74 of 100 "95 %" intervals hold the
//! true value. The example `coverage.rs` counts this coverage, and the coverage of the intervals
//! here.
//!
//! From [`BOOTSTRAP_FROM`] repeats on, the interval is the percentile bootstrap's (Efron &
//! Tibshirani 1993, chapter 13). The bootstrap's draws are seeded, so that the same results give
//! the same page. One repeat says nothing about the next. So a single repeat has no interval,
//! instead of an interval of width zero.

pub mod dunnett;
pub mod studentized_range;

use schemars::JsonSchema;
use serde::Serialize;

use crate::random::SplitMix64;

/// The number of repeats from which on the bootstrap makes the interval.
pub const BOOTSTRAP_FROM: usize = 20;

/// The number of resamples of the bootstrap.
pub const RESAMPLES: usize = 2000;

/// Repeats that vary by more than this are noisy, and a smaller change does not count.
pub const NOISE: f64 = 0.05;

/// Repeats farther from the median than this many standard deviations are outliers (Iglewicz &
/// Hoaglin 1993). The median absolute deviation estimates the standard deviation.
const OUTLYING: f64 = 3.5;

/// Fewer repeats have no outliers: of three repeats, the odd one cannot be told.
const OUTLIERS_FROM: usize = 5;

/// The confidence of an interval.
struct Confidence {
    /// The probability beyond either end.
    tail: f64,
    /// Quantiles of Student's distribution, for 1 to 30 degrees of freedom. More degrees use the
    /// last quantile, which is slightly too large for them.
    student: [f64; 30],
}

/// The confidence of a value.
const SURE: Confidence = Confidence {
    tail: 0.025,
    student: [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ],
};

/// The confidence of a ratio. An experiment makes dozens of comparisons, and at 95 % one in twenty
/// would be wrong.
const SURER: Confidence = Confidence {
    tail: 0.005,
    student: [
        63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012,
        2.977, 2.947, 2.921, 2.898, 2.878, 2.861, 2.845, 2.831, 2.819, 2.807, 2.797, 2.787, 2.779,
        2.771, 2.763, 2.756, 2.750,
    ],
};

/// The interval of the true value: with 95 % confidence for an [`estimate`], with 99 % for a
/// [`ratio`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// Whether `value` lies in the interval.
    pub fn contains(self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// A value and its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Estimate {
    /// The value itself.
    pub value: f64,
    /// The interval. `None` for a single repeat, or if a value is not above zero.
    pub interval: Option<Interval>,
}

/// The least-squares line through some points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StraightLine {
    /// The growth of y with each unit of x.
    pub slope: f64,
    /// The value of y where x is 0.
    pub intercept: f64,
    /// Pearson's correlation of x and y. `None` if all y are equal.
    pub correlation: Option<f64>,
}

/// The middle value, or the mean of the middle two if their number is even. `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// The median of `values` with its 95 % interval. `None` without values.
pub fn estimate(values: &[f64], seed: u64) -> Option<Estimate> {
    let value = median(values)?;
    let interval = if values.len() < BOOTSTRAP_FROM {
        student(&[(1.0, values)], &SURE)
    } else {
        let mut random = SplitMix64::new(seed);
        bootstrap(&SURE, || median(&resample(&mut random, values)))
    };
    Some(Estimate { value, interval: interval.map(|interval| interval.with(value)) })
}

/// The median of `above` over the median of `below`, with its 99 % interval. `None` if either has
/// no values, or the ratio is not a number. Two architectures differ only when the interval
/// excludes 1.
pub fn ratio(above: &[f64], below: &[f64], seed: u64) -> Option<Estimate> {
    let of = |above: &[f64], below: &[f64]| {
        Some(median(above)? / median(below)?).filter(|ratio| ratio.is_finite())
    };
    let value = of(above, below)?;
    let interval = if above.len().min(below.len()) < BOOTSTRAP_FROM {
        student(&[(1.0, above), (-1.0, below)], &SURER)
    } else {
        let mut random = SplitMix64::new(seed);
        bootstrap(&SURER, || of(&resample(&mut random, above), &resample(&mut random, below)))
    };
    Some(Estimate { value, interval: interval.map(|interval| interval.with(value)) })
}

/// A low quantile of `values`, for times that interference can only lengthen. The interval lies
/// between two of the values, by the binomial distribution. It has 95 % confidence for any
/// distribution. `None` without values. No interval if there are too few values.
pub fn low_quantile(values: &[f64], quantile: f64) -> Option<Estimate> {
    const MISSED: f64 = 0.05;
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    let value = *sorted.get((quantile * count.checked_sub(1)? as f64).round() as usize)?;
    // The probability that at most this many values lie below the quantile.
    let mut density = (1.0 - quantile).powi(i32::try_from(count).ok()?);
    let mut below = density;
    let mut high = 0;
    while below < 1.0 - MISSED && high < count {
        high += 1;
        density *= (count - high + 1) as f64 / high as f64 * quantile / (1.0 - quantile);
        below += density;
    }
    let interval = sorted.get(high).map(|&high| Interval { low: sorted[0], high });
    Some(Estimate { value, interval: interval.filter(|_| count > 2) })
}

/// The variation of `values`: the standard deviation of their logarithms, which is the coefficient
/// of variation if that is small. `None` for fewer than two values, or if a value is not above
/// zero.
pub fn variation(values: &[f64]) -> Option<f64> {
    logarithms(values).map(|logarithms| logarithms.variance.sqrt())
}

/// The smallest difference, as a share, that a comparison of subjects finds four times in five,
/// given `repeats` and their `variation`. `None` for fewer than two repeats.
///
/// The power of Student's test by Johnson and Welch's approximation (1940) of the noncentral
/// distribution.
pub fn detectable(variation: f64, repeats: usize) -> Option<f64> {
    /// The 80th percentile of the normal distribution.
    const FOUR_IN_FIVE: f64 = 0.8416;
    if repeats < 2 {
        return None;
    }
    let freedom = 2 * (repeats - 1);
    let (critical, degrees) = (SURER.critical(freedom), freedom as f64);
    let spread = (1.0 + critical * critical / (2.0 * degrees)).sqrt();
    let errors = critical * (1.0 - 1.0 / (4.0 * degrees)) + FOUR_IN_FIVE * spread;
    Some((errors * variation * (2.0 / repeats as f64).sqrt()).exp_m1())
}

/// The places of the outliers among `values`. An outlier is farther from the median than 3.5
/// standard deviations, estimated by the median absolute deviation, and by more than [`NOISE`].
/// Without the second condition, five values that happen to lie close together would make an
/// outlier of any other value.
pub fn outliers(values: &[f64]) -> Vec<usize> {
    /// The standard deviation of a normal distribution over its median absolute deviation.
    const NORMAL: f64 = 1.4826;
    let Some(middle) = median(values).filter(|_| values.len() >= OUTLIERS_FROM) else {
        return Vec::new();
    };
    let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    let deviation = NORMAL * median(&distances).unwrap_or(0.0);
    let far = |distance: f64| distance > (OUTLYING * deviation).max(NOISE * middle.abs());
    (0..values.len()).filter(|&place| far(distances[place])).collect()
}

/// The share by which the last third of `rates` is higher than the first third. Negative if the
/// last third is lower. `rates` has one rate for each part of a window. `None` for fewer than nine
/// rates, for a share within [`NOISE`], or if the 99 % interval of the ratio includes 1.
pub fn trend(rates: &[f64]) -> Option<f64> {
    let third = rates.len() / 3;
    if third < 3 {
        return None;
    }
    // This way, a part without any reply also has a logarithm.
    let at_least_one = |rates: &[f64]| rates.iter().map(|rate| rate.max(1.0)).collect::<Vec<_>>();
    let (first, last) = (&rates[..third], &rates[rates.len() - third..]);
    let change = ratio(&at_least_one(last), &at_least_one(first), 0)?;
    let share = change.value - 1.0;
    let is_trend = !change.interval?.contains(1.0) && share.abs() > NOISE;
    is_trend.then_some(share)
}

/// The least-squares line through `points`, each an x and a y. `None` with fewer than two different
/// x.
pub fn line(points: &[(f64, f64)]) -> Option<StraightLine> {
    let count = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in points {
        xx += (x - mean_x).powi(2);
        xy += (x - mean_x) * (y - mean_y);
        yy += (y - mean_y).powi(2);
    }
    (xx > 0.0).then(|| StraightLine {
        slope: xy / xx,
        intercept: mean_y - xy / xx * mean_x,
        correlation: (yy > 0.0).then(|| xy / (xx * yy).sqrt()),
    })
}

/// The statistics of a sample's logarithms.
struct Logarithms {
    mean: f64,
    variance: f64,
}

/// `None` for fewer than two values, or if a value has no logarithm.
fn logarithms(values: &[f64]) -> Option<Logarithms> {
    if values.len() < 2 || values.iter().any(|&value| value <= 0.0) {
        return None;
    }
    let count = values.len() as f64;
    let mean = values.iter().map(|value| value.ln()).sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value.ln() - mean).powi(2)).sum();
    Some(Logarithms { mean, variance: squares / (count - 1.0) })
}

/// The interval of a product of samples' geometric means, each to the power before it, by Student's
/// method, for one sample or two. If the two samples have one size, their variances may differ
/// (Posten 1978). Welch's test allows that for any sizes, but finds much less with three repeats.
/// For samples of different sizes, the smaller counts.
fn student(samples: &[(f64, &[f64])], confidence: &Confidence) -> Option<Interval> {
    let (mut mean, mut variance, mut freedom) = (0.0, 0.0, usize::MAX);
    for &(power, values) in samples {
        let sample = logarithms(values)?;
        mean += power * sample.mean;
        variance += sample.variance / values.len() as f64;
        freedom = freedom.min(samples.len() * (values.len() - 1));
    }
    let half = confidence.critical(freedom) * variance.sqrt();
    let interval = Interval { low: (mean - half).exp(), high: (mean + half).exp() };
    (interval.low.is_finite() && interval.high.is_finite()).then_some(interval)
}

impl Confidence {
    /// The number of standard errors with this many degrees of freedom, at least one.
    fn critical(&self, freedom: usize) -> f64 {
        self.student[freedom.clamp(1, self.student.len()) - 1]
    }
}

/// The number of standard errors that a 95 % interval reaches to either side, with this many
/// degrees of freedom.
pub(crate) fn student_95(freedom: usize) -> f64 {
    SURE.critical(freedom)
}

impl Interval {
    /// The interval, extended to include `value`: the median of repeats may lie beyond the interval
    /// of their mean.
    fn with(self, value: f64) -> Self {
        Self { low: self.low.min(value), high: self.high.max(value) }
    }
}

/// The interval of the middle of the values that `draw` returns.
fn bootstrap(confidence: &Confidence, mut draw: impl FnMut() -> Option<f64>) -> Option<Interval> {
    let mut drawn: Vec<f64> = (0..RESAMPLES).filter_map(|_| draw()).collect();
    drawn.sort_by(f64::total_cmp);
    let tail = (drawn.len() as f64 * confidence.tail) as usize;
    Some(Interval { low: *drawn.get(tail)?, high: *drawn.get(drawn.len() - 1 - tail)? })
}

/// A resample of `values` of the same size, drawn with replacement.
fn resample(random: &mut SplitMix64, values: &[f64]) -> Vec<f64> {
    values.iter().map(|_| values[random.below(values.len() as u64) as usize]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_quantile_does_not_mind_what_others_make_longer() {
        let mut random = SplitMix64::new(7);
        for _ in 0..100 {
            // Three batches in ten are longer by steal, up to a hundred times.
            let calm = sample(&mut random, 2.4, 20);
            let longer = |value: &f64| match random.below(10) {
                0..3 => value * (1.0 + random.below(100) as f64),
                _ => *value,
            };
            let batches: Vec<f64> = calm.iter().map(longer).collect();
            let found = low_quantile(&batches, 0.1).unwrap();
            assert!((2.2..2.6).contains(&found.value), "{batches:?}");
            let interval = found.interval.unwrap();
            assert!(interval.low <= found.value && found.value <= interval.high);
        }
        assert_eq!(low_quantile(&[], 0.1), None);
        assert_eq!(low_quantile(&[5.0], 0.1).unwrap().interval, None);
    }

    /// A sample of a normal distribution with this `mean`, and a standard deviation of 2 % of the
    /// mean.
    fn sample(random: &mut SplitMix64, mean: f64, count: usize) -> Vec<f64> {
        (0..count).map(|_| mean * (1.0 + 0.02 * random.normal())).collect()
    }

    /// The number of experiments out of 2,000 in which the ratio of two samples of such means is
    /// told from 1.
    fn told_apart(means: (f64, f64), repeats: usize) -> usize {
        let mut random = SplitMix64::new(repeats as u64);
        let differs = |_: &usize| {
            let above = sample(&mut random, means.0, repeats);
            let below = sample(&mut random, means.1, repeats);
            !ratio(&above, &below, 1).unwrap().interval.unwrap().contains(1.0)
        };
        (0..2000).filter(differs).count()
    }

    #[test]
    fn the_same_under_two_names_is_a_tie_in_all_but_one_of_a_hundred_experiments() {
        for repeats in [2, 3, 5, 10, 19] {
            let wrong = told_apart((100.0, 100.0), repeats);
            assert!(wrong <= 33, "{wrong} of 2000 with {repeats} repeats");
        }
    }

    #[test]
    fn a_difference_that_is_said_to_be_detectable_is_found_four_times_in_five() {
        for repeats in [3, 5, 10, 19] {
            let difference = detectable(0.02, repeats).unwrap();
            let found = told_apart((100.0 * (1.0 + difference), 100.0), repeats);
            assert!((1520..=1680).contains(&found), "{found} of 2000 with {repeats} repeats");
        }
    }

    #[test]
    fn an_interval_holds_the_true_value_nineteen_times_in_twenty() {
        // The bootstrap is slow.
        for (repeats, experiments) in [(2, 1000), (3, 1000), (5, 1000), (19, 1000), (40, 200)] {
            let mut random = SplitMix64::new(3);
            let holds = |_: &usize| {
                let values = sample(&mut random, 100.0, repeats);
                estimate(&values, 1).unwrap().interval.unwrap().contains(100.0)
            };
            let held = (0..experiments).filter(holds).count();
            assert!(
                100 * held >= 93 * experiments,
                "{held} of {experiments} with {repeats} repeats"
            );
        }
    }

    #[test]
    fn median_of_none_odd_and_even() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn one_repeat_has_no_interval() {
        assert_eq!(estimate(&[7.0], 1), Some(Estimate { value: 7.0, interval: None }));
        assert_eq!(ratio(&[6.0], &[3.0], 1), Some(Estimate { value: 2.0, interval: None }));
        assert_eq!(ratio(&[6.0], &[], 1), None);
        assert_eq!(ratio(&[6.0], &[0.0], 1), None);
        assert_eq!(estimate(&[0.0, 2.0, 1.0], 1).unwrap().interval, None);
    }

    #[test]
    fn intervals_hold_the_median_and_repeat() {
        let values = [10.0, 11.0, 12.0, 13.0, 50.0];
        let estimate_of = estimate(&values, 42).unwrap();
        assert!(estimate_of.interval.unwrap().contains(12.0));
        assert_eq!(estimate(&values, 42), Some(estimate_of));
        // The mean of the logarithms and its interval lie far below the median.
        let mut values = vec![100.0; 18];
        values.push(1e-9);
        assert!(estimate(&values, 1).unwrap().interval.unwrap().contains(100.0));
        let equal = estimate(&[3.0; 4], 1).unwrap().interval.unwrap();
        assert!(equal.contains(3.0) && equal.high - equal.low < 1e-9);
    }

    #[test]
    fn a_ratio_tells_different_from_level() {
        let excludes_one = |above: &[f64], below: &[f64]| {
            !ratio(above, below, 1).unwrap().interval.unwrap().contains(1.0)
        };
        assert!(excludes_one(&[200.0, 201.0, 202.0], &[100.0, 101.0, 102.0]));
        assert!(!excludes_one(&[100.0, 104.0, 99.0], &[101.0, 98.0, 103.0]));
    }

    /// The tables are read at once, and the function integrates. Of one degree of freedom, the
    /// function is off by 0.4 %.
    #[test]
    fn student_s_tables_are_those_of_the_function() {
        for Confidence { tail, student } in [SURE, SURER] {
            for freedom in (2..=student.len()).step_by(7) {
                let (table, found) =
                    (student[freedom - 1], studentized_range::student(2.0 * tail, freedom));
                assert!((found / table - 1.0).abs() < 6e-4, "{tail}, {freedom}: {found}, {table}");
            }
        }
    }

    /// Worked by hand: the logarithms have means of 2 and 1 thousandths, variances 1 and 1, and 4
    /// degrees of freedom.
    #[test]
    fn the_interval_of_a_ratio_is_students() {
        let powers = |exponents: [f64; 3]| exponents.map(|exponent| (exponent / 1000.0).exp());
        let found = ratio(&powers([1.0, 2.0, 3.0]), &powers([0.0, 1.0, 2.0]), 1).unwrap();
        let interval = found.interval.unwrap();
        let half = 4.604 * (2.0_f64 / 3.0).sqrt();
        assert!((interval.low.ln() * 1000.0 - (1.0 - half)).abs() < 1e-6);
        assert!((interval.high.ln() * 1000.0 - (1.0 + half)).abs() < 1e-6);
    }

    #[test]
    fn outliers_are_found_among_five_and_more() {
        assert_eq!(outliers(&[100.0, 101.0, 99.0, 100.0, 80.0]), [4]);
        assert!(outliers(&[100.0, 101.0, 80.0]).is_empty());
        // The value is far from the others, but within the usual variation of repeats.
        assert!(outliers(&[100.0, 100.0, 100.0, 100.0, 104.0]).is_empty());
        assert!(outliers(&[100.0, 80.0, 120.0, 90.0, 110.0]).is_empty());
    }

    #[test]
    fn variation_is_the_coefficient_of_variation() {
        assert!((variation(&[98.0, 100.0, 102.0]).unwrap() - 0.02).abs() < 1e-4);
        assert_eq!((variation(&[1.0]), variation(&[1.0, 0.0])), (None, None));
        assert_eq!((detectable(0.02, 0), detectable(0.02, 1)), (None, None));
    }

    #[test]
    fn a_trend_is_told_from_noise() {
        let falling: Vec<f64> = (0..20).map(|part| 1000.0 - 15.0 * f64::from(part)).collect();
        let share = trend(&falling).unwrap();
        assert!((-0.23..-0.18).contains(&share), "{share}");
        let mut random = SplitMix64::new(5);
        let steady = (0..200).filter(|_| trend(&sample(&mut random, 100.0, 20)).is_none()).count();
        assert_eq!(steady, 200);
        assert!(trend(&[50.0, 1.0, 100.0, 1.0, 90.0, 100.0, 2.0, 70.0, 100.0]).is_none());
        assert_eq!(trend(&falling[..8]), None);
        assert!(trend(&[9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 0.0, 0.0, 0.0]).unwrap() < -0.8);
    }

    #[test]
    fn lines() {
        let exact = line(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]).unwrap();
        assert_eq!(exact, StraightLine { slope: 2.0, intercept: 1.0, correlation: Some(1.0) });
        assert_eq!(line(&[(0.0, 4.0), (1.0, 4.0)]).unwrap().correlation, None);
        assert_eq!(line(&[(1.0, 4.0), (1.0, 5.0)]), None);
        assert_eq!(line(&[]), None);
    }
}
