//! Results files, which may come from any source, up to the report.
//!
//! Any figures give a report. No text in the file brings a script into the report.

#![no_main]

use std::sync::LazyLock;

use duality_lab::fuzzing::{report, results};
use duality_lab::judge::summary::Summary;
use duality_lab::tell::recommendation::recommend;
use libfuzzer_sys::fuzz_target;

/// An experiment without measurements.
const PLAIN: &str = include_str!("../corpus/results/begun");

static SCRIPTS: LazyLock<usize> = LazyLock::new(|| {
    let (experiment, records) = results(PLAIN).expect("the seed is a results file");
    scripts(&report(&experiment, &records))
});

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Some((experiment, records)) = results(text) else { return };
    let summary = Summary::of(&experiment, &records);
    let shown = summary.render_text(&recommend(&summary, &experiment, &records), None);
    assert!(!shown.is_empty());
    assert_eq!(scripts(&report(&experiment, &records)), *SCRIPTS);
});

fn scripts(page: &str) -> usize {
    page.to_ascii_lowercase().matches("<script").count()
}
