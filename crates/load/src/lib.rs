//! The load generator: `duality load`, and what the lab calls for each of its cells.
//!
//! Written with this project's own runtime, on its event world (suspend, epoll), so that one kernel
//! thread drives any number of connections. [`run`] makes requests in some [`Pattern`], checks
//! every answer (a wrong byte is an error, not a success) and returns a [`Report`].
//! [`peak_goodput`] does so at one rate after the other, to find the highest rate that the server
//! keeps up with.
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
//! Beside them there may be a `crowd` of connections that are almost idle. `sources` chooses the
//! addresses that all of them come from.
//!
//! A pattern decides when a request is made. A client decides what the request is. Neither knows
//! the other.
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
mod sources;
mod target;
mod unanswered;

use std::io;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

pub use client::http::{
    Expectation, ExpectedBody, Header, Listed, Method, Page, Request, Script, Statuses, Values,
};
pub use crowd::{Crowd, Fate, Spans};
pub use failure::is_wrong_reply;
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
pub use report::{HistogramError, Latency, OpenLoop, Report, Warning, WarningKind};
pub use sources::Sources;
pub use target::{Target, TargetError};

use announce::{Announcer, EdgeAnnouncer};
use counters::{Counters, Meanwhile};
use engine::Outcome;
use place::Place;
use sources::Route;

/// The description of a load.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server, and what to ask of it.
    pub target: Target,
    /// How clients behave.
    pub pattern: Pattern,
    /// The number of connections that are open at once, at least 1. In a closed loop, it is the
    /// offered load l. In an open loop, it is the most requests in flight, and further requests
    /// wait.
    pub connections: usize,
    /// When to stop.
    pub stop: Stop,
    /// The time that the load runs before the measured window opens. Not used with
    /// [`Stop::Requests`].
    pub warm_up: Duration,
    /// Whether a connection carries one request after the other, or only one. The time service
    /// closes each connection, whatever this says.
    pub keep_alive: bool,
    /// How many requests a connection carries before the client replaces it, with keep-alive.
    /// `None` sets no limit. Only for http.
    pub requests_per_connection: Option<NonZeroU32>,
    /// The CPUs that the load may run on: the calling kernel thread is confined to them, and so are
    /// those that it starts later. Empty: as it is.
    pub cpus: Vec<usize>,
    /// The longest wait for a connection to open, and for the next bytes of a reply. Not zero.
    pub reply_timeout: Duration,
    /// The seed of all random choices: the same seed gives the same arrivals.
    pub seed: u64,
    /// The number of addresses that the connections come from.
    pub sources: Sources,
    /// Connections beside the measured ones; none unless told.
    pub crowd: Crowd,
    /// What the pattern [`Pattern::Trace`] replays. See [`Options::replaying`].
    pub replay: Option<Arc<Piece>>,
}

/// When a load stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The length of the measured window. Requests under way at its end are dropped, and are no
    /// error.
    After(Duration),
    /// When exactly so many requests have been made and have ended, correctly or not. Of 10,000 or
    /// more, the first and the last 1,000 lie outside the window. The load thins out at the very
    /// end, when there is no next request for a connection to make.
    Requests(u64),
}

impl Options {
    /// A closed loop on 100 connections for 10 s after a warm-up of 1 s. It uses keep-alive, runs
    /// anywhere on the machine, and has 30 s of patience.
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
            replay: None,
        }
    }

    /// These options, but for the pattern: they replay `piece`. As many connections as it has and
    /// the window are the piece's.
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

    /// Finds what makes no sense, as [`run`] does before it starts.
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
        } else if let Some(problem) = self.target.misfit(self) {
            problem
        } else {
            return Ok(self.target.check()?);
        };
        Err(Error::Options(problem))
    }

    /// Whether this process may have a descriptor for each connection.
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
        Route::new(place.clone(), self.sources.count(place, connections, stays))
    }

    /// The measured connections that may be open at once, and the crowd.
    fn connections_in_all(&self) -> usize {
        let measured = self.replay.as_ref().map_or(self.connections, |piece| piece.open_at_once());
        measured.saturating_add(self.crowd.total())
    }
}

/// Hears of a load's course. All is called on the thread that called [`run`].
pub trait Observer {
    /// The measured window opens when this returns; until then the load stands still, so that the
    /// server's counters can be read.
    fn window_opened(&mut self) {}

    /// The measured window has just closed, and the load stands still until this returns.
    ///
    /// Between the two calls the server did as many requests as the report counts, give or take
    /// those under way at the edges. There are as many of these at one edge as at the other.
    fn window_closed(&mut self) {}

    /// About ten times a second: how many requests have ended since the start, warm-up included,
    /// and how long ago that was.
    fn progress(&mut self, requests: u64, elapsed: Duration) {
        let _ = (requests, elapsed);
    }

    /// A load of [`peak_goodput`] is over.
    fn probed(&mut self, probe: &Probe) {
        let _ = probe;
    }
}

/// For callers that need no announcements.
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
    /// The first request, made before the load, got no correct answer; or not all members were let
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
    /// More connections than this process may have descriptors.
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
    /// The machine refused something that every load needs.
    #[error("{doing}: {error}")]
    System {
        /// The operation that failed.
        doing: &'static str,
        /// The kernel's error.
        error: io::Error,
    },
    /// Interrupted before the window opened.
    #[error("interrupted before anything was measured")]
    Interrupted,
}

/// Makes a load and reports what it measured; blocks until it is over.
///
/// One request is made before the load. It shows that there is a server, and the other replies are
/// compared with its reply. The connections live on a kernel thread of their own. Setting
/// `interrupted` ends the load early. The report then has the figures so far, with a warning.
///
/// The soft limit of descriptors of this process is raised to the hard one when it must be.
///
/// # Errors
///
/// [`Error`], which says in one line what to do. Failed requests within the load are part of the
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

/// Replays the piece of `options` on all of `targets` at once: each gets every connection, the
/// copies up to 20 ms apart. `options.target` is not used. There is a report for each target.
///
/// Each server's processor time is one to compare: whatever happens on the machine happens to all.
/// Latencies are not, for the servers share their processors. The processor time of the load
/// generator in a report is that for all servers.
///
/// # Errors
///
/// Those of [`run`].
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

/// Runs a load on a kernel thread of its own, on the processors of `options`, and passes on what it
/// announces.
fn on_thread<T: Send + 'static>(
    options: &Options,
    observer: &mut dyn Observer,
    interrupted: &AtomicBool,
    run: impl FnOnce(Options, Announcer, EdgeAnnouncer) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    limits::pin(&options.cpus)?;
    let (announcer, edges, announcements) = announce::announcements();
    let own = options.clone();
    let load =
        thread::Builder::new().name("load".to_owned()).spawn(move || run(own, announcer, edges));
    let load =
        load.map_err(|error| Error::System { doing: "starting the load's thread", error })?;
    announcements.relay(observer, interrupted);
    load.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
