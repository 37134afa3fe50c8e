//! `duality serve --inject`: load without TCP, by a kernel thread of the server itself.

use std::time::{Duration, Instant};
use std::{io, thread};

use clap::Args;
use duality_architectures::{Architecture, Options, Served, Server};
use duality_lab::Mistake;
use duality_lab::ask::settings::{Waits, parse_duration};
use duality_load::{Arrivals, Injection};
use duality_services::find;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

use super::{Failure, Party, for_terminal, heading, print};

/// The version of the JSON. The version changes when a field changes its meaning, and not for a new
/// field.
const VERSION: u32 = 1;

/// The injected load, if there is one.
#[derive(Args)]
#[command(next_help_heading = heading::INJECTION)]
pub(super) struct InjectionFlags {
    /// Do not listen: inject clients at these intervals, such as 20us or 2us..200us, and end
    ///
    /// With two times, the wait swings between them as a cosine does, from the longer one to the
    /// shorter one and back. Each client has one request. As in Truppel and Abreu's experiments, no
    /// network is involved; the service runs as it does over TCP. Only the service `blocks` accepts
    /// the flag.
    #[arg(long, value_name = "WAIT", value_parser = waits, conflicts_with_all = ["listen", "control"])]
    inject: Option<Waits>,
    /// Number of injected clients
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 2000,
        requires = "inject",
        conflicts_with = "listen"
    )]
    clients: u64,
    /// Length of a swing of the waits
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration, requires = "inject", conflicts_with = "listen")]
    period: Duration,
    /// Print the results of the clients as JSON
    #[arg(long, requires = "inject", conflicts_with = "listen")]
    json: bool,
}

/// A single wait, or the shortest and the longest.
fn waits(text: &str) -> Result<Waits, Mistake> {
    if text.contains("..") {
        return text.parse();
    }
    let time = parse_duration(text)?;
    Ok(Waits { shortest: time, longest: time })
}

impl InjectionFlags {
    /// The load, if the service and the architecture support it.
    pub(super) fn load(
        &self,
        name: &str,
        architecture: &dyn Architecture,
        options: &Options,
    ) -> Result<Option<Injection>, Failure> {
        let Some(Waits { shortest, longest }) = self.inject else { return Ok(None) };
        let waits = Arrivals::Sinusoidal { shortest, longest, period: self.period };
        let injection = Injection { waits, clients: self.clients };
        let carrier = architecture.name();
        let problem = if !find(name).is_some_and(|entry| entry.injectable) {
            Some(format!("{name} cannot be asked without a network: choose blocks"))
        } else if architecture.about().forks || !architecture.about().gives.straight_line {
            Some(format!(
                "{carrier} takes connections from a network only: choose another architecture"
            ))
        } else if options.cores > 1 {
            Some("injected clients go to one loop: leave out --cores".to_owned())
        } else {
            injection.problem().map(str::to_owned)
        };
        problem.map_or(Ok(Some(injection)), |problem| {
            Err(Failure::misuse(format!("--inject: {problem}")))
        })
    }

    /// Has the architecture serve the clients, and prints the results.
    pub(super) fn serve(
        &self,
        injection: Injection,
        architecture: &dyn Architecture,
        service: Served,
        options: Options,
    ) -> Result<(), Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::new(Party::Subject, format!("{}: cannot serve: {error}", architecture.name()))
        };
        let name = service.name().to_owned();
        let (server, injector) =
            Server::injected(service, options).map_err(|error| failed(&error))?;
        let tally = injector.tally();
        let (start, processor) = (Instant::now(), seconds(ClockId::ProcessCPUTime));
        let generator = thread::Builder::new().name("injector".into()).spawn(move || {
            let injected = injection.run(&injector);
            (injected, seconds(ClockId::ThreadCPUTime))
        });
        let generator = generator.map_err(|error| failed(&error))?;
        architecture.serve(server).map_err(|error| failed(&error))?;
        let elapsed = start.elapsed().as_secs_f64();
        let used = seconds(ClockId::ProcessCPUTime) - processor;
        let (injected, generating) =
            generator.join().map_err(|_| failed(&"the injector panicked"))?;
        let injected = injected.map_err(|error| failed(&error))?;
        let answered = tally.answered();
        let rate = answered as f64 / elapsed;
        let cpu_us = (used - generating) * 1e6 / answered.max(1) as f64;
        if self.json {
            print(
                &json!({
                    "version": VERSION,
                    "service": name,
                    "architecture": architecture.name(),
                    "clients": injected,
                    "answered": answered,
                    "failed": tally.failed(),
                    "elapsed_s": elapsed,
                    "requests_per_second": rate,
                    "server_cpu_us_per_request": cpu_us,
                    "peak_clients": tally.most(),
                })
                .to_string(),
            )?;
        } else {
            let message = format!(
                "{answered} of {injected} clients answered in {elapsed:.3} s: {rate:.0} requests/s, \
                 {cpu_us:.1} µs of processor time each, at most {} clients at a time",
                tally.most()
            );
            print(&for_terminal(message, &io::stdout()))?;
        }
        if answered == injected && injected == injection.clients {
            return Ok(());
        }
        let lost = injection.clients - answered;
        Err(Failure::new(
            Party::Subject,
            format!("{lost} of {} clients got no answer", injection.clients),
        ))
    }
}

/// The reading of a clock of processor time.
fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
