//! Slow readers: many requests at once, and the replies in small pieces.

use std::time::Instant;

use duality_runtime::net::{ConnectOptions, TcpStream};
use duality_runtime::time;
use rustix::net::sockopt;

use super::Shared;
use super::fate::Gone;
use super::question::says_full;
use crate::failure::Failure;
use crate::request::read_more;

/// The number of bytes to read at a time.
const PIECE: usize = 100;

/// The number of bytes of replies that are requested ahead of the reader. The number must exceed
/// the kernel buffers of both sides, or the server's output would never block. With the settings
/// here, these buffers hold some 50 KiB.
const PILE: u64 = 256 * 1024;

/// Twice the smallest buffer that a kernel allows.
const RECEIVE_BUFFER: u32 = 4 * 1024;

/// Every host on the internet accepts this segment size (RFC 9293, section 3.7.1).
const SEGMENT: u16 = 536;

/// The number of bytes of requests to write at a time.
const CHUNK: usize = 4 * 1024;

pub(super) async fn enter(shared: &Shared) -> Result<TcpStream, Failure> {
    let narrow = ConnectOptions::default().receive_buffer(RECEIVE_BUFFER).largest_segment(SEGMENT);
    shared.route.connect_with(shared.limit, narrow).await
}

pub(super) async fn stay(stream: TcpStream, shared: &Shared) -> Gone {
    let since = Instant::now();
    let request = &shared.question.request;
    let repeated = request.repeat(CHUNK.div_ceil(request.len().max(1)));
    let mut reader = SlowReader { stream, chunk: repeated, written: 0, received: 0 };
    loop {
        let next = Instant::now() + shared.rest;
        if let Err(failure) = reader.take_some(shared).await {
            return Gone::by(&failure, since);
        }
        time::sleep_until(next).await;
    }
}

struct SlowReader {
    stream: TcpStream,
    /// The request, a number of times.
    chunk: Vec<u8>,
    /// Bytes of requests and of replies.
    written: u64,
    received: u64,
}

impl SlowReader {
    /// Makes more requests, and reads one piece of the replies.
    async fn take_some(&mut self, shared: &Shared) -> Result<(), Failure> {
        // A server with blocked output takes no requests, so the write may wait in vain.
        match time::timeout(shared.rest, self.ask(shared)).await {
            Err(time::Elapsed) => {}
            Ok(asked) => asked?,
        }
        let mut piece = [0; PIECE];
        let count = read_more(&mut self.stream, &mut piece, self.received).await?;
        if self.received == 0 && says_full(&piece[..count]) {
            return Err(Failure::ServerFull);
        }
        let before = self.received / shared.reply_length;
        self.received += count as u64;
        shared.ledger.answered(self.received / shared.reply_length - before);
        // A reset shows at once, although bytes from before it are still unread.
        match sockopt::socket_error(&self.stream) {
            Ok(Err(error)) => Err(Failure::from_transfer(error.into(), self.received)),
            _ => Ok(()),
        }
    }

    /// Makes requests until enough replies are due. The future may be dropped while it waits.
    async fn ask(&mut self, shared: &Shared) -> Result<(), Failure> {
        let requests = (self.received + PILE).div_ceil(shared.reply_length);
        let wanted = requests.saturating_mul(shared.question.request.len() as u64);
        while self.written < wanted {
            let from = (self.written % self.chunk.len() as u64) as usize;
            let rest = &self.chunk[from..];
            let most = usize::try_from(wanted - self.written).unwrap_or(usize::MAX);
            let some = &rest[..rest.len().min(most)];
            let count = self.stream.write(some).await;
            let count = count.map_err(|error| Failure::from_transfer(error, self.received))?;
            self.written += count as u64;
        }
        Ok(())
    }
}
