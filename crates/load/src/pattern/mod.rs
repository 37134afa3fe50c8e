//! Load patterns, one file each: the number of requests under way, and the beginning of each next
//! request.
//!
//! A new pattern is a file here, with its [`Named`] entry and its function `load`. A new pattern
//! also needs a variant of [`Pattern`], with a line in each of [`Pattern::NAMED`],
//! [`Pattern::name`] and [`load`].
//!
//! A pattern does not know what a request is: it drives any [`Client`] on [`Connection`]s. The
//! pattern reports the beginning of each request to the [`Recorder`](crate::recorder::Recorder).
//! The connection reports the request's end.

pub(crate) mod chat;
pub(crate) mod closed;
pub(crate) mod limited;
pub(crate) mod open;
pub(crate) mod serial;
pub(crate) mod trace;

use std::sync::Arc;

use duality_runtime::task;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::announce::EdgeAnnouncer;
use crate::connection::{Connection, Load};
use crate::engine::{Engine, Outcome, not_started};
use crate::request::Client;

pub use open::arrivals::Arrivals;

/// The clients' behaviour: the number of requests under way, and the beginning of each next
/// request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Pattern {
    /// Every connection makes its next request when the last one is answered.
    Closed,
    /// All connections are open, and one request is under way at a time: on each connection in
    /// turn.
    Serial,
    /// A request is under way on every connection. Replies are read in the order of the
    /// connections, and each is followed by the next request on its connection.
    Limited,
    /// Requests are due at the times of these arrivals, whatever the fate of earlier requests.
    Open(Arrivals),
    /// Connections start at the times of a recording, which is
    /// [`Options::replay`](crate::Options::replay). Each makes a further request after the reply
    /// before and its think time.
    Trace,
}

/// A pattern, with its name on the command line and in plans.
#[derive(Debug)]
pub struct Named {
    /// One word.
    pub name: &'static str,
    /// The pattern's description, in a line.
    pub about: &'static str,
    /// `None` is the open loop, which needs [`Arrivals`].
    pub pattern: Option<Pattern>,
    /// Whether connections carry more than one request, if the name implies it.
    pub keep_alive: Option<bool>,
}

impl Pattern {
    /// All names. Demsky's four echo clients (MIT 2001) are serial, limited, long and short.
    pub const NAMED: [Named; 7] = [
        closed::NAMED,
        serial::NAMED,
        limited::NAMED,
        closed::LONG,
        closed::SHORT,
        open::NAMED,
        trace::NAMED,
    ];

    /// The pattern with this name.
    pub fn named(name: &str) -> Option<&'static Named> {
        static NAMED: [Named; 7] = Pattern::NAMED;
        NAMED.iter().find(|named| named.name == name)
    }

    /// The name on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Pattern::Closed => closed::NAMED.name,
            Pattern::Serial => serial::NAMED.name,
            Pattern::Limited => limited::NAMED.name,
            Pattern::Open(_) => open::NAMED.name,
            Pattern::Trace => trace::NAMED.name,
        }
    }
}

/// Runs a load on connections with copies of this client.
pub(crate) async fn load<C: Client>(
    engine: &Engine,
    mut client: C,
    hook: EdgeAnnouncer,
) -> Result<Outcome, Error> {
    engine.prepare(&mut client).await?;
    match engine.options.pattern {
        Pattern::Closed => closed::load(engine, &client, hook).await,
        Pattern::Serial => in_order(engine, &client, hook, serial::run).await,
        Pattern::Limited => in_order(engine, &client, hook, limited::run).await,
        Pattern::Open(arrivals) => open::load(engine, &client, arrivals, hook).await,
        // A replay asks for many pages, but a client asks for one.
        Pattern::Trace => Err(Error::Options(trace::OF_HTTP)),
    }
}

/// Opens connections, and runs a load with a pattern, `run`, that uses them in order.
async fn in_order<C: Client, F>(
    engine: &Engine,
    client: &C,
    hook: EdgeAnnouncer,
    run: impl FnOnce(Vec<Connection<C>>, Arc<Load>) -> F,
) -> Result<Outcome, Error>
where
    F: Future<Output = ()> + Send + 'static,
{
    let load = engine.shared(engine.edges(), None, Box::new(hook));
    let row = engine.attend(opened(client, engine.options.connections, &load)).await?;
    load.recorder.ready();
    task::spawn(run(row, load.clone())).map_err(not_started)?;
    Ok(engine.finish(&load.recorder).await)
}

/// Makes the connections, and opens them if they are kept. If one cannot be opened, the load tries
/// again and reports it.
async fn opened<C: Client>(client: &C, connections: usize, load: &Load) -> Vec<Connection<C>> {
    let mut row: Vec<_> = (0..connections).map(|number| Connection::new(number, client)).collect();
    if load.keep_alive {
        for connection in &mut row {
            // The connection carries many requests, so none of them includes the time to open it.
            if connection.open(load).await.is_err() {
                break;
            }
        }
    }
    row
}
