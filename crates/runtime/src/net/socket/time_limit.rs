//! The time limit of an operation.

use std::time::{Duration, Instant};

/// The longest wait of an operation, kept across the polls of the operation.
pub(crate) struct TimeLimit {
    limit: Option<Duration>,
    deadline: Option<Instant>,
}

impl TimeLimit {
    pub(crate) const fn new(limit: Option<Duration>) -> Self {
        Self { limit, deadline: None }
    }

    pub(super) const fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// Whether the limit is longer than `length`.
    pub(super) fn is_longer_than(&self, length: Duration) -> bool {
        self.limit.is_none_or(|limit| limit > length)
    }

    /// The deadline, counted from the first wait. `None` means never.
    pub(super) fn deadline(&mut self, now: Instant) -> Option<Instant> {
        if self.deadline.is_none() {
            self.deadline = self.limit.and_then(|limit| now.checked_add(limit));
        }
        self.deadline
    }
}
