//! Two runs laid over each other: the ratio of each figure of the second to the first's.

use crate::format::{how_many, multiple};
use crate::tell::chart::Chart;
use crate::tell::chart::forest::{Forest, Row};
use crate::tell::comparison::{
    Alone, Change, Comparison, Direction, Metric, Pair, headline, told_together,
};
use crate::tell::sheet::{Cell, Figure, Form, Part, Sheet, Table, Tone, left, right};

/// What a ratio is.
const RATIOS: &str = "Ratios are the second run's median over the first's, with a 99 % interval \
    (Student's, of logarithms; from 20 repeats on, the bootstrap's). A ratio is “level” when all of \
    its interval is within the margin, and “not told” when it includes 1 and more than the margin. \
    Of many ratios, one in a hundred excludes 1 by chance. A “?” stands where \
    a cell was measured once, where the load generator was the limit of the run that looks worse, \
    and where the load generator could not do its work.";

/// The sheet of the runs called `names`, experiment by experiment. The experiments called `alone`
/// are in one run only.
pub fn sheet(names: [&str; 2], comparisons: &[Comparison], alone: &[String]) -> Sheet {
    let mut sheet = Sheet::new("Two runs compared");
    let [first, second] = names.map(str::to_owned);
    let answer = first_line(comparisons).unwrap_or_else(|| headline(comparisons));
    sheet.add([Part::Answer(answer)]);
    let both = [format!("first: {first}"), format!("second: {second}")].map(Part::sentence);
    sheet.add_only(Form::Terminal, both);
    let rows = [["first".to_owned(), first], ["second".to_owned(), second]].map(Vec::from);
    let table = Table::new([left(""), left("")], rows);
    sheet.add_only(Form::Page, [Part::Table(table), Part::note(RATIOS)]);
    for comparison in comparisons {
        experiment(&mut sheet, comparison, comparisons.len() > 1);
    }
    let alone = (!alone.is_empty()).then(|| format!("in one run only: {}", alone.join(", ")));
    sheet.add_only(Form::Terminal, alone.map(Part::sentence));
    sheet
}

/// The faults that make the second run worse, in a line.
pub fn first_line(comparisons: &[Comparison]) -> Option<String> {
    let faults = || comparisons.iter().flat_map(|one| &one.faults).filter(|one| one.is_regression);
    let first = faults().next()?;
    let more = match faults().count() - 1 {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    Some(format!("The second run cannot be chosen: {}{more}.", first.told))
}

fn experiment(sheet: &mut Sheet, comparison: &Comparison, has_others: bool) {
    let service = &comparison.before.service;
    let name = comparison.experiment.as_ref();
    let underlined = |name: &String| format!("{name}\n{}", "=".repeat(name.chars().count()));
    let heading = name.filter(|_| has_others).map(underlined);
    sheet.add_only(Form::Terminal, heading.map(Part::Verbatim));
    let title = name.map_or_else(|| service.clone(), |name| format!("{name}: {service}"));
    sheet.add_only(Form::Page, [Part::heading(title)]);
    sheet.add(comparison.faults.iter().map(|fault| Part::sentence(format!("{}.", fault.told))));
    for metric in Metric::ALL {
        sheet.add_only(Form::Terminal, grid(comparison, metric).map(Part::Table));
    }
    sheet.add(comparison.sentences().into_iter().map(Part::sentence));
    differences(sheet, comparison);
    let charts = Metric::ALL.into_iter().map(|metric| Part::Figure(ratios(comparison, metric)));
    sheet.add_only(Form::Page, charts);
    sheet.add_only(Form::Page, [Part::Table(cells(comparison))]);
}

/// The cells that one run has, and all other differences.
fn differences(sheet: &mut Sheet, comparison: &Comparison) {
    let alone = |which: &'static str, alone: &[Alone]| {
        told_together(alone).into_iter().map(move |told| (format!("only in the {which}"), told))
    };
    let first = alone("first", &comparison.only_before);
    let alone: Vec<(String, String)> =
        first.chain(alone("second", &comparison.only_after)).collect();
    let sentences = alone.iter().map(|(which, told)| Part::sentence(format!("{which}: {told}")));
    sheet.add_only(Form::Terminal, sentences);
    let all = &comparison.differences;
    let told = all.iter().map(|one| format!("{}: {} → {}", one.what, one.before, one.after));
    let list = (!all.is_empty()).then(|| Part::list("what else differs", told));
    sheet.add_only(Form::Terminal, list);
    let rows = all.iter().map(|one| vec![one.what.clone(), one.before.clone(), one.after.clone()]);
    let rows = rows.chain(alone.into_iter().map(|(which, told)| vec![which, told]));
    let table = Table::new([left(""), left("First"), left("Second")], rows);
    let table = table.titled("What else differs");
    sheet.add_only(Form::Page, (!table.rows.is_empty()).then_some(Part::Table(table)));
}

/// A figure on a terminal: a row for each subject, a column for each number of connections.
fn grid(comparison: &Comparison, metric: Metric) -> Option<Table> {
    let pairs = &comparison.pairs;
    let mut subjects: Vec<&str> = Vec::new();
    for pair in pairs {
        if !subjects.contains(&pair.subject.as_str()) {
            subjects.push(&pair.subject);
        }
    }
    let mut loads: Vec<usize> = pairs.iter().map(|pair| pair.concurrency).collect();
    loads.sort_unstable();
    loads.dedup();
    let columns = loads.iter().map(|&load| right(comparison.before.at(load)));
    let rows = subjects.into_iter().map(|subject| {
        let cell = |&load: &usize| {
            let mut same =
                pairs.iter().filter(|one| one.subject == subject && one.concurrency == load);
            let change = same.next().and_then(|pair| pair.change(metric));
            change.map_or("-".to_owned(), |change| {
                format!("{} {:<8}", multiple(change.ratio), change.word())
            })
        };
        [comparison.before.label(subject)].into_iter().chain(loads.iter().map(cell)).collect()
    });
    let title = format!("{}, second over first, 99 % interval", metric.name());
    let table: Table =
        Table::new([left("")].into_iter().chain(columns), rows.collect::<Vec<Vec<String>>>());
    (!table.rows.is_empty()).then(|| table.titled(title))
}

/// The ratios of a metric, one for each cell that both runs have.
fn ratios(comparison: &Comparison, metric: Metric) -> Figure {
    let row = |pair: &Pair| {
        let change = pair.change(metric)?;
        let subject = comparison.before.label(&pair.subject);
        Some(Row {
            name: format!("{subject} at {}", how_many(pair.concurrency)),
            value: change.ratio.value,
            interval: change.ratio.interval.map(|interval| [interval.low, interval.high]),
            figure: format!("{:.2} {}", change.ratio.value, change.word()),
            class: match change.verdict {
                Direction::Better => "better",
                Direction::Worse => "worse",
                Direction::Level => "level",
                Direction::NotTold => "unknown",
                Direction::Unsure => "other",
            },
        })
    };
    let title = format!("{}: the second over the first", metric.name());
    let chart = Chart::Forest(Forest {
        about: title.clone(),
        line: Some(1.0),
        is_logarithmic: true,
        told: |value| format!("{value:.2}"),
        rows: comparison.pairs.iter().filter_map(row).collect(),
    });
    Figure::new(title, chart, Vec::new())
}

/// All figures of all cells that both runs have.
fn cells(comparison: &Comparison) -> Table {
    let before = &comparison.before;
    let figure = |change: Option<&Change>, metric: Metric| match change {
        None => Cell::from("–".to_owned()),
        Some(change) => Cell {
            text: format!("{} {}", multiple(change.ratio), change.word()),
            note: format!("{} → {}", metric.show(change.before), metric.show(change.after)),
            tone: match change.verdict {
                Direction::Better => Tone::Good,
                Direction::Worse => Tone::Bad,
                Direction::Level | Direction::NotTold | Direction::Unsure => Tone::Plain,
            },
            ..Cell::default()
        },
    };
    let row = |pair: &Pair| {
        let names = [before.label(&pair.subject), how_many(pair.concurrency)].map(Cell::from);
        let figures = Metric::ALL.map(|metric| figure(pair.change(metric), metric));
        names.into_iter().chain(figures).collect()
    };
    let columns = [left("Architecture"), right(before.counted.heading())];
    let columns = columns.into_iter().chain(Metric::ALL.map(|metric| right(metric.name())));
    let table = Table::new(columns, comparison.pairs.iter().map(row).collect::<Vec<Vec<Cell>>>());
    table.titled("Every cell that both have")
}
