//! The open loop: requests are due at times that do not depend on the answers, as those of users do who
//! do not know of each other.
//!
//! ```text
//!   pacer (a kernel thread)            the load's loop
//!   ───────────────────────            ───────────────
//!   sleeps until the next      due     ┌▶ connection 1   ├── request ──┤      ├─ request ─┤
//!   request is due, and puts ──────▶ queue
//!   it into the queue                  └▶ connection c         ├───── request ─────┤
//!
//!   a request      due ├╌╌ send lag ╌╌┤ sent ├────────── raw latency ──────────┤ answered
//!                      ├─────────────────── latency ───────────────────────────┤
//! ```
//!
//! When the server is slower than the requests come, connections run out and requests wait in the queue.
//! That wait is the server's doing, so latency counts from when a request was due; a client that counts
//! from the send, or does not send while it waits for a reply, leaves out just the worst latencies
//! (*coordinated omission*). Both are measured, so that both can be compared.
//!
//! A free connection takes the next request; those that have been free for longest come first.

pub(crate) mod arrivals;
pub(crate) mod pacer;

use std::io;
use std::sync::Arc;
use std::time::Instant;

use duality_runtime::task;

use super::Load;
use super::connection::Connection;
use crate::due::{FreeConnection, Queue};
use crate::measurement::Start;
use crate::request::Client;

/// Starts `connections` connections that take their requests from `queue`; all are open, or could not be
/// opened, when as many are [free](Queue::free).
pub(crate) fn start<C: Client>(
    client: &C,
    connections: usize,
    queue: &Arc<Queue>,
    load: &Arc<Load>,
) -> io::Result<()> {
    for number in 0..connections {
        let connection = Connection::new(number, client.clone());
        task::spawn(run(connection, queue.clone(), load.clone()))?;
    }
    Ok(())
}

/// Makes one request after the other, each when it is due or as soon as can be after that.
async fn run<C: Client>(mut connection: Connection<C>, queue: Arc<Queue>, load: Arc<Load>) {
    if load.keep_alive {
        // It carries many requests, so that to open it belongs to none. Should it fail, the first
        // request tries again, and tells.
        let _ = connection.open(&load).await;
    }
    let mut place = FreeConnection::new();
    let mut free = Instant::now();
    loop {
        let due = queue.next(&mut place).await;
        let start = Start { due, sent: Instant::now(), free };
        if !load.recorder.begin(connection.number, start) {
            return;
        }
        let outcome = connection.request(&load).await;
        free = connection.end(&load, start, outcome).await;
    }
}
