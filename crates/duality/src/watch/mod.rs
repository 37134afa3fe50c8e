//! The kernel thread that watches a server. The thread writes the counters (`--stats`) and the
//! records of requests (`--records`). On SIGUSR1, the thread dumps the tasks (`--dump`). It names a
//! task that holds up a loop (`--stall`). See docs/visibility.md.
//!
//! The watcher sleeps until the next of these events. A server that forks has one watcher, in the
//! parent. The watcher sees the children through their slots (`duality_runtime::visibility`).

mod access_log;
mod dump;
mod graph;
mod output;
mod records;
mod stall;
mod stats;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use duality_architectures::common::children;
use duality_architectures::common::pressure::remedy;
use duality_runtime::{log, visibility};

pub(crate) use self::access_log::AccessLog;
use self::graph::Drawing;
pub(crate) use self::graph::GraphFile;
use self::output::Output;
use self::records::Records;
pub(crate) use self::records::RecordsFile;
use self::stall::Stalls;
use self::stats::Stats;
use crate::failure::{Failure, Party};

/// The outputs about a server, and their files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outputs {
    /// The file of the counters, `-` for standard error.
    pub(crate) stats: Option<PathBuf>,
    /// The interval between outputs of the counters, besides the one at the end.
    pub(crate) stats_every: Option<Duration>,
    /// The file of dumps. Without one, standard error.
    pub(crate) dump: Option<PathBuf>,
    /// The time for which a task may hold a loop before a report.
    pub(crate) stall: Option<Duration>,
    /// The file of the blocking graph, which is written at the end.
    pub(crate) graph: Option<GraphFile>,
    /// The file of the requests' records, which is written at the end, and the most records.
    pub(crate) records: Option<(RecordsFile, usize)>,
}

/// The watched server.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) service: String,
    pub(crate) architecture: &'static str,
}

/// A server that is watched.
pub(crate) struct Watch {
    stats: Option<Arc<Mutex<Stats>>>,
    records: Option<Records>,
    graph: Option<Drawing>,
    access_log: Option<AccessLog>,
}

impl Watch {
    /// Opens the outputs, and starts the watching thread.
    ///
    /// # Errors
    ///
    /// The file, memory or thread that the system refuses, with the flag that asked for it.
    pub(crate) fn start(
        settings: &Outputs,
        subject: Subject,
        access_log: Option<AccessLog>,
    ) -> Result<Self, Failure> {
        let stats = match &settings.stats {
            Some(path) => Some(Stats::new(Output::open(path, "--stats")?, subject.clone())),
            None => None,
        };
        let records = match &settings.records {
            Some((file, limit)) => Some(Records::begin(file, *limit)?),
            None => None,
        };
        let graph = match &settings.graph {
            Some(file) => Some(Drawing::begin(file, subject.clone())?),
            None => None,
        };
        let dump = match &settings.dump {
            Some(path) => Output::open(path, "--dump")?,
            None => Output::standard_error()?,
        };
        let stats = stats.map(|stats| Arc::new(Mutex::new(stats)));
        let stalls = settings.stall.map(Stalls::new).transpose()?;
        let refusal = |error| {
            Failure::new(Party::Machine, format!("cannot watch: {error}{}", remedy(&error)))
        };
        visibility::prepare_dumps().map_err(refusal)?;
        let watcher = Watcher { stats: stats.clone(), every: settings.stats_every, dump, stalls };
        children::helper();
        thread::Builder::new()
            .name("watch".into())
            .spawn(move || watcher.run(&subject))
            .map_err(refusal)?;
        access_log.as_ref().map_or(Ok(()), AccessLog::start)?;
        Ok(Self { stats, records, graph, access_log })
    }

    /// Writes the last counters, the records, the graph, and the rest of the log.
    ///
    /// # Errors
    ///
    /// If one of them cannot be written.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        self.access_log.iter().for_each(AccessLog::finish);
        self.stats.map_or(Ok(()), |stats| write_stats(&stats))?;
        self.records.map_or(Ok(()), Records::finish)?;
        self.graph.map_or(Ok(()), Drawing::finish)
    }
}

struct Watcher {
    stats: Option<Arc<Mutex<Stats>>>,
    every: Option<Duration>,
    dump: Output,
    stalls: Option<Stalls>,
}

impl Watcher {
    fn run(mut self, subject: &Subject) {
        let mut stats_due = self.every.and_then(|every| Instant::now().checked_add(every));
        loop {
            let until_stats = stats_due.map(|due| due.saturating_duration_since(Instant::now()));
            let until_look = self.stalls.as_ref().map(Stalls::pause);
            let limit = [until_stats, until_look].into_iter().flatten().min();
            if visibility::wait_for_dump_request(limit) {
                complain(self.dump.write(&dump::dump(subject)));
            }
            if let Some(stalls) = &mut self.stalls {
                stalls.look();
            }
            let now = Instant::now();
            if let (Some(due), Some(every), Some(stats)) = (&mut stats_due, self.every, &self.stats)
                && now >= *due
            {
                // A late line is left out, and not written later.
                *due = now + every;
                complain(write_stats(stats));
            }
        }
    }
}

fn write_stats(stats: &Mutex<Stats>) -> Result<(), Failure> {
    stats.lock().unwrap_or_else(PoisonError::into_inner).write()
}

fn complain(result: Result<(), Failure>) {
    if let Err(problem) = result {
        log::warn(problem);
    }
}
