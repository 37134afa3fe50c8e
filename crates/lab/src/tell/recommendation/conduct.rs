//! Growth, stops and long tails in words.

use crate::format::{bytes, duration, grouped};
use crate::judge::conduct::{self, Conduct};
use crate::judge::rows::Row;
use crate::judge::summary::Summary;
use crate::tell::phrases::Phrase;

/// What is told of each subject, those of `leaders` first.
pub(super) fn sentences(summary: &Summary, leaders: &[&str]) -> (Vec<String>, Vec<String>) {
    let rows: Vec<&Row> = summary.rows.iter().collect();
    let (mut of_leaders, mut of_others) = (Vec::new(), Vec::new());
    for name in &summary.subjects {
        let leads = leaders.contains(&name.as_str());
        for found in conduct::of(name, &rows) {
            // A tail that belongs to an architecture is told where it may be chosen.
            if !leads && matches!(found, Conduct::Tail { .. }) {
                continue;
            }
            let sentence = in_words(summary, name, found);
            if leads { of_leaders.push(sentence) } else { of_others.push(sentence) }
        }
    }
    (of_leaders, of_others)
}

/// Whether something is told of a subject.
pub(super) fn is_told(summary: &Summary, name: &str) -> bool {
    let rows: Vec<&Row> = summary.rows.iter().collect();
    !conduct::of(name, &rows).is_empty()
}

fn in_words(summary: &Summary, name: &str, found: Conduct) -> String {
    match found {
        Conduct::Grows { bytes_per_request, concurrency } => {
            let at = summary.at(concurrency);
            // A tenth of a KiB is not told from nothing.
            let growth = match bytes_per_request {
                ..1024.0 => format!("{bytes_per_request:.0} bytes"),
                _ => bytes(bytes_per_request),
            };
            Phrase::Grows.told(&[name, &growth, &at])
        }
        Conduct::Stops { longest_us, stops, slices } => {
            let [stops, slices] = [stops, slices].map(|count| grouped(count as f64));
            Phrase::Stops.told(&[name, &stops, &slices, &duration(longest_us)])
        }
        Conduct::Tail { p99_9_us, others_us, concurrency } => {
            let at = summary.at(concurrency);
            Phrase::Tail.told(&[name, &duration(p99_9_us), &at, &duration(others_us)])
        }
    }
}
