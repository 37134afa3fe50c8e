//! A candidate while a trial runs: its server, its counts, and its limits.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_setfd};

use super::event::{Measured, Reason};
use super::queue::{STUCK, Watch};
use super::silence::Progress;
use super::{Door, Limits, Setup};
use crate::judge::guard::Guard;
use crate::measure::no_server::NoServer;
use crate::measure::server::Server;
use crate::measure::server::ours::Process;
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
    errors: Guard,
    late: Option<Guard>,
    queue: Watch,
    looked: Instant,
    /// Connections that waited in the queue for longer than the limit.
    waited_late: u64,
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

/// Counts of a server up to a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Totals {
    cpu_us: u64,
    answered: u64,
    /// What has come of requests, if the service defines them.
    progress: Progress,
    late: u64,
    failed: u64,
    refused: u64,
    buckets: Vec<u64>,
    open: u64,
    /// Connections that the server has taken from its queue.
    accepted: u64,
    peak_bytes: u64,
}

impl Totals {
    /// The sum of these counts and those of a later server.
    fn and(&self, later: &Self) -> Self {
        let longer = self.buckets.len().max(later.buckets.len());
        let bucket = |of: &Self, place: usize| of.buckets.get(place).copied().unwrap_or(0);
        Self {
            cpu_us: self.cpu_us + later.cpu_us,
            answered: self.answered + later.answered,
            progress: self.progress.and(later.progress),
            late: self.late + later.late,
            failed: self.failed + later.failed,
            refused: self.refused + later.refused,
            buckets: (0..longer).map(|place| bucket(self, place) + bucket(later, place)).collect(),
            open: later.open,
            accepted: self.accepted + later.accepted,
            peak_bytes: self.peak_bytes.max(later.peak_bytes),
        }
    }

    /// What has come of requests.
    pub(super) fn progress(&self) -> Progress {
        self.progress
    }

    /// The counts since `before`.
    pub(super) fn since(&self, before: &Self) -> Measured {
        let of = |place: usize| before.buckets.get(place).copied().unwrap_or(0);
        let buckets: Vec<u64> = self
            .buckets
            .iter()
            .enumerate()
            .map(|(place, count)| count.saturating_sub(of(place)))
            .collect();
        Measured {
            requests: self.answered.saturating_sub(before.answered),
            cpu_us: self.cpu_us.saturating_sub(before.cpu_us),
            failed: self.failed.saturating_sub(before.failed),
            refused: self.refused.saturating_sub(before.refused),
            late: self.late.saturating_sub(before.late),
            connections_open: self.open,
            p50_us: quantile(&buckets, 0.5),
            p99_us: quantile(&buckets, 0.99),
            memory_bytes: self.peak_bytes,
        }
    }
}

/// The upper end of the bucket with this quantile, in microseconds. The buckets end at 1, 2, 4 …
/// µs, and the last bucket has no end.
fn quantile(buckets: &[u64], quantile: f64) -> Option<f64> {
    let all: u64 = buckets.iter().sum();
    let wanted = (quantile * all as f64).ceil() as u64;
    let mut below = 0;
    let place = buckets.iter().position(|count| {
        below += count;
        all > 0 && below >= wanted
    })?;
    (place + 1 < buckets.len()).then(|| 2_f64.powi(place as i32))
}

impl Candidate {
    /// Starts the server of a candidate on its socket.
    pub(super) fn start(
        setup: &Setup,
        about: &super::Candidate,
        listener: BorrowedFd<'_>,
    ) -> Result<Self, String> {
        let Limits { slo, max_errors, .. } = setup.limits;
        let mut candidate = Self {
            about: about.clone(),
            state: State::In,
            deaths: 0,
            heirs: 0,
            server: None,
            unheard: String::new(),
            before: Totals::default(),
            now: Totals::default(),
            errors: Guard::new(max_errors),
            late: slo.map(|slo| Guard::new(1.0 - slo.percentile.share())),
            queue: Watch::new(Instant::now()),
            looked: Instant::now(),
            waited_late: 0,
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
    ) -> Result<(), String> {
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
        let failed = |error: rustix::io::Errno| format!("cannot pass the listener on: {error}");
        fcntl_setfd(listener, FdFlags::empty()).map_err(failed)?;
        let started = Process::launch(command);
        fcntl_setfd(listener, FdFlags::CLOEXEC).map_err(failed)?;
        let server = started.map_err(|none| match none {
            NoServer::Unavailable(reason) | NoServer::Failed(reason) => reason,
        })?;
        self.server = Some(server);
        Ok(())
    }

    /// Looks at the server's counters.
    ///
    /// # Errors
    ///
    /// How the server ended. A server that does not answer is killed.
    pub(super) fn look(&mut self, with_memory: bool) -> Result<(), String> {
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
                Err(how)
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
        if self.queue.tick(now, has_connections)
            && let Some(server) = &mut self.server
            && let Ok(requests) = server.requests()
        {
            let own = requests.open + requests.ended + requests.refused;
            self.queue.accepted(now, self.before.accepted + own, length);
        }
    }

    /// The limit that the candidate exceeds, if there is one. `before` has the counts of the last
    /// look, and `length` tells how long its queue is.
    pub(super) fn beyond(
        &mut self,
        before: &Totals,
        limits: &Limits,
        length: impl FnOnce() -> Option<u64>,
    ) -> Option<Reason> {
        let all = self.totals();
        let mut new = all.since(before);
        let elapsed = std::mem::replace(&mut self.looked, Instant::now()).elapsed();
        let waited = self.queue.look(elapsed, all.accepted.saturating_sub(before.accepted), length);
        if waited.time >= STUCK {
            return Some(Reason::Stuck { seconds: waited.time.as_secs_f64() });
        }
        if limits.slo.is_some_and(|slo| waited.time > slo.limit) {
            // A connection that waited has one request at least.
            let more = waited.connections.saturating_sub(new.late);
            self.waited_late += more;
            new.late += more;
            new.requests = new.requests.max(new.late);
        }
        let wrong = new.failed + new.refused;
        if self.errors.is_exceeded(wrong, new.requests + wrong) {
            let wrong = all.failed + all.refused;
            let share = wrong as f64 / (all.answered + wrong) as f64;
            return Some(Reason::Errors { share, limit: self.errors.limit() });
        }
        if let (Some(late), Some(slo)) = (&mut self.late, limits.slo)
            && late.is_exceeded(new.late, new.requests)
        {
            return Some(Reason::Slow {
                share: ((all.late + self.waited_late) as f64 / all.answered.max(1) as f64).min(1.0),
                percentile: slo.percentile.name().to_owned(),
                limit_us: slo.limit.as_secs_f64() * 1e6,
            });
        }
        let (bytes, limit) = (self.now.peak_bytes, limits.max_memory?);
        (bytes > limit).then_some(Reason::Memory { bytes, limit })
    }

    /// Takes a step towards the end of a candidate that is out. The candidate drains once its queue
    /// has been empty, `grace` after its last turn: until then handshakes may end. Returns true if
    /// the candidate has just ended.
    pub(super) fn step_out(&mut self, door: &dyn Door, place: usize, grace: Duration) -> bool {
        /// If a server does not empty its queue, an heir takes the queue.
        const MOST: Duration = Duration::from_secs(10);
        match self.state {
            State::Leaving(since) if since.elapsed() >= grace => {
                if !door.has_connections(place) || since.elapsed() >= grace + MOST {
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
        buckets: requests.buckets,
        open: requests.open,
        accepted: requests.open + requests.ended + requests.refused,
        peak_bytes: used.peak_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_end_of_its_bucket() {
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[0, 0, 0], 0.5), None);
        assert_eq!(quantile(&[5, 5, 0, 0], 0.5), Some(1.0));
        assert_eq!(quantile(&[5, 5, 0, 0], 0.99), Some(2.0));
        assert_eq!(quantile(&[0, 0, 1, 0], 0.99), Some(4.0));
        assert_eq!(quantile(&[0, 0, 0, 1], 0.99), None, "the last bucket has no end");
    }

    #[test]
    fn counts_go_on_over_a_restart() {
        let one = Totals { answered: 10, buckets: vec![10], open: 3, ..Totals::default() };
        let next = Totals { answered: 5, buckets: vec![4, 1], open: 1, ..Totals::default() };
        let both = one.and(&next);
        assert_eq!((both.answered, both.open, &both.buckets[..]), (15, 1, &[14, 1][..]));
        let since = both.since(&one);
        assert_eq!((since.requests, since.p50_us), (5, Some(1.0)));
    }
}
