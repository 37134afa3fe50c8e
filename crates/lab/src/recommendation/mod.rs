//! Which architecture to choose for which load, by how much, how sure, and at what cost: in words and as data.
//!
//! At each concurrency the architectures are compared by requests/s; where the load generator was the
//! limit, requests/s measure it and not the server, and the server's processor time for each request
//! decides among those that reached that limit. Two are level when the interval of their ratio holds
//! the number one. The choice is the one that leads, or is level with the leader, at most
//! concurrencies. Among equals the higher concurrency decides, then whether idle connections cost nothing, for there were
//! few of those, then the order at the highest. Whoever left connections without a reply
//! is not compared, nor is what serves no service of one's own: handwritten, and peers, which the choice is
//! held against. With [`Constraints`], only those are compared that keep them at that concurrency.

pub mod constraints;
mod contest;
mod crossover;
mod refusal;

use serde::Serialize;

use crate::format::{bytes, connections, duration, grouped, listed};
use crate::statistics::Estimate;
use crate::summary::{Medians, Summary};

pub use constraints::{Check, Constraints};
use contest::{Contest, times};
pub use crossover::{Crossover, Reign};
pub use refusal::{Doubt, Refusal};

/// What to choose, in words and as data.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recommendation {
    /// The architecture to choose; none when nothing can be compared.
    pub architecture: Option<String>,
    /// The choice and its reasons; the first sentence can stand alone.
    pub sentences: Vec<String>,
    /// What is best at each load, from the lowest.
    pub loads: Vec<Load>,
    /// Who leads from which load to which.
    pub reigns: Vec<Reign>,
    /// Where the lead changes.
    pub crossovers: Vec<Crossover>,
    /// Who broke which constraints where.
    pub refused: Vec<Refusal>,
    /// Which constraints are kept or broken, and might as well not be.
    pub doubts: Vec<Doubt>,
}

/// What is best at a load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Load {
    /// How many connections are open at once.
    pub concurrency: usize,
    /// The leader, and those who are level with it.
    pub leaders: Vec<String>,
    /// Whether the load generator was the limit, so that processor time decides.
    pub by_cpu: bool,
    /// The leader's correct replies a second.
    pub requests_per_second: Estimate,
    /// How long 99 % of its requests take at most, in microseconds.
    pub p99_us: f64,
    /// Its memory in bytes.
    pub memory_bytes: f64,
    /// Who comes next for sure, and how many times better the leader is.
    pub next: Option<(String, Estimate)>,
}

/// The recommendation that follows from `summary`.
pub fn recommend(summary: &Summary) -> Recommendation {
    let mut contests: Vec<Contest<'_>> =
        summary.concurrency.iter().filter_map(|&count| Contest::at(summary, count)).collect();
    contests.sort_by_key(|contest| contest.concurrency);
    let refused = refusal::refused(summary);
    let doubts = refusal::doubts(summary);
    let chosen = choose(summary, &contests);
    let reigns = crossover::reigns(&contests, chosen);
    let crossovers = crossover::crossovers(&contests, &reigns);
    let mut sentences = match chosen {
        None => vec![nothing(summary, &refused)],
        Some(chosen) => choice(summary, &contests, chosen, &reigns, &crossovers),
    };
    sentences.extend(refusal::sentences(summary, &refused, &doubts));
    sentences.extend(held_up_by_queue(summary));
    if let Some(chosen) = chosen {
        sentences.extend(beside(summary, &contests, chosen));
    }
    let loads = contests.iter().map(Contest::load).collect();
    let architecture = chosen.map(str::to_owned);
    Recommendation { architecture, sentences, loads, reigns, crossovers, refused, doubts }
}

/// Why nothing can be chosen.
fn nothing(summary: &Summary, refused: &[Refusal]) -> String {
    match summary.partial() {
        Some(partial) => format!("Nothing can be recommended yet ({partial})."),
        None if !refused.is_empty() => {
            let constraints = &summary.constraints;
            format!(
                "Nothing can be recommended: no architecture keeps {constraints} at any load measured."
            )
        }
        None if summary.rows.iter().any(|row| row.medians().is_some_and(|all| all.invalid)) => {
            "Nothing can be recommended: no architecture has a valid cell in which it served all connections.".into()
        }
        None => "Nothing can be recommended: no architecture served all connections.".into(),
    }
}

/// The choice: by how much, at what cost, for what reasons, and who leads elsewhere.
fn choice(
    summary: &Summary,
    contests: &[Contest<'_>],
    chosen: &str,
    reigns: &[Reign],
    crossovers: &[Crossover],
) -> Vec<String> {
    let (won, lost): (Vec<&Contest<'_>>, Vec<&Contest<'_>>) =
        contests.iter().partition(|contest| contest.leads(chosen));
    let mut sentences = vec![headline(summary, chosen, &won, contests.len())];
    if let Some(largest) = won.last() {
        sentences.push(largest.margin(chosen));
        sentences.extend(largest.cost(chosen));
        sentences.extend(idle_ones(summary, largest, chosen));
    }
    sentences.extend(summary.reasons.iter().cloned());
    sentences.extend(elsewhere(chosen, &lost));
    sentences.extend(crossovers.iter().map(Crossover::tell));
    sentences.extend(crossover::none(contests, reigns));
    sentences
}

/// What stands beside the choice: peers, whoever was not compared, and how sure it all is.
fn beside(summary: &Summary, contests: &[Contest<'_>], chosen: &str) -> Vec<String> {
    let largest = contests.iter().rfind(|contest| contest.leads(chosen));
    let mut sentences: Vec<String> =
        largest.and_then(|contest| contest.beside_peers(summary, chosen)).into_iter().collect();
    sentences.extend(left_out(summary, "for leaving connections without any reply", |medians| {
        medians.starved
    }));
    sentences.extend(left_out(
        summary,
        "since the load generator could not do its work there",
        |medians| medians.invalid,
    ));
    sentences.extend(
        summary
            .yardsticks
            .iter()
            .map(|name| format!("{name} is a yardstick and no choice: it runs no other code.")),
    );
    sentences.push(how_sure(summary));
    sentences
}

/// The architecture that leads most often. Among equals the highest concurrency at which they lead decides, then whether they
/// look at idle connections, then their places at the highest of all, then the design's order.
fn choose<'a>(summary: &'a Summary, contests: &[Contest<'_>]) -> Option<&'a str> {
    let score = |name: &str| {
        let led = contests.iter().filter(|contest| contest.leads(name));
        let places = |name: &str| {
            let last = contests.iter().max_by_key(|contest| contest.concurrency)?;
            last.ranked.iter().position(|(row, _)| row.subject == name)
        };
        let highest = led.clone().map(|contest| contest.concurrency).max();
        let looks_at_all = summary.looking_at_all.contains(name);
        (led.count(), highest, !looks_at_all, std::cmp::Reverse(places(name).unwrap_or(usize::MAX)))
    };
    let names = summary.subjects.iter().rev().map(String::as_str);
    names.max_by_key(|name| score(name)).filter(|name| score(name).0 > 0)
}

fn headline(summary: &Summary, chosen: &str, won: &[&Contest<'_>], all: usize) -> String {
    let at: Vec<String> = won.iter().map(|contest| grouped(contest.concurrency as f64)).collect();
    let plural = if at.as_slice() == ["1"] { "" } else { "s" };
    let alone = won.iter().all(|contest| contest.level().count() == 1);
    let leads = if alone { "leads" } else { "leads, or is level with the leader," };
    let constraints = &summary.constraints;
    let it = match constraints.is_empty() {
        true => "it".to_owned(),
        false => format!("of those that keep {constraints}, it"),
    };
    match (won.len(), all) {
        (1, 1) => format!("Choose {chosen}: {it} {leads} at {} connection{plural}.", listed(&at)),
        (count, all) if count == all && all == summary.concurrency.len() => {
            format!("Choose {chosen}: {it} {leads} at every concurrency that was measured.")
        }
        (count, _) => format!(
            "Choose {chosen}: {it} {leads} at {count} of {} concurrencies ({} connection{plural}).",
            summary.concurrency.len(),
            listed(&at)
        ),
    }
}

/// What idle connections would change: about the choice, or about those that were passed over for them.
fn idle_ones(summary: &Summary, largest: &Contest<'_>, chosen: &str) -> Option<String> {
    if summary.looking_at_all.contains(chosen) {
        return Some(format!(
            "{chosen} looks at every open connection in each round, also at idle ones: where there will be many, measure \
             with as many (--idle)."
        ));
    }
    let names = largest.level().map(|(row, _)| row.subject.clone());
    let looking: Vec<String> = names.filter(|name| summary.looking_at_all.contains(name)).collect();
    let [are, they, fall] = match looking.as_slice() {
        [] => return None,
        [_] => ["is", "it looks", "falls"],
        _ => ["are", "they look", "fall"],
    };
    Some(format!(
        "{} {are} no choice among equals: {they} at every open connection in each round, and {fall} behind with each one \
         that is idle.",
        listed(&looking)
    ))
}

/// Where another wins, and by how much.
fn elsewhere(chosen: &str, lost: &[&Contest<'_>]) -> Option<String> {
    let win = |contest: &&Contest<'_>| {
        let (winner, best) = contest.ranked[0];
        let by = contest.medians_of(chosen).and_then(|medians| contest.advantage(best, medians));
        let what = if contest.by_cpu { "its CPU time" } else { "its rate" };
        let by = by.map_or(String::new(), |by| {
            format!(", {} {what}{}", times(by, contest.by_cpu), contest.within(by))
        });
        format!(
            "{} at {}{by}, with a p99 latency of {} and {} of memory",
            winner.subject,
            connections(contest.concurrency),
            duration(best.p99_us),
            bytes(best.memory_bytes)
        )
    };
    let wins: Vec<String> = lost.iter().map(win).collect();
    (!wins.is_empty()).then(|| format!("Another leads elsewhere: {}.", wins.join("; ")))
}

/// Who was not compared, and why.
fn left_out(summary: &Summary, why: &str, out: fn(&Medians) -> bool) -> Option<String> {
    Some(format!("Not compared, {why}: {}.", those(summary, out)?))
}

/// Who was held up by a listen queue, which says nothing about who is best.
fn held_up_by_queue(summary: &Summary) -> Option<String> {
    let held_up = those(summary, |medians| medians.queue_was_limit)?;
    Some(format!(
        "The listen queue, and not the server, was the limit of {held_up}: raise the backlog before anything is \
         concluded there."
    ))
}

/// The subjects that something is true of, and at which numbers of connections.
fn those(summary: &Summary, is_true: fn(&Medians) -> bool) -> Option<String> {
    let at = |name: &String| {
        let rows = summary.of_subject(name);
        let rows = rows.filter(|row| row.medians().is_some_and(is_true));
        let at: Vec<String> = rows.map(|row| grouped(row.concurrency as f64)).collect();
        (!at.is_empty()).then(|| format!("{name} (at {})", listed(&at)))
    };
    let all: Vec<String> = summary.subjects.iter().filter_map(at).collect();
    (!all.is_empty()).then(|| listed(&all))
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
