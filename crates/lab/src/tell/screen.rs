//! The first screen: the results of an experiment, in at most 23 lines of a terminal.
//!
//! ```text
//!   Use an event loop: epoll is best. Kernel threads take …     the headline
//!
//!   % worse    10   100  1,000  CPU/req …                       the map
//!   epoll    best  best   best   6.1 µs …
//!   threads   +39  +120   +450  33.0 µs …
//!   ? not told apart; figures at 1,000 connections
//!
//!   ! the load generator was the limit (12 of 60 cells)         warnings, by kind
//!   Report: results/report.html                                 where the rest is
//!   More:   duality report results --tables
//! ```
//!
//! The last line of a terminal with 24 lines is for the next prompt. A sentence that does not fit
//! is left out whole: no word is broken, and no cause is cut. The text has styles. Remove the
//! styles where the output is not a terminal.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::ops::Deref;
use std::path::Path;

use anstyle::Style;
use duality_load::WarningKind;
use textwrap::core::display_width;

use crate::format::{bytes, duration, grouped};
use crate::judge::rows::Medians;
use crate::judge::summary::Summary;
use crate::record::Family;
use crate::tell::answer::Answer;
use crate::tell::map::{Line, Map};
use crate::tell::phrases::Phrase;
use crate::tell::recommendation::{disturbed_briefly, network_of};
use crate::tell::render::text::{TERMINAL, aligned, width_of};
use crate::tell::sheet::{Cell, Table, Tone, right};

/// The most lines.
const LINES: usize = 23;
/// The most lines of warnings.
const WARNINGS: usize = 3;
/// The fewest lines of the map with its head, beside what must be known first.
const ROWS: usize = 4;
/// Longer lines are hard to read.
const WIDEST: usize = 100;

const STRONG: Style = Style::new().bold();

impl Answer<'_> {
    /// The first screen of an experiment, for a terminal of `width` columns. The path `page` is the
    /// report's, and the command `more` prints the whole answer.
    pub fn render_screen(&self, page: &Path, more: &str, width: usize) -> String {
        let prose = width.min(WIDEST);
        let recommendation = &self.recommendation;
        let headline = wrapped(&recommendation.headline, prose);
        let foot = [format!("Report: {}", page.display()), format!("More:   {more}")];
        // Blank lines, the head of the map, its key, and the foot.
        let taken = headline.len() + foot.len() + 2 + 2 + 2;
        let mut room = LINES.saturating_sub(taken + ROWS);
        let mut notes = fitting(recommendation.alarms.iter(), "", prose, &mut room);
        let map = Map::of(&self.summary);
        let chosen = self.chosen(&map);
        // The head, and a line for the rest.
        let lines = (chosen.len() + 2).min(map.rows.len() + 1);
        let mut room = LINES.saturating_sub(taken + notes.len() + lines);
        let out = recommendation.sentences.iter().filter(|one| one.is_on_screen).map(Deref::deref);
        let unsaid = recommendation.unsaid.iter().map(String::as_str);
        notes.extend(fitting(unsaid.chain(out), "", prose, &mut room));
        let mut left = room.min(WARNINGS);
        let warnings = fitting(self.noted().iter(), "! ", prose, &mut left);
        let lines = LINES.saturating_sub(taken + notes.len() + warnings.len());
        let map = self.map(&map, &chosen, width, lines);
        let mut screen = String::new();
        for line in &headline {
            let _ = writeln!(screen, "{STRONG}{line}{STRONG:#}");
        }
        notes.iter().for_each(|line| screen += &format!("{line}\n"));
        if !map.is_empty() {
            screen += &format!("\n{map}");
        }
        screen.push('\n');
        for line in warnings.iter().chain(&foot) {
            screen += &format!("{line}\n");
        }
        screen
    }

    /// Warnings about the figures, a sentence for each kind.
    fn noted(&self) -> Vec<String> {
        let partial = self.summary.partial();
        partial
            .into_iter()
            .map(|partial| partial.to_string())
            // The figures are of the busiest load.
            .chain(self.summary.verdicts.iter().filter_map(network_of).next_back())
            .chain(disturbed_briefly(&self.summary))
            .chain(self.summary.warned())
            .chain(self.summary.unmeasured())
            .collect()
    }

    /// The rows of the map that tell most, the most important first: the recommended one, or else
    /// the first. Then what runs today, and the first one of each family.
    fn chosen(&self, map: &Map) -> Vec<usize> {
        let summary = &self.summary;
        let row = |subject: &String| map.rows.iter().position(|line| line.subject == *subject);
        let best = self.recommendation.architecture.as_ref().and_then(row).or(Some(0));
        let today = summary.current.as_ref().and_then(row);
        let first = |family: Family| {
            let of = |line: &Line| summary.families.get(&line.subject) == Some(&family);
            map.rows.iter().position(of)
        };
        let mut chosen: Vec<usize> = Vec::new();
        for place in best.into_iter().chain(today).chain(Family::ALL.into_iter().filter_map(first))
        {
            if place < map.rows.len() && !chosen.contains(&place) {
                chosen.push(place);
            }
        }
        chosen
    }

    /// The map in `most` lines with its head, and below it the key. Where rows do not fit, the
    /// `chosen` ones go first. Figures of the busiest load stand beside it where there is room.
    fn map(&self, map: &Map, chosen: &[usize], width: usize, most: usize) -> String {
        let summary = &self.summary;
        if map.is_empty() {
            return String::new();
        }
        let fits = |table: &Table| width_of(table) <= width;
        let narrowed = |loads: usize| {
            let mut table = map.table(loads);
            for (row, Line { subject, .. }) in table.rows.iter_mut().zip(&map.rows) {
                row[0].text = fit(&row[0].text, width / 2);
                if self.recommendation.architecture.as_ref() == Some(subject) {
                    row[0].tone = Tone::Strong;
                }
            }
            table
        };
        let mut shown = map.loads.len();
        while shown > 1 && !fits(&narrowed(shown)) {
            shown -= 1;
        }
        let mut table = narrowed(shown);
        let measured = |count: &&usize| {
            summary.rows.iter().any(|row| row.concurrency == **count && row.medians().is_some())
        };
        let busiest = map.loads.iter().filter(measured).max().copied();
        let mut figures = 0;
        for (name, figure) in FIGURES.iter().filter(|_| shown == map.loads.len()) {
            let mut wider = table.clone();
            wider.columns.push(right(*name));
            for (row, Line { subject, .. }) in wider.rows.iter_mut().zip(&map.rows) {
                let medians = busiest.and_then(|busiest| summary.medians(subject, busiest));
                row.push(Cell::from(medians.map_or("–".to_owned(), figure)));
            }
            if !fits(&wider) {
                break;
            }
            table = wider;
            figures += 1;
        }
        let all = table.rows.len();
        if all + 1 > most {
            let others = (0..all).filter(|place| !chosen.contains(place));
            let shown = chosen.iter().copied().chain(others).take(most.saturating_sub(2));
            let shown: BTreeSet<usize> = shown.collect();
            table.rows = shown.iter().map(|place| table.rows[*place].clone()).collect();
        }
        let mut text = aligned(&table, "");
        if table.rows.len() < all {
            text += &format!("… and {} more (--tables)\n", all - table.rows.len());
        }
        let mut keys: Vec<String> = vec![map.key(summary), map.title.clone()];
        if shown < map.loads.len() {
            keys.push(format!("{} more loads (--tables)", map.loads.len() - shown));
        }
        if let Some(busiest) = busiest.filter(|_| figures > 0) {
            keys.push(format!("figures at {}", summary.at(busiest)));
        }
        keys.retain(|key| !key.is_empty());
        let mut room = 2;
        fitting(keys.iter(), "", width.min(WIDEST), &mut room)
            .iter()
            .for_each(|line| text += &format!("{line}\n"));
        text
    }
}

/// A figure of the busiest load.
type Figure = fn(&Medians) -> String;

/// The figures beside the map, the most important first.
const FIGURES: [(&str, Figure); 4] = [
    ("CPU/req", |medians| duration(medians.cpu_us)),
    ("requests/s", |medians| {
        let at_least = if medians.client_was_limit { "≥" } else { "" };
        format!("{at_least}{}", grouped(medians.requests_per_second.value))
    }),
    ("p99", |medians| match medians.has_latencies() {
        true => duration(medians.p99_us),
        false => "–".to_owned(),
    }),
    ("memory", |medians| bytes(medians.memory_bytes)),
];

impl Summary {
    /// The kinds of warnings, and the number of rows of each kind.
    fn warned(&self) -> Vec<String> {
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for row in self.all_rows() {
            let of_row: BTreeSet<&str> =
                row.warnings.iter().map(|warning| kind(&warning.kind)).collect();
            of_row.into_iter().for_each(|kind| *kinds.entry(kind).or_default() += 1);
        }
        let all = self.all_rows().filter(|row| row.medians().is_some()).count();
        let phrase = |(kind, count)| format!("{kind} ({count} of {all} cells)");
        kinds.into_iter().map(phrase).collect()
    }

    /// The subjects that were not measured at some load.
    fn unmeasured(&self) -> Option<String> {
        let missing = |name: &&String| self.of_subject(name).any(|row| row.medians().is_none());
        let names: Vec<&str> = self.subjects.iter().filter(missing).map(String::as_str).collect();
        (!names.is_empty()).then(|| Phrase::Unmeasured.told(&[&names.join(", ")]))
    }
}

/// A kind of warning in a few words.
fn kind(kind: &WarningKind) -> &'static str {
    let phrase = match kind {
        WarningKind::Interrupted => Phrase::Interrupted,
        WarningKind::ServerGone => Phrase::ServerGone,
        WarningKind::Standstill => Phrase::Standstill,
        WarningKind::NoLatencies => Phrase::NoLatencies,
        WarningKind::Unserved => Phrase::Unserved,
        WarningKind::Overdue => Phrase::Overdue,
        WarningKind::OpenLoop => Phrase::SentLate,
        WarningKind::Failed(_) | WarningKind::FailedOutside => Phrase::RequestsFailed,
        WarningKind::AcceptQueues | WarningKind::ListenQueue => Phrase::AcceptQueue,
        WarningKind::Quota => Phrase::Quota,
        WarningKind::Unreachable => Phrase::Unreachable,
        WarningKind::DelayedAcknowledgement => Phrase::DelayedAcknowledgement,
        WarningKind::SharedProcessors => Phrase::SharedProcessors,
        WarningKind::Invalid(_) => Phrase::Invalid,
        WarningKind::Missing => Phrase::MissingRepeats,
        WarningKind::Noisy | WarningKind::Outliers => Phrase::Noisy,
        WarningKind::Unsteady => Phrase::Unsteady,
        WarningKind::Other => Phrase::Other,
    };
    phrase.template()
}

/// The sentences that fit into `room` lines of `width` columns, each whole and after `mark`. What
/// does not fit is left out.
fn fitting(
    sentences: impl Iterator<Item: AsRef<str>>,
    mark: &str,
    width: usize,
    room: &mut usize,
) -> Vec<String> {
    let mut parts = String::new();
    for sentence in sentences {
        let sentence = sentence.as_ref();
        let more = match (parts.is_empty(), parts.ends_with('.')) {
            (true, _) => format!("{mark}{sentence}"),
            (false, true) => format!("{parts} {sentence}"),
            (false, false) => format!("{parts}; {sentence}"),
        };
        if wrapped(&more, width).len() <= *room {
            parts = more;
        }
    }
    let lines = if parts.is_empty() { Vec::new() } else { wrapped(&parts, width) };
    *room -= lines.len();
    lines
}

/// The text in lines. A word that is longer than a line stays whole.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    if text.is_empty() {
        return Vec::new();
    }
    // A number and its percent sign stay together, and so does a name with hyphens.
    let text = text.replace(" %", "\u{a0}%");
    let splitter = textwrap::WordSplitter::NoHyphenation;
    let options = textwrap::Options::new(width).word_splitter(splitter).break_words(false);
    let lines = textwrap::wrap(&text, options).into_iter();
    lines.map(|line| line.replace('\u{a0}', " ")).collect()
}

/// The text with its sentences folded at the width of a terminal. Rows of tables begin with two
/// spaces, and stay whole.
pub fn folded(text: &str) -> String {
    let fold = |line: &str| match line.starts_with("  ") {
        true => line.to_owned(),
        false => wrapped(line, TERMINAL).join("\n"),
    };
    text.split('\n').map(fold).collect::<Vec<String>>().join("\n")
}

/// The text, cut if it is wider than `width` columns.
pub(crate) fn fit(text: &str, width: usize) -> String {
    if display_width(text) <= width {
        return text.to_owned();
    }
    let mut cut = String::new();
    for letter in text.chars() {
        if display_width(&cut) + display_width(&letter.to_string()) >= width {
            break;
        }
        cut.push(letter);
    }
    cut + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_folded_and_rows_are_not() {
        let row = format!("  epoll{}", " 1,000 µs".repeat(12));
        let words = "word ".repeat(30);
        let text = format!("{words}\n{row}\n\nlast\n");
        let folded = folded(&text);
        let lines: Vec<&str> = folded.lines().collect();
        assert_eq!(lines[2..], [&*row, "", "last"]);
        assert_eq!(lines[..2].join(" "), words.trim_end());
        assert!(lines[0].len() <= TERMINAL && folded.ends_with('\n'));
    }
}
