//! Makes a failing run small: sets decisions to 0, the tame one, while the run still fails.
//!
//! What is shrunk is the list of decisions and not the program, as Hypothesis does (MacIver &
//! Donaldson 2020). The parts of the list are halved, as in delta debugging (Zeller 2002).

use std::fmt;
use std::time::{Duration, Instant};

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

fn wild(script: &[u64]) -> usize {
    script.iter().filter(|drawn| **drawn != 0).count()
}

/// Shrinks the failure `why` of a plan.
pub(crate) fn shrink(plan: &Plan, why: &str, run: impl Fn(&Plan) -> Outcome) -> Shrunk {
    let follow =
        |script: Vec<u64>| run(&Plan { script: Some(script), keeps: true, ..plan.clone() });
    let drawn = |outcome: &Outcome| {
        let mut script: Vec<u64> = outcome.kept.iter().map(|decision| decision.drawn).collect();
        // What is tame at the end need not be told.
        script.truncate(script.iter().rposition(|drawn| *drawn != 0).map_or(0, |last| last + 1));
        script
    };
    let shape_of_it = shape(why);
    let still_fails =
        |outcome: &Outcome| outcome.failure.as_deref().is_some_and(|why| shape(why) == shape_of_it);
    let begin = Instant::now();
    let mut script = drawn(&run(&Plan { keeps: true, ..plan.clone() }));
    let (before, mut runs) = (wild(&script), 1);
    let mut part = script.len().max(1);
    loop {
        let (mut at, mut has_shrunk) = (0, false);
        while at < script.len() && runs < RUNS && begin.elapsed() < TIME {
            let end = (at + part).min(script.len());
            if wild(&script[at..end]) > 0 {
                let mut tried = script.clone();
                tried[at..end].fill(0);
                runs += 1;
                let outcome = follow(tried);
                if still_fails(&outcome) {
                    let shorter = drawn(&outcome);
                    has_shrunk |= wild(&shorter) < wild(&script);
                    script = shorter;
                }
            }
            at += part;
        }
        let is_over = runs >= RUNS || begin.elapsed() >= TIME;
        if is_over || (part == 1 && !has_shrunk) {
            break;
        }
        part = if part == 1 { 1 } else { part.div_ceil(2) };
    }
    let last = run(&Plan { script: Some(script.clone()), tells: Some(true), ..plan.clone() });
    let decisions = (before, wild(&script));
    let why = last.failure.unwrap_or_else(|| why.to_owned());
    Shrunk { decisions, runs, why, time: last.time, story: last.story }
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
