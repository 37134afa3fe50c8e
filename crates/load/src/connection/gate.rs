//! A gate before each request of a closed loop. In a load of its own, the gate is always open. In a
//! [relay](crate::relay), it is open during the slices of the load.

use std::sync::atomic::{AtomicBool, Ordering};

use duality_runtime::sync::Notify;

/// Lets connections make requests, or makes them rest.
#[derive(Default)]
pub(crate) struct Gate {
    shut: AtomicBool,
    opened: Notify,
}

impl Gate {
    /// Whether connections must rest.
    #[inline]
    pub(crate) fn is_shut(&self) -> bool {
        // Only the load thread reads the flag.
        self.shut.load(Ordering::Relaxed)
    }

    /// Rests until the gate is open.
    pub(crate) async fn opened(&self) {
        while self.is_shut() {
            self.opened.notified().await;
        }
    }

    /// From now on, no connection begins a request. Requests under way go on.
    pub(crate) fn shut(&self) {
        self.shut.store(true, Ordering::Relaxed);
    }

    /// From now on, all connections may make requests.
    pub(crate) fn open(&self) {
        self.shut.store(false, Ordering::Relaxed);
        self.opened.notify_waiters();
    }
}
