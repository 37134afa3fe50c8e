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
//! - Two equal servers have costs of one distribution, whatever it is. So their difference is
//!   symmetric about 0. Skew, spikes and heavy tails of the costs do not break this symmetry. A
//!   t-test needs more.
//!
//! - So the test bets on signs. The stake of a block is the rank of its difference among the blocks
//!   so far (signed sequential ranks; Reynolds, *Annals of Statistics* 3, 1975).
//!
//! - A bet with the factor `l` on a difference with stake `z` pays `2 / (1 + exp(-2 l z))`. That is
//!   1 on average. Three bets share the capital, since the best `l` is not known.
//!
//! - The capital is a martingale where the servers are equal. So the probability that it reaches
//!   `1/a` at any look is at most `a` (Ville's inequality). Ramdas et al. explain such bets
//!   (*Statistical Science* 38, 2023).
//!
//! - The centres of symmetry that the test does not reject are an interval.
//!
//! - Each of `k` servers is compared with each other server. So each pair has `a = promise /
//!   (k(k-1)/2)` (Bonferroni).
//!
//! Successive differences may depend on each other, since a connection can outlast a block. Then
//! the logarithm of the capital is divided by `(1 + r) / (1 - r)`, with `r` the correlation of
//! neighbours, and an allowance for its error. This part is no theorem. `tests/all/sequential.rs`
//! counts false winners: with skewed noise, with spikes, with dependent blocks, and with recorded
//! noise.
//!
//! The promise is about equal servers. Two servers with one mean and unequal distributions may be
//! told apart: the centre of their difference is not 0.

use crate::statistics::Interval;

/// The probability that a trial of equal servers ever names a winner.
pub const PROMISE: f64 = 0.025;

/// The bets, with their shares of the capital. The last one bets all on one sign.
const BETS: [(f64, f64); 3] = [(1.0, 0.4), (2.0, 0.2), (f64::INFINITY, 0.4)];

/// The largest accepted correlation of neighbours. Beyond it, a few blocks prove nothing.
const MOST_CORRELATION: f64 = 0.97;

/// The standard errors that are added to an estimated correlation.
const ALLOWANCE: f64 = 1.4;

/// A mean that is so many standard deviations of the differences away from a centre has not drifted
/// there.
const CLEAR: f64 = 10.0;

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

/// The interval of the true centre of the `differences`. The interval holds at this look and all
/// others, except with probability `alpha`. `None` if nothing bounds the centre, as with fewer than
/// eight differences.
pub fn interval(differences: &[f64], alpha: f64) -> Option<Interval> {
    let (least, most) =
        differences.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &one| {
            (low.min(one), high.max(one))
        });
    // Beyond all differences, every sign is the same.
    let beyond = 1e-9 + CLEAR * (most - least);
    let low = end(differences, alpha, least - beyond)?;
    let high = end(differences, alpha, most + beyond)?;
    Some(Interval { low, high })
}

/// Whether the differences lie above the centre for sure, or below it if `direction` is negative.
fn excludes_one_way(differences: &[f64], centre: f64, direction: f64, alpha: f64) -> bool {
    let enough = (2.0 / alpha).ln() * inflation(differences, centre);
    differences.len() > 1 && capital(differences, centre, direction) >= enough
}

/// The end of the interval on the side of `outside`, by halving. `None` if `outside` is not
/// excluded.
fn end(differences: &[f64], alpha: f64, outside: f64) -> Option<f64> {
    const HALVINGS: u32 = 40;
    let (mut inside, mut outside) = (mean(differences.iter().copied()), outside);
    let direction = (inside - outside).signum();
    let is_out = |centre: f64| excludes_one_way(differences, centre, direction, alpha);
    if !is_out(outside) {
        return None;
    }
    for _ in 0..HALVINGS {
        let between = f64::midpoint(inside, outside);
        *if is_out(between) { &mut outside } else { &mut inside } = between;
    }
    Some(outside)
}

/// After how many of the `differences` a centre is excluded first, looking at each of them. `None`
/// if it never is.
pub fn first_exclusion(differences: &[f64], centre: f64, alpha: f64) -> Option<usize> {
    let mut capitals = [Capital::default(), Capital::default()];
    (1..=differences.len()).find(|&count| {
        let signed = differences[count - 1] - centre;
        capitals[0].bet(signed);
        capitals[1].bet(-signed);
        let most = capitals[0].logarithm().max(capitals[1].logarithm());
        // The inflation is 1 at least.
        let enough = (2.0 / alpha).ln();
        count > 1 && most >= enough && most >= enough * inflation(&differences[..count], centre)
    })
}

/// The logarithm of what is left of a capital of 1 that bets on differences above `centre`, or
/// below it if `direction` is negative.
fn capital(differences: &[f64], centre: f64, direction: f64) -> f64 {
    let mut capital = Capital::default();
    differences.iter().for_each(|difference| capital.bet(direction * (difference - centre)));
    capital.logarithm()
}

/// A capital that bets on positive differences.
struct Capital {
    /// The sizes of the differences so far, in order.
    sizes: Vec<f64>,
    /// The logarithm of what each bet has.
    logarithms: [f64; BETS.len()],
}

impl Default for Capital {
    fn default() -> Self {
        Self { sizes: Vec::new(), logarithms: BETS.map(|(_, share)| share.ln()) }
    }
}

impl Capital {
    fn bet(&mut self, difference: f64) {
        let place = self.sizes.partition_point(|size| *size <= difference.abs());
        self.sizes.insert(place, difference.abs());
        let sign = if difference == 0.0 { 0.0 } else { difference.signum() };
        let stake = sign * (place + 1) as f64 / self.sizes.len() as f64;
        for (logarithm, (factor, _)) in self.logarithms.iter_mut().zip(BETS) {
            // No stake at all leaves each capital as it is.
            let exponent = if stake == 0.0 { 0.0 } else { -2.0 * factor * stake };
            *logarithm += std::f64::consts::LN_2 - exponent.exp().ln_1p();
        }
    }

    fn logarithm(&self) -> f64 {
        let most = self.logarithms.into_iter().fold(f64::NEG_INFINITY, f64::max);
        most + self.logarithms.into_iter().map(|one| (one - most).exp()).sum::<f64>().ln()
    }
}

/// The factor by which the mean of dependent neighbours varies more than the mean of independent
/// values. It is 1 if the mean is so far from the tested `centre` that no correlation up to
/// [`MOST_CORRELATION`] explains the distance.
fn inflation(values: &[f64], centre: f64) -> f64 {
    let (count, middle) = (values.len() as f64, mean(values.iter().copied()));
    let squares: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
    let deviation = (squares / count).sqrt();
    if (middle - centre).abs() >= CLEAR * deviation {
        return 1.0;
    }
    let products: f64 = values.windows(2).map(|pair| (pair[0] - middle) * (pair[1] - middle)).sum();
    let found = products / squares;
    // An estimate from few values is too low (Marriott and Pope 1954), and has an error of its own
    // (Bartlett 1946).
    let bias = 2.0 * (1.0 + 3.0 * found.max(0.0)) / count;
    let correlation = (found + bias + ALLOWANCE / count.sqrt()).clamp(0.0, MOST_CORRELATION);
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
        assert_eq!(judged(7).decision, None);
        assert_eq!(judged(24).decision, Some(Decision::Winner(1)));
        let found = judged(24).standings;
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
        let mut blocks = blocks(&[100.0, 90.0, 130.0], 0.02, 30);
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
    fn a_bet_is_fair_and_never_loses_more_than_it_has() {
        // Over all signs of three differences, the capital is 1 on average.
        let sizes = [0.3, 0.1, 0.2];
        let mut sum = 0.0;
        for signs in 0..8 {
            let sign = |place: usize| if (signs >> place) & 1 == 1 { 1.0 } else { -1.0 };
            let values: Vec<f64> = (0..3).map(|place| sign(place) * sizes[place]).collect();
            sum += capital(&values, 0.0, 1.0).exp() / 8.0;
        }
        assert!((sum - 1.0).abs() < 1e-12, "{sum}");
    }

    fn excludes(differences: &[f64], centre: f64, alpha: f64) -> bool {
        let is_out = |direction: f64| excludes_one_way(differences, centre, direction, alpha);
        is_out(1.0) || is_out(-1.0)
    }

    #[test]
    fn the_interval_ends_where_the_test_excludes() {
        let values: Vec<f64> = (0..30).map(|at| 0.2 + 0.01 * f64::from((at * 7) % 13)).collect();
        let found = interval(&values, 0.025).unwrap();
        let width = found.high - found.low;
        assert!(!excludes(&values, 0.26, 0.025));
        assert!(first_exclusion(&values, 0.1, 0.025).is_some());
        assert_eq!(first_exclusion(&values, 0.26, 0.025), None);
        for (centre, is_out) in [
            (found.low - 0.01 * width, true),
            (found.low + 0.01 * width, false),
            (found.high - 0.01 * width, false),
            (found.high + 0.01 * width, true),
        ] {
            assert_eq!(excludes(&values, centre, 0.025), is_out, "{centre} {found:?}");
        }
    }
}
