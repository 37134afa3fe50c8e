//! Cells and slices with a load command, which runs once for each of them.
//!
//! A server's first run warms it up and is not counted. The second run is the server's cell, and
//! each slice of a block is one more run.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use duality_load::{Observer, Report, Warning, WarningKind};

use super::meter::Meter;
use super::window::Window;
use crate::failure::Failure;
use crate::measure::experiment::Experiment;
use crate::measure::load_command::{self, Run};
use crate::measure::server::Server;
use crate::record::CellKey;
use crate::record::{Outcome, Slice};

/// The kind of the failures that a load command reports.
const FAILED: &str = "load-command";

/// A load command, and its experiment.
#[derive(Clone, Copy)]
pub(super) struct Load<'a> {
    pub(super) words: &'a [String],
    pub(super) experiment: &'a Experiment,
    pub(super) interrupted: &'a AtomicBool,
}

impl Load<'_> {
    /// Measures a server that has just been started.
    pub(super) fn window(
        self,
        key: &CellKey,
        server: &mut dyn Server,
        meter: &mut dyn Meter,
    ) -> Outcome {
        let warm_up = self.run(key, server);
        let address = server.address();
        let mut window = Window::of(server, meter);
        if let Err(failure) = warm_up {
            return Outcome::Failed { reason: window.with_last_words(failure.to_string()) };
        }
        window.window_opened();
        let ran = self.run_at(key, address);
        window.window_closed();
        match ran {
            Ok(run) => {
                window.outcome(Ok(self.report(key, &run)), None, self.experiment, &key.subject)
            }
            Err(failure) => Outcome::Failed { reason: window.with_last_words(failure.to_string()) },
        }
    }

    /// Runs the command once more.
    pub(super) fn slice(self, key: &CellKey, server: &mut dyn Server) -> std::io::Result<Slice> {
        let before = server.settled()?;
        let run = self.run(key, server).map_err(std::io::Error::other)?;
        let used = server.settled()?.saturating_sub(before);
        let (seconds, elapsed) = (run.seconds(), run.elapsed.as_secs_f64());
        Ok(Slice {
            subject: key.subject.clone(),
            requests: run.figures.requests,
            server_cpu_us: 1e6 * used.as_secs_f64(),
            client_cpu_us: 1e6 * run.cpu.as_secs_f64(),
            requests_per_second: run.figures.requests as f64 / seconds,
            server_cpu_share: used.as_secs_f64() / elapsed,
            client_cpu_share: run.cpu.as_secs_f64() / elapsed,
            client_wait_share: 0.0,
            connections_served: key.concurrency as u64,
            failures: run.figures.errors,
            errors: errors(&run),
        })
    }

    fn run(self, key: &CellKey, server: &dyn Server) -> Result<Run, Failure> {
        self.run_at(key, server.address())
    }

    fn run_at(self, key: &CellKey, address: std::net::SocketAddr) -> Result<Run, Failure> {
        let cpus = &self.experiment.design.client_cpus;
        load_command::run(self.words, address, key.concurrency, cpus, self.interrupted)
    }

    /// A report like that of the load generator.
    fn report(self, key: &CellKey, run: &Run) -> Report {
        let figures = &run.figures;
        let seconds = run.seconds();
        let rate = figures.requests as f64 / seconds;
        let client_cpu_share = run.cpu.as_secs_f64() / seconds;
        let failed = (figures.errors > 0).then(|| {
            let text = format!("The load command reported {} failed requests.", figures.errors);
            Warning::new(WarningKind::Failed(FAILED.to_owned()), text)
        });
        Report {
            version: 1,
            target: self.words.join(" "),
            pattern: FAILED.to_owned(),
            connections: key.concurrency,
            keep_alive: true,
            requests_per_connection: None,
            sources: 1,
            window_seconds: seconds,
            requests: figures.requests,
            requests_per_second: rate,
            latency_us: figures.latency,
            first_byte_us: None,
            measured_load: rate * figures.latency.mean / 1e6,
            errors: errors(run),
            bytes_received: 0,
            connections_opened: key.concurrency as u64,
            connections_served: key.concurrency as u64,
            client_cpu_share,
            client_wait_share: 0.0,
            client_was_limit: client_cpu_share > 0.95,
            listen_overflows: 0,
            listen_drops: 0,
            quota: None,
            crowd: BTreeMap::new(),
            invalid: BTreeMap::new(),
            warnings: failed.into_iter().collect(),
            slices_requests_per_second: Vec::new(),
            histogram: String::new(),
            open_loop: None,
            replayed: None,
        }
    }
}

/// The failures that a run reported, by kind. The load command decides what it calls an error.
fn errors(run: &Run) -> BTreeMap<String, u64> {
    let errors = Some(run.figures.errors).filter(|count| *count > 0);
    errors.into_iter().map(|count| (FAILED.to_owned(), count)).collect()
}
