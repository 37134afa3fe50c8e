//! What the figures of an experiment are worth: the control, the smallest difference that would be found, and for each row its
//! noise, its outliers, and whether it was measured in a steady state. docs/method.md has the definitions.
//!
//! Nothing is dropped for being odd. What is marked here stays in the figures, and its mark is one of the row's warnings.

use crate::format::{connections, listed};
use crate::record::{Design, Measured};
use crate::statistics::{self, Estimate, NOISE, detectable, outliers, ratio, trend};
use crate::summary::{Medians, Row, Summary};

/// An architecture that was measured twice, under two names: what differs between the two is not the architecture.
#[derive(Clone, Debug, PartialEq)]
pub struct Control {
    /// The architecture.
    pub architecture: String,
    /// Its second measurements, by concurrency; the subject is another name.
    pub rows: Vec<Row>,
    /// What the two differ by, where both were measured.
    pub checks: Vec<Check>,
}

/// The control at one concurrency.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// How many connections were open at once.
    pub concurrency: usize,
    /// The second measurement over the first: of requests/s, or of processor time where the load generator was the limit.
    pub ratio: Estimate,
}

impl Check {
    /// Whether the two are level, as they must be: the interval of their ratio includes 1, or one repeat has none.
    pub fn is_tie(&self) -> bool {
        self.ratio.interval.is_none_or(|interval| interval.contains(1.0))
    }

    /// `+0.8 % [-1.9 to +2.6] at 100 connections`.
    fn text(&self) -> String {
        let percent = |ratio: f64| format!("{:+.1}", 100.0 * (ratio - 1.0));
        let interval = self.ratio.interval.map_or(String::new(), |interval| {
            format!(" [{} to {}]", percent(interval.low), percent(interval.high))
        });
        let by = percent(self.ratio.value);
        format!("{by} %{interval} at {}", connections(self.concurrency))
    }
}

impl Control {
    /// The control of `design`, with its `rows`, beside those of all that is compared.
    pub(crate) fn of(design: &Design, rows: Vec<Row>, compared: &[Row]) -> Option<Self> {
        let architecture = design.original(design.control.as_deref()?).to_owned();
        let check = |again: &Row| {
            let same =
                |row: &&Row| row.subject == architecture && row.concurrency == again.concurrency;
            let sound = |medians: &&Medians| !medians.invalid;
            let first = compared.iter().find(same)?.medians().filter(sound)?;
            let second = again.medians().filter(sound)?;
            let ratio = if first.client_was_limit && second.client_was_limit {
                ratio(&second.cpu_us_samples, &first.cpu_us_samples, design.seed)
            } else {
                let samples = |medians: &Medians| medians.requests_per_second_samples.clone();
                ratio(&samples(second), &samples(first), design.seed)
            };
            Some(Check { concurrency: again.concurrency, ratio: ratio? })
        };
        let checks = rows.iter().filter_map(check).collect();
        Some(Self { architecture, rows, checks })
    }

    /// By what share the two differ at `concurrency`, if they are not level there: differences that are no larger are not
    /// sure.
    pub fn doubt(&self, concurrency: usize) -> Option<f64> {
        let check = self.checks.iter().find(|check| check.concurrency == concurrency)?;
        let ratio = check.ratio.value;
        (!check.is_tie()).then(|| ratio.max(1.0 / ratio) - 1.0)
    }

    fn sentences(&self) -> Vec<String> {
        let (ties, others): (Vec<&Check>, Vec<&Check>) =
            self.checks.iter().partition(|check| check.is_tie());
        let told = |checks: &[&Check]| {
            let texts: Vec<String> = checks.iter().map(|check| check.text()).collect();
            format!("{} against itself differs by {}", self.architecture, listed(&texts))
        };
        let mut sentences = Vec::new();
        if !ties.is_empty() {
            let so = match (ties.len(), ties[0].ratio.interval) {
                (_, None) => "measured once, so that it shows little",
                (1, _) => "a tie, as it must be",
                _ => "ties, as they must be",
            };
            sentences.push(format!("A/A control: {}: {so}.", told(&ties)));
        }
        if !others.is_empty() {
            sentences.push(format!(
                "The A/A control failed: {}. Chance or the machine made that difference, and so smaller ones there are \
                 not sure: measure again, with more repeats.",
                told(&others)
            ));
        }
        sentences
    }
}

/// What to know of all comparisons together, in words: what the control shows, and what would be found.
pub(crate) fn sentences(summary: &Summary) -> Vec<String> {
    let mut sentences = summary.control.as_ref().map(Control::sentences).unwrap_or_default();
    let smallest: Vec<String> = summary
        .concurrency
        .iter()
        .filter_map(|&count| {
            let share = smallest_difference(summary, count)?;
            Some(format!("{:.1} % at {}", 100.0 * share, connections(count)))
        })
        .collect();
    if !smallest.is_empty() {
        sentences.push(format!(
            "The smallest difference that would be found four times in five: {}.",
            listed(&smallest)
        ));
    }
    sentences
}

/// The smallest difference in requests/s at `concurrency` that comparisons would find four times in five, as a share: from
/// the variation of all repeats there, each within its own row. Noisy rows are left out, unless all are.
fn smallest_difference(summary: &Summary, concurrency: usize) -> Option<f64> {
    let again = summary.control.iter().flat_map(|control| &control.rows);
    let rows = summary.rows.iter().chain(again).filter(|row| row.concurrency == concurrency);
    let usable = rows.filter_map(Row::medians).filter(|medians| !medians.invalid);
    let varied: Vec<(f64, usize)> = usable
        .filter_map(|medians| Some((medians.variation?, medians.requests_per_second_samples.len())))
        .collect();
    let calm: Vec<(f64, usize)> =
        varied.iter().copied().filter(|(variation, _)| *variation <= NOISE).collect();
    let chosen = if calm.is_empty() { varied } else { calm };
    let freedom: usize = chosen.iter().map(|(_, repeats)| repeats - 1).sum();
    let squares =
        chosen.iter().map(|(variation, repeats)| variation.powi(2) * (repeats - 1) as f64);
    let pooled = (squares.sum::<f64>() / freedom as f64).sqrt();
    let repeats = chosen.iter().map(|(_, repeats)| *repeats).min()?;
    detectable(pooled, repeats)
}

/// What is odd about the repeats of a row whose rates are `rates`, in sentences.
pub(crate) fn marks(repeats: &[&Measured], rates: &[f64]) -> Vec<String> {
    let mut marks = Vec::new();
    if let Some(variation) = statistics::variation(rates).filter(|variation| *variation > NOISE) {
        let percent = 100.0 * variation;
        marks.push(format!("Noisy: requests/s vary by {percent:.1} % from repeat to repeat."));
    }
    let odd = outliers(rates);
    if !odd.is_empty() {
        let rates: Vec<String> =
            odd.iter().map(|&place| crate::format::grouped(rates[place])).collect();
        let (plural, are) = if odd.len() == 1 { ("an outlier", "is") } else { ("outliers", "are") };
        marks.push(format!(
            "{} requests/s {are} {plural} among {} repeats, and counted.",
            listed(&rates),
            repeats.len()
        ));
    }
    marks.extend(unsteady(repeats));
    marks
}

/// The trend within the windows, when at least half of them have one, and all in one direction.
fn unsteady(repeats: &[&Measured]) -> Option<String> {
    let trends: Vec<f64> =
        repeats.iter().filter_map(|repeat| trend(&repeat.slices_requests_per_second)).collect();
    let in_one_direction =
        trends.iter().all(|share| *share > 0.0) || trends.iter().all(|share| *share < 0.0);
    if trends.is_empty() || 2 * trends.len() < repeats.len() || !in_one_direction {
        return None;
    }
    let share = statistics::median(&trends)?;
    let moved = if share < 0.0 { "fell" } else { "rose" };
    Some(format!(
        "Not in a steady state: requests/s {moved} by {:.0} % from the first to the last third of the window (in {} of {} \
         repeats); a longer --warm-up or --window may help.",
        100.0 * share.abs(),
        trends.len(),
        repeats.len()
    ))
}
