//! The lost workers of an architecture with worker processes, and how fast they are replaced.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use duality_runtime::log;
use duality_runtime::visibility::totals;
use rustix::process::WaitStatus;

use super::children::Ended;

/// Children that end by themselves. If several in a row end soon after their start, they are
/// replaced more and more slowly, and finally not at all. The same cause would most likely end the
/// next child too.
#[derive(Debug)]
pub struct Losses {
    /// The architecture, which its messages begin with.
    name: &'static str,
    workers: usize,
    /// Young children that ended in a row, without a connection accepted in between.
    young: usize,
    /// How many connections had been accepted when the last young child ended.
    accepted: u64,
    /// When the next child may be started.
    until: Option<Instant>,
    said: Option<Instant>,
}

impl Losses {
    /// Before this age, a child is young.
    const YOUNG: Duration = Duration::from_secs(1);
    /// The longest pause. Each pause is twice as long as the last.
    const LONGEST_PAUSE: Duration = Duration::from_secs(1);
    /// The most young children in a row, beyond the number of workers. All pauses together take six
    /// seconds.
    const TOO_MANY: usize = 12;
    /// How long after a report further losses are not reported.
    const QUIET: Duration = Duration::from_secs(10);

    /// The state without losses, for so many worker processes.
    #[must_use]
    pub fn new(name: &'static str, workers: usize) -> Self {
        Self { name, workers, young: 0, accepted: 0, until: None, said: None }
    }

    /// Counts a child that has ended.
    ///
    /// # Errors
    ///
    /// Too many children have ended.
    pub fn count(&mut self, ended: &Ended) -> io::Result<()> {
        let accepted = totals().connections_accepted;
        if ended.age >= Self::YOUNG || accepted != self.accepted {
            self.young = 0;
        }
        (self.accepted, self.young) = (accepted, self.young + 1);
        let (name, how) = (self.name, How(ended.status));
        // One cause may have ended all workers at once, so their replacement needs no pause.
        let Some(pauses) = self.young.checked_sub(self.workers + 1) else {
            if !self.quiet() {
                log::warn(format_args!("{name}: a worker process {how}; another takes its place"));
            }
            return Ok(());
        };
        if pauses >= Self::TOO_MANY {
            return Err(io::Error::other(format!(
                "{} worker processes in a row ended within {} s of their start, before they accepted a \
                 connection: the last one {how}",
                self.young,
                Self::YOUNG.as_secs()
            )));
        }
        let pause = Duration::from_millis(10 << pauses.min(10)).min(Self::LONGEST_PAUSE);
        self.until = Some(Instant::now() + pause);
        if pauses == 0 || !self.quiet() {
            log::warn(format_args!(
                "{name}: worker processes end soon after their start: the last one {how}; \
                 starting others more slowly"
            ));
        }
        Ok(())
    }

    /// Whether another child may be started.
    #[must_use]
    pub fn are_over(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() >= until)
    }

    /// Whether this loss is too soon after a report to be reported.
    fn quiet(&mut self) -> bool {
        let quiet = self.said.is_some_and(|said| said.elapsed() < Self::QUIET);
        if !quiet {
            self.said = Some(Instant::now());
        }
        quiet
    }
}

/// How a child ended, in words.
struct How(WaitStatus);

impl fmt::Display for How {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.terminating_signal(), self.0.exit_status()) {
            (Some(signal), _) => write!(formatter, "was killed by signal {signal}"),
            (None, Some(status)) => write!(formatter, "exited with {status}"),
            (None, None) => formatter.write_str("ended"),
        }
    }
}
