//! Runs the cells of a plan. Each cell has its own server. The order is random, and mirrored from
//! repeat to repeat.

use std::fs;
use std::io::{IsTerminal, Write, stderr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use super::derive::RecordedRequest;
use super::plan::{Mode, Plan, Regime};
use super::record::{Cell, Heading, Measured, Outcome, Results};
use crate::ask::variant::Choice;
use crate::failure::{Blame, Failure, Party};
use crate::measure::child::{self, Patience, Running};
use crate::measure::load_command::cpu_of_children;
use crate::measure::machine;
use crate::measure::observe::noise::{NoiseMeter, Used};
use crate::random::{SplitMix64, shuffle};

/// Measures the cells that the directory lacks, with the `duality` at `program`. Returns true if no
/// cell is left to measure.
///
/// # Errors
///
/// One line: the directory holds another run, or cannot be written.
pub fn run(
    plan: &Plan,
    program: &Path,
    directory: &Path,
    resume: bool,
    interrupted: &AtomicBool,
) -> Result<bool, Failure> {
    let mut results = Results::open(directory, &Heading::of(plan), resume)?;
    let records = directory.join("records");
    fs::create_dir_all(&records).blame_at(Party::Machine, records.display())?;
    let progress = Progress::new(plan.cells());
    let mut meter = NoiseMeter::new(&[], &[]);
    for (number, (choice, regime, repeat)) in order(plan).into_iter().enumerate() {
        if interrupted.load(Ordering::Relaxed) {
            return Ok(false);
        }
        if results.has(&choice.name, &regime.name, repeat) {
            progress.ended(number + 1, None);
            continue;
        }
        let file =
            records.join(format!("{}-{}-{repeat}.csv", plain(&choice.name), plain(&regime.name)));
        let bench = Bench { plan, program, choice, regime, file, interrupted };
        meter.since_last(used());
        let outcome = match bench.measure() {
            Ok(measured) => {
                let disturbance = Some(meter.since_last(used()));
                Outcome::Measured(Box::new(Measured { disturbance, ..measured }))
            }
            Err(_) if interrupted.load(Ordering::Relaxed) => return Ok(false),
            Err(failure) => Outcome::Missing { reason: failure.to_string() },
        };
        let (subject, regime) = (choice.name.clone(), regime.name.clone());
        let cell = Cell { subject, regime, repeat, outcome };
        progress.ended(number + 1, Some(&cell));
        results.add(cell).blame_at(Party::Machine, directory.display())?;
    }
    Ok(true)
}

/// The processor time that the cells have used so far. Each cell is processes of its own, which
/// have ended.
fn used() -> Used {
    Used { servers: cpu_of_children(), ..Used::default() }
}

/// Every cell once. A repeat goes backwards through the order of the one before, so that a drift
/// meets all subjects alike.
fn order(plan: &Plan) -> Vec<(&Choice, &Regime, usize)> {
    let mut random = SplitMix64::new(plan.seed);
    let mut all = Vec::with_capacity(plan.cells());
    let mut cells: Vec<(&Choice, &Regime)> = plan
        .subjects
        .iter()
        .flat_map(|one| plan.regimes.iter().map(move |regime| (one, regime)))
        .collect();
    for repeat in 0..plan.repeats {
        if repeat % 2 == 0 {
            shuffle(&mut cells, &mut random);
        } else {
            cells.reverse();
        }
        all.extend(cells.iter().map(|(choice, regime)| (*choice, *regime, repeat)));
    }
    all
}

/// A name, in a form that fits the name of a file.
fn plain(name: &str) -> String {
    name.chars()
        .map(|letter| if letter.is_ascii_alphanumeric() || letter == '.' { letter } else { '-' })
        .collect()
}

/// One cell.
struct Bench<'r> {
    plan: &'r Plan,
    program: &'r Path,
    choice: &'r Choice,
    regime: &'r Regime,
    /// The file for the records.
    file: PathBuf,
    interrupted: &'r AtomicBool,
}

impl Bench<'_> {
    fn measure(&self) -> Result<Measured, Failure> {
        let (rate, cpu_us) = match self.plan.mode {
            Mode::Injected => self.inject()?,
            Mode::Tcp => self.connect()?,
        };
        let rows = fs::read_to_string(&self.file).blame_at(Party::Subject, self.file.display())?;
        let requests: Option<Vec<RecordedRequest>> =
            rows.lines().skip(1).map(RecordedRequest::read).collect();
        match requests {
            Some(requests) if !requests.is_empty() => Ok(Measured::of(&requests, rate, cpu_us)),
            _ => {
                let problem = "these are no records of requests";
                Err(Failure::new(Party::Subject, problem).at(self.file.display()))
            }
        }
    }

    /// The command that starts any server.
    fn server(&self) -> Command {
        let mut command = Command::new(self.program);
        command.args(["serve", &self.plan.service, "--architecture", &self.choice.architecture]);
        command.args(&self.choice.options).arg("--records").arg(&self.file);
        command.arg(format!("--records-limit={}", self.regime.clients));
        command
    }

    fn waits(&self) -> String {
        format!("{:.3}us..{:.3}us", self.regime.shortest * 1e6, self.regime.longest * 1e6)
    }

    fn period(&self) -> String {
        format!("--period={:.3}s", self.regime.period(self.plan.swings).as_secs_f64().max(0.001))
    }

    /// Has the server inject its clients. Returns the rate and the processor time.
    fn inject(&self) -> Result<(f64, Option<f64>), Failure> {
        let mut command = self.server();
        command.args(["--inject", &self.waits(), &self.period(), "--json"]);
        command.arg(format!("--clients={}", self.regime.clients));
        let report = child::report(&mut command, self.patience())?;
        let cpu_us = number(&report, "server_cpu_us_per_request")?;
        Ok((number(&report, "requests_per_second")?, Some(cpu_us)))
    }

    /// Loads the server over TCP. Returns the rate.
    fn connect(&self) -> Result<(f64, Option<f64>), Failure> {
        let (server_cpus, client_cpus) = machine::split_cpus();
        let mut server = self.server();
        server.arg("--listen=127.0.0.1:0").args(pinned(&server_cpus));
        let mut server = Running::start(&mut server)?;
        let address = server.address()?;
        let mut load = Command::new(self.program);
        load.args(["load", &format!("{}://{address}", self.plan.service), "--json"]);
        load.args(["--arrivals=sinusoidal", &format!("--wait={}", self.waits()), &self.period()]);
        load.arg(format!("-n{}", self.regime.clients)).args(pinned(&client_cpus));
        let report = child::report(&mut load, self.patience())?;
        server.terminate();
        server.end(self.patience())?;
        Ok((number(&report, "requests_per_second")?, None))
    }

    fn patience(&self) -> Patience<'_> {
        Patience { limit: self.plan.limit, interrupted: self.interrupted }
    }
}

/// The flag that pins a process to these processors. `None` without processors.
fn pinned(cpus: &[usize]) -> Option<String> {
    let names: Vec<String> = cpus.iter().map(usize::to_string).collect();
    (!cpus.is_empty()).then(|| format!("--cpus={}", names.join(",")))
}

fn number(report: &Value, name: &str) -> Result<f64, Failure> {
    report[name]
        .as_f64()
        .ok_or_else(|| Failure::new(Party::Load, format!("no {name} in the report")))
}

/// Shows progress: a bar on a terminal, otherwise a line for each cell.
struct Progress {
    bar: Option<ProgressBar>,
    cells: usize,
}

impl Progress {
    fn new(cells: usize) -> Self {
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len}, {eta} left  {msg}");
        let bar = style.ok().filter(|_| stderr().is_terminal());
        Self { bar: bar.map(|style| ProgressBar::new(cells as u64).with_style(style)), cells }
    }

    /// Shows that `number` cells have ended, the last of them `cell`.
    fn ended(&self, number: usize, cell: Option<&Cell>) {
        let line = cell.map_or(String::new(), |cell| {
            let Cell { subject, regime, outcome, .. } = cell;
            match outcome {
                Outcome::Measured(measured) => {
                    let rate = crate::format::grouped(measured.requests_per_second.round());
                    format!("{subject} at {regime}: {rate} requests/s")
                }
                Outcome::Missing { reason } => format!("{subject} at {regime}: {reason}"),
            }
        });
        match &self.bar {
            Some(bar) => {
                bar.set_position(number as u64);
                bar.set_message(line);
            }
            // A failure to write progress does not matter.
            None if !line.is_empty() => {
                let _ = writeln!(stderr(), "[{number}/{}] {line}", self.cells);
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_has_its_turn_and_a_repeat_mirrors_the_one_before() {
        let text = "[regimes]\nsubjects = ['a', 'b', 'c']\nrepeats = 2\n[[regime]]\nwait = '1us'\n[[regime]]\nwait = '2us'\n";
        let plan = Plan::read(text).unwrap();
        let order = order(&plan);
        assert_eq!(order.len(), plan.cells());
        let names = |repeat| -> Vec<(String, String)> {
            let of = order.iter().filter(|(.., number)| *number == repeat);
            of.map(|(one, regime, _)| (one.name.clone(), regime.name.clone())).collect()
        };
        let (mut first, second) = (names(0), names(1));
        first.reverse();
        assert_eq!(first, second);
        first.sort();
        first.dedup();
        assert_eq!(first.len(), 6);
    }
}
