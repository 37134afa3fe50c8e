//! The reason why no architecture is recommended, or why a verdict is withheld at a number of
//! connections, and the remedy.

use super::sets;
use crate::format::{at_most, percent};
use crate::judge::faults::Fault;
use crate::judge::summary::Summary;
use crate::judge::verdict::{Cause, Evidence, FEWEST_SESSIONS, Finding, Verdict};
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

/// The loads without a verdict, and the remedy.
pub(super) fn without_verdict(summary: &Summary, something_chosen: bool) -> Vec<String> {
    let mut told: Vec<(String, Vec<usize>)> = Vec::new();
    for verdict in &summary.verdicts {
        let cause = match &verdict.finding {
            Finding::Withheld { cause } => Phrase::NoVerdict.told(&[&withheld(cause, verdict)]),
            Finding::Level { .. } => {
                let Some(cause) = &verdict.imprecise else { continue };
                let set = match something_chosen {
                    true => format!("the best set is {}, and none of it", sets::members(verdict)),
                    false => "none of the best set".to_owned(),
                };
                Phrase::NoneRecommended.told(&[&set, &withheld(cause, verdict)])
            }
            Finding::NoDifference if something_chosen => {
                let most = at_most(verdict.most_behind().unwrap_or(0.0));
                Phrase::NoDifference.told(&[&most])
            }
            _ => continue,
        };
        let at = verdict.concurrency;
        match told.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, counts)) => counts.push(at),
            None => told.push((cause, vec![at])),
        }
    }
    told.into_iter().map(|(cause, at)| format!("At {} {cause}.", summary.at_all(&at))).collect()
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
                     this machine favours one process over another: measure again, with more --repeats",
                    control.subject,
                    percent(control.difference.abs()),
                    percent(control.critical)
                )
            })
        }
        Cause::Coarse => format!(
            "only differences above {} would be seen: give it more time (--budget), or a quieter \
             machine",
            percent(verdict.critical.unwrap_or(f64::INFINITY))
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
            "{rounds} {are} too few, it takes {fewest}: give more --repeats, or more time (--budget)"
        );
    }
    let sessions = match evidence.sessions {
        1 => "1 session".to_owned(),
        count => format!("{count} sessions"),
    };
    let are = if evidence.blocks == 1 { "is" } else { "are" };
    format!(
        "{} in {sessions} {are} too few, it takes {needed} in {fewest}: give it more time (--budget), or more --repeats",
        rounds(evidence, evidence.blocks)
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
