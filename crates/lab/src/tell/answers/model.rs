//! Where a request's time goes: for each workload the causes of its time, then the quality of the
//! model, then predictions.

use crate::format::{connections, duration, grouped};
use crate::model::fit::{self, Factors, Unfit};
use crate::model::{
    AIM, Coefficients, Deviation, Model, Modelled, TERMS, Workload, coefficients, sentences,
};
use crate::tell::chart::Chart;
use crate::tell::chart::bars::{Bar, Bars, Piece};
use crate::tell::sheet::{Figure, Form, Part, Sheet, Table, left, right};

/// The length of the longest bar, in letters.
const WIDEST: f64 = 48.0;
/// The letter of t_independent in bars of text, and its colour on a page.
const INDEPENDENT: (char, &str) = ('·', "#88ccee");

/// The sheet of a model. Its tables need a terminal of about 120 columns.
pub fn sheet(model: &Model) -> Sheet {
    let factors = fit::factors(&model.workloads);
    let rows: Vec<(&Workload, Coefficients)> = model
        .workloads
        .iter()
        .map(|workload| (workload, coefficients(workload, factors.as_ref().ok())))
        .collect();
    let mut sheet = Sheet::new("Where a request's time goes");
    on_terminal(&mut sheet, model, &rows, factors);
    on_page(&mut sheet, &rows, factors.err());
    predictions(&mut sheet, model);
    sheet
}

fn on_terminal(
    sheet: &mut Sheet,
    model: &Model,
    rows: &[(&Workload, Coefficients)],
    factors: Result<Factors, Unfit>,
) {
    for workload in &model.workloads {
        let missing = not_modelled(workload);
        sheet.add_only(Form::Terminal, [stacked(workload)].into_iter().chain(missing));
    }
    let (letter, _) = INDEPENDENT;
    let alike = format!("{letter} what every architecture does alike (t_independent)");
    let terms = TERMS.iter().map(|term| format!("{} {}: {}", term.letter, term.name, term.about));
    sheet.add_only(Form::Terminal, [alike].into_iter().chain(terms).map(Part::sentence));
    let title = "Coefficient of variation of t_independent over the architectures: with no term \
                 taken off, then with one term more in each column";
    let figures = rows.iter().map(|(workload, row)| {
        steps(format!("{}, {}", workload.name, grouped(workload.connections as f64)), workload, row)
    });
    let fitted = match factors {
        Ok(factors) => {
            let terms = TERMS.iter().zip(factors);
            let parts: Vec<String> = terms
                .filter_map(|(term, factor)| Some(format!("{} {:.2}", term.name, factor?)))
                .collect();
            format!("fitted: no part of the model; prices multiplied by {}", parts.join(", "))
        }
        Err(reason) => format!("fitted: withheld: {reason}"),
    };
    let table = Table::new(columns_of_steps(""), figures).titled(title);
    sheet.add_only(Form::Terminal, [Part::Table(table), Part::sentence(fitted)]);
    let parts = rows.iter().filter_map(|(workload, row)| explained(workload, row));
    sheet.add_only(Form::Terminal, parts.map(Part::sentence));
}

fn on_page(sheet: &mut Sheet, rows: &[(&Workload, Coefficients)], unfit: Option<Unfit>) {
    let key =
        |name: &str, about: &str, colour: &str| (colour.to_owned(), format!("{name}: {about}"));
    let alike = key("t_independent", "what is left", INDEPENDENT.1);
    let terms = TERMS.iter().map(|term| key(term.name, term.about, term.colour));
    sheet.add_only(
        Form::Page,
        [
            Part::sentence(
                "Processor time of the server for each request, split into the work of every \
                 architecture (t_independent) and this architecture's own work: how often a \
                 request takes each operation, counted by the server, times the cost of the \
                 operation alone, by a micro-benchmark. After Demsky 2001, chapter 4."
                    .to_owned(),
            ),
            Part::Key([alike].into_iter().chain(terms).collect()),
        ],
    );
    sheet.add_only(Form::Page, rows.iter().map(|(workload, _)| Part::Figure(bars(workload))));
    let withheld = unfit.map_or(String::new(), |unfit| format!(" (withheld here: {unfit})"));
    let columns = columns_of_steps("workload").chain([left("what deviates from the median")]);
    let figures = rows.iter().map(|(workload, row)| {
        let mut cells = steps(title(workload), workload, row);
        let is_explained = row.steps[TERMS.len()].is_some_and(|last| last < AIM);
        let deviations = row.deviations.iter().filter(|_| !is_explained).map(deviation);
        cells.push(deviations.collect::<Vec<_>>().join(", "));
        cells
    });
    sheet.add_only(
        Form::Page,
        [
            Part::heading("How well the model holds"),
            Part::sentence(format!(
                "The coefficient of variation of t_independent over the architectures, with each \
                 term taken off in turn (Demsky's table 4.3). If the model is right, t_independent \
                 is the same under all of them and the coefficient is near 0; the aim is below \
                 {AIM}. Fitted is no part of the model: prices are multiplied by the factors that \
                 explain most{withheld}. Repeats is how much repeats of one cell differ; no model \
                 can do better."
            )),
            Part::Table(Table::new(columns, figures)),
        ],
    );
}

fn title(workload: &Workload) -> String {
    format!("{}, {}", workload.name, connections(workload.connections))
}

/// One row for each architecture: its total, the time of the terms, and a bar of both.
fn stacked(workload: &Workload) -> Part {
    let shown: Vec<usize> = (0..TERMS.len())
        .filter(|&term| workload.subjects.iter().any(|subject| subject.terms[term] >= 0.005))
        .collect();
    let longest = workload.subjects.iter().map(length).fold(f64::MIN_POSITIVE, f64::max);
    let row = |subject: &Modelled| {
        let terms = shown.iter().map(|&term| subject.terms[term]);
        let figures = [subject.total, subject.independent()].into_iter().chain(terms);
        [subject.architecture.clone()]
            .into_iter()
            .chain(figures.map(|figure| format!("{figure:.2}")))
            .chain([bar(subject, WIDEST / longest)])
            .collect()
    };
    let columns = [left(""), right("total"), right("independent")].into_iter();
    let columns = columns.chain(shown.iter().map(|&term| right(TERMS[term].name)));
    let table = Table::new(columns.chain([left("")]), workload.subjects.iter().map(row));
    Part::Table(table.titled(format!("{}: µs of server CPU per request", title(workload))))
}

/// The architectures that were not modelled, each reason once.
fn not_modelled(workload: &Workload) -> impl Iterator<Item = Part> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for (architecture, why) in &workload.missing {
        match reasons.iter_mut().find(|(known, _)| known == why) {
            Some((_, architectures)) => architectures.push(architecture),
            None => reasons.push((why, vec![architecture])),
        }
    }
    reasons.into_iter().map(|(why, architectures)| {
        Part::sentence(format!("not modelled: {}: {why}", architectures.join(", ")))
    })
}

/// The length of a bar: up to the sum of the terms, if that is above the total.
fn length(subject: &Modelled) -> f64 {
    subject.dependent() + subject.independent().max(0.0)
}

/// t_independent, then the terms, in letters. The ends of parts are rounded, so that a bar is as
/// long as its parts together.
fn bar(subject: &Modelled, scale: f64) -> String {
    let parts = TERMS.iter().map(|term| term.letter).zip(subject.terms);
    let all = [(INDEPENDENT.0, subject.independent().max(0.0))].into_iter().chain(parts);
    let (mut bar, mut end, mut drawn) = (String::new(), 0.0, 0);
    for (letter, microseconds) in all {
        end += microseconds * scale;
        let until = end.round() as usize;
        bar.extend(std::iter::repeat_n(letter, until.saturating_sub(drawn)));
        drawn = drawn.max(until);
    }
    bar
}

/// The chart of a workload, with the reasons for what it shows.
fn bars(workload: &Workload) -> Figure {
    let piece = |name, colour, value| Piece { name, colour, value };
    let bar = |subject: &Modelled| {
        let alike = piece("t_independent", INDEPENDENT.1, subject.independent().max(0.0));
        let terms = TERMS.iter().zip(subject.terms);
        let terms = terms.map(|(term, value)| piece(term.name, term.colour, value));
        Bar {
            name: subject.architecture.clone(),
            parts: [alike].into_iter().chain(terms).collect(),
            figure: duration(subject.total),
        }
    };
    let missing = workload.missing.iter();
    let missing = missing.map(|(name, why)| format!("Not modelled: {name}: {why}"));
    let about = format!("{}: where the time of a request goes", workload.name);
    let bars = workload.subjects.iter().map(bar).collect();
    let notes = workload.subjects.iter().flat_map(sentences).chain(missing).collect();
    Figure::new(title(workload), Chart::Bars(Bars { about, told: duration, bars }), notes)
}

/// The columns of Demsky's table 4.3.
fn columns_of_steps(first: &str) -> impl Iterator<Item = crate::tell::sheet::Column> {
    let terms = TERMS.iter().map(|term| right(format!("+ {}", term.name)));
    let terms = [left(first), right("no model")].into_iter().chain(terms);
    terms.chain([right("fitted"), right("repeats")])
}

fn steps(name: String, workload: &Workload, row: &Coefficients) -> Vec<String> {
    let number = |figure: Option<f64>| figure.map_or("–".to_owned(), |it| format!("{it:.3}"));
    let figures = row.steps.iter().copied().chain([row.fitted, workload.noise]).map(number);
    [name].into_iter().chain(figures).collect()
}

/// Whether the model explains a workload, and the architectures that it does not explain.
fn explained(workload: &Workload, row: &Coefficients) -> Option<String> {
    let last = row.steps[TERMS.len()]?;
    let at = title(workload);
    let parts: Vec<String> = row.deviations.iter().map(deviation).collect();
    Some(match parts.as_slice() {
        _ if last < AIM => format!("{at}: explained ({last:.3})"),
        [] => format!("{at}: not explained ({last:.3} is above {AIM}); all deviate a little"),
        parts => format!(
            "{at}: not explained ({last:.3} is above {AIM}); t_independent differs from the median \
             under {}",
            parts.join(", ")
        ),
    })
}

fn deviation(of: &Deviation) -> String {
    format!("{} {:+.2} µs ({:+.0} %)", of.architecture, of.microseconds, 100.0 * of.share)
}

/// The predictions. On a page, each figure has its unit.
fn predictions(sheet: &mut Sheet, model: &Model) {
    if model.checks.is_empty() {
        return;
    }
    let title = "Predictions for loads that the model was not made from";
    let or_dash = |figure: Option<String>| figure.unwrap_or_else(|| "–".to_owned());
    let row = |form: Form| {
        move |check: &crate::model::Check| {
            let unit = if form == Form::Page { " µs" } else { "" };
            let time = |time: f64| format!("{time:.2}{unit}");
            let load = match form {
                Form::Page => connections(check.connections),
                Form::Terminal => grouped(check.connections as f64),
            };
            let most = check.most_per_second().map(grouped);
            let mut cells = vec![
                format!("{} {}", check.workload, check.architecture),
                load,
                or_dash(check.predicted.map(time)),
                or_dash(check.measured.map(time)),
                or_dash(check.error().map(|error| format!("{:+.1} %", 100.0 * error))),
                or_dash(most),
            ];
            cells.truncate(if form == Form::Page { 5 } else { 6 });
            cells
        }
    };
    let names =
        ["connections", "predicted µs", "measured µs", "error", "most requests/s on a core"];
    let columns = [left("")].into_iter().chain(names.map(right));
    let table = Table::new(columns, model.checks.iter().map(row(Form::Terminal)));
    sheet.add_only(Form::Terminal, [Part::Table(table.titled(title))]);
    let columns = ["load", "predicted", "measured", "error"].map(right);
    let columns = [left("")].into_iter().chain(columns);
    let table = Table::new(columns, model.checks.iter().map(row(Form::Page)));
    sheet.add_only(Form::Page, [Part::heading(title), Part::Table(table)]);
}
