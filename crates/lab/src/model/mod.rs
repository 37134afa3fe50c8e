//! The cost model: the share of a request's processor time that the architecture takes, and the
//! causes.
//!
//! The model is Demsky's (2001, chapter 4). The model splits the time of a request into a part that
//! is alike in all architectures, and this architecture's part:
//!
//! ```text
//!   t_total        = t_independent + t_dependent
//!   t_dependent    = Σ over operations:  how often a request takes it  ×  what it costs once
//!                                        (counted by the server)          (a micro-benchmark)
//! ```
//!
//! The model is right if t_independent is the same for all architectures of a service. Its measure
//! is the coefficient of variation of t_independent over them. The table has it without the model,
//! and with each [`Term`] added in turn ([`Coefficients`]). Nothing is fitted, except in the column
//! `fitted` ([`fit`]).
//!
//! ```text
//!   results.jsonl ─ counts.rs ▶ Counts ┐
//!                                      ├▶ Modelled ▶ Coefficients, prediction, reason ▶ output
//!   model --costs ─ costs.rs ▶ prices ─┘                             (text, page, JSON)
//! ```

mod costs;
mod counts;
pub mod fit;
mod json;
mod prediction;
mod reason;
mod terms;
mod variation;

use crate::failure::{Failure, Party};
use crate::format::duration;
use crate::record::{Cell, Heading, Outcome};
use crate::statistics::median;

pub use costs::{Carrier, Missing, NEEDED};
pub use counts::{Counts, Operation};

pub use crate::record::{Operations, UnitCosts};
pub use json::{Told, json};
pub use prediction::{Check, check, predict};
pub use reason::{difference, reasons, sentences};
pub use terms::{TERMS, Term};
pub use variation::{AIM, Coefficients, Deviation, coefficient, coefficients};

/// A model: the measured services, as modelled.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The unit costs that the predictions use.
    pub costs: UnitCosts,
    /// One workload for each experiment and number of connections.
    pub workloads: Vec<Workload>,
    /// Predictions for loads that were not measured, or were measured only as a check.
    pub checks: Vec<Check>,
}

/// A service under one load.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// The name in tables: the service, and the behaviour of its clients if it matters.
    pub name: String,
    /// The number of connections that were open at once.
    pub connections: usize,
    /// The architectures that were measured and counted.
    pub subjects: Vec<Modelled>,
    /// The architectures that were not modelled, with reasons.
    pub missing: Vec<(String, String)>,
    /// How much repeats of one cell differ: the root mean square of their coefficients of
    /// variation. `None` without repeats. No model can do better.
    pub noise: Option<f64>,
}

impl Workload {
    /// Whether architectures differ more than repeats of one architecture do.
    pub fn differs_beyond_noise(&self) -> bool {
        let totals: Vec<f64> = self.subjects.iter().map(|subject| subject.total).collect();
        coefficient(&totals).is_some_and(|differences| differences > self.noise.unwrap_or(0.0))
    }
}

/// The processor time of a request under one architecture, in microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Modelled {
    /// The architecture.
    pub architecture: String,
    /// The way in which the server carries tasks.
    pub carrier: Carrier,
    /// The server's processor time for a request, as measured: the median of the repeats.
    pub total: f64,
    /// The number of operations of each kind in a request.
    pub counts: Counts,
    /// The time of each of [`TERMS`].
    pub terms: [f64; TERMS.len()],
}

impl Modelled {
    /// Splits `total` microseconds.
    ///
    /// # Errors
    ///
    /// [`Missing`] if the unit cost of an occurring operation is unknown.
    pub fn new(
        architecture: &str,
        carrier: Carrier,
        total: f64,
        counts: Counts,
        costs: &UnitCosts,
    ) -> Result<Self, Missing> {
        let mut terms = [0.0; TERMS.len()];
        for (sum, term) in terms.iter_mut().zip(&TERMS) {
            *sum = term.microseconds(&counts, carrier, costs)?;
        }
        Ok(Self { architecture: architecture.to_owned(), carrier, total, counts, terms })
    }

    /// The time that the terms take together.
    pub fn dependent(&self) -> f64 {
        self.terms.iter().sum()
    }

    /// The rest of the time, which is t_independent.
    pub fn independent(&self) -> f64 {
        self.total - self.dependent()
    }

    /// Says that the terms add up to more than the measured time. Then prices or counts do not fit
    /// this server.
    fn beyond(&self) -> String {
        format!(
            "where its time goes is not known here: the terms add up to {} of {} measured",
            duration(self.dependent()),
            duration(self.total)
        )
    }

    /// The rest of the time after subtraction of only the first `terms`.
    pub fn without(&self, terms: usize) -> f64 {
        self.total - self.terms.iter().take(terms).sum::<f64>()
    }
}

/// The workloads of an experiment, one for each number of connections.
///
/// # Errors
///
/// [`Missing`] if an unknown unit cost leaves nothing to model at some number of connections.
pub fn workloads(
    name: &str,
    heading: &Heading,
    cells: &[Cell],
    costs: &UnitCosts,
) -> Result<Vec<Workload>, Missing> {
    let design = &heading.design;
    let uncounted = || Failure::new(Party::Load, "it counts nothing");
    let workload = |connections: usize| {
        let (mut subjects, mut missing, mut noise) = (Vec::new(), Vec::new(), Vec::new());
        let mut first_unknown = None;
        for subject in design.subjects() {
            let own: Vec<&Cell> = cells
                .iter()
                .filter(|cell| cell.subject == subject && cell.concurrency == connections)
                .collect();
            let carrier = design.carrier(subject).and_then(Carrier::of);
            match carrier.ok_or_else(uncounted).and_then(|carrier| {
                let observed = observe(&own)?;
                Ok((carrier, observed))
            }) {
                Err(why) => missing.push((subject.to_owned(), why.to_string())),
                Ok((carrier, (totals, counts))) => {
                    let total = median(&totals).unwrap_or(0.0);
                    noise.extend(coefficient(&totals));
                    match Modelled::new(subject, carrier, total, counts, costs) {
                        Ok(modelled) if modelled.independent() >= 0.0 => subjects.push(modelled),
                        Ok(modelled) => missing.push((subject.to_owned(), modelled.beyond())),
                        Err(unknown) => {
                            missing.push((subject.to_owned(), unknown.to_string()));
                            first_unknown.get_or_insert(unknown);
                        }
                    }
                }
            }
        }
        // If no architecture is left, the price list is wrong.
        if let Some(unknown) = first_unknown.filter(|_| subjects.is_empty()) {
            return Err(unknown);
        }
        let squares: f64 = noise.iter().map(|noise| noise * noise).sum();
        Ok(Workload {
            name: name.to_owned(),
            connections,
            subjects,
            missing,
            noise: (!noise.is_empty()).then(|| (squares / noise.len() as f64).sqrt()),
        })
    };
    design.concurrency.iter().map(|&connections| workload(connections)).collect()
}

/// Totals of the repeats of a cell in microseconds, and the medians of their counts. The error is
/// the reason why they are missing. Invalid repeats are left out, unless all are invalid.
fn observe(cells: &[&Cell]) -> Result<(Vec<f64>, Counts), Failure> {
    let is_valid = |cell: &&Cell| matches!(&cell.outcome, Outcome::Measured(measured) if measured.invalid.is_empty());
    let any_valid = cells.iter().any(is_valid);
    let (mut totals, mut counts, mut why) = (Vec::new(), Vec::new(), "it was not measured");
    for cell in cells.iter().filter(|cell| !any_valid || is_valid(cell)) {
        match &cell.outcome {
            Outcome::Measured(measured) => match Counts::of(measured) {
                Some(counted) => {
                    totals.push(measured.server_cpu_us_per_request);
                    counts.push(counted);
                }
                None => why = "its server counted nothing",
            },
            Outcome::Unavailable { reason, .. } | Outcome::Failed { reason } => why = reason,
        }
    }
    if totals.is_empty() {
        return Err(Failure::new(Party::Load, why));
    }
    let middle = |operation| {
        let all: Vec<f64> = counts.iter().map(|counts: &Counts| counts[operation]).collect();
        median(&all).unwrap_or(0.0)
    };
    Ok((totals, Counts::from(middle)))
}

#[cfg(test)]
mod tests;
