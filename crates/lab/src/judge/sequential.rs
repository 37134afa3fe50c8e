//! A verdict that is valid at every look. From successive blocks, the verdict says which of several
//! servers takes least processor time for a request.
//!
//! An ordinary interval is right for one look. A reader may look after each block until the
//! interval names a winner. An ordinary interval then names a false winner in the end. The interval
//! here holds the true value at *all* looks together, with the promised probability.
//!
//! - In each block, the difference of two servers is the difference of the logarithms of their
//!   costs. A drift of the machine is in both costs, and so in no difference.
//!
//! - A t-test tests the mean of the differences. The prior of the effect size is normal, and the
//!   prior of the standard deviation is the scale-free one. The Bayes factor has a closed form
//!   (Gönen et al., *The American Statistician* 59, 2005).
//!
//! - The factor is a martingale under the tested mean (Hendriksen, de Heide & Grünwald, *Bayesian
//!   Analysis* 16, 2021; Wang & Ramdas, *Anytime-valid t-tests*, 2025). So by Ville's inequality
//!   the probability that the factor reaches `1/a` at any look is at most `a`.
//!
//! - The means that the test does not reject are an interval. The interval is Robbins's normal
//!   mixture (1970), for a standard deviation that has to be estimated.
//!
//! - Each of `k` servers is compared with each other server. So each pair has `a = promise /
//!   (k(k-1)/2)` (Bonferroni).
//!
//! The differences should be normal. Heavy tails make the intervals wider, and so do not break the
//! promise. Successive differences may depend on each other, since a connection can outlast a
//! block. Then the variance is multiplied by `(1 + r) / (1 - r)`, with `r` the correlation of
//! neighbours. `tests/sequential.rs` counts false winners.

use crate::statistics::Interval;

/// The probability that a trial of equal servers ever names a winner.
pub const PROMISE: f64 = 0.025;

/// The variance of the prior of effect sizes. A typical difference is a few standard deviations of
/// a block.
const EFFECT: f64 = 1.0;

/// The largest accepted correlation of neighbours. Beyond it, a few blocks prove nothing.
const MOST_CORRELATION: f64 = 0.9;

/// The demands on a verdict.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// The probability of any false statement, at all looks together.
    pub promise: f64,
    /// Servers that differ by a smaller ratio than this are level: 0.05 is 5 %.
    pub margin: f64,
}

/// A server's standing against the best one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// The server's place in each block.
    pub server: usize,
    /// The ratio of the server's cost to the best server's, less 1: the geometric mean of all
    /// blocks.
    pub excess: f64,
    /// The interval of the true value. `None` for the best server, and where the blocks do not
    /// bound the value.
    pub interval: Option<Interval>,
}

impl Standing {
    /// Whether the server is certain to be behind the best one.
    pub fn is_behind(&self) -> bool {
        self.interval.is_some_and(|interval| interval.low > 0.0)
    }

    fn is_level(&self, margin: f64) -> bool {
        let within = -margin / (1.0 + margin)..=margin;
        self.interval.is_some_and(|one| within.contains(&one.low) && within.contains(&one.high))
    }
}

/// The state of the trial at the end of a block.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The servers that are in the trial, the best first.
    pub standings: Vec<Standing>,
    /// The decision, if there is one.
    pub decision: Option<Decision>,
}

/// The end of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Every other server is certain to take more processor time.
    Winner(usize),
    /// These servers are certain to differ by less than the margin, and all others are behind.
    Level(Vec<usize>),
}

/// Judges the blocks so far. A block has the cost of each server, above zero, and no cost of an
/// absent server. `servers` are those of the `candidates` that are still in the trial. A block
/// without one of these servers does not count.
pub fn judge(
    blocks: &[Vec<Option<f64>>],
    servers: &[usize],
    candidates: usize,
    rule: &Rule,
) -> Judgement {
    let logarithms: Vec<Vec<f64>> = blocks
        .iter()
        .filter_map(|block| {
            let known = |server: &usize| block.get(*server).copied().flatten();
            let cost = |server: &usize| known(server).filter(|cost| *cost > 0.0).map(f64::ln);
            servers.iter().map(cost).collect()
        })
        .collect();
    let mean = |place: usize| mean(logarithms.iter().map(|costs| costs[place]));
    let Some(best) = (0..servers.len()).min_by(|one, other| mean(*one).total_cmp(&mean(*other)))
    else {
        return Judgement { standings: Vec::new(), decision: None };
    };
    let pairs = (candidates * candidates.saturating_sub(1) / 2).max(1);
    let standing = |place: usize| {
        let differences: Vec<f64> =
            logarithms.iter().map(|costs| costs[place] - costs[best]).collect();
        let found = interval(&differences, rule.promise / pairs as f64);
        let as_ratio = |one: Interval| Interval { low: one.low.exp_m1(), high: one.high.exp_m1() };
        let excess = if logarithms.is_empty() { 0.0 } else { (mean(place) - mean(best)).exp_m1() };
        let interval = found.filter(|_| place != best).map(as_ratio);
        Standing { server: servers[place], excess, interval }
    };
    let mut standings: Vec<Standing> = (0..servers.len()).map(standing).collect();
    standings.sort_by(|one, other| {
        let is_other = |standing: &Standing| standing.server != servers[best];
        is_other(one).cmp(&is_other(other)).then(one.excess.total_cmp(&other.excess))
    });
    let decision = decide(&standings, rule);
    Judgement { standings, decision }
}

fn decide(standings: &[Standing], rule: &Rule) -> Option<Decision> {
    let (best, others) = standings.split_first()?;
    let near: Vec<&Standing> = others.iter().filter(|other| !other.is_behind()).collect();
    if near.is_empty() {
        return Some(Decision::Winner(best.server));
    }
    // A server that is certainly behind is not level, even if it is behind by less than the margin.
    near.iter().all(|other| other.is_level(rule.margin)).then(|| {
        let level = near.iter().map(|other| other.server);
        Decision::Level([best.server].into_iter().chain(level).collect())
    })
}

/// The interval of the true mean of the `differences`. The interval holds at this look and all
/// others, except with probability `alpha`. `None` if nothing bounds the mean, as with fewer than
/// about six differences.
pub fn interval(differences: &[f64], alpha: f64) -> Option<Interval> {
    let count = differences.len() as f64;
    if differences.len() < 2 {
        return None;
    }
    let centre = mean(differences.iter().copied());
    let squares: f64 = differences.iter().map(|value| (value - centre).powi(2)).sum();
    let variance = squares / (count - 1.0) * inflation(differences, centre, squares);
    // The Bayes factor of a mean `m` is g^(-1/2) ((1 + t²/(n-1)) / (1 + t²/((n-1) g)))^(n/2). Here
    // t² = count (centre - m)² / variance, and `spread` is g. The factor is below 1/alpha where the
    // fraction is below `most`. The code solves this condition for t².
    let spread = 1.0 + count * EFFECT;
    let most = (spread.sqrt() / alpha).powf(2.0 / count);
    if most >= spread {
        return None;
    }
    let t_squared = (count - 1.0) * (most - 1.0) / (1.0 - most / spread);
    let reach = (variance * t_squared / count).sqrt();
    Some(Interval { low: centre - reach, high: centre + reach })
}

/// The factor by which the mean of dependent neighbours varies more than the mean of independent
/// values.
fn inflation(values: &[f64], centre: f64, squares: f64) -> f64 {
    if squares <= 0.0 {
        return 1.0;
    }
    let products: f64 = values.windows(2).map(|pair| (pair[0] - centre) * (pair[1] - centre)).sum();
    // An estimate from few values is too low, so two standard errors are added (Bartlett 1946).
    let error = 2.0 / (values.len() as f64).sqrt();
    let correlation = (products / squares + error).clamp(0.0, MOST_CORRELATION);
    (1.0 + correlation) / (1.0 - correlation)
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule { promise: PROMISE, margin: 0.05 };

    /// Blocks of servers that have these costs, alternately higher and lower by `noise`.
    fn blocks(costs: &[f64], noise: f64, count: usize) -> Vec<Vec<Option<f64>>> {
        let cost = |block: usize, server: usize, cost: f64| {
            let sign = if (block * 7 + server * 3) % 4 < 2 { noise } else { -noise };
            Some(cost * sign.exp())
        };
        let block =
            |block| costs.iter().enumerate().map(|(at, one)| cost(block, at, *one)).collect();
        (0..count).map(block).collect()
    }

    #[test]
    fn a_clear_difference_is_decided_after_some_blocks() {
        let judged = |count| judge(&blocks(&[130.0, 100.0], 0.02, count), &[0, 1], 2, &RULE);
        assert_eq!(judged(0).decision, None);
        assert_eq!(judged(4).decision, None);
        assert_eq!(judged(10).decision, Some(Decision::Winner(1)));
        let found = judged(10).standings;
        assert_eq!((found[0].server, found[0].interval), (1, None));
        let interval = found[1].interval.unwrap();
        assert!((found[1].excess - 0.3).abs() < 0.05 && interval.contains(0.3), "{found:?}");
    }

    #[test]
    fn equal_servers_are_level_once_the_interval_is_narrow() {
        let judged =
            |count| judge(&blocks(&[100.0, 100.0, 150.0], 0.02, count), &[0, 1, 2], 3, &RULE);
        assert_eq!(judged(5).decision, None);
        match judged(200).decision {
            Some(Decision::Level(mut level)) => {
                level.sort_unstable();
                assert_eq!(level, [0, 1]);
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn servers_that_are_out_do_not_count() {
        let mut blocks = blocks(&[100.0, 90.0, 130.0], 0.02, 12);
        blocks.iter_mut().skip(3).for_each(|block| block[1] = None);
        blocks.push(vec![Some(100.0), None, None]);
        let judged = judge(&blocks, &[0, 2], 3, &RULE);
        assert_eq!(judged.decision, Some(Decision::Winner(0)));
        assert_eq!(judge(&blocks, &[2], 3, &RULE).decision, Some(Decision::Winner(2)));
        assert_eq!(judge(&blocks, &[], 3, &RULE).decision, None);
    }

    #[test]
    fn neighbours_that_depend_on_each_other_widen_the_interval() {
        let alone: Vec<f64> = (0..40).map(|at| if at % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let joined: Vec<f64> =
            (0..40).map(|at| if at / 10 % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let width =
            |values: &[f64]| interval(values, 0.01).map_or(f64::INFINITY, |one| one.high - one.low);
        assert!(width(&joined) > 2.0 * width(&alone), "{} {}", width(&joined), width(&alone));
    }

    #[test]
    fn the_interval_is_that_of_the_bayes_factor() {
        let values = [0.1, 0.3, 0.2, 0.25, 0.15, 0.22, 0.18, 0.2];
        let (alpha, count) = (0.025, values.len() as f64);
        let found = interval(&values, alpha).unwrap();
        let centre = mean(values.iter().copied());
        let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
        let variance = squares / (count - 1.0) * inflation(&values, centre, squares);
        let t = count * (centre - found.low).powi(2) / variance / (count - 1.0);
        let spread = 1.0 + count;
        let factor = ((1.0 + t) / (1.0 + t / spread)).powf(count / 2.0) / spread.sqrt();
        assert!((factor * alpha - 1.0).abs() < 1e-9, "{factor}");
    }
}
