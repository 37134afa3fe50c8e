//! `duality report DIRECTORY`: the pages of a run again, from its results alone; and its tables as Markdown.

use std::fs;
use std::path::{Path, PathBuf};

use duality_lab::record::{Cell, Experiment};
use duality_lab::report::RawLines;
use duality_lab::report::index::{self, Index};
use duality_lab::report::markdown::{self, Table};
use duality_lab::summary::Summary;
use duality_lab::{report as page, results};

use super::{Failure, print};

/// What `compare` calls the results of an experiment.
const RESULTS: &str = "results.jsonl";

/// The results of an experiment.
struct Found {
    /// Where its page belongs.
    directory: PathBuf,
    /// Of several, its name.
    name: String,
    experiment: Experiment,
    cells: Vec<Cell>,
}

/// Writes the page of each experiment whose results are in `run`, beside them; of a plan's, the index, too.
pub(super) fn rebuild(run: &Path) -> Result<(), Failure> {
    let all = find(run)?;
    let origin = all.iter().find_map(|found| found.experiment.plan.as_ref());
    // Results that lie in the directory itself are of no plan, or of one experiment alone.
    let is_plan = all.iter().all(|found| found.directory != run);
    let mut index = origin.filter(|_| is_plan).map(Index::of);
    for Found { directory, name, experiment, cells } in &all {
        let told = |path: &Path| path.display().to_string();
        let path = directory.join("report.html");
        RawLines::read(&[directory.join(RESULTS)])
            .and_then(|raw| page::write(&path, experiment, cells, &raw))
            .map_err(|error| Failure::failed(format!("{}: {error}", told(&path))))?;
        if is_plan {
            print(&index::heading(name, &experiment.design))?;
        }
        print(&Summary::of(experiment, cells).render_text())?;
        eprintln!("report: {}", told(&path));
        if let Some(index) = &mut index {
            index.add(name, experiment, cells);
        }
    }
    if let Some(index) = index {
        let path = run.join("index.html");
        index
            .write(&path)
            .map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
        eprintln!("index of the reports: {}", path.display());
    }
    Ok(())
}

/// Prints tables of each experiment whose results are in `run`, or are `run`.
pub(super) fn tables(run: &Path, which: &[Table]) -> Result<(), Failure> {
    let all = find(run)?;
    let alone = all.len() == 1;
    let text = all.iter().map(|Found { name, experiment, cells, .. }| {
        let heading = if alone { String::new() } else { format!("### {name}\n\n") };
        heading + &markdown::tables(experiment, cells, which)
    });
    print(&text.collect::<String>())
}

/// The results in a run's directory, in the order in which they were measured: its own, or those of the experiments of a
/// plan; or those in a file.
fn find(run: &Path) -> Result<Vec<Found>, Failure> {
    let told = |error: std::io::Error| Failure::misuse(format!("{}: {error}", run.display()));
    let own = run.join(RESULTS);
    let mut paths = Vec::new();
    if run.is_file() {
        paths.push(run.to_owned());
    } else if own.is_file() {
        paths.push(own);
    } else {
        for entry in fs::read_dir(run).map_err(told)? {
            let path = entry.map_err(told)?.path().join(RESULTS);
            paths.extend(path.is_file().then_some(path));
        }
    }
    if paths.is_empty() {
        let problem =
            format!("{}: there is no {RESULTS} in it, nor in what is in it", run.display());
        return Err(Failure::misuse(problem));
    }
    let mut all = Vec::new();
    for path in paths {
        let (experiment, cells) = results::read(std::slice::from_ref(&path))
            .map_err(|error| Failure::misuse(error.to_string()))?;
        let directory = path.parent().unwrap_or(Path::new("")).to_owned();
        let name =
            directory.file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
        all.push(Found { directory, name, experiment, cells });
    }
    // By time; of two that began in one second, by name, so that the page is the same each time.
    all.sort_by(|one, other| {
        let key = |found: &Found| (found.experiment.started_at.clone(), found.name.clone());
        key(one).cmp(&key(other))
    });
    Ok(all)
}
