//! Measuring an experiment: cells, each in a window with a fresh server, and blocks of slices
//! through the servers of a session.
//!
//! ```text
//!   repeat 0   10 connections:  a session: servers start, one window each (cells) │ block │ …
//!              100 connections: a session: …
//!              10,000:          windows in turn: server, window, end │ server, window, end │ …
//!   repeat 1   …
//! ```
//!
//! In a race (`race.rs`), sessions have only the subjects that may still be the best.

pub mod behaviour;
mod behind;
pub mod certificate;
pub mod child;
mod clock;
mod command;
mod display;
mod driver;
pub mod experiment;
pub mod hosts;
mod lanes;
pub(crate) mod length;
pub(crate) mod load_command;
pub mod machine;
mod meter;
pub(crate) mod no_server;
pub(crate) mod observe;
mod part;
pub mod peers;
mod preflight;
mod race;
pub mod recording;
pub(crate) mod server;
mod session;
mod shown;
pub(crate) mod spawn;
mod stage;
pub mod store;
mod throughout;
mod together;
pub mod upstream;
mod window;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use crate::live::Page;
use crate::measure::experiment::Experiment;
use crate::measure::no_server::NoServer;
use crate::measure::peers::ReadyMade;
use crate::measure::store::OpenStore;
use crate::record::CellKey;
use crate::record::results::{self, Results};
use crate::record::{Block, Cell, Heading, Outcome, Records, Session, VERSION};
use display::Display;
use driver::After;

pub use clock::Clock;
pub use part::seconds_missing;
pub use preflight::preflight;
pub use spawn::last_words;
pub use stage::Stage;

use part::Part;
use window::Window;

/// The measurements of an experiment so far.
#[derive(Debug)]
pub struct Finished {
    /// The design, and the machine.
    pub heading: Heading,
    /// The records of this run and of earlier runs.
    pub records: Records,
    /// Whether the records are complete.
    pub complete: bool,
    /// Whether the records are incomplete because the budget was spent.
    pub out_of_time: bool,
}

/// Runs an experiment on its `stage` until the `clock` stops.
///
/// `results.jsonl` in the directory `out` gets a line as soon as a cell or a block ends. A `page`
/// shows what is known so far.
///
/// # Errors
///
/// The errors of the results file. A cell that fails is an outcome, not an error.
pub fn compare(
    experiment: &Experiment,
    out: &Path,
    resume: bool,
    clock: Clock<'_>,
    stage: &Stage,
    page: Option<Page>,
) -> Result<Finished, results::Error> {
    // A plan may have been cut short before this experiment began.
    let (results, heading, records) =
        if resume && Results::begun(out, &experiment.design)?.is_some() {
            let (results, begun, records) = Results::resume(out, &experiment.design)?;
            // A resumed experiment may ask other questions about its results.
            let constraints = experiment.constraints.clone();
            let current = experiment.current.clone().or(begun.current.clone());
            let margin = experiment.margin.or(begun.margin);
            (results, Heading { constraints, current, margin, ..begun }, records)
        } else {
            let heading = begin(experiment, stage);
            (Results::create(out, &heading)?, heading, Records::default())
        };
    // A resumed experiment keeps the seed and timing with which it began.
    let experiment = &Experiment { design: heading.design.clone(), ..experiment.clone() };
    let mut display = Display::new(experiment, page);
    records.cells.iter().for_each(|cell| display.ended(cell));
    records.blocks.iter().for_each(|block| display.block_ended(block));
    let mut journal = Journal { results, display, records, heading };
    let complete = run(experiment, &mut journal, clock, stage)?;
    journal.display.finish();
    let out_of_time = !complete && !clock.is_interrupted();
    let Journal { records: Records { cells, blocks }, heading, .. } = journal;
    let records = Records { cells: results::latest(cells), blocks };
    Ok(Finished { heading, records, complete, out_of_time })
}

/// The places that get measurements: the file, the screen, and memory.
struct Journal {
    results: Results,
    display: Display,
    records: Records,
    heading: Heading,
}

impl Journal {
    fn cell(&mut self, cell: Cell) -> Result<(), results::Error> {
        self.display.ended(&cell);
        self.results.append(&cell)?;
        self.records.replace(cell);
        Ok(())
    }

    fn session(&mut self, session: &Session) -> Result<(), results::Error> {
        self.results.append_session(session)?;
        self.records.close(session);
        Ok(())
    }

    fn block(&mut self, block: Block) -> Result<(), results::Error> {
        self.display.block_ended(&block);
        self.results.append_block(&block)?;
        let concurrency = block.concurrency;
        self.records.blocks.push(block);
        if self.display.has_page() && lanes::looks_now(self, concurrency) {
            let lane = lanes::lane(self, concurrency);
            self.display.looked(lane);
        }
        Ok(())
    }
}

fn begin(experiment: &Experiment, stage: &Stage) -> Heading {
    let mut machine = machine::describe();
    machine.settings.extend(
        experiment
            .store
            .as_ref()
            .map(|store| ("store".to_owned(), store.describe(&experiment.design.client_cpus))),
    );
    machine.settings.extend(experiment.upstream.as_ref().map(|upstream| {
        ("upstream".to_owned(), upstream.describe(&experiment.design.client_cpus))
    }));
    machine.settings.extend(experiment.design.peers.iter().filter_map(|peer| {
        Some((format!("peer {}", peer.name), ReadyMade::named(&peer.name)?.version()?))
    }));
    machine.settings.extend(built(experiment));
    Heading {
        version: VERSION,
        duality: env!("CARGO_PKG_VERSION").to_owned(),
        command: experiment.command.clone(),
        started_at: now(),
        design: experiment.design.clone(),
        plan: experiment.origin.clone(),
        machine,
        hosts: stage.machines(),
        constraints: experiment.constraints.clone(),
        current: experiment.current.clone(),
        margin: experiment.margin,
        unit_costs: experiment.unit_costs.clone(),
    }
}

/// How each subject was compiled. A comparison of programs with different settings measures the
/// compiler.
fn built(experiment: &Experiment) -> impl Iterator<Item = (String, String)> {
    let design = &experiment.design;
    let builds = design.builds.iter().flat_map(|builds| &builds.builds);
    let builds = builds.map(|build| {
        let command = build.command.join(" ");
        let commit = build.commit.iter().map(|commit| format!(", commit {commit}"));
        (format!("built: {}", build.name), command + &commit.collect::<String>())
    });
    let own = (!design.architectures.is_empty() && design.builds.is_none())
        .then(|| ("built: this program".to_owned(), duality_load::built()));
    let peers = design.peers.iter().map(|peer| {
        let how = match peer.build.is_empty() {
            false => peer.build.join(" "),
            true if peers::is_of_workspace(peer) => peers::BUILT.to_owned(),
            true => "as it is installed".to_owned(),
        };
        (format!("built: {}", peer.name), how)
    });
    own.into_iter().chain(peers).chain(builds)
}

/// The current time, in UTC and whole seconds (RFC 3339).
pub fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

/// Measures the missing cells until the time is up. Returns true if no cell is missing at the end.
///
/// Sessions share the time. So on a slow machine each session has fewer blocks, and the last
/// session still has some. Cells that are measured in turn cannot be shortened.
fn run(
    experiment: &Experiment,
    journal: &mut Journal,
    clock: Clock<'_>,
    stage: &Stage,
) -> Result<bool, results::Error> {
    if experiment.design.race {
        return race::run(experiment, journal, clock, stage);
    }
    let parts = Part::all(experiment);
    let lengths: Vec<f64> =
        parts.iter().map(|part| part.seconds_missing(experiment, &journal.records)).collect();
    let mut complete = true;
    for (place, part) in parts.iter().enumerate() {
        complete &= match part {
            Part::Session(keys) => {
                let own = clock.share(lengths[place], lengths[place..].iter().sum());
                session::run(experiment, keys, journal, own, stage)?
            }
            Part::InTurn(keys) => {
                let mut measure =
                    |key: &CellKey| measure(experiment, key, clock.interrupted(), stage);
                let done = results::done(&journal.records.cells);
                let tell = |cell: Cell| journal.cell(cell);
                let keys = keys.iter().filter(|key| !done.contains(key));
                windows_in_turn(experiment, keys, &mut measure, &|| clock.is_over(), tell)?
            }
        };
        if !complete && clock.is_over() {
            return Ok(false);
        }
    }
    Ok(complete)
}

/// Measures cells one after the other. Returns whether all cells were measured.
fn windows_in_turn<'a>(
    experiment: &Experiment,
    keys: impl Iterator<Item = &'a CellKey>,
    measure: &mut dyn FnMut(&CellKey) -> Option<Outcome>,
    is_over: &dyn Fn() -> bool,
    mut tell: impl FnMut(Cell) -> Result<(), results::Error>,
) -> Result<bool, results::Error> {
    for key in keys {
        if is_over() {
            return Ok(false);
        }
        let started_at = now();
        let outcome = match experiment.why_unavailable(key) {
            Some(reason) => Some(Outcome::lacking(reason)),
            None => measure(key),
        };
        let Some(outcome) = outcome else { return Ok(false) };
        tell(cell_of(key, started_at, outcome))?;
    }
    Ok(true)
}

fn cell_of(key: &CellKey, started_at: String, outcome: Outcome) -> Cell {
    let CellKey { repeat, subject, concurrency } = key.clone();
    Cell { subject, concurrency, repeat, started_at, outcome }
}

/// Measures a cell with a server of its own. `None` when interrupted.
fn measure(
    experiment: &Experiment,
    key: &CellKey,
    interrupted: &AtomicBool,
    stage: &Stage,
) -> Option<Outcome> {
    let outcome = try_measure(experiment, key, interrupted, stage).unwrap_or_else(not_started);
    (!interrupted.load(Ordering::Relaxed)).then_some(outcome)
}

fn try_measure(
    experiment: &Experiment,
    key: &CellKey,
    interrupted: &AtomicBool,
    stage: &Stage,
) -> Result<Outcome, NoServer> {
    let mut store = stage.store(experiment)?;
    // The server is dropped first, so it ends before its store.
    let mut server = stage.server(experiment, key, store.as_ref())?;
    let mut meter = stage.meter(experiment);
    let outcome = if let Some(words) = &experiment.design.load_command {
        let load = command::Load { words, experiment, interrupted };
        load.window(key, &mut *server, &mut *meter)
    } else {
        let mut driver = stage.driver(experiment)?;
        let mut window = Window::of(&mut *server, &mut *meter);
        let report = driver.measure(key, After::End, &mut window, interrupted);
        window.outcome(report, driver.round_trip(), experiment, &key.subject)
    };
    Ok(match store.as_mut().and_then(OpenStore::problem) {
        Some(reason) => Outcome::Failed { reason },
        None => outcome,
    })
}

fn not_started(none: NoServer) -> Outcome {
    match none {
        NoServer::Unavailable(reason) => Outcome::lacking(reason),
        NoServer::Failed(failure) => Outcome::Failed { reason: failure.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use super::*;
    use crate::measure::experiment;
    use crate::record::cells;

    /// An experiment on a machine that refuses threads.
    fn experiment() -> Experiment {
        let unavailable =
            [1, 10, 100].map(|many| (("threads".to_owned(), many), "no threads".to_owned())).into();
        Experiment { unavailable, ..experiment::tests::experiment() }
    }

    /// Measures the cells that are not `done` with a mock, which is interrupted after this many
    /// cells. Returns all cells, the tried cells, and whether the experiment is complete.
    fn run_mock(
        experiment: &Experiment,
        done: &[Cell],
        interrupt_after: usize,
        stop_after: usize,
    ) -> (Vec<Cell>, Vec<CellKey>, bool) {
        let ended = RefCell::new(done.to_vec());
        let mut tried = Vec::new();
        let mut measure = |key: &CellKey| {
            if tried.len() == interrupt_after {
                return None;
            }
            tried.push(key.clone());
            Some(Outcome::Failed { reason: "mock".into() })
        };
        let known = results::done(done);
        let all = cells(&experiment.design);
        let keys = all.iter().filter(|key| !known.contains(key));
        let is_over = || ended.borrow().len() == stop_after;
        let complete = windows_in_turn(experiment, keys, &mut measure, &is_over, |cell| {
            ended.borrow_mut().push(cell);
            Ok(())
        });
        (results::latest(ended.into_inner()), tried, complete.unwrap())
    }

    #[test]
    fn unavailable_cells_are_recorded_and_not_tried() {
        let (cells, tried, complete) = run_mock(&experiment(), &[], usize::MAX, usize::MAX);
        assert!(complete);
        assert_eq!((cells.len(), tried.len()), (18, 9));
        assert!(tried.iter().all(|key| key.subject == "epoll"));
    }

    #[test]
    fn an_interruption_keeps_what_there_is_and_a_resumption_does_the_rest() {
        let experiment = Experiment { unavailable: BTreeMap::new(), ..experiment() };
        let (cells, _, complete) = run_mock(&experiment, &[], 5, usize::MAX);
        assert_eq!((cells.len(), complete), (5, false));
        // Failed cells are measured again.
        let (cells, tried, complete) = run_mock(&experiment, &cells, usize::MAX, usize::MAX);
        assert_eq!((cells.len(), tried.len(), complete), (18, 18, true));
    }

    #[test]
    fn when_the_time_is_over_the_cell_that_runs_is_the_last() {
        let (cells, _, complete) = run_mock(&experiment(), &[], usize::MAX, 7);
        assert_eq!((cells.len(), complete), (7, false));
    }
}
