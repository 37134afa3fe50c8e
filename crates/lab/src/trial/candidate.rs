//! A candidate while a trial runs: its server, and its way out of the trial.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_setfd};

use super::bounds::Bounds;
use super::event::Reason;
use super::silence::Progress;
use super::totals::Totals;
use super::{Listeners, Setup};
use crate::failure::{Blame, Failure, Party};
use crate::measure::no_server::NoServer;
use crate::measure::server::Server;
use crate::measure::server::ours::{Process, Requests};
use crate::measure::spawn::how_ended;

/// The limit for late requests of a server without a limit.
const NO_LIMIT: Duration = Duration::from_secs(86_400);

/// A candidate.
pub(super) struct Candidate {
    pub(super) about: super::Candidate,
    pub(super) state: State,
    /// The number of deaths of its servers.
    pub(super) deaths: u32,
    /// The number of servers that took what was left in its queue.
    pub(super) heirs: u32,
    server: Option<Process>,
    /// The output of a server that has ended.
    unheard: String,
    /// The counts of its earlier servers.
    before: Totals,
    /// The counts of its present server up to the last look.
    now: Totals,
    bounds: Bounds,
}

/// The state of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The candidate gets connections in its turns.
    In,
    /// The candidate gets no more connections since this time, and accepts the ones in its queue.
    Leaving(Instant),
    /// The candidate's server was asked to drain.
    Draining,
    /// The server has ended. Connections left in its queue go to another server.
    Gone,
    /// No server is available for the candidate's queue.
    Abandoned,
}

impl Candidate {
    /// Starts the server of a candidate on its socket.
    pub(super) fn start(
        setup: &Setup,
        about: &super::Candidate,
        listener: BorrowedFd<'_>,
    ) -> Result<Self, Failure> {
        let mut candidate = Self {
            about: about.clone(),
            state: State::In,
            deaths: 0,
            heirs: 0,
            server: None,
            unheard: String::new(),
            before: Totals::default(),
            now: Totals::default(),
            bounds: Bounds::new(&setup.limits, Instant::now()),
        };
        candidate.serve(setup, &about.architecture, listener)?;
        Ok(candidate)
    }

    /// Starts a server on the candidate's socket. The candidate's last server has ended.
    ///
    /// # Errors
    ///
    /// The reason why there is no server, in one line.
    pub(super) fn serve(
        &mut self,
        setup: &Setup,
        architecture: &str,
        listener: BorrowedFd<'_>,
    ) -> Result<(), Failure> {
        use std::os::fd::AsRawFd;
        self.before = self.totals();
        self.now = Totals::default();
        let late_after = setup.limits.slo.map_or(NO_LIMIT, |slo| slo.limit);
        let mut command = Command::new(&setup.program);
        command.args(["serve", &setup.service, "--architecture", architecture, "--control"]);
        command.args(&setup.server_arguments);
        command.arg(format!("--listener={}", listener.as_raw_fd()));
        command.arg(format!("--late-after={}us", late_after.as_micros()));
        // The trial handles a Ctrl-C, and then ends its servers in order.
        command.process_group(0);
        let place = "cannot pass the listener on";
        fcntl_setfd(listener, FdFlags::empty()).blame_at(Party::Machine, place)?;
        let started = Process::launch(command);
        fcntl_setfd(listener, FdFlags::CLOEXEC).blame_at(Party::Machine, place)?;
        let server = started.map_err(NoServer::failure)?;
        self.server = Some(server);
        Ok(())
    }

    /// Looks at the server's counters.
    ///
    /// # Errors
    ///
    /// How the server ended. A server that does not answer is killed.
    pub(super) fn look(&mut self, with_memory: bool) -> Result<(), Failure> {
        let Some(server) = &mut self.server else { return Ok(()) };
        match counted(server, with_memory) {
            Ok(totals) => {
                let peak_bytes = totals.peak_bytes.max(self.now.peak_bytes);
                self.now = Totals { peak_bytes, ..totals };
                Ok(())
            }
            Err(error) => {
                let ended = server.ended();
                let how = match ended {
                    Ok(Some(status)) => how_ended(status),
                    _ => format!("does not answer ({error})"),
                };
                self.bury();
                Err(Failure::new(Party::Subject, how))
            }
        }
    }

    /// Drops a server that has ended, or must end now.
    fn bury(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill();
            self.unheard += &server.news();
        }
    }

    /// Lines that the server has written to its standard error since the last look.
    pub(super) fn news(&mut self) -> Vec<String> {
        let mut text = std::mem::take(&mut self.unheard);
        text += &self.server.as_mut().map(Process::news).unwrap_or_default();
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// The counts of the candidate up to the last look.
    pub(super) fn totals(&self) -> Totals {
        self.before.and(&self.now)
    }

    /// Watches the candidate's queue between two looks.
    pub(super) fn tick(&mut self, has_connections: bool, length: impl FnOnce() -> Option<u64>) {
        let now = Instant::now();
        if self.bounds.tick(now, has_connections)
            && let Some(server) = &mut self.server
            && let Ok(requests) = server.requests()
        {
            let accepted = self.before.accepted + accepted(&requests);
            self.bounds.accepted(now, accepted, length);
        }
    }

    /// The limit that the candidate exceeds, if there is one. `before` has the counts of the last
    /// look, and `length` tells how long its queue is.
    pub(super) fn beyond(
        &mut self,
        before: &Totals,
        length: impl FnOnce() -> Option<u64>,
    ) -> Option<Reason> {
        let all = self.totals();
        self.bounds.look(Instant::now(), before, &all, length)
    }

    /// Takes a step towards the end of a candidate that is out. The candidate drains once its queue
    /// has been empty, `grace` after its last turn: until then handshakes may end. Returns true if
    /// the candidate has just ended.
    pub(super) fn step_out(
        &mut self,
        listeners: &dyn Listeners,
        place: usize,
        grace: Duration,
    ) -> bool {
        /// If a server does not empty its queue, an heir takes the queue.
        const MOST: Duration = Duration::from_secs(10);
        match self.state {
            State::Leaving(since) if since.elapsed() >= grace => {
                if !listeners.has_connections(place) || since.elapsed() >= grace + MOST {
                    self.drain();
                }
            }
            State::Draining => {
                let has_ended =
                    self.server.as_mut().is_none_or(|server| !matches!(server.ended(), Ok(None)));
                if has_ended {
                    self.bury();
                    self.state = State::Gone;
                    return true;
                }
            }
            State::In | State::Leaving(_) | State::Gone | State::Abandoned => {}
        }
        false
    }

    /// Asks the server to answer its accepted requests, and to end.
    pub(super) fn drain(&mut self) {
        if let Some(server) = &mut self.server {
            server.drain();
        }
        self.state = State::Draining;
    }

    /// Whether the candidate has no server.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.state, State::Gone | State::Abandoned)
    }

    /// Whether the candidate gets connections.
    pub(super) fn is_in(&self) -> bool {
        self.state == State::In
    }
}

/// The counters that a server reports.
fn counted(server: &mut Process, with_memory: bool) -> io::Result<Totals> {
    let used = server.counters(with_memory)?;
    let requests = server.requests()?;
    // A service of the user's own may not define requests. Then a connection counts as a request.
    let answered = if requests.answered > 0 { requests.answered } else { requests.ended };
    Ok(Totals {
        cpu_us: used.cpu_us,
        answered,
        progress: Progress { begun: requests.begun, replies: requests.answered },
        late: requests.late,
        failed: requests.failed,
        refused: requests.refused,
        accepted: accepted(&requests),
        buckets: requests.buckets,
        open: requests.open,
        peak_bytes: used.peak_bytes,
    })
}

/// Connections that a server has taken from its queue.
fn accepted(requests: &Requests) -> u64 {
    requests.open + requests.ended + requests.refused
}
