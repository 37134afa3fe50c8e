//! How often the intervals of `duality_lab::statistics` are right, counted on made-up repeats;
//! docs/method.md has the table.
//!
//! ```text
//!   cargo run --release -p duality-lab --example coverage
//! ```
//!
//! Repeats are drawn from one distribution. *Held* is how many of 100 intervals of an estimate hold
//! the true median. *Ties* is how many of 100 ratios of two such samples have the number one in
//! their interval. The table also has the percentile bootstrap. Its value is the median, and its
//! intervals are 95 % in both cases.

#![expect(clippy::print_stdout, reason = "what it prints is its result")]

use duality_lab::random::SplitMix64;
use duality_lab::statistics::{estimate, median, ratio};

/// The number of experiments for each line.
const EXPERIMENTS: usize = 1000;
/// The number of resamples of the bootstrap, which is shown for comparison.
const RESAMPLES: usize = 400;

/// A number of the open interval from 0 to 1.
fn uniform(random: &mut SplitMix64) -> f64 {
    const STEPS: u64 = 1 << 53;
    (random.below(STEPS) as f64 + 0.5) / STEPS as f64
}

/// A standard normal number (Box & Muller 1958).
fn normal(random: &mut SplitMix64) -> f64 {
    let radius = (-2.0 * uniform(random).ln()).sqrt();
    radius * (std::f64::consts::TAU * uniform(random)).cos()
}

/// The distribution of the logarithm of a rate over the repeats.
type Distribution = fn(&mut SplitMix64) -> f64;

const DISTRIBUTIONS: [(&str, Distribution); 5] = [
    ("normal, 2 %", |random| 0.02 * normal(random)),
    ("slowdowns of 3 %, exponential", |random| 0.03 * uniform(random).ln()),
    ("one in ten 15 % slower", |random| {
        let slow = if uniform(random) < 0.1 { 0.85_f64.ln() } else { 0.0 };
        slow + 0.01 * normal(random)
    }),
    ("every other 6 % slower", |random| {
        let slow = if uniform(random) < 0.5 { 0.94_f64.ln() } else { 0.0 };
        slow + 0.005 * normal(random)
    }),
    ("heavy tails, Student's with 3", |random| {
        let squares: f64 = (0..3).map(|_| normal(random).powi(2)).sum();
        0.015 * normal(random) / (squares / 3.0).sqrt()
    }),
];

fn main() {
    println!("{:<30} repeats    held  (bootstrap)    ties  (bootstrap)", "of 100");
    for (name, distribution) in DISTRIBUTIONS {
        let mut random = SplitMix64::new(1);
        let many: Vec<f64> = (0..200_000).map(|_| distribution(&mut random)).collect();
        let middle = median(&many).expect("there are many").exp();
        for repeats in [2, 3, 5, 10, 19, 20] {
            let mut random = SplitMix64::new(repeats as u64);
            let mut counts = [0; 4];
            for experiment in 0..EXPERIMENTS {
                let mut sample =
                    || (0..repeats).map(|_| distribution(&mut random).exp()).collect::<Vec<_>>();
                let (one, other) = (sample(), sample());
                let held = estimate(&one, experiment as u64).and_then(|found| found.interval);
                let tie = ratio(&one, &other, experiment as u64).and_then(|found| found.interval);
                counts[0] += usize::from(held.is_some_and(|interval| interval.contains(middle)));
                counts[2] += usize::from(tie.is_some_and(|interval| interval.contains(1.0)));
                let drawn = bootstrap(&mut random, &one, &other);
                counts[1] += usize::from(drawn.0.contains(&middle));
                counts[3] += usize::from(drawn.1.contains(&1.0));
            }
            let shares = counts.map(|count| 100.0 * f64::from(count as u32) / EXPERIMENTS as f64);
            let [held, held_by_bootstrap, ties, ties_by_bootstrap] = shares;
            println!(
                "{name:<30} {repeats:>7} {held:>7.1} {held_by_bootstrap:>12.1} {ties:>7.1} {ties_by_bootstrap:>12.1}"
            );
        }
    }
}

/// The percentile bootstrap's 95 % intervals, of the first sample's median and of the ratio of both
/// medians.
fn bootstrap(
    random: &mut SplitMix64,
    one: &[f64],
    other: &[f64],
) -> (std::ops::RangeInclusive<f64>, std::ops::RangeInclusive<f64>) {
    let mut draw = |values: &[f64]| {
        let drawn: Vec<f64> =
            values.iter().map(|_| values[random.below(values.len() as u64) as usize]).collect();
        median(&drawn).expect("there are as many as before")
    };
    let (mut medians, mut ratios) = (Vec::new(), Vec::new());
    for _ in 0..RESAMPLES {
        let (above, below) = (draw(one), draw(other));
        medians.push(above);
        ratios.push(above / below);
    }
    let middle = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[RESAMPLES / 40]..=values[RESAMPLES - 1 - RESAMPLES / 40]
    };
    (middle(&mut medians), middle(&mut ratios))
}
