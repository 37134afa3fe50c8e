//! Who leads at which load, and where the lead changes as load grows.
//!
//! Between two measured loads the ratio of two rates (or of two processor times) is taken for a straight line
//! on logarithmic axes; the lead changes where it crosses the number one. The lines through the two ends of the
//! ratio's interval cross it before and after: between these lies the change, with the same confidence. Where
//! a load separates the two on which they are level, the lines bend there.

use serde::Serialize;

use super::contest::Contest;
use crate::format::{connections, grouped};
use crate::statistics::Interval;

/// Consecutive loads at which one architecture leads, or is level with the leader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reign {
    /// The architecture.
    pub architecture: String,
    /// The lowest of the measured loads, in open connections.
    pub from: usize,
    /// The highest of them.
    pub to: usize,
}

/// A change of the lead from one architecture to another as load grows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Crossover {
    /// Who leads at the lower load.
    pub from: String,
    /// Who leads at the higher load.
    pub to: String,
    /// The highest measured load at which the first was better for sure; none where they were level up to the
    /// higher load.
    pub above: Option<usize>,
    /// The lowest measured load at which the second was better for sure.
    pub below: usize,
    /// Where the ratio crosses the number one; none where requests/s decide at one load and processor time
    /// at another.
    pub estimate: Option<f64>,
    /// Where it does with 95 % confidence; none without repeats.
    pub interval: Option<Interval>,
}

/// Who leads, from the lowest load to the highest: as few different ones as the intervals allow. `contests` are
/// sorted by load; among equals the reign is of the one that is `chosen`.
pub(super) fn reigns(contests: &[Contest<'_>], chosen: Option<&str>) -> Vec<Reign> {
    let mut reigns = Vec::new();
    let mut rest = contests;
    while let Some(first) = rest.first() {
        let length = |name: &str| rest.iter().take_while(|contest| contest.leads(name)).count();
        // The best one of those that reign equally long: the last maximum of the reversed order.
        let names: Vec<&str> = first.level().map(|(row, _)| row.subject.as_str()).collect();
        let Some(name) =
            names.into_iter().rev().max_by_key(|name| (length(name), Some(*name) == chosen))
        else {
            break;
        };
        let (reign, others) = rest.split_at(length(name).max(1));
        reigns.push(Reign {
            architecture: name.to_owned(),
            from: first.concurrency,
            to: reign.last().map_or(first.concurrency, |last| last.concurrency),
        });
        rest = others;
    }
    reigns
}

/// The changes from each reign to the next.
pub(super) fn crossovers(contests: &[Contest<'_>], reigns: &[Reign]) -> Vec<Crossover> {
    reigns
        .windows(2)
        .filter_map(|pair| {
            let [one, other] = pair else { return None };
            crossover(contests, one, other)
        })
        .collect()
}

/// That the lead never changes, where it might have.
pub(super) fn none(contests: &[Contest<'_>], reigns: &[Reign]) -> Option<String> {
    let [Reign { architecture, from, to }] = reigns else { return None };
    let alone = contests.iter().all(|contest| contest.level().count() == 1);
    let leads = if alone { "leads" } else { "leads, or is level with the leader," };
    let (from, to) = (grouped(*from as f64), connections(*to));
    (contests.len() > 1 && contests.iter().any(|contest| contest.ranked.len() > 1)).then(|| {
        format!("{architecture} {leads} at every load measured, from {from} to {to}: there is no crossover.")
    })
}

/// How the second of two compares with the first at a load: the ratio's logarithm, and those of its ends.
struct Point {
    load: usize,
    by_cpu: bool,
    low: f64,
    middle: f64,
    high: f64,
}

fn crossover(contests: &[Contest<'_>], one: &Reign, other: &Reign) -> Option<Crossover> {
    let (from, to) = (one.architecture.as_str(), other.architecture.as_str());
    let points: Vec<Point> =
        contests.iter().filter_map(|contest| Point::of(contest, from, to)).collect();
    // Where the second is not better for sure, it leads since the first is no longer there to be compared.
    let end = points.iter().position(|point| point.load >= other.from && point.low > 0.0)?;
    let begin = points[..end].iter().rposition(|point| point.high < 0.0);
    let mut found = Crossover {
        from: from.to_owned(),
        to: to.to_owned(),
        above: begin.map(|begin| points[begin].load),
        below: points[end].load,
        estimate: None,
        interval: None,
    };
    let Some(begin) = begin else { return Some(found) };
    let between = &points[begin..=end];
    if between.iter().any(|point| point.by_cpu != between[0].by_cpu) {
        return Some(found);
    }
    found.estimate = crossing(between, |point| point.middle, false);
    let sure = between.iter().all(|point| point.low < point.high);
    // The upper ends are above one first, and the lower ends last.
    let early = crossing(between, |point| point.high, false);
    let late = crossing(between, |point| point.low, true);
    found.interval = early.zip(late).filter(|_| sure).map(|(low, high)| Interval { low, high });
    Some(found)
}

impl Point {
    fn of(contest: &Contest<'_>, from: &str, to: &str) -> Option<Self> {
        let ratio = contest.advantage(contest.medians_of(to)?, contest.medians_of(from)?)?;
        let (low, high) = ratio
            .interval
            .map_or((ratio.value, ratio.value), |interval| (interval.low, interval.high));
        let point = Self {
            load: contest.concurrency,
            by_cpu: contest.by_cpu,
            low: low.ln(),
            middle: ratio.value.ln(),
            high: high.ln(),
        };
        [point.low, point.middle, point.high].iter().all(|value| value.is_finite()).then_some(point)
    }
}

/// Where the line through `height` of each point rises through zero: the first time, or the last.
fn crossing(points: &[Point], height: fn(&Point) -> f64, last: bool) -> Option<f64> {
    let mut rises = points.windows(2).filter_map(|pair| {
        let (a, b) = (height(&pair[0]), height(&pair[1]));
        let (from, to) = ((pair[0].load as f64).ln(), (pair[1].load as f64).ln());
        (a <= 0.0 && b > 0.0).then(|| (from + (to - from) * -a / (b - a)).exp())
    });
    if last { rises.next_back() } else { rises.next() }
}

impl Crossover {
    /// Where the lead changes, in words.
    pub(super) fn tell(&self) -> String {
        let Self { from, to, above, below, estimate, interval } = self;
        let Some(above) = above else {
            return format!(
                "From {} on {to} beats {from}; at lower loads they are level.",
                connections(*below)
            );
        };
        let (above, below) = (grouped(*above as f64), connections(*below));
        let between = format!("between {above} and {below}");
        match (estimate, interval) {
            (Some(estimate), Some(Interval { low, high })) => format!(
                "The lead passes from {from} to {to} {between}: at about {} (interval {} to {}, interpolated).",
                about(*estimate),
                about(*low),
                about(*high)
            ),
            _ => format!("The lead passes from {from} to {to} {between}."),
        }
    }
}

/// A load between two measured ones: whole connections would be coarse where there are few.
fn about(load: f64) -> String {
    if load < 10.0 { format!("{load:.1}") } else { grouped(load) }
}
