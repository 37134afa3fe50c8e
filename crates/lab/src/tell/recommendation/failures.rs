//! Requests that failed, for the first line, so that readers notice them.

use crate::format::{grouped, listed};
use crate::judge::rows::{Fates, Row};
use crate::tell::summary::Summary;

/// The subjects that wrong replies disqualify, and other failed requests of the best subjects.
/// Empty if all requests succeeded.
pub(super) fn sentences(summary: &Summary) -> Vec<String> {
    let wrong = |row: &Row| row.answered_wrongly();
    let leads = |row: &Row| {
        let verdict = summary.verdict(row.concurrency);
        !wrong(row) && verdict.is_some_and(|verdict| super::leads(verdict, &row.subject))
    };
    [
        told(summary, "Disqualified for wrong replies", wrong, |fates| fates.wrong),
        told(summary, "Requests failed", leads, |fates| fates.failed),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// `Requests failed: epoll (12 of 90,012 at 100 connections).`
fn told(
    summary: &Summary,
    what: &str,
    is_it: impl Fn(&Row) -> bool,
    failed: fn(Fates) -> u64,
) -> Option<String> {
    let mut subjects: Vec<(&str, Vec<String>)> = Vec::new();
    for row in summary.all_rows().filter(|row| is_it(row)) {
        let fates = row.medians().map(|medians| medians.fates).unwrap_or_default();
        if failed(fates) == 0 {
            continue;
        }
        let [failed, all] = [failed(fates), fates.all()].map(|count| grouped(count as f64));
        let told = format!("{failed} of {all} at {}", summary.at(row.concurrency));
        match subjects.iter_mut().find(|(known, _)| *known == row.subject) {
            Some((_, at)) => at.push(told),
            None => subjects.push((&row.subject, vec![told])),
        }
    }
    let subjects: Vec<String> =
        subjects.iter().map(|(name, at)| format!("{name} ({})", at.join(", "))).collect();
    (!subjects.is_empty()).then(|| format!("{what}: {}.", listed(&subjects)))
}
