//! Capacity as JSON, documented in docs/capacity.md.

use serde_json::{Value, json as value};

use super::check::{Accuracy, Check, Checked};
use super::forms::Prediction;
use super::hosts::Need;
use super::limits::Limit;
use super::points::Point;
use super::{Capacity, Memory, Subject, notes, title};

/// The version of the form. The version changes when a field changes its meaning, and not for a new
/// field.
pub const VERSION: u32 = 1;

/// The predictions of each experiment.
pub fn json(all: &[Capacity]) -> Value {
    let one = |capacity: &Capacity| {
        let question = &capacity.question;
        value!({
            "title": title(&capacity.heading),
            "service": capacity.heading.design.service,
            "experiment": capacity.heading.plan.as_ref().map(|plan| &plan.experiment),
            "connections": question.connections,
            "requests_per_second": question.rate,
            "processors_per_host":
                question.processors.unwrap_or(capacity.heading.machine.cpus),
            "utilisation": question.utilisation,
            "hosts": question.hosts,
            "architectures": capacity.subjects.iter().map(subject).collect::<Vec<_>>(),
            "load_limits": capacity.load.iter().map(limit).collect::<Vec<_>>(),
            "notes": notes::notes(capacity),
            "to_measure": notes::measuring_words(capacity),
        })
    };
    value!({ "version": VERSION, "experiments": all.iter().map(one).collect::<Vec<_>>() })
}

fn subject(subject: &Subject) -> Value {
    value!({
        "architecture": subject.name,
        "measured": subject.points.iter().map(point).collect::<Vec<_>>(),
        "not_sound_at_connections": subject.left_out,
        "server_cpu_us_per_request": subject.processor_time.as_ref().ok().map(prediction),
        "not_predicted": subject.processor_time.as_ref().err(),
        "server_bytes": subject.memory.as_ref().ok().map(memory),
        "memory_not_predicted": subject.memory.as_ref().err(),
        "limits": subject.limits.as_ref().ok().map(|all| all.iter().map(limit).collect::<Vec<_>>()),
        "limits_not_known": subject.limits.as_ref().err(),
        "need": subject.need.as_ref().map(need),
    })
}

fn point(point: &Point) -> Value {
    value!({
        "connections": point.connections,
        "connections_served": point.served,
        "server_connections_open": point.open,
        "server_cpu_us_per_request": point.processor_time,
        "server_peak_bytes": point.memory,
    })
}

fn prediction(time: &Prediction) -> Value {
    value!({
        "connections": time.connections,
        "value": time.value,
        "interval": time.interval,
        "constant": time.constant,
        "logarithmic": time.logarithmic,
        "forms_differ": time.is_wide(),
    })
}

fn memory(memory: &Memory) -> Value {
    value!({
        "server_connections_open": memory.open,
        "value": memory.bytes,
        "interval": memory.interval,
        "bytes_per_connection": memory.bytes_per_connection,
        "open_is_measured": memory.is_open_known,
    })
}

fn limit(limit: &Limit) -> Value {
    value!({
        "what": limit.kind.name(),
        "connections": limit.connections,
        "raise": limit.kind.remedy(),
    })
}

fn need(need: &Need) -> Value {
    let ends = |[low, value, high]: [f64; 3]| value!({ "value": value, "low": low, "high": high });
    value!({
        "processors": { "value": need.processors, "interval": need.interval },
        "hosts": ends(need.hosts),
        "requests_per_second_of_hosts": need.rate_of_hosts.map(ends),
    })
}

/// The errors of the predictions of each experiment.
pub fn json_of_check(all: &[Check]) -> Value {
    let one = |check: &Check| {
        value!({
            "title": title(&check.heading),
            "service": check.heading.design.service,
            "experiment": check.heading.plan.as_ref().map(|plan| &plan.experiment),
            "from_connections": check.from,
            "checked": check.checked.iter().map(checked).collect::<Vec<_>>(),
            "accuracy": Accuracy::of(&check.checked).as_ref().map(accuracy),
        })
    };
    value!({ "version": VERSION, "checks": all.iter().map(one).collect::<Vec<_>>() })
}

fn checked(checked: &Checked) -> Value {
    value!({
        "architecture": checked.subject,
        "connections": checked.connections,
        "predicted": prediction(&checked.predicted),
        "measured_us": checked.measured,
        "off": checked.off(),
        "within_interval": checked.is_within(),
        "memory_off": checked.memory_off,
    })
}

fn accuracy(accuracy: &Accuracy) -> Value {
    value!({
        "count": accuracy.count,
        "median": accuracy.median,
        "worst": accuracy.worst,
        "worst_architecture": accuracy.worst_at.0,
        "worst_connections": accuracy.worst_at.1,
        "within_tenth": accuracy.within_tenth,
        "within_interval": accuracy.within_interval,
    })
}
