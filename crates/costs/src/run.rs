//! For each subject, the driver finds the number of operations that can be timed well. Then it
//! measures the subjects in turns.
//!
//! ```text
//!   for each cost:   calibrate park, st, go …      a count whose batch is long enough to time
//!                    park st go   st go park   …   batches; the first one changes with each turn
//! ```
//!
//! A machine's speed changes within seconds. Since subjects take turns, a change affects all
//! subjects alike.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::program::{NOT_BUILT, PEERS, Program};
use crate::{Cost, Trouble, Unit};

/// The number of parked tasks in a measurement of memory. A peer may choose a lower count.
const PARKED: u64 = 100_000;

/// The costs to measure, and the effort.
pub struct Plan {
    /// The costs to measure.
    pub costs: Vec<&'static Cost>,
    /// The effort of the measurement.
    pub effort: Effort,
    /// The command that measures our own subjects. A subject, a cost and a count follow it.
    pub own: Vec<OsString>,
    /// The peers to measure beside our own subjects.
    pub peers: Peers,
    /// The time to stop at: later results stay unknown. `None` means no limit.
    pub until: Option<Instant>,
}

/// The peers to measure beside our own subjects.
pub enum Peers {
    /// The peers that `cargo xtask peers` has built.
    Built,
    /// The peers in this folder.
    In(PathBuf),
    /// No peers.
    Nobody,
}

/// The effort of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The number of batches of each subject.
    pub batches: usize,
    /// The target time of a batch.
    pub batch: Duration,
    /// The number of measurements of the memory of parked tasks.
    pub memory_batches: usize,
    /// The number of parked tasks.
    pub parked: u64,
}

impl Effort {
    /// The effort for publishable figures: intervals of a few per cent on a quiet machine, in about
    /// a minute.
    pub const FULL: Effort =
        Effort { batches: 40, batch: Duration::from_millis(8), memory_batches: 3, parked: PARKED };

    /// The effort for a quick look: a few seconds.
    pub const QUICK: Effort = Effort {
        batches: 15,
        batch: Duration::from_millis(1),
        memory_batches: 1,
        parked: PARKED / 10,
    };
}

/// One cost, for all its subjects.
pub struct Row {
    /// The cost.
    pub cost: &'static Cost,
    /// The results, in the order of the columns.
    pub cells: Vec<Cell>,
}

/// One cost of one subject.
pub struct Cell {
    /// The subject.
    pub subject: &'static str,
    /// The cost of one operation in each batch, in the cost's unit, or the reason why the cost is
    /// unknown.
    pub outcome: Result<Vec<f64>, String>,
    /// The number of operations in each batch.
    pub count: u64,
}

/// Binds this process, and so the programs that it will start, to one processor. The processor is
/// the last that the process may use, since devices prefer the first. If the kernel refuses, the
/// process stays unbound.
pub fn pin() {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    if let Some(last) = (0..CpuSet::MAX_CPU).rev().find(|&cpu| allowed.is_set(cpu)) {
        let mut only = CpuSet::new();
        only.set(last);
        let _ = sched_setaffinity(None, &only);
    }
}

/// Measures the costs of `plan`. Calls `progress` with the name of each cost before it is measured.
pub fn run(plan: &Plan, mut progress: impl FnMut(&str)) -> Vec<Row> {
    let measure = |cost: &&'static Cost| {
        progress(cost.name);
        Row { cost, cells: measure(plan, cost) }
    };
    plan.costs.iter().map(measure).collect()
}

/// A cell that is being measured.
struct Running {
    cell: Cell,
    program: Option<Program>,
}

fn measure(plan: &Plan, cost: &'static Cost) -> Vec<Cell> {
    let mut running = subjects(plan, cost);
    let batches = match cost.unit {
        Unit::Nanoseconds => plan.effort.batches,
        Unit::Bytes => plan.effort.memory_batches,
    };
    for subject in &mut running {
        subject.calibrate(cost, plan);
    }
    let several = running.len().max(1);
    for turn in 0..batches {
        for index in 0..several {
            running[(turn + index) % several].batch(cost, plan.until);
        }
    }
    running.into_iter().map(|running| running.cell).collect()
}

/// The subjects of this cost, ours first.
fn subjects(plan: &Plan, cost: &Cost) -> Vec<Running> {
    let cell = |subject, outcome| Cell { subject, outcome, count: 0 };
    let mut all: Vec<Running> = crate::subjects(cost)
        .into_iter()
        .map(|subject| {
            let mut command = plan.own.clone();
            command.push(subject.into());
            Running { cell: cell(subject, Ok(Vec::new())), program: Some(Program { command }) }
        })
        .collect();
    let folder = match &plan.peers {
        Peers::Nobody => return all,
        _ if !cost.has_peers() => return all,
        Peers::Built => duality_lab::measure::peers::built(),
        Peers::In(folder) => Some(folder.clone()),
    };
    for peer in PEERS {
        let path = folder.as_ref().map(|folder| folder.join(peer.name));
        all.push(match path.filter(|path| path.is_file()) {
            Some(path) => Running {
                cell: cell(peer.name, Ok(Vec::new())),
                program: Some(Program { command: vec![path.into()] }),
            },
            None => Running { cell: cell(peer.name, Err(NOT_BUILT.into())), program: None },
        });
    }
    all
}

impl Running {
    /// Finds the number of operations in a batch.
    fn calibrate(&mut self, cost: &Cost, plan: &Plan) {
        let effort = &plan.effort;
        if cost.unit == Unit::Bytes {
            self.cell.count = effort.parked;
            return;
        }
        let wanted = effort.batch.as_nanos() as f64;
        let mut count = 16;
        while let Some(each) = self.ask(cost, count, plan.until) {
            let fitting = (wanted / each.max(0.01)).max(1.0);
            // A short batch overstates an operation. So the driver trusts its result only for
            // similar counts.
            if fitting <= count as f64 * 3.0 {
                self.cell.count = fitting as u64;
                return;
            }
            count = (fitting as u64).min(count.saturating_mul(100));
        }
    }

    /// Measures once more.
    fn batch(&mut self, cost: &Cost, until: Option<Instant>) {
        if let Some(each) = self.ask(cost, self.cell.count, until)
            && let Ok(values) = &mut self.cell.outcome
        {
            values.push(each);
        }
    }

    /// The cost of one operation. After a failure the subject is not asked again.
    fn ask(&mut self, cost: &Cost, count: u64, until: Option<Instant>) -> Option<f64> {
        if self.cell.outcome.is_err() {
            return None;
        }
        let reading = self.program.as_ref()?.ask(cost.name, count, until).and_then(|reading| {
            let known = reading.unit == cost.unit;
            let other =
                || Trouble::Unavailable(format!("{} are no measure of it", reading.unit.symbol()));
            known.then_some(reading).ok_or_else(other)
        });
        match reading {
            Ok(reading) => {
                // The program parked as many tasks as it could.
                if cost.unit == Unit::Bytes {
                    self.cell.count = reading.count;
                }
                Some(reading.each())
            }
            Err(trouble) => {
                self.cell.outcome = Err(trouble.to_string());
                None
            }
        }
    }
}
