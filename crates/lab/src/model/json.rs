//! The model as JSON, format version 1, documented in docs/model.md.

use serde_json::{Map, Value, json as value};

use super::variation::coefficients;
use super::{Model, Modelled, Operation, TERMS, Workload, fit};

/// The version of the form. The version changes when a field changes its meaning, and not for a new
/// field.
const VERSION: u32 = 1;

/// The whole model, in µs of server CPU for a request. Unit costs are in ns.
pub fn json(model: &Model) -> Value {
    let factors = fit::factors(&model.workloads);
    let named = |figures: Vec<Value>| -> Map<String, Value> {
        TERMS.iter().map(|term| term.name.to_owned()).zip(figures).collect()
    };
    let workload = |workload: &Workload| {
        let row = coefficients(workload, factors.as_ref().ok());
        let steps = row.steps[1..].iter().map(|step| value!(step)).collect();
        let deviations: Vec<Value> = row
            .deviations
            .iter()
            .map(|it| value!({ "architecture": it.architecture, "us": it.microseconds, "share": it.share }))
            .collect();
        let missing: Map<String, Value> =
            workload.missing.iter().map(|(name, why)| (name.clone(), value!(why))).collect();
        value!({
            "name": workload.name,
            "connections": workload.connections,
            "architectures": workload.subjects.iter().map(subject).collect::<Vec<_>>(),
            "missing": missing,
            "coefficients": {
                "no model": row.steps[0],
                "with": named(steps),
                "fitted": row.fitted,
                "repeats": workload.noise,
            },
            "deviations": deviations,
        })
    };
    let checks: Vec<Value> = model
        .checks
        .iter()
        .map(|check| {
            value!({
                "workload": check.workload,
                "architecture": check.architecture,
                "connections": check.connections,
                "predicted_us": check.predicted,
                "measured_us": check.measured,
                "error": check.error(),
                "most_requests_per_second": check.most_per_second(),
            })
        })
        .collect();
    value!({
        "version": VERSION,
        "unit_costs_ns": model.costs,
        "workloads": model.workloads.iter().map(workload).collect::<Vec<_>>(),
        "fitted_withheld": factors.as_ref().err().map(ToString::to_string),
        "fitted_factors": factors.ok().map(|factors| named(factors.map(|factor| value!(factor)).to_vec())),
        "predictions": checks,
    })
}

fn subject(subject: &Modelled) -> Value {
    let terms: Map<String, Value> = TERMS
        .iter()
        .zip(subject.terms)
        .map(|(term, microseconds)| (term.name.to_owned(), value!(microseconds)))
        .collect();
    let counts: Map<String, Value> = Operation::ALL
        .into_iter()
        .map(|operation| (operation.name().to_owned(), value!(subject.counts[operation])))
        .collect();
    value!({
        "architecture": subject.architecture,
        "total_us": subject.total,
        "independent_us": subject.independent(),
        "terms_us": terms,
        "counts_per_request": counts,
    })
}
