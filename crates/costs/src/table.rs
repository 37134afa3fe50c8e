//! The measurements as tables.

use duality_lab::format::grouped;
use duality_lab::statistics::{Estimate, estimate, low_quantile, ratio};
use duality_lab::tell::render;
use duality_lab::tell::sheet::{Part, Sheet, Table, left, right};

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
    render::text::text(&sheet(rows), render::text::WIDE)
}

fn sheet(rows: &[Row]) -> Sheet {
    let mut sheet = Sheet::new("Unit costs");
    sheet.add(
        [
            "The quickest tenth of short batches takes at most this time.",
            "± is half of the 95 % interval, as a share of the time.",
        ]
        .map(|text| Part::sentence(text.to_owned())),
    );
    for owner in [Owner::Worlds, Owner::Kernel, Owner::Pollers] {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.cost.owner() == owner).collect();
        sheet.add((!rows.is_empty()).then(|| Part::Table(costs(&rows))));
    }
    let shares = shares(rows);
    sheet.add((!shares.rows.is_empty()).then_some(Part::Table(shares)));
    remarks(&mut sheet, rows);
    sheet
}

/// Rows of costs, columns of subjects.
fn costs(rows: &[&Row]) -> Table {
    // Some costs have no peers, so the peers' columns come last.
    let widest = rows.iter().map(|row| &row.cells).max_by_key(|cells| cells.len());
    let subjects = widest.into_iter().flatten().map(|cell| right(cell.subject));
    let figure = |row: &Row, cell: &Cell| match &cell.outcome {
        Ok(batches) => typical(row.cost.unit, batches).map_or("–".to_owned(), number),
        Err(why) if why == NOT_BUILT => "not built".to_owned(),
        Err(_) => "–".to_owned(),
    };
    let line = |row: &&Row| {
        let name = format!("{}, {}", row.cost.name, row.cost.unit.symbol());
        [name].into_iter().chain(row.cells.iter().map(|cell| figure(row, cell))).collect()
    };
    Table::new([left("")].into_iter().chain(subjects), rows.iter().map(line))
}

/// Our costs as shares of the peers'.
fn shares(rows: &[Row]) -> Table {
    let pairs = PAIRS.iter().map(|(ours, peer)| right(format!("{ours}/{peer}")));
    let line = |row: &Row| {
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
        shares.iter().any(Option::is_some).then(|| {
            let shares = shares.into_iter().map(|share| share.unwrap_or("–".to_owned()));
            [row.cost.name.to_owned()].into_iter().chain(shares).collect()
        })
    };
    Table::new([left("share of")].into_iter().chain(pairs), rows.iter().filter_map(line))
}

/// The meanings of the names, and the reason for each missing figure.
fn remarks(sheet: &mut Sheet, rows: &[Row]) {
    let list = |lines: Vec<[&str; 2]>| {
        let lines = lines.into_iter().map(|line| line.map(str::to_owned).to_vec());
        Part::Table(Table::new([left(""), left("")], lines))
    };
    sheet.add([list(rows.iter().map(|row| [row.cost.name, row.cost.about]).collect())]);
    let parked = rows.iter().filter(|row| row.cost.unit == Unit::Bytes).flat_map(|row| &row.cells);
    let parked: Vec<String> = parked
        .filter(|cell| cell.outcome.is_ok())
        .map(|cell| format!("{} {}", cell.subject, grouped(cell.count as f64)))
        .collect();
    let parked = parked.join(", ");
    let mut names = Vec::new();
    if rows.iter().any(|row| row.cost.has_peers()) {
        names.extend(World::ALL.iter().map(|world| [world.name(), world.tasks()]));
        names.extend(PEERS.iter().map(|peer| [peer.name, peer.about]));
    }
    if !parked.is_empty() {
        names.push(["tasks parked", &parked]);
    }
    let names = (!names.is_empty()).then(|| list(names));
    sheet.add(names.into_iter().chain(missing(rows).into_iter().map(Part::sentence)));
}

fn missing(rows: &[Row]) -> Vec<String> {
    let mut missing = Vec::new();
    for row in rows {
        for cell in &row.cells {
            let Err(why) = &cell.outcome else { continue };
            let what = if why == NOT_BUILT {
                cell.subject.to_owned()
            } else {
                format!("{} of {}", row.cost.name, cell.subject)
            };
            let line = format!("{what}: {why}");
            if !missing.contains(&line) {
                missing.push(line);
            }
        }
    }
    missing
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
