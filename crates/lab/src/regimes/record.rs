//! The file of a run of regimes: `regimes.jsonl`. The first line has the plan, and each other line
//! the results of a cell.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::derive::{Plot, RecordedRequest, Sums};
use super::plan::{Mode, Plan, Regime};
use crate::failure::{AtFile, Failure};
use crate::measure::machine;
use crate::record::lines::{Lines, whole};
use crate::record::{Disturbance, Machine};

/// The name of the file.
pub const FILE: &str = "regimes.jsonl";
/// The version of the file's form. The version changes when a field changes its meaning, and not
/// for a new field. Version 1 numbered the bins of [`Sums`] so that two had one number. This
/// program also reads version 1.
const VERSION: u32 = 2;
/// The number of requests of a cell that are kept as points.
const POINTS: usize = 150;

/// The first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Heading {
    version: u32,
    /// The heading of the report.
    pub title: String,
    /// The document with the experiment that was repeated.
    pub source: Option<String>,
    /// The service.
    pub service: String,
    /// How clients reached the server.
    pub mode: Mode,
    /// The subjects, in the order of the plan: name, and arguments of `duality serve`.
    pub subjects: Vec<(String, Vec<String>)>,
    /// The loads.
    pub regimes: Vec<Regime>,
    /// The number of repeats of each cell.
    pub repeats: usize,
    /// The number of swings of the waits in a cell.
    pub swings: u32,
    /// The seed of the order of cells.
    pub seed: u64,
    /// The time at which the run began, UTC.
    pub started_at: String,
    /// Where.
    pub machine: Machine,
}

impl Heading {
    /// The heading of a run of this plan that begins now on this machine.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let arguments = |choice: &crate::ask::variant::Choice| {
            let architecture = format!("--architecture={}", choice.architecture);
            [architecture].into_iter().chain(choice.options.clone()).collect()
        };
        Self {
            version: VERSION,
            title: plan.title.clone(),
            source: plan.source.clone(),
            service: plan.service.clone(),
            mode: plan.mode,
            subjects: plan.subjects.iter().map(|one| (one.name.clone(), arguments(one))).collect(),
            regimes: plan.regimes.clone(),
            repeats: plan.repeats,
            swings: plan.swings,
            seed: plan.seed,
            started_at: crate::measure::now(),
            machine: machine::describe(),
        }
    }

    /// Whether bins of the curves were mixed, and are now one point, from x = 24 to 63.5.
    #[must_use]
    pub fn has_mixed_bins(&self) -> bool {
        self.version == 1
    }

    /// Whether both headings ask for the same measurements.
    fn asks_as(&self, other: &Self) -> bool {
        let (started_at, machine) = (self.started_at.clone(), self.machine.clone());
        *self == Self { started_at, machine, ..other.clone() }
    }
}

/// A cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The servers.
    pub subject: String,
    /// The name of the regime.
    pub regime: String,
    /// From 0.
    pub repeat: usize,
    /// The outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// The outcome of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Outcome {
    /// All clients were answered.
    Measured(Box<Measured>),
    /// The cell is unavailable here, or was given up.
    Missing {
        /// One line.
        reason: String,
    },
}

impl Outcome {
    fn renumber_version_1(&mut self) {
        if let Self::Measured(measured) = self {
            measured.sums.values_mut().for_each(Sums::renumber_version_1);
        }
    }
}

/// Figures of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Answers in a second, from the first client to the end of the last client.
    pub requests_per_second: f64,
    /// The server's processor time without the injecting thread's. Unknown over TCP.
    pub server_cpu_us_per_request: Option<f64>,
    /// The median of T.
    pub time_p50_us: f64,
    /// The T that 99 % of requests did not reach.
    pub time_p99_us: f64,
    /// The most clients that were connected at a time.
    pub peak_clients: u64,
    /// The disturbance on the processors meanwhile. Empty in runs that did not watch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
    /// Of some requests, evenly spread over the cell: T in µs, #B, #CP.
    pub points: Vec<(f64, u64, f64)>,
    /// The sums of all requests, for each plot.
    pub sums: BTreeMap<Plot, Sums>,
}

impl Measured {
    /// The figures from the records of all requests of a cell, at least one.
    #[must_use]
    pub fn of(requests: &[RecordedRequest], rate: f64, cpu_us: Option<f64>) -> Self {
        let mut times: Vec<f64> = requests.iter().map(|request| request.time * 1e6).collect();
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        let step = requests.len().div_ceil(POINTS);
        let point = |request: &RecordedRequest| {
            ((request.time * 1e9).round() / 1e3, request.blocks, request.clients())
        };
        let sums = |plot: Plot| Sums::of(requests.iter().filter_map(|one| plot.place(one)));
        Self {
            requests_per_second: rate,
            server_cpu_us_per_request: cpu_us,
            time_p50_us: at(0.5),
            time_p99_us: at(0.99),
            peak_clients: requests.iter().map(|one| one.clients_twice / 2).max().unwrap_or(0),
            disturbance: None,
            points: requests.iter().step_by(step).map(point).collect(),
            sums: Plot::ALL.into_iter().map(|plot| (plot, sums(plot))).collect(),
        }
    }
}

/// A run that is being written.
#[derive(Debug)]
pub struct Results {
    lines: Lines,
    /// The cells measured so far.
    pub cells: Vec<Cell>,
}

impl Results {
    /// Begins a run in the directory. With `resume`, continues the run there.
    ///
    /// # Errors
    ///
    /// One line: the directory holds another run, or cannot be written.
    pub fn open(directory: &Path, heading: &Heading, resume: bool) -> Result<Self, Failure> {
        let path = directory.join(FILE);
        let place = path.display();
        fs::create_dir_all(directory).at_file(&place)?;
        let begun = path.exists();
        if begun && !resume {
            let problem = format!("{} holds results already", directory.display());
            return Err(
                Failure::misuse(problem).remedy("go on by --resume, or choose another --out")
            );
        }
        if begun {
            let (before, measured) = read(directory)?;
            if before.version != VERSION {
                let version = before.version;
                let problem = format!(
                    "{place}: it is of version {version}, and the cells of that version have other bins"
                );
                return Err(Failure::misuse(problem).remedy("choose another --out"));
            }
            if !before.asks_as(heading) {
                let problem = format!("{place}: it is of another plan");
                return Err(Failure::misuse(problem).remedy("choose another --out"));
            }
            let text = fs::read_to_string(&path).at_file(&place)?;
            let lines = Lines::resume(&path, &text).at_file(&place)?;
            return Ok(Self { lines, cells: measured });
        }
        let mut lines = Lines::create(&path).at_file(&place)?;
        lines.append(heading).at_file(&place)?;
        Ok(Self { lines, cells: Vec::new() })
    }

    /// Whether the cell has been measured.
    #[must_use]
    pub fn has(&self, subject: &str, regime: &str, repeat: usize) -> bool {
        self.cells
            .iter()
            .any(|cell| cell.subject == subject && cell.regime == regime && cell.repeat == repeat)
    }

    /// Keeps a cell.
    ///
    /// # Errors
    ///
    /// Fails if the cell cannot be written.
    pub fn add(&mut self, cell: Cell) -> io::Result<()> {
        self.lines.append(&cell)?;
        self.cells.push(cell);
        Ok(())
    }
}

/// Reads a run. An incomplete last line is left out.
///
/// # Errors
///
/// One line that names the file and the line.
pub fn read(directory: &Path) -> Result<(Heading, Vec<Cell>), Failure> {
    let path = directory.join(FILE);
    let place = path.display();
    let text = fs::read_to_string(&path).at_file(&place)?;
    // As much as a resumed run keeps.
    let text = whole(&text);
    let wrong = |number: usize, error: serde_json::Error| {
        let problem = format!("{place}:{}: {error}: is it a file of `compare`?", number + 1);
        Failure::misuse(problem)
    };
    let first = text.lines().next().unwrap_or_default();
    let heading: Heading = serde_json::from_str(first).map_err(|error| wrong(0, error))?;
    if !(1..=VERSION).contains(&heading.version) {
        let version = heading.version;
        let problem =
            format!("{place}: it is of version {version}, and this program reads up to {VERSION}");
        return Err(Failure::misuse(problem).remedy("use a newer program"));
    }
    let mut cells = Vec::new();
    for (number, line) in text.lines().enumerate().skip(1) {
        let mut cell: Cell = serde_json::from_str(line).map_err(|error| wrong(number, error))?;
        if heading.has_mixed_bins() {
            cell.outcome.renumber_version_1();
        }
        cells.push(cell);
    }
    Ok((heading, cells))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_on_where_it_was_cut_off() {
        let directory = tempfile::tempdir().unwrap();
        let text = "[regimes]\nsubjects = ['threads']\n[[regime]]\nwait = '10us'\n";
        let heading = Heading::of(&Plan::read(text).unwrap());
        let request = RecordedRequest::read("0,1000,0,5,1,2").unwrap();
        let cell = |repeat| Cell {
            subject: "threads".to_owned(),
            regime: "10us".to_owned(),
            repeat,
            outcome: Outcome::Measured(Box::new(Measured::of(&[request; 3], 10.0, None))),
        };
        let mut results = Results::open(directory.path(), &heading, false).unwrap();
        results.add(cell(0)).unwrap();
        let path = directory.path().join(FILE);
        let text = fs::read_to_string(&path).unwrap();
        // Wherever a crash cuts the file, what counts as measured is what the file has afterwards.
        for cut in text.find('\n').unwrap() + 1..=text.len() {
            fs::write(&path, &text[..cut]).unwrap();
            let counted = Results::open(directory.path(), &heading, true).unwrap().cells;
            assert_eq!(counted, read(directory.path()).unwrap().1, "{cut}");
            assert_eq!(counted.len(), usize::from(cut == text.len()), "{cut}");
        }
        fs::write(&path, text + "{\"subject\":\"thread").unwrap();
        assert!(
            Results::open(directory.path(), &heading, false)
                .unwrap_err()
                .to_string()
                .contains("--resume")
        );
        let again = Results::open(directory.path(), &heading, true).unwrap();
        assert!(again.has("threads", "10us", 0) && !again.has("threads", "10us", 1));
        assert_eq!(again.cells, [cell(0)]);
        let other = Heading { seed: 2, ..heading.clone() };
        assert!(
            Results::open(directory.path(), &other, true)
                .unwrap_err()
                .to_string()
                .contains("another plan")
        );
    }

    #[test]
    fn a_run_of_version_1_is_read_with_its_mixed_bins_as_one_point_and_not_gone_on_with() {
        let directory = tempfile::tempdir().unwrap();
        let text = "[regimes]\nsubjects = ['threads']\n[[regime]]\nwait = '10us'\n";
        let heading = Heading { version: 1, ..Heading::of(&Plan::read(text).unwrap()) };
        let request =
            |blocks: u64| RecordedRequest::read(&format!("0,1000,0,{blocks},1,2")).unwrap();
        let mut measured = Measured::of(&[request(24), request(40)], 10.0, None);
        let kept = vec![(48, 1, 24.0, 1e-6), (52, 1, 40.0, 1e-6)];
        measured.sums.insert(Plot::TimeBlocks, Sums::from(kept));
        let cell = Cell {
            subject: "threads".to_owned(),
            regime: "10us".to_owned(),
            repeat: 0,
            outcome: Outcome::Measured(Box::new(measured)),
        };
        let mut results = Results::open(directory.path(), &heading, false).unwrap();
        results.add(cell).unwrap();
        let (heading, cells) = read(directory.path()).unwrap();
        let Outcome::Measured(measured) = &cells[0].outcome else { panic!("{cells:?}") };
        let places: Vec<f64> =
            measured.sums[&Plot::TimeBlocks].curve().iter().map(|one| one.x).collect();
        assert!(heading.has_mixed_bins());
        assert_eq!(places, [32.0]);
        let message = Results::open(directory.path(), &heading, true).unwrap_err().to_string();
        assert!(message.contains("version 1") && message.contains("--out"), "{message}");
    }
}
