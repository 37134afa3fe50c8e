//! The verdict: which architectures cannot be told from the best, at each number of connections, or why nothing can be said.
//!
//! A pure function of the records; docs/method.md has the reasons and the evidence. In short:
//!
//! 1. *What is compared*: everything that can be chosen and was measured. Nobody is left out for what another did. Left out are
//!    those that [`Question::disqualified`] names, for what they themselves did.
//! 2. *By what* ([`Metric`]): one thing for all subjects at a number of connections. In an open loop, whose rate is given, the
//!    corrected latency. In a closed loop the server's processor time for each request, for that is what a busy server's rate comes
//!    from, and the load generator's limits are not in it; the rate only where most servers wait, or use several processors while the
//!    load generator is not the limit.
//! 3. *Observations*: logarithms, one for each subject and block: of the mean of its two slices, or of the window of a cell where
//!    servers were measured in turn. A block of which the hypervisor took more than a tenth is dropped.
//! 4. *Test*: means beside each other within blocks ([`Fit`]), and Tukey's studentized range at 2.5 % for all numbers of connections
//!    together. Picking the best and then comparing with it is what the range allows for.
//! 5. *Work that moved*: over loopback, kernel work may be done by either end. Where the load generator's own time for a request differs
//!    by more than a tenth, one is worse only if the time of both together is worse, too.
//! 6. *It says nothing* where a [`Cause`] forbids it.

use std::collections::{BTreeMap, BTreeSet};

use duality_load::Latency;
use serde::Serialize;

use crate::blocks::{Fit, Observed};
use crate::record::{Block, Cell, Experiment, Measured, Outcome, Records, Slice};
use crate::statistics::{median, student_95};

/// With which probability an experiment puts somebody out of a best set who belongs to it, over all numbers of connections.
pub const FAMILY_ERROR: f64 = 0.025;
/// Fewer blocks say nothing.
pub const FEWEST_BLOCKS: usize = 15;
/// Fewer sessions of fresh servers say nothing, and fewer rounds of windows where servers were measured in turn.
pub const FEWEST_SESSIONS: usize = 3;
/// Steal of more than this share of a processor spoils a block.
pub const MOST_STOLEN: f64 = 0.10;
/// Within so many seconds before and after it, too: steal is counted in ticks, and comes in spells.
const STEAL_AROUND: f64 = 0.6;
/// A load generator that had no processor for more than this share of a slice spoils rates.
const MOST_WAITED: f64 = 0.20;
/// Strangers that used more than this share of a processor are told.
pub const MANY_STRANGERS: f64 = 0.10;
/// Who uses less of its processor waits for something else. Not more, lest two busy ends of a pipeline, which wait for each other a
/// little, have the rate decide in one experiment and processor time in the next.
const BUSY: f64 = 0.80;
/// A load generator's time that differs by more than this share shows that work has moved.
const MOVED: f64 = 0.10;
/// Critical differences above this share are too coarse for a verdict; of latencies, which differ by multiples, above this one.
pub const COARSE: f64 = 0.15;
/// See [`COARSE`].
pub const COARSE_LATENCY: f64 = 1.0;

/// What a verdict is asked of.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// What was to be measured.
    pub experiment: &'a Experiment,
    /// What was.
    pub records: &'a Records,
    /// Who cannot be chosen at a number of connections for what it did there: replies were wrong, connections unserved, the listen
    /// queue was the limit, its cells are invalid, or it broke a constraint.
    pub disqualified: &'a BTreeSet<(String, usize)>,
}

/// The verdict at each number of connections, in the order of the design.
pub fn verdicts(question: Question<'_>) -> Vec<Verdict> {
    let counts = &question.experiment.design.concurrency;
    counts.iter().map(|&concurrency| Count::of(question, concurrency).verdict()).collect()
}

/// All that bears on one number of connections.
struct Count<'a> {
    question: Question<'a>,
    concurrency: usize,
    /// Everything that is measured there: what can be chosen first, then the others, and the control last.
    subjects: Vec<&'a str>,
    /// How many of them can be chosen.
    candidates: usize,
    metric: Metric,
    /// What was observed, and what is not counted.
    rounds: Rounds<'a>,
}

/// Blocks, or rounds of windows where servers were measured in turn.
enum Rounds<'a> {
    Blocks { kept: Vec<&'a Block>, dropped: Vec<&'a Block>, waited: usize },
    Windows { kept: Vec<Vec<(&'a str, &'a Measured)>>, dropped: usize },
}

/// What is looked at of a subject in a block or a window.
type Figure = fn(&Sample) -> f64;

/// One measurement of a subject, in a slice or a window.
struct Sample {
    server_cpu_us: f64,
    client_cpu_us: f64,
    requests_per_second: f64,
    latency_us: Option<f64>,
}

impl<'a> Count<'a> {
    fn of(question: Question<'a>, concurrency: usize) -> Self {
        let design = &question.experiment.design;
        let measured = |name: &&str| {
            question.records.cells.iter().any(|cell| {
                cell.subject == **name
                    && cell.concurrency == concurrency
                    && matches!(cell.outcome, Outcome::Measured(_))
            })
        };
        let is_out = |name: &str| question.disqualified.contains(&(name.to_owned(), concurrency));
        let can_be_chosen = |name: &&str| {
            design.architectures.iter().any(|own| own == name)
                && !design.is_yardstick(name)
                && !is_out(name)
        };
        let all = || design.subjects().filter(measured);
        let mut subjects: Vec<&str> = all().filter(can_be_chosen).collect();
        let candidates = subjects.len();
        subjects.extend(all().filter(|name| !can_be_chosen(name)));
        subjects.extend(design.control.as_deref().filter(measured));
        let rounds = Rounds::of(question.records, concurrency);
        let metric = rounds.metric(question.experiment, &subjects[..candidates]);
        let rounds = rounds.without_waits(metric);
        Self { question, concurrency, subjects, candidates, metric, rounds }
    }

    fn verdict(&self) -> Verdict {
        let fit = self.fit(self.metric.figure());
        let mut verdict = Verdict {
            concurrency: self.concurrency,
            metric: self.metric,
            finding: Finding::NoDifference,
            standings: Vec::new(),
            others: Vec::new(),
            critical: None,
            evidence: self.evidence(fit.as_ref()),
            control: None,
        };
        if let Some(fit) = &fit {
            self.rank(fit, &mut verdict);
        }
        verdict.finding = match self.withheld(&verdict) {
            Some(cause) => Finding::Withheld { cause },
            None => finding(&verdict.standings),
        };
        verdict
    }

    /// The share of the family error that this number of connections has.
    fn alpha(&self) -> f64 {
        FAMILY_ERROR / self.question.experiment.design.concurrency.len().max(1) as f64
    }

    /// Fits the logarithms of a figure; larger must be worse.
    fn fit(&self, figure: Figure) -> Option<Fit> {
        Fit::of(&self.rounds.observed(&self.subjects, self.metric, figure))
    }

    /// The standings of all, and what the control shows.
    fn rank(&self, fit: &Fit, verdict: &mut Verdict) {
        let effect = |place: &usize| fit.effect(*place);
        let usable = |range: std::ops::Range<usize>| -> Vec<usize> {
            let mut places: Vec<usize> = range.filter(|place| effect(place).is_some()).collect();
            places.sort_by(|one, other| effect(one).partial_cmp(&effect(other)).expect("finite"));
            places
        };
        let ranked = usable(0..self.candidates);
        let Some(&best) = ranked.first() else { return };
        let (client, total) = (self.fit(|sample| sample.client_cpu_us), self.fit(Sample::total));
        let gap = |fit: &Option<Fit>, one: usize, other: usize| {
            let fit = fit.as_ref()?;
            Some(fit.effect(one)? - fit.effect(other)?)
        };
        let count = ranked.len();
        let family = fit.family(count, self.alpha());
        let standing = |place: usize| {
            let behind = fit.effect(place).unwrap_or(0.0) - fit.effect(best).unwrap_or(0.0);
            let critical = if place == best { 0.0 } else { family.critical(place, best) };
            let worse = behind > critical;
            let moved = self.metric == Metric::ServerCpu
                && gap(&client, place, best).is_some_and(|gap| gap.exp_m1().abs() > MOVED);
            let total_is_worse = || {
                let family = total.as_ref().map(|fit| fit.family(count, self.alpha()));
                let critical = family.map(|family| family.critical(place, best));
                gap(&total, place, best).zip(critical).is_none_or(|(gap, critical)| gap > critical)
            };
            let work_moved = worse && moved && !total_is_worse();
            (critical, self.standing(place, behind, critical, !worse || work_moved, work_moved))
        };
        let ranked: Vec<(f64, Standing)> = ranked.into_iter().map(standing).collect();
        let widest = ranked.iter().map(|(critical, _)| *critical).fold(0.0, f64::max);
        verdict.critical = (count > 1).then(|| widest.exp_m1());
        verdict.standings = ranked.into_iter().map(|(_, standing)| standing).collect();
        let design = &self.question.experiment.design;
        let control = design.control.as_deref();
        let others = usable(self.candidates..self.subjects.len());
        verdict.others = others
            .into_iter()
            .filter(|place| Some(self.subjects[*place]) != control)
            .map(|place| standing(place).1)
            .collect();
        verdict.control = control.and_then(|again| {
            let place = |name: &str| self.subjects.iter().position(|subject| *subject == name);
            let original = design.original(again);
            let (one, other) = (place(original)?, place(again)?);
            Some(Control {
                subject: original.to_owned(),
                difference: (fit.effect(other)? - fit.effect(one)?).exp_m1(),
                critical: family.critical(one, other).exp_m1(),
            })
        });
    }

    fn standing(
        &self,
        place: usize,
        behind: f64,
        critical: f64,
        level: bool,
        work_moved: bool,
    ) -> Standing {
        let subject = self.subjects[place];
        let mean = |figure: Figure| self.rounds.mean(subject, self.metric, figure);
        let rates =
            self.rounds.logarithms(subject, self.metric, |sample| sample.requests_per_second);
        let rate = Rate::of(&rates);
        Standing {
            subject: subject.to_owned(),
            value: self.metric.told(mean(self.metric.figure())),
            behind: behind.exp_m1(),
            low: (behind - critical).exp_m1(),
            high: (behind + critical).exp_m1(),
            level,
            server_cpu_us: mean(|sample| sample.server_cpu_us),
            client_cpu_us: mean(|sample| sample.client_cpu_us),
            rate: rate.value,
            rate_low: rate.low,
            rate_high: rate.high,
            at_least: self.rounds.client_was_limit(subject),
            work_moved,
        }
    }

    /// Why nothing can be said, if so.
    fn withheld(&self, verdict: &Verdict) -> Option<Cause> {
        let evidence = &verdict.evidence;
        let needed = if evidence.in_turn { FEWEST_SESSIONS } else { FEWEST_BLOCKS };
        let coarse = match self.metric {
            Metric::Latency(_) => COARSE_LATENCY,
            Metric::ServerCpu | Metric::Rate => COARSE,
        };
        let told = |subject: &&str| Cause::Alone { subject: (*subject).to_owned() };
        match self.subjects[..self.candidates] {
            [] => return Some(Cause::Nobody),
            [alone] => return Some(told(&alone)),
            _ => {}
        }
        if !self.question.records.is_complete(&self.question.experiment.design, self.concurrency) {
            return Some(Cause::Partial);
        }
        if evidence.dropped > evidence.blocks {
            return Some(Cause::Disturbed);
        }
        if evidence.blocks < needed || evidence.sessions < FEWEST_SESSIONS {
            return Some(Cause::FewBlocks { needed });
        }
        if verdict.standings.len() < self.candidates {
            return Some(Cause::FewBlocks { needed });
        }
        if verdict.control.as_ref().is_some_and(|control| !control.holds()) {
            return Some(Cause::Control);
        }
        verdict.critical.is_none_or(|critical| critical > coarse).then_some(Cause::Coarse)
    }

    fn evidence(&self, fit: Option<&Fit>) -> Evidence {
        let design = &self.question.experiment.design;
        let blocks = fit.map_or(0, Fit::blocks);
        match &self.rounds {
            Rounds::Windows { kept, dropped } => {
                let all = kept.iter().flatten().filter_map(|(_, cell)| cell.disturbance.as_ref());
                let strangers = all.map(|found| found.strangers());
                let (with_strangers, strangers) = many(strangers);
                Evidence {
                    blocks,
                    dropped: *dropped,
                    sessions: kept.len(),
                    groups: 1,
                    in_turn: true,
                    with_strangers,
                    strangers,
                    ..Evidence::default()
                }
            }
            Rounds::Blocks { kept, dropped, waited } => {
                let all = || kept.iter().chain(dropped);
                let groups: BTreeSet<usize> = all().map(|block| block.group).collect();
                let sessions: BTreeSet<usize> = kept.iter().map(|block| block.session).collect();
                let worst = all().flat_map(|block| &block.disturbance.processors);
                let worst = worst.max_by(|one, other| one.stolen.total_cmp(&other.stolen));
                let (with_strangers, strangers) =
                    many(all().map(|block| block.disturbance.strangers()));
                Evidence {
                    blocks,
                    dropped: dropped.len(),
                    waited: *waited,
                    again: all().count().saturating_sub(design.planned_blocks() * groups.len()),
                    sessions: sessions.len(),
                    groups: groups.len(),
                    in_turn: false,
                    stolen: worst.map_or(0.0, |processor| processor.stolen),
                    stolen_cpu: worst.filter(|worst| worst.stolen > 0.0).map(|worst| worst.cpu),
                    with_strangers,
                    strangers,
                }
            }
        }
    }
}

/// How many of some shares are large, and the largest.
fn many(shares: impl Iterator<Item = f64>) -> (usize, f64) {
    shares.fold((0, 0.0), |(count, most), share| {
        (count + usize::from(share > MANY_STRANGERS), f64::max(most, share))
    })
}

/// What follows when nothing forbids it.
fn finding(standings: &[Standing]) -> Finding {
    let level: Vec<String> = standings
        .iter()
        .filter(|standing| standing.level)
        .map(|standing| standing.subject.clone())
        .collect();
    match level.as_slice() {
        [subject] => Finding::Best { subject: subject.clone() },
        all if all.len() == standings.len() => Finding::NoDifference,
        _ => Finding::Level { subjects: level },
    }
}

impl Sample {
    fn of_slice(slice: &Slice) -> Self {
        let requests = slice.requests as f64;
        Self {
            server_cpu_us: slice.server_cpu_us / requests,
            client_cpu_us: slice.client_cpu_us / requests,
            requests_per_second: slice.requests_per_second,
            latency_us: None,
        }
    }

    fn of_window(window: &Measured, metric: Metric) -> Self {
        Self {
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

    fn total(&self) -> f64 {
        self.server_cpu_us + self.client_cpu_us
    }
}

/// A percentile of those that results keep.
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
    /// What is fitted: larger is worse.
    fn figure(self) -> Figure {
        match self {
            Metric::ServerCpu => |sample| sample.server_cpu_us,
            Metric::Rate => |sample| 1.0 / sample.requests_per_second,
            Metric::Latency(_) => |sample| sample.latency_us.unwrap_or(f64::NAN),
        }
    }

    /// The mean of what is fitted, as it is told.
    fn told(self, fitted: f64) -> f64 {
        if self == Metric::Rate { 1.0 / fitted } else { fitted }
    }
}

impl<'a> Rounds<'a> {
    fn of(records: &'a Records, concurrency: usize) -> Self {
        let blocks: Vec<&Block> = records.blocks_at(concurrency);
        if !blocks.is_empty() {
            return Self::of_blocks(blocks);
        }
        let here = records.cells.iter().filter(|cell| cell.concurrency == concurrency);
        let cells: Vec<&Cell> = here.collect();
        let mut spoilt = BTreeSet::new();
        let mut kept: BTreeMap<usize, Vec<(&str, &Measured)>> = BTreeMap::new();
        for cell in cells {
            let Outcome::Measured(window) = &cell.outcome else { continue };
            let stolen = window.disturbance.as_ref().map_or(0.0, |found| found.stolen());
            if stolen > MOST_STOLEN || !window.invalid.is_empty() {
                spoilt.insert(cell.repeat);
            } else {
                kept.entry(cell.repeat).or_default().push((cell.subject.as_str(), &**window));
            }
        }
        let kept = kept.into_values().filter(|round| round.len() > 1).collect();
        Rounds::Windows { kept, dropped: spoilt.len() }
    }

    fn of_blocks(blocks: Vec<&'a Block>) -> Self {
        let disturbed = disturbed(&blocks);
        let (mut kept, mut dropped) = (Vec::new(), Vec::new());
        for (block, disturbed) in blocks.into_iter().zip(disturbed) {
            if disturbed { dropped.push(block) } else { kept.push(block) }
        }
        Rounds::Blocks { kept, dropped, waited: 0 }
    }

    /// What decides, for all of `candidates` the same.
    fn metric(&self, experiment: &Experiment, candidates: &[&str]) -> Metric {
        let design = &experiment.design;
        if design.clients.pattern == "open" {
            let asked = experiment.constraints.slo.first().map(|slo| slo.percentile.name());
            // The tail of a short window on a shared machine is the hypervisor's, unless somebody asks for it.
            return Metric::Latency(asked.unwrap_or("p50"));
        }
        let cpus = design.server_cpus.len().max(1) as f64;
        let most = |is_so: &dyn Fn(&str) -> bool| {
            2 * candidates.iter().filter(|name| is_so(name)).count() > candidates.len()
        };
        let free = most(&|name| !self.client_was_limit(name));
        // A server whose processor others use does not wait, either.
        let taken = self.taken_from_servers();
        let waits = |name: &str| self.server_share(name) + taken < BUSY;
        if free && (cpus > 1.0 || most(&waits)) { Metric::Rate } else { Metric::ServerCpu }
    }

    /// Rates are worth nothing where the load generator had to wait; processor times do not mind.
    fn without_waits(self, metric: Metric) -> Self {
        match self {
            Rounds::Blocks { kept, mut dropped, .. } if metric == Metric::Rate => {
                let calm = |block: &&Block| {
                    block.slices.iter().all(|slice| slice.client_wait_share <= MOST_WAITED)
                };
                let (kept, waited): (Vec<_>, Vec<_>) = kept.into_iter().partition(calm);
                let count = waited.len();
                dropped.extend(waited);
                Rounds::Blocks { kept, dropped, waited: count }
            }
            other => other,
        }
    }

    /// What was measured of a subject in each round; none where it was not.
    fn samples(&self, subject: &str, metric: Metric) -> Vec<(usize, Vec<Sample>)> {
        match self {
            Rounds::Blocks { kept, .. } => kept
                .iter()
                .map(|block| {
                    let own = block.slices.iter().filter(|slice| slice.subject == subject);
                    let own = own.filter(|slice| slice.requests > 0);
                    (block.session, own.map(Sample::of_slice).collect())
                })
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

    /// The mean logarithm of a figure in each round.
    fn by_round(&self, subject: &str, metric: Metric, figure: Figure) -> Vec<(usize, Option<f64>)> {
        let mean = |samples: Vec<Sample>| {
            let sum: f64 = samples.iter().map(|sample| figure(sample).ln()).sum();
            Some(sum / samples.len() as f64).filter(|mean| mean.is_finite())
        };
        let samples = self.samples(subject, metric).into_iter();
        samples.map(|(session, samples)| (session, mean(samples))).collect()
    }

    fn observed(&self, subjects: &[&str], metric: Metric, figure: Figure) -> Vec<Observed> {
        let mut observed: Vec<Observed> = Vec::new();
        for subject in subjects {
            for (place, (session, value)) in
                self.by_round(subject, metric, figure).into_iter().enumerate()
            {
                if observed.len() == place {
                    observed.push(Observed { session, values: Vec::new() });
                }
                observed[place].values.push(value);
            }
        }
        observed
    }

    fn logarithms(&self, subject: &str, metric: Metric, figure: Figure) -> Vec<f64> {
        self.by_round(subject, metric, figure).into_iter().filter_map(|(_, value)| value).collect()
    }

    /// The geometric mean.
    fn mean(&self, subject: &str, metric: Metric, figure: Figure) -> f64 {
        let all = self.logarithms(subject, metric, figure);
        (all.iter().sum::<f64>() / all.len() as f64).exp()
    }

    /// The share of a processor that the server used, on average.
    fn server_share(&self, subject: &str) -> f64 {
        // While it was under way: the beginning and the end of a slice are not.
        let under_way: fn(&Slice) -> f64 =
            |slice| slice.requests_per_second * slice.server_cpu_us / slice.requests as f64 / 1e6;
        self.share(subject, under_way, |window| window.server_cpu_share)
    }

    /// The share of the servers' processors that strangers and the hypervisor took, on average.
    fn taken_from_servers(&self) -> f64 {
        let Rounds::Blocks { kept, .. } = self else { return 0.0 };
        let of_servers = |block: &&Block| {
            let processors = block.disturbance.processors.iter().filter(|cpu| cpu.is_of_servers);
            processors.map(|cpu| cpu.strangers + cpu.stolen).fold(0.0, f64::max)
        };
        let all: Vec<f64> = kept.iter().map(of_servers).collect();
        median(&all).unwrap_or(0.0)
    }

    fn client_was_limit(&self, subject: &str) -> bool {
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
                let slices = kept.iter().flat_map(|block| &block.slices);
                let own = slices.filter(|slice| slice.subject == subject && slice.requests > 0);
                own.map(of_slice).collect()
            }
            Rounds::Windows { kept, .. } => {
                let own = kept.iter().flatten().filter(|(name, _)| *name == subject);
                own.map(|(_, window)| of_window(window)).collect()
            }
        };
        median(&shares).unwrap_or(0.0)
    }
}

/// How many of the blocks of a session count, as far as that can be known before the others are measured.
pub fn sound(experiment: &Experiment, blocks: &[&Block]) -> usize {
    let subjects: BTreeSet<&str> =
        blocks.iter().flat_map(|block| &block.slices).map(|slice| slice.subject.as_str()).collect();
    let rounds = Rounds::of_blocks(blocks.to_vec());
    let metric = rounds.metric(experiment, &subjects.into_iter().collect::<Vec<_>>());
    match rounds.without_waits(metric) {
        Rounds::Blocks { kept, .. } => kept.len(),
        Rounds::Windows { .. } => 0,
    }
}

/// Which of some blocks, in the order of measurement, the hypervisor spoilt: the steal within [`STEAL_AROUND`] seconds counts, too.
fn disturbed(blocks: &[&Block]) -> Vec<bool> {
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
            (0..processors).any(|cpu| {
                let stolen = |block: &&&Block| {
                    let found = block.disturbance.processors.get(cpu);
                    found.map_or(0.0, |processor| processor.stolen) * block.disturbance.seconds
                };
                around.iter().map(|block| stolen(&block)).sum::<f64>() > MOST_STOLEN * seconds
            })
        })
        .collect()
}

/// A rate and where it lies with 95 % confidence.
struct Rate {
    value: f64,
    low: f64,
    high: f64,
}

impl Rate {
    fn of(logarithms: &[f64]) -> Self {
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

/// What is best at a number of connections, as far as it can be told.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// How many connections were open at once.
    pub concurrency: usize,
    /// What decides here: for all subjects the same.
    pub metric: Metric,
    /// What follows.
    pub finding: Finding,
    /// All candidates that were measured, the best first.
    pub standings: Vec<Standing>,
    /// Everything else that was measured beside them, as it compares with the best candidate: peers, yardsticks, and those that are
    /// disqualified.
    pub others: Vec<Standing>,
    /// The critical difference: how much worse than the best one must be to be told from it, as a share (0.06 is 6 %). The
    /// largest, where it differs between candidates. None where there were too few blocks for any.
    pub critical: Option<f64>,
    /// What it rests on.
    pub evidence: Evidence,
    /// What the A/A control shows: one server under two names; none without a control.
    pub control: Option<Control>,
}

/// What decides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// The server's processor time for each request, in microseconds: where servers are busy.
    ServerCpu,
    /// Correct replies a second: where servers wait, or use several processors.
    Rate,
    /// The corrected latency at this percentile, in microseconds: where the rate is given (an open loop).
    Latency(&'static str),
}

/// What can be said at a number of connections.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "finding", rename_all = "kebab-case")]
pub enum Finding {
    /// This one is better than all others.
    Best {
        /// Its name.
        subject: String,
    },
    /// These cannot be told from the best; all others can.
    Level {
        /// Their names, the best first; at least two.
        subjects: Vec<String>,
    },
    /// No two candidates can be told apart from the best: no difference above the critical one.
    NoDifference,
    /// Nothing can be said.
    Withheld {
        /// Why.
        cause: Cause,
    },
}

/// Why nothing can be said.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "cause", rename_all = "kebab-case")]
pub enum Cause {
    /// No candidate was measured: each is unavailable, failed, invalid, or broke a constraint.
    Nobody,
    /// One candidate is left, and there is nobody to compare it with.
    Alone {
        /// Its name.
        subject: String,
    },
    /// The experiment is not complete.
    Partial,
    /// Fewer blocks than it takes.
    FewBlocks {
        /// How many it takes.
        needed: usize,
    },
    /// More than half of the blocks were dropped.
    Disturbed,
    /// The A/A control differs from itself.
    Control,
    /// Only differences that nobody would overlook could be told.
    Coarse,
}

/// A candidate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// Its name.
    pub subject: String,
    /// Its geometric mean over the blocks, in the metric's unit.
    pub value: f64,
    /// By how much it is worse than the best, as a share: 0.06 is 6 %; 0 of the best.
    pub behind: f64,
    /// The simultaneous interval of that: it contains 0 of those that cannot be told from the best.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// Whether it cannot be told from the best.
    pub level: bool,
    /// The server's processor time for each request, in microseconds.
    pub server_cpu_us: f64,
    /// The load generator's processor time for each request, in microseconds.
    pub client_cpu_us: f64,
    /// Correct replies a second, with 95 % confidence in `rate_low` to `rate_high`.
    pub rate: f64,
    /// The lower end.
    pub rate_low: f64,
    /// The upper end.
    pub rate_high: f64,
    /// Whether the load generator was the limit, so that the rate is at least that.
    pub at_least: bool,
    /// Whether it is level only since the load generator's own time differs so much that work must have moved between the two.
    pub work_moved: bool,
}

/// What a verdict rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Evidence {
    /// Blocks that count.
    pub blocks: usize,
    /// Blocks that were dropped: for steal, or since the load generator had no processor and the rate decides.
    pub dropped: usize,
    /// Those of them that were dropped for the load generator's waits.
    pub waited: usize,
    /// Blocks that were measured beyond those that were planned, in place of dropped ones.
    pub again: usize,
    /// Sessions, each with fresh servers.
    pub sessions: usize,
    /// Groups of servers that were measured apart, each with one that is in all; 1 where all were alive side by side.
    pub groups: usize,
    /// Whether a block is a round of windows, one server after the other, and not of slices side by side.
    pub in_turn: bool,
    /// The largest share of a processor that the hypervisor took in any block that was dropped or counted.
    pub stolen: f64,
    /// The processor that it took it from.
    pub stolen_cpu: Option<usize>,
    /// In how many blocks strangers used more than a tenth of a processor, and how much at most.
    pub with_strangers: usize,
    /// The most that they used, as a share of a processor.
    pub strangers: f64,
}

/// The A/A control.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Control {
    /// The architecture that was measured twice.
    pub subject: String,
    /// By how much the second is worse than the first, as a share; negative when better.
    pub difference: f64,
    /// How large a difference chance makes at most.
    pub critical: f64,
}

impl Control {
    /// Whether the two are level, as they must be.
    pub fn holds(&self) -> bool {
        self.difference.abs() <= self.critical
    }
}
