//! The fate of the crowd.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// The state of the connections of one kind at the end of the load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fate {
    /// The wanted number of members of the kind.
    pub members: usize,
    /// The number of connections that were open at the end.
    pub open: usize,
    /// The number of opened connections in all. Connections beyond `members` replaced others.
    pub opened: u64,
    /// Requests with a complete reply, except the first requests of idle connections. For slow
    /// readers, it is the bytes of replies divided by the length of a reply.
    pub answered: u64,
    /// Connections that the server ended.
    pub cut: u64,
    /// The time for which the server had kept those connections. `None` if there are none. The time
    /// counts from the reply for idle ones, from the start of the request for slow senders, from
    /// the connect for slow readers.
    pub cut_after_seconds: Option<Spans>,
    /// Connections that could not be opened, or were refused because the server was full.
    pub refused: u64,
    /// Connections given up because the server left a complete request unanswered, or answered it
    /// wrongly.
    pub unanswered: u64,
}

/// Lengths of time, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spans {
    /// The arithmetic mean.
    pub mean: f64,
    /// The shortest.
    pub min: f64,
    /// The longest.
    pub max: f64,
}

impl fmt::Display for Fate {
    /// The fate in one line, for people.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of {} open at the end", self.open, self.members)?;
        if let Some(Spans { mean, min, max }) = self.cut_after_seconds {
            let cut = self.cut;
            write!(
                formatter,
                ", {cut} cut by the server after {mean:.1} s ({min:.1} to {max:.1})"
            )?;
        }
        for (count, what) in [
            (self.opened.saturating_sub(self.members as u64), "reopened"),
            (self.refused, "refused"),
            (self.answered, "requests answered"),
            (self.unanswered, "requests not answered"),
        ] {
            if count > 0 {
                write!(formatter, ", {count} {what}")?;
            }
        }
        Ok(())
    }
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// The server ended the connection after this time.
    Cut(Duration),
    Refused,
    Unanswered,
}

impl Gone {
    /// The outcome of a failure, for a connection that the server has kept since `since`.
    pub(super) fn by(failure: &Failure, since: Instant) -> Self {
        match failure {
            Failure::ServerFull | Failure::WrongStatus(503) => Gone::Refused,
            failure if failure.is_connect() => Gone::Refused,
            // A reply such as 408, before the request was complete.
            Failure::Reset { .. } | Failure::ClosedEarly { .. } | Failure::WrongStatus(_) => {
                Gone::Cut(since.elapsed())
            }
            _ => Gone::Unanswered,
        }
    }
}

/// The counts of one kind.
pub(super) struct Ledger {
    fate: Mutex<Fate>,
}

impl Ledger {
    pub(super) fn new(members: usize) -> Self {
        Self { fate: Mutex::new(Fate { members, ..Fate::default() }) }
    }

    pub(super) fn fate(&self) -> Fate {
        self.lock().clone()
    }

    /// Counts a member that has come in.
    pub(super) fn opened(&self) {
        let mut fate = self.lock();
        fate.opened += 1;
        fate.open += 1;
    }

    /// Counts a member that could not come in.
    pub(super) fn refused(&self) {
        self.lock().refused += 1;
    }

    /// Counts further complete replies.
    pub(super) fn answered(&self, count: u64) {
        self.lock().answered += count;
    }

    /// Counts the end of a member's connection.
    pub(super) fn ended(&self, gone: Gone) {
        let mut fate = self.lock();
        fate.open -= 1;
        match gone {
            Gone::Cut(after) => fate.cut_after(after.as_secs_f64()),
            Gone::Refused => fate.refused += 1,
            Gone::Unanswered => fate.unanswered += 1,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Fate> {
        self.fate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fate {
    fn cut_after(&mut self, seconds: f64) {
        self.cut += 1;
        let spans = self.cut_after_seconds.get_or_insert(Spans {
            mean: seconds,
            min: seconds,
            max: seconds,
        });
        spans.mean += (seconds - spans.mean) / self.cut as f64;
        spans.min = spans.min.min(seconds);
        spans.max = spans.max.max(seconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fate_is_told_in_one_line() {
        let ledger = Ledger::new(3);
        for _ in 0..4 {
            ledger.opened();
        }
        ledger.ended(Gone::Cut(Duration::from_secs(10)));
        ledger.ended(Gone::Cut(Duration::from_secs(12)));
        ledger.refused();
        let fate = ledger.fate();
        assert_eq!(fate.cut_after_seconds, Some(Spans { mean: 11.0, min: 10.0, max: 12.0 }));
        assert_eq!(
            fate.to_string(),
            "2 of 3 open at the end, 2 cut by the server after 11.0 s (10.0 to 12.0), 1 reopened, 1 refused"
        );
    }

    #[test]
    fn those_who_are_let_be_are_told_briefly() {
        let ledger = Ledger::new(1);
        ledger.opened();
        assert_eq!(ledger.fate().to_string(), "1 of 1 open at the end");
        ledger.answered(2);
        ledger.ended(Gone::Unanswered);
        let expected = "0 of 1 open at the end, 2 requests answered, 1 requests not answered";
        assert_eq!(ledger.fate().to_string(), expected);
    }

    #[test]
    fn a_server_that_is_full_refuses_and_an_impatient_one_cuts() {
        let now = Instant::now();
        for failure in [Failure::ServerFull, Failure::WrongStatus(503), Failure::ConnectRefused] {
            assert_eq!(Gone::by(&failure, now), Gone::Refused, "{failure}");
        }
        for failure in [Failure::WrongStatus(408), Failure::Reset { received: 0 }] {
            assert!(matches!(Gone::by(&failure, now), Gone::Cut(_)), "{failure}");
        }
        assert_eq!(Gone::by(&Failure::TimedOut, now), Gone::Unanswered);
    }
}
