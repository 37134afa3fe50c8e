//! The quality of the model: the coefficient of variation of t_independent over architectures, term
//! by term.

use crate::statistics::median;

use super::fit::{self, Factors};
use super::{TERMS, Workload};

/// Where a coefficient is below this, the model explains the differences between architectures.
pub const AIM: f64 = 0.05;

/// The standard deviation of `values` (of a sample: n − 1) over their mean. `None` for fewer than
/// two values, or if their mean is not above zero.
pub fn coefficient(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    if values.len() < 2 || mean.is_nan() || mean <= 0.0 {
        return None;
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (count - 1.0)).sqrt() / mean)
}

/// One row of Demsky's table 4.3.
#[derive(Clone, Debug, PartialEq)]
pub struct Coefficients {
    /// The coefficient with no term taken off, then with the first, the first two, …
    pub steps: [Option<f64>; TERMS.len() + 1],
    /// The coefficient after subtraction of all terms, each at the price that fits best. `None` if
    /// there are too few data to fit.
    pub fitted: Option<f64>,
    /// The architectures that keep the coefficient above the aim. The t_independent of each is
    /// further from the median than the aim.
    pub deviations: Vec<Deviation>,
}

/// An architecture that the model leaves unexplained.
#[derive(Clone, Debug, PartialEq)]
pub struct Deviation {
    /// Which.
    pub architecture: String,
    /// The difference of its t_independent from the median in microseconds, negative below the
    /// median.
    pub microseconds: f64,
    /// The difference as a share of the median.
    pub share: f64,
}

/// The quality of the model for a workload.
pub fn coefficients(workload: &Workload, factors: Option<&Factors>) -> Coefficients {
    let subjects = &workload.subjects;
    let steps = std::array::from_fn(|terms| {
        let left: Vec<f64> = subjects.iter().map(|subject| subject.without(terms)).collect();
        coefficient(&left)
    });
    let fitted = factors.and_then(|factors| {
        let left: Vec<f64> =
            subjects.iter().map(|subject| fit::independent(subject, factors)).collect();
        coefficient(&left)
    });
    let is_explained = steps[TERMS.len()].is_some_and(|last| last < AIM);
    let deviations = if is_explained { Vec::new() } else { deviations(workload) };
    Coefficients { steps, fitted, deviations }
}

fn deviations(workload: &Workload) -> Vec<Deviation> {
    let left: Vec<f64> = workload.subjects.iter().map(super::Modelled::independent).collect();
    let Some(middle) = median(&left).filter(|middle| *middle > 0.0 && left.len() > 1) else {
        return Vec::new();
    };
    let mut deviations: Vec<Deviation> = workload
        .subjects
        .iter()
        .map(|subject| {
            let microseconds = subject.independent() - middle;
            let architecture = subject.architecture.clone();
            Deviation { architecture, microseconds, share: microseconds / middle }
        })
        .filter(|deviation| deviation.share.abs() > AIM)
        .collect();
    deviations.sort_by(|one, other| other.share.abs().total_cmp(&one.share.abs()));
    deviations
}
