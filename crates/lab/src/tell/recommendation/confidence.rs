//! The certainty of a recommendation: the deciding metric, the smallest visible differences, the
//! control, and disturbances on the machine.

use crate::format::{at_most, duration, how_many, listed, percent};
use crate::judge::network::Network;
use crate::judge::summary::Summary;
use crate::judge::verdict::{Evidence, Finding, MANY_STRANGERS, Metric, Remedy, Verdict};
use crate::tell::phrases::Phrase;

/// The deciding metric and the certainty, in full sentences.
pub(super) fn sentences(summary: &Summary) -> Vec<String> {
    let known: Vec<&Verdict> = summary
        .verdicts
        .iter()
        .filter(|verdict| !matches!(verdict.finding, Finding::Withheld { .. }))
        .collect();
    let mut sentences = Vec::new();
    sentences.extend(what_decided(summary, &known));
    sentences.extend(moved_work(&known));
    sentences.extend(found(&known));
    sentences.extend(measured_in(summary, &known));
    sentences.extend(controls(&known));
    sentences
}

/// The loads of verdicts with a property: `10, 100 and 1,000 connections`.
fn at(summary: &Summary, verdicts: &[&Verdict]) -> String {
    summary.at_all(&verdicts.iter().map(|verdict| verdict.concurrency).collect::<Vec<_>>())
}

fn what_decided(summary: &Summary, told: &[&Verdict]) -> Vec<String> {
    let by = |is_it: fn(Metric) -> bool| -> Vec<&Verdict> {
        told.iter().copied().filter(|verdict| is_it(verdict.metric)).collect()
    };
    let mut sentences = Vec::new();
    let rate = by(|metric| metric == Metric::Rate);
    let cpu = by(|metric| metric == Metric::ServerCpu);
    let latency = by(|metric| matches!(metric, Metric::Latency(_)));
    if !cpu.is_empty() {
        sentences.push(format!(
            "The server's processor time for each request decides at {}: it does not depend on \
             the speed of the load generator.",
            at(summary, &cpu)
        ));
    }
    for verdict in told {
        sentences.extend(network_of(verdict).map(|told| format!("{told}.")));
    }
    if !rate.is_empty() {
        sentences.push(format!(
            "Requests/s decide at {}: there servers are not busy, or use several processors.",
            at(summary, &rate)
        ));
    }
    if let Some(Metric::Latency(percentile)) = latency.first().map(|verdict| verdict.metric) {
        sentences.push(format!(
            "The corrected {percentile} latency decides, because the rate is given at {}.",
            at(summary, &latency)
        ));
    }
    sentences
}

/// A sentence without its full stop: the network sets the rate at a number of connections. `None`
/// if the network does not.
pub(crate) fn network_of(verdict: &Verdict) -> Option<String> {
    let Network { round_trip_us, latency_us, load_in_server } = verdict.network?;
    // The two are medians of different moments, so the part may exceed the whole.
    let part = match round_trip_us < latency_us {
        true => format!("{} of {}", duration(round_trip_us), duration(latency_us)),
        false => format!("all of {}", duration(latency_us)),
    };
    let load = format!("{load_in_server:.1}");
    Some(Phrase::NetworkRules.told(&[&verdict.at(), &part, &load]))
}

/// The numbers of connections at which work has moved between server and load generator.
fn moved_work(told: &[&Verdict]) -> Option<String> {
    let moved = |verdict: &&&Verdict| verdict.standings.iter().any(|standing| standing.work_moved);
    let all: Vec<String> = told
        .iter()
        .filter(moved)
        .filter_map(|verdict| {
            let best = verdict.standings.first()?;
            let other = verdict.standings.iter().find(|standing| standing.work_moved)?;
            Some(format!(
                "at {} {} takes {:.1} µs and the load generator {:.1}, {} {:.1} and {:.1}",
                verdict.at(),
                best.subject,
                best.server_cpu_us,
                best.client_cpu_us,
                other.subject,
                other.server_cpu_us,
                other.client_cpu_us
            ))
        })
        .collect();
    (!all.is_empty()).then(|| {
        format!(
            "Not ranked by the server's time alone: over loopback either end may do the kernel's \
             work for a connection, and this work moved: {}.",
            all.join("; ")
        )
    })
}

/// How much worse than the best a subject may be that is not told apart from it.
pub(super) fn found(told: &[&Verdict]) -> Option<String> {
    let most = |verdict: &&Verdict| Some((verdict.most_behind()?, how_many(verdict.concurrency)));
    let all: Vec<(f64, String)> = told.iter().filter_map(most).collect();
    let largest = at_most(all.iter().map(|(share, _)| *share).reduce(f64::max)?);
    let each = all.iter().map(|(share, count)| format!("{} at {count}", at_most(*share)));
    let each = match all.len() {
        1 => String::new(),
        _ => format!(" ({})", each.collect::<Vec<String>>().join(", ")),
    };
    let halves = match told.first()?.evidence.remedy {
        Remedy::Time => "a run four times as long (--budget) halves",
        Remedy::Repeats => "four times the --repeats halve",
    };
    Some(format!(
        "What is not told apart from the best is at most {largest} worse{each}; {halves} what is \
         not known."
    ))
}

/// The method of measurement, if it is not the usual one.
fn measured_in(summary: &Summary, told: &[&Verdict]) -> Vec<String> {
    let mut sentences = Vec::new();
    let groups: Vec<&Verdict> =
        told.iter().copied().filter(|verdict| verdict.evidence.groups > 1).collect();
    if !groups.is_empty() {
        sentences.push(format!(
            "At {} not all servers could be kept alive side by side: they were measured in \
             groups, and compared by way of one subject that is in each group.",
            at(summary, &groups)
        ));
    }
    let turns: Vec<&Verdict> =
        told.iter().copied().filter(|verdict| verdict.evidence.in_turn).collect();
    if !turns.is_empty() {
        sentences.push(format!(
            "At {} servers were measured one after the other, which finds fewer differences than \
             slices side by side.",
            at(summary, &turns)
        ));
    }
    sentences
}

pub(super) fn controls(told: &[&Verdict]) -> Option<String> {
    let checks: Vec<String> = told
        .iter()
        .filter_map(|verdict| {
            let control = verdict.control.as_ref()?;
            let count = how_many(verdict.concurrency);
            Some(format!("{:+.1} % at {count}", 100.0 * control.difference))
        })
        .collect();
    let subject = told.iter().find_map(|verdict| verdict.control.as_ref())?.subject.clone();
    Some(format!(
        "A/A control: {subject}, measured under two names, differs from itself by {}, as much as chance allows.",
        listed(&checks)
    ))
}

/// A disturbance on the machine: the number of disturbed blocks, of all.
struct Disturbed {
    blocks: usize,
    /// `blocks`, or `rounds`.
    what: &'static str,
    stolen: usize,
    again: usize,
    waited: usize,
    throttled: usize,
    strangers: usize,
    /// The largest share of a processor that other processes used.
    most: f64,
    /// The host of the disturbance: ` of HOST`, or empty for this machine.
    place: String,
}

impl Disturbed {
    fn of(summary: &Summary) -> Self {
        let all = || summary.verdicts.iter().map(|verdict| &verdict.evidence);
        let sum = |of: fn(&Evidence) -> usize| -> usize { all().map(of).sum() };
        let worst = all().max_by(|one, other| one.strangers.total_cmp(&other.strangers));
        let most = worst.map_or(0.0, |worst| worst.strangers);
        let host = worst.and_then(|worst| worst.host.as_ref());
        Self {
            blocks: sum(|one| one.measured),
            what: if all().all(|one| one.in_turn) { "rounds" } else { "blocks" },
            stolen: sum(|one| one.lighter + one.dropped - one.waited),
            again: sum(|one| one.again),
            waited: sum(|one| one.waited),
            throttled: sum(|one| one.throttled),
            strangers: if most > MANY_STRANGERS { sum(|one| one.with_strangers) } else { 0 },
            most,
            place: host.map_or(String::new(), |host| format!(" of {host}")),
        }
    }
}

/// The disturbances on the machine, in a few words each.
pub(in crate::tell) fn disturbed_briefly(summary: &Summary) -> Vec<String> {
    let Disturbed { blocks, what, stolen, waited, throttled, strangers, most, place, .. } =
        Disturbed::of(summary);
    let (blocks, most) = (blocks.to_string(), percent(most));
    let sentence = |phrase: Phrase, count: usize, parts: &[&str]| {
        let of = count.to_string();
        (count > 0).then(|| phrase.told(&[parts, &[of.as_str(), blocks.as_str(), what]].concat()))
    };
    [
        sentence(Phrase::Steal, stolen, &[]),
        sentence(Phrase::ClientWaited, waited, &[]),
        sentence(Phrase::QuotaRanOut, throttled, &[]),
        sentence(Phrase::OtherProcesses, strangers, &[&most, &place]),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The disturbances on the machine, in full sentences.
pub(super) fn disturbance(summary: &Summary) -> Vec<String> {
    let Disturbed { blocks, what, stolen, again, waited, throttled, strangers, most, place } =
        Disturbed::of(summary);
    let mut sentences = Vec::new();
    if stolen > 0 {
        let all = summary.verdicts.iter().map(|verdict| &verdict.evidence);
        let worst = all.max_by(|one, other| one.stolen.total_cmp(&other.stolen));
        let share = worst.filter(|worst| worst.stolen > 0.0).map_or(String::new(), |worst| {
            let cpu =
                worst.stolen_cpu.map_or("a processor".to_owned(), |cpu| format!("processor {cpu}"));
            let cpu = worst.host.iter().fold(cpu, |cpu, host| format!("{cpu} of {host}"));
            format!(" (up to {} of {cpu})", percent(worst.stolen))
        });
        sentences.push(format!(
            "The hypervisor took more than a tenth of a processor{share} in or around {stolen} of {blocks} {what}, which count \
             less; {again} more {} measured.",
            if again == 1 { "was" } else { "were" }
        ));
    }
    if waited > 0 {
        sentences.push(format!(
            "The load generator had to wait for its processor in {waited} of {blocks} {what} that would have decided by their rates; they \
             do not count."
        ));
    }
    if throttled > 0 {
        sentences.push(format!(
            "The CPU quota of the control group ran out in {throttled} of {blocks} {what}: servers and load generator stood still then. \
             Raise it (`cpu.max`), or measure outside of the group."
        ));
    }
    if strangers > 0 {
        sentences.push(format!(
            "Other processes used more than a tenth of a processor of the measurement in {strangers} of {blocks} {what}, up to {}{place}: \
             processor times allow for them, rates and latencies suffer. End them, or measure on other processors (--server-cpus, \
             --client-cpus).",
            percent(most)
        ));
    }
    sentences
}
