//! The column called "fitted": by which factor each term's price would have to be multiplied to explain most.
//!
//! It is no part of the model, whose prices are measured. It tells whether what is left has the shape of a term: a factor
//! near 1 says that the micro-benchmark has the price right, a larger one that the operation costs more in a
//! server than alone (caches!), and 0 that the term explains nothing here. One factor holds for all workloads
//! together, and each workload has a t_independent of its own:
//!
//! ```text
//!   minimise  Σ over workloads, architectures  ((t_total − t_independent − Σ factor × term) / mean of t_total)²
//!   with      factor ≥ 0
//! ```
//!
//! Solved by coordinate descent, which the one-sided bound does not disturb (Lawson & Hanson 1974, chapter 23, has
//! the problem).

use super::{Modelled, TERMS, Workload};

/// A factor for each of [`TERMS`]; none for a term that takes nothing anywhere.
pub type Factors = [Option<f64>; TERMS.len()];

/// Rounds of descent at most; it has long come to rest.
const ROUNDS: usize = 10_000;

/// The factors that explain most; none unless there are at least twice as many architectures to explain as factors.
pub fn factors(workloads: &[Workload]) -> Option<Factors> {
    let mut rows: Vec<([f64; TERMS.len()], f64)> = Vec::new();
    let mut unknown = 0;
    for workload in workloads.iter().filter(|workload| workload.subjects.len() > 1) {
        let count = workload.subjects.len() as f64;
        let mean =
            |of: &dyn Fn(&Modelled) -> f64| workload.subjects.iter().map(of).sum::<f64>() / count;
        let middle = mean(&|subject| subject.total);
        if middle <= 0.0 {
            continue;
        }
        unknown += 1;
        let means: [f64; TERMS.len()] =
            std::array::from_fn(|term| mean(&|subject| subject.terms[term]));
        // Without its mean, what is left of a workload knows no t_independent.
        rows.extend(workload.subjects.iter().map(|subject| {
            let terms = std::array::from_fn(|term| (subject.terms[term] - means[term]) / middle);
            (terms, (subject.total - middle) / middle)
        }));
    }
    let weights: [f64; TERMS.len()] =
        std::array::from_fn(|term| rows.iter().map(|(terms, _)| terms[term].powi(2)).sum());
    let used = weights.iter().filter(|weight| **weight > 0.0).count();
    if used == 0 || rows.len() < unknown + 2 * used {
        return None;
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
    Some(std::array::from_fn(|term| (weights[term] > 0.0).then_some(factors[term])))
}

/// What the factors leave of a total.
fn rest(terms: &[f64; TERMS.len()], total: f64, factors: &[f64; TERMS.len()]) -> f64 {
    total - terms.iter().zip(factors).map(|(term, factor)| term * factor).sum::<f64>()
}

/// What is left of a total when each term is taken off at its fitted price.
pub(super) fn independent(subject: &Modelled, factors: &Factors) -> f64 {
    rest(&subject.terms, subject.total, &factors.map(Option::unwrap_or_default))
}
