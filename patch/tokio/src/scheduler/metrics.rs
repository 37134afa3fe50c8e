//! What a runtime counts.

use std::fmt;
use std::sync::Arc;

use super::Shared;

/// What a runtime counts.
#[derive(Clone)]
pub struct RuntimeMetrics {
    shared: Arc<Shared>,
}

impl RuntimeMetrics {
    pub(super) fn of(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// The number of loops. 1 if tasks are kernel threads.
    #[must_use]
    pub fn num_workers(&self) -> usize {
        self.shared.loops().max(1)
    }

    /// The number of tasks that have not ended.
    #[must_use]
    pub fn num_alive_tasks(&self) -> usize {
        self.shared.alive_tasks()
    }

    /// The number of tasks that wait for their first turn, because other threads spawned them.
    #[must_use]
    pub fn global_queue_depth(&self) -> usize {
        self.shared.queued_tasks()
    }
}

impl fmt::Debug for RuntimeMetrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RuntimeMetrics").finish_non_exhaustive()
    }
}
