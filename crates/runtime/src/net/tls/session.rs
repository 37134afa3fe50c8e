//! One TLS connection after its handshake, as the channel of a socket; before, the handshake's
//! bytes.

use std::io::{self, BufRead, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::{SendFlags, Shutdown, send};
use rustls::Connection;

use crate::net::socket::{Access, Channel, Moved, unfinished};
use crate::task;
use crate::tcp_info::Closed;
use crate::time::clock;

/// The longest time from the first bytes of a record to bytes for the service. A peer that sends a
/// record byte by byte would otherwise stay below every time-out of a read.
const RECORD_TIME: Duration = Duration::from_secs(10);

/// A TLS connection. One task at a time uses it, so the lock is free.
pub(in crate::net) struct Session {
    state: Mutex<State>,
    /// The channel of a simulated socket.
    beneath: Option<Box<dyn Channel>>,
}

struct State {
    connection: Connection,
    /// Bytes of the handshake have come.
    has_begun: bool,
    /// Decrypted bytes that the service has not read.
    plaintext: usize,
    /// Bytes of a write that are encrypted, while their records wait for the network.
    encrypted: usize,
    /// When the first bytes of an unfinished record came.
    began: Option<Instant>,
    /// The peer has said that it sends no more.
    peer_has_ended: bool,
    /// The peer has been told that we send no more.
    has_ended: bool,
}

impl Session {
    pub(super) fn new(connection: Connection) -> Self {
        let (plaintext, encrypted) = (0, 0);
        let (has_begun, peer_has_ended, has_ended) = (false, false, false);
        let began = None;
        let state =
            State { connection, has_begun, plaintext, encrypted, began, peer_has_ended, has_ended };
        Self { state: Mutex::new(state), beneath: None }
    }

    /// The session, above the channel that its socket has so far.
    pub(in crate::net) fn above(self, beneath: Option<Box<dyn Channel>>) -> Self {
        Self { beneath, ..self }
    }

    /// What records are sent and received by.
    #[inline]
    fn network<'a>(&'a self, socket: &'a Access<'_>) -> Access<'a> {
        socket.with_beneath(self.beneath.as_deref())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this is the server's side, and nothing has come yet.
    pub(in crate::net) fn expects_client(&self) -> bool {
        let state = self.state();
        !state.has_begun && matches!(state.connection, Connection::Server(_))
    }

    /// Whether the handshake has still to receive.
    pub(in crate::net) fn is_handshaking(&self) -> bool {
        self.state().connection.is_handshaking()
    }

    /// The bytes of the handshake that are to be sent.
    pub(in crate::net) fn take_output(&self) -> io::Result<Vec<u8>> {
        let (mut state, mut output) = (self.state(), Vec::new());
        while state.connection.wants_write() {
            state.connection.write_tls(&mut output)?;
        }
        Ok(output)
    }

    /// Takes bytes of the handshake that have come.
    pub(in crate::net) fn take_input(&self, mut bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        state.has_begun = true;
        while !bytes.is_empty() {
            state.connection.read_tls(&mut bytes)?;
            state.process()?;
        }
        Ok(())
    }
}

impl State {
    fn process(&mut self) -> io::Result<()> {
        let connection = &mut self.connection;
        let state = task::leaf(move || connection.process_new_packets()).map_err(peer_failed)?;
        self.plaintext = state.plaintext_bytes_to_read();
        self.peer_has_ended |= state.peer_has_closed();
        Ok(())
    }

    /// Moves decrypted bytes into `buffer`.
    fn take_plaintext(&mut self, buffer: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() && self.plaintext > 0 {
            let mut reader = self.connection.reader();
            let bytes = reader.fill_buf()?;
            let count = bytes.len().min(buffer.len() - filled);
            for (to, from) in buffer[filled..].iter_mut().zip(&bytes[..count]) {
                to.write(*from);
            }
            reader.consume(count);
            filled += count;
            self.plaintext -= count;
        }
        Ok(filled)
    }

    /// Encrypts some of the bytes of `buffers`, unless an earlier attempt of this write has.
    fn encrypt(&mut self, network: &Access<'_>, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        if self.encrypted == 0 {
            self.flush(network)?;
            let connection = &mut self.connection;
            self.encrypted = task::leaf(move || connection.writer().write_vectored(buffers))?;
        }
        Ok(())
    }

    /// Sends all records.
    fn flush(&mut self, network: &Access<'_>) -> io::Result<()> {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut Network(network))?;
        }
        Ok(())
    }

    fn say_end(&mut self) {
        if !self.has_ended {
            self.has_ended = true;
            self.connection.send_close_notify();
        }
    }
}

/// A broken record, or a peer that speaks something else. The peer has left the protocol, so the
/// error is that of a client that breaks off.
fn peer_failed(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, error)
}

impl Channel for Session {
    fn is_encrypted(&self) -> bool {
        true
    }

    fn is_injected(&self) -> bool {
        self.beneath.as_ref().is_some_and(|beneath| beneath.is_injected())
    }

    fn agreed_protocol(&self) -> Option<Vec<u8>> {
        self.state().connection.alpn_protocol().map(<[u8]>::to_vec)
    }

    fn has_input(&self) -> bool {
        let state = self.state();
        state.plaintext > 0 || state.peer_has_ended
    }

    fn begin_write(&self) {
        self.state().encrypted = 0;
    }

    fn receive(
        &self,
        socket: &Access<'_>,
        buffer: &mut [MaybeUninit<u8>],
    ) -> io::Result<Moved<usize>> {
        let network = &self.network(socket);
        let mut state = self.state();
        let mut short = false;
        if state.plaintext == 0 && !state.peer_has_ended {
            let mut reader = NetworkReader { network, short: false };
            let count = state.connection.read_tls(&mut reader)?;
            short = reader.short;
            if let Err(error) = state.process() {
                // Tells the peer why, if that does not wait.
                let _ = state.flush(network);
                return Err(error);
            }
            if count == 0 && !state.peer_has_ended {
                // Without a close_notify, what has come may be less than what was sent.
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        }
        if state.plaintext == 0 && !state.peer_has_ended {
            let began = *state.began.get_or_insert_with(clock::now);
            let is_late = clock::now().saturating_duration_since(began) > RECORD_TIME;
            return Err(if is_late { io::ErrorKind::TimedOut.into() } else { unfinished() });
        }
        state.began = None;
        Ok(Moved { value: state.take_plaintext(buffer)?, short })
    }

    fn send(&self, socket: &Access<'_>, buffers: &[IoSlice<'_>]) -> io::Result<Moved<usize>> {
        let network = &self.network(socket);
        let mut state = self.state();
        state.encrypt(network, buffers)?;
        state.flush(network)?;
        Ok(Moved::all(std::mem::take(&mut state.encrypted)))
    }

    fn send_last(&self, socket: &Access<'_>, bytes: &[u8]) -> io::Result<Moved<usize>> {
        let network = &self.network(socket);
        let mut state = self.state();
        state.encrypt(network, &[IoSlice::new(bytes)])?;
        let is_all = state.encrypted == bytes.len();
        if is_all {
            state.say_end();
        }
        state.flush(network)?;
        if is_all {
            network.end()?;
        }
        Ok(Moved::all(std::mem::take(&mut state.encrypted)))
    }

    fn end(&self, socket: &Access<'_>) -> io::Result<Moved<()>> {
        let network = &self.network(socket);
        let mut state = self.state();
        state.say_end();
        state.flush(network)?;
        network.end()
    }

    fn break_off(&self, socket: BorrowedFd<'_>) {
        self.state().has_ended = true;
        if let Some(beneath) = &self.beneath {
            beneath.break_off(socket);
        }
    }

    fn close(&self, socket: BorrowedFd<'_>) {
        let mut state = self.state();
        // The end of an unfinished handshake is the close alone.
        if !state.connection.is_handshaking() && !state.has_ended {
            state.say_end();
            let mut closing = Closing { socket, beneath: self.beneath.as_deref() };
            let _ = state.connection.write_tls(&mut closing);
        }
        if let Some(beneath) = &self.beneath {
            beneath.close(socket);
        }
    }

    // What a simulated socket answers itself.

    fn waits_in_place(&self) -> bool {
        self.beneath.as_ref().is_some_and(|beneath| beneath.waits_in_place())
    }

    fn set_wait_limit(&self, to_receive: bool, limit: Option<Duration>) {
        if let Some(beneath) = &self.beneath {
            beneath.set_wait_limit(to_receive, limit);
        }
    }

    fn addresses(&self, socket: BorrowedFd<'_>) -> Option<(SocketAddr, SocketAddr)> {
        self.beneath.as_ref()?.addresses(socket)
    }

    fn set_taking_limit(&self, socket: BorrowedFd<'_>, limit: Duration) {
        if let Some(beneath) = &self.beneath {
            beneath.set_taking_limit(socket, limit);
        }
    }

    fn shut_down(&self, socket: BorrowedFd<'_>, how: Shutdown) -> io::Result<()> {
        match &self.beneath {
            Some(beneath) => beneath.shut_down(socket, how),
            None => Ok(rustix::net::shutdown(socket, how)?),
        }
    }

    fn has_closed(&self, socket: BorrowedFd<'_>) -> Option<Closed> {
        self.beneath.as_ref()?.has_closed(socket)
    }

    fn is_quiet(&self, socket: BorrowedFd<'_>) -> Option<bool> {
        self.beneath.as_ref()?.is_quiet(socket)
    }

    fn moves(&self, socket: BorrowedFd<'_>, twin: BorrowedFd<'_>) {
        if let Some(beneath) = &self.beneath {
            beneath.moves(socket, twin);
        }
    }
}

/// Sends records.
struct Network<'a>(&'a Access<'a>);

impl Write for Network<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(self.0.send(bytes)?.value)
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(self.0.send_vectored(buffers)?.value)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Receives records, and notes whether these were all.
struct NetworkReader<'a> {
    network: &'a Access<'a>,
    short: bool,
}

impl Read for NetworkReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let moved = self.network.receive(buffer)?;
        self.short = moved.short;
        Ok(moved.value)
    }
}

/// Sends the last record, without a wait.
struct Closing<'a> {
    socket: BorrowedFd<'a>,
    beneath: Option<&'a dyn Channel>,
}

impl Write for Closing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.beneath {
            Some(beneath) => beneath.send_at_close(bytes),
            None => Ok(send(self.socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
