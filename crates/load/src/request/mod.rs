//! One request on a connection: the trait of all clients, and their functions for reading and
//! writing.
//!
//! A client opens no connection and counts nothing, because the pattern does both. The clients
//! themselves are in `client/`.

pub(crate) mod line;

use std::future::Future;
use std::time::Instant;

use duality_runtime::net::TcpStream;

use crate::failure::Failure;

/// The client of one service on one connection. A clone is for another connection. A client
/// survives the replacement of its connection.
pub(crate) trait Client: Clone + Send + 'static {
    /// Makes the first request of a load. This request shows whether there is a server. From its
    /// reply, a client may learn the other replies.
    fn learn(
        &mut self,
        stream: &mut TcpStream,
    ) -> impl Future<Output = Result<(), Failure>> + Send {
        async {
            self.send(stream).await?;
            self.receive(stream).await.map(|_| ())
        }
    }

    /// The client of the connection with this index, from 0.
    fn for_connection(&self, number: usize) -> Self {
        let _ = number;
        self.clone()
    }

    /// Called for each new connection, the first included. The client forgets the state of the last
    /// connection.
    fn connected(&mut self) {}

    /// Sends one request on `stream`. The request is short enough for the kernel's buffers, even if
    /// nothing reads it yet.
    fn send(&mut self, stream: &mut TcpStream) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Reads the reply to the request that was sent last, to its last byte, and checks it.
    ///
    /// If the end of the connection is part of the reply, waits for it too.
    fn receive(
        &mut self,
        stream: &mut TcpStream,
    ) -> impl Future<Output = Result<Reply, Failure>> + Send;
}

/// A correct reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// The length of the reply, with its head.
    pub(crate) bytes: u64,
    /// Whether the connection can carry another request.
    pub(crate) open: bool,
    /// When the first byte had come, if the end came later. `None`: all came at once.
    pub(crate) first: Option<Instant>,
}

impl Reply {
    /// A reply that came at once.
    pub(crate) fn at_once(bytes: u64, open: bool) -> Self {
        Self { bytes, open, first: None }
    }
}

/// A page of a replay: one of many, on connections that carry requests for other pages.
pub(crate) trait Ask: Clone + Send + Sync + 'static {
    /// The file `path` of the server at `host`, with this many bytes.
    fn file(host: &str, path: &str, length: u64) -> Self;

    /// A page of a service of the user's own. The page's recorded reply had a status that began
    /// with this digit. 0 if the digit is not known.
    fn page(host: &str, path: &str, status: u8) -> Self;

    /// The same request, to which replies with these statuses are correct: a bit for each.
    #[must_use]
    fn expecting(self, statuses: [u64; 16]) -> Self;

    /// Requests the page. `is_last` says whether it is the last request of the connection.
    fn send(
        &self,
        stream: &mut TcpStream,
        is_last: bool,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Takes the reply, at most `rate` bytes a second if there is a rate, and checks it.
    fn receive(
        &self,
        stream: &mut TcpStream,
        rate: Option<u64>,
    ) -> impl Future<Output = Result<Reply, Failure>> + Send;
}

/// Writes all of a request.
#[inline]
pub(crate) async fn send_all(stream: &mut TcpStream, request: &[u8]) -> Result<(), Failure> {
    stream.write_all(request).await.map_err(|error| Failure::from_transfer(error, 0))
}

/// Reads more of a reply. `received` bytes of the reply have come. The end of the connection is a
/// failure.
#[inline]
pub(crate) async fn read_more(
    stream: &mut TcpStream,
    buffer: &mut [u8],
    received: u64,
) -> Result<usize, Failure> {
    match stream.read(buffer).await {
        Ok(0) => Err(Failure::ClosedEarly { received }),
        Ok(count) => Ok(count),
        Err(error) => Err(Failure::from_transfer(error, received)),
    }
}

/// Waits for the server to close the connection.
pub(crate) async fn expect_end(stream: &mut TcpStream) -> Result<(), Failure> {
    let mut excess = [0; 16];
    match stream.read(&mut excess).await {
        Ok(0) => Ok(()),
        Ok(_) => Err(Failure::Malformed("bytes after the end of the reply")),
        Err(error) => match Failure::from_transfer(error, 1) {
            // The whole reply has arrived. A reset from the server does not matter now.
            Failure::Reset { .. } => Ok(()),
            failure => Err(failure),
        },
    }
}

/// The value of a string of digits without any other character. `u64::from_str` would take a sign.
pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(digits).ok()?.parse().ok()
}
