//! One connection of HTTP/2 (RFC 9113), by the crate h2, with one request at a time.
//!
//! ```text
//!   send, receive ──▶ h2 ──▶ Pipe ── output ─▶ write ──▶ ┐
//!                      ▲      │                          TcpStream, straight-line
//!                      └──────┴◀─ input ◀───── read ◀─── ┘
//! ```
//!
//! h2 is a state machine between the two ends of a [`Pipe`]. The session lets h2 do all that it
//! can, and writes the output. The session reads when only the server can go on. So one task
//! carries a connection, and nothing is spawned.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use duality_runtime::net::TcpStream;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use http::Request;

use super::pipe::Pipe;
use crate::failure::Failure;
use crate::request::read_more;

/// The windows of a stream and of the connection, in bytes: the server may send so much ahead.
const WINDOW: u32 = 1 << 20;

/// The most bytes of the headers of a reply.
const LONGEST_HEAD: u32 = 64 << 10;

/// The most bytes of one read.
const BUFFER: usize = 16 << 10;

/// See the [module](self).
pub(super) struct Http2Connection {
    pipe: Pipe,
    requests: SendRequest<Bytes>,
    connection: Connection<Pipe, Bytes>,
    reply: Option<ResponseFuture>,
    /// The connection takes no further request.
    has_ended: bool,
    /// The bytes that have come since the last request.
    received: u64,
    /// Whether the head of the reply has come.
    has_head: bool,
    buffer: Box<[u8]>,
    output: Vec<u8>,
}

/// A whole reply.
pub(super) struct Answer {
    pub(super) status: u16,
    /// The bytes from the server since the request.
    pub(super) bytes: u64,
    /// Whether the connection can carry another request.
    pub(super) open: bool,
    /// As in [`Reply`](crate::request::Reply).
    pub(super) first: Option<Instant>,
}

/// What one turn has made of a reply.
enum Progress {
    Waits,
    /// Bytes of the body have been taken, so that the server may send as many more.
    Taken,
    Complete,
}

/// The context of a poll. The session polls whenever bytes have come, so that no wake is needed.
fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

impl Http2Connection {
    /// Begins a connection: the preface and the settings are ready to be sent.
    pub(super) fn new() -> Result<Self, Failure> {
        let pipe = Pipe::default();
        let handshake = pin!(
            Builder::new()
                .enable_push(false)
                .initial_window_size(WINDOW)
                .initial_connection_window_size(WINDOW)
                .max_header_list_size(LONGEST_HEAD)
                .handshake::<_, Bytes>(pipe.clone())
        );
        let Poll::Ready(begun) = handshake.poll(&mut context()) else {
            return Err(Failure::Malformed("the connection did not begin"));
        };
        let (requests, connection) = begun.map_err(|error| failure(&error, 0))?;
        Ok(Self {
            pipe,
            requests,
            connection,
            reply: None,
            has_ended: false,
            received: 0,
            has_head: false,
            buffer: vec![0; BUFFER].into(),
            output: Vec::new(),
        })
    }

    /// Sends a request with its body.
    pub(super) async fn send(
        &mut self,
        stream: &mut TcpStream,
        request: Request<()>,
        body: &Bytes,
    ) -> Result<(), Failure> {
        (self.received, self.has_head) = (0, false);
        // The server may allow no stream yet, or no longer.
        while self.must_wait()? {
            self.flush(stream).await?;
            self.fill(stream).await?;
            self.turn()?;
        }
        let sent = self.requests.send_request(request, body.is_empty());
        let (reply, mut sending) = sent.map_err(|error| failure(&error, 0))?;
        if !body.is_empty() {
            // h2 keeps what the server does not take yet.
            sending.send_data(body.clone(), true).map_err(|error| failure(&error, 0))?;
        }
        self.reply = Some(reply);
        self.turn()?;
        self.flush(stream).await
    }

    /// Whether the server allows no further stream yet.
    fn must_wait(&mut self) -> Result<bool, Failure> {
        match self.requests.poll_ready(&mut context()) {
            Poll::Pending => Ok(true),
            Poll::Ready(Ok(())) => Ok(false),
            Poll::Ready(Err(error)) => Err(failure(&error, 0)),
        }
    }

    /// Receives the reply to the last request, to its end. `check` is told the status, and `sink`
    /// gets the body.
    pub(super) async fn receive(
        &mut self,
        stream: &mut TcpStream,
        check: impl Fn(u16) -> Result<(), Failure> + Send,
        mut sink: impl FnMut(&[u8]) -> Result<(), Failure> + Send,
    ) -> Result<Answer, Failure> {
        let (mut status, mut body, mut first) = (0, None, None);
        loop {
            if body.is_none()
                && let Some((code, stream)) = self.head()?
            {
                check(code)?;
                (status, body) = (code, Some(stream));
            }
            let progress = match &mut body {
                Some(body) => take(body, self.of_reply(), &mut sink)?,
                None => Progress::Waits,
            };
            if matches!(progress, Progress::Taken | Progress::Complete) {
                self.turn()?;
            }
            let flushed = self.flush(stream).await;
            if matches!(progress, Progress::Complete) {
                self.reply = None;
                let open = !self.has_ended && flushed.is_ok();
                return Ok(Answer { status, bytes: self.received, open, first });
            }
            // A server that closes may have sent more before. The read tells.
            if matches!(flushed, Err(Failure::TimedOut)) {
                return Err(Failure::TimedOut);
            }
            if body.is_some() {
                first.get_or_insert_with(Instant::now);
            }
            self.fill(stream).await?;
            self.turn()?;
        }
    }

    /// The status and the body of the reply, once its head has come.
    fn head(&mut self) -> Result<Option<(u16, RecvStream)>, Failure> {
        let Some(reply) = &mut self.reply else {
            return Err(Failure::Malformed("no request was sent"));
        };
        match Pin::new(reply).poll(&mut context()) {
            Poll::Pending => Ok(None),
            Poll::Ready(Ok(reply)) => {
                self.has_head = true;
                Ok(Some((reply.status().as_u16(), reply.into_body())))
            }
            Poll::Ready(Err(error)) => Err(failure(&error, self.of_reply())),
        }
    }

    /// The bytes since the request, once the reply has begun. Before, the bytes are the
    /// connection's own frames.
    fn of_reply(&self) -> u64 {
        if self.has_head { self.received } else { 0 }
    }

    /// Lets h2 do all that it can do without the network.
    fn turn(&mut self) -> Result<(), Failure> {
        if self.has_ended {
            return Ok(());
        }
        match Pin::new(&mut self.connection).poll(&mut context()) {
            Poll::Pending => Ok(()),
            Poll::Ready(ended) => {
                self.has_ended = true;
                ended.map_err(|error| failure(&error, self.of_reply()))
            }
        }
    }

    /// Writes all output.
    async fn flush(&mut self, stream: &mut TcpStream) -> Result<(), Failure> {
        self.pipe.take(&mut self.output);
        if self.output.is_empty() {
            return Ok(());
        }
        let written = stream.write_all(&self.output).await;
        self.output.clear();
        written.map_err(|error| Failure::from_transfer(error, self.of_reply()))
    }

    /// Reads some input.
    async fn fill(&mut self, stream: &mut TcpStream) -> Result<(), Failure> {
        let of_reply = self.of_reply();
        let count = read_more(stream, &mut self.buffer, of_reply).await?;
        self.received += count as u64;
        self.pipe.put(&self.buffer[..count]);
        Ok(())
    }
}

/// Takes the bytes of a body that have come.
fn take(
    body: &mut RecvStream,
    received: u64,
    sink: &mut impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<Progress, Failure> {
    let mut progress = Progress::Waits;
    loop {
        match body.poll_data(&mut context()) {
            Poll::Pending => return Ok(progress),
            Poll::Ready(None) => return Ok(Progress::Complete),
            Poll::Ready(Some(Ok(data))) => {
                sink(&data)?;
                // The error: the stream has ended, and needs no room.
                let _ = body.flow_control().release_capacity(data.len());
                progress = Progress::Taken;
            }
            Poll::Ready(Some(Err(error))) => return Err(failure(&error, received)),
        }
    }
}

/// The failure behind an error of h2, after `received` bytes of the reply.
fn failure(error: &h2::Error, received: u64) -> Failure {
    let code = error.reason().map_or(0, u32::from);
    if let Some(error) = error.get_io() {
        return Failure::from_transfer(error.kind().into(), received);
    }
    match error.is_remote() {
        true if error.is_reset() => Failure::StreamReset { code, received },
        // The server ends the connection in good order, and has not begun with this request.
        true if code == u32::from(Reason::NO_ERROR) => Failure::ClosedEarly { received: 0 },
        true => Failure::GoneAway(code),
        false if error.reason().is_some() => Failure::Malformed("it breaks the rules of HTTP/2"),
        // The connection takes no further request.
        false => Failure::ClosedEarly { received: 0 },
    }
}
