//! Capacity as text for a terminal, in 80 columns.

use std::fmt::Write;

use super::check::{Accuracy, Check, Checked};
use super::forms::Prediction;
use super::limits::{Kind, Limit};
use super::{Capacity, Subject, command, forms, limits, title};
use crate::format::{bytes, connections_of, duration, grouped, listed, percent};
use crate::statistics::Interval;

/// Columns of a terminal.
const WIDTH: usize = 80;
/// Columns of a name. Longer names are cut.
const NAME: usize = 17;

/// The predictions: a line for each subject, the hosts that the rate takes, and notes.
pub fn text(capacity: &Capacity) -> String {
    let Capacity { heading, question, subjects, .. } = capacity;
    let mut measured: Vec<usize> =
        subjects.iter().flat_map(|one| &one.points).map(|point| point.connections).collect();
    measured.sort_unstable();
    measured.dedup();
    let mut text = paragraph(&format!(
        "{}: predicted for {}, from {}",
        title(heading),
        connections_of(&[question.connections]),
        connections_of(&measured),
    ));
    let _ = writeln!(
        text,
        "\n  {:<NAME$}{:>9} {:<17}{:>10} first limit",
        "", "CPU/req", "interval", "memory"
    );
    for subject in subjects {
        let (time, interval) = match &subject.processor_time {
            Ok(time) => (duration(time.value), span(time.interval, duration)),
            Err(_) => ("–".to_owned(), String::new()),
        };
        let memory = subject.memory.as_ref().map_or("–".to_owned(), |memory| bytes(memory.bytes));
        let limit = first_limit(subject, question.connections);
        let name = name(&subject.name);
        let line = format!("  {name:<NAME$}{time:>9} {interval:<17}{memory:>10} {limit}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text += &needs(capacity);
    let notes = notes(capacity);
    if !notes.is_empty() {
        text.push('\n');
    }
    notes.iter().for_each(|note| text += &paragraph(note));
    text += &to_measure(capacity);
    text
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

/// The processors and hosts that the rate takes. Empty without a rate.
fn needs(capacity: &Capacity) -> String {
    let Capacity { heading, question, subjects, .. } = capacity;
    let Some(rate) = question.rate else { return String::new() };
    let each = question.processors.unwrap_or(heading.machine.cpus);
    let mut text = paragraph(&format!(
        "\n{} requests/s, on hosts of {each} processor{} that are used to {}:",
        grouped(rate),
        if each == 1 { "" } else { "s" },
        percent(question.utilisation),
    ));
    let of_hosts = question.hosts.map(|hosts| {
        format!("{} host{} answer", grouped(hosts as f64), if hosts == 1 { "" } else { "s" })
    });
    let of_hosts = of_hosts.as_deref().unwrap_or("");
    let header = format!(
        "\n  {:<NAME$}{:>11} {:<18}{:>8}  {of_hosts}",
        "", "processors", "interval", "hosts"
    );
    let _ = writeln!(text, "{}", header.trim_end());
    for subject in subjects {
        let Some(need) = &subject.need else { continue };
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
        let line = format!(
            "  {:<NAME$}{:>11} {:<18}{hosts:>8}  {answer}",
            name(&subject.name),
            processors(need.processors),
            span(need.interval, processors),
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// Notes on the predictions, one or two sentences each.
pub(super) fn notes(capacity: &Capacity) -> Vec<String> {
    let Capacity { question, subjects, load, .. } = capacity;
    let asked = question.connections as u64;
    let mut notes = Vec::new();
    let left_out =
        |one: &Subject| (!one.left_out.is_empty()).then(|| connections_of(&one.left_out));
    for (names, at) in grouped_by(subjects, left_out) {
        notes.push(format!("! Not sound, and left out: {names} at {at}."));
    }
    for (names, why) in grouped_by(subjects, |one| one.processor_time.as_ref().err().cloned()) {
        notes.push(format!("! {names}: not predicted: {why}."));
    }
    for (names, kind) in exceeded(subjects, asked) {
        let consequence = match kind {
            Kind::Workers => "further connections wait for a worker",
            Kind::AcceptQueue => "further connections are dropped, and try again after a second",
            Kind::Memory => "further connections do not fit into memory",
            _ => "further connections are not accepted",
        };
        notes.push(format!("! {}: {names}: {consequence}. Raise {}.", kind.name(), kind.remedy()));
    }
    let fits = |one: &Subject| limits::fit(one.limits.as_deref().unwrap_or_default());
    if subjects.iter().any(|one| fits(one) < asked as f64) {
        notes.push("CPU/req and memory are those of the connections that fit.".to_owned());
    }
    if !load.is_empty() {
        let told = |say: fn(&Limit) -> String| listed(&load.iter().map(say).collect::<Vec<_>>());
        notes.push(format!(
            "! Load: one host with one address has {}: use more hosts, or raise {}.",
            told(|limit| format!("{} {}", grouped(limit.connections as f64), limit.kind.name())),
            told(|limit| limit.kind.remedy().to_owned()),
        ));
    }
    for (names, why) in grouped_by(subjects, |one| one.memory.as_ref().err().cloned()) {
        notes.push(format!("No memory of {names}: {why}."));
    }
    let is_assumed = |one: &&Subject| one.memory.as_ref().is_ok_and(|memory| !memory.is_open_known);
    if subjects.iter().any(|one| is_assumed(&one)) {
        notes.push(
            "These results do not say how many connections servers had open. Memory assumes that \
             each had as many as it accepts."
                .to_owned(),
        );
    }
    for (names, why) in grouped_by(subjects, |one| one.limits.as_ref().err().cloned()) {
        notes.push(format!("No limits of {names}: {why}."));
    }
    notes
}

/// Names the subjects for which the forms differ too much, and the command that measures them.
fn to_measure(capacity: &Capacity) -> String {
    let wide = wide(capacity);
    if wide.is_empty() {
        return String::new();
    }
    let mut text = paragraph(&wide_note(capacity));
    let mut line = "   ".to_owned();
    for word in measuring_words(capacity) {
        if line.chars().count() + word.chars().count() + 3 > WIDTH {
            let _ = writeln!(text, "{line} \\");
            line = "     ".to_owned();
        }
        line.push(' ');
        line += &word;
    }
    let _ = writeln!(text, "{line}");
    text
}

/// The subjects that need a measurement.
fn wide(capacity: &Capacity) -> Vec<(&str, &Prediction)> {
    let found = capacity.subjects.iter().filter_map(|one| {
        let time = one.processor_time.as_ref().ok()?;
        time.is_wide().then_some((one.name.as_str(), time))
    });
    found.collect()
}

/// A sentence that says that the forms differ. Empty if they agree.
pub(super) fn wide_note(capacity: &Capacity) -> String {
    let told: Vec<String> = wide(capacity)
        .iter()
        .map(|(name, time)| format!("{name} ({})", percent(time.spread())))
        .collect();
    if told.is_empty() {
        return String::new();
    }
    format!(
        "! {}: the two forms differ by more than {}. Measure instead of predicting:",
        listed(&told),
        percent(forms::WIDE)
    )
}

/// The command that measures those subjects, for a shell. Empty if there are none. The command asks
/// for no more connections than the servers and one load host can have.
pub(super) fn measuring_words(capacity: &Capacity) -> Vec<String> {
    let wide = wide(capacity);
    let names: Vec<&str> = wide.iter().map(|(name, _)| *name).collect();
    let load = limits::fit(&capacity.load);
    let most = wide.iter().map(|(_, time)| time.connections).fold(load, f64::min);
    match names.is_empty() {
        true => Vec::new(),
        false => command::to_measure(&capacity.heading, &names, most as usize),
    }
}

/// The subjects with a limit below the number in question, by limit: `pool 100 and prefork 100`.
fn exceeded(subjects: &[Subject], asked: u64) -> Vec<(String, Kind)> {
    let mut kinds: Vec<Kind> = subjects
        .iter()
        .flat_map(|one| one.limits.iter().flatten())
        .filter(|limit| limit.connections < asked)
        .map(|limit| limit.kind)
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    let told = |kind: Kind| {
        let own = subjects.iter().filter_map(|one| {
            let limit = one.limits.iter().flatten().find(|limit| limit.kind == kind)?;
            let most = limit.connections;
            (most < asked).then(|| format!("{} {}", one.name, grouped(most as f64)))
        });
        (listed(&own.collect::<Vec<_>>()), kind)
    };
    kinds.into_iter().map(told).collect()
}

/// The subjects of each note, grouped by note.
fn grouped_by(
    subjects: &[Subject],
    say: impl Fn(&Subject) -> Option<String>,
) -> Vec<(String, String)> {
    let mut said: Vec<(Vec<&str>, String)> = Vec::new();
    for subject in subjects {
        let Some(what) = say(subject) else { continue };
        match said.iter_mut().find(|(_, known)| *known == what) {
            Some((names, _)) => names.push(&subject.name),
            None => said.push((vec![&subject.name], what)),
        }
    }
    said.into_iter().map(|(names, what)| (listed(&names), what)).collect()
}

/// The errors of predictions: a line for each prediction, and a summary.
pub fn text_of_check(check: &Check) -> String {
    let mut text = paragraph(&format!(
        "{}: predicted from at most {}, and measured",
        title(&check.heading),
        connections_of(&[check.from]),
    ));
    let _ = writeln!(
        text,
        "\n  {:<NAME$}{:>11}{:>10} {:<17}{:>8}{:>6}{:>7}",
        "", "connections", "predicted", "interval", "measured", "off", "memory"
    );
    for checked in &check.checked {
        let Checked { subject, connections, predicted, measured, memory_off } = checked;
        let mark = if checked.is_within() { "" } else { "!" };
        let line = format!(
            "  {:<NAME$}{:>11}{:>10} {:<17}{:>8}{:>6}{:>7}{mark}",
            name(subject),
            grouped(*connections as f64),
            duration(predicted.value),
            span(predicted.interval, duration),
            duration(*measured),
            signed(checked.off()),
            memory_off.map_or("–".to_owned(), signed),
        );
        let _ = writeln!(text, "{line}");
    }
    text.push('\n');
    for line in accuracies(check) {
        text += &paragraph(&line);
    }
    text
}

/// The quality of predictions for long and for short requests, in a sentence each.
pub(super) fn accuracies(check: &Check) -> Vec<String> {
    let is_long = |checked: &&Checked| checked.predicted.constant >= forms::LONG_US;
    let long = Accuracy::of(check.checked.iter().filter(is_long));
    let short = Accuracy::of(check.checked.iter().filter(|checked| !is_long(checked)));
    let kinds = [(long, "of 50 µs and more"), (short, "below 50 µs")];
    let told = kinds.into_iter().filter_map(|(accuracy, which)| {
        let Accuracy { count, median, worst, worst_at, within_tenth, within_interval } = accuracy?;
        Some(format!(
            "Requests {which}: median {} off, worst {} ({} at {}). At most 10 % off: {within_tenth} \
             of {count}. Within the interval: {within_interval} of {count}.",
            percent(median),
            percent(worst),
            worst_at.0,
            grouped(worst_at.1 as f64),
        ))
    });
    told.collect()
}

/// Text in lines of the terminal's width. Lines after the first are indented.
fn paragraph(text: &str) -> String {
    let options = textwrap::Options::new(WIDTH).subsequent_indent("  ").break_words(false);
    format!("{}\n", textwrap::fill(text, options))
}

fn name(name: &str) -> String {
    match name.chars().count() <= NAME {
        true => name.to_owned(),
        false => name.chars().take(NAME - 1).chain(['…']).collect(),
    }
}

/// `[84.0 to 103 µs]`: if both ends have the same unit, only the upper end shows it.
pub(super) fn span(interval: Interval, show: fn(f64) -> String) -> String {
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
pub(super) fn processors(count: f64) -> String {
    if count < 99.95 { format!("{count:.1}") } else { grouped(count) }
}
