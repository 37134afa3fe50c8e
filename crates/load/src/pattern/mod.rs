//! Load patterns, one file each: how many requests are under way at a time, and when the next
//! begins.
//!
//! A new pattern is a file here, with its [`Named`] entry and its function `load`. A new pattern
//! also needs a variant of [`Pattern`], with a line in each of [`Pattern::NAMED`],
//! [`Pattern::name`] and [`load`].
//!
//! A pattern knows nothing of what a request is: it drives any [`Client`] on [`Connection`]s. The
//! pattern tells the [`Recorder`](crate::recorder::Recorder) how each request began. The connection
//! tells how the request ended.

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

/// How clients behave: how many requests are under way at a time, and when the next begins.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Pattern {
    /// Every connection makes its next request when the last is answered.
    Closed,
    /// All connections are open, and one request is under way at a time: on each connection in
    /// turn.
    Serial,
    /// A request is under way on every connection. Replies are read in the order of the
    /// connections, and each is followed by the next request on its connection.
    Limited,
    /// Requests are due when these arrivals say, whatever became of earlier requests.
    Open(Arrivals),
    /// Connections start when they did in a recording, which is
    /// [`Options::replay`](crate::Options::replay). Each makes a further request its think time after the reply before.
    Trace,
}

/// A pattern under the name that the command line and plans have for it.
#[derive(Debug)]
pub struct Named {
    /// One word.
    pub name: &'static str,
    /// The pattern's description, in a line.
    pub about: &'static str,
    /// `None` is the open loop, which needs [`Arrivals`].
    pub pattern: Option<Pattern>,
    /// Whether connections carry more than one request, where the name implies it.
    pub keep_alive: Option<bool>,
}

impl Pattern {
    /// All names; the four of Demsky's echo clients (MIT 2001) are serial, limited, long and short.
    pub const NAMED: [Named; 7] = [
        closed::NAMED,
        serial::NAMED,
        limited::NAMED,
        closed::LONG,
        closed::SHORT,
        open::NAMED,
        trace::NAMED,
    ];

    /// The pattern of this name.
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

/// Runs a load on connections with clients like this one.
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
        // It asks for many pages, and a client for one.
        Pattern::Trace => Err(Error::Options(trace::OF_HTTP)),
    }
}

/// Runs a load with a pattern that uses the connections in order, by `run`, once they are open.
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
            // The connection carries many requests, so opening it counts for none of them.
            if connection.open(load).await.is_err() {
                break;
            }
        }
    }
    row
}
