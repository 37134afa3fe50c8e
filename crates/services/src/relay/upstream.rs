//! The servers behind a relay: which one is next, and which ones are left out for a while.
//!
//! ```text
//!          refuses, or takes too long                    the time is over
//!   good ──────────────────────────────> left out ──────────────────────────> on trial
//!     ^                                  1 s, 2 s, … 30 s <── fails again ──┘    │
//!     └───────────────────────────── answers ───────────────────────────────────┘
//! ```
//!
//! One request at a time tries an upstream that is on trial.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use duality_runtime::log;
use duality_runtime::time::{Duration, Instant};

/// The first time that an upstream is left out, and the longest.
const LEAVE_OUT: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// A server behind the relay.
#[derive(Debug)]
pub(super) struct Upstream {
    pub(super) address: SocketAddr,
    began: Instant,
    /// How often it has failed since it last answered.
    failures: AtomicU32,
    /// The end of the time for which it is left out, in milliseconds since `began`.
    out_until: AtomicU64,
}

impl Upstream {
    pub(super) fn new(address: SocketAddr) -> Self {
        let (failures, out_until) = (AtomicU32::new(0), AtomicU64::new(0));
        Self { address, began: Instant::now(), failures, out_until }
    }

    /// Whether a request may be sent there now. An upstream on trial takes one request.
    pub(super) fn admits(&self) -> bool {
        let failures = self.failures.load(Relaxed);
        if failures == 0 {
            return true;
        }
        let (now, until) = (self.now(), self.out_until.load(Relaxed));
        let next = now + leave_out(failures);
        now >= until && self.out_until.compare_exchange(until, next, Relaxed, Relaxed).is_ok()
    }

    /// Notes that it has answered.
    pub(super) fn answered(&self) {
        if self.failures.load(Relaxed) > 0 && self.failures.swap(0, Relaxed) > 0 {
            log::tell(format_args!("the upstream {} answers again", self.address));
        }
    }

    /// Leaves it out for a while, because it has refused, or taken too long.
    pub(super) fn failed(&self, why: &dyn std::fmt::Display) {
        let failures = self.failures.fetch_add(1, Relaxed).saturating_add(1);
        self.out_until.store(self.now() + leave_out(failures), Relaxed);
        if failures == 1 {
            log::warn(format_args!("the upstream {} is left out: {why}", self.address));
        }
    }

    fn now(&self) -> u64 {
        milliseconds(self.began.elapsed())
    }
}

/// How long an upstream is left out after so many failures, in milliseconds.
fn leave_out(failures: u32) -> u64 {
    let [first, longest] = LEAVE_OUT.map(milliseconds);
    let doublings = failures.saturating_sub(1).min(16);
    (first << doublings).min(longest)
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_is_left_out_for_longer_and_longer() {
        let times: Vec<u64> = (1..=7).map(leave_out).collect();
        assert_eq!(times, [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
        assert_eq!(leave_out(u32::MAX), 30_000);
    }

    #[test]
    fn one_request_tries_an_upstream_again() {
        let upstream = Upstream::new(([127, 0, 0, 1], 1).into());
        assert!(upstream.admits() && upstream.admits());
        upstream.failed(&"it refuses");
        assert!(!upstream.admits());
        upstream.out_until.store(0, Relaxed);
        assert!(upstream.admits() && !upstream.admits());
        upstream.answered();
        assert!(upstream.admits() && upstream.admits());
    }
}
