//! The page of a run of regimes: three plots with all subjects overlaid, a choice of regimes, and
//! tables.

use std::io;
use std::path::Path;

use minijinja::{Value, context};
use serde_json::json;

use super::derive::Plot;
use super::plan::Mode;
use super::record::{Cell, Heading, Outcome};
use super::summary::Summary;
use crate::format::{self, grouped};
use crate::page::{page, script_data, write_whole};

/// The modes of Truppel and Abreu, by the arguments of `duality serve`: threads, their work pool at
/// its best, and GCD.
const MODES: [&[&str]; 3] = [
    &["--architecture=threads"],
    &["--architecture=workpool-fifo", "--workers=8"],
    &["--architecture=gcd"],
];

/// Writes the page.
///
/// # Errors
///
/// Fails if the page cannot be written.
pub fn write(path: &Path, heading: &Heading, cells: &[Cell]) -> io::Result<()> {
    let summary = Summary::of(heading, cells);
    let machine = &heading.machine;
    let text = page(
        include_str!("regimes.html.jinja"),
        context! {
            title => heading.title,
            source => heading.source.as_ref().map(|source| source.replace('*', "")),
            sentences => summary.sentences(),
            service => heading.service,
            injected => heading.mode == Mode::Injected,
            repeats => heading.repeats,
            swings => heading.swings,
            has_mixed_bins => heading.has_mixed_bins(),
            started_at => heading.started_at,
            machine => format!("{}, {} processors, {}", machine.cpu, machine.cpus, machine.kernel),
            missing => missing(&summary),
            regimes => summary.regimes.iter().map(|one| &one.name).collect::<Vec<_>>(),
            rates => rates(&summary),
            subjects => heading.subjects.iter().map(|(name, arguments)| (name, arguments.join(" "))).collect::<Vec<_>>(),
            script_of_regimes => Value::from_safe_string(include_str!("regimes.js").to_owned()),
            data => script_data(&data(&summary, cells)),
        },
    );
    write_whole(path, &text)
}

/// The cells that the plots lack, with reasons.
fn missing(summary: &Summary<'_>) -> Vec<(String, String)> {
    let reason =
        |name: &str| summary.regimes.iter().find_map(|one| summary.reason(name, &one.name));
    summary
        .subjects()
        .filter_map(|name| Some((name.to_owned(), reason(name)?.to_owned())))
        .collect()
}

/// The table of rates: a row for each subject, with its rate under each load and the share kept
/// under the heaviest.
fn rates(summary: &Summary<'_>) -> Vec<Value> {
    let row = |name: &str| {
        let best = summary.best(name);
        let cells: Vec<Value> = summary
            .regimes
            .iter()
            .map(|regime| match summary.figures(name, &regime.name) {
                None => context! { shown => "–" },
                Some(figures) => context! {
                    shown => grouped(figures.rate.round()),
                    is_best => best.is_some_and(|best| best.regime == regime.name),
                    range => format!("{} to {}", grouped(figures.range.0.round()), grouped(figures.range.1.round())),
                },
            })
            .collect();
        let kept = summary.kept(name).map(format::percent);
        context! { name, cells, kept }
    };
    summary.subjects().map(row).collect()
}

/// The script's data: the curves of each subject, for each regime and for all together, and the
/// points of each regime.
fn data(summary: &Summary<'_>, cells: &[Cell]) -> serde_json::Value {
    let round = |value: f64| format!("{value:.4e}").parse::<f64>().unwrap_or(value);
    let curves = |subject: &str, regime: Option<&str>| {
        Plot::ALL.map(|plot| {
            let curve = summary.sums(subject, regime, plot).curve();
            curve
                .iter()
                .map(|one| [round(one.x), round(one.mean), round(one.moving)])
                .collect::<Vec<_>>()
        })
    };
    let names: Vec<&str> = summary.subjects().collect();
    let regimes = summary.regimes.iter().map(|regime| {
        let subjects = names.iter().map(|subject| {
            let points = cells.iter().filter(|cell| cell.repeat == 0 && cell.subject == *subject && cell.regime == regime.name);
            let points: Vec<_> = points
                .filter_map(|cell| match &cell.outcome {
                    Outcome::Measured(measured) => Some(measured.points.clone()),
                    Outcome::Missing { .. } => None,
                })
                .flatten()
                .map(|(time_us, blocks, clients)| (round(time_us / 1e6), blocks, clients))
                .collect();
            let figures = summary.figures(subject, &regime.name).map(|figures| {
                json!({
                    "rate": grouped(figures.rate.round()),
                    "cpu": figures.cpu_us.map(format::duration),
                    "p50": format::duration(figures.time_p50_us),
                    "p99": format::duration(figures.time_p99_us),
                    "peak": grouped(figures.peak_clients),
                })
            });
            json!({ "curves": curves(subject, Some(&regime.name)), "points": points, "figures": figures })
        });
        json!({ "name": regime.name, "offered": grouped(regime.rate().round()), "subjects": subjects.collect::<Vec<_>>() })
    });
    let all: Vec<_> = names
        .iter()
        .map(|subject| json!({ "curves": curves(subject, None), "points": [] }))
        .collect();
    let first = first(&summary.heading.subjects);
    json!({ "subjects": names, "first": first, "all": all, "regimes": regimes.collect::<Vec<_>>() })
}

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
