//! Running an experiment: cell after cell, each with a fresh server.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use duality_load::{Observer, Report};

use crate::counters::{self, Counters};
use crate::display::Display;
use crate::listen_queue;
use crate::machine;
use crate::model::Operations;
use crate::peers::ReadyMade;
use crate::plan::{self, CellKey, Plan};
use crate::record::{Cell, Experiment, Measured, Outcome, VERSION};
use crate::results::{self, Results};
use crate::server::{self, NoServer, Server};
use crate::store::OpenStore;

/// What an experiment came to.
#[derive(Debug)]
pub struct Finished {
    /// What was measured, and where.
    pub experiment: Experiment,
    /// The cells that ended, those of earlier runs included.
    pub cells: Vec<Cell>,
    /// Whether all did.
    pub complete: bool,
    /// Whether they did not since the plan's budget was spent.
    pub out_of_time: bool,
}

/// Measures one cell; `None` when it was interrupted.
pub(crate) trait Executor {
    fn measure(&mut self, key: &CellKey) -> Option<Outcome>;
}

/// Runs a plan and writes `results.jsonl` into the directory `out`, a line as soon as a cell ends.
///
/// # Errors
///
/// Those of the results file. A cell that fails is an outcome, not an error.
pub fn compare(
    plan: &Plan,
    out: &Path,
    resume: bool,
    interrupted: &AtomicBool,
) -> Result<Finished, results::Error> {
    let deadline = plan.budget.and_then(|budget| Instant::now().checked_add(budget));
    let out_of_time = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
    // A plan may have been cut short before this experiment began.
    let (mut results, experiment, cells) = if resume && Results::begun(out, &plan.design)? {
        let (results, begun, cells) = Results::resume(out, &plan.design)?;
        // What is asked of the results may be asked anew.
        let constraints = plan.constraints.clone();
        (results, Experiment { constraints, ..begun }, cells)
    } else {
        let experiment = begin(plan);
        (Results::create(out, &experiment)?, experiment, Vec::new())
    };
    // A resumed experiment goes on with the seed and timing it was begun with.
    let plan = &Plan { design: experiment.design.clone(), ..plan.clone() };
    let mut display = Display::new(&experiment.design);
    cells.iter().for_each(|cell| display.ended(cell));
    let mut executor = Processes { plan, interrupted };
    let is_over = || interrupted.load(Ordering::Relaxed) || out_of_time();
    let (cells, complete) = run_cells(plan, cells, &mut executor, is_over, |cell| {
        display.ended(cell);
        results.append(cell)
    })?;
    display.finish();
    let out_of_time = !complete && !interrupted.load(Ordering::Relaxed);
    Ok(Finished { experiment, cells, complete, out_of_time })
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

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Measures what `cells` does not have yet, until it `is_over`; returns all cells, and whether that is all there is.
fn run_cells(
    plan: &Plan,
    mut cells: Vec<Cell>,
    executor: &mut dyn Executor,
    is_over: impl Fn() -> bool,
    mut ended: impl FnMut(&Cell) -> Result<(), results::Error>,
) -> Result<(Vec<Cell>, bool), results::Error> {
    let done = results::done(&cells);
    for key in plan::cells(&plan.design) {
        if done.contains(&key) {
            continue;
        }
        if is_over() {
            return Ok((results::latest(cells), false));
        }
        let started_at = now();
        let place = (key.subject.clone(), key.concurrency);
        let outcome = match plan.unavailable.get(&place) {
            Some(reason) => Some(Outcome::Unavailable { reason: reason.clone() }),
            None => executor.measure(&key),
        };
        let Some(outcome) = outcome else { return Ok((results::latest(cells), false)) };
        let CellKey { repeat, subject, concurrency } = key;
        let cell = Cell { subject, concurrency, repeat, started_at, outcome };
        ended(&cell)?;
        cells.push(cell);
    }
    Ok((results::latest(cells), true))
}

/// The executor that starts processes.
struct Processes<'a> {
    plan: &'a Plan,
    interrupted: &'a AtomicBool,
}

impl Executor for Processes<'_> {
    fn measure(&mut self, key: &CellKey) -> Option<Outcome> {
        let outcome = self.try_measure(key).unwrap_or_else(|none| match none {
            NoServer::Unavailable(reason) => Outcome::Unavailable { reason },
            NoServer::Failed(reason) => Outcome::Failed { reason },
        });
        (!self.interrupted.load(Ordering::Relaxed)).then_some(outcome)
    }
}

impl Processes<'_> {
    fn try_measure(&self, key: &CellKey) -> Result<Outcome, NoServer> {
        let design = &self.plan.design;
        let store = self.plan.store.as_ref().map(|store| store.open(&design.client_cpus));
        let mut store = store.transpose()?;
        // It ends before its store does, for it is dropped first.
        let mut server = server::start(self.plan, key, store.as_ref())?;
        let options = self.plan.load(server.address(), key).map_err(NoServer::Failed)?;
        let mut window = Window::of(&mut *server);
        let report = duality_load::run(&options, &mut window, self.interrupted);
        let Window { opened, closed, queue, problem, .. } = window;
        if let Some(problem) = store.as_mut().and_then(OpenStore::problem) {
            return Ok(Outcome::Failed { reason: problem });
        }
        Ok(match (report, opened, closed) {
            (Ok(report), ..) if report.requests == 0 => {
                Outcome::Failed { reason: unanswered(&report) }
            }
            (Ok(report), Some(opened), Some(closed)) => {
                let pinned = !design.server_cpus.is_empty();
                let is_peer = design.peers.iter().any(|peer| peer.name == key.subject);
                let queue = listen_queue::examine(&report, queue);
                let diagnosis = queue.and_then(|queue| queue.warning(&report, is_peer));
                let mut figures = measured(report, opened, closed, pinned);
                figures.listen_queue = queue;
                if let Some(diagnosis) = diagnosis {
                    // It says what the generator only suspects.
                    figures.warnings.retain(|known| !known.starts_with("Accept queues"));
                    figures.warnings.insert(0, diagnosis);
                }
                Outcome::Measured(Box::new(figures))
            }
            (Err(error), ..) => Outcome::Failed { reason: error.to_string() },
            _ => {
                let error =
                    problem.unwrap_or_else(|| std::io::Error::other("the window never opened"));
                Outcome::Failed { reason: server.last_words(&error) }
            }
        })
    }
}

/// Reads the server's counters as the measured window opens and closes.
struct Window<'a> {
    server: &'a mut dyn Server,
    opened: Option<Counters>,
    closed: Option<Counters>,
    /// How many connections the server's listen queue holds.
    queue: Option<u64>,
    problem: Option<std::io::Error>,
}

impl Observer for Window<'_> {
    fn window_opened(&mut self) {
        self.opened = self.read(false);
    }

    fn window_closed(&mut self) {
        self.closed = self.read(true);
        self.queue = listen_queue::length(self.server.address());
    }
}

impl<'a> Window<'a> {
    fn of(server: &'a mut dyn Server) -> Self {
        Self { server, opened: None, closed: None, queue: None, problem: None }
    }

    fn read(&mut self, with_memory: bool) -> Option<Counters> {
        let used = self.server.counters(with_memory).map_err(|error| self.problem = Some(error));
        used.ok().map(|used| Counters { client_waits: counters::own_waits(), ..used })
    }
}

/// Why a window without a correct reply has no figures: zeroes would pass for measurements.
fn unanswered(report: &Report) -> String {
    let kinds: Vec<String> =
        report.errors.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let errors = if kinds.is_empty() { "no errors".to_owned() } else { kinds.join(", ") };
    format!("no correct reply within the window ({errors})")
}

/// Puts together what the load generator saw and what the server used.
fn measured(report: Report, opened: Counters, closed: Counters, pinned: bool) -> Measured {
    let cpu_us = closed.cpu_us.saturating_sub(opened.cpu_us) as f64;
    let (mut warnings, mut invalid) = (report.warnings, report.invalid);
    if !pinned {
        // Where there is no processor to set apart, the two take turns: that is how it is measured there.
        invalid.remove(Report::STARVED);
        warnings
            .push("Server and load generator shared processors: this machine has too few.".into());
    }
    Measured {
        requests_per_second: report.requests_per_second,
        requests: report.requests,
        window_seconds: report.window_seconds,
        latency_us: report.latency_us,
        measured_load: report.measured_load,
        server_cpu_us_per_request: if report.requests == 0 {
            0.0
        } else {
            cpu_us / report.requests as f64
        },
        server_cpu_share: cpu_us / 1e6 / report.window_seconds,
        server_peak_bytes: closed.peak_bytes,
        voluntary_switches: closed.voluntary_switches.saturating_sub(opened.voluntary_switches),
        involuntary_switches: closed
            .involuntary_switches
            .saturating_sub(opened.involuntary_switches),
        operations: closed.operations.since(&opened.operations).map(|counted| Operations {
            client_waits: closed.client_waits.saturating_sub(opened.client_waits),
            ..counted
        }),
        client_cpu_share: report.client_cpu_share,
        client_was_limit: report.client_was_limit,
        connections_served: report.connections_served,
        connections_opened: report.connections_opened,
        listen_overflows: report.listen_overflows,
        listen_drops: report.listen_drops,
        listen_queue: None,
        errors: report.errors,
        crowd: report.crowd,
        open_loop: report.open_loop,
        warnings,
        invalid,
        client_wait_share: report.client_wait_share,
        slices_requests_per_second: report.slices_requests_per_second,
        histogram: report.histogram,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    struct Mock {
        calls: Vec<CellKey>,
        interrupt_after: usize,
    }

    impl Executor for Mock {
        fn measure(&mut self, key: &CellKey) -> Option<Outcome> {
            if self.calls.len() == self.interrupt_after {
                return None;
            }
            self.calls.push(key.clone());
            Some(Outcome::Failed { reason: "mock".into() })
        }
    }

    /// A plan in which threads are not to be had.
    fn plan() -> Plan {
        let unavailable =
            [1, 10, 100].map(|many| (("threads".to_owned(), many), "no threads".to_owned())).into();
        Plan { unavailable, ..plan::tests::plan() }
    }

    #[test]
    fn unavailable_cells_are_recorded_and_not_tried() {
        let mut mock = Mock { calls: vec![], interrupt_after: usize::MAX };
        let (cells, complete) =
            run_cells(&plan(), vec![], &mut mock, || false, |_| Ok(())).unwrap();
        assert!(complete);
        assert_eq!((cells.len(), mock.calls.len()), (18, 9));
        assert!(mock.calls.iter().all(|key| key.subject == "epoll"));
    }

    #[test]
    fn an_interruption_keeps_what_there_is_and_a_resumption_does_the_rest() {
        let plan = Plan { unavailable: BTreeMap::new(), ..plan() };
        let mut mock = Mock { calls: vec![], interrupt_after: 5 };
        let (cells, complete) = run_cells(&plan, vec![], &mut mock, || false, |_| Ok(())).unwrap();
        assert_eq!((cells.len(), complete), (5, false));
        // Failures are measured again.
        let mut mock = Mock { calls: vec![], interrupt_after: usize::MAX };
        let (cells, complete) = run_cells(&plan, cells, &mut mock, || false, |_| Ok(())).unwrap();
        assert_eq!((cells.len(), mock.calls.len(), complete), (18, 18, true));
    }

    #[test]
    fn when_the_time_is_over_the_cell_that_runs_is_the_last() {
        let ended = std::cell::Cell::new(0);
        let mut mock = Mock { calls: vec![], interrupt_after: usize::MAX };
        let is_over = || ended.get() == 7;
        let (cells, complete) = run_cells(&plan(), vec![], &mut mock, is_over, |_| {
            ended.set(ended.get() + 1);
            Ok(())
        })
        .unwrap();
        assert_eq!((cells.len(), complete), (7, false));
    }
}
