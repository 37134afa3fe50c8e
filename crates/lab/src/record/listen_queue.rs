//! Facts about the queue in which connections wait for accept(2).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The facts about the listen queue of a cell's server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListenQueue {
    /// The number of connections that the queue holds: the backlog, cut by the kernel to
    /// `net.core.somaxconn`.
    pub length: u64,
    /// The measured load without the requests that a retransmission held up: the requests in the
    /// server or in its queue.
    pub prompt_load: f64,
    /// Whether the queue was the limit.
    pub was_limit: bool,
}
