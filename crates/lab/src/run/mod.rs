//! Running an experiment: cells, each in a window with a fresh server, and blocks of slices through the servers of a session.
//!
//! ```text
//!   repeat 0   10 connections:  a session: servers start, one window each (cells) │ block │ block │ …
//!              100 connections: a session: …
//!              10,000:          windows in turn: server, window, end │ server, window, end │ …
//!   repeat 1   …
//! ```

mod clock;
mod command;
pub(crate) mod noise;
mod part;
mod session;
mod window;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use crate::display::Display;
use crate::machine;
use crate::no_server::NoServer;
use crate::peers::ReadyMade;
use crate::plan::{CellKey, Plan};
use crate::record::{Block, Cell, Experiment, Outcome, Records, VERSION};
use crate::results::{self, Results};
use crate::server;
use crate::store::OpenStore;

pub use clock::Clock;
pub use part::seconds_missing;

use noise::Watch;
use part::Part;
use window::Window;

/// What an experiment came to.
#[derive(Debug)]
pub struct Finished {
    /// What was measured, and where.
    pub experiment: Experiment,
    /// What has been measured, in earlier runs, too.
    pub records: Records,
    /// Whether that is all.
    pub complete: bool,
    /// Whether it is not since the plan's budget was spent.
    pub out_of_time: bool,
}

/// Runs a plan until the `clock` stops, and writes `results.jsonl` into the directory `out`, a line
/// as soon as a cell or a block ends.
///
/// # Errors
///
/// Those of the results file. A cell that fails is an outcome, not an error.
pub fn compare(
    plan: &Plan,
    out: &Path,
    resume: bool,
    clock: Clock<'_>,
) -> Result<Finished, results::Error> {
    // A plan may have been cut short before this experiment began.
    let (results, experiment, records) = if resume && Results::begun(out, &plan.design)?.is_some() {
        let (results, begun, records) = Results::resume(out, &plan.design)?;
        // What is asked of the results may be asked anew.
        let constraints = plan.constraints.clone();
        (results, Experiment { constraints, ..begun }, records)
    } else {
        let experiment = begin(plan);
        (Results::create(out, &experiment)?, experiment, Records::default())
    };
    // A resumed experiment goes on with the seed and timing it was begun with.
    let plan = &Plan { design: experiment.design.clone(), ..plan.clone() };
    let mut display = Display::new(&experiment.design);
    records.cells.iter().for_each(|cell| display.ended(cell));
    records.blocks.iter().for_each(|block| display.block_ended(block));
    let mut journal = Journal { results, display, records, experiment };
    let complete = run(plan, &mut journal, clock)?;
    journal.display.finish();
    let out_of_time = !complete && !clock.is_interrupted();
    let Journal { records: Records { cells, blocks }, experiment, .. } = journal;
    let records = Records { cells: results::latest(cells), blocks };
    Ok(Finished { experiment, records, complete, out_of_time })
}

/// Where what was measured goes: into the file, onto the screen, and into memory.
struct Journal {
    results: Results,
    display: Display,
    records: Records,
    experiment: Experiment,
}

impl Journal {
    fn cell(&mut self, cell: Cell) -> Result<(), results::Error> {
        self.display.ended(&cell);
        self.results.append(&cell)?;
        self.records.cells.push(cell);
        Ok(())
    }

    fn block(&mut self, block: Block) -> Result<(), results::Error> {
        self.display.block_ended(&block);
        self.results.append_block(&block)?;
        self.records.blocks.push(block);
        Ok(())
    }
}

fn begin(plan: &Plan) -> Experiment {
    let mut machine = machine::describe();
    machine.settings.extend(
        plan.store
            .as_ref()
            .map(|store| ("store".to_owned(), store.describe(&plan.design.client_cpus))),
    );
    machine.settings.extend(plan.design.peers.iter().filter_map(|peer| {
        Some((format!("peer {}", peer.name), ReadyMade::named(&peer.name)?.version()?))
    }));
    Experiment {
        version: VERSION,
        duality: env!("CARGO_PKG_VERSION").to_owned(),
        command: plan.command.clone(),
        started_at: now(),
        design: plan.design.clone(),
        plan: plan.origin.clone(),
        machine,
        constraints: plan.constraints.clone(),
        unit_costs: plan.unit_costs.clone(),
    }
}

/// The present, in UTC and whole seconds (RFC 3339).
pub fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

/// Measures what is missing, until the time is up; whether nothing is missing then.
///
/// Sessions share the time, so that a slow machine measures fewer blocks in each, and not the last
/// session not at all. Cells that are measured in turn cannot be shortened: they take the time that
/// they take.
fn run(plan: &Plan, journal: &mut Journal, clock: Clock<'_>) -> Result<bool, results::Error> {
    let parts = Part::all(plan);
    let lengths: Vec<f64> =
        parts.iter().map(|part| part.seconds_missing(plan, &journal.records)).collect();
    let mut complete = true;
    for (place, part) in parts.iter().enumerate() {
        complete &= match part {
            Part::Session(keys) => {
                let own = clock.share(lengths[place], lengths[place..].iter().sum());
                session::run(plan, keys, journal, own)?
            }
            Part::InTurn(keys) => {
                let mut measure = |key: &CellKey| measure(plan, key, clock.interrupted());
                let done = results::done(&journal.records.cells);
                let tell = |cell: Cell| journal.cell(cell);
                let keys = keys.iter().filter(|key| !done.contains(key));
                windows_in_turn(plan, keys, &mut measure, &|| clock.is_over(), tell)?
            }
        };
        if !complete && clock.is_over() {
            return Ok(false);
        }
    }
    Ok(complete)
}

/// Measures cells one after the other; whether all were.
fn windows_in_turn<'a>(
    plan: &Plan,
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
        let outcome = match plan.why_unavailable(key) {
            Some(reason) => Some(Outcome::Unavailable { reason: reason.to_owned() }),
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

/// Measures a cell with a server of its own; none when it was interrupted.
fn measure(plan: &Plan, key: &CellKey, interrupted: &AtomicBool) -> Option<Outcome> {
    let outcome = try_measure(plan, key, interrupted).unwrap_or_else(not_started);
    (!interrupted.load(Ordering::Relaxed)).then_some(outcome)
}

fn try_measure(plan: &Plan, key: &CellKey, interrupted: &AtomicBool) -> Result<Outcome, NoServer> {
    let design = &plan.design;
    let store = plan.store.as_ref().map(|store| store.open(&design.client_cpus));
    let mut store = store.transpose()?;
    // It ends before its store does, for it is dropped first.
    let mut server = server::start(plan, key, store.as_ref())?;
    let mut watch = Watch::new(&design.server_cpus, &design.client_cpus);
    let outcome = if let Some(words) = &design.load_command {
        let load = command::Load { words, plan, interrupted };
        load.window(key, &mut *server, &mut watch)
    } else {
        let options = plan.load(server.address(), key).map_err(NoServer::Failed)?;
        let mut window = Window::of(&mut *server, &mut watch);
        let report = duality_load::run(&options, &mut window, interrupted);
        window.outcome(report, plan, &key.subject)
    };
    Ok(match store.as_mut().and_then(OpenStore::problem) {
        Some(reason) => Outcome::Failed { reason },
        None => outcome,
    })
}

fn not_started(none: NoServer) -> Outcome {
    match none {
        NoServer::Unavailable(reason) => Outcome::Unavailable { reason },
        NoServer::Failed(reason) => Outcome::Failed { reason },
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use super::*;
    use crate::plan;

    /// A plan in which threads are not to be had.
    fn plan() -> Plan {
        let unavailable =
            [1, 10, 100].map(|many| (("threads".to_owned(), many), "no threads".to_owned())).into();
        Plan { unavailable, ..plan::tests::plan() }
    }

    /// Measures with a mock, which is interrupted after so many cells, what is not `done`: all cells, which were tried, and
    /// whether it is complete.
    fn run_mock(
        plan: &Plan,
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
        let all = plan::cells(&plan.design);
        let keys = all.iter().filter(|key| !known.contains(key));
        let is_over = || ended.borrow().len() == stop_after;
        let complete = windows_in_turn(plan, keys, &mut measure, &is_over, |cell| {
            ended.borrow_mut().push(cell);
            Ok(())
        });
        (results::latest(ended.into_inner()), tried, complete.unwrap())
    }

    #[test]
    fn unavailable_cells_are_recorded_and_not_tried() {
        let (cells, tried, complete) = run_mock(&plan(), &[], usize::MAX, usize::MAX);
        assert!(complete);
        assert_eq!((cells.len(), tried.len()), (18, 9));
        assert!(tried.iter().all(|key| key.subject == "epoll"));
    }

    #[test]
    fn an_interruption_keeps_what_there_is_and_a_resumption_does_the_rest() {
        let plan = Plan { unavailable: BTreeMap::new(), ..plan() };
        let (cells, _, complete) = run_mock(&plan, &[], 5, usize::MAX);
        assert_eq!((cells.len(), complete), (5, false));
        // Failures are measured again.
        let (cells, tried, complete) = run_mock(&plan, &cells, usize::MAX, usize::MAX);
        assert_eq!((cells.len(), tried.len(), complete), (18, 18, true));
    }

    #[test]
    fn when_the_time_is_over_the_cell_that_runs_is_the_last() {
        let (cells, _, complete) = run_mock(&plan(), &[], usize::MAX, 7);
        assert_eq!((cells.len(), complete), (7, false));
    }
}
