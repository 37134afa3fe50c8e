//! Which architecture to choose, by how much, how sure, and at what cost: in words.
//!
//! At each concurrency the architectures are compared by requests/s; where the load generator was the
//! limit, requests/s measure it and not the server, and the server's processor time for each request
//! decides among those that reached that limit. Two are level when the interval of their ratio holds
//! the number one. The choice is the one that leads, or is level with the leader, at most
//! concurrencies; the higher concurrency decides among equals. Whoever left connections without a reply
//! is not compared, nor is what serves no service of one's own: handwritten, and peers, which the choice is
//! held against.

use crate::format::{bytes, connections, duration, grouped, listed};
use crate::statistics::{Estimate, Interval, ratio};
use crate::summary::{Medians, Row, Summary};

/// The architecture that nobody can choose: a state machine by hand for two of the built-in services,
/// beside which the compiler's can be seen.
const YARDSTICK: &str = "handwritten";

/// What to choose, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recommendation {
    /// The architecture to choose; none when nothing can be compared.
    pub architecture: Option<String>,
    /// The choice and its reasons; the first sentence can stand alone.
    pub sentences: Vec<String>,
}

/// The recommendation that follows from `summary`.
pub fn recommend(summary: &Summary) -> Recommendation {
    let contests: Vec<Contest<'_>> =
        summary.concurrency.iter().filter_map(|&count| Contest::at(summary, count)).collect();
    let Some(chosen) = choose(summary, &contests) else {
        let sentence = match summary.partial() {
            Some(partial) => format!("Nothing can be recommended yet ({partial})."),
            None => "Nothing can be recommended: no architecture served all connections.".into(),
        };
        let sentences = [sentence].into_iter().chain(held_up_by_queue(summary)).collect();
        return Recommendation { architecture: None, sentences };
    };
    let (won, lost): (Vec<&Contest<'_>>, Vec<&Contest<'_>>) =
        contests.iter().partition(|contest| contest.leads(chosen));
    let mut sentences = vec![headline(chosen, &won, contests.len())];
    let largest = won.iter().max_by_key(|contest| contest.concurrency);
    if let Some(largest) = largest {
        sentences.push(largest.margin(chosen));
        sentences.extend(largest.cost(chosen));
    }
    sentences.extend(elsewhere(chosen, &lost));
    sentences.extend(largest.and_then(|contest| contest.beside_peers(summary, chosen)));
    sentences.extend(left_out(summary));
    sentences.extend(held_up_by_queue(summary));
    if summary.subjects.iter().any(|name| name == YARDSTICK) {
        sentences.push(format!("{YARDSTICK} is a yardstick and no choice: it runs no other code."));
    }
    sentences.push(how_sure(summary));
    Recommendation { architecture: Some(chosen.to_owned()), sentences }
}

/// The architectures that can be compared at a concurrency, best first.
struct Contest<'a> {
    concurrency: usize,
    seed: u64,
    /// Whether the leader's requests/s measure the load generator.
    by_cpu: bool,
    ranked: Vec<(&'a Row, &'a Medians)>,
}

impl<'a> Contest<'a> {
    fn at(summary: &'a Summary, concurrency: usize) -> Option<Self> {
        let mut ranked: Vec<(&Row, &Medians)> = summary
            .rows
            .iter()
            .filter(|row| row.concurrency == concurrency && row.subject != YARDSTICK)
            .filter(|row| !summary.peers.contains(&row.subject))
            .filter_map(|row| Some((row, row.medians()?)))
            .filter(|(_, medians)| !medians.starved && medians.requests_per_second.value > 0.0)
            .collect();
        let rate = |medians: &Medians| medians.requests_per_second.value;
        ranked.sort_by(|(_, one), (_, other)| rate(other).total_cmp(&rate(one)));
        let by_cpu = ranked.first()?.1.client_was_limit;
        if by_cpu {
            ranked.retain(|(_, medians)| medians.client_was_limit);
            ranked.sort_by(|(_, one), (_, other)| one.cpu_us.total_cmp(&other.cpu_us));
        }
        Some(Contest { concurrency, seed: summary.seed, by_cpu, ranked })
    }

    /// How many times better `one` is than `other`.
    fn advantage(&self, one: &Medians, other: &Medians) -> Option<Estimate> {
        if self.by_cpu {
            return ratio(&other.cpu_us_samples, &one.cpu_us_samples, self.seed);
        }
        ratio(&one.requests_per_second_samples, &other.requests_per_second_samples, self.seed)
    }

    /// Those that the leader does not beat for sure, the leader first.
    fn level(&self) -> impl Iterator<Item = &(&'a Row, &'a Medians)> {
        self.ranked.iter().enumerate().filter_map(|(place, entry)| {
            let level = self
                .advantage(self.ranked[0].1, entry.1)
                .and_then(|advantage| advantage.interval)
                .is_some_and(|interval| interval.contains(1.0));
            (place == 0 || level).then_some(entry)
        })
    }

    /// Whether `name` leads or is level with the leader.
    fn leads(&self, name: &str) -> bool {
        self.level().any(|(row, _)| row.subject == name)
    }

    fn medians_of(&self, name: &str) -> Option<&'a Medians> {
        let found = self.ranked.iter().find(|(row, _)| row.subject == name);
        found.map(|(_, medians)| *medians)
    }

    /// What `name`, one of the leaders, does here, and how far behind the next is.
    fn margin(&self, name: &str) -> String {
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
            let (amount, interval) =
                (times(advantage, self.by_cpu), within(advantage, self.by_cpu));
            Some(format!("{amount} {compared} of the next, {}{interval}", row.subject))
        });
        let joint = if ties.is_empty() { ", " } else { " and " };
        let next = next.map_or(String::new(), |next| format!("{joint}{next}"));
        format!("{figure}{tied}{next}.")
    }

    /// What the choice costs in memory and tail latency, beside the best of those that can be compared.
    fn cost(&self, name: &str) -> Option<String> {
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
    fn beside_peers(&self, summary: &Summary, chosen: &str) -> Option<String> {
        let own = self.medians_of(chosen)?;
        let peers = summary.rows.iter().filter(|row| {
            row.concurrency == self.concurrency && summary.peers.contains(&row.subject)
        });
        // A peer that took less of the load than it was given is no measure of processor time.
        let comparable =
            |medians: &&Medians| !medians.starved && (!self.by_cpu || medians.client_was_limit);
        let told: Vec<String> = peers
            .filter_map(|row| {
                let advantage = self.advantage(own, row.medians().filter(comparable)?)?;
                let by = times(advantage, self.by_cpu);
                let interval = within(advantage, self.by_cpu);
                let level = advantage.interval.is_some_and(|interval| interval.contains(1.0));
                Some(match level {
                    true => format!("{}: level{interval}", row.subject),
                    false => format!("{}: {by} its {}{interval}", row.subject, self.measure()),
                })
            })
            .collect();
        (!told.is_empty()).then(|| {
            let at = connections(self.concurrency);
            format!("For reference, {chosen} beside the peers at {at}: {}.", told.join("; "))
        })
    }

    /// What is compared here.
    fn measure(&self) -> &'static str {
        if self.by_cpu { "CPU time" } else { "rate" }
    }
}

/// The architecture that leads most often; the higher concurrency, then the design's order, decides
/// among equals.
fn choose<'a>(summary: &'a Summary, contests: &[Contest<'_>]) -> Option<&'a str> {
    let score = |name: &str| {
        let led = contests.iter().filter(|contest| contest.leads(name));
        let places = |name: &str| {
            let last = contests.iter().max_by_key(|contest| contest.concurrency)?;
            last.ranked.iter().position(|(row, _)| row.subject == name)
        };
        let highest = led.clone().map(|contest| contest.concurrency).max();
        (led.count(), highest, std::cmp::Reverse(places(name).unwrap_or(usize::MAX)))
    };
    let names = summary.subjects.iter().rev().map(String::as_str);
    names.max_by_key(|name| score(name)).filter(|name| score(name).0 > 0)
}

fn headline(chosen: &str, won: &[&Contest<'_>], all: usize) -> String {
    let at: Vec<String> = won.iter().map(|contest| grouped(contest.concurrency as f64)).collect();
    let plural = if at.as_slice() == ["1"] { "" } else { "s" };
    let alone = won.iter().all(|contest| contest.level().count() == 1);
    let leads = if alone { "leads" } else { "leads, or is level with the leader," };
    match (won.len(), all) {
        (1, 1) => format!("Choose {chosen}: it {leads} at {} connection{plural}.", listed(&at)),
        (count, all) if count == all => {
            format!("Choose {chosen}: it {leads} at every concurrency that was measured.")
        }
        (count, all) => format!(
            "Choose {chosen}: it {leads} at {count} of {all} concurrencies ({} connection{plural}).",
            listed(&at)
        ),
    }
}

/// Where another wins, and by how much.
fn elsewhere(chosen: &str, lost: &[&Contest<'_>]) -> Option<String> {
    let win = |contest: &&Contest<'_>| {
        let (winner, best) = contest.ranked[0];
        let by = contest.medians_of(chosen).and_then(|medians| contest.advantage(best, medians));
        let what = if contest.by_cpu { "its CPU time" } else { "its rate" };
        let by = by.map_or(String::new(), |by| {
            format!(", {} {what}{}", times(by, contest.by_cpu), within(by, contest.by_cpu))
        });
        format!("{} at {}{by}", winner.subject, connections(contest.concurrency))
    };
    let wins: Vec<String> = lost.iter().map(win).collect();
    (!wins.is_empty()).then(|| format!("Another leads elsewhere: {}.", wins.join("; ")))
}

/// Who was not compared because it left connections without a reply.
fn left_out(summary: &Summary) -> Option<String> {
    let starved = |name: &String| {
        let rows = summary.of_subject(name);
        let starved = rows.filter(|row| row.medians().is_some_and(|medians| medians.starved));
        let at: Vec<String> = starved.map(|row| grouped(row.concurrency as f64)).collect();
        (!at.is_empty()).then(|| format!("{name} (at {})", listed(&at)))
    };
    let all: Vec<String> = summary.subjects.iter().filter_map(starved).collect();
    (!all.is_empty()).then(|| {
        format!("Not compared, for leaving connections without any reply: {}.", listed(&all))
    })
}

/// Who was held up by a listen queue, which says nothing about who is best.
fn held_up_by_queue(summary: &Summary) -> Option<String> {
    let held_up = |name: &String| {
        let rows = summary.of_subject(name);
        let limited =
            rows.filter(|row| row.medians().is_some_and(|medians| medians.queue_was_limit));
        let at: Vec<String> = limited.map(|row| grouped(row.concurrency as f64)).collect();
        (!at.is_empty()).then(|| format!("{name} (at {})", listed(&at)))
    };
    let all: Vec<String> = summary.subjects.iter().filter_map(held_up).collect();
    (!all.is_empty()).then(|| {
        format!(
            "The listen queue, and not the server, was the limit of {}: raise the backlog before anything is \
             concluded there.",
            listed(&all)
        )
    })
}

fn how_sure(summary: &Summary) -> String {
    let partial = summary.partial().map_or(String::new(), |partial| format!(" ({partial})"));
    match summary.repeats {
        0 | 1 => format!(
            "Each cell was measured once, so there are no intervals and small differences may be \
             chance{partial}."
        ),
        repeats => format!("Figures are medians of {repeats} repeats{partial}."),
    }
}

/// An advantage in words; of processor time less is better, so it is turned over.
fn times(advantage: Estimate, by_cpu: bool) -> String {
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
