//! Earlier runs, found by their files.

use std::fs;
use std::path::{Path, PathBuf};

use duality_lab::record::results;
use duality_lab::record::{Heading, Records};
use duality_lab::tell::answer::Answer;
use duality_lab::tell::report as page;
use duality_lab::tell::report::RawLines;

use super::{Blame, Failure, Party};

/// The name of a results file in the directory of its experiment.
pub(super) const RESULTS: &str = "results.jsonl";

/// The experiments of a run.
pub(super) struct Run {
    /// The path of the run.
    pub(super) path: PathBuf,
    /// The experiments, in the order of measurement.
    pub(super) experiments: Vec<Found>,
}

/// An experiment of a run.
pub(super) struct Found {
    /// The results.
    pub(super) file: PathBuf,
    pub(super) results: (Heading, Records),
}

impl Run {
    /// Reads one results file, a directory's file, or the files of a plan's directory.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let failure = |error| Failure::misuse(format!("{}: {error}", path.display()));
        let own = path.join(RESULTS);
        let files = if !path.is_dir() {
            vec![path.to_owned()]
        } else if own.exists() {
            vec![own]
        } else {
            let entries = fs::read_dir(path).map_err(failure)?;
            let files = entries.map(|entry| Ok(entry.map_err(failure)?.path().join(RESULTS)));
            let mut files = files.collect::<Result<Vec<PathBuf>, Failure>>()?;
            files.retain(|file| file.exists());
            files
        };
        if files.is_empty() {
            return Err(Failure::misuse(format!(
                "{}: there is no {RESULTS} in it, nor in its directories: name what `compare --out` was given",
                path.display()
            )));
        }
        let mut experiments =
            files.into_iter().map(Found::read).collect::<Result<Vec<Found>, Failure>>()?;
        // Two experiments that began in the same second are in the order of the plan, or else by
        // name. So a page is always the same.
        experiments.sort_by_cached_key(|found| {
            let heading = &found.results.0;
            let number = heading.plan.as_ref().map(|plan| plan.number);
            (heading.started_at.clone(), number, found.file.clone())
        });
        Ok(Self { path: path.to_owned(), experiments })
    }

    /// Whether the run's experiments are a plan's, each in its own directory.
    pub(super) fn is_of_plan(&self) -> bool {
        self.path.is_dir() && !self.path.join(RESULTS).exists()
    }
}

impl Found {
    fn read(file: PathBuf) -> Result<Self, Failure> {
        let results = results::read(std::slice::from_ref(&file));
        let results = results.blame(Party::User)?;
        Ok(Self { file, results })
    }

    /// The experiment's name in its plan, if it has a plan.
    pub(super) fn name(&self) -> Option<&str> {
        self.results.0.plan.as_ref().map(|plan| plan.experiment.as_str())
    }

    /// The directory of the experiment.
    pub(super) fn directory(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new(""))
    }

    /// Writes the experiment's page.
    pub(super) fn write_page(&self, path: &Path, answer: &Answer<'_>) -> Result<(), Failure> {
        RawLines::read(std::slice::from_ref(&self.file))
            .and_then(|raw| page::write(path, answer, &raw))
            .map_err(|error| unwritten(path, &error))
    }
}

pub(super) fn unwritten(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Party::Machine, format!("{}: {error}", path.display()))
}
