//! A machine's view of its socket: attempts to move bytes, which never wait.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use duality_poller::Event;
use duality_runtime::fs::File;
use rustix::fs::sendfile;
use rustix::io::{Errno, writev};
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown, sockopt};

/// How many attempts a machine may make before others have their turn. The runtime allows its tasks
/// the same number.
pub(crate) const BUDGET: u32 = 64;

/// The most that one `sendfile(2)` is asked for, so that a large file shares the loop.
const SEND_FILE_CHUNK: u64 = 1 << 20;

/// The state of a socket. It shows which attempts are not worth their system call.
pub(crate) struct Readiness {
    /// The last read took all bytes, so the next one would block until an event comes.
    read_exhausted: bool,
    /// The last write filled the socket's buffer.
    write_exhausted: bool,
    /// The client has closed, or the socket has failed. No further event may come, so every attempt
    /// is made.
    hangup: bool,
    /// The client has sent nothing yet.
    is_new: bool,
}

impl Readiness {
    /// The readiness of an accepted connection.
    pub(crate) fn new() -> Self {
        Self { read_exhausted: false, write_exhausted: false, hangup: false, is_new: true }
    }

    /// Whether the client has sent nothing yet.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Notes an event.
    pub(crate) fn note(&mut self, event: &Event) {
        self.hangup |= event.hangup;
        self.read_exhausted &= !event.readable;
        self.write_exhausted &= !event.writable;
    }
}

/// The attempts that a called machine can make. They return how many bytes have moved, or `None` if
/// the machine must wait.
pub(crate) struct Attempts<'c> {
    socket: BorrowedFd<'c>,
    readiness: &'c mut Readiness,
    budget: u32,
    cut_short: bool,
    draining: bool,
    now: Instant,
}

impl<'c> Attempts<'c> {
    pub(crate) fn new(
        socket: BorrowedFd<'c>,
        readiness: &'c mut Readiness,
        draining: bool,
        now: Instant,
    ) -> Self {
        Self { socket, readiness, budget: BUDGET, cut_short: false, draining, now }
    }

    /// The time `limit` after this round. `None` means never.
    pub(crate) fn after(&self, limit: Duration) -> Option<Instant> {
        self.now.checked_add(limit)
    }

    /// Whether the machine waits only because its turn was cut short.
    pub(crate) fn was_cut_short(&self) -> bool {
        self.cut_short
    }

    /// Leaves the input open at a drain, because the rest of a message is still coming.
    pub(crate) fn outlive_drain(&mut self) {
        self.draining = false;
    }

    /// Reads the present bytes. 0 is the end of the stream. During a drain, the absence of bytes is
    /// an end too.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        // During a drain, the machine reads bytes even before their event has come.
        if !self.readiness.read_exhausted || self.draining {
            let room = buffer.len();
            let read = self.attempt(|socket| {
                recv(socket, &mut *buffer, RecvFlags::empty()).map(|(count, _)| count)
            })?;
            if let Some(count) = read {
                self.readiness.is_new = false;
                // A count of 0 does not mean that the next read blocks: it returns the end again.
                let short = count != 0 && count < room;
                self.readiness.read_exhausted = short && !self.readiness.hangup;
                return Ok(Some(count));
            }
        }
        Ok((self.draining && !self.cut_short).then_some(0))
    }

    /// Writes some of these bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        self.attempt_write(bytes.len(), |socket| send(socket, bytes, SendFlags::NOSIGNAL))
    }

    /// Writes some of these bytes. If all bytes fit, they leave together with the end of our side.
    pub(crate) fn write_last(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        let flags = SendFlags::NOSIGNAL | SendFlags::MORE;
        let written = self.attempt_write(bytes.len(), |socket| send(socket, bytes, flags))?;
        if written == Some(bytes.len()) {
            self.shut_down_writing()?;
        }
        Ok(written)
    }

    /// Writes some of the bytes of `first` followed by `second`.
    pub(crate) fn write_both(&mut self, first: &[u8], second: &[u8]) -> io::Result<Option<usize>> {
        let pieces = [IoSlice::new(first), IoSlice::new(second)];
        self.attempt_write(first.len() + second.len(), |socket| writev(socket, &pieces))
    }

    /// Sends up to so many bytes of a file.
    pub(crate) fn send_file(
        &mut self,
        file: &File,
        mut offset: u64,
        length: u64,
    ) -> io::Result<Option<usize>> {
        let chunk = length.min(SEND_FILE_CHUNK) as usize;
        // A short count may mean the end of the file or of the room. The next attempt tells which.
        self.attempt_write(0, |socket| sendfile(socket, file, Some(&mut offset), chunk))
    }

    /// Shuts down our side of the connection.
    pub(crate) fn shut_down_writing(&self) -> io::Result<()> {
        Ok(shutdown(self.socket, Shutdown::Write)?)
    }

    /// Makes the kernel end the connection if the client takes nothing for so long.
    pub(crate) fn set_taking_limit(&self, limit: Duration) {
        let milliseconds = limit.as_millis().try_into().unwrap_or(u32::MAX);
        // If this fails, the connection has ended already.
        let _ = sockopt::set_tcp_user_timeout(self.socket, milliseconds);
    }

    /// Makes the close a reset. Otherwise the kernel would go on sending to a client that takes
    /// nothing.
    pub(crate) fn reset(&self) {
        // If this fails, the connection has ended already.
        let _ = sockopt::set_socket_linger(self.socket, Some(Duration::ZERO));
    }

    fn attempt_write(
        &mut self,
        offered: usize,
        call: impl FnMut(BorrowedFd<'_>) -> Result<usize, Errno>,
    ) -> io::Result<Option<usize>> {
        if self.readiness.write_exhausted {
            return Ok(None);
        }
        let written = self.attempt(call)?;
        if let Some(count) = written {
            self.readiness.write_exhausted = count < offered && !self.readiness.hangup;
        }
        Ok(written)
    }

    #[inline]
    fn attempt(
        &mut self,
        mut call: impl FnMut(BorrowedFd<'_>) -> Result<usize, Errno>,
    ) -> io::Result<Option<usize>> {
        loop {
            if self.budget == 0 {
                self.cut_short = true;
                return Ok(None);
            }
            self.budget -= 1;
            match call(self.socket) {
                Ok(count) => return Ok(Some(count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
