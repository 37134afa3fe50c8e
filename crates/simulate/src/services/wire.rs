//! A client's connection: bytes and lines, with the client's patience.

use std::io;

use duality_runtime::net::TcpStream;
use duality_runtime::time::timeout;

use super::{Days, PATIENCE, PORT, Trouble};

/// A connection, and the bytes that have come and not been taken.
pub(super) struct Wire {
    pub(super) stream: TcpStream,
    bytes: Vec<u8>,
}

/// The rest of an exchange, within the client's patience.
pub(super) async fn patiently<T>(
    exchange: impl Future<Output = Result<T, Trouble>>,
) -> Result<T, Trouble> {
    match timeout(PATIENCE, exchange).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Trouble::Broken("no answer in 30 s".to_owned())),
    }
}

impl Wire {
    pub(super) async fn connect(days: &Days, server: usize) -> Result<Self, Trouble> {
        let host = format!("server{}:{PORT}", server + 1);
        let stream = patiently(async {
            let stream = TcpStream::connect_host(host).await?;
            match &days.tls {
                Some(tls) => tls.connect(stream).await,
                None => Ok(stream),
            }
        });
        Ok(Self { stream: stream.await?, bytes: Vec::new() })
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        Ok(self.stream.write_all(bytes).await?)
    }

    /// Receives more. False at the end.
    pub(super) async fn more(&mut self) -> Result<bool, Trouble> {
        let mut buffer = [0; 2048];
        let count = self.stream.read(&mut buffer).await?;
        self.bytes.extend(&buffer[..count]);
        Ok(count > 0)
    }

    async fn must_have_more(&mut self) -> Result<(), Trouble> {
        match self.more().await? {
            true => Ok(()),
            false => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        }
    }

    /// The next line, without its LF. `None` at the end of input.
    pub(super) async fn next_line(&mut self) -> Result<Option<String>, Trouble> {
        loop {
            if let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.bytes.drain(..=end).collect();
                return match String::from_utf8(line[..end].to_vec()) {
                    Ok(line) => Ok(Some(line)),
                    Err(_) => super::wrong("a line that is no text"),
                };
            }
            if !self.more().await? {
                return Ok(None);
            }
        }
    }

    pub(super) async fn line(&mut self) -> Result<String, Trouble> {
        match self.next_line().await? {
            Some(line) => Ok(line),
            None => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        }
    }

    pub(super) async fn exactly(&mut self, count: usize) -> Result<Vec<u8>, Trouble> {
        while self.bytes.len() < count {
            self.must_have_more().await?;
        }
        Ok(self.bytes.drain(..count).collect())
    }

    /// All bytes up to the end.
    pub(super) async fn rest(&mut self) -> Result<Vec<u8>, Trouble> {
        while self.more().await? {}
        Ok(std::mem::take(&mut self.bytes))
    }

    /// Whether more has come than was taken.
    pub(super) fn has_rest(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// The bytes up to `end`, with it.
    pub(super) async fn until(&mut self, end: &[u8]) -> Result<Vec<u8>, Trouble> {
        loop {
            let found = self.bytes.windows(end.len()).position(|window| window == end);
            if let Some(at) = found {
                return Ok(self.bytes.drain(..at + end.len()).collect());
            }
            self.must_have_more().await?;
        }
    }
}

/// Keeps a connection for the next request, and drops it after trouble.
pub(super) struct Kept {
    days: Days,
    server: usize,
    wire: Option<Wire>,
}

impl Kept {
    /// For the client of this number: clients are spread over the servers.
    pub(super) fn new(days: &Days, client: usize) -> Self {
        Self { days: days.clone(), server: client % days.size.servers, wire: None }
    }

    /// The connection that is kept, or a new one.
    pub(super) async fn take(&mut self) -> Result<Wire, Trouble> {
        match self.wire.take() {
            Some(wire) => Ok(wire),
            None => Wire::connect(&self.days, self.server).await,
        }
    }

    pub(super) fn keep(&mut self, wire: Wire) {
        self.wire = Some(wire);
    }
}
