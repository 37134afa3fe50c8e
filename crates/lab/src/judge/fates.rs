//! The outcomes of requests and of sessions, as counts.

use std::collections::BTreeMap;

use duality_load::{is_own_failure, is_wrong_reply};

/// The sessions in which a server ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// In how many sessions the server ended.
    pub sessions: usize,
    /// The number of all sessions.
    pub of: usize,
    /// How the server ended first.
    pub reason: String,
}

/// The outcomes of requests. Every wrong reply counts, even in a disturbed window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fates {
    /// Requests with a correct answer.
    pub correct: u64,
    /// Requests with a wrong reply. Failures of slices in older results count here, because those
    /// results name no kinds.
    pub wrong: u64,
    /// Requests that failed, wrong replies included.
    pub failed: u64,
    /// The failed requests of which the server, and not the load generator, is the cause.
    pub of_server: u64,
}

impl Fates {
    /// All requests.
    pub fn all(self) -> u64 {
        self.correct.saturating_add(self.failed)
    }

    pub(crate) fn count(&mut self, correct: u64, failed: u64, errors: &BTreeMap<String, u64>) {
        let sum = |is_of: fn(&str) -> bool| {
            let counts = errors.iter().filter(|(kind, _)| is_of(kind)).map(|(_, count)| *count);
            counts.fold(0, u64::saturating_add)
        };
        let wrong = if errors.is_empty() { failed } else { sum(is_wrong_reply) };
        self.correct = self.correct.saturating_add(correct);
        self.failed = self.failed.saturating_add(failed);
        self.wrong = self.wrong.saturating_add(wrong);
        let own = sum(is_own_failure);
        self.of_server = self.of_server.saturating_add(failed.saturating_sub(own));
    }
}
