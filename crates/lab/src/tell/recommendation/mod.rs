//! The verdicts in words: the choice, its certainty, and disturbances.
//!
//! [`crate::judge::verdict`] decides. If the verdict is withheld, this module recommends nothing.

mod alternatives;
mod builds;
mod card;
mod conduct;
mod confidence;
mod crossover;
mod failures;
mod foreign;
pub mod headline;
mod quicker;
mod refusal;
mod sentence;
mod sets;
mod silence;

use std::ops::Deref;

use schemars::JsonSchema;
use serde::Serialize;

use crate::format::{bytes, duration, grouped, how_many, listed};
use crate::judge::builds::Change;
use crate::judge::faults::{self, Fault};
use crate::judge::rows::{Medians, Row};
use crate::judge::summary::Summary;
use crate::judge::verdict::{Finding, Metric, Standing, Verdict};
use crate::measure::peers;
use crate::model;
use crate::record::{Heading, Records};
use crate::tell::phrases::Phrase;
use crate::tell::replay::{self, Headroom};

use alternatives::Advice;
pub use card::Card;
pub(super) use confidence::{disturbed_briefly, network_of};
pub use crossover::Crossover;
pub(in crate::tell) use crossover::crossovers;
pub(crate) use failures::in_sessions;
pub use refusal::{Doubt, Refusal};
pub use sentence::{Section, Sentence};
use silence::withheld;

/// The recommendation, in words and as data.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Recommendation {
    /// What to do, then how sure, in at most 25 words.
    pub headline: String,
    /// What a reader must know before the choice, such as subjects that are out for wrong replies.
    pub alarms: Vec<String>,
    /// The architecture to choose. `None` if nothing can be recommended.
    pub architecture: Option<String>,
    /// The choice or the reason why there is none, its certainty, and its reasons. The first
    /// sentence can stand alone.
    #[schemars(with = "Vec<String>")]
    pub sentences: Vec<Sentence>,
    /// The choice on a card. `None` if no subjects are told apart.
    pub card: Option<Card>,
    /// The reason for each withheld verdict, and the remedy.
    pub unsaid: Vec<String>,
    /// Disturbances on the machine during the measurement.
    pub disturbance: Vec<String>,
    /// What changed from the first build to each other, if builds are compared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub builds: Vec<Change>,
    /// The verdict at each number of connections.
    pub loads: Vec<Verdict>,
    /// The loads at which the lead changes.
    pub crossovers: Vec<Crossover>,
    /// The architectures that broke constraints, the constraints, and the loads.
    pub refused: Vec<Refusal>,
    /// Constraints that are kept or broken, but might have the opposite outcome in another
    /// experiment.
    pub doubts: Vec<Doubt>,
    /// The number of users that each subject has room for, in a replay.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headroom: Vec<Headroom>,
}

impl Recommendation {
    /// The choice, then the loads without a conclusion, then all other sentences.
    pub fn all_sentences(&self) -> impl Iterator<Item = &str> {
        let (first, rest) = self.sentences.split_at(1.min(self.sentences.len()));
        let unsaid = self.unsaid.iter().map(String::as_str);
        first.iter().map(Deref::deref).chain(unsaid).chain(rest.iter().map(Deref::deref))
    }

    /// The sentences that answer a question.
    pub fn answers(&self, question: Section) -> Vec<&str> {
        let all = self.sentences.iter().filter(|sentence| sentence.answers == question);
        all.map(Deref::deref).collect()
    }
}

/// The recommendation from `summary`, which is of `experiment` and its `records`.
pub fn recommend(summary: &Summary, heading: &Heading, records: &Records) -> Recommendation {
    if summary.builds.is_some() {
        return builds::recommendation(summary);
    }
    let refused = refusal::refused(summary);
    let doubts = refusal::doubts(summary);
    let chosen = choose(summary);
    let headline = headline::headline(summary, chosen.as_deref());
    let crossovers = crossovers(summary);
    // The answer about the subject that runs today comes first.
    let today = alternatives::sentences(summary, chosen.as_deref());
    let mut sentences: Vec<Sentence> = Section::Sure.answered(today).collect();
    let chosen = match alternatives::advice(summary, chosen.as_deref()) {
        Advice::Best => {
            sentences.extend(match &chosen {
                None => without_choice(summary),
                Some(chosen) => choice(summary, chosen),
            });
            chosen
        }
        Advice::This(subject) => Some(subject),
        Advice::Unknown => None,
    };
    let leaders: Vec<&str> = match &chosen {
        Some(chosen) => vec![chosen],
        None => {
            summary.verdicts.iter().flat_map(Verdict::leaders).map(|one| &*one.subject).collect()
        }
    };
    let (of_leaders, of_others) = conduct::sentences(summary, &leaders);
    let mut alarms: Vec<String> =
        failures::sentences(summary).into_iter().chain(of_leaders).collect();
    for told in &alarms {
        sentences[0].text += &format!(" {told}");
    }
    sentences.extend(Section::Costs.answered(of_others));
    sentences.extend(Section::Sure.answered(sets::excluded(summary)));
    sentences.extend(Section::Sure.answered(confidence::sentences(summary)));
    if let Some(chosen) = &chosen {
        if let Some((concurrency, next)) = runner_up(summary, chosen) {
            let reasons = model::reasons(heading, &records.cells, concurrency, [chosen, next]);
            sentences.extend(Section::Why.answered(reasons));
        }
        let changes = crossovers.iter().map(|crossover| crossover.tell(summary));
        sentences.extend(Section::Why.answered(changes));
    }
    sentences.extend(refusal::sentences(summary, &refused, &doubts));
    sentences.extend(Section::Excluded.answered(faults(summary)));
    sentences.extend(Section::Excluded.answered(beside(summary)));
    sentences.extend(Section::Measured.answered(foreign::sentences(&heading.design)));
    let headroom = replay::headroom(heading, summary);
    // The most important sentence comes first.
    let any_will_do = replay::first_sentence(heading, &headroom);
    alarms.splice(0..0, any_will_do.clone());
    sentences.splice(0..0, Section::Sure.answered(any_will_do));
    Recommendation {
        unsaid: silence::without_verdict(summary, chosen.as_deref()),
        card: Card::of(summary, chosen.as_deref(), &crossovers),
        architecture: chosen,
        headline,
        alarms,
        sentences,
        disturbance: confidence::disturbance(summary),
        builds: Vec::new(),
        headroom,
        loads: summary.verdicts.clone(),
        crossovers,
        refused,
        doubts,
    }
}

/// The headline of an experiment that was cut short before anything was told.
fn cannot_tell_yet(summary: &Summary) -> Option<String> {
    let is_told = summary.verdicts.iter().any(Verdict::tells_apart);
    let partial = summary.partial().filter(|_| !is_told)?;
    Some(Phrase::TooEarly.told(&[&partial.cells()]))
}

fn leads(verdict: &Verdict, name: &str) -> bool {
    verdict.leaders().any(|standing| standing.subject == name)
}

/// The next subject that is certainly worse at the highest load where the chosen one leads.
fn runner_up<'a>(summary: &'a Summary, chosen: &str) -> Option<(usize, &'a str)> {
    let verdict =
        summary.verdicts.iter().rfind(|verdict| verdict.tells_apart() && leads(verdict, chosen))?;
    let next = verdict.excluded().next()?;
    Some((verdict.concurrency, &next.subject))
}

fn is_best_alone(verdict: &Verdict, name: &str) -> bool {
    matches!(&verdict.finding, Finding::Best { subject } if subject == name)
}

/// The architecture that is most often level with the best, among verdicts that tell some subjects
/// apart. Among equals, one that neither grows nor stops comes first. Then the order is: most often
/// alone, without looks at idle connections, the best place at the highest load, the order of the
/// design.
fn choose(summary: &Summary) -> Option<String> {
    let verdicts = &summary.verdicts;
    if summary.partial().is_some() || !verdicts.iter().any(Verdict::can_recommend) {
        return None;
    }
    let score = |name: &str| {
        let led = verdicts.iter().filter(|verdict| leads(verdict, name)).count();
        let alone = verdicts.iter().filter(|verdict| is_best_alone(verdict, name)).count();
        let last = verdicts.iter().filter(|verdict| verdict.can_recommend());
        let last = last.max_by_key(|verdict| verdict.concurrency);
        let place = last.and_then(|verdict| {
            verdict.standings.iter().position(|standing| standing.subject == name)
        });
        let looks_at_all = summary.looking_at_all.contains(name);
        let is_told = conduct::is_told(summary, name);
        (led, !is_told, alone, !looks_at_all, std::cmp::Reverse(place.unwrap_or(usize::MAX)))
    };
    let wins = |name: &&str| {
        verdicts.iter().any(|verdict| verdict.can_recommend() && leads(verdict, name))
    };
    let names = summary.subjects.iter().rev().map(String::as_str).filter(wins);
    names.max_by_key(|name| score(name)).map(str::to_owned)
}

/// The best set, or the reason why there is none.
fn without_choice(summary: &Summary) -> Vec<Sentence> {
    let set = sets::headline(summary);
    let quicker = set.iter().flat_map(|_| quicker::sentences(summary, None)).collect::<Vec<_>>();
    let first = set.unwrap_or_else(|| silence::nothing(summary));
    Section::Sure.answered([first]).chain(Section::Costs.answered(quicker)).collect()
}

/// The choice: its loads, its lead, its costs, and the loads at which others are better.
fn choice(summary: &Summary, chosen: &str) -> Vec<Sentence> {
    let verdicts = &summary.verdicts;
    // An imprecise verdict is no reason for an architecture, but may be a reason against it.
    let precise = verdicts
        .iter()
        .filter(|verdict| verdict.can_recommend() || verdict.finding == Finding::NoDifference);
    let precise: Vec<&Verdict> = precise.collect();
    let won: Vec<&Verdict> =
        precise.iter().copied().filter(|verdict| leads(verdict, chosen)).collect();
    let first = headline(summary, chosen, &won, precise.len());
    let mut sentences: Vec<Sentence> = Section::Sure.answered([first]).collect();
    sentences.extend(Section::Costs.answered(quicker::sentences(summary, Some(chosen))));
    if let Some(largest) = won.iter().rfind(|verdict| verdict.can_recommend()) {
        sentences.extend(Section::Sure.answered(margin(largest, chosen)));
        let costs = cost(summary, "There", largest.concurrency, chosen);
        sentences.extend(Section::Sure.answered(costs));
    }
    sentences.extend(Section::Costs.answered(idle_ones(summary, chosen)));
    sentences.extend(Section::Sure.answered(lost(summary, chosen)));
    sentences
}

/// The loads at which others are better than the chosen architecture.
fn lost(summary: &Summary, chosen: &str) -> Option<String> {
    let parts = summary.verdicts.iter().filter(|verdict| !verdict.is_withheld());
    let lost = parts.filter(|verdict| !leads(verdict, chosen));
    let lost: Vec<String> = lost.filter_map(|verdict| elsewhere(verdict, chosen)).collect();
    (!lost.is_empty()).then(|| format!("Others are better elsewhere: {}.", lost.join("; ")))
}

fn headline(summary: &Summary, chosen: &str, won: &[&Verdict], told: usize) -> String {
    let all = summary.concurrency.len();
    let constraints = &summary.constraints;
    let it = match constraints.is_empty() {
        true => String::new(),
        false => format!("of those that keep {constraints}, "),
    };
    let at = |verdicts: &[&Verdict]| {
        summary.at_all(&verdicts.iter().map(|verdict| verdict.concurrency).collect::<Vec<_>>())
    };
    if won.len() == all && won.iter().all(|verdict| is_best_alone(verdict, chosen)) {
        return format!("Choose {chosen}: {it}it is the best at {}.", at(won));
    }
    let noun = summary.counted.noun();
    let scope = match (won.len(), all) {
        (1, 1) => format!("at {}", at(won)),
        (count, all) if count == all => format!("at any number of {noun} measured"),
        (count, _) if count == told => format!("at {}", at(won)),
        (count, _) => format!("at {count} of {all} numbers of {noun} ({})", at(won)),
    };
    let level = sets::beside(chosen, won, summary.margin);
    let sets: Vec<usize> = summary
        .verdicts
        .iter()
        .filter(|verdict| verdict.is_mere_set() && leads(verdict, chosen))
        .map(|verdict| verdict.concurrency)
        .collect();
    let sets = match sets.is_empty() {
        true => String::new(),
        false => format!(", and it is in the best set at {}", summary.at_all(&sets)),
    };
    format!("Choose {chosen}: {it}no other is better {scope}{level}{sets}.")
}

/// The figures of the chosen subject at a number of connections, and the distance of the next
/// subject that is certainly worse.
fn margin(verdict: &Verdict, chosen: &str) -> Option<String> {
    let own = verdict.standings.iter().find(|standing| standing.subject == chosen)?;
    let at_least = if own.at_least { "at least " } else { "" };
    let rate = format!("{at_least}{} requests/s", grouped(own.rate));
    let does = match verdict.metric {
        Metric::ServerCpu => {
            format!("it takes {} of processor time for a request ({rate})", duration(own.value))
        }
        Metric::Rate => format!("it serves {rate}"),
        Metric::Latency(percentile) => {
            format!("its {percentile} latency is {}", duration(own.value))
        }
    };
    let next = verdict.excluded().next().map_or(String::new(), |next| {
        format!(
            "; the next that is worse for sure is {}, {}",
            next.subject,
            behind(next, verdict.metric)
        )
    });
    Some(format!("At {} {does}{next}.", verdict.at()))
}

/// `9.8 % more [7.1 to 12.6]`, and the metric.
fn behind(standing: &Standing, metric: Metric) -> String {
    let share = |value: f64| format!("{:.1}", 100.0 * value);
    let what = match metric {
        Metric::ServerCpu => "more processor time",
        Metric::Rate => "fewer requests/s",
        Metric::Latency(_) => "more latency",
    };
    // For a rate, the missing share.
    let shown = |value: f64| if metric == Metric::Rate { 1.0 - 1.0 / (1.0 + value) } else { value };
    format!(
        "with {} % {what} [{} to {}]",
        share(shown(standing.behind)),
        share(shown(standing.low)),
        share(shown(standing.high))
    )
}

/// Latency and memory of the chosen subject and of all subjects measured at this number of
/// connections, which `place` names.
fn cost(summary: &Summary, place: &str, concurrency: usize, chosen: &str) -> Option<String> {
    let own = summary.medians(chosen, concurrency)?;
    let all = summary.candidates(concurrency);
    let timed: Vec<_> =
        all.iter().copied().filter(|(_, medians)| medians.has_latencies()).collect();
    let beside =
        |all: &[(&Row, &Medians)], of: fn(&Medians) -> f64, show: fn(f64) -> String, best: &str| {
            let least = all.iter().min_by(|(_, one), (_, other)| of(one).total_cmp(&of(other)));
            match least {
                Some((row, _)) if row.subject == chosen => format!(" ({best} of {})", all.len()),
                Some((row, least)) if of(least) < 0.95 * of(own) => {
                    format!(" ({best}: {} of {})", show(of(least)), row.subject)
                }
                _ => String::new(),
            }
        };
    let memory = beside(&all, |medians| medians.memory_bytes, bytes, "the least");
    let memory = format!("{}{memory}", bytes(own.memory_bytes));
    if own.invalid {
        return Some(format!(
            "{place} its memory is {memory}; latencies were disturbed too much to tell."
        ));
    }
    if !own.has_latencies() {
        return Some(format!("{place} its memory is {memory}."));
    }
    let latency = beside(&timed, |medians| medians.p99_us, duration, "the shortest");
    Some(format!(
        "{place} its p99 latency is {}{latency}, and its memory {memory}.",
        duration(own.p99_us)
    ))
}

/// The effect of idle connections on the choice.
fn idle_ones(summary: &Summary, chosen: &str) -> Option<String> {
    summary.looking_at_all.contains(chosen).then(|| {
        format!(
            "{chosen} looks at every open connection in each round, also at idle ones: where there will be many, measure \
             with as many (--idle)."
        )
    })
}

/// The better subject at loads where the chosen one is not the best, and the difference.
fn elsewhere(verdict: &Verdict, chosen: &str) -> Option<String> {
    let names: Vec<&str> = verdict.leaders().map(|standing| standing.subject.as_str()).collect();
    let names = if names.len() > 3 {
        format!("{} and {} others", names[0], names.len() - 1)
    } else {
        listed(&names)
    };
    let own = verdict.standings.iter().find(|standing| standing.subject == chosen);
    let by = own.map_or(String::new(), |own| {
        format!(", where {chosen} is behind {}", behind(own, verdict.metric))
    });
    (!names.is_empty()).then(|| format!("{names} at {}{by}", verdict.at()))
}

/// The disqualifying faults, one sentence for each kind.
fn faults(summary: &Summary) -> Vec<String> {
    let phrase = |fault: Fault, sentence: fn(&str) -> String| {
        let at = |name: &String| {
            let rows = summary.of_subject(name).filter(|row| faults::of(row).contains(&fault));
            let at: Vec<String> = rows
                .map(|row| {
                    let count = how_many(row.concurrency);
                    match (fault, row.medians()) {
                        (Fault::Unserved, Some(Medians { answered: Some(answered), .. })) => {
                            format!("{:.0} % of the requests answered at {count}", 100.0 * answered)
                        }
                        (Fault::Unserved, Some(medians)) => {
                            let missing = grouped(row.concurrency as f64 - medians.served);
                            format!("{missing} connections of {count}")
                        }
                        _ => count,
                    }
                })
                .collect();
            let at_a_load = if fault == Fault::Unserved { "" } else { "at " };
            (!at.is_empty()).then(|| format!("{name} ({at_a_load}{})", listed(&at)))
        };
        let all: Vec<String> = summary.subjects.iter().filter_map(at).collect();
        (!all.is_empty()).then(|| sentence(&listed(&all)))
    };
    [
        phrase(Fault::Unserved, |who| {
            format!("No choice, because connections got no reply at all: {who}.")
        }),
        phrase(Fault::ListenQueue, |who| {
            format!(
                "The listen queue, and not the server, was the limit of {who}: raise the backlog \
                 before you conclude anything there."
            )
        }),
        phrase(Fault::Invalid, |who| {
            format!("Not compared, because the load generator could not do its work there: {who}.")
        }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Peers and yardsticks beside the best at the highest load.
fn beside(summary: &Summary) -> Vec<String> {
    let last = summary.verdicts.iter().rfind(|verdict| {
        !verdict.is_withheld()
            && verdict.others.iter().any(|other| summary.peers.contains(&other.subject))
    });
    let mut sentences = Vec::new();
    if let (Some(verdict), Some(best)) = (last, last.and_then(|verdict| verdict.standings.first()))
    {
        let peer = |other: &Standing| {
            let [low, high] = [other.low, other.high].map(|value| format!("{:+.1}", 100.0 * value));
            format!("{} {:+.1} % [{low} to {high}]", other.subject, 100.0 * other.behind)
        };
        let peers = verdict.others.iter().filter(|other| summary.peers.contains(&other.subject));
        let named: Vec<String> = peers.map(peer).collect();
        let what = match verdict.metric {
            Metric::ServerCpu => "processor time for a request",
            Metric::Rate => "time for a request",
            Metric::Latency(_) => "latency",
        };
        sentences.push(format!(
            "Peers beside {} at {}, by {what}: {}.",
            best.subject,
            verdict.at(),
            listed(&named)
        ));
        sentences.extend(peers::disclosure(&summary.service).map(str::to_owned));
    }
    sentences.extend(summary.yardsticks.iter().map(|name| {
        format!("{name} is a yardstick and no choice: only hand-written services run on it.")
    }));
    sentences
}
