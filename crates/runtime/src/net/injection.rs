//! Connections without a network: a generator within the server's process passes requests directly
//! to the architecture.
//!
//! ```text
//!   Injector::inject ─ a byte ▶ pipe ▶ TcpListener::accept ▶ a TcpStream: the request, the end
//!                                                            of input; drops and counts all writes
//! ```
//!
//! The service runs as it does over TCP. Only the attempts to receive and to send differ: both make
//! no system call and never block. The stream's descriptor is one of `/dev/null`, so that limits of
//! descriptors hold.
//!
//! Source: Truppel & Abreu, section V.A.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, fcntl_dupfd_cloexec, read, write};
use rustix::pipe::{PipeFlags, pipe_with};

/// Bytes of an injected request.
const REQUEST: usize = 8;

/// The generator's end of an injected listener. When it is dropped, the listener accepts no further
/// clients.
#[derive(Debug)]
pub struct Injector {
    pipe: OwnedFd,
    tally: Arc<Tally>,
}

/// The outcomes of the injected clients.
#[derive(Debug, Default)]
pub struct Tally {
    begun: AtomicU64,
    answered: AtomicU64,
    failed: AtomicU64,
    most: AtomicU64,
}

impl Injector {
    /// Connects a client that has sent its request. If the listener does not keep up, this call
    /// waits while about ten thousand clients wait in the queue.
    ///
    /// # Errors
    ///
    /// `BrokenPipe` if the server no longer accepts.
    pub fn inject(&self) -> io::Result<()> {
        loop {
            match write(&self.pipe, &[0]) {
                Err(Errno::INTR) => {}
                written => return Ok(written.map(drop)?),
            }
        }
    }

    /// The counts of clients. The counts outlive the injector.
    #[must_use]
    pub fn tally(&self) -> Arc<Tally> {
        self.tally.clone()
    }
}

impl Tally {
    /// The number of answered clients.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// The number of accepted clients that closed their connections without a byte.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// The most clients that were connected at a time.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }
}

/// The listener's end.
#[derive(Debug)]
pub(super) struct Injections {
    /// `/dev/null`. Each connection has a duplicate of it.
    null: OwnedFd,
    tally: Arc<Tally>,
}

/// The descriptor and the source of an injected listener, and the injector that feeds it.
pub(super) fn source() -> io::Result<(OwnedFd, Arc<Injections>, Injector)> {
    let (out, into) = pipe_with(PipeFlags::CLOEXEC)?;
    let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let tally = Arc::new(Tally::default());
    Ok((out, Arc::new(Injections { null, tally: tally.clone() }), Injector { pipe: into, tally }))
}

impl Injections {
    /// Accepts a connection. `None` if there will be no more.
    pub(super) fn accept(&self, pipe: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
        // The descriptor comes first: a client that has left the pipe cannot be put back.
        let descriptor = fcntl_dupfd_cloexec(self.null.as_fd(), 0)?;
        Ok((read(pipe, &mut [0; 1])? == 1).then_some(descriptor))
    }

    /// The client of a connection that has just been accepted.
    pub(super) fn client(&self) -> Box<Injected> {
        let tally = self.tally.clone();
        let number = tally.begun.fetch_add(1, Ordering::Relaxed);
        let ended = tally.answered() + tally.failed();
        tally.most.fetch_max((number + 1).saturating_sub(ended), Ordering::Relaxed);
        Box::new(Injected { number, read: AtomicU64::new(0), sent: AtomicU64::new(0), tally })
    }
}

/// An injected client. Its numbers are atomic because several threads may look at a stream. One
/// thread at a time changes them.
#[derive(Debug)]
pub(super) struct Injected {
    /// The number of clients before this one.
    number: u64,
    read: AtomicU64,
    sent: AtomicU64,
    tally: Arc<Tally>,
}

impl Injected {
    /// The client's input, and its end. The bytes look random and are computed from the client's
    /// number (SplitMix64, Steele, Lea & Flood 2014).
    pub(super) fn take_input(&self, buffer: &mut [MaybeUninit<u8>]) -> usize {
        let mut mixed = self.number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let request: [u8; REQUEST] = (mixed ^ (mixed >> 31)).to_le_bytes();
        let before = self.read.load(Ordering::Relaxed) as usize;
        let rest = &request[before..];
        let count = rest.len().min(buffer.len());
        for (to, from) in buffer.iter_mut().zip(&rest[..count]) {
            to.write(*from);
        }
        self.read.store((before + count) as u64, Ordering::Relaxed);
        count
    }

    /// Takes the sent bytes.
    pub(super) fn take(&self, count: usize) -> usize {
        self.sent.fetch_add(count as u64, Ordering::Relaxed);
        count
    }
}

impl Drop for Injected {
    fn drop(&mut self) {
        let was_answered = self.sent.load(Ordering::Relaxed) > 0;
        let counter = if was_answered { &self.tally.answered } else { &self.tally.failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
