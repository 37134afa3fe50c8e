//! The results of an experiment as text for the terminal. The disturbances and the verdict's tables
//! come first. The cells without measurements, the warnings, and the recommendation follow.

use std::fmt::Write;

use crate::format::{bytes, duration, multiple, rate};
use crate::judge::alternatives::Alternative;
use crate::judge::rows::{Figures, Medians, Row};
use crate::judge::summary::Summary;
use crate::judge::verdict::Metric;
use crate::statistics::{Estimate, Interval, ratio};
use crate::tell::recommendation::Recommendation;
use crate::tell::render::text::table_text;
use crate::tell::sheet::{Table, left, right};

/// The values of a metric, one for each repeat.
type Samples = fn(&Medians) -> &[f64];

impl Summary {
    /// Tables for the terminal, then the cells without measurements, the warnings and the
    /// recommendation.
    ///
    /// Figures are also given as multiples of the `baseline`'s. Without one, the baseline is the
    /// native program, or the peer if there is one.
    pub fn render_text(&self, recommendation: &Recommendation, baseline: Option<&str>) -> String {
        let mut text = String::new();
        if let Some(partial) = self.partial() {
            writeln!(text, "{partial}\n").expect("a String takes all");
        }
        for happened in &recommendation.disturbance {
            writeln!(text, "{happened}\n").expect("a String takes all");
        }
        let title =
            "requests/s, median ± half of its 95 % interval (≥: the load generator was the limit)";
        self.grid(&mut text, title, |_, medians| {
            let limit = if medians.client_was_limit { "≥ " } else { "" };
            format!("{limit}{}", rate(medians.requests_per_second))
        });
        self.grid(&mut text, "median latency", |_, medians| duration(medians.p50_us));
        self.grid(&mut text, "p99 latency", |_, medians| duration(medians.p99_us));
        let title = "processor time per request: server + load generator";
        self.grid(&mut text, title, |_, medians| {
            format!("{} + {}", duration(medians.cpu_us), duration(medians.client_cpu_us))
        });
        if let Some(baseline) = self.baseline(baseline) {
            let measures: [(&str, Metric, Samples); 2] = [
                ("requests/s", Metric::Rate, |medians| &medians.requests_per_second_samples),
                ("server CPU per request", Metric::ServerCpu, |medians| &medians.cpu_us_samples),
            ];
            for (measure, metric, samples) in measures {
                let title = format!(
                    "{measure} as a multiple of {baseline}'s, 99 % interval (where it decides, the \
                     verdict's)"
                );
                self.grid(&mut text, &title, |row, medians| {
                    let decided = self.decided(baseline, row, metric);
                    let beside =
                        decided.or_else(|| self.beside(baseline, row, samples(medians), samples));
                    beside.map_or_else(|| "-".to_owned(), multiple)
                });
            }
        }
        self.grid(&mut text, "server memory", |_, medians| bytes(medians.memory_bytes));
        self.notes(&mut text);
        for sentence in
            [&*recommendation.headline].into_iter().chain(recommendation.all_sentences())
        {
            text.push_str(sentence);
            text.push('\n');
        }
        text
    }

    /// The subject with the figures that other subjects' multiples are of.
    fn baseline<'a>(&'a self, asked: Option<&'a str>) -> Option<&'a str> {
        let mut peers = self.peers.iter();
        asked
            .or(self.current.as_deref())
            .or_else(|| peers.next().filter(|_| self.peers.len() == 1).map(String::as_str))
    }

    /// The figure of `row` divided by the baseline's at as many connections. `None` if one of the
    /// two was not measured.
    fn beside(&self, baseline: &str, row: &Row, own: &[f64], samples: Samples) -> Option<Estimate> {
        let mut beside =
            self.of_subject(baseline).filter(|other| other.concurrency == row.concurrency);
        let other = beside.find_map(Row::medians)?;
        ratio(own, samples(other), self.seed)
    }

    /// The figure that decides, as a multiple of the subject's that runs today: that of the
    /// verdict.
    fn decided(&self, baseline: &str, row: &Row, measure: Metric) -> Option<Estimate> {
        let verdict = self.verdict(row.concurrency).filter(|verdict| verdict.metric == measure)?;
        let is_current = self.current.as_deref() == Some(baseline);
        let mut all = verdict.alternatives.iter().filter(|_| is_current);
        let Alternative { difference, low, high, .. } =
            all.find(|one| one.subject == row.subject)?;
        let [value, one, other] = [difference, low, high].map(|share| match measure {
            Metric::Rate => 1.0 / (1.0 + share),
            _ => 1.0 + share,
        });
        let interval = Interval { low: one.min(other), high: one.max(other) };
        Some(Estimate { value, interval: Some(interval) })
    }

    /// One row for each subject, one column for each concurrency.
    fn grid(&self, text: &mut String, title: &str, show: impl Fn(&Row, &Medians) -> String) {
        let columns = self.concurrency.iter().map(|&count| right(self.at(count) + "  "));
        let rows = self.subjects.iter().map(|name| {
            let cells = self.of_subject(name).map(|row| match &row.figures {
                // The mark refers to the warnings beneath the tables.
                Figures::Measured(medians) if medians.invalid => show(row, medians) + " ✗",
                Figures::Measured(medians) if row.warnings.is_empty() => show(row, medians) + "  ",
                Figures::Measured(medians) => show(row, medians) + " !",
                Figures::Missing { state, .. } => format!("{state}  "),
            });
            [self.label(name)].into_iter().chain(cells).collect()
        });
        let table = Table::new([left("")].into_iter().chain(columns), rows).titled(title);
        text.push_str(&table_text(&table));
        text.push('\n');
    }

    /// Reasons and warnings.
    fn notes(&self, text: &mut String) {
        let warnings = self.warnings();
        if !warnings.is_empty() {
            text.push_str("✗: do not trust the figure. !: see the warnings. They follow:\n");
        }
        let notes: Vec<String> = self.missing().into_iter().chain(warnings).collect();
        for note in &notes {
            writeln!(text, "! {note}").expect("a String takes all");
        }
        if !notes.is_empty() {
            text.push('\n');
        }
    }
}
