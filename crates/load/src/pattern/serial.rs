//! Serial: many connections are open, and one at a time is in use, in turn.
//!
//! ```text
//!   connection 1   ├ request ┤                                    ├ request ┤
//!   connection 2              ├ request ┤                                    …
//!        ⋮                               ⋱
//!   connection l                            ├ request ┤
//! ```
//!
//! The server never has more than one request. So this pattern shows the cost of one request while
//! a poller watches l connections. Each request pays for a whole round of the poller. In Demsky's
//! measurements (MIT 2001), events lose to threads under this pattern. Without keep-alive, a
//! connection is open only for its own request.

use std::sync::Arc;
use std::time::Instant;

use super::{Named, Pattern};
use crate::connection::{Connection, Load};
use crate::measurement::Start;
use crate::request::Client;

pub(super) const NAMED: Named = Named {
    name: "serial",
    about: "many connections are open, and one of them at a time is in use, in turn",
    pattern: Some(Pattern::Serial),
    keep_alive: None,
};

/// Uses the connections of `row` in turn for as long as the recorder grants requests.
pub(super) async fn run<C: Client>(mut row: Vec<Connection<C>>, load: Arc<Load>) {
    let mut start = Start::at(Instant::now());
    for index in (0..row.len()).cycle() {
        let connection = &mut row[index];
        if !load.recorder.begin(connection.number, start) {
            return;
        }
        let outcome = connection.request(&load).await;
        start = Start::at(connection.end(&load, start, outcome).await);
    }
}
