//! The observations at one number of connections, and the metric that decides. Each round compares
//! the subjects with one another.
//!
//! A round is a block of slices, with all its subjects side by side, or one repeat of windows where
//! servers are measured in turn. This module weighs blocks by what disturbed them, and leaves out
//! what cannot count, before it reads any figure:
//!
//! - A block from which the hypervisor took time has less weight. It is not dropped, because it is
//!   evidence of a large difference too.
//! - Within a block, a slice of a subject counts by its requests.
//! - A slice in which the load generator waited says nothing of a rate. The other slices of its
//!   block count.
//! - A window in turn that is disturbed or invalid is left out alone.

use std::collections::{BTreeMap, BTreeSet};

use duality_load::Latency;
use schemars::JsonSchema;
use serde::Serialize;

use crate::judge::blocks::Observed;
use crate::record::{Block, Cell, Disturbance, Heading, Measured, Outcome, Records, Slice};
use crate::statistics::{median, student_95};

/// Steal of this share of a processor halves the weight of a block, and spoils a window that is
/// measured in turn.
const MOST_STOLEN: f64 = 0.10;
/// Steal within this many seconds before and after a block also counts: the kernel counts steal in
/// ticks, and steal comes in spells.
const STEAL_AROUND: f64 = 0.6;
/// A load generator that waits for its processor for more than this share of a slice spoils the
/// rate of that slice.
const MOST_WAITED: f64 = 0.20;
/// A server that uses less than this share of its processor waits for another resource. Server and
/// load generator wait for each other a little even when both are busy. A higher limit would make
/// the metric change from one experiment to the next.
const BUSY: f64 = 0.80;
/// What decides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// The server's processor time for each request, in microseconds. Used if servers are busy.
    ServerCpu,
    /// Correct replies a second. Used if servers wait, or use several processors.
    Rate,
    /// The corrected latency at this percentile, in microseconds. Used if the rate is given (an
    /// open loop).
    Latency(&'static str),
}

/// Blocks, or rounds of windows if servers were measured in turn.
pub(crate) enum Rounds<'a> {
    Blocks { kept: Vec<Weighted<'a>>, dropped: Vec<&'a Block>, waited: usize },
    Windows { kept: Vec<Vec<(&'a str, &'a Measured)>>, dropped: usize },
}

/// A block that counts.
pub(crate) struct Weighted<'a> {
    pub(crate) block: &'a Block,
    /// How much the block counts: 1 if the hypervisor took nothing.
    pub(crate) weight: f64,
    /// Whether slices in which the load generator waited are left out.
    calm_only: bool,
}

impl<'a> Weighted<'a> {
    /// The slices of a subject that count.
    fn slices(&self, subject: &str) -> impl Iterator<Item = &'a Slice> {
        let calm_only = self.calm_only;
        let own = self.block.slices.iter().filter(move |slice| slice.subject == subject);
        own.filter(move |slice| slice.requests > 0 && !(calm_only && has_waited(slice)))
    }

    /// Whether the block is disturbed so much that its weight is less than half.
    pub(crate) fn is_light(&self) -> bool {
        self.weight < 0.5
    }
}

/// Whether the load generator waited so long that the slice's rate means nothing.
fn has_waited(slice: &Slice) -> bool {
    slice.client_wait_share > MOST_WAITED
}

/// The figures of a subject in a block or a window.
pub(crate) type Figure = fn(&Sample) -> f64;

/// One measurement of a subject, in a slice or a window.
pub(crate) struct Sample {
    /// Correct replies.
    requests: f64,
    pub(crate) server_cpu_us: f64,
    pub(crate) client_cpu_us: f64,
    pub(crate) requests_per_second: f64,
    pub(crate) latency_us: Option<f64>,
}

impl Sample {
    fn of_slice(slice: &Slice) -> Self {
        let requests = slice.requests as f64;
        Self {
            requests,
            server_cpu_us: slice.server_cpu_us / requests,
            client_cpu_us: slice.client_cpu_us / requests,
            requests_per_second: slice.requests_per_second,
            latency_us: None,
        }
    }

    fn of_window(window: &Measured, metric: Metric) -> Self {
        Self {
            requests: window.requests as f64,
            server_cpu_us: window.server_cpu_us_per_request,
            client_cpu_us: 1e6 * window.client_cpu_share * window.window_seconds
                / window.requests as f64,
            requests_per_second: window.requests_per_second,
            latency_us: match metric {
                Metric::Latency(percentile) => Some(latency(&window.latency_us, percentile)),
                Metric::ServerCpu | Metric::Rate => None,
            },
        }
    }

    pub(crate) fn total(&self) -> f64 {
        self.server_cpu_us + self.client_cpu_us
    }
}

/// A percentile that results keep.
fn latency(latency: &Latency, percentile: &str) -> f64 {
    match percentile {
        "p50" => latency.p50,
        "p90" => latency.p90,
        "p99.9" => latency.p99_9,
        "max" => latency.max,
        _ => latency.p99,
    }
}

impl Metric {
    /// The fitted figure. A larger value is worse.
    pub(crate) fn figure(self) -> Figure {
        match self {
            Metric::ServerCpu => |sample| sample.server_cpu_us,
            Metric::Rate => |sample| 1.0 / sample.requests_per_second,
            Metric::Latency(_) => |sample| sample.latency_us.unwrap_or(f64::NAN),
        }
    }

    /// The mean of the fitted figures, in the unit of the report.
    pub(crate) fn told(self, fitted: f64) -> f64 {
        if self == Metric::Rate { 1.0 / fitted } else { fitted }
    }
}

impl<'a> Rounds<'a> {
    pub(crate) fn of(records: &'a Records, concurrency: usize) -> Self {
        let blocks: Vec<&Block> = records.blocks_at(concurrency);
        if !blocks.is_empty() {
            return Self::of_blocks(blocks);
        }
        let here = records.cells.iter().filter(|cell| cell.concurrency == concurrency);
        let cells: Vec<&Cell> = here.collect();
        let mut measured = BTreeSet::new();
        let mut kept: BTreeMap<usize, Vec<(&str, &Measured)>> = BTreeMap::new();
        for cell in cells {
            let Outcome::Measured(window) = &cell.outcome else { continue };
            let stolen = window.disturbance.as_ref().map_or(0.0, Disturbance::stolen);
            measured.insert(cell.repeat);
            if stolen <= MOST_STOLEN && window.invalid.is_empty() {
                kept.entry(cell.repeat).or_default().push((cell.subject.as_str(), &**window));
            }
        }
        let kept: Vec<_> = kept.into_values().filter(|round| round.len() > 1).collect();
        let dropped = measured.len() - kept.len();
        Rounds::Windows { kept, dropped }
    }

    fn of_blocks(blocks: Vec<&'a Block>) -> Self {
        let around = stolen_around(&blocks);
        let (mut kept, mut dropped) = (Vec::new(), Vec::new());
        for (block, around) in blocks.into_iter().zip(around) {
            if block.invalid.is_some() {
                dropped.push(block);
            } else {
                let stolen = block.disturbance.stolen().max(around);
                let weight = 1.0 / (1.0 + (stolen / MOST_STOLEN).powi(2));
                kept.push(Weighted { block, weight, calm_only: false });
            }
        }
        Rounds::Blocks { kept, dropped, waited: 0 }
    }

    /// The blocks before the `count`th of those that count, for a look at an earlier moment.
    pub(crate) fn first(mut self, count: usize) -> Self {
        if let Rounds::Blocks { kept, .. } = &mut self {
            kept.truncate(count);
        }
        self
    }

    /// The deciding metric, which is the same for all `candidates`.
    pub(crate) fn metric(
        &self,
        heading: &Heading,
        candidates: &[&str],
        network_sets_rate: bool,
    ) -> Metric {
        let design = &heading.design;
        if design.clients.pattern == "open" {
            let asked = heading.constraints.slo.first().map(|slo| slo.percentile.name());
            // On a shared machine, the hypervisor causes the tail of a short window. The tail
            // counts only if a limit names it.
            return Metric::Latency(asked.unwrap_or("p50"));
        }
        // The recording sets the rate of all subjects.
        if network_sets_rate || design.recording.is_some() {
            return Metric::ServerCpu;
        }
        let cpus = design.server_cpus.len().max(1) as f64;
        let most = |is_so: &dyn Fn(&str) -> bool| {
            2 * candidates.iter().filter(|name| is_so(name)).count() > candidates.len()
        };
        let free = most(&|name| !self.client_was_limit(name));
        // A server is not waiting either if other processes use its processor.
        let taken = self.taken_from_servers();
        let waits = |name: &str| self.server_share(name) + taken < BUSY;
        if free && (cpus > 1.0 || most(&waits)) { Metric::Rate } else { Metric::ServerCpu }
    }

    /// Rates mean nothing if the load generator had to wait. Processor times stay valid.
    pub(crate) fn without_waits(self, metric: Metric) -> Self {
        match self {
            Rounds::Blocks { mut kept, mut dropped, .. } if metric == Metric::Rate => {
                kept.iter_mut().for_each(|one| one.calm_only = true);
                let compares = |one: &Weighted<'_>| {
                    let calm = one.block.slices.iter().filter(|slice| !has_waited(slice));
                    let subjects: BTreeSet<&str> =
                        calm.map(|slice| slice.subject.as_str()).collect();
                    subjects.len() > 1
                };
                let (kept, waited): (Vec<_>, Vec<_>) = kept.into_iter().partition(compares);
                let count = waited.len();
                dropped.extend(waited.into_iter().map(|one| one.block));
                Rounds::Blocks { kept, dropped, waited: count }
            }
            other => other,
        }
    }

    /// The measurements of a subject in each round. Empty if the subject was not measured.
    fn samples(&self, subject: &str, metric: Metric) -> Vec<(usize, Vec<Sample>)> {
        match self {
            Rounds::Blocks { kept, .. } => kept
                .iter()
                .map(|one| (one.block.session, one.slices(subject).map(Sample::of_slice).collect()))
                .collect(),
            Rounds::Windows { kept, .. } => kept
                .iter()
                .enumerate()
                .map(|(number, round)| {
                    let own = round.iter().filter(|(name, _)| *name == subject);
                    (number, own.map(|(_, window)| Sample::of_window(window, metric)).collect())
                })
                .collect(),
        }
    }

    /// The mean logarithm of a figure in each round. A slice counts by its requests: a slice that
    /// had no processor for most of its time has few, and their figures say little.
    pub(crate) fn by_round(
        &self,
        subject: &str,
        metric: Metric,
        figure: Figure,
    ) -> Vec<(usize, Option<f64>)> {
        let mean = |samples: Vec<Sample>| {
            let sum: f64 = samples.iter().map(|one| one.requests * figure(one).ln()).sum();
            let requests: f64 = samples.iter().map(|one| one.requests).sum();
            Some(sum / requests).filter(|mean| mean.is_finite())
        };
        let samples = self.samples(subject, metric).into_iter();
        samples.map(|(session, samples)| (session, mean(samples))).collect()
    }

    pub(crate) fn observed(
        &self,
        subjects: &[&str],
        metric: Metric,
        figure: Figure,
    ) -> Vec<Observed> {
        let mut observed: Vec<Observed> = Vec::new();
        let weight = |place: usize| match self {
            Rounds::Blocks { kept, .. } => kept[place].weight,
            Rounds::Windows { .. } => 1.0,
        };
        for subject in subjects {
            for (place, (session, value)) in
                self.by_round(subject, metric, figure).into_iter().enumerate()
            {
                if observed.len() == place {
                    let weight = weight(place);
                    observed.push(Observed { session, values: Vec::new(), weight });
                }
                observed[place].values.push(value);
            }
        }
        observed
    }

    pub(crate) fn logarithms(&self, subject: &str, metric: Metric, figure: Figure) -> Vec<f64> {
        self.by_round(subject, metric, figure).into_iter().filter_map(|(_, value)| value).collect()
    }

    /// The geometric mean.
    pub(crate) fn mean(&self, subject: &str, metric: Metric, figure: Figure) -> f64 {
        let (mut sum, mut weights) = (0.0, 0.0);
        for (place, (_, value)) in self.by_round(subject, metric, figure).into_iter().enumerate() {
            let weight = match self {
                Rounds::Blocks { kept, .. } => kept[place].weight,
                Rounds::Windows { .. } => 1.0,
            };
            if let Some(value) = value {
                sum += weight * value;
                weights += weight;
            }
        }
        (sum / weights).exp()
    }

    /// The share of a processor that the server used, on average.
    fn server_share(&self, subject: &str) -> f64 {
        // Only the middle of a slice counts, because the load does not run at its beginning and
        // end.
        let under_way: fn(&Slice) -> f64 =
            |slice| slice.requests_per_second * slice.server_cpu_us / slice.requests as f64 / 1e6;
        self.share(subject, under_way, |window| window.server_cpu_share)
    }

    /// The share of the servers' processors that strangers and the hypervisor took, on average.
    fn taken_from_servers(&self) -> f64 {
        let Rounds::Blocks { kept, .. } = self else { return 0.0 };
        let of_servers = |one: &Weighted<'_>| {
            let processors =
                one.block.disturbance.processors.iter().filter(|cpu| cpu.is_of_servers);
            processors.map(|cpu| cpu.strangers + cpu.stolen).fold(0.0, f64::max)
        };
        let all: Vec<f64> = kept.iter().map(of_servers).collect();
        median(&all).unwrap_or(0.0)
    }

    pub(crate) fn client_was_limit(&self, subject: &str) -> bool {
        match self {
            Rounds::Blocks { .. } => {
                let busy: fn(&Slice) -> f64 = |slice| {
                    let each = slice.client_cpu_us / slice.requests as f64;
                    slice.requests_per_second * each / 1e6 + slice.client_wait_share
                };
                self.share(subject, busy, |window| window.client_cpu_share) >= BUSY
            }
            Rounds::Windows { kept, .. } => {
                let own = || kept.iter().flatten().filter(|(name, _)| *name == subject);
                2 * own().filter(|(_, window)| window.client_was_limit).count() > own().count()
            }
        }
    }

    fn share(
        &self,
        subject: &str,
        of_slice: fn(&Slice) -> f64,
        of_window: fn(&Measured) -> f64,
    ) -> f64 {
        let shares: Vec<f64> = match self {
            Rounds::Blocks { kept, .. } => {
                kept.iter().flat_map(|one| one.slices(subject)).map(of_slice).collect()
            }
            Rounds::Windows { kept, .. } => {
                let own = kept.iter().flatten().filter(|(name, _)| *name == subject);
                own.map(|(_, window)| of_window(window)).collect()
            }
        };
        median(&shares).unwrap_or(0.0)
    }
}

/// The number of blocks of a session that count with most of their weight, as far as is known
/// before the other sessions are measured.
pub fn sound(heading: &Heading, blocks: &[&Block]) -> usize {
    let subjects: BTreeSet<&str> =
        blocks.iter().flat_map(|block| &block.slices).map(|slice| slice.subject.as_str()).collect();
    let rounds = Rounds::of_blocks(blocks.to_vec());
    // Blocks do not show the effect of the network. Between hosts, the network may set the rate.
    let is_far = heading.design.topology.is_some();
    let metric = rounds.metric(heading, &subjects.into_iter().collect::<Vec<_>>(), is_far);
    match rounds.without_waits(metric) {
        Rounds::Blocks { kept, .. } => kept.iter().filter(|one| !one.is_light()).count(),
        Rounds::Windows { .. } => 0,
    }
}

/// The share of its most disturbed processor that the hypervisor took around each block, in the
/// order of measurement: within [`STEAL_AROUND`] seconds of it.
fn stolen_around(blocks: &[&Block]) -> Vec<f64> {
    let next_to =
        |one: &Block, other: &Block| (one.session, one.group) == (other.session, other.group);
    (0..blocks.len())
        .map(|place| {
            let mut around = vec![blocks[place]];
            for direction in [-1, 1] {
                let mut seconds = 0.0;
                let mut at = place;
                while seconds < STEAL_AROUND {
                    let Some(next) = at.checked_add_signed(direction) else { break };
                    let Some(block) =
                        blocks.get(next).filter(|block| next_to(block, blocks[place]))
                    else {
                        break;
                    };
                    seconds += block.disturbance.seconds;
                    around.push(block);
                    at = next;
                }
            }
            let seconds: f64 = around.iter().map(|block| block.disturbance.seconds).sum();
            let processors = blocks[place].disturbance.processors.len();
            let stolen = |cpu: usize| {
                let of = |block: &&&Block| {
                    let found = block.disturbance.processors.get(cpu);
                    found.map_or(0.0, |processor| processor.stolen) * block.disturbance.seconds
                };
                around.iter().map(|block| of(&block)).sum::<f64>()
            };
            (0..processors).map(stolen).fold(0.0, f64::max) / seconds.max(f64::MIN_POSITIVE)
        })
        .collect()
}

/// A rate and its 95 % confidence interval.
pub(crate) struct Rate {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Rate {
    pub(crate) fn of(logarithms: &[f64]) -> Self {
        let count = logarithms.len() as f64;
        let mean = logarithms.iter().sum::<f64>() / count;
        let squares: f64 = logarithms.iter().map(|value| (value - mean).powi(2)).sum();
        let half = if logarithms.len() < 3 {
            0.0
        } else {
            student_95(logarithms.len() - 1) * (squares / (count - 1.0) / count).sqrt()
        };
        Self { value: mean.exp(), low: (mean - half).exp(), high: (mean + half).exp() }
    }
}
