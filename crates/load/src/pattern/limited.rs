//! Limited parallelism: a request is under way on every connection, but one client handles them in
//! order.
//!
//! ```text
//!                  send on each      then, again and again: read the reply, and send on each
//!   connection 1   ├──────────────────────┤├──────────────────────────┤├────── …
//!   connection 2     ├──────────────────────┤├──────────────────────────┤├──── …
//!        ⋮              ⋱                      ⋱
//!   connection l          ├──────────────────────┤├──────────────────────────┤ …
//! ```
//!
//! The server has up to l requests at the same time. But a connection makes its next request only
//! when the client comes round to it. So one slow reply delays all other connections. The pattern
//! is from Demsky's measurements (MIT 2001). A latency lasts until the client reads the reply in
//! its turn.

use std::sync::Arc;
use std::time::Instant;

use super::{Named, Pattern};
use crate::connection::{Connection, Load};
use crate::measurement::Start;
use crate::request::Client;

pub(super) const NAMED: Named = Named {
    name: "limited",
    about: "all have asked; replies are read in order, each followed by the next request",
    pattern: Some(Pattern::Limited),
    keep_alive: None,
};

/// Goes round `row` for as long as the recorder grants requests, and until the last request is
/// answered.
pub(super) async fn run<C: Client>(mut row: Vec<Connection<C>>, load: Arc<Load>) {
    let mut under_way: Vec<Option<Start>> = vec![None; row.len()];
    let mut granted = true;
    while granted || under_way.iter().any(Option::is_some) {
        for (connection, under_way) in row.iter_mut().zip(&mut under_way) {
            let mut now = None;
            if let Some(start) = under_way.take() {
                let outcome = connection.receive(&load).await;
                now = Some(connection.end(&load, start, outcome).await);
            }
            let start = Start::at(now.unwrap_or_else(Instant::now));
            granted = granted && load.recorder.begin(connection.number, start);
            if granted {
                match connection.send(&load).await {
                    Ok(()) => *under_way = Some(start),
                    // The pattern tries the connection again in the next round.
                    Err(failure) => {
                        connection.end(&load, start, Err(failure)).await;
                    }
                }
            }
        }
    }
}
