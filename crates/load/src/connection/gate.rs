//! A gate before each request of a closed loop. In a load of its own, the gate is always open. In a
//! [relay](crate::relay), it is open during the slices of the load.

use std::sync::atomic::{AtomicBool, Ordering};

use duality_runtime::sync::Notify;

/// Lets connections make requests, or has them rest.
#[derive(Default)]
pub(crate) struct Gate {
    shut: AtomicBool,
    opened: Notify,
}

impl Gate {
    /// Whether connections must rest.
    #[inline]
    pub(crate) fn is_shut(&self) -> bool {
        // Only the load thread looks at it.
        self.shut.load(Ordering::Relaxed)
    }

    /// Rests until the gate is open.
    pub(crate) async fn opened(&self) {
        while self.is_shut() {
            self.opened.notified().await;
        }
    }

    /// No connection begins a request from now on. Requests under way go on.
    pub(crate) fn shut(&self) {
        self.shut.store(true, Ordering::Relaxed);
    }

    /// All connections go on.
    pub(crate) fn open(&self) {
        self.shut.store(false, Ordering::Relaxed);
        self.opened.notify_waiters();
    }
}
