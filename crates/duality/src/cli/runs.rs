//! Runs that were measured before, found again in their files.

use std::fs;
use std::path::{Path, PathBuf};

use duality_lab::record::results;
use duality_lab::record::{Heading, Records};
use duality_lab::tell::answer::Answer;
use duality_lab::tell::report as page;
use duality_lab::tell::report::RawLines;

use super::Failure;

/// What a results file is called in the directory of its experiment.
pub(super) const RESULTS: &str = "results.jsonl";

/// The experiments of a run.
pub(super) struct Run {
    /// Where it was found.
    pub(super) path: PathBuf,
    /// In the order in which they were measured.
    pub(super) experiments: Vec<Found>,
}

/// An experiment of a run.
pub(super) struct Found {
    /// The results.
    pub(super) file: PathBuf,
    pub(super) results: (Heading, Records),
}

impl Run {
    /// Reads a results file, that of a directory, or those of a plan's directory.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let told = |error| Failure::misuse(format!("{}: {error}", path.display()));
        let own = path.join(RESULTS);
        let files = if !path.is_dir() {
            vec![path.to_owned()]
        } else if own.exists() {
            vec![own]
        } else {
            let entries = fs::read_dir(path).map_err(told)?;
            let files = entries.map(|entry| Ok(entry.map_err(told)?.path().join(RESULTS)));
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
        // Two that began in one second are in the order of the plan, or else by name. So a page is
        // the same each time.
        experiments.sort_by_cached_key(|found| {
            let heading = &found.results.0;
            let number = heading.plan.as_ref().map(|plan| plan.number);
            (heading.started_at.clone(), number, found.file.clone())
        });
        Ok(Self { path: path.to_owned(), experiments })
    }

    /// Whether its experiments are those of a plan, each in a directory of its own.
    pub(super) fn is_of_plan(&self) -> bool {
        self.path.is_dir() && !self.path.join(RESULTS).exists()
    }
}

impl Found {
    fn read(file: PathBuf) -> Result<Self, Failure> {
        let results = results::read(std::slice::from_ref(&file));
        let results = results.map_err(|error| Failure::misuse(error.to_string()))?;
        Ok(Self { file, results })
    }

    /// The name in the plan, if it is of a plan.
    pub(super) fn name(&self) -> Option<&str> {
        self.results.0.plan.as_ref().map(|plan| plan.experiment.as_str())
    }

    /// Where it is.
    pub(super) fn directory(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new(""))
    }

    /// Writes its page.
    pub(super) fn write_page(&self, path: &Path, answer: &Answer<'_>) -> Result<(), Failure> {
        RawLines::read(std::slice::from_ref(&self.file))
            .and_then(|raw| page::write(path, answer, &raw))
            .map_err(|error| unwritten(path, &error))
    }
}

pub(super) fn unwritten(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("{}: {error}", path.display()))
}
