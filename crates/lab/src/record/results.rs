//! The results file: each cell is appended as soon as it ends, so no measurement is lost.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::slice;

use crate::failure::Failure;
use crate::record::CellKey;
use crate::record::lines::{Lines, whole};
use crate::record::{Block, Cell, Design, Heading, Outcome, Record, Records, Session, VERSION};

/// The reason why a results file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file or its directory.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A results file exists already.
    #[error("{0} is there already: go on with it by --resume, or choose another --out")]
    Exists(PathBuf),
    /// A line that cannot be read.
    #[error("{path}, line {line}: {problem}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// The error.
        problem: String,
    },
    /// Another experiment.
    #[error(
        "{0} holds another experiment: resume with the flags it was begun with, or choose another --out"
    )]
    Different(PathBuf),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::File { path, source } => Self::of_system(source, path.display()),
            mistake => Self::misuse(mistake),
        }
    }
}

/// The name of a results file in the directory of its experiment.
const NAME: &str = "results.jsonl";

/// An open results file.
pub struct Results {
    lines: Lines,
    path: PathBuf,
}

impl Results {
    /// Begins a results file in the directory `out`, which is created if it does not exist.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`], [`Error::File`].
    pub fn create(out: &Path, heading: &Heading) -> Result<Self, Error> {
        let path = out.join(NAME);
        fs::create_dir_all(out).map_err(|source| Error::File { path: out.to_owned(), source })?;
        let lines = Lines::create(&path).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => Error::Exists(path.clone()),
            _ => Error::File { path: path.clone(), source },
        })?;
        let mut results = Self { lines, path };
        results.write(&Record::Experiment(Box::new(heading.clone())))?;
        Ok(results)
    }

    /// The records of this experiment in the directory `out`, with its seed and timing. `None` if
    /// the experiment has not begun.
    ///
    /// # Errors
    ///
    /// [`Error::Different`], and the errors of [`read`].
    pub fn begun(out: &Path, design: &Design) -> Result<Option<(Design, Records)>, Error> {
        let path = out.join(NAME);
        if !path.exists() || is_empty(&path) {
            return Ok(None);
        }
        let (heading, records) = read(slice::from_ref(&path))?;
        if !continues(design, &heading.design) {
            return Err(Error::Different(path));
        }
        Ok(Some((heading.design, records)))
    }

    /// Opens the results file of an interrupted experiment, and returns its content. Removes an
    /// incomplete last line.
    ///
    /// # Errors
    ///
    /// [`Error::Different`], and the errors of [`read`].
    pub fn resume(out: &Path, design: &Design) -> Result<(Self, Heading, Records), Error> {
        let path = out.join(NAME);
        let problem = |source| Error::File { path: path.clone(), source };
        let text = fs::read_to_string(&path).map_err(problem)?;
        let (heading, records) = parse(&path, whole(&text))?;
        if !continues(design, &heading.design) {
            return Err(Error::Different(path));
        }
        let lines = Lines::resume(&path, &text).map_err(problem)?;
        Ok((Self { lines, path }, heading, records))
    }

    /// Adds a cell.
    ///
    /// # Errors
    ///
    /// [`Error::File`].
    pub fn append(&mut self, cell: &Cell) -> Result<(), Error> {
        self.write(&Record::Cell(cell.clone()))
    }

    /// Adds a block.
    ///
    /// # Errors
    ///
    /// [`Error::File`].
    pub fn append_block(&mut self, block: &Block) -> Result<(), Error> {
        self.write(&Record::Block(block.clone()))
    }

    /// Adds the end of a session.
    ///
    /// # Errors
    ///
    /// [`Error::File`].
    pub fn append_session(&mut self, session: &Session) -> Result<(), Error> {
        self.write(&Record::Session(session.clone()))
    }

    fn write(&mut self, line: &Record) -> Result<(), Error> {
        let written = self.lines.append(line);
        written.map_err(|source| Error::File { path: self.path.clone(), source })
    }
}

fn is_empty(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| about.len() == 0)
}

/// Whether an experiment of this design continues the one in `begun`. The continued experiment
/// keeps the seed, timing, control, race and ways of the earlier run. The number of blocks is
/// timing, too: the available time decides it.
fn continues(design: &Design, begun: &Design) -> bool {
    let resumed = Design {
        seed: begun.seed,
        control: begun.control.clone(),
        ways: begun.ways.clone(),
        blocks: begun.blocks,
        race: begun.race,
        warm_up_seconds: begun.warm_up_seconds,
        window_seconds: begun.window_seconds,
        ..design.clone()
    };
    resumed == *begun
}

/// Reads the results of one experiment from one or more files. If a cell was measured more than
/// once, its last outcome counts.
///
/// # Errors
///
/// [`Error::File`] and [`Error::Line`]. [`Error::Different`] if the files are of several
/// experiments.
pub fn read(paths: &[PathBuf]) -> Result<(Heading, Records), Error> {
    let mut all: Option<(Heading, Records)> = None;
    for path in paths {
        let text = fs::read_to_string(path)
            .map_err(|source| Error::File { path: path.clone(), source })?;
        let (heading, records) = parse(path, &text)?;
        match &mut all {
            None => all = Some((heading, records)),
            Some((first, gathered)) if first.design == heading.design => {
                gathered.cells.extend(records.cells);
                gathered.blocks.extend(records.blocks);
            }
            Some(_) => return Err(Error::Different(path.clone())),
        }
    }
    let (heading, Records { cells, blocks }) =
        all.unwrap_or_else(|| unreachable!("the command line asks for one file"));
    Ok((heading, Records { cells: latest(cells), blocks }))
}

/// The cells that need no measurement. A failed cell must be measured again.
pub fn done(cells: &[Cell]) -> BTreeSet<CellKey> {
    let ended = cells.iter().filter(|cell| !matches!(cell.outcome, Outcome::Failed { .. }));
    ended.map(Cell::key).collect()
}

/// The last outcome of each cell, in order.
pub(crate) fn latest(cells: Vec<Cell>) -> Vec<Cell> {
    let mut seen = BTreeSet::new();
    let mut kept: Vec<Cell> =
        cells.into_iter().rev().filter(|cell| seen.insert(cell.key())).collect();
    kept.reverse();
    kept
}

pub(crate) fn parse(path: &Path, text: &str) -> Result<(Heading, Records), Error> {
    let mut heading = None;
    let mut records = Records::default();
    let problem = |line, problem: String| Error::Line { path: path.to_owned(), line, problem };
    for (index, line) in text.lines().enumerate() {
        match serde_json::from_str(line) {
            Ok(Record::Experiment(first))
                if index == 0 && (1..=VERSION).contains(&first.version) =>
            {
                let mut first = *first;
                first.design.add_older_carriers();
                heading = Some(first);
            }
            Ok(Record::Experiment(first)) if index == 0 => {
                let message =
                    format!("format version {} is not {VERSION}, this program's", first.version);
                return Err(problem(1, message));
            }
            Ok(Record::Cell(cell)) if heading.is_some() => records.cells.push(cell),
            Ok(Record::Block(block)) if heading.is_some() => records.blocks.push(block),
            Ok(Record::Session(session)) if heading.is_some() => records.close(&session),
            Ok(_) => {
                return Err(problem(
                    index + 1,
                    "an experiment's line comes first, and once".into(),
                ));
            }
            // A crash may have cut the last line short.
            Err(_) if index + 1 == text.lines().count() && !text.ends_with('\n') => {}
            Err(error) => return Err(problem(index + 1, format!("{error}: not a results file?"))),
        }
    }
    let heading =
        heading.ok_or_else(|| problem(1, "there is no experiment in this file".into()))?;
    Ok((heading, records))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::Machine;
    use crate::record::design::tests::design;

    pub(crate) fn heading() -> Heading {
        Heading {
            version: VERSION,
            duality: "0".into(),
            plan: None,
            command: vec![],
            started_at: String::new(),
            design: design(),
            machine: Machine::default(),
            hosts: Default::default(),
            constraints: Default::default(),
            current: None,
            margin: None,
            unit_costs: crate::model::UnitCosts::default(),
        }
    }

    fn failed(repeat: usize) -> Cell {
        Cell {
            subject: "epoll".into(),
            concurrency: 10,
            repeat,
            started_at: String::new(),
            outcome: Outcome::Failed { reason: "why".into() },
        }
    }

    fn unavailable(repeat: usize) -> Cell {
        Cell { outcome: Outcome::lacking("why"), ..failed(repeat) }
    }

    #[test]
    fn what_is_written_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let mut results = Results::create(directory.path(), &heading()).unwrap();
        results.append(&failed(0)).unwrap();
        results.append(&unavailable(0)).unwrap();
        let (read, records) = read(&[directory.path().join("results.jsonl")]).unwrap();
        assert_eq!((read, records.cells), (heading(), vec![unavailable(0)]));
    }

    #[test]
    fn an_existing_file_is_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        Results::create(directory.path(), &heading()).unwrap();
        let error = Results::create(directory.path(), &heading()).err().unwrap();
        assert!(error.to_string().contains("--resume"), "{error}");
    }

    #[test]
    fn an_empty_file_is_no_experiment() {
        let directory = tempfile::tempdir().unwrap();
        assert!(Results::begun(directory.path(), &design()).unwrap().is_none());
        fs::write(directory.path().join(NAME), "").unwrap();
        assert!(Results::begun(directory.path(), &design()).unwrap().is_none());
        Results::create(directory.path(), &heading()).unwrap();
        assert!(Results::begun(directory.path(), &design()).unwrap().is_some());
    }

    #[test]
    fn resuming_forgets_a_torn_line_and_measures_failures_again() {
        let directory = tempfile::tempdir().unwrap();
        let mut results = Results::create(directory.path(), &heading()).unwrap();
        results.append(&unavailable(0)).unwrap();
        results.append(&failed(1)).unwrap();
        let mut text = fs::read_to_string(&results.path).unwrap();
        text += "{\"kind\":\"cell\",\"arch";
        fs::write(&results.path, text).unwrap();
        let (mut results, _, Records { cells, .. }) =
            Results::resume(directory.path(), &design()).unwrap();
        assert_eq!(done(&cells).len(), 1);
        results.append(&unavailable(1)).unwrap();
        let (_, Records { cells, .. }) = read(&[directory.path().join("results.jsonl")]).unwrap();
        assert_eq!(cells, [unavailable(0), unavailable(1)]);
    }

    #[test]
    fn more_time_goes_on_with_the_timing_that_was_begun() {
        let directory = tempfile::tempdir().unwrap();
        Results::create(directory.path(), &heading()).unwrap();
        let longer = Design { blocks: 90, window_seconds: 3.0, warm_up_seconds: 1.0, ..design() };
        let (begun, _) = Results::begun(directory.path(), &longer).unwrap().unwrap();
        assert_eq!(begun, design());
        Results::resume(directory.path(), &longer).unwrap();
    }

    #[test]
    fn another_experiment_is_not_resumed() {
        let directory = tempfile::tempdir().unwrap();
        Results::create(directory.path(), &heading()).unwrap();
        let other = Design { service: "echo".into(), ..design() };
        let error = Results::resume(directory.path(), &other).err().unwrap();
        assert!(matches!(error, Error::Different(_)), "{error}");
    }

    #[test]
    fn a_file_that_is_none_of_ours_is_named_with_its_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        fs::write(&path, "hello\n").unwrap();
        assert!(read(&[path]).unwrap_err().to_string().contains("line 1"));
    }
}
