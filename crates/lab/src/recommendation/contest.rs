//! The architectures at one load, best first, and what is to be said of the one that is chosen.

use super::Load;
use crate::format::{bytes, connections, duration, grouped, listed};
use crate::statistics::{Estimate, Interval, ratio};
use crate::summary::{Medians, Row, Summary};

/// The architectures that can be compared at a concurrency, best first.
pub(super) struct Contest<'a> {
    pub(super) concurrency: usize,
    seed: u64,
    /// Whether the leader's requests/s measure the load generator.
    pub(super) by_cpu: bool,
    /// Differences up to this share are not sure, for the control differs as much from itself.
    doubt: f64,
    pub(super) ranked: Vec<(&'a Row, &'a Medians)>,
}

impl<'a> Contest<'a> {
    /// None where nothing can be compared, or nothing keeps the constraints.
    pub(super) fn at(summary: &'a Summary, concurrency: usize) -> Option<Self> {
        let mut ranked = candidates(summary, concurrency);
        ranked.retain(|(_, medians)| {
            summary.constraints.check(medians, summary.seed).iter().all(|check| check.kept)
        });
        let rate = |medians: &Medians| medians.requests_per_second.value;
        ranked.sort_by(|(_, one), (_, other)| rate(other).total_cmp(&rate(one)));
        let by_cpu = ranked.first()?.1.client_was_limit;
        if by_cpu {
            ranked.retain(|(_, medians)| medians.client_was_limit);
            ranked.sort_by(|(_, one), (_, other)| one.cpu_us.total_cmp(&other.cpu_us));
        }
        let doubt = summary.control.as_ref().and_then(|control| control.doubt(concurrency));
        let doubt = doubt.unwrap_or(0.0);
        Some(Contest { concurrency, seed: summary.seed, by_cpu, doubt, ranked })
    }

    /// What is best here.
    pub(super) fn load(&self) -> Load {
        let (_, best) = self.ranked[0];
        let next = self.ranked.iter().find(|(row, _)| !self.leads(&row.subject));
        Load {
            concurrency: self.concurrency,
            leaders: self.level().map(|(row, _)| row.subject.clone()).collect(),
            by_cpu: self.by_cpu,
            requests_per_second: best.requests_per_second,
            p99_us: best.p99_us,
            memory_bytes: best.memory_bytes,
            next: next
                .and_then(|(row, other)| Some((row.subject.clone(), self.advantage(best, other)?))),
        }
    }

    /// How many times better `one` is than `other`.
    pub(super) fn advantage(&self, one: &Medians, other: &Medians) -> Option<Estimate> {
        self.advantage_by(self.by_cpu, one, other)
    }

    fn advantage_by(&self, by_cpu: bool, one: &Medians, other: &Medians) -> Option<Estimate> {
        if by_cpu {
            return ratio(&other.cpu_us_samples, &one.cpu_us_samples, self.seed);
        }
        ratio(&one.requests_per_second_samples, &other.requests_per_second_samples, self.seed)
    }

    /// Those that the leader does not beat for sure, the leader first.
    pub(super) fn level(&self) -> impl Iterator<Item = &(&'a Row, &'a Medians)> {
        self.ranked.iter().enumerate().filter_map(|(place, entry)| {
            let level = self
                .advantage(self.ranked[0].1, entry.1)
                .and_then(|advantage| advantage.interval)
                .is_some_and(|interval| interval.contains(1.0));
            (place == 0 || level).then_some(entry)
        })
    }

    /// Whether `name` leads or is level with the leader.
    pub(super) fn leads(&self, name: &str) -> bool {
        self.level().any(|(row, _)| row.subject == name)
    }

    pub(super) fn medians_of(&self, name: &str) -> Option<&'a Medians> {
        let found = self.ranked.iter().find(|(row, _)| row.subject == name);
        found.map(|(_, medians)| *medians)
    }

    /// What `name`, one of the leaders, does here, and how far behind the next is.
    pub(super) fn margin(&self, name: &str) -> String {
        let Some(medians) = self.medians_of(name) else { return String::new() };
        let at = connections(self.concurrency);
        let rate = medians.requests_per_second;
        let interval = rate.interval.map_or(String::new(), |Interval { low, high }| {
            format!(" (95 % interval {} to {})", grouped(low), grouped(high))
        });
        let figure = if self.by_cpu {
            format!(
                "At {at} the load generator was the limit (at {} requests/s), so server CPU decides: \
                 {name} takes {} per request",
                grouped(rate.value),
                duration(medians.cpu_us)
            )
        } else {
            format!("At {at} it answers {} requests/s{interval}", grouped(rate.value))
        };
        let ties: Vec<&str> = self
            .level()
            .map(|(row, _)| row.subject.as_str())
            .filter(|other| *other != name)
            .collect();
        let tied = match ties.as_slice() {
            [] => String::new(),
            [one] => format!(", level with {one} (the interval of their ratio includes 1)"),
            many => {
                format!(", level with {} (the intervals of the ratios include 1)", listed(many))
            }
        };
        let beaten = |entry: &&(&Row, &Medians)| {
            entry.0.subject != name && !ties.contains(&entry.0.subject.as_str())
        };
        let next = self.ranked.iter().find(beaten).and_then(|(row, other)| {
            let advantage = self.advantage(medians, other)?;
            let compared = if self.by_cpu { "the CPU time" } else { "the rate" };
            let (amount, interval) = (times(advantage, self.by_cpu), self.within(advantage));
            Some(format!("{amount} {compared} of the next, {}{interval}", row.subject))
        });
        let joint = if ties.is_empty() { ", " } else { " and " };
        let next = next.map_or(String::new(), |next| format!("{joint}{next}"));
        format!("{figure}{tied}{next}.")
    }

    /// What the choice costs in memory and tail latency, beside the best of those that can be compared.
    pub(super) fn cost(&self, name: &str) -> Option<String> {
        let chosen = self.medians_of(name)?;
        let least = |of: fn(&Medians) -> f64| {
            self.ranked.iter().min_by(|(_, one), (_, other)| of(one).total_cmp(&of(other)))
        };
        let beside = |of: fn(&Medians) -> f64, show: fn(f64) -> String, best: &str| match least(of)
        {
            Some((row, other)) if show(of(other)) != show(of(chosen)) => {
                format!("({best}: {}, {})", row.subject, show(of(other)))
            }
            _ => format!("(the {best})"),
        };
        Some(format!(
            "There it costs {} of memory {} and a p99 latency of {} {}.",
            bytes(chosen.memory_bytes),
            beside(|medians| medians.memory_bytes, bytes, "least"),
            duration(chosen.p99_us),
            beside(|medians| medians.p99_us, duration, "shortest"),
        ))
    }
}

impl Contest<'_> {
    /// How the choice compares with the peers that were measured here: for reference, since nobody can choose them.
    pub(super) fn beside_peers(&self, summary: &Summary, chosen: &str) -> Option<String> {
        let own = self.medians_of(chosen)?;
        let peers = summary.rows.iter().filter(|row| {
            row.concurrency == self.concurrency && summary.peers.contains(&row.subject)
        });
        let told: Vec<String> = peers
            .filter_map(|row| {
                let sound = |medians: &&Medians| !medians.starved && !medians.invalid;
                let peer = row.medians().filter(sound)?;
                // Who did not come to what the load generator can do is no measure of processor time, but of the rate.
                let by_cpu = self.by_cpu && peer.client_was_limit;
                let advantage = self.advantage_by(by_cpu, own, peer)?;
                let (by, interval) = (times(advantage, by_cpu), self.within_by(by_cpu, advantage));
                let level = advantage.interval.is_some_and(|interval| interval.contains(1.0));
                let what = if by_cpu { "CPU time" } else { "rate" };
                Some(match (level, self.by_cpu && !by_cpu) {
                    (true, _) => format!("{}: level{interval}", row.subject),
                    (false, true) => format!("{}: at least {by} its {what}{interval}", row.subject),
                    (false, false) => format!("{}: {by} its {what}{interval}", row.subject),
                })
            })
            .collect();
        (!told.is_empty()).then(|| {
            let at = connections(self.concurrency);
            format!("For reference, {chosen} beside the peers at {at}: {}.", told.join("; "))
        })
    }

    /// The interval of an advantage, and whether the control says that it is not sure.
    pub(super) fn within(&self, advantage: Estimate) -> String {
        self.within_by(self.by_cpu, advantage)
    }

    fn within_by(&self, by_cpu: bool, advantage: Estimate) -> String {
        let interval = within(advantage, by_cpu);
        let share = advantage.value.max(1.0 / advantage.value) - 1.0;
        if share <= self.doubt { interval + ", which is not sure" } else { interval }
    }
}

/// Who can be chosen at a concurrency, were there no constraints: whoever left connections without a reply is
/// not compared, nor where the load generator could not do its work.
pub(super) fn candidates(summary: &Summary, concurrency: usize) -> Vec<(&Row, &Medians)> {
    summary
        .rows
        .iter()
        .filter(|row| row.concurrency == concurrency && !summary.yardsticks.contains(&row.subject))
        .filter(|row| !summary.peers.contains(&row.subject))
        .filter_map(|row| Some((row, row.medians()?)))
        .filter(|(_, medians)| !medians.starved && !medians.invalid)
        .filter(|(_, medians)| medians.requests_per_second.value > 0.0)
        .collect()
}

/// An advantage in words; of processor time less is better, so it is turned over.
pub(super) fn times(advantage: Estimate, by_cpu: bool) -> String {
    if by_cpu {
        format!("{:.0} % of", 100.0 / advantage.value)
    } else {
        format!("{} times", factor(advantage.value))
    }
}

fn within(advantage: Estimate, by_cpu: bool) -> String {
    match advantage.interval {
        None => String::new(),
        Some(Interval { low, high }) if by_cpu => {
            format!(" (interval {:.0} to {:.0} %)", 100.0 / high, 100.0 / low)
        }
        Some(Interval { low, high }) => {
            format!(" (interval {} to {})", factor(low), factor(high))
        }
    }
}

/// Near 1 a third decimal shows on which side it is.
fn factor(value: f64) -> String {
    if (value - 1.0).abs() < 0.1 { format!("{value:.3}") } else { format!("{value:.2}") }
}
