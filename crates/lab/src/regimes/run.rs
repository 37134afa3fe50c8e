//! Runs the cells of a plan: each by a server of its own, in an order that is random and mirrored from repeat to repeat.

use std::fs;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write, stderr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::derive::Request;
use super::plan::{Mode, Plan, Regime};
use super::record::{Cell, Heading, Measured, Outcome, Results};
use crate::plan::variant::Choice;
use crate::random::SplitMix64;

/// How often a process is asked whether it has ended.
const LOOK: Duration = Duration::from_millis(2);

/// Measures what the directory does not have yet, by the `duality` at `program`. True when nothing is left to measure.
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
) -> Result<bool, String> {
    let mut results = Results::open(directory, &Heading::of(plan), resume)?;
    let records = directory.join("records");
    fs::create_dir_all(&records).map_err(|error| format!("{}: {error}", records.display()))?;
    let progress = Progress::new(plan.cells());
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
        let outcome = match bench.measure() {
            Ok(measured) => Outcome::Measured(Box::new(measured)),
            Err(_) if interrupted.load(Ordering::Relaxed) => return Ok(false),
            Err(reason) => Outcome::Missing { reason },
        };
        let (subject, regime) = (choice.name.clone(), regime.name.clone());
        let cell = Cell { subject, regime, repeat, outcome };
        progress.ended(number + 1, Some(&cell));
        results.add(cell).map_err(|error| format!("{}: {error}", directory.display()))?;
    }
    Ok(true)
}

/// Every cell once. A repeat goes backwards through what the one before went through, so that what drifts meets all alike.
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
            for last in (1..cells.len()).rev() {
                cells.swap(last, random.below(last as u64 + 1) as usize);
            }
        } else {
            cells.reverse();
        }
        all.extend(cells.iter().map(|(choice, regime)| (*choice, *regime, repeat)));
    }
    all
}

/// A name as part of the name of a file.
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
    /// Where the records go.
    file: PathBuf,
    interrupted: &'r AtomicBool,
}

impl Bench<'_> {
    fn measure(&self) -> Result<Measured, String> {
        let (rate, cpu_us) = match self.plan.mode {
            Mode::Injected => self.inject()?,
            Mode::Tcp => self.connect()?,
        };
        let named = |error| format!("{}: {error}", self.file.display());
        let rows = fs::read_to_string(&self.file).map_err(named)?;
        let requests: Option<Vec<Request>> = rows.lines().skip(1).map(Request::read).collect();
        match requests {
            Some(requests) if !requests.is_empty() => Ok(Measured::of(&requests, rate, cpu_us)),
            _ => Err(format!("{}: these are no records of requests", self.file.display())),
        }
    }

    /// What all servers are started with.
    fn server(&self) -> Command {
        let mut command = Command::new(self.program);
        command.args(["serve", &self.plan.service, "--architecture", &self.choice.architecture]);
        command.args(&self.choice.options).arg("--records").arg(&self.file);
        command.arg(format!("--records-limit={}", self.regime.clients));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn waits(&self) -> String {
        format!("{:.3}us..{:.3}us", self.regime.shortest * 1e6, self.regime.longest * 1e6)
    }

    fn period(&self) -> String {
        format!("--period={:.3}s", self.regime.period(self.plan.swings).as_secs_f64().max(0.001))
    }

    /// Has the server inject its clients; rate and processor time.
    fn inject(&self) -> Result<(f64, Option<f64>), String> {
        let mut command = self.server();
        command.args(["--inject", &self.waits(), &self.period(), "--json"]);
        let output = self.end(command.arg(format!("--clients={}", self.regime.clients)))?;
        let report = report(&output)?;
        Ok((
            number(&report, "requests_per_second")?,
            Some(number(&report, "server_cpu_us_per_request")?),
        ))
    }

    /// Loads the server over TCP; its rate.
    fn connect(&self) -> Result<(f64, Option<f64>), String> {
        let child = self
            .server()
            .arg("--listen=127.0.0.1:0")
            .spawn()
            .map_err(|error| self.unstarted(&error))?;
        let mut server = Running(child);
        let mut line = String::new();
        let output = server.0.stdout.take().map(BufReader::new);
        let heard = output.map_or(Ok(0), |mut output| output.read_line(&mut line));
        let Some(address) = line.trim().strip_prefix("listening on ").filter(|_| heard.is_ok())
        else {
            let mut said = String::new();
            let _ = server.0.wait();
            let _ = server.0.stderr.take().map(|mut errors| errors.read_to_string(&mut said));
            return Err(reason(&said));
        };
        let mut load = Command::new(self.program);
        load.args(["load", &format!("{}://{address}", self.plan.service), "--json"]);
        load.args(["--arrivals=sinusoidal", &format!("--wait={}", self.waits()), &self.period()]);
        load.arg(format!("-n{}", self.regime.clients)).stdin(Stdio::null());
        let output = self.end(load.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
        let report = report(&output)?;
        let _ = kill_process(Pid::from_child(&server.0), Signal::TERM);
        self.wait(&mut server)?;
        Ok((number(&report, "requests_per_second")?, None))
    }

    /// Runs a command to its end, or to the limit of a cell.
    fn end(&self, command: &mut Command) -> Result<Output, String> {
        let mut running = Running(command.spawn().map_err(|error| self.unstarted(&error))?);
        self.wait(&mut running)?;
        let mut output = Output {
            status: running.0.wait().map_err(|error| error.to_string())?,
            stdout: Vec::new(),
            stderr: Vec::new(),
        };
        let read = |pipe: Option<&mut dyn Read>, into: &mut Vec<u8>| {
            pipe.map_or(Ok(0), |pipe| pipe.read_to_end(into))
        };
        read(running.0.stdout.as_mut().map(|pipe| pipe as &mut dyn Read), &mut output.stdout)
            .and_then(|_| {
                read(
                    running.0.stderr.as_mut().map(|pipe| pipe as &mut dyn Read),
                    &mut output.stderr,
                )
            })
            .map_err(|error: io::Error| error.to_string())?;
        Ok(output)
    }

    /// Waits for the process to end. What it says fits into its pipes.
    fn wait(&self, running: &mut Running) -> Result<(), String> {
        let deadline = Instant::now() + self.plan.limit;
        loop {
            match running.0.try_wait() {
                Ok(Some(_)) => return Ok(()),
                Err(error) => return Err(error.to_string()),
                Ok(None) if self.interrupted.load(Ordering::Relaxed) => {
                    return Err("interrupted".to_owned());
                }
                Ok(None) if Instant::now() > deadline => {
                    return Err(format!("not done after {:.0} s", self.plan.limit.as_secs_f64()));
                }
                Ok(None) => std::thread::sleep(LOOK),
            }
        }
    }

    fn unstarted(&self, error: &io::Error) -> String {
        format!("{}: {error}", self.program.display())
    }
}

/// A child process, which does not outlive this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail where it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a command printed, which has to have succeeded.
fn report(output: &Output) -> Result<Value, String> {
    if !output.status.success() {
        return Err(reason(&String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("no report: {error}"))
}

/// The last line that a process said, without its name.
fn reason(said: &str) -> String {
    let last = said.lines().last().unwrap_or("it ended without a word");
    last.strip_prefix("duality: ").unwrap_or(last).to_owned()
}

fn number(report: &Value, name: &str) -> Result<f64, String> {
    report[name].as_f64().ok_or_else(|| format!("no {name} in the report"))
}

/// Shows how far the run is: a bar on a terminal, else a line for each cell.
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

    /// The first so many cells have ended, this one last.
    fn ended(&self, number: usize, cell: Option<&Cell>) {
        let told = cell.map_or(String::new(), |cell| {
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
                bar.set_message(told);
            }
            // Progress that cannot be written is not missed.
            None if !told.is_empty() => {
                drop(writeln!(stderr(), "[{number}/{}] {told}", self.cells))
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

    #[test]
    fn a_reason_is_the_last_line_without_the_name_of_the_program() {
        assert_eq!(reason("a warning\nduality: blocks under gcd: no\n"), "blocks under gcd: no");
        assert_eq!(reason(""), "it ended without a word");
    }
}
