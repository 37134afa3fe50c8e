//! The parts of an experiment, in the order of measurement, and the time that the missing parts
//! take.

use crate::measure::experiment::Experiment;
use crate::record::CellKey;
use crate::record::results;
use crate::record::{Records, cells};

/// A part of an experiment.
pub(super) enum Part {
    /// A session: servers that are alive side by side, at one number of connections.
    Session(Vec<CellKey>),
    /// Cells that are measured one after the other.
    InTurn(Vec<CellKey>),
}

impl Part {
    /// All parts, in the order of measurement.
    pub(super) fn all(experiment: &Experiment) -> Vec<Self> {
        let cells = cells(&experiment.design);
        let mut parts = Vec::new();
        for repeat in 0..experiment.design.repeats {
            let own = cells.iter().filter(|key| key.repeat == repeat).cloned();
            let (together, in_turn): (Vec<CellKey>, Vec<CellKey>) =
                own.partition(|key| experiment.side_by_side(key.concurrency) > 1);
            // The parts are in the order in which they first come, which is random.
            let mut counts: Vec<usize> = Vec::new();
            for key in &together {
                if !counts.contains(&key.concurrency) {
                    counts.push(key.concurrency);
                }
            }
            parts.extend(counts.into_iter().map(|concurrency| {
                let here = together.iter().filter(|key| key.concurrency == concurrency);
                Self::Session(here.cloned().collect())
            }));
            parts.push(Self::InTurn(in_turn));
        }
        parts
    }

    /// The repeat of the part's cells.
    pub(super) fn repeat(&self) -> usize {
        let (Self::Session(cells) | Self::InTurn(cells)) = self;
        cells.first().map_or(0, |key| key.repeat)
    }

    /// The number of connections of a session.
    pub(super) fn load(&self) -> Option<usize> {
        match self {
            Self::Session(cells) => cells.first().map(|key| key.concurrency),
            Self::InTurn(_) => None,
        }
    }

    /// The approximate length of the missing part, in seconds. `records` has the finished part.
    pub(super) fn seconds_missing(&self, experiment: &Experiment, records: &Records) -> f64 {
        let done = results::done(&records.cells);
        let tried = |key: &&CellKey| experiment.why_unavailable(key).is_none();
        let seconds = |key: &CellKey| experiment.seconds_of_a_cell(key);
        match self {
            Self::InTurn(cells) => {
                let missing = cells.iter().filter(tried).filter(|key| !done.contains(key));
                missing.map(seconds).sum()
            }
            Self::Session(cells) => {
                let cells: Vec<&CellKey> = cells.iter().filter(tried).collect();
                let Some(first) = cells.first() else { return 0.0 };
                let here = records.blocks.iter().filter(|block| {
                    (block.concurrency, block.session) == (first.concurrency, first.repeat)
                });
                let blocks = experiment.design.blocks.saturating_sub(here.count());
                if blocks == 0 && cells.iter().all(|key| done.contains(key)) {
                    return 0.0;
                }
                // Servers that are started again have their windows again.
                let windows: f64 = cells.iter().copied().map(seconds).sum();
                windows + blocks as f64 * experiment.seconds_of_blocks(first.concurrency)
            }
        }
    }
}

/// The approximate length of the missing part of an experiment, in seconds. `records` has the
/// finished part.
pub fn seconds_missing(experiment: &Experiment, records: &Records) -> f64 {
    Part::all(experiment).iter().map(|part| part.seconds_missing(experiment, records)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::timing::Timing;
    use crate::measure::experiment::tests::experiment;
    use crate::record::{Cell, Outcome};

    fn close(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-6
    }

    #[test]
    fn all_is_missing_at_first_and_nothing_at_last() {
        let mut experiment = experiment();
        experiment.set_timing(Timing::default());
        let mut records = Records::default();
        let whole = experiment.length().as_secs_f64();
        assert!(
            experiment.design.blocks > 0 && close(seconds_missing(&experiment, &records), whole)
        );

        let ended = |key: &CellKey| Cell {
            subject: key.subject.clone(),
            concurrency: key.concurrency,
            repeat: key.repeat,
            started_at: String::new(),
            outcome: Outcome::lacking(""),
        };
        let cells = cells(&experiment.design);
        records.cells = cells.iter().map(ended).collect();
        assert!(close(seconds_missing(&experiment, &records), whole), "there are no blocks yet");
        experiment.design.blocks = 0;
        assert!(close(seconds_missing(&experiment, &records), 0.0));
        records.cells.pop();
        let last = cells.last().unwrap();
        assert!(close(seconds_missing(&experiment, &records), experiment.seconds_of_a_cell(last)));
    }
}
