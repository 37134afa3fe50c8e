//! The verdict: at each number of connections, the subjects that cannot be told from the best, or
//! the reason why the verdict is withheld.
//!
//! [`verdicts`] is a pure function of the records. docs/method.md has the reasons and the evidence.
//! The steps:
//!
//! 1. *Candidates*: every architecture that was measured. A candidate is left out only for its own
//!    faults ([`Question::disqualified`]), never for the faults of another.
//! 2. *Metric*: one for all subjects at a number of connections ([`Metric`]). In an open loop the
//!    rate is given, so latency decides. In a closed loop, the server's processor time for each
//!    request decides. This time sets a busy server's rate, and is independent of the load
//!    generator's limits. The rate decides where most servers wait or use several processors, if
//!    neither the load generator nor the network ([`Network`]) is the limit.
//! 3. *Observations*: one logarithm for each subject and round (`rounds.rs`). A round is dropped if
//!    the hypervisor took more than a tenth of its time.
//! 4. *Test*: subjects are compared within rounds ([`Fit`]), by Tukey's studentized range with an
//!    error of 2.5 % for all numbers of connections together. The range allows for choosing the
//!    best first and comparing with it afterwards.
//! 5. *Work that moved*: over loopback, either end may do the kernel's work. The load generator's
//!    own time for a request may differ by more than a tenth. Then a subject is worse only if the
//!    time of server and load generator together is worse, too.
//! 6. *Certainty*: a subject that is put out of the best set is certain to be worse. Blocks may be
//!    few or noisy, because Tukey's range allows for few and noisy blocks. A [`Cause`] withholds
//!    the verdict if no subject is put out, or the range's own conditions do not hold.
//! 7. *Precision*: members of the best set may still differ. If the experiment could not have shown
//!    large differences between members, the verdict says why ([`Verdict::imprecise`]). Then it
//!    recommends none of several.

mod finding;

use std::collections::BTreeSet;

use crate::judge::alternatives::Alternative;
pub use crate::judge::alternatives::Told;
use crate::judge::blocks::Fit;
use crate::judge::network::Network;
use crate::judge::pairs::{Fits, Pair, Pairs};
pub use crate::judge::question::{FAMILY_ERROR, FEWEST_BLOCKS, FEWEST_SESSIONS, Question};
use crate::judge::race::{self, Lane, Out};
use crate::judge::rounds::{Figure, Rate, Rounds, Sample};
pub use crate::judge::rounds::{Metric, sound};
use crate::record::{Built, Disturbance, Measured, Outcome, Processor};

pub use finding::{Cause, Control, Evidence, Finding, Remedy, Standing, Verdict};

/// With fewer sessions or rounds, effects of chance and of a process's start cannot be told apart.
const FEWEST_TO_TELL: usize = 2;
/// Other processes that use more than this share of a processor are reported.
pub const MANY_STRANGERS: f64 = 0.10;
/// Above this critical difference, as a share, the verdict recommends none of several subjects.
/// Latencies differ by multiples, and have the next limit.
pub const COARSE: f64 = 0.15;
/// See [`COARSE`].
pub const COARSE_LATENCY: f64 = 1.0;

/// The verdict at each number of connections, in the order of the design.
pub fn verdicts(question: Question<'_>) -> Vec<Verdict> {
    let counts = &question.heading.design.concurrency;
    counts.iter().map(|&concurrency| Count::of(question, concurrency).verdict()).collect()
}

/// All data about one number of connections.
struct Count<'a> {
    question: Question<'a>,
    concurrency: usize,
    /// All subjects that are measured there: candidates first, then the others, and the control
    /// last.
    subjects: Vec<&'a str>,
    /// The number of subjects that can be chosen.
    candidates: usize,
    network: Option<Network>,
    metric: Metric,
    /// The observations, and the dropped ones.
    rounds: Rounds<'a>,
    /// The race, if the experiment was one.
    lane: Option<Lane>,
}

impl<'a> Count<'a> {
    fn of(question: Question<'a>, concurrency: usize) -> Self {
        let design = &question.heading.design;
        let measured = |name: &&str| {
            question.records.cells.iter().any(|cell| {
                cell.subject == **name
                    && cell.concurrency == concurrency
                    && matches!(cell.outcome, Outcome::Measured(_))
            })
        };
        let is_out = |name: &str| question.disqualified.contains(&(name.to_owned(), concurrency));
        let can_be_chosen = |name: &&str| design.can_be_chosen(name) && !is_out(name);
        let all = || design.subjects().filter(measured);
        let mut subjects: Vec<&str> = all().filter(can_be_chosen).collect();
        let candidates = subjects.len();
        subjects.extend(all().filter(|name| !can_be_chosen(name)));
        subjects.extend(design.control.as_deref().filter(measured));
        let rounds = Rounds::of(question.records, concurrency);
        let network = Network::of(question.records, concurrency, &subjects[..candidates]);
        let metric = rounds.metric(question.heading, &subjects[..candidates], network.is_some());
        let rounds = rounds.without_waits(metric);
        let lane = design.race.then(|| race::lane(question, concurrency));
        Self { question, concurrency, subjects, candidates, network, metric, rounds, lane }
    }

    fn verdict(&self) -> Verdict {
        let fits = self.fit(self.metric.figure()).map(|deciding| Fits {
            metric: self.metric,
            deciding,
            client: self.fit(|sample| sample.client_cpu_us),
            total: self.fit(Sample::total),
        });
        let mut verdict = Verdict {
            concurrency: self.concurrency,
            counted: self.question.heading.design.counted(),
            metric: self.metric,
            network: self.network,
            finding: Finding::NoDifference,
            standings: Vec::new(),
            others: Vec::new(),
            alternatives: Vec::new(),
            critical: None,
            imprecise: None,
            evidence: self.evidence(fits.as_ref().map(|fits| &fits.deciding)),
            control: None,
        };
        if let Some(fits) = &fits {
            self.rank(fits, &mut verdict);
        }
        let imprecise = self.imprecise(&verdict);
        let found = finding(&verdict.standings);
        let nothing = imprecise.clone().filter(|_| found == Finding::NoDifference);
        let cause = self.unsure(&verdict).or(nothing);
        verdict.finding = cause.map_or(found, |cause| Finding::Withheld { cause });
        verdict.imprecise = imprecise.filter(|_| verdict.tells_apart());
        verdict
    }

    /// The share of the family error that this number of connections has.
    fn alpha(&self) -> f64 {
        let whole = FAMILY_ERROR / self.question.heading.design.concurrency.len().max(1) as f64;
        // The looks of a race have the rest.
        if self.lane.is_some() { (1.0 - race::SHARE_OF_RACE) * whole } else { whole }
    }

    /// When a subject left the race, and why. `None` if it did not.
    fn out(&self, place: usize) -> Option<Out> {
        self.lane.as_ref()?.out(self.subjects[place]).copied()
    }

    /// Fits the logarithms of a figure of which larger values are worse.
    fn fit(&self, figure: Figure) -> Option<Fit> {
        Fit::of(&self.rounds.observed(&self.subjects, self.metric, figure))
    }

    /// The standings of all subjects, and the result of the control.
    fn rank(&self, fits: &Fits, verdict: &mut Verdict) {
        let effect = |place: &usize| fits.deciding.effect(*place);
        let usable = |range: std::ops::Range<usize>| -> Vec<usize> {
            let mut places: Vec<usize> = range.filter(|place| effect(place).is_some()).collect();
            places.sort_by(|one, other| effect(one).partial_cmp(&effect(other)).expect("finite"));
            places
        };
        let mut ranked = usable(0..self.candidates);
        // What left the race is worse for sure, whatever the few blocks of it say now.
        ranked.sort_by_key(|place| self.out(*place).is_some());
        let racing = ranked.iter().filter(|place| self.out(**place).is_none()).count();
        let Some(&best) = ranked.first() else { return };
        let all = Pairs::new(fits, Fit::family, racing, self.alpha());
        let standing = |place: usize| {
            let pair = all.pair(place, best);
            (pair.critical, self.standing(place, best, pair))
        };
        verdict.alternatives = self.alternatives(fits, &ranked);
        let ranked: Vec<(f64, Standing)> = ranked.into_iter().map(standing).collect();
        verdict.critical = critical_of(&ranked).map(f64::exp_m1);
        verdict.standings = ranked.into_iter().map(|(_, standing)| standing).collect();
        let design = &self.question.heading.design;
        let control = design.control.as_deref();
        let others = usable(self.candidates..self.subjects.len());
        verdict.others = others
            .into_iter()
            .filter(|place| Some(self.subjects[*place]) != control)
            .map(|place| standing(place).1)
            .collect();
        verdict.control = control.and_then(|again| {
            let original = design.original(again);
            let (one, other) = (self.place(original)?, self.place(again)?);
            Some(Control {
                subject: original.to_owned(),
                difference: fits.deciding.gap(other, one)?.exp_m1(),
                critical: all.critical(one, other).exp_m1(),
            })
        });
    }

    /// The index of a subject.
    fn place(&self, name: &str) -> Option<usize> {
        self.subjects.iter().position(|subject| *subject == name)
    }

    /// Compares each candidate with the subject that runs today, or each build with the first
    /// build under the same architecture. Empty if that subject is unknown or was not measured.
    fn alternatives(&self, fits: &Fits, ranked: &[usize]) -> Vec<Alternative> {
        let heading = self.question.heading;
        let Some(builds) = &heading.design.builds else {
            let current = heading.current().and_then(|name| self.place(name));
            let beside = |current| self.beside(fits, current, ranked, self.alpha());
            return current.map_or_else(Vec::new, beside);
        };
        // The comparisons of all architectures share the error.
        let alpha = self.alpha() / builds.groups().count() as f64;
        let of_group = |group: &[Built]| {
            let places = group.iter().filter_map(|built| self.place(&built.subject));
            let places: Vec<usize> = places.filter(|place| ranked.contains(place)).collect();
            let base = places.first().filter(|place| builds.is_base(self.subjects[**place]));
            base.map_or_else(Vec::new, |base| self.beside(fits, *base, &places, alpha))
        };
        builds.groups().flat_map(of_group).collect()
    }

    /// Compares each of `all` with `current`, with a joint error of `alpha`. Empty if `current` was
    /// not measured.
    fn beside(&self, fits: &Fits, current: usize, all: &[usize], alpha: f64) -> Vec<Alternative> {
        if fits.deciding.effect(current).is_none() {
            return Vec::new();
        }
        let others: Vec<usize> = all.iter().copied().filter(|place| *place != current).collect();
        let with_it = Pairs::new(fits, Fit::family_of_one, others.len() + 1, alpha);
        let alternative = |place: usize| {
            let (beside, against) = (with_it.pair(place, current), with_it.pair(current, place));
            Alternative::of(self.subjects[place], beside, against, self.question.heading.margin())
        };
        others.into_iter().map(alternative).collect()
    }

    fn standing(&self, place: usize, best: usize, pair: Pair) -> Standing {
        let Pair { behind, critical, level, work_moved } = pair;
        let subject = self.subjects[place];
        let mean = |figure: Figure| self.rounds.mean(subject, self.metric, figure);
        let out = self.out(place);
        // A subject may lack some blocks. The fit knows what it would have had in them.
        let figure = self.metric.figure();
        let value = self.rounds.mean(self.subjects[best], self.metric, figure) * behind.exp();
        let server_cpu_us = match self.metric {
            Metric::ServerCpu => value,
            Metric::Rate | Metric::Latency(_) => mean(|sample| sample.server_cpu_us),
        };
        let low = out.map_or(f64::NEG_INFINITY, |out| out.low).max((behind - critical).exp_m1());
        let rates =
            self.rounds.logarithms(subject, self.metric, |sample| sample.requests_per_second);
        let rate = Rate::of(&rates);
        let high = (behind + critical).exp_m1().max(low);
        let (level, work_moved) = (level && out.is_none(), work_moved && out.is_none());
        let told = match (level, work_moved) {
            (false, _) => Told::Worse,
            (true, true) => Told::WorkMoved,
            // A peer may be better than the best candidate.
            (true, false) if high < 0.0 => Told::Better,
            (true, false) => Told::within([low, high], self.question.heading.margin()),
        };
        Standing {
            subject: subject.to_owned(),
            value: self.metric.told(value),
            behind: behind.exp_m1(),
            low,
            high,
            level,
            told,
            server_cpu_us,
            client_cpu_us: mean(|sample| sample.client_cpu_us),
            rate: rate.value,
            rate_low: rate.low,
            rate_high: rate.high,
            at_least: self.rounds.client_was_limit(subject),
            work_moved,
            out,
        }
    }

    /// The reason to withhold the verdict, if any: there is nothing to compare, or the range does
    /// not hold.
    fn unsure(&self, verdict: &Verdict) -> Option<Cause> {
        if self.candidates < 2 && self.is_partial() && self.lacks_somebody() {
            return Some(Cause::Partial);
        }
        match self.subjects[..self.candidates] {
            [] => return Some(Cause::Nobody),
            [alone] => return Some(Cause::Alone { subject: alone.to_owned() }),
            _ => {}
        }
        // What is sure so far is said, if each candidate has taken part in it.
        if self.is_partial()
            && (verdict.evidence.sessions < FEWEST_TO_TELL || self.lacks_somebody())
        {
            return Some(Cause::Partial);
        }
        let all_are_compared = verdict.standings.len() == self.candidates;
        if verdict.evidence.sessions < FEWEST_TO_TELL || !all_are_compared {
            let few = Cause::FewBlocks { needed: needed(&verdict.evidence) };
            return Some(self.imprecise(verdict).unwrap_or(few));
        }
        verdict.control.as_ref().is_some_and(|control| !control.holds()).then_some(Cause::Control)
    }

    /// Whether the experiment is not complete.
    fn is_partial(&self) -> bool {
        !self.question.records.is_complete(&self.question.heading.design, self.concurrency)
    }

    /// Whether the records do not have any outcome of some subject yet.
    fn lacks_somebody(&self) -> bool {
        let cells = &self.question.records.cells;
        let here = |name: &str| {
            cells.iter().any(|cell| cell.concurrency == self.concurrency && cell.subject == name)
        };
        !self.question.heading.design.measured().all(here)
    }

    /// The reason why level subjects may differ by more than a reader would expect, if there is
    /// one.
    fn imprecise(&self, verdict: &Verdict) -> Option<Cause> {
        let evidence = &verdict.evidence;
        let coarse = match self.metric {
            Metric::Latency(_) => COARSE_LATENCY,
            Metric::ServerCpu | Metric::Rate => COARSE,
        };
        let needed = needed(evidence);
        if self.is_partial() {
            return Some(Cause::Partial);
        }
        if evidence.dropped > evidence.blocks {
            return Some(Cause::Disturbed);
        }
        // The range of a race holds with few blocks, too: tests/all/race.rs counts how often.
        let has_few = evidence.blocks < needed && !self.question.heading.design.race;
        if has_few || evidence.sessions < FEWEST_SESSIONS {
            return Some(Cause::FewBlocks { needed });
        }
        let mostly_disturbed = 2 * evidence.lighter > evidence.measured;
        let cause = if mostly_disturbed { Cause::Disturbed } else { Cause::Coarse };
        verdict.critical.is_none_or(|critical| critical > coarse).then_some(cause)
    }

    fn evidence(&self, fit: Option<&Fit>) -> Evidence {
        let design = &self.question.heading.design;
        let blocks = fit.map_or(0, Fit::blocks);
        let remedy = if design.race { Remedy::Time } else { Remedy::Repeats };
        match &self.rounds {
            Rounds::Windows { kept, dropped } => {
                let strangers = |round: &Vec<(&str, &Measured)>| {
                    let windows = round.iter().filter_map(|(_, cell)| cell.disturbance.as_ref());
                    windows.map(Disturbance::strangers).fold(0.0, f64::max)
                };
                let (with_strangers, strangers) = many(kept.iter().map(strangers));
                let windows =
                    || kept.iter().flatten().filter_map(|(_, cell)| cell.disturbance.as_ref());
                let is_throttled = |round: &Vec<(&str, &Measured)>| {
                    let mut windows =
                        round.iter().filter_map(|(_, cell)| cell.disturbance.as_ref());
                    windows.any(|found| found.quota.is_some())
                };
                Evidence {
                    blocks,
                    measured: kept.len() + dropped,
                    dropped: *dropped,
                    sessions: kept.len(),
                    groups: 1,
                    in_turn: true,
                    remedy,
                    with_strangers,
                    strangers,
                    host: noisiest(windows().flat_map(|found| &found.processors)),
                    throttled: kept.iter().filter(|round| is_throttled(round)).count(),
                    ..Evidence::default()
                }
            }
            Rounds::Blocks { kept, dropped, waited } => {
                let all = || kept.iter().map(|one| one.block).chain(dropped.iter().copied());
                let groups: BTreeSet<usize> = all().map(|block| block.group).collect();
                let sessions: BTreeSet<usize> = kept.iter().map(|one| one.block.session).collect();
                let processors = || all().flat_map(|block| &block.disturbance.processors);
                let worst = processors().max_by(|one, other| one.stolen.total_cmp(&other.stolen));
                let (with_strangers, strangers) =
                    many(all().map(|block| block.disturbance.strangers()));
                Evidence {
                    blocks,
                    measured: all().count(),
                    dropped: dropped.len(),
                    waited: *waited,
                    lighter: kept.iter().filter(|one| one.is_light()).count(),
                    // A race has no planned number.
                    again: match self.lane {
                        Some(_) => 0,
                        None => {
                            all().count().saturating_sub(design.planned_blocks() * groups.len())
                        }
                    },
                    sessions: sessions.len(),
                    groups: groups.len(),
                    in_turn: false,
                    remedy,
                    stolen: worst.map_or(0.0, |processor| processor.stolen),
                    stolen_cpu: worst.filter(|worst| worst.stolen > 0.0).map(|worst| worst.cpu),
                    with_strangers,
                    strangers,
                    host: noisiest(processors()),
                    throttled: all().filter(|block| block.disturbance.quota.is_some()).count(),
                }
            }
        }
    }
}

/// The host of the processor that lost the most to steal and strangers. `None` for this machine.
fn noisiest<'p>(processors: impl Iterator<Item = &'p Processor>) -> Option<String> {
    let taken = |processor: &Processor| processor.stolen + processor.strangers;
    processors.max_by(|one, other| taken(one).total_cmp(&taken(other)))?.host.clone()
}

/// The critical difference of a verdict, as a logarithm: the widest among the subjects that are
/// level with the best. A subject that is certain to be worse may have noise of its own, which says
/// nothing about the others. If all other subjects are worse, the narrowest, which has the pooled
/// noise.
fn critical_of(ranked: &[(f64, Standing)]) -> Option<f64> {
    let others = ranked.get(1..)?;
    let level = others.iter().filter(|(_, standing)| standing.level).map(|(critical, _)| *critical);
    let all = others.iter().map(|(critical, _)| *critical);
    level.max_by(f64::total_cmp).or_else(|| all.min_by(f64::total_cmp))
}

/// The number of blocks, or rounds, that a recommendation of one of several needs.
fn needed(evidence: &Evidence) -> usize {
    if evidence.in_turn { FEWEST_SESSIONS } else { FEWEST_BLOCKS }
}

/// The number of large shares, and the largest share.
fn many(shares: impl Iterator<Item = f64>) -> (usize, f64) {
    shares.fold((0, 0.0), |(count, most), share| {
        (count + usize::from(share > MANY_STRANGERS), f64::max(most, share))
    })
}

/// The finding if nothing forbids it.
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
