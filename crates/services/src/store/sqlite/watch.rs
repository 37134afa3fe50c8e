//! Whether a client still waits for what SQLite does in many attempts.

use duality_runtime::time::{self, Instant};

use crate::client::{Client, SLICE};

/// Looks at a client, at most once in a slice.
pub(super) struct Watch<'c> {
    client: Client<'c>,
    looked: Instant,
}

impl<'c> Watch<'c> {
    /// Begins now: the first look comes after a slice.
    pub(super) fn new(client: Client<'c>) -> Self {
        Self { client, looked: time::now() }
    }

    /// Whether the client is known to have left.
    pub(super) fn has_left(&mut self) -> bool {
        if time::since(self.looked) < SLICE {
            return false;
        }
        self.looked = time::now();
        self.client.has_left()
    }
}
