//! Measures the error of predictions. The predictions use cells with few connections, and are
//! compared with measurements of many.

use super::forms::Prediction;
use super::points::{self, Measurements};
use super::{Error, Question, assert_pair, chosen, subject};
use crate::ask::resolve::Program;
use crate::format::grouped;
use crate::record::{Heading, Records};
use crate::statistics::median;

/// The predictions of an experiment, beside the measurements.
#[derive(Debug)]
pub struct Check {
    /// The measured experiment.
    pub heading: Heading,
    /// The most connections that predictions use.
    pub from: usize,
    /// The predictions, subject after subject, at rising numbers of connections.
    pub checked: Vec<Checked>,
    /// All points of each subject, including the predicted points.
    pub measured: Vec<Measurements>,
}

/// A prediction, and the measurement.
#[derive(Debug)]
pub struct Checked {
    /// The architecture or peer.
    pub subject: String,
    /// The number of connections that the load had open.
    pub connections: usize,
    /// The processor time of a request in microseconds, as predicted.
    pub predicted: Prediction,
    /// The measured processor time of a request.
    pub measured: f64,
    /// The share by which the predicted memory is too high. `None` if memory was not predicted.
    pub memory_off: Option<f64>,
}

impl Checked {
    /// The share by which the predicted processor time is too high.
    pub fn off(&self) -> f64 {
        self.predicted.value / self.measured - 1.0
    }

    /// Whether the measurement is within the interval.
    pub fn is_within(&self) -> bool {
        self.predicted.interval.contains(self.measured)
    }
}

/// The quality of several predictions.
#[derive(Clone, Debug, PartialEq)]
pub struct Accuracy {
    /// The number of predictions.
    pub count: usize,
    /// The median error, as a share.
    pub median: f64,
    /// The farthest.
    pub worst: f64,
    /// The subject and the number of connections of the worst prediction.
    pub worst_at: (String, usize),
    /// The number of predictions with an error of at most 10 %.
    pub within_tenth: usize,
    /// The number of predictions with the measurement in their interval.
    pub within_interval: usize,
}

impl Accuracy {
    /// Summarises some predictions. `None` if there are none.
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

/// Predicts the measurements beyond `from` connections, and computes the errors.
///
/// # Errors
///
/// An [`Error`] tells which question has no answer, and the remedy.
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
