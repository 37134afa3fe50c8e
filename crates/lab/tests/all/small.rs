//! How often a small experiment is wrong: few subjects, few sessions, few blocks, no race. It is
//! simulated with seeds, on the noise of recorded runs and on described noise.
//!
//! Of the recorded runs, the half judges that no rule comes from.

use duality_lab::judge::blocks::{Fit, Observed};
use duality_lab::judge::verdict::FAMILY_ERROR;
use duality_lab::random::SplitMix64;

use crate::noise::{Described, Noise, described, recorded};

/// Experiments of each shape on each noise. `SMALL_SEEDS` sets another number, for the table in
/// docs/method.md.
fn seeds() -> u64 {
    std::env::var("SMALL_SEEDS").ok().and_then(|many| many.parse().ok()).unwrap_or(40)
}

/// Numbers of subjects, sessions, and blocks of a session.
const SHAPES: [(usize, usize, usize); 14] = [
    (2, 2, 2),
    (2, 2, 30),
    (2, 3, 1),
    (2, 3, 4),
    (2, 3, 10),
    (2, 3, 30),
    (2, 5, 10),
    (3, 2, 10),
    (3, 2, 30),
    (3, 3, 4),
    (3, 3, 10),
    (3, 5, 10),
    (4, 2, 30),
    (4, 3, 10),
];

/// The logarithms by which the subjects differ in truth.
const TRUTH: [f64; 4] = [0.0, 0.1, 0.0, -0.2];

fn blocks(noise: &dyn Noise, shape: (usize, usize, usize), seed: u64) -> Vec<Observed> {
    let (names, sessions, each) = shape;
    let mut dice = SplitMix64::new(seed);
    let mut all = Vec::new();
    for session in 0..sessions {
        let process: Vec<f64> = (0..names).map(|_| noise.process(&mut dice)).collect();
        for _ in 0..each {
            let (weight, chance) = noise.block(&mut dice, names);
            let value = |place: usize| Some(TRUTH[place] + process[place] + chance[place]);
            all.push(Observed { session, values: (0..names).map(value).collect(), weight });
        }
    }
    all
}

/// What came of experiments of one kind.
#[derive(Default)]
struct Counts {
    runs: usize,
    /// An interval of some two subjects misses the truth.
    missed: usize,
    /// An interval of a subject beside the first one misses the truth.
    missed_beside: usize,
}

impl Counts {
    fn add(&mut self, fit: &Fit, names: usize) {
        let wrong = |one: usize, other: usize, critical: f64| {
            let gap = fit.gap(one, other).expect("each is in each block");
            (gap - (TRUTH[one] - TRUTH[other])).abs() > critical
        };
        let all = fit.family(names, FAMILY_ERROR);
        let beside = fit.family_of_one(names, FAMILY_ERROR);
        let mut pairs = (0..names).flat_map(|one| (0..one).map(move |other| (one, other)));
        self.runs += 1;
        self.missed += usize::from(pairs.any(|(a, b)| wrong(a, b, all.critical(a, b))));
        self.missed_beside +=
            usize::from((1..names).any(|one| wrong(one, 0, beside.critical(one, 0))));
    }

    fn join(&mut self, other: &Self) {
        self.runs += other.runs;
        self.missed += other.missed;
        self.missed_beside += other.missed_beside;
    }

    /// Whether the intervals miss the truth no more often than they say, but for three standard
    /// deviations.
    fn holds(&self) -> bool {
        let allowed = FAMILY_ERROR * self.runs as f64;
        let most = allowed + 3.0 * allowed.sqrt();
        self.missed as f64 <= most && self.missed_beside as f64 <= most
    }

    fn told(&self) -> String {
        let Self { runs, missed, missed_beside } = self;
        let share = |count: &usize| 100.0 * *count as f64 / *runs as f64;
        format!("{runs} runs: {:.2} %, beside one {:.2} %", share(missed), share(missed_beside))
    }
}

#[test]
fn the_intervals_of_a_small_experiment_hold_the_truth() {
    let recorded = recorded();
    let judging = recorded.iter().skip(1).step_by(2);
    let mut noises: Vec<(String, &dyn Noise)> =
        judging.map(|noise| (noise.name.clone(), noise as &dyn Noise)).collect();
    let described = described();
    noises.extend(described.iter().map(|(name, noise)| ((*name).to_owned(), noise as &dyn Noise)));
    let differing: Vec<Described> =
        [0.02, 0.04, 0.08].map(|process| Described::of_processes(0.1, process)).into();
    let name = |noise: &Described| format!("processes differ by {:.0} %", 100.0 * noise.process);
    noises.extend(differing.iter().map(|noise| (name(noise), noise as &dyn Noise)));
    let mut of_noise: Vec<Counts> = noises.iter().map(|_| Counts::default()).collect();
    let (mut failed, mut seed) = (Vec::new(), 0);
    let mut tell = |kind: String, counts: &Counts| {
        let told = format!("{kind:33} {}", counts.told());
        println!("{told}");
        failed.extend((!counts.holds()).then_some(told));
    };
    for shape in SHAPES {
        let mut of_shape = Counts::default();
        for ((_, noise), whole) in noises.iter().zip(&mut of_noise) {
            let mut own = Counts::default();
            for _ in 0..seeds() {
                seed += 1;
                let fit = Fit::of(&blocks(*noise, shape, seed));
                own.add(&fit.expect("two subjects in two blocks"), shape.0);
            }
            of_shape.join(&own);
            whole.join(&own);
        }
        let (names, sessions, each) = shape;
        tell(format!("{names} subjects, {sessions} sessions of {each}"), &of_shape);
    }
    noises.into_iter().zip(&of_noise).for_each(|((name, _), whole)| tell(name, whole));
    assert!(failed.is_empty(), "{failed:#?}");
}
