//! The charts of a page, made from a summary.

use super::csv::field;
use crate::format::{Counted, OF_THE_COMMAND, duration, grouped};
use crate::judge::alternatives::Alternative;
use crate::judge::faults;
use crate::judge::rows::{Medians, Row};
use crate::judge::summary::Summary;
use crate::judge::verdict::{Metric, Standing, Told, Verdict};
use crate::statistics::Estimate;
use crate::tell::chart::Chart;
use crate::tell::chart::forest::{Forest, Row as Estimated};
use crate::tell::chart::lines::{Lines, Series};
use crate::tell::sheet::Figure;

/// How many subjects are in colour: the leader and two rivals. A reader cannot follow more coloured
/// lines.
const IN_COLOUR: usize = 3;

/// The subjects in colour: the chosen one, or else the subject that is best at most numbers of
/// connections, and its neighbours.
fn in_colour<'a>(summary: &'a Summary, chosen: Option<&'a str>) -> Vec<&'a str> {
    let place = |name: &str| {
        let places = summary.verdicts.iter().map(|verdict| {
            let place = verdict.standings.iter().position(|standing| standing.subject == name);
            place.unwrap_or(verdict.standings.len() + 1)
        });
        places.sum::<usize>()
    };
    let mut names: Vec<&str> = summary.subjects.iter().map(String::as_str).collect();
    names.sort_by_key(|name| (Some(*name) != chosen, place(name)));
    names.truncate(IN_COLOUR);
    names
}

/// The chart that proves the headline: of the busiest load at which subjects are told apart. Then
/// the charts of the other loads.
pub(super) fn proof(summary: &Summary) -> (Option<Figure>, Vec<Figure>) {
    let mut all = behind(summary);
    let phrase = |verdict: &Verdict| match summary.current {
        Some(_) => verdict.alternatives.iter().any(|one| one.change.is_sure()),
        None => verdict.tells_apart(),
    };
    let loads = summary.verdicts.iter().filter(|verdict| phrase(verdict));
    let busiest = loads.map(|verdict| behind_id(verdict.concurrency)).next_back();
    let at = all.iter().position(|figure| Some(&figure.id) == busiest.as_ref());
    let proof = at.or(all.len().checked_sub(1)).map(|at| all.remove(at));
    (proof, all)
}

fn behind_id(concurrency: usize) -> String {
    format!("behind-{concurrency}")
}

/// For each number of connections, each subject's distance from the best, or from the subject that
/// runs today.
fn behind(summary: &Summary) -> Vec<Figure> {
    let figure = |verdict: &Verdict| {
        let rows = match (&summary.current, &summary.builds) {
            (None, None) => beside_best(summary, verdict),
            (current, _) => beside_current(summary, verdict, current.as_deref()),
        };
        let at = verdict.at();
        let what = match verdict.metric {
            Metric::ServerCpu => "processor time for a request".to_owned(),
            Metric::Rate => "time from one reply to the next".to_owned(),
            Metric::Latency(percentile) => format!("corrected {percentile} latency"),
        };
        let first = summary.builds.as_ref().map(|builds| &builds.builds[0].name);
        let base = summary.current.as_ref().or(first).map_or("the best", String::as_str);
        let csv = rows.iter().map(|row| {
            let [low, high] = row.interval.unwrap_or([1.0, 1.0]).map(|end| end - 1.0);
            let (name, behind) = (field(&row.name), row.value - 1.0);
            format!("{name},{},{behind},{low},{high}\r\n", verdict.concurrency)
        });
        let csv = format!("architecture,{},behind,low,high\r\n", summary.counted.noun())
            + &csv.collect::<String>();
        let chart = Chart::Forest(Forest {
            about: format!("How far behind {base} at {at}, by {what}"),
            line: Some(1.0),
            is_logarithmic: true,
            told: |ratio| match 100.0 * (ratio - 1.0) {
                percent if percent.abs() < 0.5 => "0 %".to_owned(),
                percent => format!("{percent:+.0} %"),
            },
            rows,
        });
        Figure {
            id: behind_id(verdict.concurrency),
            caption: format!("{what}, beside {base}"),
            csv,
            ..Figure::new(at, chart, Vec::new())
        }
    };
    let drawn = summary.verdicts.iter().filter(|verdict| {
        match summary.current.is_some() || summary.builds.is_some() {
            true => !verdict.alternatives.is_empty(),
            false => !verdict.standings.is_empty(),
        }
    });
    drawn.map(figure).collect()
}

/// All other subjects, compared with the best.
fn beside_best(summary: &Summary, verdict: &Verdict) -> Vec<Estimated> {
    let row = |standing: &Standing| Estimated {
        name: summary.label(&standing.subject),
        value: 1.0 + standing.behind,
        interval: Some([1.0 + standing.low, 1.0 + standing.high]),
        figure: match verdict.standings.first() {
            Some(best) if best.subject == standing.subject => "the best".to_owned(),
            _ => format!("{:+.1} %", 100.0 * standing.behind),
        },
        class: match verdict.others.contains(standing) {
            true => "other",
            false => class(standing.told),
        },
    };
    verdict.standings.iter().chain(&verdict.others).map(row).collect()
}

/// How a row of a chart is drawn.
fn class(told: Told) -> &'static str {
    match told {
        Told::Better => "better",
        Told::Worse => "worse",
        Told::WorkMoved => "moved",
        Told::Level => "level",
        Told::Unknown => "unknown",
    }
}

/// All alternatives, compared with the subject that runs today, or builds with the first build.
fn beside_current(summary: &Summary, verdict: &Verdict, current: Option<&str>) -> Vec<Estimated> {
    let row = |one: &Alternative| Estimated {
        name: summary.label(&one.subject),
        value: 1.0 + one.difference,
        interval: Some([1.0 + one.low, 1.0 + one.high]),
        figure: format!("{:+.1} %", 100.0 * one.difference),
        class: class(one.change),
    };
    let mut rows: Vec<Estimated> = verdict.alternatives.iter().map(row).collect();
    rows.extend(current.map(|current| Estimated {
        name: summary.label(current),
        value: 1.0,
        interval: None,
        figure: "runs today".to_owned(),
        class: "other",
    }));
    rows.sort_by(|one, other| one.value.total_cmp(&other.value));
    rows
}

/// For each number of connections, the rates with their intervals.
pub(super) fn rates(summary: &Summary) -> Vec<Figure> {
    let figure = |&concurrency: &usize| {
        let rows = summary.rows.iter().filter(|row| row.concurrency == concurrency);
        let row = |row: &Row| {
            let medians = row.medians()?;
            let rate = medians.requests_per_second;
            let at_least = if medians.client_was_limit { "≥ " } else { "" };
            Some(Estimated {
                name: summary.label(&row.subject),
                value: rate.value,
                interval: interval(rate),
                figure: format!("{at_least}{}", grouped(rate.value)),
                class: match (medians.invalid, faults::of(row).is_empty()) {
                    (true, _) => "invalid",
                    (false, true) => "level",
                    (false, false) => "other",
                },
            })
        };
        let mut rows: Vec<Estimated> = rows.filter_map(row).collect();
        rows.sort_by(|one, other| other.value.total_cmp(&one.value));
        let csv = rows.iter().map(|row| {
            let [low, high] = row
                .interval
                .map_or([String::new(), String::new()], |ends| ends.map(|end| end.to_string()));
            format!("{},{concurrency},{},{low},{high}\r\n", field(&row.name), row.value)
        });
        let noun = summary.counted.noun();
        let csv = format!("architecture,{noun},requests_per_second,low,high\r\n")
            + &csv.collect::<String>();
        let at = summary.at(concurrency);
        let about = format!("Requests per second at {at}");
        let forest = Forest { about, line: None, is_logarithmic: false, told: short, rows };
        (!forest.rows.is_empty()).then(|| Figure {
            id: format!("rates-{concurrency}"),
            caption: "requests per second; “≥”: the load generator was the limit".to_owned(),
            csv,
            ..Figure::new(at, Chart::Forest(forest), Vec::new())
        })
    };
    summary.concurrency.iter().filter_map(figure).collect()
}

/// The interval of an estimate. `None` if the estimate comes from too few values.
fn interval(estimate: Estimate) -> Option<[f64; 2]> {
    estimate.interval.map(|interval| [interval.low, interval.high])
}

/// The figures that change with load.
pub(super) fn over_load(summary: &Summary, chosen: Option<&str>) -> Vec<Figure> {
    if summary.concurrency == [OF_THE_COMMAND] {
        return Vec::new();
    }
    let by_load = |row: &Row, _: &Medians| row.concurrency as f64;
    let loads = summary.counted.axis();
    let offered = match summary.counted {
        Counted::Connections => {
            "Requests in service on average, against open connections (Fig. 1 there). On the dotted diagonal every connection has a request in service; beneath it something else, such as the load generator, held requests back."
        }
        Counted::Users => "Requests in service on average, against the multiple of your users.",
    };
    let lines = Over { summary, colours: in_colour(summary, chosen), has_diagonal: false };
    vec![
        lines.figure(
            ["throughput", "Requests per second", "Medians. Where the load generator was the \
                limit, the true rate may be higher. Higher is better."],
            loads,
            Axis { is_logarithmic: false, is_straight_across: false, told: short, across: grouped },
            by_load,
            |medians| medians.requests_per_second.value,
            Medians::is_comparable,
        ),
        lines.figure(
            ["cpu", "Server processor time per request", "This figure decides where servers are \
                busy: it does not depend on the speed of the load generator. Lower is better."],
            loads,
            Axis { is_logarithmic: false, is_straight_across: false, told: time, across: grouped },
            by_load,
            |medians| medians.cpu_us,
            Medians::is_comparable,
        ),
        lines.figure(
            ["latency", "Latency that 99 % of requests keep", "Medians of the windows. Lower is better; the table has the other percentiles."],
            loads,
            Axis { is_logarithmic: true, is_straight_across: false, told: time, across: grouped },
            by_load,
            |medians| medians.p99_us,
            |medians| !medians.invalid,
        ),
        lines.figure(
            ["memory", "Server memory", "The peak of all processes of a server: for several \
                processes, the sum of their shares. Lower is better."],
            loads,
            Axis { is_logarithmic: true, is_straight_across: false, told: |mebibytes| format!("{} MiB", short(mebibytes)), across: grouped },
            by_load,
            |medians| medians.memory_bytes / f64::from(1 << 20),
            |_| true,
        ),
        lines.figure(
            ["service-time", "Mean service time against measured load", "How long a request takes when so many are in service at once, which is the measured load (Kerneis & Chroboczek 2009, Fig. 2). A server that adds the same time for each further request draws a straight line, since both axes are straight; the table of slopes has its numbers."],
            "requests in service",
            Axis { is_logarithmic: false, is_straight_across: true, told: time, across: short },
            |_, medians| medians.measured_load,
            |medians| medians.mean_us,
            |medians| !medians.invalid,
        ),
        Over { has_diagonal: summary.counted == Counted::Connections, ..lines.clone() }.figure(
            ["measured-load", "Measured against offered load", offered],
            loads,
            Axis { is_logarithmic: true, is_straight_across: false, told: short, across: grouped },
            by_load,
            |medians| medians.measured_load,
            |medians| !medians.invalid,
        ),
    ]
}

/// The formats of a chart's axes.
#[derive(Clone, Copy)]
struct Axis {
    is_logarithmic: bool,
    is_straight_across: bool,
    told: fn(f64) -> String,
    across: fn(f64) -> String,
}

/// Lines of all subjects.
#[derive(Clone)]
struct Over<'a> {
    summary: &'a Summary,
    colours: Vec<&'a str>,
    has_diagonal: bool,
}

impl Over<'_> {
    fn figure(
        &self,
        [id, title, caption]: [&str; 3],
        below: &str,
        axis: Axis,
        across: impl Fn(&Row, &Medians) -> f64,
        up: impl Fn(&Medians) -> f64,
        sound: fn(&Medians) -> bool,
    ) -> Figure {
        let summary = self.summary;
        let mut csv = format!("architecture,{},x,y,valid\r\n", summary.counted.noun());
        let mut series = |name: &String| {
            let label = summary.label(name);
            let (mut points, mut doubtful) = (Vec::new(), Vec::new());
            for row in summary.of_subject(name) {
                let Some(medians) = row.medians() else { continue };
                let (x, y) = (across(row, medians), up(medians));
                if x <= 0.0 || y <= 0.0 || !x.is_finite() || !y.is_finite() {
                    continue;
                }
                let is_sound = sound(medians);
                csv += &format!("{},{},{x},{y},{is_sound}\r\n", field(name), row.concurrency);
                let sentence =
                    format!("{label} at {}: {}", summary.at(row.concurrency), (axis.told)(y));
                match is_sound {
                    true => points.push((x, y, sentence)),
                    false => doubtful.push((x, y, format!("{sentence}, not to be trusted"))),
                }
            }
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
            let rank = self.colours.iter().position(|known| known == name);
            Series { name: label, rank, points, doubtful }
        };
        let series: Vec<Series> = summary.subjects.iter().map(&mut series).collect();
        let chart = Chart::Lines(Lines {
            about: format!("{title}, against {below}"),
            below: below.to_owned(),
            is_logarithmic: axis.is_logarithmic,
            is_straight_across: axis.is_straight_across,
            marked: if below == summary.counted.axis() {
                summary.concurrency.iter().map(|&count| count as f64).collect()
            } else {
                Vec::new()
            },
            across: axis.across,
            up: axis.told,
            series,
            has_diagonal: self.has_diagonal,
            bands: Vec::new(),
        });
        let (id, caption) = (id.to_owned(), caption.to_owned());
        Figure { id, caption, csv, ..Figure::new(title, chart, Vec::new()) }
    }
}

/// A number in few letters: `12k`, `3.5`.
fn short(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{}M", trimmed(value / 1e6)),
        value if value >= 1e3 => format!("{}k", trimmed(value / 1e3)),
        value => trimmed(value),
    }
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.1}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Times in microseconds, in readable units: `20 µs`, `1.5 ms`.
fn time(microseconds: f64) -> String {
    if microseconds == 0.0 {
        return "0".to_owned();
    }
    duration(microseconds).replace(".0 ", " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_on_axes_are_short() {
        assert_eq!([0.5, 12.0, 12_500.0, 3e6].map(short), ["0.5", "12", "12.5k", "3M"]);
    }
}
