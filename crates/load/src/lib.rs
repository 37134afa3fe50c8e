//! The load generator: `duality load`, and the function that the lab calls for each cell.
//!
//! The generator uses this project's own runtime, in its event world (suspend, epoll). So one
//! kernel thread drives any number of connections. [`run`] makes requests in a [`Pattern`], checks
//! every answer (a wrong byte is an error, not a success) and returns a [`Report`].
//! [`peak_goodput`] tries one rate after the other, to find the highest rate that the server keeps
//! up with.
//!
//! ```text
//!   run ── target ── client/{http, echo, …}: what a request is
//!                      │
//!                      └─ pattern/{closed, serial, limited, open}: when one is made
//!                           │
//!                           ├─ engine: probes the server, minds the clock
//!                           └─ recorder: the window, latencies, failures ──▶ report
//! ```
//!
//! In addition, a `crowd` of almost idle connections is possible. `sources` chooses the source
//! addresses of all connections.
//!
//! A pattern decides when a request is made. A client decides what the request is. Patterns and
//! clients need no knowledge of each other.
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//! use duality_load::{Options, run};
//!
//! let options = Options { connections: 1000, ..Options::new("http://127.0.0.1:8080/".parse()?) };
//! let report = run(&options, &mut (), &AtomicBool::new(false))?;
//! println!("{}", report.render_text());
//! # Ok::<(), duality_load::Error>(())
//! ```

#![forbid(unsafe_code)]

mod announce;
mod built;
mod client;
mod connection;
mod counters;
mod crowd;
mod due;
mod edges;
mod engine;
mod failure;
mod fidelity;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod goodput;
mod histogram;
mod injection;
mod limits;
mod listeners;
mod measurement;
mod pattern;
mod place;
mod quota;
mod random;
mod recorder;
mod relay;
mod report;
mod request;
mod slices;
mod snapshot;
mod sources;
mod target;
mod tls;
mod unanswered;

use std::io;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

pub use built::built;
pub use client::http::{
    Expectation, ExpectedBody, Header, Listed, Method, Page, Request, Script, Statuses, Values,
};
pub use crowd::{Crowd, Fate, Spans};
pub use duality_trace::Mistake;
pub use failure::{is_own_failure, is_wrong_reply};
pub use fidelity::{Fidelity, Replayed};
pub use goodput::{Goodput, Percentile, Probe, Slo, peak_goodput};
pub use injection::Injection;
pub use limits::SPARE_DESCRIPTORS;
pub use listeners::Listeners;
pub use pattern::trace::files::write_files;
pub use pattern::trace::plan::{At, Cut, Piece};
pub use pattern::{Arrivals, Named, Pattern};
pub use quota::{Exhausted, Quotas};
pub use relay::{Relay, Slice};
pub use report::{
    Bar, HistogramError, Latencies, Latency, OpenLoop, Report, Warning, WarningKind,
    bars as histogram_bars, duration as duration_text, rows as histogram_rows,
};
pub use snapshot::Snapshot;
pub use sources::Sources;
pub use target::{Target, TargetError};
pub use tls::Trust;

use announce::{Announcer, EdgeAnnouncer};
use counters::{Counters, Meanwhile};
use engine::Outcome;
use place::Place;
use sources::Route;

/// The description of a load.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server, and the requests to it.
    pub target: Target,
    /// How clients behave.
    pub pattern: Pattern,
    /// The number of connections that are open at the same time, at least 1. In a closed loop, it
    /// is the offered load l. In an open loop, it is the most requests in flight, and further
    /// requests wait.
    pub connections: usize,
    /// When to stop.
    pub stop: Stop,
    /// The time that the load runs before the measured window opens. [`Stop::Requests`] does not
    /// use it.
    pub warm_up: Duration,
    /// Whether a connection carries several requests, one after the other. The time service closes
    /// each connection in any case.
    pub keep_alive: bool,
    /// The number of requests on a connection before its replacement, with keep-alive. `None` sets
    /// no limit. Used only by http.
    pub requests_per_connection: Option<NonZeroU32>,
    /// The CPUs for the load: the calling kernel thread is confined to them, and so are threads
    /// that it starts later. Empty means no change.
    pub cpus: Vec<usize>,
    /// The longest wait for a connection to open, and for the next bytes of a reply. Not zero.
    pub reply_timeout: Duration,
    /// The seed of all random choices: the same seed gives the same arrivals.
    pub seed: u64,
    /// The number of addresses that the connections come from.
    pub sources: Sources,
    /// Connections beside the measured ones. By default there are none.
    pub crowd: Crowd,
    /// The certificates that a load of `https://` trusts.
    pub trust: Trust,
    /// The piece that the pattern [`Pattern::Trace`] replays. See [`Options::replaying`].
    pub replay: Option<Arc<Piece>>,
    /// The statuses of correct replies of a replay. `None`: those of the recording.
    pub expected: Option<Statuses>,
}

/// The condition that ends a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The length of the measured window. Requests under way at its end are dropped, and do not
    /// count as errors.
    After(Duration),
    /// Stop after exactly this many requests have ended, correctly or not. With 10,000 or more, the
    /// first and the last 1,000 lie outside the window. At the very end the load thins out, because
    /// some connections have no next request.
    Requests(u64),
}

impl Options {
    /// A closed loop on 100 connections for 10 s after a warm-up of 1 s. The load uses keep-alive,
    /// any processor of the machine, and a patience of 30 s.
    pub fn new(target: Target) -> Self {
        Self {
            target,
            pattern: Pattern::Closed,
            connections: 100,
            stop: Stop::After(Duration::from_secs(10)),
            warm_up: Duration::from_secs(1),
            keep_alive: true,
            requests_per_connection: None,
            cpus: Vec::new(),
            reply_timeout: Duration::from_secs(30),
            seed: 1,
            sources: Sources::Automatic,
            crowd: Crowd::default(),
            trust: Trust::default(),
            replay: None,
            expected: None,
        }
    }

    /// These options with another pattern: they replay `piece`. The piece sets the number of
    /// connections and the window.
    #[must_use]
    pub fn replaying(self, piece: Arc<Piece>) -> Self {
        Self {
            pattern: Pattern::Trace,
            connections: piece.connections().max(1),
            stop: Stop::After(piece.length()),
            replay: Some(piece),
            ..self
        }
    }

    /// Whether a connection carries more than one request.
    fn keeps_connections(&self) -> bool {
        self.keep_alive && self.target.is_persistent()
    }

    /// Finds options that make no sense, like [`run`] before it starts.
    ///
    /// # Errors
    ///
    /// [`Error::Options`], [`Error::Target`].
    pub fn check(&self) -> Result<(), Error> {
        let problem = if self.connections == 0 {
            "0 connections make no load: give at least 1"
        } else if matches!(self.stop, Stop::After(Duration::ZERO) | Stop::Requests(0)) {
            "a load of no length measures nothing: give it a duration or a number of requests"
        } else if self.reply_timeout.is_zero() {
            "no reply can come within 0 s: give a longer time limit"
        } else if let Pattern::Open(arrivals) = self.pattern
            && let Some(problem) = arrivals.problem()
        {
            problem
        } else if self.pattern == Pattern::Trace
            && let Some(problem) = pattern::trace::problem(self)
        {
            problem
        } else if let Some(problem) =
            self.target.places().iter().find_map(|place| self.sources.problem(place))
        {
            problem
        } else if let Some(problem) = self.crowd.problem(&self.target) {
            problem
        } else if self.requests_per_connection.is_some() && self.target.service() != "http" {
            "only http has a number of requests for each connection: leave out \
             --requests-per-connection"
        } else if self.requests_per_connection.is_some() && !self.keep_alive {
            "without keep-alive each connection has one request: leave out --close or \
             --requests-per-connection"
        } else if self.trust != Trust::System && !self.target.is_secure() {
            "only a server of https:// has a certificate: leave out --ca and --insecure"
        } else if let Some(problem) = self.target.misfit(self) {
            problem
        } else {
            self.target.handshakes(&self.trust)?;
            return Ok(self.target.check()?);
        };
        Err(Error::Options(problem))
    }

    /// Whether this process can have a descriptor for each connection.
    ///
    /// # Errors
    ///
    /// [`Error::Descriptors`].
    pub fn check_descriptors(&self) -> Result<(), Error> {
        limits::check_descriptors(self.connections_in_all())
    }

    /// The way to a server of the target.
    fn route_to(&self, place: &Place) -> Route {
        let connections = self.connections_in_all();
        let stays = self.keep_alive && self.requests_per_connection.is_none();
        self.way_to(place, self.sources.count(place, connections, stays))
    }

    /// The way to a server of the target from `sources` addresses.
    fn way_to(&self, place: &Place, sources: u32) -> Route {
        // [`check`](Self::check) has refused authorities that cannot be read.
        let handshakes = self.target.handshakes(&self.trust).ok().flatten();
        Route::new(place.clone(), sources).with(handshakes)
    }

    /// The measured connections that may be open at once, and the crowd.
    fn connections_in_all(&self) -> usize {
        let measured = self.replay.as_ref().map_or(self.connections, |piece| piece.open_at_once());
        measured.saturating_add(self.crowd.total())
    }
}

/// Receives the events of a load. All calls come from the thread that called [`run`].
pub trait Observer {
    /// The measured window opens when this call returns. Until then the load stands still, so that
    /// the observer can read the server's counters.
    fn window_opened(&mut self) {}

    /// The measured window has just closed, and the load stands still until this call returns.
    ///
    /// Between the two calls, the server answered as many requests as the report counts, plus or
    /// minus requests under way at the edges. Equally many requests are under way at both edges.
    fn window_closed(&mut self) {}

    /// Called about ten times a second. Receives the number of ended requests since the start,
    /// warm-up included, and the time since the start.
    fn progress(&mut self, requests: u64, elapsed: Duration) {
        let _ = (requests, elapsed);
    }

    /// Whether [`snapshot`](Self::snapshot) is to be called. Asked once, before the load.
    fn wants_snapshots(&self) -> bool {
        false
    }

    /// Called about ten times a second instead of [`progress`](Self::progress), for an observer
    /// that wants snapshots.
    fn snapshot(&mut self, snapshot: &Snapshot) {
        let _ = snapshot;
    }

    /// Called after each load of [`peak_goodput`].
    fn probed(&mut self, probe: &Probe) {
        let _ = probe;
    }
}

/// The observer of callers that need no announcements.
impl Observer for () {}

/// The reason why there was no load, or nothing to report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The target cannot be loaded.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// An option has a value that makes no sense.
    #[error("{0}")]
    Options(&'static str),
    /// The first request, made before the load, got no correct answer. Or some members were not let
    /// in.
    #[error("no correct answer from {target}: {problem}: {remedy}")]
    Unanswered {
        /// The target, as its user writes it.
        target: String,
        /// What happened.
        problem: String,
        /// The remedy.
        remedy: String,
    },
    /// There are more connections than descriptors for this process.
    #[error(
        "{connections} connections need {needed} file descriptors, but the limit is {limit}: \
         raise it with `ulimit -Hn {needed}` as root, or use fewer connections"
    )]
    Descriptors {
        /// The connections asked for.
        connections: usize,
        /// The descriptors that they need, with a reserve.
        needed: u64,
        /// The hard limit of this process.
        limit: u64,
    },
    /// The load cannot be confined to these CPUs.
    #[error("the load cannot run on CPUs {cpus:?} ({error}): choose from those in `taskset -p $$`")]
    Pin {
        /// The CPUs asked for.
        cpus: Vec<usize>,
        /// The kernel's error.
        error: io::Error,
    },
    /// The machine refused a resource that every load needs.
    #[error("{doing}: {error}")]
    System {
        /// The operation that failed.
        doing: &'static str,
        /// The kernel's error.
        error: io::Error,
    },
    /// The user interrupted before the window opened.
    #[error("interrupted before anything was measured")]
    Interrupted,
}

/// Makes a load, and reports the measurements. Blocks until the load is over.
///
/// One request is made before the load. It shows that there is a server, and other replies are
/// compared with its reply. The connections live on a separate kernel thread. Setting `interrupted`
/// ends the load early. The report then has the figures so far, with a warning.
///
/// If necessary, raises this process's soft limit of descriptors to the hard limit.
///
/// # Errors
///
/// [`Error`], which names the remedy in one line. Failed requests within the load are part of the
/// report.
///
/// # Panics
///
/// If `observer` panics, or if the load itself has a bug.
pub fn run(
    options: &Options,
    observer: &mut dyn Observer,
    interrupted: &AtomicBool,
) -> Result<Report, Error> {
    let (outcome, meanwhile) = measure(options, observer, interrupted)?;
    Ok(Report::new(options, &outcome, meanwhile))
}

/// Makes a load. Returns the measurement, and the kernel's counts meanwhile.
fn measure(
    options: &Options,
    observer: &mut dyn Observer,
    interrupted: &AtomicBool,
) -> Result<(Outcome, Meanwhile), Error> {
    options.check()?;
    limits::provide_descriptors(options.connections_in_all())?;
    let before = Counters::read(options.target.address());
    let outcome = on_thread(options, observer, interrupted, engine::run)?;
    let meanwhile = Counters::read(options.target.address()).since(&before);
    if outcome.interrupted && outcome.measurement.window.is_zero() {
        return Err(Error::Interrupted);
    }
    Ok((outcome, meanwhile))
}

/// Replays the piece of `options` on all of `targets` at once. Each target gets every connection,
/// and the copies are up to 20 ms apart. `options.target` is not used. There is a report for each
/// target.
///
/// The servers' processor times can be compared, because events on the machine affect all servers
/// alike. Latencies cannot be compared, because the servers share their processors. The load
/// generator's processor time in a report is the time for all servers.
///
/// # Errors
///
/// The errors of [`run`].
///
/// # Panics
///
/// As [`run`].
pub fn replay_on_all(
    options: &Options,
    targets: &[Target],
    observer: &mut dyn Observer,
    interrupted: &AtomicBool,
) -> Result<Vec<Report>, Error> {
    let each = |target: &Target| Options { target: target.clone(), ..options.clone() };
    let all: Vec<Options> = targets.iter().map(each).collect();
    all.iter().try_for_each(Options::check)?;
    let connections = options.connections_in_all().saturating_mul(targets.len());
    limits::provide_descriptors(connections)?;
    let read = |options: &Options| Counters::read(options.target.address());
    let before: Vec<Counters> = all.iter().map(read).collect();
    let targets = targets.to_vec();
    let outcomes = on_thread(options, observer, interrupted, move |options, announcer, edges| {
        pattern::trace::run::<client::http::paced::Asked>(options, &targets, announcer, edges)
    })?;
    if outcomes.iter().any(|outcome| outcome.interrupted) {
        return Err(Error::Interrupted);
    }
    let reports = all.iter().zip(&outcomes).zip(&before).map(|((options, outcome), before)| {
        Report::new(options, outcome, read(options).since(before))
    });
    Ok(reports.collect())
}

/// Runs a load on a separate kernel thread, on the processors of `options`, and passes on its
/// announcements.
fn on_thread<T: Send + 'static>(
    options: &Options,
    observer: &mut dyn Observer,
    interrupted: &AtomicBool,
    run: impl FnOnce(Options, Announcer, EdgeAnnouncer) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    limits::pin(&options.cpus)?;
    let (announcer, edges, announcements) = announce::announcements(observer.wants_snapshots());
    let own = options.clone();
    let load =
        thread::Builder::new().name("load".to_owned()).spawn(move || run(own, announcer, edges));
    let load =
        load.map_err(|error| Error::System { doing: "starting the load's thread", error })?;
    announcements.relay(observer, interrupted);
    load.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
