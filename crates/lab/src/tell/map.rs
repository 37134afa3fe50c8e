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
use crate::judge::rows::{Figures, Missing, Row};
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
    /// What each cell says.
    says: Vec<Says>,
}

/// What a cell says beside its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    /// Nothing: there is no figure.
    Nothing,
    /// The figure stands for itself.
    Figure,
    /// The subject is level within the margin.
    Level,
    /// The subject is not told apart.
    NotTold,
    /// The subject is worse only by work that moved.
    Moved,
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
            let all: Vec<Spot> = summary.of_subject(name).map(|row| spot(summary, row)).collect();
            let is_out = all.iter().any(|spot| spot.cell.tone == Tone::Out);
            let is_choice = !summary.peers.contains(name) && !summary.yardsticks.contains(name);
            let worst = all.iter().map(|spot| spot.behind).fold(f64::NEG_INFINITY, f64::max);
            let place = Place { class: (is_out, !is_choice), worst };
            let (says, cells) = all.into_iter().map(|spot| (spot.says, spot.cell)).unzip();
            let (subject, label) = (name.clone(), summary.label(name));
            rows.push((place, Line { subject, label, cells, says }));
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
        self.rows.iter().flat_map(|line| &line.says).all(|says| *says == Says::Nothing)
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
        let has = |wanted: Says| self.rows.iter().any(|line| line.says.contains(&wanted));
        let margin = format!("{:.1}", 100.0 * summary.margin);
        let margin = margin.trim_end_matches('0').trim_end_matches('.');
        let all = [
            (Says::Level, format!("{LEVEL} level within {margin} %")),
            (Says::NotTold, format!("{NOT_TOLD} not told apart")),
            (Says::Moved, format!("{MOVED} only by work that moved")),
        ];
        let told: Vec<String> =
            all.into_iter().filter(|(says, _)| has(*says)).map(|(_, told)| told).collect();
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

/// A place of the map.
struct Spot {
    /// The difference by which its row is sorted.
    behind: f64,
    says: Says,
    cell: Cell,
}

impl Spot {
    fn of(behind: f64, says: Says, text: &str, tone: Tone) -> Self {
        Self { behind, says, cell: Cell { tone, ..text.to_owned().into() } }
    }

    /// A subject of which nothing is told.
    fn not_told() -> Self {
        Self::of(0.0, Says::NotTold, NOT_TOLD, Tone::Soft)
    }
}

/// What the map says of a row.
fn spot(summary: &Summary, row: &Row) -> Spot {
    if let Figures::Missing { state, .. } = &row.figures {
        return match state {
            Missing::Unavailable => Spot::of(f64::INFINITY, Says::Nothing, ABSENT, Tone::Soft),
            Missing::Failed => Spot::of(f64::INFINITY, Says::Figure, "failed", Tone::Out),
            Missing::NotRun => Spot::of(0.0, Says::Nothing, NOT_RUN, Tone::Soft),
        };
    }
    if let Some(fault) = summary.faults(row).first() {
        return Spot::of(f64::INFINITY, Says::Figure, out(*fault), Tone::Out);
    }
    let Some(verdict) = summary.verdict(row.concurrency) else { return Spot::not_told() };
    if let Some(current) = &summary.current {
        let mut all = verdict.alternatives.iter();
        return match all.find(|one| one.subject == row.subject) {
            _ if *current == row.subject => Spot::of(0.0, Says::Figure, "today", Tone::Strong),
            Some(one) => figure(one.difference, one.change),
            None => Spot::not_told(),
        };
    }
    match &summary.builds {
        Some(builds) => of_build(builds, verdict, &row.subject),
        None if verdict.is_withheld() => Spot::not_told(),
        None => of_standing(verdict, &row.subject),
    }
}

/// A build, beside the first build under the same architecture.
fn of_build(builds: &Builds, verdict: &Verdict, subject: &str) -> Spot {
    if builds.is_base(subject) {
        return Spot::of(0.0, Says::Figure, BASE, Tone::Strong);
    }
    match verdict.alternatives.iter().find(|one| one.subject == subject) {
        Some(one) if verdict.can_tell(one) => figure(one.difference, one.change),
        Some(one) => figure(one.difference, Told::Unknown),
        None => Spot::not_told(),
    }
}

/// The build with which others are compared.
const BASE: &str = "base";

fn of_standing(verdict: &Verdict, subject: &str) -> Spot {
    let mut all = verdict.standings.iter().chain(&verdict.others);
    let Some(Standing { behind, told, .. }) = all.find(|one| one.subject == subject) else {
        return Spot::not_told();
    };
    let is_first = verdict.standings.first().is_some_and(|best| best.subject == subject);
    match is_first && verdict.tells_apart() {
        true => {
            let is_sure = matches!(verdict.finding, Finding::Best { .. });
            let tone = if is_sure { Tone::Best } else { Tone::Good };
            Spot::of(0.0, Says::Figure, BEST, tone)
        }
        false => figure(*behind, *told),
    }
}

/// The first in order, where some are worse for sure.
const BEST: &str = "best";

/// A difference and its mark.
fn figure(difference: f64, told: Told) -> Spot {
    let percent = format!("{:+.0}", 100.0 * difference);
    let percent = if percent == "-0" { "+0".to_owned() } else { percent };
    let (says, mark, tone) = match told {
        Told::Better => (Says::Figure, "", Tone::Good),
        Told::Worse => (Says::Figure, "", Tone::Heat(heat(difference))),
        Told::WorkMoved => (Says::Moved, MOVED, Tone::Unsure),
        Told::Level => (Says::Level, LEVEL, Tone::Good),
        Told::Unknown => (Says::NotTold, NOT_TOLD, Tone::Unsure),
    };
    Spot::of(difference, says, &(percent + mark), tone)
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
