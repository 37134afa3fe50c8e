//! The flags of `serve` that show the server's state: see docs/visibility.md and
//! docs/operations.md.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use duality_lab::Mistake;
use duality_lab::ask::settings::parse_duration;
use duality_runtime::log;

use super::address::listen_address;
use super::heading;
use crate::cli::live;
use crate::failure::Failure;
use crate::metrics::Metrics;
use crate::watch::{AccessLog, GraphFile, Outputs, RecordsFile, Subject};

/// SIGUSR1 lists every task, whatever these flags say.
#[derive(Args)]
#[command(next_help_heading = heading::VISIBILITY)]
pub(in crate::cli) struct Visibility {
    /// Serve metrics in Prometheus's text format at this address, under /metrics, and the server's
    /// health under /healthz
    ///
    /// At an address of this machine alone, / is a live page of them (docs/live.md). A separate
    /// thread answers, and the server measures how long requests take. A port alone is a
    /// port of 127.0.0.1. Port 0 takes a free port, which the server prints on standard error.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = listen_address)]
    metrics: Option<SocketAddr>,
    /// Open the live page of --metrics in a browser
    #[arg(long, requires = "metrics")]
    open: bool,
    /// Append a line of JSON to FILE for each request that http, guestbook or relay has answered
    ///
    /// SIGHUP opens the file again, so that it can be renamed. Lines are dropped, and counted,
    /// where the disk is too slow for them.
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// At the end, write the counters (tasks, switches, rounds, bytes …) as a line of JSON to FILE,
    /// or to standard error (-)
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// Write the counters at this interval, such as 1s, a line each time
    #[arg(long, value_name = "TIME", value_parser = period, requires = "stats")]
    stats_every: Option<Duration>,
    /// Where SIGUSR1 has a dump of all tasks go [default: standard error]
    #[arg(long, value_name = "FILE")]
    dump: Option<PathBuf>,
    /// Report a task that holds its event loop for longer, such as 100ms
    #[arg(long, value_name = "TIME", value_parser = period)]
    stall: Option<Duration>,
    /// At the end, write the blocking graph to FILE (.svg, .dot or .json): where tasks may wait,
    /// and what they do in between
    ///
    /// While it is kept, each operation takes about a microsecond more. docs/graph.md explains it.
    /// `duality graph` draws the graph of a service that comes with Duality, in one command.
    #[arg(long, value_name = "FILE")]
    graph: Option<GraphFile>,
    /// At the end, write a row for each request to FILE (.csv or .jsonl): when it came and was
    /// answered, how busy the server was
    #[arg(long, value_name = "FILE")]
    records: Option<RecordsFile>,
    /// How many requests are recorded at most; each takes 48 bytes of memory
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000_000, requires = "records")]
    records_limit: usize,
}

impl Visibility {
    /// The flags that the counters of a foreign runtime's kernel threads can answer.
    pub(in crate::cli) const OF_COUNTERS: [&str; 2] = ["--metrics", "--stats"];

    /// The given flags that ask about tasks.
    pub(in crate::cli) fn flags(&self) -> impl Iterator<Item = &'static str> {
        let given = [
            ("--metrics", self.metrics.is_some()),
            ("--access-log", self.access_log.is_some()),
            ("--stats", self.stats.is_some()),
            ("--dump", self.dump.is_some()),
            ("--stall", self.stall.is_some()),
            ("--records", self.records.is_some()),
            ("--graph", self.graph.is_some()),
        ];
        given.into_iter().filter(|(_, is_said)| *is_said).map(|(flag, _)| flag)
    }

    /// Starts to serve metrics, if the flags ask for them.
    pub(in crate::cli) fn start_metrics(
        &self,
        subject: &Subject,
        forks: bool,
    ) -> Result<Option<Metrics>, Failure> {
        let Some(address) = self.metrics else { return Ok(None) };
        let metrics = Metrics::start(address, subject, forks)?;
        match &metrics.page {
            Some(page) if self.open => live::open(page.as_ref()),
            None if self.open => log::tell(format_args!(
                "--open: a page is for this machine alone: give --metrics a port, such as 9100"
            )),
            _ => {}
        }
        Ok(Some(metrics))
    }

    pub(in crate::cli) fn access_log(&self) -> Option<&Path> {
        self.access_log.as_deref()
    }

    /// Opens the access log, if a flag asks for one.
    pub(in crate::cli) fn open_access_log(&self) -> Result<Option<AccessLog>, Failure> {
        self.access_log().map(AccessLog::open).transpose()
    }

    pub(in crate::cli) fn settings(&self) -> Outputs {
        Outputs {
            stats: self.stats.clone(),
            stats_every: self.stats_every,
            dump: self.dump.clone(),
            stall: self.stall,
            graph: self.graph.clone(),
            records: self.records.clone().map(|file| (file, self.records_limit)),
        }
    }
}

/// A time that a kernel thread can keep without a busy loop.
fn period(text: &str) -> Result<Duration, Mistake> {
    match parse_duration(text)? {
        short if short < Duration::from_millis(10) => Err("give a time from 10ms on".into()),
        period => Ok(period),
    }
}
