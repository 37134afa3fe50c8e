//! What an experiment writes down: one line of JSON for the experiment, then one for each cell.
//!
//! `results.jsonl` starts with an [`Experiment`] and goes on with a [`Cell`] for each measurement, in
//! the order in which they were made. Field names carry their unit. Scripts may rely on them:
//! [`VERSION`] changes when one changes its meaning.

mod block;
mod carrier;
pub(crate) mod constraints;
mod operations;
mod queues;
mod ways;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use duality_load::{Fate, Latency, OpenLoop, Warning};
use serde::{Deserialize, Serialize};

use crate::format::listed;
use crate::listen_queue::ListenQueue;
use crate::peers::Peer;

pub use block::{Block, Disturbance, Processor, Slice};
pub use carrier::{Carrier, World};
pub use constraints::{Constraints, kept_slo};
pub use operations::{Operations, UnitCosts};
pub use queues::{QueueSample, QueueState};
pub use ways::Ways;

/// The version of the format: 2 has blocks, and warnings with kinds. Version 1 is read as well.
pub const VERSION: u32 = 2;

/// What an experiment has measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Records {
    /// Its cells: of each, the last measurement.
    pub cells: Vec<Cell>,
    /// Its blocks, in the order of measurement.
    pub blocks: Vec<Block>,
}

impl Records {
    /// The blocks at a number of connections, session after session and group after group.
    pub fn blocks_at(&self, concurrency: usize) -> Vec<&Block> {
        let here = self.blocks.iter().filter(|block| block.concurrency == concurrency);
        let mut blocks: Vec<&Block> = here.collect();
        blocks.sort_by_key(|block| (block.session, block.group, block.number));
        blocks
    }

    /// Whether every session has what a verdict needs of it at a number of connections: all cells,
    /// and blocks of each group. A session has fewer blocks than were planned where its share of
    /// the time was spent.
    pub fn is_complete(&self, design: &Design, concurrency: usize) -> bool {
        let cells = self.cells.iter().filter(|cell| cell.concurrency == concurrency).count();
        let blocks = self.blocks_at(concurrency);
        let groups: BTreeSet<usize> = blocks.iter().map(|block| block.group).collect();
        let measured: BTreeSet<(usize, usize)> =
            blocks.iter().map(|block| (block.session, block.group)).collect();
        cells >= design.measured().count().saturating_mul(design.repeats)
            && measured.len() == groups.len() * design.repeats
    }
}

/// A line of a results file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Line {
    /// What was to be measured, and where; the first line.
    Experiment(Box<Experiment>),
    /// One measurement, or why there is none.
    Cell(Cell),
    /// A round of slices through the servers of a session.
    Block(Block),
}

/// What was to be measured, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// [`VERSION`].
    pub version: u32,
    /// The version of Duality.
    pub duality: String,
    /// The plan that it is of; none when the command line alone asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Origin>,
    /// The command line that began it.
    pub command: Vec<String>,
    /// When it began (RFC 3339, UTC).
    pub started_at: String,
    /// What was to be measured.
    pub design: Design,
    /// The machine that it was measured on.
    pub machine: Machine,
    /// What must be kept to be recommended; another report may ask for something else.
    #[serde(default, skip_serializing_if = "Constraints::is_empty")]
    pub constraints: Constraints,
    /// What operations cost on this machine, when the experiment began; none where nobody asked. It gives the reasons.
    #[serde(default, skip_serializing_if = "UnitCosts::is_empty")]
    pub unit_costs: UnitCosts,
}

/// The plan that an experiment is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The plan's title: what it asks.
    pub title: String,
    /// Where the question comes from; may be empty.
    pub source: String,
    /// The name of the experiment in it.
    pub experiment: String,
    /// Which of its experiments that is, from 1; 0 where an earlier version did not say.
    #[serde(default)]
    pub number: usize,
}

/// What was to be measured: all that a resumed experiment must share with the one it resumes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Design {
    /// The service.
    pub service: String,
    /// The architectures, in the order in which they are shown.
    pub architectures: Vec<String>,
    /// Those among them that are an architecture under another name, with options of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<Variant>,
    /// The servers that are not ours, in the order in which they are shown, after the architectures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<Peer>,
    /// Which of the subjects is the program as it is, and what is asked of the others; none where they are not ways to run one
    /// program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ways: Option<Ways>,
    /// The control: an architecture that is measured once more, under this name ([`Design::again`]). What then differs
    /// from itself shows what chance and the machine do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<String>,
    /// The numbers of connections that are open at once; 0 where only the load command knows.
    pub concurrency: Vec<usize>,
    /// The command that makes the load, in place of the load generator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_command: Option<Vec<String>>,
    /// How clients behave.
    #[serde(default)]
    pub clients: Clients,
    /// Whether a connection carries request after request.
    pub keep_alive: bool,
    /// How often each cell is measured: in how many sessions, each with fresh servers.
    pub repeats: usize,
    /// How many blocks follow the cells in each session; 0 where servers are measured in turn only.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub blocks: usize,
    /// What is dropped before each measurement, in seconds.
    pub warm_up_seconds: f64,
    /// What is measured, in seconds.
    pub window_seconds: f64,
    /// Decides the order of the cells.
    pub seed: u64,
    /// The processors of the server; empty when it was not pinned.
    pub server_cpus: Vec<usize>,
    /// The processors of the load generator; empty when it was not pinned.
    pub client_cpus: Vec<usize>,
    /// Further arguments of the server.
    pub server_arguments: Vec<String>,
    /// How each architecture carries connections, by subject.
    #[serde(default)]
    pub carriers: BTreeMap<String, Carrier>,
    /// The path that an HTTP client asks for.
    pub path: String,
    /// Where the servers keep what they are told; none for a service that keeps nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
}

/// An architecture with options of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
    /// What it is called, here and in the cells.
    pub name: String,
    /// The architecture.
    pub architecture: String,
    /// The options that make it one, as they were written.
    pub options: Vec<String>,
    /// All arguments of its server, in place of [`Design::server_arguments`].
    pub server_arguments: Vec<String>,
}

impl Design {
    /// Whether a subject can be chosen: an architecture, or a peer where peers alone are compared with each other.
    pub fn can_be_chosen(&self, name: &str) -> bool {
        if self.architectures.is_empty() {
            return self.peers.iter().any(|peer| peer.name == name);
        }
        self.architectures.iter().any(|own| own == name) && !self.is_yardstick(name)
    }

    /// What follows the name of a subject in that of its control.
    const AGAIN: &str = " (again)";

    /// The name of a subject that is measured once more.
    pub fn again(subject: &str) -> String {
        format!("{subject}{}", Self::AGAIN)
    }

    /// The subject behind a name, which may be the control's.
    pub fn original<'a>(&self, subject: &'a str) -> &'a str {
        let is_control = self.control.as_deref() == Some(subject);
        subject.strip_suffix(Self::AGAIN).filter(|_| is_control).unwrap_or(subject)
    }

    /// The names of all that is measured: of what is compared, and of the control.
    pub fn measured(&self) -> impl Iterator<Item = &str> {
        self.subjects().chain(self.control.as_deref())
    }

    /// How a subject carries connections; none for a peer.
    pub fn carrier(&self, subject: &str) -> Option<&Carrier> {
        self.carriers.get(self.original(subject))
    }

    /// Whether a subject runs no straight-line service, and so is no choice: a state machine by hand for two of the built-in
    /// services, beside which the compiler's can be seen.
    pub fn is_yardstick(&self, subject: &str) -> bool {
        self.carrier(subject).is_some_and(|carrier| carrier.world.is_none())
    }

    /// Whether a subject looks at every open connection in each round, as a loop on select or poll does: idle ones cost
    /// it something, too.
    pub fn looks_at_all(&self, subject: &str) -> bool {
        self.carrier(subject).is_some_and(|carrier| carrier.looks_at_all)
    }

    /// Adds how subjects carry connections, in a design from results that do not say it.
    pub fn add_older_carriers(&mut self) {
        if !self.carriers.is_empty() {
            return;
        }
        let known = |name: &String| {
            let (architecture, arguments) = self.server_of(name);
            Some((name.clone(), Carrier::in_older_results(&architecture, arguments)?))
        };
        self.carriers = self.architectures.iter().filter_map(known).collect();
    }

    /// The architecture that is meant by the name of a subject, and the arguments of its server.
    pub fn server_of(&self, subject: &str) -> (String, &[String]) {
        let subject = self.original(subject);
        match self.variants.iter().find(|variant| variant.name == subject) {
            Some(variant) => (variant.architecture.clone(), &variant.server_arguments),
            None => (subject.to_owned(), &self.server_arguments),
        }
    }

    /// The names of all that is compared, architectures first.
    pub fn subjects(&self) -> impl Iterator<Item = &str> {
        let peers = self.peers.iter().map(|peer| peer.name.as_str());
        self.architectures.iter().map(String::as_str).chain(peers)
    }

    /// How many blocks there are to be at each number of connections, in each group.
    pub fn planned_blocks(&self) -> usize {
        self.repeats.saturating_mul(self.blocks)
    }

    /// How many cells it has. The numbers may come from a file that anybody may have written.
    pub fn cells(&self) -> usize {
        (self.measured().count() * self.concurrency.len()).saturating_mul(self.repeats)
    }

    /// What is compared, in words: `9 architectures and 2 peers`.
    pub fn compared(&self) -> String {
        let count = |count: usize, what: &str| {
            format!("{count} {what}{}", if count == 1 { "" } else { "s" })
        };
        if self.architectures.is_empty() {
            let names: Vec<String> = self.peers.iter().map(|peer| peer.name.clone()).collect();
            return listed(&names);
        }
        let architectures = count(self.architectures.len(), "architecture");
        match self.peers.len() {
            0 => architectures,
            peers => format!("{architectures} and {}", count(peers, "peer")),
        }
    }
}

/// How clients behave; in files that were written before there was a choice, the default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clients {
    /// The name of the pattern.
    pub pattern: String,
    /// When the requests of an open loop arrive, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<String>,
    /// Further connections that say nothing.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub idle: usize,
    /// Further connections that take their replies slowly.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub slow_readers: usize,
    /// Further connections that make their requests slowly.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub slow_senders: usize,
    /// How many addresses all of them come from; none: as many as needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<NonZeroU32>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Clients {
    /// Who is connected beside those that make the requests, in words; none if nobody is.
    pub fn crowd(&self) -> Option<String> {
        let kinds = [
            (self.idle, "idle"),
            (self.slow_readers, "slow readers"),
            (self.slow_senders, "slow senders"),
        ];
        let told: Vec<String> = kinds
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, kind)| format!("{count} {kind}"))
            .collect();
        (!told.is_empty()).then(|| listed(&told))
    }
}

impl Default for Clients {
    fn default() -> Self {
        Self {
            pattern: "closed".to_owned(),
            arrivals: None,
            idle: 0,
            slow_readers: 0,
            slow_senders: 0,
            sources: None,
        }
    }
}

/// The machine of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The kernel's name and release.
    pub kernel: String,
    /// The processor's own name.
    pub cpu: String,
    /// How many processors this process may use.
    pub cpus: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Everything else that bears on results, by name: limits, system settings, clock source, governor.
    pub settings: BTreeMap<String, String>,
}

/// One measurement, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// What was measured: the name of an architecture or a peer.
    #[serde(rename = "architecture")]
    pub subject: String,
    /// How many connections were open at once.
    pub concurrency: usize,
    /// Which repeat, from 0.
    pub repeat: usize,
    /// When it began (RFC 3339, UTC).
    pub started_at: String,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What came of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub enum Outcome {
    /// It was measured.
    Measured(Box<Measured>),
    /// It cannot be carried, and why.
    Unavailable {
        /// Why.
        reason: String,
    },
    /// It was tried and failed, and how.
    Failed {
        /// How.
        reason: String,
    },
}

/// The figures of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Correct replies per second of the window.
    pub requests_per_second: f64,
    /// Correct replies within the window.
    pub requests: u64,
    /// The length of the window in seconds.
    pub window_seconds: f64,
    /// Latencies in microseconds.
    pub latency_us: Latency,
    /// Mean number of requests in service: n·t_r/t (Kerneis & Chroboczek 2009).
    pub measured_load: f64,
    /// The server's processor time for each request, in microseconds.
    pub server_cpu_us_per_request: f64,
    /// The server's processor time within the window, as a share of one processor.
    pub server_cpu_share: f64,
    /// The most memory that the server had, in bytes; for several processes the sum of their shares
    /// of what is their own (PSS), and the mapped files once, at the end of the window.
    pub server_peak_bytes: u64,
    /// Context switches of the server within the window because it waited.
    pub voluntary_switches: u64,
    /// Context switches of the server within the window because it was interrupted.
    pub involuntary_switches: u64,
    /// What the server counted of its own operations within the window; none of a peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<Operations>,
    /// The load generator's processor time, as a share of one processor.
    pub client_cpu_share: f64,
    /// Whether the load generator, and not the server, was the limit.
    pub client_was_limit: bool,
    /// How many of the connections got a reply within the window.
    pub connections_served: u64,
    /// How many connections were opened.
    pub connections_opened: u64,
    /// Times that the server's accept queue overflowed; machine-wide in results of earlier
    /// versions.
    pub listen_overflows: u64,
    /// Connections dropped at the server's accept queue; machine-wide in results of earlier
    /// versions.
    pub listen_drops: u64,
    /// What is known of the server's own queue; none where the kernel does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen_queue: Option<ListenQueue>,
    /// Failed requests by kind.
    pub errors: BTreeMap<String, u64>,
    /// What became of the connections beside the measured ones, by kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub crowd: BTreeMap<String, Fate>,
    /// What only an open loop measures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_loop: Option<OpenLoop>,
    /// The server's queues, some ten times a second; none of an architecture that is not made of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueSample>,
    /// What a reader of the figures must know.
    pub warnings: Vec<Warning>,
    /// What else happened on the processors within the window; none where it was not looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
    /// Why the figures are not to be trusted, by kind and in a sentence each, as in [`duality_load::Report::invalid`]: the
    /// load generator could not do its work. Empty in a sound cell.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub invalid: BTreeMap<String, String>,
    /// For how much of the window the load generator's thread could have run and had no processor, from 0 to 1.
    #[serde(default)]
    pub client_wait_share: f64,
    /// Correct replies per second in each twentieth of the window, about; none where it was not looked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices_requests_per_second: Vec<f64>,
    /// All latencies: HDR V2 + deflate in base64, in nanoseconds.
    pub histogram: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As version 0.1.0 wrote it before there were plans, patterns and stores.
    const OLD: &str = r#"{"kind":"experiment","version":1,"duality":"0.1.0","command":[],"started_at":"2026-11-21T03:40:00Z","design":{"service":"http","architectures":["epoll"],"concurrency":[1],"keep_alive":true,"repeats":3,"warm_up_seconds":0.2,"window_seconds":0.5,"seed":7,"server_cpus":[],"client_cpus":[],"server_arguments":[],"path":"/"},"machine":{"kernel":"","cpu":"","cpus":2,"memory_bytes":0,"settings":{}}}"#;

    #[test]
    fn what_was_written_before_can_be_read() {
        let Ok(Line::Experiment(experiment)) = serde_json::from_str(OLD) else { panic!() };
        assert_eq!((experiment.plan, experiment.design.store), (None, None));
        assert_eq!(experiment.design.clients, Clients::default());
    }

    #[test]
    fn fewer_blocks_are_enough_but_in_every_session() {
        let design = Design { repeats: 3, blocks: 45, ..crate::plan::tests::design() };
        let concurrency = design.concurrency[0];
        let cell = |subject: &str, repeat| Cell {
            subject: subject.to_owned(),
            concurrency,
            repeat,
            started_at: String::new(),
            outcome: Outcome::Unavailable { reason: String::new() },
        };
        let block = |session| Block {
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
