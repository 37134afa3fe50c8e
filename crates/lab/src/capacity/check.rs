//! How far predictions are off: made from few connections, and held against what was measured with
//! many.

use super::forms::Prediction;
use super::points::{self, Measurements};
use super::{Error, Question, assert_pair, chosen, subject};
use crate::ask::resolve::Program;
use crate::format::grouped;
use crate::record::{Heading, Records};
use crate::statistics::median;

/// The predictions of an experiment, beside what was measured.
#[derive(Debug)]
pub struct Check {
    /// What was measured.
    pub heading: Heading,
    /// Predictions are made from no more connections than this.
    pub from: usize,
    /// The predictions, subject after subject, at rising numbers of connections.
    pub checked: Vec<Checked>,
    /// All points of each subject, those that are predicted among them.
    pub measured: Vec<Measurements>,
}

/// A prediction, and what was measured.
#[derive(Debug)]
pub struct Checked {
    /// The architecture or peer.
    pub subject: String,
    /// How many connections the load had open.
    pub connections: usize,
    /// The processor time of a request in microseconds, as predicted.
    pub predicted: Prediction,
    /// The same as measured.
    pub measured: f64,
    /// By which share the memory that was predicted is too high; none where it is not predicted.
    pub memory_off: Option<f64>,
}

impl Checked {
    /// By which share the processor time that was predicted is too high.
    pub fn off(&self) -> f64 {
        self.predicted.value / self.measured - 1.0
    }

    /// Whether what was measured is within the interval.
    pub fn is_within(&self) -> bool {
        self.predicted.interval.contains(self.measured)
    }
}

/// How good several predictions are.
#[derive(Clone, Debug, PartialEq)]
pub struct Accuracy {
    /// How many there are.
    pub count: usize,
    /// The median of how far they are off, as a share.
    pub median: f64,
    /// The farthest.
    pub worst: f64,
    /// The subject of that one, and at how many connections.
    pub worst_at: (String, usize),
    /// How many are at most 10 % off.
    pub within_tenth: usize,
    /// How many have what was measured in their interval.
    pub within_interval: usize,
}

impl Accuracy {
    /// Of some predictions; none of nothing.
    pub fn of<'a>(all: impl IntoIterator<Item = &'a Checked>) -> Option<Self> {
        let all: Vec<&Checked> = all.into_iter().collect();
        let offs: Vec<f64> = all.iter().map(|checked| checked.off().abs()).collect();
        let worst =
            all.iter().max_by(|one, other| one.off().abs().total_cmp(&other.off().abs()))?;
        Some(Self {
            count: all.len(),
            median: median(&offs)?,
            worst: worst.off().abs(),
            worst_at: (worst.subject.clone(), worst.connections),
            within_tenth: offs.iter().filter(|off| **off <= 0.1).count(),
            within_interval: all.iter().filter(|checked| checked.is_within()).count(),
        })
    }
}

/// Predicts what was measured beyond `from` connections, and says how far off that is.
///
/// # Errors
///
/// [`Error`]: what cannot be answered, and the remedy.
pub fn check(
    heading: &Heading,
    records: &Records,
    program: Result<&dyn Program, &str>,
    from: usize,
    subjects: &[String],
) -> Result<Check, Error> {
    let measured = points::all(heading, records, &chosen(&heading.design, subjects)?);
    let bases: Vec<Measurements> = measured
        .iter()
        .map(|one| Measurements { points: one.up_to(from), ..one.clone() })
        .collect();
    assert_pair(&bases, |found| Error::OneNumberUpTo { from: grouped(from as f64), found })?;
    let mut checked = Vec::new();
    for (base, all) in bases.iter().zip(&measured) {
        for point in all.points.iter().filter(|point| point.connections > from) {
            let question = Question::of(point.connections);
            let subject = subject(heading, program, &question, base.clone());
            let Ok(predicted) = subject.processor_time else { continue };
            checked.push(Checked {
                subject: subject.name,
                connections: point.connections,
                predicted,
                measured: point.processor_time.value,
                memory_off: subject.memory.ok().map(|memory| memory.bytes / point.memory - 1.0),
            });
        }
    }
    if checked.is_empty() {
        return Err(Error::NothingToCheck(grouped(from as f64)));
    }
    Ok(Check { heading: heading.clone(), from, checked, measured })
}
