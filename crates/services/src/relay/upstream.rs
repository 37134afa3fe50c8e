//! The servers behind a relay: which one may be asked, and which ones are left out for a while.
//!
//! ```text
//!          3 connections fail within 10 s              the time is over
//!   good ─────────────────────────────────> left out ───────────────────> on trial
//!     ^                                     1 s, 2 s, 4 s, 5 s <── fails again ──┘ │
//!     └────────────────────────── a connection comes about ───────────────────────┘
//! ```
//!
//! Only connections count. A reply that is slow or breaks off says something about one request, and
//! an upstream that is left out is taken from everybody. One request at a time tries an upstream
//! that is on trial. If no other upstream can be reached, one that is left out is tried all the
//! same ([`reach`](super::reach)).
//!
//! The processes of a server share what is known, so that it is found out once.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use duality_runtime::log;
use duality_runtime::shared;
use duality_runtime::time::{self, Duration, Instant};

use super::failure::Failure;

/// So many connections must fail within the window.
const FAILURES: u64 = 3;
const WINDOW: Duration = Duration::from_secs(10);

/// So many looks at its health must fail, one after the other. One may have met a short stop.
const MISSES: u64 = 2;

/// The first time that an upstream is left out, and the longest.
const LEAVE_OUT: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// A server behind the relay.
pub(super) struct Upstream {
    pub(super) address: SocketAddr,
    began: Instant,
    words: &'static [AtomicU64; WORDS],
}

/// What is known of an upstream. Times are milliseconds since `began`.
#[derive(Clone, Copy)]
enum Word {
    /// When the window began, and the connections that have failed within it.
    Window,
    Failures,
    /// The end of the time for which it is left out, and how often this has been prolonged. 0: it
    /// is not left out.
    OutUntil,
    Outs,
    /// How many looks at its health have failed, one after the other.
    Misses,
    // Counters, for the metrics.
    Requests,
    Unreached,
    Unanswered,
    Late,
    Abandoned,
}

const WORDS: usize = Word::Abandoned as usize + 1;

/// The counters of an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpstreamReport {
    /// Where it listens.
    pub address: SocketAddr,
    /// Whether requests go there: it is neither left out nor ill.
    pub is_up: bool,
    /// Requests that were sent there.
    pub requests: u64,
    /// Connections that did not come about.
    pub unreached: u64,
    /// Requests without a whole reply, because it closed, broke off, or sent what cannot be
    /// relayed.
    pub unanswered: u64,
    /// Requests without a whole reply, because it took too long.
    pub late: u64,
    /// Requests of clients that left before the end of the reply.
    pub abandoned: u64,
}

impl Upstream {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address, began: time::now(), words: shared::words() }
    }

    /// Whether a request may be sent there now. An upstream on trial takes one request.
    pub(super) fn admits(&self) -> bool {
        if self.is_ill() {
            return false;
        }
        let until = self.word(Word::OutUntil).load(Relaxed);
        if until == 0 {
            return true;
        }
        let now = self.now();
        if now < until {
            return false;
        }
        let outs = self.word(Word::Outs).load(Relaxed) + 1;
        let next = now + leave_out(outs);
        let is_tried =
            self.word(Word::OutUntil).compare_exchange(until, next, Relaxed, Relaxed).is_ok();
        if is_tried {
            self.word(Word::Outs).store(outs, Relaxed);
        }
        is_tried
    }

    /// Notes that a request is about to be sent there.
    pub(super) fn asked(&self) {
        self.add(Word::Requests);
    }

    /// Notes that a connection has come about, or an answer on one that was there.
    pub(super) fn connected(&self) {
        let out = self.word(Word::OutUntil);
        if out.load(Relaxed) != 0 && out.swap(0, Relaxed) != 0 {
            self.word(Word::Outs).store(0, Relaxed);
            self.word(Word::Failures).store(0, Relaxed);
            log::tell(format_args!("the upstream {} answers again", self.address));
        }
    }

    /// Notes that a connection has failed. Several of them have the upstream left out.
    pub(super) fn failed(&self, why: &dyn fmt::Display) {
        self.add(Word::Unreached);
        if self.word(Word::OutUntil).load(Relaxed) != 0 {
            return; // The trial has prolonged it.
        }
        let now = self.now();
        let window = self.word(Word::Window).load(Relaxed);
        if window == 0 || now > window + milliseconds(WINDOW) {
            self.word(Word::Window).store(now, Relaxed);
            self.word(Word::Failures).store(0, Relaxed);
        }
        if self.word(Word::Failures).fetch_add(1, Relaxed) + 1 < FAILURES {
            return;
        }
        let until = now + leave_out(1);
        if self.word(Word::OutUntil).compare_exchange(0, until, Relaxed, Relaxed).is_ok() {
            self.word(Word::Outs).store(1, Relaxed);
            log::warn(format_args!("the upstream {} is left out: {why}", self.address));
        }
    }

    fn is_ill(&self) -> bool {
        self.word(Word::Misses).load(Relaxed) >= MISSES
    }

    /// Notes the outcome of a look at its health. Only one thread looks.
    pub(super) fn looked(&self, health: Result<(), &dyn fmt::Display>) {
        let misses = self.word(Word::Misses);
        match health {
            Ok(()) => {
                if misses.swap(0, Relaxed) >= MISSES {
                    log::tell(format_args!("the upstream {} is well", self.address));
                }
            }
            Err(why) => {
                if misses.fetch_add(1, Relaxed) + 1 == MISSES {
                    log::warn(format_args!("the upstream {} is ill: {why}", self.address));
                }
            }
        }
    }

    /// Counts a request without a whole reply.
    pub(super) fn count(&self, failure: Failure) {
        self.add(match failure {
            Failure::Late => Word::Late,
            Failure::ClientLeft => Word::Abandoned,
            Failure::Unreachable | Failure::Gone | Failure::Malformed => Word::Unanswered,
        });
    }

    pub(super) fn report(&self) -> UpstreamReport {
        let [requests, unreached, unanswered, late, abandoned] =
            [Word::Requests, Word::Unreached, Word::Unanswered, Word::Late, Word::Abandoned]
                .map(|word| self.word(word).load(Relaxed));
        let is_up = !self.is_ill() && self.word(Word::OutUntil).load(Relaxed) == 0;
        let address = self.address;
        UpstreamReport { address, is_up, requests, unreached, unanswered, late, abandoned }
    }

    fn word(&self, word: Word) -> &AtomicU64 {
        &self.words[word as usize]
    }

    fn add(&self, word: Word) {
        self.word(word).fetch_add(1, Relaxed);
    }

    /// Never 0, which means that there is no such time.
    fn now(&self) -> u64 {
        milliseconds(time::since(self.began)).max(1)
    }
}

/// How long an upstream is left out after so many failures, in milliseconds.
fn leave_out(outs: u64) -> u64 {
    let [first, longest] = LEAVE_OUT.map(milliseconds);
    (first << outs.saturating_sub(1).min(16)).min(longest)
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upstream() -> Upstream {
        Upstream::new(([127, 0, 0, 1], 1).into())
    }

    #[test]
    fn an_upstream_is_left_out_for_longer_and_longer() {
        let times: Vec<u64> = (1..=5).map(leave_out).collect();
        assert_eq!(times, [1000, 2000, 4000, 5000, 5000]);
        assert_eq!(leave_out(u64::MAX), 5000);
    }

    #[test]
    fn several_failures_within_the_window_leave_an_upstream_out() {
        let upstream = upstream();
        for _ in 0..FAILURES {
            assert!(upstream.admits());
            upstream.failed(&"it refuses");
        }
        assert!(!upstream.admits() && !upstream.report().is_up);
        upstream.connected();
        assert!(upstream.admits() && upstream.report().is_up);
        // Those of an earlier window do not count.
        upstream.failed(&"it refuses");
        upstream.failed(&"it refuses");
        let long_ago = upstream.now() + milliseconds(WINDOW) + 1;
        let later = Upstream { began: upstream.began - Duration::from_secs(11), ..upstream };
        assert!(later.now() >= long_ago);
        later.failed(&"it refuses");
        assert!(later.admits());
    }

    #[test]
    fn one_request_tries_an_upstream_again() {
        let upstream = upstream();
        (0..FAILURES).for_each(|_| upstream.failed(&"it refuses"));
        upstream.word(Word::OutUntil).store(1, Relaxed);
        let upstream = Upstream { began: upstream.began - Duration::from_secs(2), ..upstream };
        assert!(upstream.admits() && !upstream.admits());
        upstream.connected();
        assert!(upstream.admits() && upstream.admits());
    }

    #[test]
    fn replies_leave_no_upstream_out() {
        let upstream = upstream();
        for failure in [Failure::Late, Failure::Gone, Failure::Malformed, Failure::ClientLeft] {
            (0..10).for_each(|_| upstream.count(failure));
        }
        assert!(upstream.admits());
        let report = upstream.report();
        assert_eq!((report.late, report.unanswered, report.abandoned), (10, 20, 10));
    }

    #[test]
    fn an_ill_upstream_is_not_asked() {
        let upstream = upstream();
        upstream.looked(Err(&"500"));
        assert!(upstream.admits());
        upstream.looked(Err(&"500"));
        assert!(!upstream.admits() && !upstream.report().is_up);
        upstream.looked(Ok(()));
        assert!(upstream.admits());
    }
}
