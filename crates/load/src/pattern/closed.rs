//! The closed loop: exactly l connections, each of which makes its next request when the last is
//! answered.
//!
//! ```text
//!   connection 1   ├── request ──┤├─ request ─┤├──── request ────┤ …
//!   connection 2   ├─ request ─┤├────── request ──────┤├─ request …
//!        ⋮
//!   connection l   ├──── request ────┤├── request ──┤ …
//! ```
//!
//! It finds what a server can do at most, for the load is never more than l and never less: a slow
//! server is asked less often. What ApacheBench does, and Kerneis and Chroboczek (*Are events fast?*,
//! 2009) measure with.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use duality_runtime::task;

use super::{Load, Pauses};
use crate::client::Client;
use crate::recorder::Start;

/// Starts `connections` connections at once, each with a copy of `client`.
pub(crate) fn start<C: Client>(client: &C, connections: usize, load: &Arc<Load>) -> io::Result<()> {
    for number in 0..connections {
        task::spawn(connection(client.clone(), number, load.clone()))?;
    }
    Ok(())
}

/// Keeps one connection busy for as long as the recorder grants requests.
async fn connection<C: Client>(mut client: C, number: usize, load: Arc<Load>) {
    let mut stream = None;
    let mut pauses = Pauses::new();
    let mut start = Start::at(Instant::now());
    while load.recorder.begin(number, start) {
        let outcome = load.request(&mut client, &mut stream).await;
        let end = Instant::now();
        start = Start::at(match outcome {
            Ok(reply) => {
                load.recorder.reply(number, start, end, reply.bytes);
                pauses = Pauses::new();
                if load.keep_alive && reply.open {
                    end
                } else {
                    stream = None;
                    // The close belongs to neither request.
                    Instant::now()
                }
            }
            Err(failure) => {
                load.recorder.failure(number, &failure);
                stream = None;
                pauses.after(&failure).await;
                Instant::now()
            }
        });
    }
}
