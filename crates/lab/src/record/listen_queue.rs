//! Facts about the queue in which connections wait for accept(2).

use serde::{Deserialize, Serialize};

/// What is known of the listen queue of a cell's server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListenQueue {
    /// How many connections it holds: the backlog, as the kernel has cut it to
    /// `net.core.somaxconn`.
    pub length: u64,
    /// The measured load of those requests that no retransmission held up: the requests that the
    /// server had, or its queue.
    pub prompt_load: f64,
    /// Whether it was the limit.
    pub was_limit: bool,
}
