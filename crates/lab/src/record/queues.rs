//! The queues of a server, some ten times a second.

use serde::{Deserialize, Serialize};

/// The queues of a server at a moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueSample {
    /// Seconds since the load began, warm-up included.
    pub seconds: f64,
    /// Each of them.
    pub queues: Vec<QueueState>,
}

/// A queue at a moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueState {
    /// What it is called: of a staged server, its stage.
    pub name: String,
    /// How many blocks waited.
    pub length: u64,
    /// How many kernel threads took from it.
    pub threads: u64,
}
