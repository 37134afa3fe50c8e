//! How often the verdict of a trial is wrong, and how soon it is right. A thousand trials of equal
//! servers are judged after each block, with nine kinds of noise and that of recorded runs. Skew,
//! rare spikes and neighbours that depend on each other are among them.

#![expect(clippy::print_stdout, reason = "how often it was wrong is the result")]

use duality_lab::judge::sequential::{
    Decision, PROMISE, Rule, Standing, first_exclusion, interval, judge,
};
use duality_lab::random::SplitMix64;
use duality_lab::record::results;

use crate::fixtures::kept_results;

const TRIALS: usize = 1000;
const BLOCKS: usize = 80;

/// With this margin no server is level, so a trial of equal servers goes on to its last block.
const STRICT: Rule = Rule { promise: PROMISE, margin: 1e-9 };

/// Random numbers for noise.
struct Noise(SplitMix64);

impl Noise {
    fn uniform(&mut self) -> f64 {
        self.0.uniform()
    }

    fn normal(&mut self) -> f64 {
        self.0.normal()
    }

    /// Student's with three degrees of freedom: its fourth moment is infinite.
    fn heavy(&mut self) -> f64 {
        let squares: f64 = (0..3).map(|_| self.normal().powi(2)).sum();
        self.normal() / (squares / 3.0).sqrt()
    }

    /// Mostly small, and a spike in one of twenty.
    fn spiky(&mut self) -> f64 {
        if self.uniform() < 0.05 { 0.02 + 1.5 * self.uniform() } else { 0.02 * self.normal() }
    }
}

/// Whether a trial of equal servers says at any look that one is behind another. The test asks of
/// each pair what `judge` asks of the best server's pairs.
fn is_wrong(blocks: &[Vec<f64>], count: usize) -> bool {
    let alpha = PROMISE / (count * (count - 1) / 2) as f64;
    let mut pairs = (0..count).flat_map(|one| (0..one).map(move |other| (one, other)));
    pairs.any(|(one, other)| {
        let differences: Vec<f64> = blocks.iter().map(|block| block[one] - block[other]).collect();
        first_exclusion(&differences, 0.0, alpha).is_some()
    })
}

/// How many of a thousand trials name a winner, or an architecture that is behind, at any look.
fn wrong(
    count: usize,
    mut block: impl FnMut(&mut Noise, &mut Vec<f64>, usize) -> Vec<f64>,
) -> usize {
    (0..TRIALS)
        .filter(|trial| {
            let mut noise = Noise(SplitMix64::new(*trial as u64));
            let mut state = vec![0.0; count];
            let blocks: Vec<Vec<f64>> =
                (0..BLOCKS).map(|number| block(&mut noise, &mut state, number)).collect();
            is_wrong(&blocks, count)
        })
        .count()
}

fn at_most_as_promised(kind: &str, wrong: usize) {
    println!("{kind}: {wrong} of {TRIALS} trials of equal servers were decided");
    assert!(wrong as f64 <= PROMISE * TRIALS as f64, "{kind}: {wrong} of {TRIALS}");
}

#[test]
fn equal_servers_with_normal_noise() {
    for count in [2, 3, 5] {
        let wrong = wrong(count, |noise, _, _| (0..count).map(|_| 0.1 * noise.normal()).collect());
        at_most_as_promised(&format!("normal, {count} servers"), wrong);
    }
}

/// A distribution of costs, and its name.
type Kind = (&'static str, fn(&mut Noise) -> f64);

/// Costs of one distribution, whatever it is: no moment of it need exist.
#[test]
fn equal_servers_with_costs_of_any_distribution() {
    let kinds: [Kind; 7] = [
        ("Student's t with 3 degrees", |noise| 0.1 * noise.heavy()),
        ("Cauchy", |noise| 0.01 * noise.normal() / noise.normal()),
        ("spikes", Noise::spiky),
        ("rare spikes", |noise| if noise.uniform() < 0.01 { 3.0 } else { 0.001 * noise.normal() }),
        ("log-normal", |noise| noise.normal().exp()),
        ("exponential", |noise| -noise.uniform().ln()),
        ("two modes", |noise| {
            let mode = if noise.uniform() < 0.5 { 0.0 } else { 1.0 };
            mode + 0.05 * noise.normal()
        }),
    ];
    for (kind, draw) in kinds {
        let wrong = wrong(2, |noise, _, _| (0..2).map(|_| draw(noise)).collect());
        at_most_as_promised(kind, wrong);
    }
}

/// The whole of `judge` keeps the promise, too.
#[test]
fn a_trial_of_equal_servers_is_not_decided() {
    let servers = [0, 1, 2];
    let decided = (0..TRIALS / 10).filter(|trial| {
        let mut noise = Noise(SplitMix64::new(*trial as u64));
        let mut blocks: Vec<Vec<Option<f64>>> = Vec::new();
        (0..BLOCKS).any(|number| {
            blocks.push(servers.map(|_| Some(noise.normal().exp())).to_vec());
            let looks = number % 8 == 7;
            let judged = || judge(&blocks, &servers, 3, &STRICT).standings;
            looks && judged().iter().any(Standing::is_behind)
        })
    });
    let decided = decided.count();
    assert!(decided as f64 <= 2.0 * PROMISE * (TRIALS / 10) as f64, "{decided}");
}

/// A drift of the machine is in all servers alike, whatever it is.
#[test]
fn equal_servers_on_a_machine_that_drifts() {
    let wrong = wrong(2, |noise, _, number| {
        let drift = (number as f64 / 9.0).sin();
        (0..2).map(|_| drift + 0.05 * noise.heavy()).collect()
    });
    at_most_as_promised("drift", wrong);
}

/// Connections outlast blocks, so that neighbours resemble each other.
#[test]
fn equal_servers_whose_blocks_depend_on_each_other() {
    for correlation in [0.4_f64, 0.7, 0.9] {
        let wrong = wrong(2, |noise, state, number| {
            // The first values have the spread that all later ones have.
            let spread = if number == 0 { 1.0 / (1.0 - correlation.powi(2)).sqrt() } else { 1.0 };
            for one in state.iter_mut() {
                *one = correlation * *one + 0.1 * spread * noise.normal();
            }
            state.clone()
        });
        at_most_as_promised(&format!("neighbours with a correlation of {correlation}"), wrong);
    }
}

/// Costs of two slices of one server in one block, of every series of blocks in `runs/`.
fn recorded() -> Vec<Vec<(f64, f64)>> {
    let mut all = Vec::new();
    for file in kept_results() {
        let (_, records) = results::read(&[file]).unwrap();
        let mut series =
            std::collections::BTreeMap::<(String, usize, usize), Vec<(f64, f64)>>::new();
        for block in &records.blocks {
            for slice in &block.slices {
                let of = |one: &&duality_lab::record::Slice| one.subject == slice.subject;
                let pair: Vec<f64> = block
                    .slices
                    .iter()
                    .filter(of)
                    .filter(|one| one.requests > 0 && one.server_cpu_us > 0.0)
                    .map(|one| one.server_cpu_us / one.requests as f64)
                    .collect();
                let is_first =
                    block.slices.iter().find(of).is_some_and(|one| std::ptr::eq(one, slice));
                if let ([one, other], true) = (&pair[..], is_first) {
                    let key = (slice.subject.clone(), block.concurrency, block.session);
                    series.entry(key).or_default().push((*one, *other));
                }
            }
        }
        all.extend(series.into_values().filter(|series| series.len() >= 4));
    }
    all
}

/// The two slices of a server in a block are two equal servers. Which is which is drawn, as the
/// order of turns is.
#[test]
fn equal_servers_with_recorded_noise() {
    let series = recorded();
    assert!(series.len() > 50, "{} series are kept", series.len());
    let wrong = (0..TRIALS)
        .filter(|trial| {
            let mut random = SplitMix64::new(*trial as u64);
            let mut blocks = Vec::new();
            while blocks.len() < BLOCKS {
                let one = &series[random.below(series.len() as u64) as usize];
                blocks.extend(one.iter().map(|(one, other)| match random.below(2) {
                    0 => vec![one.ln(), other.ln()],
                    _ => vec![other.ln(), one.ln()],
                }));
            }
            is_wrong(&blocks[..BLOCKS], 2)
        })
        .count();
    at_most_as_promised("recorded", wrong);
}

#[test]
fn a_difference_of_a_fifth_is_found() {
    let mut ends = Vec::new();
    for trial in 0..100 {
        let mut noise = Noise(SplitMix64::new(trial));
        let mut blocks = Vec::new();
        let end = (1..=BLOCKS).find(|_| {
            let cost = |mean: f64, noise: &mut Noise| Some(mean * (0.1 * noise.normal()).exp());
            blocks.push(vec![cost(1.2, &mut noise), cost(1.0, &mut noise)]);
            let rule = Rule { promise: PROMISE, margin: 0.05 };
            judge(&blocks, &[0, 1], 2, &rule).decision == Some(Decision::Winner(1))
        });
        ends.extend(end);
    }
    ends.sort_unstable();
    println!("20 %: {} of 100, the median after {} blocks", ends.len(), ends[ends.len() / 2]);
    assert!(ends.len() >= 95 && ends[ends.len() / 2] <= 30, "{} of 100: {ends:?}", ends.len());
}

/// The interval holds the true value at all looks together.
#[test]
fn intervals_hold_the_true_value() {
    let missed = (0..TRIALS)
        .filter(|trial| {
            let mut noise = Noise(SplitMix64::new(*trial as u64));
            let values: Vec<f64> = (0..BLOCKS).map(|_| 0.3 + noise.normal()).collect();
            let found = interval(&values, PROMISE);
            first_exclusion(&values, 0.3, PROMISE).is_some()
                || found.is_some_and(|found| !found.contains(0.3))
        })
        .count();
    assert!(missed as f64 <= PROMISE * TRIALS as f64, "{missed} of {TRIALS}");
}
