//! Makes a failing run small: sets decisions to 0, the tame one, while the run still fails.
//!
//! What is shrunk is the list of decisions and not the program, as Hypothesis does (MacIver &
//! Donaldson 2020). The parts of the list are halved, as in delta debugging (Zeller 2002).

use std::fmt;
use std::time::{Duration, Instant};

use crate::decisions::{Decision, Script};
use crate::driver::{Outcome, Plan};

/// The most runs, and the longest real time.
const RUNS: usize = 600;
const TIME: Duration = Duration::from_secs(30);
/// The lines of a story that are shown, from its beginning and its end.
const FIRST: usize = 12;
const LAST: usize = 40;

/// A failure made small.
#[derive(Debug)]
pub struct Shrunk {
    /// The decisions that were not tame, before and after.
    pub decisions: (usize, usize),
    /// The number of runs that it took.
    pub runs: usize,
    /// Why the small run fails.
    pub why: String,
    /// The virtual time of its failure.
    pub time: Duration,
    /// What happened, line by line.
    pub story: Vec<String>,
}

/// A failure without its numbers: another value or another member is the same failure.
fn shape(why: &str) -> String {
    why.chars().filter(|c| !c.is_ascii_digit()).take(60).collect()
}

/// The decisions of a run that are not tame, as places in its script.
fn wild(kept: &[Decision]) -> Vec<(usize, usize)> {
    let mut counts = Script::default().0.map(|_| 0);
    let places = kept.iter().map(|decision| {
        let kind = decision.kind as usize;
        counts[kind] += 1;
        (decision.drawn, (kind, counts[kind] - 1))
    });
    places.filter(|(drawn, _)| *drawn != 0).map(|(_, place)| place).collect()
}

/// Shrinks the failure `why` of a plan.
pub(crate) fn shrink(plan: &Plan, why: &str, run: impl Fn(&Plan) -> Outcome) -> Shrunk {
    let first = run(&Plan { keeps: true, ..plan.clone() });
    let mut search = Search {
        // A run that goes on for longer than the failing one is another one.
        plan: Plan { keeps: true, turns: first.counts.turns * 2 + 1000, ..plan.clone() },
        run,
        shape: shape(why),
        runs: 1,
        begin: Instant::now(),
        best: first.kept,
    };
    let before = wild(&search.best).len();
    search.tame_kinds();
    search.tame_parts();
    let script = Some(Script::of(&search.best));
    let last = (search.run)(&Plan { script, tells: Some(true), ..search.plan.clone() });
    let decisions = (before, wild(&search.best).len());
    let why = last.failure.unwrap_or_else(|| why.to_owned());
    Shrunk { decisions, runs: search.runs, why, time: last.time, story: last.story }
}

/// The search for the smallest run that fails.
struct Search<R> {
    plan: Plan,
    run: R,
    shape: String,
    runs: usize,
    begin: Instant,
    /// The decisions of the smallest run so far.
    best: Vec<Decision>,
}

impl<R: Fn(&Plan) -> Outcome> Search<R> {
    fn is_over(&self) -> bool {
        self.runs >= RUNS || self.begin.elapsed() >= TIME
    }

    /// Tries with these decisions tame. Keeps the run if it fails in the same way.
    fn try_without(&mut self, places: &[(usize, usize)]) {
        if self.is_over() || places.is_empty() {
            return;
        }
        let mut script = Script::of(&self.best);
        for (kind, place) in places {
            script.0[*kind][*place] = 0;
        }
        self.runs += 1;
        let outcome = (self.run)(&Plan { script: Some(script), ..self.plan.clone() });
        let is_same = outcome.failure.as_deref().is_some_and(|why| shape(why) == self.shape);
        if is_same && wild(&outcome.kept).len() < wild(&self.best).len() {
            self.best = outcome.kept;
        }
    }

    /// All decisions of one kind at once.
    fn tame_kinds(&mut self) {
        for kind in 0..Script::default().0.len() {
            let mut places = wild(&self.best);
            places.retain(|(other, _)| *other == kind);
            self.try_without(&places);
        }
    }

    /// Halves of the list, then smaller parts, then each decision.
    fn tame_parts(&mut self) {
        let mut part = wild(&self.best).len().div_ceil(2).max(1);
        loop {
            let (mut at, before) = (0, wild(&self.best).len());
            loop {
                let places = wild(&self.best);
                if at >= places.len() || self.is_over() {
                    break;
                }
                let end = (at + part).min(places.len());
                self.try_without(&places[at..end]);
                // What was tamed is no longer in the list.
                let left = wild(&self.best).len();
                at = if left < places.len() { at } else { end };
            }
            let has_shrunk = wild(&self.best).len() < before;
            if self.is_over() || (part == 1 && !has_shrunk) {
                return;
            }
            part = part.div_ceil(2).min(wild(&self.best).len().max(1));
        }
    }
}

impl fmt::Display for Shrunk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { decisions: (before, after), runs, why, time, story } = self;
        let runs = *runs;
        writeln!(
            formatter,
            "made small: {before} decisions that are not tame → {after}, in {runs} runs"
        )?;
        let left_out = story.len().saturating_sub(FIRST + LAST);
        for (index, line) in story.iter().enumerate() {
            if left_out > 0 && index == FIRST {
                writeln!(formatter, "                  … {left_out} lines …")?;
            }
            if left_out == 0 || index < FIRST || index >= FIRST + left_out {
                writeln!(formatter, "{line}")?;
            }
        }
        writeln!(formatter, "{:>14.6} s  ✗ {why}", time.as_secs_f64())
    }
}
