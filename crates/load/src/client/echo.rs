//! The client of `echo`: an [`Exchange`] with a reply that equals its request (RFC 862).

use std::sync::Arc;

use super::exchange::Exchange;
use super::{Entry, Protocol};
use crate::announce::EdgeAnnouncer;
use crate::crowd::Question;
use crate::engine::{Engine, Loading};
use crate::pattern;

/// The request of `echo://`: 64 bytes with two different halves, so that a shifted reply is wrong.
const MESSAGE: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.\n";

/// The most bytes of one request. A client that sends more before it reads could fill the buffers
/// of both directions. Then client and server would wait for each other.
pub(crate) const LONGEST: usize = 32 * 1024;

pub(crate) static ENTRY: Entry =
    Entry::plain("echo", |_| Arc::new(Echo { message: MESSAGE.to_vec() }));

/// Send a message, get the same bytes back.
#[derive(Debug)]
pub(crate) struct Echo {
    /// The bytes of one request: 1 to [`LONGEST`] of them.
    pub(crate) message: Vec<u8>,
}

impl Protocol for Echo {
    fn service(&self) -> &'static str {
        ENTRY.name
    }

    fn problem(&self) -> Option<String> {
        match self.message.len() {
            0 => Some("the message is empty".to_owned()),
            1..=LONGEST => None,
            length => Some(format!("a message of {length} bytes; at most {LONGEST} are sent")),
        }
    }

    fn question(&self) -> Option<Question> {
        Some(Question::exchange(&self.message, &self.message))
    }

    fn load<'a>(&'a self, engine: &'a Engine, edges: EdgeAnnouncer) -> Loading<'a> {
        Box::pin(pattern::load(engine, Exchange::new(&self.message, &self.message), edges))
    }
}
