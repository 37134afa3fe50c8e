//! Load patterns, one file each: how many requests are under way at a time, and when the next begins.
//!
//! A pattern knows nothing of what a request is: it drives any [`Client`](crate::request::Client) on
//! [`Connection`]s, and tells the [`Recorder`] how each request began; a connection tells how it ended.

pub(crate) mod chat;
pub(crate) mod closed;
pub(crate) mod connection;
pub(crate) mod gate;
pub(crate) mod limited;
pub(crate) mod open;
pub(crate) mod serial;

use std::time::Duration;

use self::connection::Connection;
use self::gate::Gate;
use crate::recorder::Recorder;
use crate::request::Client;
use crate::sources::Route;

pub use open::arrivals::Arrivals;

/// How clients behave: how many requests are under way at a time, and when the next begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// Every connection makes its next request when the last is answered.
    Closed,
    /// All connections are open, and one request is under way at a time: on each connection in turn.
    Serial,
    /// A request is under way on every connection; replies are read in the order of the connections,
    /// and each is followed by the next request on its connection.
    Limited,
    /// Requests are due when these arrivals say, whatever became of those before.
    Open(Arrivals),
}

/// A pattern under the name that the command line and plans have for it.
#[derive(Debug)]
pub struct Named {
    /// One word.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// `None` is the open loop, which needs [`Arrivals`].
    pub pattern: Option<Pattern>,
    /// Whether connections carry more than one request, where the name implies it.
    pub keep_alive: Option<bool>,
}

impl Pattern {
    /// All names; the four of Demsky's echo clients (MIT 2001) are serial, limited, long and short.
    pub const NAMED: [Named; 6] = [
        Named {
            name: "closed",
            about: "every connection asks again as soon as it is answered",
            pattern: Some(Pattern::Closed),
            keep_alive: None,
        },
        Named {
            name: "serial",
            about: "many connections are open, and one of them at a time is in use, in turn",
            pattern: Some(Pattern::Serial),
            keep_alive: None,
        },
        Named {
            name: "limited",
            about: "all have asked; replies are read in order, each followed by the next request",
            pattern: Some(Pattern::Limited),
            keep_alive: None,
        },
        Named {
            name: "long",
            about: "closed, on connections that stay",
            pattern: Some(Pattern::Closed),
            keep_alive: Some(true),
        },
        Named {
            name: "short",
            about: "closed, with a new connection for each request (--close)",
            pattern: Some(Pattern::Closed),
            keep_alive: Some(false),
        },
        Named {
            name: "open",
            about: "requests come at a rate (-R), whatever became of those before",
            pattern: None,
            keep_alive: None,
        },
    ];

    /// The pattern of this name.
    pub fn named(name: &str) -> Option<&'static Named> {
        static NAMED: [Named; 6] = Pattern::NAMED;
        NAMED.iter().find(|named| named.name == name)
    }

    /// The name on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Pattern::Closed => "closed",
            Pattern::Serial => "serial",
            Pattern::Limited => "limited",
            Pattern::Open(_) => "open",
        }
    }
}

/// What the connections of a load share.
pub(crate) struct Load {
    pub(crate) address: Route,
    /// Whether a connection carries more than one request.
    pub(crate) keep_alive: bool,
    pub(crate) reply_timeout: Duration,
    pub(crate) recorder: Recorder,
    /// Whether its connections may make requests now.
    pub(crate) gate: Gate,
}

/// The connections of a pattern that uses them in order, open if they are to stay. What cannot be opened
/// is left for the load to try again, and tell.
pub(crate) async fn row<C: Client>(
    client: &C,
    connections: usize,
    load: &Load,
) -> Vec<Connection<C>> {
    let mut row: Vec<_> =
        (0..connections).map(|number| Connection::new(number, client.clone())).collect();
    if load.keep_alive {
        for connection in &mut row {
            // It carries many requests, so that to open it belongs to none.
            if connection.open(load).await.is_err() {
                break;
            }
        }
    }
    row
}
