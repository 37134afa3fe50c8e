//! The tables of results as Markdown, for documents that quote them: a line for each subject, and a
//! column for each number of connections.
//!
//! These tables fill in the pages of docs/reproductions, so that no figure is copied by hand.

use std::str::FromStr;

use super::table;
use crate::format::{bytes, duration, grouped, rate};
use crate::judge::builds::{Change, changes};
use crate::judge::rows::{Figures, Medians, Row};
use crate::judge::summary::Summary;
use crate::judge::verdict::Told;
use crate::names::choose_from;
use crate::record::{Cell, Heading, Outcome, Records};
use crate::statistics::median;
use crate::tell::render::markdown::table_markdown;
use crate::tell::sheet::{self, left, right};

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// Requests per second, median ± half of its 95 % interval.
    Rate,
    /// Mean service time.
    Mean,
    /// The latency that 99 % of the requests do not exceed.
    P99,
    /// Measured load.
    Load,
    /// The least-squares line of mean service time over measured load.
    Slope,
    /// The server's processor time for each request.
    Cpu,
    /// The server's memory.
    Memory,
    /// The server's context switches a second.
    Switches,
    /// What changed from the first build to each other.
    Builds,
}

impl Table {
    /// All tables, by name.
    pub const ALL: [(&'static str, Table); 9] = [
        ("rate", Table::Rate),
        ("mean", Table::Mean),
        ("p99", Table::P99),
        ("load", Table::Load),
        ("slope", Table::Slope),
        ("cpu", Table::Cpu),
        ("memory", Table::Memory),
        ("switches", Table::Switches),
        ("builds", Table::Builds),
    ];

    fn title(self) -> &'static str {
        match self {
            Table::Rate => "Requests/s, median ± half of its 95 % interval",
            Table::Mean => "Mean service time",
            Table::P99 => "Latency, 99 %",
            Table::Load => "Measured load",
            Table::Slope => "Mean service time as a line over measured load",
            Table::Cpu => "Server CPU per request",
            Table::Memory => "Server memory",
            Table::Switches => "Context switches of the server per second",
            Table::Builds => "Percent more than the first build",
        }
    }

    fn show(self, medians: &Medians, switches: f64) -> String {
        match self {
            Table::Rate => rate(medians.requests_per_second),
            Table::Mean => duration(medians.mean_us),
            Table::P99 => duration(medians.p99_us),
            Table::Load => format!("{:.1}", medians.measured_load),
            Table::Cpu => duration(medians.cpu_us),
            Table::Memory => bytes(medians.memory_bytes),
            Table::Switches | Table::Slope | Table::Builds => grouped(switches),
        }
    }
}

impl FromStr for Table {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, table)| *table).ok_or_else(|| {
            let names = Self::ALL.map(|(name, _)| name);
            format!("there is no table `{name}`: {}", choose_from(name, names))
        })
    }
}

/// The given tables of an experiment, each under a line with its title. A `!` marks a figure with a
/// warning, as on the terminal. A `✗` marks a figure that cannot be trusted.
pub fn tables(heading: &Heading, records: &Records, which: &[Table]) -> String {
    let summary = Summary::of(heading, records);
    let phrase = |&which: &Table| {
        let table = match which {
            Table::Slope => table::slopes(
                &summary,
                [left(""), right("µs per request in service"), right("correlation")],
            ),
            Table::Builds => builds(&summary),
            which => grid(which, &summary, &records.cells),
        };
        table_markdown(&table.titled(which.title())) + "\n"
    };
    which.iter().map(phrase).collect()
}

fn grid(table: Table, summary: &Summary, cells: &[Cell]) -> sheet::Table {
    let loads = summary.concurrency.iter().map(|&count| right(summary.at(count)));
    let rows = summary.subjects.iter().map(|name| {
        let figures = summary.of_subject(name).map(|row| match &row.figures {
            Figures::Measured(medians) => {
                let mark = match (medians.invalid, row.warnings.is_empty()) {
                    (true, _) => " ✗",
                    (false, false) => " !",
                    (false, true) => "",
                };
                table.show(medians, switches(row, cells)) + mark
            }
            Figures::Missing { state, .. } => state.to_string(),
        });
        [summary.label(name)].into_iter().chain(figures).collect::<Vec<String>>()
    });
    sheet::Table::new([left("")].into_iter().chain(loads), rows)
}

/// What changed from the first build to each other, a row for each comparison.
fn builds(summary: &Summary) -> sheet::Table {
    let columns = [left(""), left(""), right("change"), right("from"), right("to"), left("")];
    let row = |one: Change| {
        let shares = one.compared.as_ref().map(|one| [one.difference, one.low, one.high]);
        let [change, low, high] = shares.map_or([const { String::new() }; 3], |shares| {
            shares.map(|share| format!("{:+.1} %", 100.0 * share))
        });
        let parts = match (one.new_fault(), one.told()) {
            (Some(_), _) => "fails where the first does not",
            (None, Told::Better) => "faster",
            (None, Told::Worse) => "slower",
            (None, Told::WorkMoved) => "only work that moved",
            (None, Told::Level) => "level",
            (None, Told::Unknown) => "not told apart",
        };
        vec![one.subject, summary.at(one.concurrency), change, low, high, parts.to_owned()]
    };
    sheet::Table::new(columns, changes(summary).into_iter().map(row))
}

/// The median over the repeats.
fn switches(row: &Row, cells: &[Cell]) -> f64 {
    let of_row = cells
        .iter()
        .filter(|cell| cell.subject == row.subject && cell.concurrency == row.concurrency);
    let rates: Vec<f64> = of_row
        .filter_map(|cell| match &cell.outcome {
            Outcome::Measured(measured) => {
                let both =
                    measured.voluntary_switches as f64 + measured.involuntary_switches as f64;
                Some(both / measured.window_seconds)
            }
            _ => None,
        })
        .collect();
    median(&rates).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::results::tests::heading;

    #[test]
    fn a_table_is_a_line_for_each_subject() {
        let cell = Cell {
            subject: "epoll".into(),
            concurrency: 10,
            repeat: 0,
            started_at: String::new(),
            outcome: Outcome::lacking("none"),
        };
        let text = tables(
            &heading(),
            &Records { cells: vec![cell], blocks: vec![] },
            &[Table::Rate, Table::Slope],
        );
        assert!(text.contains("|  | 1 connection | 10 connections | 100 connections |"), "{text}");
        assert!(text.contains("| epoll | not run | unavailable | not run |"), "{text}");
        assert!(text.contains("| --- | ---: | ---: |\n"), "{text}");
    }

    #[test]
    fn every_table_has_a_name() {
        for (name, table) in Table::ALL {
            assert_eq!(name.parse(), Ok(table));
        }
        assert!("speed".parse::<Table>().unwrap_err().contains("rate, mean"));
    }
}
