//! The queues of a server, some ten times a second.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The queues of a server at a moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueSample {
    /// Seconds since the load began, warm-up included.
    pub seconds: f64,
    /// All queues of the server.
    pub queues: Vec<QueueState>,
}

/// A queue at a moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueState {
    /// The queue's name. For a staged server, the name of the stage.
    pub name: String,
    /// The number of waiting blocks.
    pub length: u64,
    /// The number of kernel threads that took from the queue.
    pub threads: u64,
}
