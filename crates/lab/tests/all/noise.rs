//! Noise for simulated experiments: that of the recorded runs, and that of a shared machine.

#![expect(clippy::print_stdout, reason = "the noise of each run is a part of the result")]

use std::collections::BTreeMap;

use duality_lab::random::SplitMix64;
use duality_lab::record::{Block, results};

use crate::fixtures::kept_results;

fn one_of<'a, T>(dice: &mut SplitMix64, all: &'a [T]) -> &'a T {
    &all[dice.below(all.len() as u64) as usize]
}

/// Noise: a block's weight, and what chance adds to each subject in it.
pub(crate) trait Noise {
    /// What a process adds in one session.
    fn process(&self, dice: &mut SplitMix64) -> f64;
    /// A block.
    fn block(&self, dice: &mut SplitMix64, subjects: usize) -> (f64, Vec<f64>);
}

/// The noise of a load of a recorded run.
pub(crate) struct Recorded {
    pub(crate) name: String,
    /// The residuals of each block, with its weight.
    blocks: Vec<(f64, Vec<f64>)>,
    /// The standard deviation of what a process adds.
    process: f64,
}

impl Noise for Recorded {
    fn process(&self, dice: &mut SplitMix64) -> f64 {
        self.process * dice.normal()
    }

    /// The residuals of one recorded block, drawn anew for each subject.
    fn block(&self, dice: &mut SplitMix64, subjects: usize) -> (f64, Vec<f64>) {
        let (weight, residuals) = one_of(dice, &self.blocks);
        (*weight, (0..subjects).map(|_| *one_of(dice, residuals)).collect())
    }
}

/// Noise as docs/method.md and docs/noise.md describe it.
pub(crate) struct Described {
    deviation: f64,
    pub(crate) process: f64,
    /// The share of blocks in which the hypervisor takes time, and what it then multiplies.
    spell: (f64, f64),
    /// The share of slices that take much longer.
    spikes: f64,
}

impl Described {
    /// Noise of a machine that is left alone: of blocks, and of processes.
    pub(crate) fn of_processes(deviation: f64, process: f64) -> Self {
        Self { deviation, process, spell: (0.0, 1.0), spikes: 0.0 }
    }
}

impl Noise for Described {
    fn process(&self, dice: &mut SplitMix64) -> f64 {
        self.process * dice.normal()
    }

    fn block(&self, dice: &mut SplitMix64, subjects: usize) -> (f64, Vec<f64>) {
        let is_taken = dice.uniform() < self.spell.0;
        let (weight, times) = if is_taken { (0.2, self.spell.1) } else { (1.0, 1.0) };
        let value = |dice: &mut SplitMix64| {
            let spike = if dice.uniform() < self.spikes { 0.5 } else { 0.0 };
            times * self.deviation * dice.normal() + spike
        };
        (weight, (0..subjects).map(|_| value(dice)).collect())
    }
}

pub(crate) fn described() -> Vec<(&'static str, Described)> {
    let all = |deviation, process, spell, spikes| Described { deviation, process, spell, spikes };
    vec![
        ("quiet", Described::of_processes(0.10, 0.0)),
        ("quiet, processes differ by 2 %", Described::of_processes(0.10, 0.02)),
        ("disturbed, with spikes", all(0.19, 0.02, (0.0, 1.0), 0.05)),
        ("steal in a third of the blocks", all(0.10, 0.01, (0.33, 5.0), 0.0)),
        ("steal in two thirds", all(0.10, 0.01, (0.67, 5.0), 0.0)),
    ]
}

/// The mean logarithm of a subject's cost in a block, in which a slice counts by its requests.
fn cost(block: &Block, subject: &str) -> Option<f64> {
    let (mut sum, mut requests) = (0.0, 0.0);
    for one in block.slices.iter().filter(|one| one.subject == subject && one.requests > 0) {
        let own = one.requests as f64;
        sum += own * (one.server_cpu_us / own).ln();
        requests += own;
    }
    let mean = sum / requests;
    mean.is_finite().then_some(mean)
}

/// The noise of each load of each recorded run that has blocks, in the order of their names.
pub(crate) fn recorded() -> Vec<Recorded> {
    let mut all = Vec::new();
    for file in kept_results() {
        let (heading, records) = results::read(std::slice::from_ref(&file)).unwrap();
        for &concurrency in &heading.design.concurrency {
            let blocks = records.blocks_at(concurrency);
            let is_in_all = |name: &&str| blocks.iter().all(|block| cost(block, name).is_some());
            let subjects: Vec<&str> = heading.design.measured().filter(is_in_all).collect();
            if blocks.len() < 10 || subjects.len() < 3 {
                continue;
            }
            let name = file.parent().unwrap().file_name().unwrap().to_string_lossy();
            all.extend(noise_of(format!("{name} at {concurrency}"), &blocks, &subjects));
        }
    }
    all
}

fn noise_of(name: String, blocks: &[&Block], subjects: &[&str]) -> Option<Recorded> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    // Each block's values without the block's mean.
    let rows: Vec<Vec<f64>> = blocks
        .iter()
        .map(|block| {
            let values: Vec<f64> =
                subjects.iter().filter_map(|subject| cost(block, subject)).collect();
            let middle = mean(&values);
            values.into_iter().map(|value| value - middle).collect()
        })
        .collect();
    let mut sessions: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (place, block) in blocks.iter().enumerate() {
        sessions.entry(block.session).or_default().push(place);
    }
    let each = rows.len() as f64 / sessions.len() as f64;
    if each < 3.0 || sessions.len() < 2 {
        return None;
    }
    let stretch = (each / (each - 1.0)).sqrt() * (1.0 + 1.0 / subjects.len() as f64).sqrt();
    let mut residuals = rows.clone();
    let (mut between, mut within) = (Vec::new(), Vec::new());
    for subject in 0..subjects.len() {
        let whole: Vec<f64> = rows.iter().map(|row| row[subject]).collect();
        for places in sessions.values() {
            let own: Vec<f64> = places.iter().map(|&place| rows[place][subject]).collect();
            between.push((mean(&own) - mean(&whole)).powi(2));
            for &place in places {
                residuals[place][subject] = stretch * (rows[place][subject] - mean(&own));
                within.push(residuals[place][subject].powi(2));
            }
        }
    }
    let process = (1.5 * mean(&between) - mean(&within) / each).max(0.0).sqrt();
    println!("{name}: process {process:.3}, within {:.3}", mean(&within).sqrt());
    let stolen = |block: &&Block| 1.0 / (1.0 + (block.disturbance.stolen() / 0.1).powi(2));
    let blocks = blocks.iter().map(stolen).zip(residuals).collect();
    Some(Recorded { name, blocks, process })
}
