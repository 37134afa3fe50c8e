//! Subjects along rising load: their rates, what each request met, and the conclusions that are
//! sure.

use crate::format::{duration, grouped, percent};
use crate::regimes::derive::Plot;
use crate::regimes::plan::{Mode, Regime};
use crate::regimes::summary::{Figures, Summary};
use crate::tell::chart::plots::{self, Choice, Curves, Plots, Quantity, Rounded};
use crate::tell::report::markdown::Table as Which;
use crate::tell::sheet::{Cell, Form, Part, Sheet, Table, Tone, left, names, right};

/// The rates, the reasons for those that are missing, and sentences. A page has plots beside them.
pub fn sheet(summary: &Summary<'_>) -> Sheet {
    let heading = summary.heading;
    let mut sheet = Sheet::new(&heading.title);
    sheet.skip_to = Some("plots");
    let sentences = summary.sentences();
    let mut rest = sentences.iter().cloned();
    let answer = rest.next().map(Part::Answer).into_iter();
    sheet.add_only(Form::Page, [Part::Lead(answer.chain(rest.map(Part::sentence)).collect())]);
    let source = heading.source.as_ref().map(|source| source.replace('*', ""));
    sheet.add_only(Form::Page, source.map(|source| Part::note(format!("After {source}."))));
    let tables = summary.regimes.iter().map(|regime| figures_of(summary, regime));
    sheet.add_only(
        Form::Page,
        [
            Part::section("plots", "What each request met"),
            Part::note(what_it_met(summary)),
            Part::Plots(plots(summary), tables.collect()),
            Part::heading("Requests per second under each load"),
            Part::note(how_often(heading.repeats)),
            Part::Table(rates_of_page(summary)),
        ],
    );
    let rates = table(summary, "requests/s", |one| Some(rate(one)));
    sheet.add_only(Form::Terminal, [Part::Table(rates)].into_iter().chain(missing(summary, "– ")));
    sheet.add_only(Form::Terminal, sentences.into_iter().map(Part::sentence));
    let reasons: Vec<Part> = missing(summary, "").collect();
    let title = (!reasons.is_empty()).then(|| Part::subheading("Not measured"));
    sheet.add_only(Form::Page, title.into_iter().chain(reasons));
    sheet.add_only(Form::Page, how(summary));
    sheet
}

/// The subjects that were not measured under some load, each with a reason.
fn missing<'s>(summary: &'s Summary<'_>, mark: &'s str) -> impl Iterator<Item = Part> + 's {
    summary.subjects().filter_map(move |subject| {
        let reason = summary.regimes.iter().find_map(|one| summary.reason(subject, &one.name))?;
        Some(Part::sentence(format!("{mark}{subject}: {reason}")))
    })
}

fn what_it_met(summary: &Summary<'_>) -> String {
    let met = "T is how long a request took; #B how many blocks (stages of any request) the whole \
        server began meanwhile; TP = #B/T; #CP how many clients were connected, by the mean of \
        arrival and answer. Points are single requests of the first repeat. The mean at each x is \
        over all requests of all repeats; from #B = 32 on, neighbouring values share a bin, a \
        sixteenth wide. The line is its moving average over nine neighbours, each weighted by how \
        many requests it stands for. Both axes are logarithmic.";
    let mixed = " This run was kept by an earlier version, which mixed x from 24 to 31.5 with x \
        from 32 to 63.5. These are one point here, at their means, and the line is not averaged \
        across this point.";
    met.to_owned() + if summary.heading.has_mixed_bins() { mixed } else { "" }
}

fn how_often(repeats: usize) -> String {
    let often = match repeats {
        1 => "measured once".to_owned(),
        repeats => format!("medians of {repeats} repeats"),
    };
    format!(
        "The lightest load first; {often}. Bold is each subject's best; “kept” is the rate under \
         the heaviest load as a share of it."
    )
}

/// How the run was measured, and the subjects.
fn how(summary: &Summary<'_>) -> [Part; 4] {
    let heading = summary.heading;
    let mode = match heading.mode {
        Mode::Injected => {
            "clients injected by a thread of the server's process, without TCP; server and \
             injector share all processors"
        }
        Mode::Tcp => {
            "over TCP, by the load generator; server and load have processors of their own where \
             there are two"
        }
    };
    let machine = &heading.machine;
    let waits =
        "waits between two clients follow a cosine from the longest to the shortest and back";
    let facts = [
        ("Service", format!("{}, {mode}", heading.service)),
        ("Regimes", format!("{waits}, {} times in each cell", heading.swings)),
        (
            "Order",
            "random, each repeat the mirror of the one before; a fresh server for each cell".into(),
        ),
        ("Begun", heading.started_at.clone()),
        ("Machine", format!("{}, {} processors, {}", machine.cpu, machine.cpus, machine.kernel)),
    ];
    let facts = facts.map(|(name, value)| (name.to_owned(), value));
    let rows = heading.subjects.iter().map(|(name, words)| vec![name.clone(), words.join(" ")]);
    let subjects = Table::new([names(""), left("")], rows).titled("Subjects");
    let [how, facts] = [Part::heading("How it was measured"), Part::Facts(facts.into())];
    [how, facts, Part::Table(subjects), Part::note("Each subject's arguments of `duality serve`.")]
}

/// The rate of each subject under each load, with the share that it keeps under the heaviest.
fn rates_of_page(summary: &Summary<'_>) -> Table {
    let mut table = table(summary, "Subject", |one| Some(rate(one))).called("rates", "Requests/s");
    table.columns[0].is_name = true;
    for column in &mut table.columns[1..] {
        // A long name may be broken there.
        column.name = column.name.replace("..", "..\u{200b}");
    }
    for (row, subject) in table.rows.iter_mut().zip(summary.subjects()) {
        let best = summary.best(subject);
        for (cell, regime) in row[1..].iter_mut().zip(&summary.regimes) {
            let Some(figures) = summary.figures(subject, &regime.name) else { continue };
            let (least, most) = figures.range;
            cell.about = format!("{} to {}", grouped(least.round()), grouped(most.round()));
            if best.is_some_and(|best| best.regime == regime.name) {
                cell.tone = Tone::Best;
            }
        }
    }
    with_kept(table, summary)
}

/// The table with the share of its best rate that each subject keeps.
fn with_kept(mut table: Table, summary: &Summary<'_>) -> Table {
    table.columns.push(right("kept"));
    for (row, name) in table.rows.iter_mut().zip(summary.subjects()) {
        row.push(summary.kept(name).map_or("–".to_owned(), percent).into());
    }
    table
}

/// A figure of each subject under each load, for a document. `None` for a figure that cells of a
/// regime do not have.
pub fn tabled(summary: &Summary<'_>, which: Which) -> Option<Table> {
    let (title, told): (_, Told) = match which {
        Which::Rate => ("Requests/s", |one| Some(rate(one))),
        Which::Cpu => ("Server CPU per request", cpu),
        Which::P99 => ("T, 99 %", |one| Some(duration(one.time_p99_us))),
        _ => return None,
    };
    let table = table(summary, "", told);
    let table = if which == Which::Rate { with_kept(table, summary) } else { table };
    Some(table.titled(format!("{title}, medians")))
}

/// A figure in words.
type Told = fn(&Figures) -> Option<String>;

fn rate(figures: &Figures) -> String {
    grouped(figures.rate.round())
}

fn cpu(figures: &Figures) -> Option<String> {
    figures.cpu_us.map(duration)
}

fn table(summary: &Summary<'_>, corner: &str, told: Told) -> Table {
    let columns = summary.regimes.iter().map(|one| right(&one.name));
    let rows = summary.subjects().map(|name| {
        let figure = |regime: &&Regime| cell(summary, name, regime, told);
        [name.to_owned().into()].into_iter().chain(summary.regimes.iter().map(figure)).collect()
    });
    let rows: Vec<Vec<Cell>> = rows.collect();
    Table::new([left(corner)].into_iter().chain(columns), rows)
}

fn cell(summary: &Summary<'_>, subject: &str, regime: &Regime, told: Told) -> Cell {
    let shown = summary.figures(subject, &regime.name).and_then(|figures| told(&figures));
    shown.unwrap_or_else(|| "–".to_owned()).into()
}

/// The quantities of a request, in the order of a point.
const QUANTITIES: [Quantity; 4] = [
    Quantity { name: "T", is_time: true },
    Quantity { name: "#B", is_time: false },
    Quantity { name: "#CP", is_time: false },
    Quantity { name: "TP", is_time: false },
];

fn plots(summary: &Summary<'_>) -> Plots {
    let plot = |plot: Plot| {
        let [across, up] = match plot {
            Plot::TimeBlocks => [1, 0],
            Plot::TimeClients => [2, 0],
            Plot::RateClients => [2, 3],
        };
        let title = format!("{} against {}", QUANTITIES[up].name, QUANTITIES[across].name);
        plots::Plot { title, across, up }
    };
    let all = summary.subjects().map(|subject| curves(summary, subject, None));
    let first = first(&summary.heading.subjects);
    Plots {
        choice: "Regime",
        quantities: QUANTITIES.to_vec(),
        plots: Plot::ALL.into_iter().map(plot).collect(),
        subjects: summary.subjects().map(str::to_owned).zip(first).collect(),
        all: all.collect(),
        choices: summary.regimes.iter().map(|regime| choice(summary, regime)).collect(),
    }
}

/// The figures of all subjects under a load.
fn figures_of(summary: &Summary<'_>, regime: &Regime) -> Table {
    let figures: [(&str, Told); 5] = [
        ("Requests/s", |one| Some(rate(one))),
        ("CPU per request", cpu),
        ("T, median", |one| Some(duration(one.time_p50_us))),
        ("T, 99 %", |one| Some(duration(one.time_p99_us))),
        ("Most clients", |one| Some(grouped(one.peak_clients))),
    ];
    let rows = summary.subjects().map(|subject| {
        let cells = figures.iter().map(|(_, told)| cell(summary, subject, regime, *told));
        [Cell::from(subject.to_owned())].into_iter().chain(cells).collect()
    });
    let columns =
        [names("Subject")].into_iter().chain(figures.iter().map(|(name, _)| right(*name)));
    let offered = grouped(regime.rate().round());
    let table = Table::new(columns, rows.collect::<Vec<Vec<Cell>>>());
    table.titled(format!("{}: {offered} clients a second on average", regime.name))
}

fn choice(summary: &Summary<'_>, regime: &Regime) -> Choice {
    let name = &regime.name;
    let points = |subject| {
        let point = |(time_us, blocks, clients): &(f64, u64, f64)| {
            let (time, blocks) = (time_us / 1e6, *blocks as f64);
            [time, blocks, *clients, blocks / time].map(Rounded).to_vec()
        };
        summary.points(subject, name).iter().map(point).collect()
    };
    Choice {
        name: name.clone(),
        curves: summary.subjects().map(|subject| curves(summary, subject, Some(name))).collect(),
        points: summary.subjects().map(points).collect(),
    }
}

/// The curves of a subject under a load, or under all loads together.
fn curves(summary: &Summary<'_>, subject: &str, regime: Option<&str>) -> Curves {
    let curve = |plot| {
        let curve = summary.sums(subject, regime, plot).curve();
        curve.iter().map(|one| [one.x, one.mean, one.moving].map(Rounded)).collect()
    };
    Plot::ALL.into_iter().map(curve).collect()
}

/// The modes of Truppel and Abreu, by the arguments of `duality serve`: threads, their work pool at
/// its best, and GCD.
const MODES: [&[&str]; 3] = [
    &["--architecture=threads"],
    &["--architecture=workpool-fifo", "--workers=8"],
    &["--architecture=gcd"],
];

/// A plot with more lines cannot be read.
const MOST_LINES: usize = 4;

/// Which subjects the plots show at first: all of a few, and of many the paper's three modes, if
/// the run has two of them.
fn first(subjects: &[(String, Vec<String>)]) -> Vec<bool> {
    let are: Vec<bool> =
        subjects.iter().map(|(_, arguments)| MODES.iter().any(|mode| mode == arguments)).collect();
    let modes = are.iter().filter(|&&is| is).count();
    match subjects.len() <= MOST_LINES || modes < 2 {
        true => vec![true; subjects.len()],
        false => are,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_s_modes_come_first_and_without_them_all_do() {
        let subject = |arguments: &[&str]| {
            (String::new(), arguments.iter().map(|&word| word.to_owned()).collect())
        };
        let pool = subject(&["--architecture=workpool-fifo", "--workers=8"]);
        let (threads, epoll) =
            (subject(&["--architecture=threads"]), subject(&["--architecture=epoll"]));
        let many = [&threads, &epoll, &pool, &epoll, &epoll].map(Clone::clone);
        assert_eq!(first(&many), [true, false, true, false, false]);
        assert_eq!(first(&[threads, epoll, pool]), [true; 3]);
    }
}
