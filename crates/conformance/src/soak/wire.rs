//! A client's end of one connection. Its time and its bytes are bounded, and it can break off in
//! every possible way.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;

use super::PATIENCE;

/// A bound above the longest head or line of a server.
const LONGEST: usize = 64 << 10;

pub(super) struct Wire {
    stream: TcpStream,
    /// Bytes that have come and have not been taken.
    ahead: Vec<u8>,
}

impl Wire {
    /// Connects. Each wait of the connection lasts at most [`PATIENCE`].
    pub(super) fn connect(address: SocketAddr) -> io::Result<Self> {
        let deadline = Instant::now() + PATIENCE;
        let stream = loop {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                // The client has run out of ports: ended connections hold their ports for a second.
                // The server is not at fault.
                Err(error)
                    if error.kind() == ErrorKind::AddrNotAvailable && Instant::now() < deadline =>
                {
                    sleep(Duration::from_millis(20));
                }
                other => break other?,
            }
        };
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, ahead: Vec::new() })
    }

    /// From now on, gives up a read after `limit`.
    pub(super) fn hurry(&self, limit: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(limit))?;
        self.stream.set_write_timeout(Some(limit))
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends the bytes that the socket takes at once.
    pub(super) fn try_send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    /// Takes some bytes, at most `count`. Takes none at the end.
    pub(super) fn some(&mut self, count: usize) -> io::Result<usize> {
        let mut buffer = vec![0; count];
        self.stream.read(&mut buffer)
    }

    /// Takes exactly `count` bytes.
    pub(super) fn exactly(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.ahead.len() < count {
            self.fill()?;
        }
        Ok(self.ahead.drain(..count).collect())
    }

    /// Takes all bytes up to `end`, and `end` too.
    pub(super) fn until(&mut self, end: &[u8]) -> io::Result<Vec<u8>> {
        let mut searched = 0;
        loop {
            let from = searched.min(self.ahead.len());
            let found = self.ahead[from..].windows(end.len()).position(|window| window == end);
            if let Some(position) = found {
                return Ok(self.ahead.drain(..from + position + end.len()).collect());
            }
            searched = self.ahead.len().saturating_sub(end.len() - 1);
            if self.ahead.len() > LONGEST {
                return Err(io::Error::other("a head or line of the server has no end"));
            }
            self.fill()?;
        }
    }

    /// Takes all bytes up to the end of the connection, at most `limit` bytes.
    pub(super) fn into_rest(mut self, limit: usize) -> io::Result<Vec<u8>> {
        let taken = (&self.stream).take(limit as u64).read_to_end(&mut self.ahead);
        taken.map(|_| self.ahead)
    }

    /// Ends the sending side. The server's bytes still arrive.
    pub(super) fn half_close(&self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }

    /// Ends the connection by a reset, and drops the bytes under way.
    pub(super) fn reset(self) -> io::Result<()> {
        Ok(set_socket_linger(&self.stream, Some(Duration::ZERO))?)
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            count => {
                self.ahead.extend_from_slice(&buffer[..count]);
                Ok(())
            }
        }
    }
}
