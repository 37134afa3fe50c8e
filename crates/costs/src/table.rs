//! The measurements as tables.

use std::fmt::Write;

use duality_lab::format::grouped;
use duality_lab::statistics::{Estimate, estimate, low_quantile, ratio};

use crate::program::{NOT_BUILT, PEERS};
use crate::run::{Cell, Row};
use crate::{Owner, Unit, World};

/// The bootstrap draws the same numbers each time, so equal results give equal tables.
const SEED: u64 = 1978;

/// Our subjects, each with its peer for comparison. The two have tasks of the same kind, or our
/// state machines compete with the peer.
const PAIRS: [(&str, &str); 6] = [
    ("block", "pthreads"),
    ("park", "st"),
    ("park", "pth"),
    ("park", "go"),
    ("suspend", "st"),
    ("suspend", "go"),
];

/// The tables for a reader: costs of tasks and of pollers, and our costs as shares of the peers'.
pub fn text(rows: &[Row]) -> String {
    let mut text = String::from(
        "The quickest tenth of short batches takes at most this time.\n± is half of the 95 % interval, as a share of the time.\n",
    );
    for owner in [Owner::Worlds, Owner::Kernel, Owner::Pollers] {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.cost.owner() == owner).collect();
        if rows.is_empty() {
            continue;
        }
        text += "\n";
        text += &costs(&rows);
    }
    text += &shares(rows);
    text += &remarks(rows);
    text
}

/// Rows of costs, columns of subjects.
fn costs(rows: &[&Row]) -> String {
    let mut lines = vec![vec![String::new()]];
    // Some costs have no peers, so the peers' columns come last.
    let widest = rows.iter().map(|row| &row.cells).max_by_key(|cells| cells.len());
    lines[0].extend(widest.into_iter().flatten().map(|cell| cell.subject.to_owned()));
    for row in rows {
        let unit = row.cost.unit.symbol();
        let mut line = vec![format!("{}, {unit}", row.cost.name)];
        line.extend(row.cells.iter().map(|cell| match &cell.outcome {
            Ok(batches) => typical(row.cost.unit, batches).map_or("–".to_owned(), number),
            Err(why) if why == NOT_BUILT => "not built".to_owned(),
            Err(_) => "–".to_owned(),
        }));
        lines.push(line);
    }
    aligned(&lines)
}

/// Our costs as shares of the peers'.
fn shares(rows: &[Row]) -> String {
    let mut lines = vec![vec!["share of".to_owned()]];
    lines[0].extend(PAIRS.iter().map(|(ours, peer)| format!("{ours}/{peer}")));
    for row in rows {
        let batches = |subject: &str| {
            let cell = row.cells.iter().find(|cell| cell.subject == subject);
            cell.and_then(|cell| cell.outcome.as_ref().ok())
        };
        let share = |(ours, peer): &(&str, &str)| {
            let share = ratio(batches(ours)?, batches(peer)?, SEED)?;
            Some(match share.interval {
                Some(interval) => {
                    format!("{:.3} [{:.3}–{:.3}]", share.value, interval.low, interval.high)
                }
                None => format!("{:.3}", share.value),
            })
        };
        let shares: Vec<Option<String>> = PAIRS.iter().map(share).collect();
        if shares.iter().any(Option::is_some) {
            let mut line = vec![row.cost.name.to_owned()];
            line.extend(shares.into_iter().map(|share| share.unwrap_or("–".to_owned())));
            lines.push(line);
        }
    }
    if lines.len() == 1 { String::new() } else { format!("\n{}", aligned(&lines)) }
}

/// The meanings of the names, and the reason for each missing figure.
fn remarks(rows: &[Row]) -> String {
    let mut text = String::from("\n");
    for row in rows {
        let _ = writeln!(text, "{:<21} {}", row.cost.name, row.cost.about);
    }
    if rows.iter().any(|row| row.cost.has_peers()) {
        text += "\n";
        for world in World::ALL {
            let _ = writeln!(text, "{:<21} {}", world.name(), world.tasks());
        }
        for peer in PEERS {
            let _ = writeln!(text, "{:<21} {}", peer.name, peer.about);
        }
    }
    let parked = rows.iter().filter(|row| row.cost.unit == Unit::Bytes).flat_map(|row| &row.cells);
    let parked: Vec<String> = parked
        .filter(|cell| cell.outcome.is_ok())
        .map(|cell| format!("{} {}", cell.subject, grouped(cell.count as f64)))
        .collect();
    if !parked.is_empty() {
        let _ = writeln!(text, "{:<21} {}", "tasks parked", parked.join(", "));
    }
    let mut missing: Vec<(String, &str)> = Vec::new();
    for row in rows {
        for cell in &row.cells {
            if let Err(why) = &cell.outcome {
                let what = if why == NOT_BUILT {
                    cell.subject.to_owned()
                } else {
                    format!("{} of {}", row.cost.name, cell.subject)
                };
                if !missing.contains(&(what.clone(), why)) {
                    missing.push((what, why));
                }
            }
        }
    }
    for (what, why) in missing {
        let _ = writeln!(text, "{what}: {why}");
    }
    text
}

/// Columns as wide as necessary. The first is aligned to the left, the others to the right.
fn aligned(lines: &[Vec<String>]) -> String {
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..).map_while(width).collect();
    let mut text = String::new();
    for line in lines {
        for (column, (cell, &width)) in line.iter().zip(&widths).enumerate() {
            let _ = match column {
                0 => write!(text, "{cell:<width$}"),
                _ => write!(text, "  {cell:>width$}"),
            };
        }
        text += "\n";
    }
    text
}

/// `12.3 ±2%`: the value that stands for some batches. For time, this value is a low quantile of
/// the batches: the hypervisor and other programs make batches longer and never shorter. For
/// memory, the value is the median of the batches.
pub(crate) fn typical(unit: Unit, batches: &[f64]) -> Option<Estimate> {
    /// The low quantile: the lowest tenth. In the shortest batch of all, a reading of the clock may
    /// have been early.
    const LOW: f64 = 0.1;
    match unit {
        Unit::Nanoseconds => low_quantile(batches, LOW),
        Unit::Bytes => estimate(batches, SEED),
    }
}

fn number(estimate: Estimate) -> String {
    let value = estimate.value;
    let digits = match value {
        below if below < 9.995 => format!("{below:.2}"),
        below if below < 99.95 => format!("{below:.1}"),
        _ => grouped(value),
    };
    match estimate.interval {
        Some(interval) if value > 0.0 => {
            let half = 100.0 * (interval.high - interval.low) / 2.0 / value;
            format!("{digits} ±{half:.0}%")
        }
        _ => digits,
    }
}
