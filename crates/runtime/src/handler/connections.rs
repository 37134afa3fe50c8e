//! Counts the connections that are being served, and reports when one ends.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::sync::Notify;
use crate::time::{Duration, timeout};

/// Counts the connections of a server, or of one core of a server.
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
    /// Counts one more connection, until the result is dropped.
    pub fn enter(&self) -> Active {
        self.shared.active.fetch_add(1, Ordering::Relaxed);
        Active { shared: self.shared.clone() }
    }

    /// The number of connections.
    pub fn count(&self) -> usize {
        self.shared.active.load(Ordering::Relaxed)
    }

    /// Waits until no connection is left.
    pub async fn all_ended(&self) {
        while self.shared.active.load(Ordering::Acquire) > 0 {
            self.shared.ended.notified().await;
        }
    }

    /// Waits until a connection ends, or for `limit`.
    pub async fn one_ended(&self, limit: Duration) {
        let _ = timeout(limit, self.shared.ended.notified()).await;
    }
}

/// One connection that is being served.
pub struct Active {
    shared: Arc<Shared>,
}

impl fmt::Debug for Active {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Active").finish_non_exhaustive()
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.shared.active.fetch_sub(1, Ordering::Release);
        self.shared.ended.notify_one();
    }
}
