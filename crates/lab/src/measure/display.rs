//! What is seen while an experiment runs: a live table and a bar on a terminal, else a line for
//! each cell.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::{IsTerminal, Write as _, stderr};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::record::{Block, Cell, Design, Outcome};
use crate::statistics::median;

/// Shows progress on standard error.
pub(crate) struct Display {
    design: Design,
    total: usize,
    ended: usize,
    blocks: usize,
    rates: BTreeMap<(String, usize), Vec<f64>>,
    live: Option<Live>,
}

struct Live {
    table: Vec<ProgressBar>,
    bar: ProgressBar,
}

impl Display {
    pub(crate) fn new(design: &Design) -> Self {
        let total = design.cells();
        let live = stderr().is_terminal().then(|| Live::new(design, total as u64));
        let mut display = Self {
            design: design.clone(),
            total,
            ended: 0,
            blocks: 0,
            rates: BTreeMap::new(),
            live,
        };
        display.redraw();
        display
    }

    /// A cell has ended.
    pub(crate) fn ended(&mut self, cell: &Cell) {
        self.ended += 1;
        if let Outcome::Measured(measured) = &cell.outcome {
            let place = (cell.subject.clone(), cell.concurrency);
            self.rates.entry(place).or_default().push(measured.requests_per_second);
        }
        match &self.live {
            Some(live) => {
                live.bar.set_position(self.ended as u64);
                live.bar.set_message(format!("{} at {}", cell.subject, cell.concurrency));
                self.redraw();
            }
            // Progress that cannot be written is not missed.
            None => drop(writeln!(stderr(), "[{}/{}] {}", self.ended, self.total, describe(cell))),
        }
    }

    /// A block has ended.
    pub(crate) fn block_ended(&mut self, block: &Block) {
        self.blocks += 1;
        let planned = self.design.blocks;
        match &self.live {
            Some(live) => live.bar.set_message(format!(
                "block {} of {planned} at {}",
                block.number + 1,
                block.concurrency
            )),
            // A line for each would be many.
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
    }

    /// Leaves the last state on the screen.
    pub(crate) fn finish(&self) {
        if let Some(live) = &self.live {
            live.table.iter().for_each(ProgressBar::finish);
            live.bar.finish_and_clear();
        }
    }

    fn redraw(&mut self) {
        let Some(live) = &self.live else { return };
        // Variants may have longer names.
        let longest = self.design.subjects().map(|name| name.chars().count()).max();
        let width = longest.map_or(12, |longest| longest.max(12));
        let mut heading = format!("{:<width$}", "requests/s");
        for concurrency in &self.design.concurrency {
            let _ = write!(heading, "{:>12}", format!("c={concurrency}"));
        }
        live.table[0].set_message(heading);
        for (subject, line) in self.design.measured().zip(&live.table[1..]) {
            let mut row = format!("{subject:<width$}");
            for concurrency in &self.design.concurrency {
                let rates = self.rates.get(&(subject.to_owned(), *concurrency));
                let rate = rates.and_then(|rates| median(rates));
                let _ =
                    write!(row, "{:>12}", rate.map_or("·".to_owned(), |rate| format!("{rate:.0}")));
            }
            line.set_message(row);
        }
    }
}

impl Live {
    fn new(design: &Design, total: u64) -> Self {
        let screen = MultiProgress::new();
        let plain = ProgressStyle::with_template("{msg}").expect("the template is right");
        let table = (0..=design.measured().count())
            .map(|_| screen.add(ProgressBar::new_spinner().with_style(plain.clone())))
            .collect();
        let template = "[{elapsed_precise}] {bar:32} {pos}/{len} cells, {eta} left: {msg}";
        let style = ProgressStyle::with_template(template).expect("the template is right");
        let bar = screen.add(ProgressBar::new(total).with_style(style));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { table, bar }
    }
}

fn describe(cell: &Cell) -> String {
    let place = format!("{} c={} #{}", cell.subject, cell.concurrency, cell.repeat + 1);
    match &cell.outcome {
        Outcome::Measured(measured) => {
            // A load command may tell no latencies.
            let p99 = Some(measured.latency_us.p99 / 1e3).filter(|p99| *p99 > 0.0);
            format!(
                "{place}: {:.0} req/s, {}{:.2} µs CPU/request",
                measured.requests_per_second,
                p99.map_or(String::new(), |p99| format!("p99 {p99:.2} ms, ")),
                measured.server_cpu_us_per_request,
            )
        }
        Outcome::Unavailable { reason } => format!("{place}: unavailable: {reason}"),
        Outcome::Failed { reason } => format!("{place}: failed: {reason}"),
    }
}
