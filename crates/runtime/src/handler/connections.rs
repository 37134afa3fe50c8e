//! Counts the connections that are being served, and tells when one ends.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::sync::Notify;
use crate::time::{Duration, timeout};

/// Counts the connections that a server, or one core of it, has.
#[derive(Clone, Default)]
pub struct Connections {
    shared: Arc<Shared>,
}

impl fmt::Debug for Connections {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Connections").field("count", &self.count()).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Shared {
    active: AtomicUsize,
    ended: Notify,
}

impl Connections {
    /// Counts one more, until the result is dropped.
    pub fn enter(&self) -> Active {
        self.enter_beside(0)
    }

    /// The same where there are `others` that are counted elsewhere.
    pub fn enter_beside(&self, others: usize) -> Active {
        let before = self.shared.active.fetch_add(1, Ordering::Relaxed);
        Active { number: others + before + 1, shared: self.shared.clone() }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.shared.active.load(Ordering::Relaxed)
    }

    /// Waits until none is left.
    pub async fn all_ended(&self) {
        while self.shared.active.load(Ordering::Acquire) > 0 {
            self.shared.ended.notified().await;
        }
    }

    /// Waits until one ends, or for `limit`.
    pub async fn one_ended(&self, limit: Duration) {
        let _ = timeout(limit, self.shared.ended.notified()).await;
    }
}

/// One connection that is being served.
pub struct Active {
    number: usize,
    shared: Arc<Shared>,
}

impl fmt::Debug for Active {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Active").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Active {
    /// How many connections there were when this one began, itself included.
    pub(super) fn number(&self) -> usize {
        self.number
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.shared.active.fetch_sub(1, Ordering::Release);
        self.shared.ended.notify_one();
    }
}
