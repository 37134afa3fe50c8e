//! Medians, how sure they are, and straight lines: the arithmetic beneath a summary.
//!
//! Intervals come from the percentile bootstrap (Efron & Tibshirani 1993, chapter 13): the repeats are
//! drawn anew, with replacement, [`RESAMPLES`] times, and the middle 95 % of the resulting medians is the
//! interval. It assumes no distribution. The draws are seeded, so the same results give the same page.
//! One repeat says nothing about the next, so there is no interval then, rather than one of width zero.

use serde::Serialize;

use crate::random::SplitMix64;

/// How often the repeats are drawn anew.
pub const RESAMPLES: usize = 2000;

/// Where the true value lies with 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// Whether `value` lies within.
    pub fn contains(self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// A value and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The value itself.
    pub value: f64,
    /// Its 95 % interval; none when there was only one repeat.
    pub interval: Option<Interval>,
}

/// The least-squares line through some points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// By how much y grows with each unit of x.
    pub slope: f64,
    /// y where x is 0.
    pub intercept: f64,
    /// Pearson's correlation of x and y; none when all y are equal.
    pub correlation: Option<f64>,
}

/// The middle value; the mean of the middle two when their number is even. None without values.
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

/// The median of `values` with its interval. None without values.
pub fn estimate(values: &[f64], seed: u64) -> Option<Estimate> {
    let mut random = SplitMix64::new(seed);
    let value = median(values)?;
    let interval = bootstrap(values.len(), || median(&resample(&mut random, values)));
    Some(Estimate { value, interval })
}

/// The median of `above` over the median of `below`, with its interval; none when either has no values or
/// the ratio is not a number. Two architectures differ only when the interval excludes 1.
pub fn ratio(above: &[f64], below: &[f64], seed: u64) -> Option<Estimate> {
    let mut random = SplitMix64::new(seed);
    let of = |above: &[f64], below: &[f64]| {
        Some(median(above)? / median(below)?).filter(|ratio| ratio.is_finite())
    };
    let value = of(above, below)?;
    let interval = bootstrap(above.len().min(below.len()), || {
        of(&resample(&mut random, above), &resample(&mut random, below))
    });
    Some(Estimate { value, interval })
}

/// The least-squares line through `points`, each an x and a y; none with fewer than two different x.
pub fn line(points: &[(f64, f64)]) -> Option<Line> {
    let count = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in points {
        xx += (x - mean_x).powi(2);
        xy += (x - mean_x) * (y - mean_y);
        yy += (y - mean_y).powi(2);
    }
    (xx > 0.0).then(|| Line {
        slope: xy / xx,
        intercept: mean_y - xy / xx * mean_x,
        correlation: (yy > 0.0).then(|| xy / (xx * yy).sqrt()),
    })
}

/// The middle 95 % of what `draw` gives; none for fewer than two repeats.
fn bootstrap(repeats: usize, mut draw: impl FnMut() -> Option<f64>) -> Option<Interval> {
    if repeats < 2 {
        return None;
    }
    let mut drawn: Vec<f64> = (0..RESAMPLES).filter_map(|_| draw()).collect();
    drawn.sort_by(f64::total_cmp);
    let tail = drawn.len() / 40; // 2.5 % on either side
    Some(Interval { low: *drawn.get(tail)?, high: *drawn.get(drawn.len() - 1 - tail)? })
}

/// As many of `values` as there are, drawn with replacement.
fn resample(random: &mut SplitMix64, values: &[f64]) -> Vec<f64> {
    values.iter().map(|_| values[random.below(values.len() as u64) as usize]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }

    #[test]
    fn intervals_hold_the_median_lie_within_the_values_and_repeat() {
        let values = [10.0, 11.0, 12.0, 13.0, 50.0];
        let estimate_of = estimate(&values, 42).unwrap();
        let interval = estimate_of.interval.unwrap();
        assert!(interval.contains(12.0) && interval.low >= 10.0 && interval.high <= 50.0);
        assert_eq!(estimate(&values, 42), Some(estimate_of));
    }

    #[test]
    fn a_ratio_tells_different_from_level() {
        let excludes_one = |above: &[f64], below: &[f64]| {
            !ratio(above, below, 1).unwrap().interval.unwrap().contains(1.0)
        };
        assert!(excludes_one(&[200.0, 201.0, 202.0], &[100.0, 101.0, 102.0]));
        assert!(!excludes_one(&[100.0, 104.0, 99.0], &[101.0, 98.0, 103.0]));
    }

    #[test]
    fn lines() {
        let exact = line(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]).unwrap();
        assert_eq!(exact, Line { slope: 2.0, intercept: 1.0, correlation: Some(1.0) });
        assert_eq!(line(&[(0.0, 4.0), (1.0, 4.0)]).unwrap().correlation, None);
        assert_eq!(line(&[(1.0, 4.0), (1.0, 5.0)]), None);
        assert_eq!(line(&[]), None);
    }
}
