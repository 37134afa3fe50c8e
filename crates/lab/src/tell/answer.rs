//! The answer of an experiment, made once: every table, page and form of data is made from it.

use crate::record::{Heading, Records};
use crate::tell::recommendation::{Recommendation, recommend};
use crate::tell::summary::Summary;

/// What an experiment came to.
#[derive(Clone, Debug)]
pub struct Answer<'a> {
    /// What was to be measured, and where.
    pub heading: &'a Heading,
    /// What was measured; it may be less.
    pub records: &'a Records,
    /// Its rows and verdicts.
    pub summary: Summary,
    /// What to choose, in words.
    pub recommendation: Recommendation,
}

impl<'a> Answer<'a> {
    /// Judges `records`.
    pub fn of(heading: &'a Heading, records: &'a Records) -> Self {
        let summary = Summary::of(heading, records);
        let recommendation = recommend(&summary, heading, records);
        Self { heading, records, summary, recommendation }
    }
}
