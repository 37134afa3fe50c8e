//! The map: architectures × loads. Each cell is the difference from the best, or from the subject
//! that runs today, in percent.
//!
//! ```text
//!   % worse     1    10   100  1,000
//!   epoll    best  best  best   best
//!   uring     +2=   +4?   +1=    +3?
//!   threads   +39  +220  +260   +410
//! ```
//!
//! Rows are sorted by their worst cell. What is unavailable or out comes last. A terminal shows the
//! map in colours, and the page as a heat map.

use crate::format::how_many;
use crate::judge::faults::Fault;
use crate::judge::rows::{Figures, Row};
use crate::judge::summary::Summary;
use crate::judge::verdict::{Finding, Standing, Told, Verdict};
use crate::record::Builds;
use crate::tell::recommendation::crossovers;
use crate::tell::sheet::{Cell, Column, Table, Tone, left, right};

/// The mark of a subject that is level with the best within the margin.
const LEVEL: &str = "=";
/// The mark of a subject that is not told apart from the best.
const NOT_TOLD: &str = "?";
/// The mark of a subject that is worse only by work that moved.
const MOVED: &str = "~";

/// The cell of a subject that is unavailable.
const ABSENT: &str = "n/a";
/// The cell of a subject that was not measured yet.
const NOT_RUN: &str = "–";

/// The map of an experiment.
#[derive(Clone, Debug)]
pub struct Map {
    /// What the cells are, in a word.
    corner: &'static str,
    /// What the cells are.
    pub title: String,
    /// The loads of the columns.
    pub loads: Vec<usize>,
    /// The loads before which the lead passes from one subject to another.
    turns: Vec<usize>,
    /// A row for each subject, the best first.
    pub rows: Vec<Line>,
}

/// A row of the map.
#[derive(Clone, Debug)]
pub struct Line {
    /// The subject.
    pub subject: String,
    /// The subject with what it is, if it is no choice.
    label: String,
    cells: Vec<Cell>,
}

impl Map {
    /// The map of the verdicts.
    pub fn of(summary: &Summary) -> Self {
        let loads = summary.concurrency.clone();
        let builds = summary.builds.as_ref().map(|builds| &builds.builds[0].name);
        let (corner, title) = match summary.current.as_ref().or(builds) {
            Some(current) => ("% change", format!("percent more than {current}")),
            None => ("% worse", "percent worse than the best".to_owned()),
        };
        let mut rows: Vec<(Place, Line)> = Vec::new();
        for name in &summary.subjects {
            let all: Vec<(f64, Cell)> =
                summary.of_subject(name).map(|row| cell(summary, row)).collect();
            let is_out = all.iter().any(|(_, cell)| cell.tone == Tone::Out);
            let is_choice = !summary.peers.contains(name) && !summary.yardsticks.contains(name);
            let worst = all.iter().map(|(behind, _)| *behind).fold(f64::NEG_INFINITY, f64::max);
            let place = Place { class: (is_out, !is_choice), worst };
            let cells = all.into_iter().map(|(_, cell)| cell).collect();
            rows.push((place, Line { subject: name.clone(), label: summary.label(name), cells }));
        }
        // Builds stand beside the one with which they are compared.
        if builds.is_none() {
            rows.sort_by(|(one, _), (other, _)| {
                one.class.cmp(&other.class).then(one.worst.total_cmp(&other.worst))
            });
        }
        let rows = rows.into_iter().map(|(_, line)| line).collect();
        let turns = crossovers(summary).iter().map(|one| one.below).collect();
        Self { corner, title, loads, turns, rows }
    }

    /// Whether the map has something to show.
    pub fn is_empty(&self) -> bool {
        let is_known = |cell: &Cell| ![ABSENT, NOT_RUN].contains(&cell.text.as_str());
        !self.rows.iter().any(|line| line.cells.iter().any(is_known))
    }

    /// The map as a table. `most` is the most loads that there is room for; the busiest count.
    pub fn table(&self, most: usize) -> Table {
        let first = self.loads.len().saturating_sub(most);
        let loads = self.loads[first..]
            .iter()
            .map(|&load| Column { is_turn: self.turns.contains(&load), ..right(how_many(load)) });
        let columns: Vec<Column> = [left(self.corner)].into_iter().chain(loads).collect();
        let rows = self.rows.iter().map(|Line { label, cells, .. }| {
            let label = Cell::from(label.clone());
            [label].into_iter().chain(cells[first..].iter().cloned()).collect::<Vec<Cell>>()
        });
        Table::new(columns, rows)
    }

    /// The meanings of the marks that the map has.
    pub fn key(&self, summary: &Summary) -> String {
        let has = |mark: &str| {
            self.rows.iter().flat_map(|line| &line.cells).any(|cell| cell.text.ends_with(mark))
        };
        let margin = format!("{:.1}", 100.0 * summary.margin);
        let margin = margin.trim_end_matches('0').trim_end_matches('.');
        let all = [
            (LEVEL, format!("{LEVEL} level within {margin} %")),
            (NOT_TOLD, format!("{NOT_TOLD} not told apart")),
            (MOVED, format!("{MOVED} only by work that moved")),
        ];
        let told: Vec<String> =
            all.into_iter().filter(|(mark, _)| has(mark)).map(|(_, told)| told).collect();
        told.join(", ")
    }
}

/// The place of a row.
struct Place {
    /// Whether the subject is out at some load, and whether it is no choice.
    class: (bool, bool),
    /// The worst difference.
    worst: f64,
}

/// A cell, and the difference by which its row is sorted.
fn cell(summary: &Summary, row: &Row) -> (f64, Cell) {
    let plain = |text: &str, tone: Tone| Cell { tone, ..text.to_owned().into() };
    if let Figures::Missing { what, .. } = &row.figures {
        return match *what {
            "unavailable" => (f64::INFINITY, plain(ABSENT, Tone::Soft)),
            "failed" => (f64::INFINITY, plain("failed", Tone::Out)),
            _ => (0.0, plain(NOT_RUN, Tone::Soft)),
        };
    }
    if let Some(fault) = summary.faults(row).first() {
        return (f64::INFINITY, plain(out(*fault), Tone::Out));
    }
    let Some(verdict) = summary.verdict(row.concurrency) else {
        return (0.0, plain(NOT_TOLD, Tone::Soft));
    };
    if summary.current.as_deref() == Some(&row.subject) {
        return (0.0, plain("today", Tone::Strong));
    }
    if let Some(builds) = &summary.builds {
        return of_build(builds, verdict, &row.subject);
    }
    if verdict.is_withheld() && summary.current.is_none() {
        return (0.0, plain(NOT_TOLD, Tone::Soft));
    }
    if summary.current.is_some() {
        let mut all = verdict.alternatives.iter();
        return match all.find(|one| one.subject == row.subject) {
            Some(one) => (one.difference, figure(one.difference, one.change)),
            None => of_standing(verdict, &row.subject, true),
        };
    }
    of_standing(verdict, &row.subject, false)
}

/// A build, beside the first build under the same architecture.
fn of_build(builds: &Builds, verdict: &Verdict, subject: &str) -> (f64, Cell) {
    if builds.is_base(subject) {
        return (0.0, Cell { tone: Tone::Strong, ..BASE.to_owned().into() });
    }
    match verdict.alternatives.iter().find(|one| one.subject == subject) {
        Some(one) if verdict.can_tell(one) => (one.difference, figure(one.difference, one.change)),
        Some(one) => (one.difference, figure(one.difference, Told::Unknown)),
        None => (0.0, Cell { tone: Tone::Soft, ..NOT_TOLD.to_owned().into() }),
    }
}

/// The build with which others are compared.
const BASE: &str = "base";

fn of_standing(verdict: &Verdict, subject: &str, beside_current: bool) -> (f64, Cell) {
    let mut all = verdict.standings.iter().chain(&verdict.others);
    let found = all.find(|one| one.subject == subject).filter(|_| !beside_current);
    let Some(Standing { behind, told, .. }) = found else {
        return (0.0, Cell { tone: Tone::Soft, ..NOT_TOLD.to_owned().into() });
    };
    let is_first = verdict.standings.first().is_some_and(|best| best.subject == subject);
    match is_first && verdict.tells_apart() {
        true => {
            let is_sure = matches!(verdict.finding, Finding::Best { .. });
            let tone = if is_sure { Tone::Best } else { Tone::Good };
            (0.0, Cell { tone, ..BEST.to_owned().into() })
        }
        false => (*behind, figure(*behind, *told)),
    }
}

/// The first in order, where some are worse for sure.
const BEST: &str = "best";

/// A difference and its mark.
fn figure(difference: f64, told: Told) -> Cell {
    let percent = format!("{:+.0}", 100.0 * difference);
    let percent = if percent == "-0" { "+0".to_owned() } else { percent };
    let (mark, tone) = match told {
        Told::Better => ("", Tone::Good),
        Told::Worse => ("", Tone::Heat(heat(difference))),
        Told::WorkMoved => (MOVED, Tone::Unsure),
        Told::Level => (LEVEL, Tone::Good),
        Told::Unknown => (NOT_TOLD, Tone::Unsure),
    };
    Cell { tone, ..(percent + mark).into() }
}

/// How bad a difference is, from 1 to 4.
fn heat(difference: f64) -> u8 {
    match difference {
        ..0.15 => 1,
        ..0.5 => 2,
        ..1.5 => 3,
        _ => 4,
    }
}

/// The reason why a subject is out, in a word.
fn out(fault: Fault) -> &'static str {
    match fault {
        Fault::WrongReplies => "wrong",
        Fault::Ended => "crashed",
        Fault::Failing => "errors",
        Fault::Unserved => "starved",
        Fault::ListenQueue => "queue",
        Fault::Invalid => "invalid",
        Fault::Constraint => "limit",
        Fault::Unchecked => "limit?",
    }
}
