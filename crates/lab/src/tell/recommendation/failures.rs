//! Requests that failed and servers that ended, for the first line, so that readers notice them.

use crate::format::{grouped, listed};
use crate::judge::faults::{self, Fault};
use crate::judge::rows::{Ended, Fates, Row};
use crate::judge::summary::Summary;
use crate::tell::phrases::Phrase;

/// The subjects that wrong or failed replies disqualify, the servers that ended, and other failed
/// requests of the best subjects. Empty if all requests succeeded.
pub(super) fn sentences(summary: &Summary) -> Vec<String> {
    let has = |row: &Row, fault: Fault| faults::of(row).contains(&fault);
    let wrong = |row: &Row| has(row, Fault::WrongReplies);
    let failing = |row: &Row| has(row, Fault::Failing) && !wrong(row);
    let leads = |row: &Row| {
        let verdict = summary.verdict(row.concurrency);
        let leads = verdict.is_some_and(|verdict| super::leads(verdict, &row.subject));
        leads && faults::of(row).is_empty()
    };
    [
        told(summary, Phrase::WrongReplies, wrong, |fates| fates.wrong),
        told(summary, Phrase::FailedRequests, failing, |fates| fates.of_server),
        ended(summary),
        told(summary, Phrase::SomeFailed, leads, |fates| fates.failed),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// `Failed while it was measured: w (in 1 of 3 sessions at 100 connections: signal 6).`
fn ended(summary: &Summary) -> Option<String> {
    let phrase = |row: &Row| {
        let ended = row.ended.as_ref()?;
        let at = summary.at(row.concurrency);
        Some(format!("{} ({} at {at}: {})", row.subject, in_sessions(ended), ended.reason))
    };
    let mut all: Vec<String> = summary.all_rows().filter_map(phrase).collect();
    let more = all.len().saturating_sub(MOST_ENDED);
    all.truncate(MOST_ENDED);
    if more > 0 {
        all.push(format!("{more} more"));
    }
    (!all.is_empty()).then(|| Phrase::Ended.told(&[&listed(&all)]))
}

/// The most failed servers that the first line names.
const MOST_ENDED: usize = 2;

/// `in 1 of 3 sessions`.
pub(crate) fn in_sessions(ended: &Ended) -> String {
    match ended.of {
        1 => "in its session".to_owned(),
        of => format!("in {} of {of} sessions", ended.sessions),
    }
}

/// `Requests failed: epoll (12 of 90,012 at 100 connections).`
fn told(
    summary: &Summary,
    phrase: Phrase,
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
        let sentence = format!("{failed} of {all} at {}", summary.at(row.concurrency));
        match subjects.iter_mut().find(|(known, _)| *known == row.subject) {
            Some((_, at)) => at.push(sentence),
            None => subjects.push((&row.subject, vec![sentence])),
        }
    }
    let subjects: Vec<String> =
        subjects.iter().map(|(name, at)| format!("{name} ({})", at.join(", "))).collect();
    (!subjects.is_empty()).then(|| phrase.told(&[&listed(&subjects)]))
}
