//! The display while an experiment runs. On a terminal, the display is a bar with the time that is
//! left, and the standing so far. Elsewhere, the display is a line for each cell.
//!
//! The standing has means without intervals, because the verdict comes at the end.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::{IsTerminal, Write as _, stderr};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::shown::{self, Place, SoFar};
use crate::judge::race::{Lane, Out};
use crate::live::Page;
use crate::measure::experiment::Experiment;
use crate::record::{Block, Cell, Outcome};
use crate::statistics::median;

/// Shows progress on standard error.
pub(crate) struct Display {
    experiment: Experiment,
    total: usize,
    /// The estimated length of the finished parts, in seconds.
    passed: f64,
    ended: usize,
    blocks: usize,
    rates: BTreeMap<(String, usize), Vec<f64>>,
    standing: Standing,
    live: Option<Live>,
    /// A page in a browser, with what it shows.
    page: Option<Page>,
    lanes: BTreeMap<usize, Lane>,
    missing: BTreeMap<Place, &'static str>,
    now: String,
}

/// Processor time for a request in the blocks so far: sums of logarithms, and their counts.
#[derive(Default)]
struct Standing(BTreeMap<usize, BTreeMap<String, (f64, usize)>>);

impl Standing {
    /// With fewer slices of a subject, chance alone orders them.
    const FEWEST: usize = 4;

    fn add(&mut self, block: &Block) {
        let sums = self.0.entry(block.concurrency).or_default();
        for slice in block.slices.iter().filter(|slice| slice.requests > 0) {
            let time = slice.server_cpu_us / slice.requests as f64;
            if time > 0.0 {
                let (sum, count) = sums.entry(slice.subject.clone()).or_default();
                *sum += time.ln();
                *count += 1;
            }
        }
    }

    /// `best`, or `+39 %`: the share by which a subject exceeds the best. `None` if there are too
    /// few slices.
    fn told(&self, subject: &str, concurrency: usize) -> Option<String> {
        let sums = self.0.get(&concurrency)?;
        let means = sums.values().filter(|(_, count)| *count >= Self::FEWEST);
        let least = means.map(|(sum, count)| sum / *count as f64).reduce(f64::min)?;
        let (sum, count) = sums.get(subject).filter(|(_, count)| *count >= Self::FEWEST)?;
        let above = (sum / *count as f64 - least).exp_m1();
        Some(if above > 0.0 { format!("{:+.0} %", 100.0 * above) } else { "best".to_owned() })
    }
}

struct Live {
    table: Vec<ProgressBar>,
    bar: ProgressBar,
}

impl Display {
    pub(crate) fn new(experiment: &Experiment, page: Option<Page>) -> Self {
        let live = stderr().is_terminal().then(|| Live::new(experiment));
        let mut display = Self {
            experiment: experiment.clone(),
            total: experiment.cells(),
            passed: 0.0,
            ended: 0,
            blocks: 0,
            rates: BTreeMap::new(),
            standing: Standing::default(),
            live,
            page,
            lanes: BTreeMap::new(),
            missing: BTreeMap::new(),
            now: "starting".to_owned(),
        };
        display.redraw();
        display.publish();
        display
    }

    /// Shows that a cell has ended.
    pub(crate) fn ended(&mut self, cell: &Cell) {
        self.ended += 1;
        if let Outcome::Measured(measured) = &cell.outcome {
            let place = (cell.subject.clone(), cell.concurrency);
            self.rates.entry(place).or_default().push(measured.requests_per_second);
        }
        let key = cell.key();
        let place = (cell.subject.clone(), cell.concurrency);
        let missing = match &cell.outcome {
            Outcome::Measured(_) => None,
            Outcome::Unavailable { .. } => Some("n/a"),
            Outcome::Failed { .. } => Some("failed"),
        };
        match missing {
            Some(what) => drop(self.missing.insert(place, what)),
            None => drop(self.missing.remove(&place)),
        }
        if self.experiment.why_unavailable(&key).is_none() {
            self.passed += self.experiment.seconds_of_a_cell(&key);
        }
        match &self.live {
            Some(live) => {
                live.bar.set_message(format!("{} at {}", cell.subject, cell.concurrency));
                self.redraw();
            }
            // A failure to write progress does not matter.
            None => drop(writeln!(stderr(), "[{}/{}] {}", self.ended, self.total, describe(cell))),
        }
        self.now = describe(cell);
        self.publish();
    }

    /// Shows that a block has ended.
    pub(crate) fn block_ended(&mut self, block: &Block) {
        self.blocks += 1;
        self.standing.add(block);
        let Block { slices, concurrency, .. } = block;
        self.passed += slices.len() as f64 * self.experiment.seconds_of_a_slice(*concurrency);
        let planned = self.experiment.design.blocks;
        match &self.live {
            Some(live) => {
                // Time that is left over has further blocks.
                let number = match block.number + 1 {
                    number if number <= planned => format!("{number} of {planned}"),
                    number => number.to_string(),
                };
                live.bar.set_message(format!("block {number} at {}", block.concurrency));
                self.redraw();
            }
            // A line for each block would be too many lines.
            None if block.number + 1 == planned => drop(writeln!(
                stderr(),
                "[{}/{}] {planned} blocks c={} #{}",
                self.ended,
                self.total,
                block.concurrency,
                block.session + 1
            )),
            None => {}
        }
        let counted = self.experiment.design.counted();
        self.now = format!("block {} at {}", block.number + 1, counted.several(&[*concurrency]));
        self.publish();
    }

    /// Whether the race is shown at each look.
    pub(crate) fn has_page(&self) -> bool {
        self.page.is_some()
    }

    /// Shows the race at a number of connections.
    pub(crate) fn looked(&mut self, lane: Lane) {
        self.lanes.insert(lane.concurrency, lane);
        self.publish();
    }

    fn publish(&self) {
        let Some(page) = &self.page else { return };
        let rate = |name: &str, load: usize| {
            let rates = self.rates.get(&(name.to_owned(), load))?;
            median(rates).map(|rate| format!("{rate:.0}/s"))
        };
        page.publish(shown::state(&SoFar {
            experiment: &self.experiment,
            lanes: &self.lanes,
            missing: &self.missing,
            point: &|name, load| self.standing.told(name, load).or_else(|| rate(name, load)),
            ended: self.ended,
            blocks: self.blocks,
            left: (self.experiment.length().as_secs_f64() - self.passed).max(0.0),
            now: &self.now,
        }));
    }

    /// Shows that a subject has left the race.
    pub(crate) fn out(&mut self, concurrency: usize, subject: &str, out: &Out) {
        let line = format!(
            "{subject} is out of the race at {concurrency}: worse by {:.0} %, or {:.0} % at least",
            100.0 * out.behind,
            100.0 * out.low
        );
        match &self.live {
            Some(live) => live.bar.set_message(line),
            None => drop(writeln!(stderr(), "[{}/{}] {line}", self.ended, self.total)),
        }
    }

    /// Clears the screen for the answer.
    pub(crate) fn finish(&mut self) {
        self.now = "This is what the measurement ended with.".to_owned();
        self.publish();
        if let Some(live) = &self.live {
            live.table.iter().for_each(ProgressBar::finish_and_clear);
            live.bar.finish_and_clear();
        }
    }

    fn redraw(&mut self) {
        let Some(live) = &self.live else { return };
        let design = &self.experiment.design;
        // Blocks that are measured again make the experiment longer than estimated.
        let passed = (1e3 * self.passed) as u64;
        live.bar.set_position(passed.min(live.bar.length().unwrap_or(0)));
        // Variants may have longer names.
        let longest = design.subjects().map(|name| name.chars().count()).max();
        let width = longest.map_or(12, |longest| longest.max(12));
        live.table[0].set_message("So far: requests/s, then processor time above the least");
        let mut heading = format!("{:<width$}", design.counted().noun());
        for concurrency in &design.concurrency {
            let _ = write!(heading, "{:>12}", concurrency.to_string());
        }
        live.table[1].set_message(heading);
        for (subject, line) in design.measured().zip(&live.table[2..]) {
            let mut row = format!("{subject:<width$}");
            for concurrency in &design.concurrency {
                let rates = self.rates.get(&(subject.to_owned(), *concurrency));
                let rate = || rates.and_then(|rates| median(rates));
                let shown = self
                    .standing
                    .told(subject, *concurrency)
                    .or_else(|| rate().map(|rate| format!("{rate:.0}")));
                let _ = write!(row, "{:>12}", shown.as_deref().unwrap_or("·"));
            }
            line.set_message(row);
        }
    }
}

impl Live {
    fn new(experiment: &Experiment) -> Self {
        let screen = MultiProgress::new();
        let plain = ProgressStyle::with_template("{msg}").expect("the template is right");
        let table = (0..experiment.design.measured().count() + 2)
            .map(|_| screen.add(ProgressBar::new_spinner().with_style(plain.clone())))
            .collect();
        let template = "{bar:32} {eta} left: {msg}";
        let style = ProgressStyle::with_template(template).expect("the template is right");
        // A unit of the bar is about a millisecond of the total time.
        let length = u64::try_from(experiment.length().as_millis()).unwrap_or(u64::MAX);
        let bar = screen.add(ProgressBar::new(length).with_style(style));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { table, bar }
    }
}

fn describe(cell: &Cell) -> String {
    let place = format!("{} c={} #{}", cell.subject, cell.concurrency, cell.repeat + 1);
    match &cell.outcome {
        Outcome::Measured(measured) => {
            // A load command may report no latencies.
            let p99 = Some(measured.latency_us.p99 / 1e3).filter(|p99| *p99 > 0.0);
            format!(
                "{place}: {:.0} req/s, {}{:.2} µs CPU/request",
                measured.requests_per_second,
                p99.map_or(String::new(), |p99| format!("p99 {p99:.2} ms, ")),
                measured.server_cpu_us_per_request,
            )
        }
        Outcome::Unavailable { reason, .. } => format!("{place}: unavailable: {reason}"),
        Outcome::Failed { reason } => format!("{place}: failed: {reason}"),
    }
}
