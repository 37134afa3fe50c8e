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
use std::time::{Duration, Instant};

use duality_runtime::net::TcpStream;
use duality_runtime::{task, time};

use super::{Load, connect};
use crate::client::{Client, Reply};
use crate::failure::Failure;

/// How long a connection that could not be opened waits before the next attempt: this at first, twice
/// as long each time it fails again, and no longer than a second.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

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
    let mut pause = FIRST_PAUSE;
    let mut start = Instant::now();
    let mut more = load.recorder.begin(number, start);
    while more {
        let outcome = request(&mut client, &mut stream, &load).await;
        let end = Instant::now();
        match outcome {
            Ok(reply) => {
                more = load.recorder.reply(number, start, end, reply.bytes);
                pause = FIRST_PAUSE;
                start = end;
                if !(load.keep_alive && reply.open) {
                    stream = None;
                    // The close belongs to neither request.
                    start = Instant::now();
                }
            }
            Err(failure) => {
                more = load.recorder.failure(number, end, &failure);
                stream = None;
                if failure.is_connect() {
                    time::sleep(pause).await;
                    pause = (2 * pause).min(LONGEST_PAUSE);
                }
                start = Instant::now();
            }
        }
    }
}

/// Makes one request on the open connection, or on a new one if there is none. A connection that turns
/// out to have been closed between two requests is replaced, and that is no failure.
#[inline]
async fn request<C: Client>(
    client: &mut C,
    connection: &mut Option<TcpStream>,
    load: &Load,
) -> Result<Reply, Failure> {
    if let Some(stream) = connection {
        match client.exchange(stream).await {
            Err(failure) if failure.is_before_reply() => {}
            other => return other,
        }
    }
    *connection = None;
    let stream = connect(load.address, load.reply_timeout).await?;
    load.recorder.connected();
    client.connected();
    client.exchange(connection.insert(stream)).await
}
