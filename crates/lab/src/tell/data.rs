//! The results of an experiment as data: `summary.json` beside the report, and
//! `duality report RUN --json`.
//!
//! Scripts may rely on this format: names contain units, and [`VERSION`] changes when a field
//! changes its meaning.

use serde_json::{Value, json};

use crate::judge::faults;
use crate::judge::rows::{Figures, Row};
use crate::statistics::median;
use crate::tell::answer::Answer;
use crate::tell::summary::{Again, Summary};

/// The version of the format.
pub const VERSION: u32 = 3;

/// The medians of every cell with their quality, the control, and the recommendation. The
/// recommendation has the choice, sentences, the leaders at each load, the changes of the lead, and
/// the broken constraints.
pub fn summary(answer: &Answer<'_>) -> Value {
    let Answer { heading, summary, recommendation, .. } = answer;
    json!({
        "version": VERSION,
        "duality": heading.duality,
        "plan": heading.plan,
        "started_at": heading.started_at,
        "design": heading.design,
        "machine": heading.machine,
        "constraints": summary.constraints,
        "current": summary.current,
        "cells_planned": summary.planned,
        "cells_done": summary.done,
        "cells": summary.rows.iter().map(row).collect::<Vec<_>>(),
        "control": summary.control.as_ref().map(|control| control_of(control, summary)),
        "recommendation": recommendation,
    })
}

/// The control, and the ratios of its second measurement to the first.
fn control_of(control: &Again, summary: &Summary) -> Value {
    let checks = summary.verdicts.iter().filter_map(|verdict| {
        let check = verdict.control.as_ref()?;
        Some(json!({
            "concurrency": verdict.concurrency,
            "difference": check.difference,
            "critical": check.critical,
            "is_tie": check.holds(),
        }))
    });
    json!({
        "architecture": control.architecture,
        "cells": control.rows.iter().map(row).collect::<Vec<_>>(),
        "checks": checks.collect::<Vec<_>>(),
    })
}

fn row(row: &Row) -> Value {
    let mut told = json!({
        "architecture": row.subject,
        "concurrency": row.concurrency,
        "warnings": row.warnings,
    });
    match &row.figures {
        Figures::Missing { what, reason } => {
            told["faults"] = json!(faults::of(row));
            told["outcome"] = json!(what);
            told["reason"] = json!(reason);
        }
        Figures::Measured(medians) => {
            told["outcome"] = json!("measured");
            told["repeats"] = json!(medians.requests_per_second_samples.len());
            told["requests_per_second"] = json!(medians.requests_per_second);
            told["latency_us"] = json!({
                "mean": medians.mean_us,
                "p50": medians.p50_us,
                "p99": medians.p99_us,
                "p99.9": medians.p99_9_us,
            });
            told["measured_load"] = json!(medians.measured_load);
            told["server_cpu_us_per_request"] = json!(medians.cpu_us);
            told["client_cpu_us_per_request"] = json!(medians.client_cpu_us);
            told["server_peak_bytes"] = json!(medians.memory_bytes);
            told["client_cpu_share"] = json!(medians.client_cpu_share);
            told["client_was_limit"] = json!(medians.client_was_limit);
            told["starved"] = json!(medians.starved);
            told["invalid"] = json!(medians.invalid);
            told["listen_queue_was_limit"] = json!(medians.queue_was_limit);
            told["variation"] = json!(medians.variation);
            told["wrong_replies"] = json!(medians.fates.wrong);
            told["errors"] = json!(medians.fates.failed);
            let sessions = || medians.sessions.iter();
            let longest = sessions().map(|one| one.longest_stop_us).reduce(f64::max);
            told["longest_stop_us"] = json!(longest);
            told["stops"] = json!(longest.map(|_| sessions().map(|one| one.stops).sum::<u64>()));
            let growth: Vec<f64> = sessions().map(|one| one.growth_bytes_per_request).collect();
            told["growth_bytes_per_request"] = json!(median(&growth));
            told["faults"] = json!(faults::of(row));
        }
    }
    told
}
