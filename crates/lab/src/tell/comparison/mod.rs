//! Two experiments laid over each other: before and after a change, or two machines.
//!
//! A cell is compared with the other experiment's cell of the same subject and number of
//! connections. Each figure is the ratio of the second experiment's to the first's, with its 99 %
//! interval. The two differ only if the interval excludes the number one. They are level only if
//! the whole interval is within the margin of the second. Where both have blocks, rates and
//! processor times are compared by the slices in them (`slices.rs`).
//! [`data`](Comparison::data) and a sheet ([`answers::runs`](crate::tell::answers::runs)) show the
//! comparison.

pub mod data;
mod differences;
mod faults;
mod slices;
mod text;

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::format::{self, bytes, duration, grouped};
use crate::judge::alternatives::Told;
use crate::judge::rounds::{self, Figure};
use crate::judge::rows::{Figures, Medians, Missing, Row};
use crate::judge::summary::Summary;
use crate::record::{Heading, Records};
use crate::statistics::{Estimate, Interval, ratio};

pub use differences::Difference;
pub use faults::Faulty;
pub(crate) use text::{headline, told_together};

/// Two experiments, the earlier one first.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The experiment's name in its plan. `None` without a plan.
    pub experiment: Option<String>,
    /// The first experiment.
    pub before: Summary,
    /// The second experiment.
    pub after: Summary,
    /// The differences of machine, design and version.
    pub differences: Vec<Difference>,
    /// What excludes subjects from a choice, in either experiment. Regressions come first.
    pub faults: Vec<Faulty>,
    /// The cells that both experiments have measured.
    pub pairs: Vec<Pair>,
    /// The cells that only the first run has.
    pub only_before: Vec<Alone>,
    /// The cells that only the second run has.
    pub only_after: Vec<Alone>,
}

/// A cell that both experiments have measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The name of the architecture or peer.
    pub subject: String,
    /// The number of connections that were open at once.
    pub concurrency: usize,
    /// The change of each [`Metric`], in the order of the metrics.
    pub changes: Vec<Change>,
    /// Whether connections got no reply, in the first and in the second experiment.
    pub starved: (bool, bool),
}

/// A cell that only one experiment has measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Alone {
    /// The name of the architecture or peer.
    pub subject: String,
    /// The number of connections that were open at once.
    pub concurrency: usize,
    /// The reason why the other experiment has not measured the cell.
    pub why: String,
    /// Whether the other experiment tried the cell.
    pub failed: bool,
}

/// A figure that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Correct replies a second.
    Rate,
    /// The server's processor time for each request.
    Cpu,
    /// The median latency.
    P50,
    /// The latency that 99 % of requests do not exceed.
    P99,
    /// The most memory that the server had.
    Memory,
}

/// The change of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Which.
    pub metric: Metric,
    /// The median of the first experiment, in the unit of [`Metric::key`].
    pub before: f64,
    /// The median of the second experiment.
    pub after: f64,
    /// The ratio of the second figure to the first.
    pub ratio: Estimate,
    /// The direction of the change.
    pub verdict: Direction,
}

/// The meaning of the interval of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The second experiment is better.
    Better,
    /// The second experiment is worse.
    Worse,
    /// The two are level: the whole interval is within the margin.
    Level,
    /// The two are not told apart: the interval holds the number one, and more than the margin.
    NotTold,
    /// There is no interval. One experiment measured the cell once, or the load generator was the
    /// limit of the experiment that looks worse.
    Unsure,
}

/// The reason why two experiments cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Incomparable(String);

impl Metric {
    /// All metrics, in the order in which they are shown.
    pub const ALL: [Self; 5] = [Self::Rate, Self::Cpu, Self::P50, Self::P99, Self::Memory];

    /// The metric's name in data, with its unit.
    pub fn key(self) -> &'static str {
        match self {
            Self::Rate => "requests_per_second",
            Self::Cpu => "server_cpu_us_per_request",
            Self::P50 => "latency_us.p50",
            Self::P99 => "latency_us.p99",
            Self::Memory => "server_peak_bytes",
        }
    }

    /// The metric's name in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rate => "requests/s",
            Self::Cpu => "server CPU per request",
            Self::P50 => "p50 latency",
            Self::P99 => "p99 latency",
            Self::Memory => "server memory",
        }
    }

    /// A value in the form that people read.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Rate => grouped(value),
            Self::Cpu | Self::P50 | Self::P99 => duration(value),
            Self::Memory => bytes(value),
        }
    }

    fn more_is_better(self) -> bool {
        self == Self::Rate
    }

    /// The values of the repeats.
    fn samples(self, medians: &Medians) -> Vec<f64> {
        let latencies = medians.latency_samples.iter();
        match self {
            Self::Rate => medians.requests_per_second_samples.clone(),
            Self::Cpu => medians.cpu_us_samples.clone(),
            Self::P50 => latencies.map(|latency| latency.p50).collect(),
            Self::P99 => latencies.map(|latency| latency.p99).collect(),
            Self::Memory => medians.memory_samples.clone(),
        }
    }

    /// The metric of rounds, and the figure of a slice, that belong to this metric. `None` if
    /// slices do not measure the metric.
    fn figure(self) -> Option<(rounds::Metric, Figure)> {
        match self {
            Self::Rate => Some((rounds::Metric::Rate, |sample| sample.requests_per_second)),
            Self::Cpu => Some((rounds::Metric::ServerCpu, |sample| sample.server_cpu_us)),
            Self::P50 | Self::P99 | Self::Memory => None,
        }
    }

    fn median(self, medians: &Medians) -> f64 {
        match self {
            Self::Rate => medians.requests_per_second.value,
            Self::Cpu => medians.cpu_us,
            Self::P50 => medians.p50_us,
            Self::P99 => medians.p99_us,
            Self::Memory => medians.memory_bytes,
        }
    }
}

impl Change {
    /// From the ratio, which is of slices or of windows.
    fn of(
        metric: Metric,
        [before, after]: [&Medians; 2],
        ratio: Estimate,
        (of_slices, margin): (bool, f64),
    ) -> Self {
        let verdict = match ratio.interval {
            None => Direction::Unsure,
            Some(interval) if interval.contains(1.0) => {
                let shares = [interval.low - 1.0, interval.high - 1.0];
                match Told::within(shares, margin) {
                    Told::Level => Direction::Level,
                    _ => Direction::NotTold,
                }
            }
            Some(interval) if (interval.low > 1.0) == metric.more_is_better() => Direction::Better,
            Some(_) => Direction::Worse,
        };
        // Where the load generator was the limit, the server is at least as fast as measured.
        let of_client = matches!(metric, Metric::Rate | Metric::P50 | Metric::P99);
        let hidden = match verdict {
            Direction::Better => before.client_was_limit,
            Direction::Worse => after.client_was_limit,
            _ => false,
        };
        // If the generator could not do its work, the direction is not known. Blocks are sound even
        // if windows of their sessions were not.
        let is_void = !of_slices && (before.invalid || after.invalid);
        let is_unsure = of_client && hidden || is_void;
        Self {
            metric,
            before: metric.median(before),
            after: metric.median(after),
            ratio,
            verdict: if is_unsure { Direction::Unsure } else { verdict },
        }
    }

    /// `faster`, `slower`, `less`, `more`, `level`, `not told`, or `?`.
    pub fn word(&self) -> &'static str {
        let time = !matches!(self.metric, Metric::Cpu | Metric::Memory);
        match self.verdict {
            Direction::Better if time => "faster",
            Direction::Better => "less",
            Direction::Worse if time => "slower",
            Direction::Worse => "more",
            Direction::Level => "level",
            Direction::NotTold => "not told",
            Direction::Unsure => "?",
        }
    }

    /// Whether the metric tells how fast a server is. All other metrics vary too much for a limit
    /// of a few per cent.
    fn is_judged(&self) -> bool {
        matches!(self.metric, Metric::Rate | Metric::Cpu)
    }

    /// The ends of the interval of the ratio as shares by which the second experiment is worse.
    fn worse_by(&self) -> Option<[f64; 2]> {
        let Interval { low, high } = self.ratio.interval?;
        Some(match self.metric.more_is_better() {
            true => [1.0 / high - 1.0, 1.0 / low - 1.0],
            false => [low - 1.0, high - 1.0],
        })
    }

    /// Whether the figure is worse, and the interval of the ratio misses 1 by more than `percent`.
    fn is_regression(&self, percent: f64) -> bool {
        let beyond = |Interval { low, high }: Interval| match self.metric.more_is_better() {
            true => high < 1.0 - percent / 100.0,
            false => low > 1.0 + percent / 100.0,
        };
        self.verdict == Direction::Worse && self.ratio.interval.is_some_and(beyond)
    }

    /// `requests/s 0.87 times what they were (interval 0.85 to 0.89): 61,000 before, 53,000 after`.
    fn tell(&self) -> String {
        let Self { metric, before, after, ratio, .. } = self;
        let interval = ratio.interval.map_or(String::new(), |Interval { low, high }| {
            format!(" (interval {low:.2} to {high:.2})")
        });
        let (before, after) = (metric.show(*before), metric.show(*after));
        format!(
            "{} {:.2} times as before{interval}: {before} became {after}",
            metric.name(),
            ratio.value
        )
    }
}

impl Comparison {
    /// Lays the second experiment over the first.
    ///
    /// # Errors
    ///
    /// [`Incomparable`] if the experiments measured different things.
    pub fn of(
        before: &(Heading, Records),
        after: &(Heading, Records),
    ) -> Result<Self, Incomparable> {
        differences::comparable(&before.0.design, &after.0.design)?;
        let differences = differences::find(&before.0, &after.0);
        let experiment = before.0.plan.as_ref().map(|plan| plan.experiment.clone());
        let records = [&before.1, &after.1];
        let before = Summary::of(&before.0, &before.1);
        let after = Summary::of(&after.0, &after.1);
        let faults = faults::find(&before, &after);
        let by_slices = by_slices(records, &before, &after);
        let margin = after.margin;
        let mut pairs = Vec::new();
        let mut only_before = Vec::new();
        for row in &before.rows {
            let Some(medians) = row.medians() else { continue };
            let other = counterpart(&after, row);
            match other.and_then(Row::medians) {
                Some(after) => {
                    pairs.push(Pair::of(row, [medians, after], before.seed, &by_slices, margin));
                }
                None => only_before.push(Alone::of(row, other)),
            }
        }
        let lone = after.rows.iter().filter(|row| row.medians().is_some()).filter_map(|row| {
            let other = counterpart(&before, row);
            other.and_then(Row::medians).is_none().then(|| Alone::of(row, other))
        });
        let only_after = lone.collect();
        Ok(Self { experiment, before, after, differences, faults, pairs, only_before, only_after })
    }

    /// All changes for the worse by more than `percent`, a line for each. Faults come first: what
    /// excludes a subject from a choice in the second run. Then come failed cells, and figures with
    /// an interval that misses 1 by more than `percent`.
    pub fn regressions(&self, percent: f64) -> Vec<String> {
        let faults = self.faults.iter().filter(|one| one.is_regression);
        let is_told = |alone: &&Alone| {
            let mut faults = self.faults.iter();
            faults.any(|one| one.is_regression && alone.is_of(&one.subject, one.concurrency))
        };
        let failed = self.only_before.iter().filter(|alone| alone.failed && !is_told(alone));
        let failed = failed.map(|alone| {
            format!("{} at {}: {}", alone.subject, self.before.at(alone.concurrency), alone.why)
        });
        let worse = self.pairs.iter().flat_map(|pair| {
            let place = format!("{} at {}", pair.subject, self.before.at(pair.concurrency));
            let worse = pair.changes.iter().filter(|change| change.is_regression(percent));
            worse.map(move |change| format!("{place}: {}", change.tell()))
        });
        let name = self.experiment.as_ref().map_or(String::new(), |name| format!("{name}: "));
        let all = faults.map(|one| one.told.clone()).chain(failed).chain(worse);
        all.map(|line| format!("{name}{line}")).collect()
    }

    /// The figures that are not known well enough to tell a change of `percent` from none. Each
    /// figure comes with half of the interval of its ratio.
    pub fn too_unsure_for(&self, percent: f64) -> Vec<String> {
        let figures = self.pairs.iter().flat_map(|pair| {
            let place = format!("{} at {}", pair.subject, self.before.at(pair.concurrency));
            pair.changes.iter().filter_map(move |change| {
                let interval = change.ratio.interval?;
                let half = (interval.high - interval.low) / 2.0;
                let sentence =
                    format!("{place}: {} ± {}", change.metric.name(), format::percent(half));
                (change.is_judged() && 100.0 * half > percent).then_some(sentence)
            })
        });
        figures.collect()
    }

    /// Whether any pair has an interval, so that better can be told from worse.
    pub fn is_sure_of_anything(&self) -> bool {
        let mut changes = self.pairs.iter().flat_map(|pair| &pair.changes);
        changes.any(|change| change.ratio.interval.is_some())
    }
}

impl Pair {
    fn of(
        row: &Row,
        [before, after]: [&Medians; 2],
        seed: u64,
        by_slices: &BySlices,
        margin: f64,
    ) -> Self {
        let cell = (row.subject.clone(), row.concurrency);
        let change = |metric: Metric| {
            let of_repeats = || ratio(&metric.samples(after), &metric.samples(before), seed);
            let of_slices = by_slices.get(metric.key()).and_then(|all| all.get(&cell)).copied();
            let ratio = of_slices.or_else(of_repeats)?;
            Some(Change::of(metric, [before, after], ratio, (of_slices.is_some(), margin)))
        };
        Self {
            subject: row.subject.clone(),
            concurrency: row.concurrency,
            changes: Metric::ALL.into_iter().filter_map(change).collect(),
            starved: (before.starved, after.starved),
        }
    }

    /// The change of a figure. `None` if the figure was not measured.
    pub fn change(&self, metric: Metric) -> Option<&Change> {
        self.changes.iter().find(|change| change.metric == metric)
    }
}

impl Alone {
    fn is_of(&self, subject: &str, concurrency: usize) -> bool {
        (self.subject.as_str(), self.concurrency) == (subject, concurrency)
    }

    /// A row of one experiment, and the other's row, if there is one.
    fn of(row: &Row, other: Option<&Row>) -> Self {
        let (why, failed) = match other.map(|other| &other.figures) {
            Some(Figures::Missing { state, reason }) if reason.is_empty() => {
                (state.to_string(), false)
            }
            Some(Figures::Missing { state, reason }) => {
                (format!("{state}: {reason}"), *state == Missing::Failed)
            }
            _ => ("not part of it".to_owned(), false),
        };
        Self { subject: row.subject.clone(), concurrency: row.concurrency, why, failed }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Level => "level",
            Self::NotTold => "not-told",
            Self::Unsure => "unsure",
        })
    }
}

/// The ratios of slices, by the key of the metric.
type BySlices = BTreeMap<&'static str, slices::Ratios>;

fn by_slices(records: [&Records; 2], before: &Summary, after: &Summary) -> BySlices {
    let in_both = |row: &&Row| {
        row.medians().is_some() && counterpart(after, row).and_then(Row::medians).is_some()
    };
    let at = |&concurrency: &usize| {
        let here = before.rows.iter().filter(|row| row.concurrency == concurrency).filter(in_both);
        (concurrency, here.map(|row| row.subject.as_str()).collect())
    };
    let subjects: Vec<(usize, Vec<&str>)> = before.concurrency.iter().map(at).collect();
    let ratios = |metric: Metric| {
        let (rounds, figure) = metric.figure()?;
        Some((metric.key(), slices::ratios(records, &subjects, rounds, figure)))
    };
    Metric::ALL.into_iter().filter_map(ratios).collect()
}

/// The row of the same cell in the other experiment.
fn counterpart<'a>(other: &'a Summary, row: &Row) -> Option<&'a Row> {
    other
        .rows
        .iter()
        .find(|other| other.subject == row.subject && other.concurrency == row.concurrency)
}
