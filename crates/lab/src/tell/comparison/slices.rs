//! The ratios of two runs with blocks, from the slices of all their subjects at all numbers of
//! connections.
//!
//! A run has few sessions. Two or three values of one subject say little about how much sessions
//! differ. The values of all subjects of both runs, at all numbers of connections, say more.
//!
//! The model is nested. The mean of a session is a logarithm, the sum of four parts. These are the
//! subject's part, the *mood* (the machine's effect on all subjects of a session), the server
//! process's own part, and chance:
//!
//! ```text
//!   y(run, subject, session) = μ(run, subject) + mood(run, session) + own(run, subject, session)
//!   variance of a session's mean = V(mood) + V(own), or that of its blocks where that is larger
//! ```
//!
//! Each of the two variances has its degrees of freedom, and their sum has Satterthwaite's (1946).

use std::collections::BTreeMap;

use crate::judge::rounds::{Figure, Metric, Rounds};
use crate::record::Records;
use crate::statistics::studentized_range::student;
use crate::statistics::{Estimate, Interval};

/// The error of an interval. Intervals of other ratios have the same error.
const ERROR: f64 = 0.01;

/// The means of sessions by session, for each subject, and the variation of its blocks.
struct Run {
    subjects: Vec<BTreeMap<usize, f64>>,
    /// The sum of squares of blocks around their session's mean, and its degrees of freedom.
    squares: f64,
    freedom: usize,
    blocks: usize,
}

/// The ratio of the second run's figure to the first's, by subject and number of connections.
pub(super) type Ratios = BTreeMap<(String, usize), Estimate>;

/// The ratios of a figure, for the subjects that both runs have measured at each number of
/// connections. Empty if a run has no blocks.
pub(super) fn ratios(
    runs: [&Records; 2],
    subjects: &[(usize, Vec<&str>)],
    metric: Metric,
    figure: Figure,
) -> Ratios {
    let mut both = Vec::new();
    for (concurrency, subjects) in subjects {
        let [before, after] = runs.map(|run| Run::of(run, *concurrency, subjects, metric, figure));
        both.extend(before.zip(after).map(|pair| (*concurrency, subjects, pair)));
    }
    let all = both.iter().flat_map(|(_, _, (before, after))| [before, after]);
    let spread = Spread::of(&all.collect::<Vec<&Run>>());
    let mut ratios = Ratios::new();
    for (concurrency, subjects, (before, after)) in &both {
        let sides = before.subjects.iter().zip(&after.subjects);
        for (subject, (one, other)) in subjects.iter().zip(sides) {
            let ratio = spread.ratio(one, other);
            ratios.extend(ratio.map(|ratio| (((*subject).to_owned(), *concurrency), ratio)));
        }
    }
    ratios
}

impl Run {
    fn of(
        records: &Records,
        concurrency: usize,
        subjects: &[&str],
        metric: Metric,
        figure: Figure,
    ) -> Option<Self> {
        let rounds = Rounds::of(records, concurrency).without_waits(metric);
        if matches!(rounds, Rounds::Windows { .. }) {
            return None;
        }
        let mut run = Self { subjects: Vec::new(), squares: 0.0, freedom: 0, blocks: 0 };
        for subject in subjects {
            let mut sessions: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
            for (session, value) in rounds.by_round(subject, metric, figure) {
                sessions.entry(session).or_default().extend(value);
            }
            sessions.retain(|_, values| !values.is_empty());
            let mut means = BTreeMap::new();
            for (session, values) in sessions {
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                run.squares += values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
                run.freedom += values.len() - 1;
                run.blocks += values.len();
                means.insert(session, mean);
            }
            run.subjects.push(means);
        }
        Some(run)
    }

    fn sessions(&self) -> usize {
        self.subjects.iter().map(BTreeMap::len).sum()
    }

    /// The distance of each session's mean from its subject's, by session.
    fn deviations(&self) -> BTreeMap<usize, Vec<f64>> {
        let mut deviations: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for sessions in self.subjects.iter().filter(|sessions| sessions.len() > 1) {
            let Some(mean) = mean(sessions) else { continue };
            for (session, value) in sessions {
                deviations.entry(*session).or_default().push(value - mean);
            }
        }
        deviations
    }
}

/// The variance of a session's mean, and its degrees of freedom. The degrees of freedom are 0 if no
/// run has a second session: then the variance between sessions is unknown.
struct Spread {
    variance: f64,
    freedom: usize,
}

impl Spread {
    /// The ratio of a subject's second sessions to its first ones.
    fn ratio(
        &self,
        before: &BTreeMap<usize, f64>,
        after: &BTreeMap<usize, f64>,
    ) -> Option<Estimate> {
        let gap = mean(after)? - mean(before)?;
        let sessions = 1.0 / before.len() as f64 + 1.0 / after.len() as f64;
        let interval = (self.freedom > 0).then(|| {
            let half = student(ERROR, self.freedom) * (self.variance * sessions).sqrt();
            Interval { low: (gap - half).exp(), high: (gap + half).exp() }
        });
        Some(Estimate { value: gap.exp(), interval })
    }

    fn of(runs: &[&Run]) -> Self {
        let (mut of_moods, mut moods, mut of_own, mut all) = (0.0, 0_usize, 0.0, 0_usize);
        for run in runs {
            let deviations = run.deviations();
            moods += deviations.len().saturating_sub(1);
            for values in deviations.values() {
                let mood = values.iter().sum::<f64>() / values.len() as f64;
                of_moods += mood * mood;
                of_own += values.iter().map(|value| (value - mood).powi(2)).sum::<f64>();
            }
            all +=
                run.subjects.iter().map(|sessions| sessions.len().saturating_sub(1)).sum::<usize>();
        }
        if moods == 0 {
            return Self { variance: 0.0, freedom: 0 };
        }
        let own = all - moods;
        // An estimated mood of a session includes a part of each server's own effect. With k
        // servers, the variance of this part is V(own) / k.
        let subjects = all as f64 / moods as f64;
        let mood = of_moods / moods as f64;
        let rest = if own > 0 { of_own / own as f64 * (subjects - 1.0) / subjects } else { 0.0 };
        let between = mood + rest;
        let parts = mood * mood / moods as f64 + rest * rest / own.max(1) as f64;
        let freedom = if parts > 0.0 { between * between / parts } else { all as f64 };
        let (squares, of_blocks): (f64, usize) =
            runs.iter().fold((0.0, 0), |sum, run| (sum.0 + run.squares, sum.1 + run.freedom));
        let each = runs.iter().map(|run| run.blocks).sum::<usize>() as f64
            / runs.iter().map(|run| run.sessions()).sum::<usize>() as f64;
        let within = squares / of_blocks.max(1) as f64 / each;
        if within > between {
            Self { variance: within, freedom: of_blocks.max(1) }
        } else {
            Self { variance: between, freedom: (freedom as usize).max(1) }
        }
    }
}

fn mean(sessions: &BTreeMap<usize, f64>) -> Option<f64> {
    (!sessions.is_empty()).then(|| sessions.values().sum::<f64>() / sessions.len() as f64)
}
