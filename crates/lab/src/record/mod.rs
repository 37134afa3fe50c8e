//! The records of an experiment: one line of JSON for the experiment, then one line for each cell.
//!
//! `results.jsonl` starts with a [`Heading`]. A [`Cell`] for each measurement follows, in the order
//! of measurement. Field names carry their unit. Scripts may rely on them: [`VERSION`] changes when
//! a field changes its meaning.

mod block;
mod builds;
mod carrier;
pub(crate) mod constraints;
pub(crate) mod design;
pub(crate) mod lines;
mod listen_queue;
mod measured;
mod operations;
mod peer;
mod queues;
mod recording;
pub mod results;
mod topology;
mod ways;

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use block::{Block, Disturbance, Processor, Slice};
pub use builds::{Build, Builds, Built};
pub use carrier::{Carrier, Family, Foreign, Part, World};
pub use constraints::{Constraints, kept_memory, kept_slo};
pub use design::{CellKey, Clients, Design, Variant, cells};
pub use listen_queue::ListenQueue;
pub use measured::{Cell, Measured, Obstacle, Outcome, Session, Throughout};
pub use operations::{Operations, UnitCosts};
pub use peer::{Peer, Stop};
pub use queues::{QueueSample, QueueState};
pub use recording::{Recording, Spread};
pub use topology::{HERE, Placement, Role, Topology};
pub use ways::Ways;

/// The version of the format: 2 has blocks, and warnings with kinds. This program also reads
/// version 1.
pub const VERSION: u32 = 2;

/// The measurements of an experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Records {
    /// The cells, each with its last measurement.
    pub cells: Vec<Cell>,
    /// The blocks, in the order of measurement.
    pub blocks: Vec<Block>,
}

impl Records {
    /// Adds a cell, in place of an earlier measurement of it.
    pub(crate) fn replace(&mut self, cell: Cell) {
        match self.cells.iter_mut().find(|known| known.key() == cell.key()) {
            Some(known) => *known = cell,
            None => self.cells.push(cell),
        }
    }

    /// Adds what the end of a session tells to the cell's last measurement.
    pub(crate) fn close(&mut self, session: &Session) {
        let own = |cell: &&mut Cell| {
            (&cell.subject, cell.concurrency, cell.repeat)
                == (&session.subject, session.concurrency, session.repeat)
        };
        if let Some(Cell { outcome: Outcome::Measured(measured), .. }) =
            self.cells.iter_mut().rev().find(own)
        {
            measured.server_peak_bytes = measured.server_peak_bytes.max(session.server_peak_bytes);
            measured.session = Some(session.throughout);
        }
    }

    /// The blocks at a number of connections, session after session and group after group.
    pub fn blocks_at(&self, concurrency: usize) -> Vec<&Block> {
        let here = self.blocks.iter().filter(|block| block.concurrency == concurrency);
        let mut blocks: Vec<&Block> = here.collect();
        blocks.sort_by_key(|block| (block.session, block.group, block.number));
        blocks
    }

    /// The number of cells at a number of connections that have no outcome yet. What a race leaves
    /// out is not missing.
    pub fn missing(&self, design: &Design, concurrency: usize) -> usize {
        if self.is_complete(design, concurrency) {
            return 0;
        }
        let repeats = if design.race { 1 } else { design.repeats };
        let all = design.measured().count().saturating_mul(repeats);
        let here = self.cells.iter().filter(|cell| cell.concurrency == concurrency);
        all.saturating_sub(here.filter(|cell| cell.repeat < repeats).count())
    }

    /// Whether every session has its part of a verdict at a number of connections: all cells, and
    /// blocks of each group. A session has fewer blocks than planned if its share of the time was
    /// spent. In a race, later sessions have only the subjects that may still be the best.
    pub fn is_complete(&self, design: &Design, concurrency: usize) -> bool {
        let here = self.cells.iter().filter(|cell| cell.concurrency == concurrency);
        let blocks = self.blocks_at(concurrency);
        if design.race && !blocks.is_empty() {
            let of_first = here.filter(|cell| cell.repeat == 0).count();
            let sessions: BTreeSet<usize> = blocks.iter().map(|block| block.session).collect();
            return of_first >= design.measured().count() && sessions.len() >= design.repeats;
        }
        let cells = here.count();
        let groups: BTreeSet<usize> = blocks.iter().map(|block| block.group).collect();
        let measured: BTreeSet<(usize, usize)> =
            blocks.iter().map(|block| (block.session, block.group)).collect();
        cells >= design.measured().count().saturating_mul(design.repeats)
            && measured.len() == groups.len() * design.repeats
    }
}

/// A line of a results file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Record {
    /// The design and the machine: the first line.
    Experiment(Box<Heading>),
    /// One measurement, or the reason why it is missing.
    Cell(Cell),
    /// A round of slices through the servers of a session.
    Block(Block),
    /// What is known of a cell only at the end of its server's session.
    Session(Session),
}

/// The experiment as designed, and its machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Heading {
    /// [`VERSION`].
    pub version: u32,
    /// The version of Duality.
    pub duality: String,
    /// The plan of the experiment. `None` if only the command line described it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Origin>,
    /// The command line that began the experiment.
    pub command: Vec<String>,
    /// The time at which the experiment began (RFC 3339, UTC).
    pub started_at: String,
    /// The design of the experiment.
    pub design: Design,
    /// The machine of the measurement.
    pub machine: Machine,
    /// The hosts of the roles, by name. Empty if all roles were on that machine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, Machine>,
    /// The constraints on a recommended subject. Another report may use others.
    #[serde(default, skip_serializing_if = "Constraints::is_empty")]
    pub constraints: Constraints,
    /// The subject that runs today, with which all others are compared. Another report may name
    /// another subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// The share within which two subjects are level: 0.05 is 5 %. Another report may have another
    /// margin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margin: Option<f64>,
    /// The costs of operations on this machine when the experiment began. `None` if the costs were
    /// not measured. The costs give the reasons for a recommendation.
    #[serde(default, skip_serializing_if = "UnitCosts::is_empty")]
    pub unit_costs: UnitCosts,
}

/// The share within which two subjects are level, if no margin is given.
pub const MARGIN: f64 = 0.05;

impl Heading {
    /// The share within which two subjects are level.
    pub fn margin(&self) -> f64 {
        self.margin.unwrap_or(MARGIN)
    }

    /// The subject that runs today, if it is known: the named subject, or the program as it is.
    pub fn current(&self) -> Option<&str> {
        let native = self.design.ways.as_ref().map(|ways| ways.native.as_str());
        self.current.as_deref().or(native)
    }
}

/// The plan of an experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Origin {
    /// The plan's title, which is its question.
    pub title: String,
    /// The source of the question. May be empty.
    pub source: String,
    /// The name of the experiment in the plan.
    pub experiment: String,
    /// The index of the experiment in the plan, from 1. 0 if an earlier version did not record it.
    #[serde(default)]
    pub number: usize,
}

/// The machine of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// The kernel's name and release.
    pub kernel: String,
    /// The processor's own name.
    pub cpu: String,
    /// The number of processors that this process may use.
    pub cpus: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// All other properties that influence results, by name: limits, system settings, clock source,
    /// governor.
    pub settings: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The format of version 0.1.0, before plans, patterns and stores existed.
    const OLD: &str = r#"{"kind":"experiment","version":1,"duality":"0.1.0","command":[],"started_at":"2026-11-21T03:40:00Z","design":{"service":"http","architectures":["epoll"],"concurrency":[1],"keep_alive":true,"repeats":3,"warm_up_seconds":0.2,"window_seconds":0.5,"seed":7,"server_cpus":[],"client_cpus":[],"server_arguments":[],"path":"/"},"machine":{"kernel":"","cpu":"","cpus":2,"memory_bytes":0,"settings":{}}}"#;

    #[test]
    fn what_was_written_before_can_be_read() {
        let Ok(Record::Experiment(heading)) = serde_json::from_str(OLD) else { panic!() };
        assert_eq!((heading.plan, heading.design.store), (None, None));
        assert_eq!(heading.design.clients, Clients::default());
    }

    #[test]
    fn fewer_blocks_are_enough_but_in_every_session() {
        let design = Design { repeats: 3, blocks: 45, ..design::tests::design() };
        let concurrency = design.concurrency[0];
        let cell = |subject: &str, repeat| Cell {
            subject: subject.to_owned(),
            concurrency,
            repeat,
            started_at: String::new(),
            outcome: Outcome::lacking(""),
        };
        let block = |session| Block {
            invalid: None,
            concurrency,
            session,
            group: 0,
            number: 0,
            started_at: String::new(),
            slices: Vec::new(),
            disturbance: Disturbance::default(),
        };
        let cells =
            (0..3).flat_map(|repeat| design.measured().map(move |subject| cell(subject, repeat)));
        let mut records = Records { cells: cells.collect(), blocks: (0..3).map(block).collect() };
        assert!(records.is_complete(&design, concurrency));
        records.blocks.pop();
        assert!(!records.is_complete(&design, concurrency));
    }
}
