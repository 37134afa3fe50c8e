//! The architectures that break constraints, the loads, and the limits.

use schemars::JsonSchema;
use serde::Serialize;

use crate::format::{grouped, listed};
use crate::judge::constraints::Check;
use crate::judge::summary::Summary;
use crate::tell::phrases::Phrase;

use super::{Section, Sentence};

/// An architecture that cannot be chosen at a load.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Refusal {
    /// The architecture.
    pub architecture: String,
    /// The number of connections that were open at once.
    pub concurrency: usize,
    /// The broken limits.
    pub broken: Vec<Check>,
}

/// A limit for which the next experiment might find the opposite result.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Doubt {
    /// The architecture.
    pub architecture: String,
    /// The number of connections that were open at once.
    pub concurrency: usize,
    /// The limit.
    pub check: Check,
}

/// The subjects that constraints exclude, by load.
pub(super) fn refused(summary: &Summary) -> Vec<Refusal> {
    checked(summary)
        .map(|(architecture, concurrency, checks)| {
            let broken = checks.into_iter().filter(|check| !check.kept).collect();
            Refusal { architecture, concurrency, broken }
        })
        .filter(|refusal: &Refusal| !refusal.broken.is_empty())
        .collect()
}

/// The constraints that may be kept or broken by chance.
pub(super) fn doubts(summary: &Summary) -> Vec<Doubt> {
    checked(summary)
        .flat_map(|(architecture, concurrency, checks)| {
            let unsure = checks.into_iter().filter(|check| !check.sure);
            unsure.map(move |check| Doubt {
                architecture: architecture.clone(),
                concurrency,
                check,
            })
        })
        .collect()
}

/// The excluded subjects with their limits and the loads without any subject left, which the first
/// screen has, too. Then the unsure cases.
pub(super) fn sentences(
    summary: &Summary,
    refused: &[Refusal],
    doubts: &[Doubt],
) -> impl Iterator<Item = Sentence> {
    let out = Section::Excluded.answered(out(summary, refused)).map(Sentence::on_screen);
    let unsure = unchecked(summary).into_iter().chain(doubtful(summary, doubts));
    out.chain(Section::Excluded.answered(unsure))
}

/// The excluded subjects with their limits, and the loads without any subject left.
fn out(summary: &Summary, refused: &[Refusal]) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut excluded: Vec<(&str, &str, Vec<String>)> = Vec::new();
    for &load in &summary.concurrency {
        let here: Vec<&Refusal> =
            refused.iter().filter(|refusal| refusal.concurrency == load).collect();
        if !here.is_empty() && here.len() == summary.candidates(load).len() {
            sentences.push(nobody(summary, load, &here));
            continue;
        }
        for refusal in here {
            for check in &refusal.broken {
                let (who, limit) = (refusal.architecture.as_str(), check.limit.as_str());
                let at = format!("{} at {}", check.measured, grouped(load as f64));
                match excluded.iter_mut().find(|known| (known.0, known.1) == (who, limit)) {
                    Some((.., all)) => all.push(at),
                    None => excluded.push((who, limit, vec![at])),
                }
            }
        }
    }
    if !excluded.is_empty() {
        let parts: Vec<String> = excluded
            .iter()
            .map(|(who, limit, at)| format!("{who} by {limit} ({})", at.join(", ")))
            .collect();
        sentences.push(Phrase::Excluded.told(&[&parts.join("; ")]));
    }
    sentences
}

/// The limits that the next experiment might find kept instead of broken, or broken instead of
/// kept.
fn doubtful(summary: &Summary, doubts: &[Doubt]) -> Option<String> {
    let phrase = |Doubt { architecture, concurrency, check }: &Doubt| {
        let found = if check.kept { "keeps" } else { "breaks" };
        let at = summary.at(*concurrency);
        format!("{architecture} {found} {} at {at} with {}", check.limit, check.measured)
    };
    let parts: Vec<String> = doubts.iter().map(phrase).collect();
    let because = "Not sure, because the interval holds the limit";
    (!parts.is_empty()).then(|| format!("{because}: {}.", parts.join("; ")))
}

/// The subjects with unknown latencies, so that it is unknown whether they keep the constraints.
fn unchecked(summary: &Summary) -> Vec<String> {
    let at = |&load: &usize| {
        let mut limits: Vec<(Vec<String>, Vec<&str>)> = Vec::new();
        for (row, medians) in summary.candidates(load) {
            let unknown = summary.unchecked(medians);
            match limits.iter_mut().find(|(known, _)| *known == unknown) {
                Some((_, names)) => names.push(&row.subject),
                None => limits.push((unknown, vec![&row.subject])),
            }
        }
        limits.into_iter().filter(|(unknown, _)| !unknown.is_empty()).map(move |(unknown, names)| {
            let (limits, at) = (listed(&unknown), summary.at(load));
            let keep = if names.len() == 1 { "keeps" } else { "keep" };
            format!(
                "It is not known whether {} {keep} {limits} at {at}, because the load generator \
                 could not do its work in their windows (✗): no choice there.",
                listed(&names)
            )
        })
    };
    summary.concurrency.iter().flat_map(at).collect()
}

/// Says that all subjects are excluded at a load, and names the nearest subject.
fn nobody(summary: &Summary, load: usize, refused: &[&Refusal]) -> String {
    let worst = |refusal: &&&Refusal| {
        refusal.broken.iter().max_by(|one, other| one.excess.total_cmp(&other.excess)).cloned()
    };
    let nearest = refused
        .iter()
        .filter_map(|refusal| Some((refusal, worst(&refusal)?)))
        .min_by(|(_, one), (_, other)| one.excess.total_cmp(&other.excess));
    let (constraints, at) = (&summary.constraints, summary.at(load));
    let nearest = nearest.map_or(String::new(), |(refusal, check)| {
        let Check { of, measured, .. } = check;
        format!("; the nearest is {} with a {of} of {measured}", refusal.architecture)
    });
    Phrase::NoneKeeps.told(&[&constraints.to_string(), &format!("{at}{nearest}")])
}

/// Every architecture that could be chosen, at each load, with its checks.
fn checked(summary: &Summary) -> impl Iterator<Item = (String, usize, Vec<Check>)> {
    summary.concurrency.iter().flat_map(move |&load| {
        summary
            .candidates(load)
            .into_iter()
            .map(move |(row, medians)| (row.subject.clone(), load, summary.checks(medians)))
    })
}
