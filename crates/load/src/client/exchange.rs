//! The client of any service that answers fixed bytes with fixed bytes: echo, or the user's own.

use std::sync::Arc;
use std::time::Instant;

use duality_runtime::net::TcpStream;

use super::Protocol;
use crate::announce::EdgeAnnouncer;
use crate::crowd::Question;
use crate::engine::{Engine, Loading};
use crate::failure::Failure;
use crate::pattern;
use crate::request::{Client, Reply, read_more, send_all};

/// A longer reply is compared in pieces of this size.
const LONGEST_PIECE: usize = 64 * 1024;

/// Fixed bytes out, fixed bytes expected.
#[derive(Debug)]
pub(crate) struct FixedBytes {
    /// The bytes of one request.
    pub(crate) request: Vec<u8>,
    /// The bytes of the only correct reply. There is at least one.
    pub(crate) reply: Vec<u8>,
}

impl Protocol for FixedBytes {
    fn service(&self) -> &'static str {
        "exchange"
    }

    fn problem(&self) -> Option<String> {
        let problem = "the expected reply is empty, so there is nothing to wait for";
        self.reply.is_empty().then(|| problem.to_owned())
    }

    fn question(&self) -> Option<Question> {
        Some(Question::exchange(&self.request, &self.reply))
    }

    fn load<'a>(&'a self, engine: &'a Engine, edges: EdgeAnnouncer) -> Loading<'a> {
        Box::pin(pattern::load(engine, Exchange::new(&self.request, &self.reply), edges))
    }
}

/// The client on one connection.
pub(crate) struct Exchange {
    request: Arc<[u8]>,
    reply: Arc<[u8]>,
    buffer: Box<[u8]>,
}

impl Exchange {
    /// A client that sends `request` and accepts only the non-empty `reply`.
    pub(crate) fn new(request: &[u8], reply: &[u8]) -> Self {
        // One byte more than the reply, to detect an excess byte.
        let size = (reply.len() + 1).min(LONGEST_PIECE);
        Self { request: request.into(), reply: reply.into(), buffer: vec![0; size].into() }
    }
}

impl Client for Exchange {
    async fn send(&mut self, stream: &mut TcpStream) -> Result<(), Failure> {
        send_all(stream, &self.request).await
    }

    async fn receive(&mut self, stream: &mut TcpStream) -> Result<Reply, Failure> {
        expect(stream, &mut self.buffer, &self.reply).await
    }
}

/// Reads `reply`, and accepts no other bytes. If the buffer is longer than the reply, the client
/// detects an excess byte.
#[inline]
pub(super) async fn expect(
    stream: &mut TcpStream,
    buffer: &mut [u8],
    reply: &[u8],
) -> Result<Reply, Failure> {
    let (mut received, mut first) = (0, None);
    while received < reply.len() {
        if received > 0 {
            first.get_or_insert_with(Instant::now);
        }
        let count = read_more(stream, buffer, received as u64).await?;
        let expected = &reply[received..];
        if count > expected.len() {
            return Err(Failure::WrongBytes("it is longer than what was expected"));
        }
        if buffer[..count] != expected[..count] {
            return Err(Failure::WrongBytes("it is not what was expected"));
        }
        received += count;
    }
    Ok(Reply { bytes: received as u64, open: true, first })
}

impl Clone for Exchange {
    fn clone(&self) -> Self {
        Self {
            request: self.request.clone(),
            reply: self.reply.clone(),
            buffer: vec![0; self.buffer.len()].into(),
        }
    }
}
