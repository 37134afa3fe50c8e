//! The reason why no architecture is recommended, or why a verdict is withheld at a number of
//! connections, and the remedy.

use super::{alternatives, leads, sets};
use crate::format::{at_most, percent};
use crate::judge::faults::Fault;
use crate::judge::summary::Summary;
use crate::judge::verdict::{Cause, Evidence, FEWEST_SESSIONS, Finding, Remedy, Verdict};
use crate::tell::phrases::Phrase;

/// The reason why nothing can be recommended.
pub(super) fn nothing(summary: &Summary) -> String {
    if let Some(partial) = summary.partial() {
        return format!("No recommendation: the experiment is not complete ({partial}).");
    }
    let verdicts = &summary.verdicts;
    let alone: Vec<&str> = verdicts
        .iter()
        .filter_map(|verdict| match &verdict.finding {
            Finding::Withheld { cause: Cause::Alone { subject } } => Some(subject.as_str()),
            _ => None,
        })
        .collect();
    if !alone.is_empty()
        && alone.len() == verdicts.len()
        && alone.iter().all(|name| *name == alone[0])
    {
        return format!(
            "No recommendation: only {} was measured and can be chosen, so there is nothing to compare it with.",
            alone[0]
        );
    }
    let equal = || verdicts.iter().filter(|verdict| verdict.finding == Finding::NoDifference);
    if equal().next().is_some() {
        let largest = equal().filter_map(Verdict::most_behind).fold(0.0, f64::max);
        let at = match equal().count() == verdicts.len() {
            true => String::new(),
            false => {
                let counts: Vec<usize> = equal().map(|verdict| verdict.concurrency).collect();
                format!(" at {}", summary.at_all(&counts))
            }
        };
        return format!(
            "No difference above {} was found between any of them{at}: choose by something else than speed.",
            at_most(largest)
        );
    }
    if verdicts
        .iter()
        .all(|verdict| matches!(verdict.finding, Finding::Withheld { cause: Cause::Nobody }))
    {
        return nobody(summary);
    }
    "No recommendation: what was measured is too noisy, or too little, for a verdict.".to_owned()
}

/// The reason why no subject is left.
fn nobody(summary: &Summary) -> String {
    let any = |fault: Fault| summary.rows.iter().any(|row| summary.faults(row).contains(&fault));
    let why = if any(Fault::Unchecked) {
        format!(
            "it is not known which architecture keeps {}, because the load generator could not do \
             its work",
            summary.constraints
        )
    } else if any(Fault::Constraint) {
        format!("no architecture keeps {} at any load measured", summary.constraints)
    } else if any(Fault::Invalid) {
        "no architecture has a valid cell in which it served all connections".to_owned()
    } else if any(Fault::ListenQueue) {
        "the listen queue was the limit everywhere".to_owned()
    } else if any(Fault::WrongReplies) {
        "no architecture answered correctly".to_owned()
    } else if any(Fault::Failing) {
        "every architecture failed too many requests".to_owned()
    } else if any(Fault::Ended) {
        "every server failed while it was measured".to_owned()
    } else if any(Fault::Unserved) {
        "no architecture served all connections".to_owned()
    } else {
        "nothing was measured".to_owned()
    };
    format!("No recommendation: {why}.")
}

/// What is not known at some loads, and the remedy. `chosen` is the recommended subject.
pub(super) fn without_verdict(summary: &Summary, chosen: Option<&str>) -> Vec<String> {
    let ways = summary.ways.as_ref().map(|ways| ways.native.as_str());
    let current = summary.current.as_deref().or(ways);
    let mut found: Vec<(String, Vec<usize>)> = Vec::new();
    for verdict in &summary.verdicts {
        let unknown = match current {
            Some(current) if alternatives::is_compared(verdict) => {
                beside_current(verdict, current, chosen)
            }
            _ => among_all(verdict, chosen),
        };
        let Some(cause) = unknown else { continue };
        let at = verdict.concurrency;
        match found.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, counts)) => counts.push(at),
            None => found.push((cause, vec![at])),
        }
    }
    found.into_iter().map(|(cause, at)| format!("At {} {cause}.", summary.at_all(&at))).collect()
}

/// What is not known of the best at a load.
fn among_all(verdict: &Verdict, chosen: Option<&str>) -> Option<String> {
    match (&verdict.finding, chosen) {
        (Finding::Withheld { cause }, _) => {
            Some(Phrase::NoVerdict.told(&[&withheld(cause, verdict)]))
        }
        (Finding::Level { .. }, _) => {
            let cause = withheld(verdict.imprecise.as_ref()?, verdict);
            Some(match chosen {
                None => Phrase::NoOrder.told(&[&cause]),
                Some(chosen) if leads(verdict, chosen) => {
                    Phrase::OneOfSet.told(&[chosen, &sets::members(verdict), &cause])
                }
                Some(_) => Phrase::NoneRecommended.told(&[&sets::members(verdict), &cause]),
            })
        }
        (Finding::NoDifference, Some(_)) => Some(no_difference(verdict)),
        (Finding::NoDifference, None) | (Finding::Best { .. }, _) => None,
    }
}

fn no_difference(verdict: &Verdict) -> String {
    Phrase::NoDifference.told(&[&at_most(verdict.most_behind().unwrap_or(0.0))])
}

/// What is not known of a change at a load with comparisons. The headline has the gain that is
/// possible if `current` stays.
fn beside_current(verdict: &Verdict, current: &str, chosen: Option<&str>) -> Option<String> {
    let cause = match &verdict.finding {
        Finding::Withheld { cause } => cause,
        Finding::NoDifference => {
            return chosen.filter(|name| *name != current).map(|_| no_difference(verdict));
        }
        Finding::Best { .. } | Finding::Level { .. } => verdict.imprecise.as_ref()?,
    };
    let unsure = verdict.alternatives.iter().filter(|one| !one.change.is_sure());
    let names = alternatives::distinct(unsure);
    let are = match names.as_slice() {
        [] => return None,
        [only] => format!("{only} is"),
        some => format!("{} are", alternatives::few(some)),
    };
    Some(Phrase::NotToldFromToday.told(&[&are, current, &withheld(cause, verdict)]))
}

/// What gives narrower intervals: `more time (--budget)`.
pub(super) fn more(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::Time => "more time (--budget)",
        Remedy::Repeats => "more --repeats",
    }
}

/// A cause, and the remedy.
pub(crate) fn withheld(cause: &Cause, verdict: &Verdict) -> String {
    let evidence = &verdict.evidence;
    match cause {
        Cause::Nobody => "no candidate is left".to_owned(),
        Cause::Alone { subject } => {
            format!("{subject} is the only candidate left")
        }
        Cause::Partial => {
            "the experiment is not complete: measure the rest with --resume".to_owned()
        }
        Cause::FewBlocks { needed } => too_few(evidence, *needed),
        Cause::Disturbed => {
            let (who, remedy) = if 2 * evidence.throttled > evidence.dropped {
                (
                    "the CPU quota of the control group",
                    "raise it (`cpu.max`), or measure outside of the group",
                )
            } else if 2 * evidence.waited > evidence.dropped {
                ("other processes", "end what else runs there, or measure on other processors")
            } else {
                ("the hypervisor", "measure when the machine is quieter, or on another machine")
            };
            format!(
                "{who} disturbed {} of {}: {remedy}",
                evidence.dropped + evidence.lighter,
                rounds(evidence, evidence.measured)
            )
        }
        Cause::Control => {
            let control = verdict.control.as_ref();
            control.map_or_else(String::new, |control| {
                format!(
                    "{} differs from itself by {} here, and chance makes {} at most; something on \
                     this machine favours one process over another: measure again, with {}",
                    control.subject,
                    percent(control.difference.abs()),
                    percent(control.critical),
                    more(evidence.remedy)
                )
            })
        }
        Cause::Coarse => format!(
            "only differences above {} would be seen: give it {}, or a quieter machine",
            percent(verdict.critical.unwrap_or(f64::INFINITY)),
            more(evidence.remedy)
        ),
    }
}

/// Says that blocks or rounds are too few, and names the remedy.
fn too_few(evidence: &Evidence, needed: usize) -> String {
    let fewest = FEWEST_SESSIONS;
    if evidence.in_turn {
        let rounds = rounds(evidence, evidence.sessions);
        let are = if evidence.sessions == 1 { "is" } else { "are" };
        return format!(
            "{rounds} {are} too few, it takes {fewest}: give it {}",
            more(evidence.remedy)
        );
    }
    let sessions = match evidence.sessions {
        1 => "1 session".to_owned(),
        count => format!("{count} sessions"),
    };
    let are = if evidence.blocks == 1 { "is" } else { "are" };
    format!(
        "{} in {sessions} {are} too few, it takes {needed} in {fewest}: give it {}",
        rounds(evidence, evidence.blocks),
        more(evidence.remedy)
    )
}

/// `1 block`, `3 rounds of windows`.
fn rounds(evidence: &Evidence, count: usize) -> String {
    let what = match (evidence.in_turn, count) {
        (true, 1) => "round of windows",
        (true, _) => "rounds of windows",
        (false, 1) => "block",
        (false, _) => "blocks",
    };
    format!("{count} {what}")
}
