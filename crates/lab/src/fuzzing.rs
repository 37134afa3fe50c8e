//! Thin functions over the private parts, for the fuzz targets in `fuzz/`. The functions exist only
//! under `cfg(fuzzing)`, which changes nothing else.

use std::path::Path;

use crate::record::results;
use crate::record::{Heading, Records};
use crate::tell::answer::Answer;
use crate::tell::report;

/// The content of a results file with this text, if the text is one.
#[must_use]
pub fn results(text: &str) -> Option<(Heading, Records)> {
    results::parse(Path::new("results.jsonl"), text).ok()
}

/// The report without the library that draws its plots.
#[must_use]
pub fn report(heading: &Heading, records: &Records) -> String {
    report::render(&Answer::of(heading, records), &report::RawLines::default())
}
