//! The window of a cell: the resources that the server used while the load generator counted.

use std::net::SocketAddr;
use std::time::Duration;

use duality_load::{Observer, Report, Warning, WarningKind};

use super::meter::Meter;
use crate::failure::Failure;
use crate::measure::experiment::Experiment;
use crate::measure::observe::counters::{self, Counters};
use crate::measure::observe::listen_queue;
use crate::measure::server::Server;
use crate::record::{Disturbance, Measured, Operations, Outcome, Processor, QueueSample};

/// Reads the server's counters as the measured window opens and closes.
pub(super) struct Window<'a> {
    server: &'a mut dyn Server,
    meter: &'a mut dyn Meter,
    opened: Option<Counters>,
    closed: Option<Counters>,
    /// The number of connections in the server's listen queue.
    queue: Option<u64>,
    problem: Option<std::io::Error>,
    disturbance: Option<Disturbance>,
    queues: Vec<QueueSample>,
    /// Whether the server has no queues.
    has_none: bool,
}

impl Observer for Window<'_> {
    fn window_opened(&mut self) {
        self.opened = self.read(false);
        self.meter.look_at(self.server);
    }

    fn window_closed(&mut self) {
        self.disturbance = Some(self.meter.look_at(self.server));
        self.closed = self.read(true);
        self.queue = self.server.listen_queue();
    }

    fn progress(&mut self, _: u64, elapsed: Duration) {
        if self.has_none {
            return;
        }
        // When the window closes, the lab reports a server that does not answer.
        let queues = self.server.queues().unwrap_or_default();
        self.has_none = queues.is_empty();
        if !self.has_none {
            self.queues.push(QueueSample { seconds: elapsed.as_secs_f64(), queues });
        }
    }
}

impl<'a> Window<'a> {
    pub(super) fn of(server: &'a mut dyn Server, meter: &'a mut dyn Meter) -> Self {
        Self {
            server,
            meter,
            opened: None,
            closed: None,
            queue: None,
            problem: None,
            disturbance: None,
            queues: Vec::new(),
            has_none: false,
        }
    }

    /// The address at which the server listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// A failure, with the server's last line on standard error, if there is one.
    pub(super) fn with_last_words(self, failure: String) -> String {
        let last = self.server.last_words(None);
        let last = last.trim_matches([':', ' ']);
        if last.is_empty() { failure } else { format!("{failure}; the server said: {last}") }
    }

    /// The outcome after the end of the load.
    pub(super) fn outcome(
        self,
        report: Result<Report, Failure>,
        round_trip: Option<Duration>,
        experiment: &Experiment,
        subject: &str,
    ) -> Outcome {
        let report = match report {
            Ok(report)
                if is_silent(&report) && self.disturbance.as_ref().is_some_and(takes_all) =>
            {
                return Outcome::silent(BUSY);
            }
            Ok(report) if report.requests == 0 => {
                return Outcome::Failed { reason: self.with_last_words(unanswered(&report)) };
            }
            Ok(report) => report,
            Err(error) => {
                return Outcome::Failed { reason: self.with_last_words(error.to_string()) };
            }
        };
        let (Some(opened), Some(closed)) = (self.opened, self.closed) else {
            let never = || std::io::Error::other("the window never opened");
            let reason = self.server.last_words(Some(&self.problem.unwrap_or_else(never)));
            return Outcome::Failed { reason };
        };
        let pinned = !experiment.design.shares_processors();
        let is_peer = experiment.design.peers.iter().any(|peer| peer.name == subject);
        let queue = listen_queue::examine(&report, self.queue);
        let diagnosis = queue.and_then(|queue| queue.warning(&report, is_peer));
        let mut figures = measured(report, opened, closed, pinned);
        figures.listen_queue = queue;
        figures.round_trip_us = round_trip.map(|time| 1e6 * time.as_secs_f64());
        figures.queues = self.queues;
        if experiment.store_is_beside_load() && figures.invalid.remove(Report::STARVED).is_some() {
            // The user chose that the two sides take turns, and the rate suffers.
            figures.client_was_limit = true;
        }
        if let Some(found) = self.disturbance {
            starvation(&mut figures, &found);
            figures.disturbance = Some(found);
        }
        if let Some(diagnosis) = diagnosis {
            // This finding confirms a suspicion of the load generator.
            figures.warnings.retain(|known| known.kind != WarningKind::AcceptQueues);
            figures.warnings.insert(0, Warning::new(WarningKind::ListenQueue, diagnosis));
        }
        Outcome::Measured(Box::new(figures))
    }

    fn read(&mut self, with_memory: bool) -> Option<Counters> {
        let used = self.server.counters(with_memory).map_err(|error| self.problem = Some(error));
        used.ok().map(|used| Counters { client_waits: counters::own_waits(), ..used })
    }
}

/// A stranger with a priority above that of the kernel's soft interrupts makes replies wait. The
/// client does not know of these replies yet. So it does not wait for its processor, and its rate
/// is a fraction of what it would be.
fn starvation(figures: &mut Measured, found: &Disturbance) {
    /// Half of the share that makes a client's own waits suspicious, because every reply is late.
    const MOST: f64 = 0.05;
    let own = own_niceness();
    // Many busy threads of a server at the priority of the soft interrupts make them wait too. Such
    // waits are a cost of the server itself.
    let by_another =
        |processor: &&Processor| own < 0 || processor.strangers >= processor.soft_interrupts_waited;
    let waits = found.processors.iter().filter(by_another);
    let waited = waits.map(|processor| processor.soft_interrupts_waited).fold(0.0, f64::max);
    if waited > MOST {
        let taken = match own {
            ..0 => format!("this command and its servers run at nice {own}. Run it at nice 0."),
            _ => "another process with a higher priority took it. End it, or measure on other processors \
                  (--server-cpus, --client-cpus)."
                .to_owned(),
        };
        let because = format!(
            "The kernel's soft interrupts, which carry every packet, waited for a processor for {:.0} % of the window: \
             {taken}",
            100.0 * waited
        );
        figures.invalid.insert(Report::STARVED.to_owned(), because);
    }
}

/// The niceness of this process, which servers inherit (nice(1)). 0 if the kernel does not report
/// it.
fn own_niceness() -> i32 {
    rustix::process::getpriority_process(None).unwrap_or_default()
}

/// Why a window without a reply says nothing of its server.
const BUSY: &str = "no reply came within its window, because the processors were busy with \
                    other programs: measure on a quieter machine";

/// Whether there was no reply in a window, and no failure either.
pub(super) fn is_silent(report: &Report) -> bool {
    report.requests == 0 && report.errors.is_empty()
}

/// Whether strangers and the hypervisor had a processor for most of the time.
fn takes_all(found: &Disturbance) -> bool {
    const MOST: f64 = 0.5;
    found.processors.iter().any(|one| one.strangers + one.stolen > MOST)
}

/// The reason why a window without a correct reply has no figures: zeros would look like
/// measurements.
fn unanswered(report: &Report) -> String {
    let kinds: Vec<String> =
        report.errors.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let errors = if kinds.is_empty() { "no errors".to_owned() } else { kinds.join(", ") };
    format!("no correct reply within the window ({errors})")
}

/// Combines the load generator's figures and the server's resources.
fn measured(report: Report, opened: Counters, closed: Counters, pinned: bool) -> Measured {
    let cpu_us = closed.cpu_us.saturating_sub(opened.cpu_us) as f64;
    let (mut warnings, mut invalid) = (report.warnings, report.invalid);
    if !pinned {
        // Where there is no processor to set apart, the two sides take turns, and the measurement
        // includes that.
        invalid.remove(Report::STARVED);
        let text = "Server and load generator shared processors: this machine has too few \
            processors.";
        warnings.push(Warning::new(WarningKind::SharedProcessors, text));
    }
    Measured {
        requests_per_second: report.requests_per_second,
        requests: report.requests,
        window_seconds: report.window_seconds,
        latency_us: report.latency_us,
        measured_load: report.measured_load,
        round_trip_us: None,
        server_cpu_us_per_request: if report.requests == 0 {
            0.0
        } else {
            cpu_us / report.requests as f64
        },
        server_cpu_share: cpu_us / 1e6 / report.window_seconds,
        server_peak_bytes: closed.peak_bytes,
        session: None,
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
        server_connections_open: closed.connections_open.max(opened.connections_open),
        listen_overflows: report.listen_overflows,
        listen_drops: report.listen_drops,
        listen_queue: None,
        disturbance: None,
        queues: Vec::new(),
        errors: report.errors,
        crowd: report.crowd,
        open_loop: report.open_loop,
        replayed: report.replayed,
        warnings,
        invalid,
        client_wait_share: report.client_wait_share,
        slices_requests_per_second: report.slices_requests_per_second,
        histogram: report.histogram,
    }
}
