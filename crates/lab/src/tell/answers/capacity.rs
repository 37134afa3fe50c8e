//! What more connections would take, beside what was measured, and how far off such predictions
//! are.

use textwrap::core::display_width;

use crate::capacity::forms::{self, Prediction};
use crate::capacity::notes::{measuring_words, notes, wide_note};
use crate::capacity::{Accuracy, Capacity, Check, Checked, Memory, Point, Subject, title};
use crate::format::{bytes, connections, connections_of, duration, grouped, how_many, percent};
use crate::statistics::Interval;
use crate::tell::chart::Chart;
use crate::tell::chart::lines::{self, Band, Lines, Series};
use crate::tell::sheet::{Figure, Form, Part, Sheet, Table, left, right};

/// Columns of a name on a terminal. Longer names are cut.
const NAME: usize = 17;
/// The number of points of a predicted line.
const STEPS: i32 = 4;

/// The sheet of predictions.
pub fn sheet(all: &[Capacity]) -> Sheet {
    let mut sheet = begun("Capacity");
    for capacity in all {
        sheet.add_only(Form::Page, [Part::heading(title(&capacity.heading))]);
        predicted(&mut sheet, capacity);
        let asked = capacity.question.connections as f64;
        let figures = capacity.subjects.iter().flat_map(|subject| {
            // The line ends where no further connection fits, like the table.
            let fit = subject.processor_time.as_ref().ok().map(|time| time.connections);
            let most = fit.unwrap_or(asked);
            let times = times(&subject.name, &subject.points, &subject.points, most);
            let memory = subject.memory.as_ref().ok();
            let memory = memory.map(|memory| memories(&subject.name, &subject.points, memory));
            times.into_iter().chain(memory)
        });
        sheet.add_only(Form::Page, figures.map(Part::Figure));
    }
    sheet
}

/// The sheet of the errors of predictions.
pub fn sheet_of_check(all: &[Check]) -> Sheet {
    let mut sheet = begun("Capacity: predicted and measured");
    for check in all {
        sheet.add_only(Form::Page, [Part::heading(title(&check.heading))]);
        errors(&mut sheet, check);
        let figures = check.measured.iter().filter_map(|one| {
            let most = one.points.last()?.connections as f64;
            times(&one.subject, &one.up_to(check.from), &one.points, most)
        });
        sheet.add_only(Form::Page, figures.map(Part::Figure));
    }
    sheet
}

fn begun(title: &str) -> Sheet {
    let mut sheet = Sheet::new(title);
    sheet.add_only(
        Form::Page,
        [Part::sentence(
            "Points are measured. Dashed lines are predicted: the mean of a constant and of a \
             straight line over the logarithm of the connections, through the largest numbers that \
             were measured. Bands are intervals, in which both forms lie. Limits are arithmetic on \
             the needs of an architecture for each connection, and on the limits of the machine of \
             the results. docs/capacity.md says how good predictions are."
                .to_owned(),
        )],
    );
    sheet
}

/// The predictions: a row for each subject, the hosts that the rate takes, and notes.
fn predicted(sheet: &mut Sheet, capacity: &Capacity) {
    let Capacity { heading, question, subjects, .. } = capacity;
    let mut measured: Vec<usize> =
        subjects.iter().flat_map(|one| &one.points).map(|point| point.connections).collect();
    measured.sort_unstable();
    measured.dedup();
    sheet.add([Part::sentence(format!(
        "{}: predicted for {}, from {}",
        title(heading),
        connections_of(&[question.connections]),
        connections_of(&measured),
    ))]);
    let row = |subject: &Subject| {
        let (time, interval) = match &subject.processor_time {
            Ok(time) => (duration(time.value), span(time.interval, duration)),
            Err(_) => ("–".to_owned(), String::new()),
        };
        let memory = subject.memory.as_ref().map_or("–".to_owned(), |memory| bytes(memory.bytes));
        let limit = first_limit(subject, question.connections);
        vec![name(&subject.name), time, interval, memory, limit]
    };
    let columns =
        [left(""), right("CPU/req"), left("interval"), right("memory"), left("first limit")];
    sheet.add([Part::Table(Table::new(columns, subjects.iter().map(row)))]);
    needs(sheet, capacity);
    let notes = notes(capacity).into_iter().chain(wide_note(capacity)).map(Part::sentence);
    let words = measuring_words(capacity);
    sheet.add(notes.chain((!words.is_empty()).then_some(Part::Command(words))));
}

/// `18,956 descriptors`, with a mark if the limit is below the number in question.
fn first_limit(subject: &Subject, asked: usize) -> String {
    let Ok(limits) = &subject.limits else { return "not known".to_owned() };
    let Some(limit) = limits.first() else { return "none known".to_owned() };
    let mark = if limit.connections < asked as u64 { "! " } else { "" };
    let name = limit.kind.name();
    let name = if limit.connections == 1 { name.trim_end_matches('s') } else { name };
    format!("{mark}{} {name}", grouped(limit.connections as f64))
}

/// The processors and hosts that the rate takes. Nothing without a rate.
fn needs(sheet: &mut Sheet, capacity: &Capacity) {
    let Capacity { heading, question, subjects, .. } = capacity;
    let Some(rate) = question.rate else { return };
    let each = question.processors.unwrap_or(heading.machine.cpus);
    sheet.add([Part::sentence(format!(
        "{} requests/s, on hosts of {each} processor{} that are used to {}:",
        grouped(rate),
        if each == 1 { "" } else { "s" },
        percent(question.utilisation),
    ))]);
    let row = |subject: &Subject| {
        let need = subject.need.as_ref()?;
        let [fewest, hosts, most] = need.hosts.map(grouped);
        let hosts = if fewest == most { hosts } else { format!("{fewest}–{most}") };
        let answer = need.rate_of_hosts.map_or(String::new(), |[low, value, high]| {
            let verdict = match (low >= rate, high >= rate) {
                (true, _) => "enough",
                (false, true) => "maybe enough",
                (false, false) => "too few",
            };
            format!("{}/s: {verdict}", grouped(value))
        });
        let interval = span(need.interval, processors);
        Some(vec![name(&subject.name), processors(need.processors), interval, hosts, answer])
    };
    let of_hosts = question.hosts.map_or(String::new(), |hosts| {
        format!("{} host{} answer", grouped(hosts as f64), if hosts == 1 { "" } else { "s" })
    });
    let columns = [left(""), right("processors"), left("interval"), right("hosts"), left(of_hosts)];
    sheet.add([Part::Table(Table::new(columns, subjects.iter().filter_map(row)))]);
}

/// The errors of predictions: a row for each prediction, and a summary.
fn errors(sheet: &mut Sheet, check: &Check) {
    sheet.add([Part::sentence(format!(
        "{}: predicted from at most {}, and measured",
        title(&check.heading),
        connections_of(&[check.from]),
    ))]);
    let row = |checked: &Checked| {
        let Checked { subject, connections, predicted, measured, memory_off } = checked;
        let mark = if checked.is_within() { "" } else { "!" };
        vec![
            name(subject),
            grouped(*connections as f64),
            duration(predicted.value),
            span(predicted.interval, duration),
            duration(*measured),
            signed(checked.off()),
            memory_off.map_or("–".to_owned(), signed),
            mark.to_owned(),
        ]
    };
    let columns = [
        left(""),
        right("connections"),
        right("predicted"),
        left("interval"),
        right("measured"),
        right("off"),
        right("memory"),
        left(""),
    ];
    sheet.add([Part::Table(Table::new(columns, check.checked.iter().map(row)))]);
    sheet.add(accuracies(check).map(Part::sentence));
}

/// The quality of predictions for long and for short requests, in a sentence each.
fn accuracies(check: &Check) -> impl Iterator<Item = String> {
    let is_long = |checked: &&Checked| checked.predicted.constant >= forms::LONG_US;
    let long = Accuracy::of(check.checked.iter().filter(is_long));
    let short = Accuracy::of(check.checked.iter().filter(|checked| !is_long(checked)));
    let kinds = [(long, "of 50 µs and more"), (short, "below 50 µs")];
    kinds.into_iter().filter_map(|(accuracy, which)| {
        let Accuracy { count, median, worst, worst_at, within_tenth, within_interval } = accuracy?;
        Some(format!(
            "Requests {which}: median {} off, worst {} ({} at {}). At most 10 % off: {within_tenth} \
             of {count}. Within the interval: {within_interval} of {count}.",
            percent(median),
            percent(worst),
            worst_at.0,
            grouped(worst_at.1 as f64),
        ))
    })
}

fn name(name: &str) -> String {
    if display_width(name) <= NAME {
        return name.to_owned();
    }
    let fits = |end: &usize| display_width(&name[..*end]) < NAME;
    let end = name.char_indices().map(|(at, _)| at).take_while(fits).last().unwrap_or(0);
    format!("{}…", &name[..end])
}

/// `[84.0 to 103 µs]`: if both ends have the same unit, only the upper end shows it.
fn span(interval: Interval, show: fn(f64) -> String) -> String {
    let (low, high) = (show(interval.low), show(interval.high));
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((number, unit)), Some((_, other))) if unit == other => {
            format!("[{number} to {high}]")
        }
        _ => format!("[{low} to {high}]"),
    }
}

/// `-8 %`.
fn signed(share: f64) -> String {
    match 100.0 * share {
        far if !far.is_finite() || far > 999.0 => ">999 %".to_owned(),
        percent => format!("{percent:+.0} %"),
    }
}

/// A number of processors, with a decimal if it is small.
fn processors(count: f64) -> String {
    if count < 99.95 { format!("{count:.1}") } else { grouped(count) }
}

/// The processor time of a request, `measured`, and predicted from the `known` points. `None` if
/// nothing is predicted.
fn times(name: &str, known: &[Point], measured: &[Point], most: f64) -> Option<Figure> {
    let last = known.last()?;
    let (from, start) = (last.connections as f64, last.processor_time.value);
    let start = (from, start, Interval { low: start, high: start });
    let beyond = (1..=STEPS).map(|step| {
        let at = from * (most / from).powf(f64::from(step) / f64::from(STEPS));
        let Prediction { value, interval, .. } = forms::processor_time(known, at).ok()?;
        Some((at, value, interval))
    });
    let predicted = [Some(start)].into_iter().chain(beyond).collect::<Option<Vec<_>>>()?;
    let measured = measured
        .iter()
        .map(|point| (point.connections as f64, point.processor_time.value, point.connections));
    let caption = "Processor time of the server for a request.";
    Some(figure(name, caption, ("connections of the load", time), measured, &predicted))
}

/// Microseconds on an axis, which begins at zero.
fn time(microseconds: f64) -> String {
    if microseconds == 0.0 { "0 µs".to_owned() } else { duration(microseconds) }
}

/// The memory of the server over its open connections.
fn memories(name: &str, points: &[Point], predicted: &Memory) -> Figure {
    let open = |point: &Point| point.open.unwrap_or(point.connections as f64).min(predicted.open);
    let line = |open: f64| {
        let bytes = predicted.base + predicted.bytes_per_connection * open;
        let half = (predicted.interval.high / predicted.bytes - 1.0) * bytes;
        (open, bytes, Interval { low: bytes - half, high: bytes + half })
    };
    let from = points.last().map_or(1.0, open);
    let to = predicted.open.max(from);
    let steps = (0..=STEPS).map(|step| from * (to / from).powf(f64::from(step) / f64::from(STEPS)));
    let predicted: Vec<(f64, f64, Interval)> = steps.map(line).collect();
    let measured = points.iter().map(|point| (open(point), point.memory, point.connections));
    figure(name, "Memory of the server.", ("open at the server", bytes), measured, &predicted)
}

/// A chart of measurements, each with its place on the lower axis and its number of connections,
/// and of predictions.
fn figure(
    name: &str,
    caption: &str,
    (below, up): (&str, fn(f64) -> String),
    measured: impl Iterator<Item = (f64, f64, usize)>,
    predicted: &[(f64, f64, Interval)],
) -> Figure {
    let phrase =
        |count: usize, value: f64| format!("{name} at {}: {}", connections(count), up(value));
    let measured = measured.map(|(x, y, count)| (x, y, phrase(count, y)));
    let beyond = predicted.iter().map(|(x, y, interval)| {
        let span = span(*interval, up);
        (*x, *y, format!("{name}, predicted at {}: {} {span}", grouped(*x), up(*y)))
    });
    let series = |name: &str, rank, points: Vec<lines::Point>| Series {
        name: name.to_owned(),
        rank: Some(rank),
        points,
        doubtful: Vec::new(),
    };
    let band = predicted.iter().map(|(x, _, interval)| (*x, *interval));
    let lines = Lines {
        about: format!("{name}: {caption}"),
        below: below.to_owned(),
        is_logarithmic: false,
        is_straight_across: false,
        marked: Vec::new(),
        across: |count| how_many(count.round() as usize),
        up,
        series: vec![
            series("measured", 0, measured.collect()),
            series("predicted", 1, beyond.collect()),
        ],
        has_diagonal: false,
        bands: vec![Band { rank: Some(1), points: band.collect() }],
    };
    let (title, notes) = (name.to_owned(), vec![caption.to_owned()]);
    Figure::new(title, Chart::Lines(lines), notes)
}
