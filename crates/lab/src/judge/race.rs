//! The race: which subjects are out of the question after some blocks, so that their time goes to
//! the others.
//!
//! ```text
//!   look    1        2          3 …            at 3, 5, 8, 12, 18 … blocks of a load
//!   blocks  ├── all ─┤─ fewer ──┤─ contenders ─┤
//!                    └ worse for sure: out, kept with what was seen
//! ```
//!
//! - A *look* judges the blocks so far by the verdict's own test ([`Fit`]): Tukey's range within
//!   blocks. The variance between sessions and work that moved are in it.
//!
//! - Looking often finds chance differences more often. So the looks share one error. Look `j` has
//!   the part `1 / (j (j + 1))` of it, and all parts add up to 1. What a look says is true at all
//!   looks together, whenever the experiment ends. The numbers of blocks grow by half from look to
//!   look, so that there are few. The method is called stitching (Howard, Ramdas, McAuliffe and
//!   Sekhon, *Annals of Statistics* 49, 2021).
//!
//! - The race has half of the error of its load. The verdict at the end has the other half.
//!
//! - Before a second session, a subject is out only if it is worse by more than
//!   [`OF_A_PROCESS`]. One process of a server may be slower than the next one, and one session does
//!   not show by how much. A session that has just begun does not count yet.
//!
//! - The race is a function of the records: it is run again for each look. So a subject that was
//!   put out by another one comes back if that other one turns out to fail.
//!
//! [`sequential`](super::sequential) needs no assumption on the noise, but 16 blocks before it can
//! put out the first of ten subjects, at any distance. A race has so many blocks in all. The test
//! of this module counts on recorded noise how often the race is wrong.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use crate::judge::blocks::Fit;
use crate::judge::pairs::{Fits, Pairs};
use crate::judge::question::{FAMILY_ERROR, FEWEST_BLOCKS, FEWEST_SESSIONS, Question};
use crate::judge::rounds::{Metric, Rounds, Sample};
use crate::record::{Cell, Outcome, Records};

/// The number of blocks at the first look.
const FIRST_LOOK: usize = 3;

/// What chance at the start of a process does not do. In the kept runs, processes of one server
/// differ by a standard deviation of 1.4 % in the median and up to 11 %.
pub const OF_A_PROCESS: f64 = 0.50;

/// The critical difference at which a load has enough blocks for now. Other loads come first.
const FINE: f64 = 0.10;

/// The most blocks of a session. Processes differ, so a longer session of one process tells less
/// than two sessions. If processes differ by a fifth of what blocks do, ten blocks tell most for
/// the time of a session with its windows.
pub const BLOCKS_OF_A_SESSION: usize = 10;

/// The blocks of a session of a load that is told.
pub const BLOCKS_OF_A_TOLD_SESSION: usize = FEWEST_BLOCKS.div_ceil(FEWEST_SESSIONS);

/// The share of a load's error that the race has. The verdict at the end has the rest.
pub const SHARE_OF_RACE: f64 = 0.5;

/// A comparison of two subjects.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    /// The difference by which the first subject is worse, as a logarithm.
    pub behind: f64,
    /// The largest difference that chance makes, as a logarithm.
    pub critical: f64,
    /// Whether the first subject is worse for sure.
    pub is_worse: bool,
}

/// What a look compares.
pub trait Compared {
    /// The effect of a subject. `None` if it cannot be compared.
    fn effect(&self, place: usize) -> Option<f64>;
    /// How much `one` is worse than `other`, in a family of `count` subjects with a joint error.
    fn gap(&self, one: usize, other: usize, count: usize, alpha: f64) -> Gap;
}

impl Compared for Fit {
    fn effect(&self, place: usize) -> Option<f64> {
        Fit::effect(self, place)
    }

    fn gap(&self, one: usize, other: usize, count: usize, alpha: f64) -> Gap {
        let behind = Fit::gap(self, one, other).unwrap_or(0.0);
        let critical = self.family(count, alpha).critical(one, other);
        Gap { behind, critical, is_worse: behind > critical }
    }
}

impl Compared for Fits {
    fn effect(&self, place: usize) -> Option<f64> {
        self.deciding.effect(place)
    }

    fn gap(&self, one: usize, other: usize, count: usize, alpha: f64) -> Gap {
        let pair = Pairs::new(self, Fit::family, count, alpha).pair(one, other);
        Gap { behind: pair.behind, critical: pair.critical, is_worse: !pair.level }
    }
}

/// When a subject went out, and how much worse it was.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Out {
    /// The number of blocks of the load at this look.
    pub blocks: usize,
    /// The number of sessions of the load at this look.
    pub sessions: usize,
    /// The share by which the subject was worse than the best: 0.5 is 50 %.
    pub behind: f64,
    /// The least share, for sure.
    pub low: f64,
}

/// How a contender stands at a look. What is said of all looks together is true.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distance {
    /// The share by which the contender is worse than the best: 0.5 is 50 %. 0 for the best.
    pub behind: f64,
    /// The ends of its interval.
    pub low: f64,
    /// See `low`.
    pub high: f64,
}

impl Distance {
    const BEST: Self = Self { behind: 0.0, low: 0.0, high: 0.0 };

    fn of(gap: &Gap) -> Self {
        Self {
            behind: gap.behind.exp_m1(),
            low: (gap.behind - gap.critical).exp_m1(),
            high: (gap.behind + gap.critical).exp_m1(),
        }
    }
}

/// The race at one load. It looks again and again, at more and more blocks.
#[derive(Clone, Debug)]
pub struct Race {
    /// The number of subjects, of which the first can be chosen.
    subjects: usize,
    candidates: usize,
    alpha: f64,
    /// Contenders that differ by less than this share for sure are as good as one another.
    margin: f64,
    looks: usize,
    out: Vec<Option<Out>>,
    /// The standings at the last look. `None` for what is out, and for what cannot be compared.
    standings: Vec<Option<Distance>>,
    best: Option<usize>,
    critical: Option<f64>,
    spread: Option<f64>,
}

impl Race {
    /// A race of `subjects`, the first `candidates` of which can be chosen. The error of all looks
    /// together is `alpha`. Contenders within `margin` are as good as one another.
    pub fn new(subjects: usize, candidates: usize, alpha: f64, margin: f64) -> Self {
        Self {
            subjects,
            candidates,
            alpha,
            margin,
            looks: 0,
            out: vec![None; subjects],
            standings: vec![None; subjects],
            best: None,
            critical: None,
            spread: None,
        }
    }

    /// Looks at `blocks` blocks of `sessions` sessions. Subjects for which `stays` holds are never
    /// put out.
    pub fn look(
        &mut self,
        compared: &dyn Compared,
        blocks: usize,
        sessions: usize,
        stays: &dyn Fn(usize) -> bool,
    ) {
        self.looks += 1;
        let alpha = self.alpha / (self.looks * (self.looks + 1)) as f64;
        let effect = |place: &usize| compared.effect(*place);
        let best = (0..self.candidates)
            .filter(|place| self.out[*place].is_none())
            .filter(|place| effect(place).is_some())
            .min_by(|one, other| effect(one).partial_cmp(&effect(other)).expect("finite"));
        self.best = best;
        self.standings.fill(None);
        let Some(best) = best else { return };
        self.standings[best] = Some(Distance::BEST);
        // What is out is worse for sure, so the range is that of the others (a step-down test).
        let racing = self.out.iter().filter(|out| out.is_none()).count();
        let least = if sessions < 2 { OF_A_PROCESS.ln_1p() } else { 0.0 };
        let (mut critical, mut spread): (f64, f64) = (0.0, 0.0);
        for place in (0..self.subjects).filter(|place| *place != best) {
            if self.out[place].is_some() || effect(&place).is_none() {
                continue;
            }
            let gap = compared.gap(place, best, racing, alpha);
            self.standings[place] = Some(Distance::of(&gap));
            let low = gap.behind - gap.critical;
            if gap.is_worse && low > least && !stays(place) {
                let (behind, low) = (gap.behind.exp_m1(), low.exp_m1());
                self.out[place] = Some(Out { blocks, sessions, behind, low });
                self.standings[place] = None;
            } else if place < self.candidates {
                critical = critical.max(gap.critical);
                if !(gap.is_worse && stays(place)) {
                    spread = spread.max(gap.behind + gap.critical);
                }
            }
        }
        let contends = |place: usize| self.out[place].is_none() && effect(&place).is_some();
        let is_behind = |place: &usize| {
            *place != best && stays(*place) && compared.gap(*place, best, racing, alpha).is_worse
        };
        let left = (0..self.candidates).filter(|place| contends(*place) && !is_behind(place));
        let is_sole = left.count() == 1;
        self.critical = (!is_sole).then(|| critical.exp_m1());
        self.spread = Some(if is_sole { 0.0 } else { spread.exp_m1() });
    }

    /// The subjects that are out, and since when.
    pub fn out(&self) -> &[Option<Out>] {
        &self.out
    }

    /// How each subject stands at the last look.
    pub fn standings(&self) -> &[Option<Distance>] {
        &self.standings
    }

    /// Whether each subject has further blocks, after `sessions` sessions. The next best one goes
    /// on beside a sole contender, until there are as many sessions as a verdict needs.
    pub fn goes_on(&self, sessions: usize) -> Vec<bool> {
        let mut goes_on: Vec<bool> = self.out.iter().map(Option::is_none).collect();
        let candidates = &self.out[..self.candidates];
        if candidates.iter().filter(|out| out.is_none()).count() == 1 && sessions < FEWEST_SESSIONS
        {
            let behind = |place: usize| self.out[place].map_or(f64::INFINITY, |out| out.behind);
            let out = (0..self.candidates).filter(|place| self.out[*place].is_some());
            if let Some(next) = out.min_by(|one, other| behind(*one).total_cmp(&behind(*other))) {
                goes_on[next] = true;
            }
        }
        goes_on
    }

    /// The largest critical difference among the contenders, as a share, at the last look. `None`
    /// before any look, and with one contender.
    pub fn critical(&self) -> Option<f64> {
        self.critical
    }

    /// Whether more blocks of the same sessions change nothing: one contender is left, or all of
    /// them differ by less than the margin for sure.
    pub fn is_told(&self) -> bool {
        self.spread.is_some_and(|spread| spread <= self.margin)
    }

    /// How many times as many blocks as at the last look make small differences seen.
    pub fn wanted(&self) -> f64 {
        match self.critical {
            _ if self.is_told() => 1.0,
            Some(critical) => (critical.ln_1p() / FINE.ln_1p()).powi(2).clamp(1.0, 16.0),
            None => 4.0,
        }
    }
}

/// The number of blocks at the look after one at `blocks` blocks, or at the first look.
pub fn next_look(blocks: usize) -> usize {
    if blocks < FIRST_LOOK { FIRST_LOOK } else { blocks + blocks.div_ceil(2).max(2) }
}

/// The number of sessions that tell how much processes differ, given the session of each block. A
/// session that has just begun tells little.
pub fn sessions(blocks: impl Iterator<Item = usize>) -> usize {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    blocks.for_each(|session| *counts.entry(session).or_default() += 1);
    let most = counts.values().copied().max().unwrap_or(0);
    counts.values().filter(|count| 3 * **count >= most).count()
}

/// The numbers of blocks of all looks up to `blocks`.
pub fn looks(blocks: usize) -> impl Iterator<Item = usize> {
    let all = std::iter::successors(Some(FIRST_LOOK), |last| Some(next_look(*last)));
    all.take_while(move |look| *look <= blocks)
}

/// The state of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Lane {
    /// The number of connections.
    pub concurrency: usize,
    /// The subjects that go on, in the order of the design.
    pub goes_on: Vec<String>,
    /// The subjects that are out, with when and why.
    pub out: Vec<(String, Out)>,
    /// The contenders, with how they stand at the last look.
    pub standings: Vec<(String, Distance)>,
    /// The number of blocks that count.
    pub blocks: usize,
    /// The number of sessions that count. One that has just begun does not.
    pub sessions: usize,
    /// The last session with a block.
    pub last_session: Option<usize>,
    /// The largest critical difference among the contenders, as a share.
    pub critical: Option<f64>,
    /// Whether more blocks of the same processes change nothing.
    pub is_told: bool,
    /// How many times as many blocks make small differences seen.
    pub wanted: f64,
}

impl Lane {
    /// Whether the load needs nothing more: told, in as many sessions as a verdict needs.
    pub fn is_answered(&self) -> bool {
        self.is_told && self.sessions >= FEWEST_SESSIONS
    }

    /// Whether a subject is out of the race.
    pub fn is_out(&self, subject: &str) -> bool {
        self.out(subject).is_some()
    }

    /// When a subject went out, and why.
    pub fn out(&self, subject: &str) -> Option<&Out> {
        self.out.iter().find(|(name, _)| name == subject).map(|(_, out)| out)
    }
}

/// The race at a number of connections, by the records so far. Everyone goes on in an experiment
/// that is no race.
pub fn lane(question: Question<'_>, concurrency: usize) -> Lane {
    let Question { heading, records, disqualified } = question;
    let design = &heading.design;
    let rounds = || Rounds::of(records, concurrency);
    let (mut present, mut blocks, mut sessions) = (BTreeSet::new(), 0, 0);
    let last_session = records.blocks_at(concurrency).iter().map(|block| block.session).max();
    if let Rounds::Blocks { kept, .. } = rounds() {
        blocks = kept.len();
        sessions = self::sessions(kept.iter().map(|one| one.block.session));
        present = kept.iter().flat_map(|one| &one.block.slices).map(|one| &*one.subject).collect();
    }
    let is_out = |name: &&str| disqualified.contains(&((*name).to_owned(), concurrency));
    let can_be_chosen = |name: &&str| design.can_be_chosen(name) && !is_out(name);
    let measured = || design.measured().filter(|name| present.contains(name));
    let mut subjects: Vec<&str> = measured().filter(can_be_chosen).collect();
    let candidates = subjects.len();
    subjects.extend(measured().filter(|name| !can_be_chosen(name)));
    let loads = design.concurrency.len().max(1) as f64;
    let alpha = SHARE_OF_RACE * FAMILY_ERROR / loads;
    let mut race = Race::new(subjects.len(), candidates, alpha, heading.margin());
    // What runs today is compared with each candidate.
    let stays = |place: usize| heading.current() == Some(subjects[place]);
    for look in looks(blocks).filter(|_| design.race) {
        let rounds = rounds().first(look);
        let sessions = match &rounds {
            Rounds::Blocks { kept, .. } => self::sessions(kept.iter().map(|one| one.block.session)),
            Rounds::Windows { .. } => 0,
        };
        let metric = rounds.metric(heading, &subjects[..candidates], false);
        let rounds = rounds.without_waits(metric);
        if let Some(fits) = fits(&rounds, &subjects, metric) {
            race.look(&fits, look, sessions, &stays);
        }
    }
    let out = subjects.iter().zip(race.out());
    let out: Vec<(String, Out)> =
        out.filter_map(|(name, out)| Some(((*name).to_owned(), (*out)?))).collect();
    let standings = subjects.iter().zip(race.standings());
    let standings = standings.filter_map(|(name, own)| Some(((*name).to_owned(), (*own)?)));
    let standings: Vec<(String, Distance)> = standings.collect();
    let rests = race.goes_on(sessions);
    let rests: BTreeSet<&str> =
        subjects.iter().zip(rests).filter(|(_, goes_on)| !goes_on).map(|(name, _)| *name).collect();
    let goes_on = design.measured().filter(|name| {
        let is_gone = design.race && never_ran(records, name, concurrency);
        !is_gone && !rests.contains(name)
    });
    Lane {
        concurrency,
        goes_on: goes_on.map(str::to_owned).collect(),
        blocks,
        sessions,
        last_session,
        critical: race.critical(),
        is_told: race.is_told(),
        wanted: race.wanted(),
        out,
        standings,
    }
}

/// Whether a subject failed whenever it was tried at a number of connections. It is not tried in
/// each session again.
fn never_ran(records: &Records, name: &str, concurrency: usize) -> bool {
    let own = |cell: &&Cell| cell.concurrency == concurrency && cell.subject == name;
    let mut cells = records.cells.iter().filter(own).peekable();
    cells.peek().is_some() && cells.all(|cell| matches!(cell.outcome, Outcome::Failed { .. }))
}

fn fits(rounds: &Rounds<'_>, subjects: &[&str], metric: Metric) -> Option<Fits> {
    let fit = |figure| Fit::of(&rounds.observed(subjects, metric, figure));
    Some(Fits {
        metric,
        deciding: fit(metric.figure())?,
        client: fit(|sample| sample.client_cpu_us),
        total: fit(Sample::total),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::MARGIN;

    /// Subjects that lie at these logarithms, and differences that are sure beyond `critical`.
    struct Sure<'a> {
        effects: &'a [f64],
        critical: f64,
    }

    impl Compared for Sure<'_> {
        fn effect(&self, place: usize) -> Option<f64> {
            Some(self.effects[place])
        }

        fn gap(&self, one: usize, other: usize, _count: usize, _alpha: f64) -> Gap {
            let behind = self.effects[one] - self.effects[other];
            Gap { behind, critical: self.critical, is_worse: behind > self.critical }
        }
    }

    #[test]
    fn looks_come_at_growing_numbers_of_blocks() {
        assert_eq!(looks(30).collect::<Vec<_>>(), [3, 5, 8, 12, 18, 27]);
        assert_eq!(looks(2).count(), 0);
        assert_eq!((next_look(0), next_look(3), next_look(27)), (3, 5, 41));
    }

    #[test]
    fn the_looks_share_one_error() {
        use std::cell::RefCell;
        struct Noted(RefCell<Vec<f64>>);
        impl Compared for Noted {
            fn effect(&self, place: usize) -> Option<f64> {
                Some(place as f64)
            }
            fn gap(&self, _one: usize, _other: usize, _count: usize, alpha: f64) -> Gap {
                self.0.borrow_mut().push(alpha);
                Gap { behind: 0.0, critical: 1.0, is_worse: false }
            }
        }
        let noted = Noted(RefCell::new(Vec::new()));
        let mut race = Race::new(2, 2, 0.01, MARGIN);
        (1..=1000).for_each(|look| race.look(&noted, look, 3, &|_| false));
        let spent: f64 = noted.0.borrow().iter().sum();
        assert!(spent < 0.01 && spent > 0.0099, "{spent}");
    }

    #[test]
    fn contenders_have_intervals_that_contain_what_was_seen() {
        let mut race = Race::new(3, 3, 0.01, MARGIN);
        let sure = Sure { effects: &[0.0, 0.1, 2.0], critical: 0.2 };
        race.look(&sure, 3, 2, &|_| false);
        let [Some(best), Some(second), None] = race.standings() else { panic!("{race:?}") };
        assert_eq!(*best, Distance::BEST);
        assert!(second.low < 0.0 && second.low < second.behind && second.behind < second.high);
        assert!((second.high - 0.3_f64.exp_m1()).abs() < 1e-12, "{second:?}");
    }

    #[test]
    fn a_session_that_has_just_begun_does_not_count() {
        assert_eq!(sessions([0; 9].into_iter()), 1);
        assert_eq!(sessions([0, 0, 0, 0, 0, 0, 1].into_iter()), 1);
        assert_eq!(sessions([0, 0, 0, 0, 0, 0, 1, 1].into_iter()), 2);
        assert_eq!(sessions([].into_iter()), 0);
    }

    #[test]
    fn a_load_is_told_when_one_is_left_or_all_that_are_left_are_as_good() {
        let look = |effects: &[f64], critical: f64, sessions: usize| {
            let mut race = Race::new(effects.len(), effects.len(), 0.01, MARGIN);
            race.look(&Sure { effects, critical }, 3, sessions, &|_| false);
            race
        };
        let sole = look(&[0.0, 0.3], 0.1, 2);
        assert!(sole.is_told() && sole.critical().is_none());
        // One session may only show one process.
        assert!(!look(&[0.0, 0.3], 0.1, 1).is_told());
        assert!(look(&[0.0, 0.6], 0.1, 1).is_told());
        assert!(look(&[0.0, 0.01], 0.03, 3).is_told());
        let coarse = look(&[0.0, 0.01], 0.2, 3);
        assert!(!coarse.is_told() && coarse.wanted() > 3.0);
        assert!(!Race::new(2, 2, 0.01, MARGIN).is_told(), "nothing is told before a look");
    }
}
