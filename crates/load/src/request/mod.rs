//! One request on a connection: the trait of clients of any service, and the functions by which
//! they read and write.
//!
//! A client opens no connection and counts nothing: that is the pattern's part. The clients
//! themselves are in `client/`.

pub(crate) mod line;

use std::future::Future;

use duality_runtime::net::TcpStream;

use crate::failure::Failure;

/// The client of one service on one connection. A clone is for another connection; a client is kept
/// when its connection is replaced.
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

    /// The client of a connection of this number, from 0.
    fn for_connection(&self, number: usize) -> Self {
        let _ = number;
        self.clone()
    }

    /// Called for each new connection, the first included. The client forgets what it knew of the
    /// last one.
    fn connected(&mut self) {}

    /// Sends one request on `stream`. The request is short enough for the kernel's buffers, even if
    /// nothing reads it yet.
    fn send(&mut self, stream: &mut TcpStream) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Reads the reply to the request that was sent last, to its last byte, and checks it.
    ///
    /// If the end of the connection is part of the reply, waits for that end too.
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
}

/// A page that a replay asks for: one of many, on connections that ask for others before.
pub(crate) trait Ask: Clone + Send + Sync + 'static {
    /// The file `path` of the server at `host`, of so many bytes.
    fn file(host: &str, path: &str, length: u64) -> Self;

    /// A page of a service of the user's own. Its reply had a status that began with this digit; 0
    /// if it is not known.
    fn page(host: &str, path: &str, status: u8) -> Self;

    /// Asks for it. The request says whether it is the last of the connection.
    fn send(
        &self,
        stream: &mut TcpStream,
        is_last: bool,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Takes the reply, at most `rate` bytes a second if there is one, and checks it.
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

/// Reads more of a reply. `received` bytes of it have come. The end of the connection is a failure.
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
            // Everything has arrived. A reset from the server does not matter now.
            Failure::Reset { .. } => Ok(()),
            failure => Err(failure),
        },
    }
}

/// The value of a string of digits, and of nothing else: `u64::from_str` would take a sign.
pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(digits).ok()?.parse().ok()
}
