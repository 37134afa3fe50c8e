//! What `serve` shows of the server; see docs/visibility.md.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use duality_lab::ask::settings::parse_duration;

use super::heading;
use crate::watch::{GraphFile, RecordsFile, Settings};

/// SIGUSR1 has every task told, whatever these flags say.
#[derive(Args)]
#[command(next_help_heading = heading::VISIBILITY)]
pub(super) struct Visibility {
    /// At the end, write the counters (tasks, switches, rounds, bytes …) as a line of JSON to FILE,
    /// or to standard error (-)
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// Write the counters so often, each time another line, such as every 1s
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
    /// The flag that asks about tasks, if one does.
    pub(super) fn flag(&self) -> Option<&'static str> {
        let said = [
            ("--stats", self.stats.is_some()),
            ("--dump", self.dump.is_some()),
            ("--stall", self.stall.is_some()),
            ("--records", self.records.is_some()),
            ("--graph", self.graph.is_some()),
        ];
        said.into_iter().find(|(_, is_said)| *is_said).map(|(flag, _)| flag)
    }

    pub(super) fn settings(&self) -> Settings {
        Settings {
            stats: self.stats.clone(),
            stats_every: self.stats_every,
            dump: self.dump.clone(),
            stall: self.stall,
            graph: self.graph.clone(),
            records: self.records.clone().map(|file| (file, self.records_limit)),
        }
    }
}

/// A time that a kernel thread can keep without being busy.
fn period(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        short if short < Duration::from_millis(10) => Err("give a time from 10ms on".into()),
        period => Ok(period),
    }
}
