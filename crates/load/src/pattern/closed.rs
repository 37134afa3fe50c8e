//! The closed loop: exactly l connections. Each makes its next request when the last one is
//! answered.
//!
//! ```text
//!   connection 1   ├── request ──┤├─ request ─┤├──── request ────┤ …
//!   connection 2   ├─ request ─┤├────── request ──────┤├─ request …
//!        ⋮
//!   connection l   ├──── request ────┤├── request ──┤ …
//! ```
//!
//! This pattern finds the maximum of a server, since the load is always exactly l. A slow server is
//! asked less often. ApacheBench uses this pattern, and so do the measurements of Kerneis and
//! Chroboczek (*Are events fast?*, 2009). Demsky's *long* is this pattern with keep-alive, and his
//! *short* without.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use duality_runtime::task;

use super::{Named, Pattern};
use crate::Error;
use crate::announce::EdgeAnnouncer;
use crate::connection::{Connection, Load};
use crate::engine::{Engine, Outcome, not_started};
use crate::measurement::Start;
use crate::request::Client;

pub(super) const NAMED: Named = Named {
    name: "closed",
    about: "every connection asks again as soon as it is answered",
    pattern: Some(Pattern::Closed),
    keep_alive: None,
};

pub(super) const LONG: Named = Named {
    name: "long",
    about: "closed, on connections that stay",
    pattern: Some(Pattern::Closed),
    keep_alive: Some(true),
};

pub(super) const SHORT: Named = Named {
    name: "short",
    about: "closed, with a new connection for each request (--close)",
    pattern: Some(Pattern::Closed),
    keep_alive: Some(false),
};

/// Runs a load in this pattern.
pub(super) async fn load<C: Client>(
    engine: &Engine,
    client: &C,
    hook: EdgeAnnouncer,
) -> Result<Outcome, Error> {
    let load = engine.shared(engine.edges(), None, Box::new(hook));
    load.recorder.ready();
    start(client, engine.options.connections, &load).map_err(not_started)?;
    Ok(engine.finish(&load.recorder).await)
}

/// Starts `connections` connections at once, each with a copy of `client`.
fn start<C: Client>(client: &C, connections: usize, load: &Arc<Load>) -> io::Result<()> {
    for number in 0..connections {
        task::spawn(run(Connection::new(number, client), load.clone()))?;
    }
    Ok(())
}

/// Keeps one connection busy for as long as the recorder grants requests.
async fn run<C: Client>(mut connection: Connection<C>, load: Arc<Load>) {
    let mut start = Start::at(Instant::now());
    loop {
        if load.gate.is_shut() {
            load.gate.opened().await;
            start = Start::at(Instant::now());
        }
        if !load.recorder.begin(connection.number, start) {
            return;
        }
        let outcome = connection.request(&load).await;
        start = Start::at(connection.end(&load, start, outcome).await);
    }
}
