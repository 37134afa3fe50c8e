//! The column called "fitted": by which factor each term's price would have to be multiplied to
//! explain most.
//!
//! The fit is no part of the model, which has measured prices. It shows whether the rest of the
//! time has the shape of a term. A factor near 1 says that the micro-benchmark found the right
//! price. A larger factor says that the operation costs more in a server than alone (caches!). A
//! factor of 0 says that the term explains nothing here. One factor holds for all workloads
//! together, and each workload has its own t_independent:
//!
//! ```text
//!   minimise Σ over workloads, architectures ((t_total − t_independent − Σ factor × term) / mean)²
//!   with     factor ≥ 0, and the mean of t_total
//! ```
//!
//! A workload takes no part if repeats of one architecture differ as much as its architectures do.
//! A factor beyond `MOST` is no price. Then all factors are withheld, since they were found
//! together. [`Unfit`] has the reason.
//!
//! Solved by coordinate descent, which the one-sided bound does not disturb (Lawson & Hanson 1974,
//! chapter 23, has the problem).

use std::fmt;

use super::{Modelled, TERMS, Workload};

/// A factor for each of [`TERMS`]. `None` for a term that takes no time anywhere.
pub type Factors = [Option<f64>; TERMS.len()];

/// The most rounds of descent. The descent converges long before.
const ROUNDS: usize = 10_000;

/// Cold caches make an operation a few times as expensive in a server. Cold caches do not explain a
/// larger factor.
const MOST: f64 = 10.0;

/// The reason why there are no factors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unfit {
    /// There are less than twice as many architectures to explain as factors.
    Few,
    /// Repeats of one architecture differ as much as architectures do, in all workloads.
    Noise,
    /// The factor of a term is larger than any price can be.
    NoPrice {
        /// The term.
        term: &'static str,
        /// The factor.
        factor: f64,
    },
}

impl fmt::Display for Unfit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Few => formatter.write_str(
                "too few architectures were measured: there must be at least two for each term",
            ),
            Self::Noise => formatter.write_str(
                "repeats of one architecture differ as much as architectures do: measure again on a quieter machine",
            ),
            Self::NoPrice { term, factor } => write!(
                formatter,
                "{term} would cost {factor:.0} times its measured price, which is noise or something that is no term: measure again \
                 on a quieter machine, and the prices with `duality model --costs`"
            ),
        }
    }
}

/// The factors that explain most.
///
/// # Errors
///
/// [`Unfit`] if there are no factors, or factors that are not prices.
pub fn factors(workloads: &[Workload]) -> Result<Factors, Unfit> {
    let factors = least_squares(workloads)?;
    let beyond = TERMS.iter().zip(factors).filter_map(|(term, factor)| Some((term.name, factor?)));
    match beyond.max_by(|(_, one), (_, other)| one.total_cmp(other)) {
        Some((term, factor)) if factor > MOST => Err(Unfit::NoPrice { term, factor }),
        _ => Ok(factors),
    }
}

fn least_squares(workloads: &[Workload]) -> Result<Factors, Unfit> {
    let mut rows: Vec<([f64; TERMS.len()], f64)> = Vec::new();
    let mut unknown = 0;
    let measured = || workloads.iter().filter(|workload| workload.subjects.len() > 1);
    if measured().next().is_some() && !measured().any(Workload::differs_beyond_noise) {
        return Err(Unfit::Noise);
    }
    for workload in measured().filter(|workload| workload.differs_beyond_noise()) {
        let count = workload.subjects.len() as f64;
        let mean =
            |of: &dyn Fn(&Modelled) -> f64| workload.subjects.iter().map(of).sum::<f64>() / count;
        // The mean must be above zero to be of use.
        let middle = mean(&|subject| subject.total);
        unknown += 1;
        let means: [f64; TERMS.len()] =
            std::array::from_fn(|term| mean(&|subject| subject.terms[term]));
        // Without its mean, the rest of a workload has no t_independent.
        rows.extend(workload.subjects.iter().map(|subject| {
            let terms = std::array::from_fn(|term| (subject.terms[term] - means[term]) / middle);
            (terms, (subject.total - middle) / middle)
        }));
    }
    let weights: [f64; TERMS.len()] =
        std::array::from_fn(|term| rows.iter().map(|(terms, _)| terms[term].powi(2)).sum());
    let used = weights.iter().filter(|weight| **weight > 0.0).count();
    if used == 0 || rows.len() < unknown + 2 * used {
        return Err(Unfit::Few);
    }
    let mut factors = [0.0; TERMS.len()];
    for _ in 0..ROUNDS {
        let mut moved: f64 = 0.0;
        for term in (0..TERMS.len()).filter(|&term| weights[term] > 0.0) {
            let gradient: f64 =
                rows.iter().map(|(terms, total)| terms[term] * rest(terms, *total, &factors)).sum();
            let next = (factors[term] + gradient / weights[term]).max(0.0);
            moved = moved.max((next - factors[term]).abs());
            factors[term] = next;
        }
        if moved < 1e-12 {
            break;
        }
    }
    Ok(std::array::from_fn(|term| (weights[term] > 0.0).then_some(factors[term])))
}

/// The rest of a total after subtraction of the factors' terms.
fn rest(terms: &[f64; TERMS.len()], total: f64, factors: &[f64; TERMS.len()]) -> f64 {
    total - terms.iter().zip(factors).map(|(term, factor)| term * factor).sum::<f64>()
}

/// The rest of a total after subtraction of each term at its fitted price.
pub(super) fn independent(subject: &Modelled, factors: &Factors) -> f64 {
    rest(&subject.terms, subject.total, &factors.map(Option::unwrap_or_default))
}
