//! The answer of an experiment, computed once. All tables, pages and data come from it.

use crate::judge::summary::Summary;
use crate::record::{Heading, Records};
use crate::tell::recommendation::{Recommendation, recommend};
use crate::tell::replay;

/// The results of an experiment.
#[derive(Clone, Debug)]
pub struct Answer<'a> {
    /// The experiment and its machine.
    pub heading: &'a Heading,
    /// The records so far.
    pub records: &'a Records,
    /// The rows and verdicts of the experiment.
    pub summary: Summary,
    /// The recommendation, in words.
    pub recommendation: Recommendation,
}

impl<'a> Answer<'a> {
    /// Judges `records`.
    pub fn of(heading: &'a Heading, records: &'a Records) -> Self {
        let summary = Summary::of(heading, records);
        let recommendation = recommend(&summary, heading, records);
        Self { heading, records, summary, recommendation }
    }

    /// All tables, warnings and sentences for the terminal: see [`Summary::render_text`].
    pub fn render_text(&self, baseline: Option<&str>) -> String {
        let Self { heading, records, summary, recommendation } = self;
        let own = replay::text(heading, &recommendation.headroom, &records.cells);
        own + &summary.render_text(recommendation, baseline)
    }
}
