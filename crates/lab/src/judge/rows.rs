//! Rows. A row has all windows of one subject at one number of connections, as medians with
//! intervals, and the faults.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use duality_load::{Latency, Warning, WarningKind};

pub use crate::judge::fates::{Ended, Fates};
use crate::judge::network::load_in_server;
use crate::judge::soundness;
use crate::judge::verdict::Standing;
use crate::record::{Block, Measured, Outcome, Throughout};
use crate::statistics::{Estimate, Interval, estimate, median, variation};

/// A subject at a concurrency.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The name of the architecture or peer.
    pub subject: String,
    /// The number of connections that were open at once.
    pub concurrency: usize,
    /// What was found.
    pub figures: Figures,
    /// The sessions in which the server ended. `None` if there were none.
    pub ended: Option<Ended>,
    /// Warnings for readers of the figures, without repetition. The numbers in a warning come from
    /// one repeat.
    pub warnings: Vec<Warning>,
}

/// The result for a subject at a concurrency.
#[derive(Clone, Debug, PartialEq)]
pub enum Figures {
    /// At least one repeat was measured.
    Measured(Box<Medians>),
    /// None was.
    Missing {
        /// What came of the first repeat.
        state: Missing,
        /// The reason. Empty if it was not run.
        reason: String,
    },
}

/// Why a subject has no figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The cell could not be measured, and the subject did not fail.
    Unavailable,
    /// The subject failed.
    Failed,
    /// The experiment ended before the cell.
    NotRun,
}

impl Missing {
    /// `unavailable`, `failed` or `not run`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::Failed => "failed",
            Self::NotRun => "not run",
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Medians over the repeats; units as in [`Measured`].
#[derive(Clone, Debug, PartialEq)]
pub struct Medians {
    /// Correct replies per second, with their interval.
    pub requests_per_second: Estimate,
    /// Correct replies per second of each repeat.
    pub requests_per_second_samples: Vec<f64>,
    /// The variation of the rates, see [`variation`]. `None` for one repeat.
    pub variation: Option<f64>,
    /// Mean latency: the service time of Kerneis & Chroboczek.
    pub mean_us: f64,
    /// The median latency.
    pub p50_us: f64,
    /// The latency that 99 % of requests do not exceed.
    pub p99_us: f64,
    /// The latency that 99.9 % of requests do not exceed.
    pub p99_9_us: f64,
    /// Mean number of requests in service. Over a network, requests in the servers alone.
    pub measured_load: f64,
    /// The server's processor time for each request.
    pub cpu_us: f64,
    /// The server's processor time for each request, with its interval.
    pub cpu: Estimate,
    /// Whether rates and processor times come from blocks. Then an invalid window does not affect
    /// them.
    pub of_blocks: bool,
    /// The load generator's processor time for each request.
    pub client_cpu_us: f64,
    /// The server's processor time for each request in each repeat.
    pub cpu_us_samples: Vec<f64>,
    /// The server's memory.
    pub memory_bytes: f64,
    /// The server's memory in each repeat.
    pub memory_samples: Vec<f64>,
    /// The latencies of each repeat.
    pub latency_samples: Vec<Latency>,
    /// The figures of whole sessions, in slices. Empty where there are none.
    pub sessions: Vec<Throughout>,
    /// The load generator's processor time, as a share of one processor.
    pub client_cpu_share: f64,
    /// Whether the load generator was the limit in at least half of the repeats.
    pub client_was_limit: bool,
    /// Whether more than 1 in 10 connections got no reply within the window. Then the figures
    /// describe fewer connections than the row claims.
    pub starved: bool,
    /// The share of the requests of a replay that got a reply. `None` in other patterns.
    pub answered: Option<f64>,
    /// Whether the listen queue was the limit in at least half of the repeats.
    pub queue_was_limit: bool,
    /// The outcomes of the requests of all windows and slices together. Windows that the figures
    /// leave out also count.
    pub fates: Fates,
    /// The number of connections that got a reply within the window.
    pub served: f64,
    /// Whether at least half of the repeats are invalid: the load generator could not do its work.
    /// The figures then cover all repeats, and cannot be trusted. If fewer repeats are invalid, the
    /// figures leave them out.
    pub invalid: bool,
}

impl Medians {
    /// Whether rates and processor times can be compared. Figures of blocks can be compared, even
    /// if windows were disturbed.
    pub fn is_comparable(&self) -> bool {
        !self.invalid || self.of_blocks
    }

    /// Whether the subject's latencies were measured by a load generator that could do its work.
    pub fn has_latencies(&self) -> bool {
        !self.invalid && self.p99_us > 0.0
    }
}

impl Row {
    /// The medians, if anything was measured.
    pub fn medians(&self) -> Option<&Medians> {
        match &self.figures {
            Figures::Measured(medians) => Some(medians),
            Figures::Missing { .. } => None,
        }
    }
}

impl Row {
    /// Counts the failures of the row's subject in slices, which hold other subjects too.
    pub(crate) fn take_failures(&mut self, blocks: &[&Block]) {
        let Figures::Measured(medians) = &mut self.figures else { return };
        let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
        let slices = blocks.iter().flat_map(|block| &block.slices);
        for slice in slices.filter(|slice| slice.subject == self.subject) {
            medians.fates.count(slice.requests, slice.failures, &slice.errors);
            let mut count = |kind, count: u64| {
                let sum = kinds.entry(kind).or_default();
                *sum = sum.saturating_add(count);
            };
            slice.errors.iter().for_each(|(kind, failed)| count(kind, *failed));
            if slice.errors.is_empty() && slice.failures > 0 {
                count("failed", slice.failures);
            }
        }
        for (kind, count) in kinds {
            let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
            let text = format!("{kind} {times} in slices.");
            self.warnings
                .push(Warning::new(WarningKind::Failed(format!("{kind} in slices")), text));
        }
    }
}

impl Medians {
    /// Takes rates and processor times from a verdict, which has left disturbed blocks out.
    pub(crate) fn take_standing(&mut self, standing: &Standing) {
        let Standing { rate, rate_low, rate_high, server_cpu_us, client_cpu_us, .. } = *standing;
        let has_interval = rate_low < rate_high;
        self.requests_per_second = Estimate {
            value: rate,
            interval: has_interval.then_some(Interval { low: rate_low, high: rate_high }),
        };
        let by = server_cpu_us / self.cpu.value;
        let interval = self.cpu.interval;
        let interval = interval.map(|ends| Interval { low: ends.low * by, high: ends.high * by });
        self.cpu = Estimate { value: server_cpu_us, interval };
        [self.cpu_us, self.client_cpu_us] = [server_cpu_us, client_cpu_us];
    }

    /// Takes rates and processor times from blocks, if there are any. Many short slices,
    /// interleaved with those of other subjects, are steadier than one window in each repeat. The
    /// value of a repeat is then the mean of its blocks.
    pub(crate) fn take_blocks(&mut self, subject: &str, blocks: &[&Block], seed: u64) {
        let mean = |sessions: Option<usize>, of: fn(&crate::record::Slice) -> f64| -> Vec<f64> {
            let blocks =
                blocks.iter().filter(|block| sessions.is_none_or(|one| block.session == one));
            let mean = |block: &&Block| {
                let own = block.slices.iter().filter(|slice| slice.subject == subject);
                let own: Vec<f64> = own.filter(|slice| slice.requests > 0).map(of).collect();
                (!own.is_empty()).then(|| own.iter().sum::<f64>() / own.len() as f64)
            };
            blocks.filter_map(mean).collect()
        };
        let rate: fn(&crate::record::Slice) -> f64 = |slice| slice.requests_per_second;
        let cpu: fn(&crate::record::Slice) -> f64 =
            |slice| slice.server_cpu_us / slice.requests as f64;
        let client: fn(&crate::record::Slice) -> f64 =
            |slice| slice.client_cpu_us / slice.requests as f64;
        let (Some(rates), Some(cpus)) =
            (estimate(&mean(None, rate), seed), estimate(&mean(None, cpu), seed))
        else {
            return;
        };
        let sessions: BTreeSet<usize> = blocks.iter().map(|block| block.session).collect();
        let by_session = |of| -> Vec<f64> {
            let means = sessions.iter().map(|session| median(&mean(Some(*session), of)));
            means.flatten().collect()
        };
        self.of_blocks = true;
        self.requests_per_second = rates;
        self.cpu = cpus;
        self.cpu_us = cpus.value;
        self.requests_per_second_samples = by_session(rate);
        self.cpu_us_samples = by_session(cpu);
        self.variation = variation(&self.requests_per_second_samples);
        let served = |session: &usize| {
            let own = blocks.iter().filter(|block| block.session == *session);
            let slices = own.flat_map(|block| &block.slices);
            let counts = slices.filter(|slice| slice.subject == subject);
            counts.map(|slice| slice.connections_served as f64).reduce(f64::max)
        };
        // A window may be too short for all connections, but a session is not.
        let served: Vec<f64> = sessions.iter().filter_map(served).collect();
        self.served = median(&served).unwrap_or(self.served).max(self.served);
        if let Some(client) = median(&mean(None, client)) {
            self.client_cpu_us = client;
        }
    }
}

/// The row of a subject at a number of connections. `outcomes` has one outcome for each repeat.
pub(crate) fn row(subject: &str, concurrency: usize, outcomes: &[&Outcome], seed: u64) -> Row {
    let mut measured: Vec<&Measured> = Vec::new();
    let mut missing: Vec<(Missing, &String)> = Vec::new();
    for outcome in outcomes {
        match outcome {
            Outcome::Measured(figures) => measured.push(figures),
            Outcome::Unavailable { reason, .. } => missing.push((Missing::Unavailable, reason)),
            Outcome::Failed { reason } => missing.push((Missing::Failed, reason)),
        }
    }
    let mut endings = missing.iter().filter(|(state, _)| *state == Missing::Failed);
    let ended = endings.next().map(|(_, reason)| Ended {
        sessions: 1 + endings.count(),
        of: outcomes.len(),
        reason: (*reason).clone(),
    });
    let mut warnings = merged(measured.iter().flat_map(|figures| &figures.warnings));
    let mut fates = Fates::default();
    for window in &measured {
        let failed = window.errors.values().copied().fold(0, u64::saturating_add);
        fates.count(window.requests, failed, &window.errors);
    }
    let invalid = left_out(&mut measured, &mut warnings);
    let figures = match (medians(&measured, concurrency, seed), missing.first()) {
        (Some(mut medians), first) => {
            medians.invalid = invalid;
            medians.fates = fates;
            warnings.extend(soundness::marks(&measured, &medians.requests_per_second_samples));
            if let Some((state, reason)) = first {
                let (count, all) = (missing.len(), outcomes.len());
                let text = format!("{count} of {all} repeats {state}: {reason}");
                warnings.push(Warning::new(WarningKind::Missing, text));
            }
            Figures::Measured(Box::new(medians))
        }
        (None, Some((state, reason))) => {
            Figures::Missing { state: *state, reason: (*reason).clone() }
        }
        (None, None) => Figures::Missing { state: Missing::NotRun, reason: String::new() },
    };
    Row { subject: subject.to_owned(), concurrency, figures, ended, warnings }
}

/// Leaves invalid repeats out and warns about them. If half of the repeats or more are invalid, the
/// whole row is invalid.
fn left_out(measured: &mut Vec<&Measured>, warnings: &mut Vec<Warning>) -> bool {
    let all = measured.len();
    let mut reasons: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for (kind, reason) in measured.iter().flat_map(|repeat| &repeat.invalid) {
        reasons.entry(kind).or_insert((0, reason)).0 += 1;
    }
    let sound = measured.iter().filter(|repeat| repeat.invalid.is_empty()).count();
    let whole = all > 0 && 2 * sound <= all;
    for (kind, (count, reason)) in reasons {
        let fate = if whole { "invalid" } else { "invalid and left out" };
        let text = format!("{count} of {all} repeats {fate}: {reason}");
        warnings.push(Warning::new(WarningKind::Invalid(kind.to_owned()), text));
    }
    if !whole {
        measured.retain(|repeat| repeat.invalid.is_empty());
    }
    whole
}

/// One warning of each kind. The warnings of the repeats differ only in their numbers.
fn merged<'a>(warnings: impl Iterator<Item = &'a Warning>) -> Vec<Warning> {
    let mut kept: Vec<Warning> = Vec::new();
    for warning in warnings {
        let is_known = |known: &Warning| match warning.kind {
            WarningKind::Other => known.text == warning.text,
            _ => known.kind == warning.kind,
        };
        if !kept.iter().any(is_known) {
            kept.push(warning.clone());
        }
    }
    kept
}

/// Fewer connections than this share with a reply are too few.
pub(crate) const SERVED: f64 = 0.9;

/// The latencies of a repeat. A window is short: it may miss what a server does every few seconds.
/// So tails are those of the whole session, or of the window where they are longer.
fn latencies(repeat: &Measured) -> Latency {
    let window = repeat.latency_us;
    repeat.session.map_or(window, |Throughout { latency_us: whole, .. }| Latency {
        p99: whole.p99.max(window.p99),
        p99_9: whole.p99_9.max(window.p99_9),
        max: whole.max.max(window.max),
        ..window
    })
}

/// The medians of some repeats. `None` without repeats.
fn medians(repeats: &[&Measured], concurrency: usize, seed: u64) -> Option<Medians> {
    let samples = |of: fn(&Measured) -> f64| -> Vec<f64> {
        repeats.iter().map(|repeat| of(repeat)).collect()
    };
    let middle = |of: fn(&Measured) -> f64| median(&samples(of));
    let requests_per_second_samples = samples(|repeat| repeat.requests_per_second);
    let served: fn(&Measured) -> f64 = |repeat| repeat.connections_served as f64;
    let answered = repeats.iter().filter_map(|repeat| {
        let asked = repeat.replayed.as_ref()?.requests;
        Some(repeat.requests as f64 / asked.max(1) as f64)
    });
    let answered = median(&answered.collect::<Vec<_>>());
    let limited = repeats.iter().filter(|repeat| repeat.client_was_limit).count();
    let was_limit = |repeat: &Measured| repeat.listen_queue.is_some_and(|queue| queue.was_limit);
    let queued = repeats.iter().filter(|repeat| was_limit(repeat)).count();
    Some(Medians {
        requests_per_second: estimate(&requests_per_second_samples, seed)?,
        variation: variation(&requests_per_second_samples),
        requests_per_second_samples,
        mean_us: middle(|repeat| repeat.latency_us.mean)?,
        p50_us: middle(|repeat| repeat.latency_us.p50)?,
        p99_us: middle(|repeat| latencies(repeat).p99)?,
        p99_9_us: middle(|repeat| latencies(repeat).p99_9)?,
        measured_load: middle(|repeat| load_in_server(repeat).unwrap_or(repeat.measured_load))?,
        cpu_us: middle(|repeat| repeat.server_cpu_us_per_request)?,
        of_blocks: false,
        cpu: estimate(&samples(|repeat| repeat.server_cpu_us_per_request), seed)?,
        client_cpu_us: middle(|repeat| {
            1e6 * repeat.client_cpu_share * repeat.window_seconds / repeat.requests.max(1) as f64
        })?,
        cpu_us_samples: samples(|repeat| repeat.server_cpu_us_per_request),
        memory_bytes: middle(|repeat| repeat.server_peak_bytes as f64)?,
        memory_samples: samples(|repeat| repeat.server_peak_bytes as f64),
        latency_samples: repeats.iter().map(|repeat| latencies(repeat)).collect(),
        sessions: repeats.iter().filter_map(|repeat| repeat.session).collect(),
        client_cpu_share: middle(|repeat| repeat.client_cpu_share)?,
        client_was_limit: 2 * limited >= repeats.len(),
        queue_was_limit: 2 * queued >= repeats.len(),
        starved: match answered {
            Some(answered) => answered < SERVED,
            None => middle(served)? < SERVED * concurrency as f64,
        },
        answered,
        served: middle(served)?,
        fates: Fates::default(),
        invalid: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_of_warning_is_told_once() {
        let failed = |text: &str| Warning::new(WarningKind::Failed("reset".into()), text);
        let other = |text: &str| Warning::new(WarningKind::Other, text);
        let warnings = [failed("9 failed"), failed("8 failed"), other("old"), other("older")];
        let kept = merged(warnings.iter());
        let texts: Vec<&str> = kept.iter().map(|warning| warning.text.as_str()).collect();
        assert_eq!(texts, ["9 failed", "old", "older"]);
    }
}
