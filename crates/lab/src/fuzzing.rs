//! Thin functions over the private parts, for the fuzz targets in `fuzz/`. They are there only under
//! `cfg(fuzzing)`, and nothing else is different then.

use std::path::Path;

use crate::record::{Experiment, Records};
use crate::{report, results};

/// What is in a results file with this text, if it is one.
#[must_use]
pub fn results(text: &str) -> Option<(Experiment, Records)> {
    results::parse(Path::new("results.jsonl"), text).ok()
}

/// The report, but for the library that draws its plots.
#[must_use]
pub fn report(experiment: &Experiment, records: &Records) -> String {
    report::render(experiment, records, &report::RawLines::default())
}
