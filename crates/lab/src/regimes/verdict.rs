//! The certain conclusions of a run of regimes. They name the subjects that answer most under the
//! heaviest load, and those that keep their best rate there.
//!
//! Repeats are blocks: each has every subject once. Rates are compared within them ([`Fit`]) by
//! Tukey's studentized range, with the error of other verdicts ([`FAMILY_ERROR`]). The share that a
//! subject keeps is the ratio of its rates to those under its best load, with an interval of 99 %.
//! With too few repeats there is no conclusion.

use std::collections::BTreeMap;

use super::summary::Summary;
use crate::failure::{Failure, Party};
use crate::format::{grouped, listed, multiple, percent};
use crate::judge::blocks::{Fit, Observed};
use crate::judge::verdict::{FAMILY_ERROR, FEWEST_SESSIONS, MANY_STRANGERS};
use crate::record::Disturbance;
use crate::statistics::{Estimate, Interval, ratio};

/// A subject that keeps at least this share of its best rate under the heaviest load holds there.
const HOLDS: f64 = 0.95;
/// A subject with a larger critical difference from the best varies too much to be ranked.
const VAGUE: f64 = 1.0;

impl Summary<'_> {
    /// The conclusions, a sentence each. The first sentence is the headline. If there is no
    /// conclusion, the headline has the reason.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let Some(heaviest) = self.regimes.last() else { return Vec::new() };
        let offered = grouped(heaviest.rate().round());
        let load =
            format!("Under the heaviest load ({}, {offered} clients a second)", heaviest.name);
        let mut sentences = match ranking(self, &heaviest.name) {
            Ok(ranked) => {
                let mut sentences = fastest(&load, &ranked);
                sentences.extend(kept(self, &heaviest.name));
                sentences
            }
            Err(reason) => vec![format!("{load} no subject is said to be best: {reason}.")],
        };
        sentences.extend(disturbed(self));
        sentences
    }
}

/// A subject under the heaviest load.
struct Ranked<'r> {
    subject: &'r str,
    rate: f64,
    /// The ratio of the best subject's rate to this one's.
    behind: Estimate,
    /// Whether the subject cannot be told from the best.
    is_level: bool,
    /// The critical difference of the subject from the best, as a share.
    critical: f64,
}

/// The subjects under a load, the highest rate first. The error is the reason why they are not
/// ranked.
fn ranking<'r>(summary: &Summary<'r>, regime: &str) -> Result<Vec<Ranked<'r>>, Failure> {
    let repeats = summary.heading.repeats;
    let rates: Vec<(&str, BTreeMap<usize, f64>)> = summary
        .subjects()
        .map(|name| (name, summary.rates(name, regime)))
        .filter(|(_, rates)| !rates.is_empty())
        .collect();
    if rates.len() < 2 {
        return Err(Failure::new(Party::Load, "fewer than two were measured there"));
    }
    if repeats < FEWEST_SESSIONS {
        let times = if repeats == 1 { "once" } else { "twice" };
        let why = format!(
            "each was measured {times}, and a difference may be chance; set `repeats = {FEWEST_SESSIONS}` or more"
        );
        return Err(Failure::new(Party::Load, why));
    }
    let block = |repeat: usize| {
        let values = rates.iter().map(|(_, rates)| rates.get(&repeat).map(|rate| rate.ln()));
        Observed { session: repeat, values: values.collect(), weight: 1.0 }
    };
    let blocks: Vec<Observed> = (0..repeats).map(block).collect();
    let fit = Fit::of(&blocks).filter(|fit| fit.blocks() >= FEWEST_SESSIONS).ok_or_else(|| {
        let why = format!("fewer than {FEWEST_SESSIONS} repeats have figures; go on with --resume");
        Failure::new(Party::Load, why)
    })?;
    let mut effects: Vec<(usize, f64)> =
        (0..rates.len()).filter_map(|place| Some((place, fit.effect(place)?))).collect();
    effects.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let family = fit.family(effects.len(), FAMILY_ERROR);
    let (best, most) = effects[0];
    let ranked = effects.iter().map(|&(place, effect)| {
        let gap = most - effect;
        let critical = if place == best { 0.0 } else { family.critical(best, place) };
        let interval = Interval { low: (gap - critical).exp(), high: (gap + critical).exp() };
        let subject = rates[place].0;
        Ranked {
            subject,
            rate: summary.figures(subject, regime).map_or(0.0, |figures| figures.rate),
            behind: Estimate { value: gap.exp(), interval: Some(interval) },
            is_level: gap <= critical,
            critical: critical.exp_m1(),
        }
    });
    Ok(ranked.collect())
}

/// The fastest subjects under a load, and the differences.
fn fastest(load: &str, ranked: &[Ranked<'_>]) -> Vec<String> {
    let (level, behind): (Vec<&Ranked<'_>>, Vec<_>) = ranked.iter().partition(|one| one.is_level);
    let Some(best) = level.first() else { return Vec::new() };
    let rate = format!("{} requests/s", grouped(best.rate.round()));
    let names =
        |some: &[&Ranked<'_>]| listed(&some.iter().map(|one| one.subject).collect::<Vec<_>>());
    let (near, vague): (Vec<&Ranked<'_>>, Vec<_>) =
        level.iter().partition(|one| one.critical <= VAGUE);
    let seen = percent(near.iter().map(|one| one.critical).fold(0.0, f64::max));
    let none = format!(
        "no difference between {} was found, where one above {seen} would have been seen",
        names(&near)
    );
    let (headline, named) = match (near.len(), behind.first()) {
        (1, Some(next)) if vague.is_empty() => {
            let times = multiple(next.behind);
            let next = next.subject;
            (format!("{} answers most: {rate}, {times} times as many as {next}", best.subject), 1)
        }
        (1, _) => ("no subject is said to be best: rates vary too much".to_owned(), 0),
        (_, Some(_)) => (format!("these answer most, and {none}"), 0),
        (_, None) => (none, 0),
    };
    let mut sentences = vec![format!("{load} {headline}.")];
    if !vague.is_empty() {
        let names = names(&vague);
        sentences.push(format!(
            "Too unsteady from repeat to repeat to be told from {}: {names}. More `repeats` help.",
            best.subject
        ));
    }
    if let Some(last) = behind.get(named..).and_then(|rest| rest.last()) {
        sentences.push(format!(
            "{} answers {rate} there, {} times as many as {}, the slowest.",
            best.subject,
            multiple(last.behind),
            last.subject
        ));
    }
    sentences
}

/// The subjects that keep their best rate under the heaviest load, and those that do not. For some
/// subjects the answer is not known.
fn kept(summary: &Summary<'_>, heaviest: &str) -> Vec<String> {
    let (mut holds, mut falls, mut unsure) = (Vec::new(), Vec::new(), Vec::new());
    for name in summary.subjects() {
        let Some(kept) = share_kept(summary, name, heaviest) else { continue };
        let phrase = match kept.interval {
            None => name.to_owned(),
            Some(Interval { low, high }) => {
                format!("{name} ({} [{} to {}])", percent(kept.value), percent(low), percent(high))
            }
        };
        match kept.interval {
            // The subject has its best rate under the heaviest load.
            None => holds.push(phrase),
            Some(interval) if interval.low >= HOLDS => holds.push(phrase),
            Some(interval) if interval.high < HOLDS => falls.push(phrase),
            Some(_) => unsure.push(phrase),
        }
    }
    let phrase = [
        ("Within 5 % of their own best rate there", holds),
        ("These fall below it", falls),
        ("It is not known whether these do", unsure),
    ];
    let phrase = phrase.into_iter().filter(|(_, names)| !names.is_empty());
    phrase.map(|(what, names)| format!("{what}: {}.", names.join(", "))).collect()
}

/// A subject's rate under the heaviest load, divided by its best rate. The estimate has no interval
/// if the best rate is the rate under the heaviest load.
fn share_kept(summary: &Summary<'_>, name: &str, heaviest: &str) -> Option<Estimate> {
    let best = summary.best(name)?;
    if summary.figures(name, heaviest)?.rate >= best.rate {
        return Some(Estimate { value: 1.0, interval: None });
    }
    let rates = |regime: &str| summary.rates(name, regime).into_values().collect::<Vec<f64>>();
    let kept = ratio(&rates(heaviest), &rates(best.regime), summary.heading.seed)?;
    kept.interval.map(|_| kept)
}

/// Large disturbances on the processors, if there were any.
fn disturbed(summary: &Summary<'_>) -> Option<String> {
    let all: Vec<&Disturbance> = summary.disturbances().collect();
    if let Some(quota) = all.iter().find_map(|one| one.quota.as_ref()) {
        return Some(format!("While a cell ran, {}.", quota.told()));
    }
    let seconds: f64 = all.iter().map(|one| one.seconds).sum();
    let mean = |share: fn(&Disturbance) -> f64| {
        all.iter().map(|one| share(one) * one.seconds).sum::<f64>() / seconds
    };
    let (stolen, strangers) = (mean(Disturbance::stolen), mean(Disturbance::strangers));
    let causes = [("the hypervisor took", stolen), ("other processes used", strangers)];
    let causes: Vec<String> = causes
        .into_iter()
        .filter(|(_, share)| *share > MANY_STRANGERS)
        .map(|(what, share)| format!("{what} {} of a processor", percent(share)))
        .collect();
    (!causes.is_empty()).then(|| {
        let causes = listed(&causes);
        format!(
            "While cells ran, {causes}: rates are too low, and intervals wide. Measure again on a quieter machine."
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::derive::RecordedRequest;
    use super::super::plan::Plan;
    use super::super::record::{Cell, Heading, Measured, Outcome};
    use super::*;

    /// The conclusions on subjects with these rates under a light load and a heavy one, in a repeat
    /// each.
    fn verdict(repeats: usize, subjects: &[(&str, [&[f64]; 2])]) -> Vec<String> {
        let names: Vec<String> = subjects.iter().map(|(name, _)| format!("'{name}'")).collect();
        let text = format!(
            "[regimes]\nsubjects = [{}]\nrepeats = {repeats}\n[[regime]]\nwait = '100us'\n[[regime]]\nwait = '1us'\n",
            names.join(", ")
        );
        let heading = Heading::of(&Plan::read(&text).unwrap());
        let request = RecordedRequest::read("0,1000,0,5,1,1").unwrap();
        let mut cells = Vec::new();
        for (subject, rates) in subjects {
            for (regime, rates) in ["100us", "1us"].into_iter().zip(rates) {
                for (repeat, &rate) in rates.iter().enumerate() {
                    let measured = Measured::of(&[request], rate, None);
                    let outcome = match rate > 0.0 {
                        true => Outcome::Measured(Box::new(measured)),
                        false => Outcome::Missing { reason: "it gave up".to_owned() },
                    };
                    let (subject, regime) = ((*subject).to_owned(), regime.to_owned());
                    cells.push(Cell { subject, regime, repeat, outcome });
                }
            }
        }
        Summary::of(&heading, &cells).sentences()
    }

    #[test]
    fn a_sure_difference_is_told_with_its_interval() {
        let verdict = verdict(
            3,
            &[
                ("steady", [&[9e3, 9.1e3, 8.9e3], &[50e3, 50.5e3, 49.5e3]]),
                ("falling", [&[10e3, 10.1e3, 9.9e3], &[5e3, 5.1e3, 4.9e3]]),
                ("middling", [&[10e3, 10.1e3, 9.9e3], &[30e3, 30.5e3, 29.5e3]]),
            ],
        );
        let (head, rest) = verdict.split_first().unwrap();
        assert!(
            head.contains(
                "1us, 1,000,000 clients a second) steady answers most: 50,000 requests/s, 1.67 ["
            ),
            "{head}"
        );
        assert!(head.ends_with("] times as many as middling."), "{head}");
        assert!(rest[0].starts_with("steady answers 50,000 requests/s there, 10.0"), "{rest:?}");
        assert!(rest[0].ends_with("] times as many as falling, the slowest."), "{rest:?}");
        assert_eq!(rest[1], "Within 5 % of their own best rate there: steady, middling.");
        assert!(rest[2].starts_with("These fall below it: falling (50 % ["), "{rest:?}");
        assert_eq!(rest.len(), 3, "{rest:?}");
    }

    #[test]
    fn what_was_measured_once_says_nothing() {
        let verdict = verdict(1, &[("one", [&[9e3], &[62e3]]), ("other", [&[9e3], &[2e3]])]);
        let [sentence] = &verdict[..] else { panic!("{verdict:?}") };
        assert!(
            sentence.contains("no subject is said to be best: each was measured once"),
            "{sentence}"
        );
        assert!(
            sentence.contains("`repeats = 3`") && !sentence.contains("times as many"),
            "{sentence}"
        );
    }

    #[test]
    fn what_chance_can_do_is_no_difference() {
        let verdict = verdict(
            3,
            &[
                ("one", [&[9e3, 9e3, 9e3], &[10e3, 40e3, 20e3]]),
                ("other", [&[9e3, 9e3, 9e3], &[30e3, 12e3, 11e3]]),
            ],
        );
        assert!(
            verdict[0].ends_with("no subject is said to be best: rates vary too much."),
            "{verdict:?}"
        );
        assert!(!verdict.iter().any(|sentence| sentence.contains("most")), "{verdict:?}");
    }

    #[test]
    fn what_is_level_is_told_with_what_would_have_been_seen() {
        let verdict = verdict(
            3,
            &[
                ("one", [&[9e3, 9e3, 9e3], &[50e3, 49e3, 51e3]]),
                ("other", [&[9e3, 9e3, 9e3], &[49e3, 51e3, 50e3]]),
                ("slow", [&[9e3, 9e3, 9e3], &[10e3, 10.1e3, 9.9e3]]),
            ],
        );
        let expected = "these answer most, and no difference between one and other was found, where one above ";
        assert!(verdict[0].contains(expected), "{verdict:?}");
        assert!(verdict[1].ends_with("] times as many as slow, the slowest."), "{verdict:?}");
    }

    #[test]
    fn cells_without_figures_take_no_part() {
        let verdict = verdict(
            3,
            &[
                ("one", [&[9e3, 9e3, 9e3], &[50e3, 50.5e3, 49.5e3]]),
                ("other", [&[9e3, 9e3, 9e3], &[20e3, 20.1e3, 0.0]]),
                ("absent", [&[0.0; 3], &[0.0; 3]]),
            ],
        );
        // Only two of the repeats compare subjects: the third has a single subject.
        assert!(verdict[0].contains("fewer than 3 repeats have figures"), "{verdict:?}");
    }
}
