//! Slices within a block: one that lost its processor counts little, and the intervals still hold.

use duality_lab::judge::verdict::Verdict;
use duality_lab::random::SplitMix64;

use crate::trials::{Trial, busy};

const NAMES: [&str; 3] = ["threads", "pool", "epoll"];
/// The share by which `threads` is worse in truth. The others are equal.
const WORSE: f64 = 0.2;
/// The noise of a slice that nothing disturbs.
const NOISE: f64 = 0.05;
/// Experiments.
const SEEDS: u64 = 60;

/// An experiment in which this share of the slices lost their processor for most of their time.
/// Such a slice answers a tenth of its requests, and their cost has eight times the noise.
fn experiment(seed: u64, starved: f64) -> Verdict {
    let cost = |name: &str| if name == "threads" { 10.0 * (1.0 + WORSE) } else { 10.0 };
    let mut trial = Trial::new(&NAMES, &[100], 3, 10, 0.0, seed, |name, _| busy(cost(name)));
    let mut dice = SplitMix64::new(seed);
    for slice in trial.records.blocks.iter_mut().flat_map(|block| &mut block.slices) {
        let is_starved = dice.uniform() < starved;
        let (share, noise) = if is_starved { (0.1, 8.0 * NOISE) } else { (1.0, NOISE) };
        let requests = share * slice.requests as f64;
        let each = slice.server_cpu_us / slice.requests as f64;
        let off = (noise * dice.normal()).exp();
        // A slice of a given length has fewer requests if they cost more.
        slice.requests = (requests / off) as u64;
        slice.server_cpu_us = each * off * slice.requests as f64;
    }
    trial.verdict()
}

/// The mean logarithm of the critical difference of many experiments, and the number of them of
/// which an interval misses the truth.
fn tried(starved: f64) -> (f64, u64) {
    let (mut critical, mut missed) = (0.0, 0);
    for seed in 0..SEEDS {
        let verdict = experiment(seed, starved);
        critical += verdict.critical.unwrap().ln() / SEEDS as f64;
        let truth = |name: &str| if name == "threads" { WORSE } else { 0.0 };
        let is_missed = verdict.standings.iter().any(|one| {
            let best = &verdict.standings[0].subject;
            let behind = (1.0 + truth(&one.subject)) / (1.0 + truth(best)) - 1.0;
            one.subject != *best && !(one.low..=one.high).contains(&behind)
        });
        missed += u64::from(is_missed);
    }
    (critical.exp(), missed)
}

/// If each slice counted the same, the intervals would be 4 times as wide as in calm.
#[test]
fn a_slice_that_lost_its_processor_counts_little() {
    let ((calm, missed_in_calm), (disturbed, missed)) = (tried(0.0), tried(0.25));
    assert!(disturbed < 3.0 * calm, "{disturbed:.3} {calm:.3}");
    // 2.5 %, and three standard deviations.
    let most = 0.025 * SEEDS as f64 + 3.0 * (0.025 * SEEDS as f64).sqrt();
    assert!((missed as f64) < most && (missed_in_calm as f64) < most, "{missed} {missed_in_calm}");
}
