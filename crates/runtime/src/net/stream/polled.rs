//! The poll-style interface of a connection, for traits of other libraries. Each method is one
//! attempt with [waits gathered](crate::task::gather).
//!
//! A drain is no end of input here. A library takes the end of input for a client that has left,
//! and drops the reply in preparation. [`drained`](crate::drained) reports the drain.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::task::{Context, Poll};

use duality_poller::Direction;

use super::TcpStream;
use crate::gather::poll_gathering;
use crate::net::socket::{Access, Done, Moved, TimeLimit};

/// The time limits of the operation that waits in each direction, kept across its polls.
#[derive(Default)]
pub(super) struct Limits([Option<TimeLimit>; 2]);

impl TcpStream {
    /// Reads available bytes into `buffer`, or has the task polled when there are bytes. 0 means
    /// the end.
    ///
    /// # Errors
    ///
    /// The errors of [`read`](TcpStream::read).
    pub fn poll_read(
        &mut self,
        context: &Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let room = buffer.len();
        let read = self.poll_one(context, Direction::Read, |socket| socket.receive(buffer));
        self.noting_the_end(room, read)
    }

    /// Like [`poll_read`](TcpStream::poll_read), into memory that need not be initialised. The
    /// first bytes are initialised afterwards, as many as the result says.
    ///
    /// # Errors
    ///
    /// The errors of [`read`](TcpStream::read).
    #[inline]
    pub fn poll_read_into(
        &mut self,
        context: &Context<'_>,
        buffer: &mut [MaybeUninit<u8>],
    ) -> Poll<io::Result<usize>> {
        let room = buffer.len();
        let read = self.poll_one(context, Direction::Read, |socket| socket.receive_into(buffer));
        self.noting_the_end(room, read)
    }

    #[inline]
    fn noting_the_end(
        &mut self,
        room: usize,
        read: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        self.socket.has_ended |= room > 0 && matches!(read, Poll::Ready(Ok(0)));
        read
    }

    /// Whether a poll-style read has found the end of the input.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.socket.has_ended
    }

    /// Writes some of `bytes` and returns how many, or has the task polled when there is room.
    ///
    /// # Errors
    ///
    /// The errors of [`write`](TcpStream::write).
    #[inline]
    pub fn poll_write(&mut self, context: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_one(context, Direction::Write, |socket| socket.send(bytes))
    }

    /// Writes some of the bytes of `buffers`, like [`poll_write`](TcpStream::poll_write).
    ///
    /// # Errors
    ///
    /// The errors of [`write_vectored`](TcpStream::write_vectored).
    #[inline]
    pub fn poll_write_vectored(
        &mut self,
        context: &Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_one(context, Direction::Write, |socket| socket.send_vectored(buffers))
    }

    /// Ends writing after all written bytes.
    ///
    /// # Errors
    ///
    /// The errors of [`shutdown`](TcpStream::shutdown).
    pub fn poll_shutdown(&mut self, context: &Context<'_>) -> Poll<io::Result<()>> {
        self.poll_one(context, Direction::Write, |socket| socket.end())
    }

    #[inline]
    fn poll_one<T: Default>(
        &mut self,
        context: &Context<'_>,
        direction: Direction,
        attempt: impl FnMut(Access<'_>) -> io::Result<Moved<T>>,
    ) -> Poll<io::Result<T>> {
        self.socket.set_outlives_drain(true);
        let timeout = match direction {
            Direction::Read => self.read_timeout,
            Direction::Write => self.write_timeout,
        };
        let mut unlimited = TimeLimit::new(None);
        let limit = match timeout {
            None => &mut unlimited,
            Some(_) => self.limits.get_or_insert_default().0[direction as usize]
                .get_or_insert_with(|| TimeLimit::new(timeout)),
        };
        let socket = &mut self.socket;
        let done = poll_gathering(|| socket.poll(context, direction, limit, attempt));
        if done.is_ready()
            && let Some(limits) = &mut self.limits
        {
            limits.0[direction as usize] = None;
        }
        done.map_ok(|done| match done {
            Done::Moved(value) => value,
            // Other clients want this connection's place.
            Done::Drained => T::default(),
        })
    }
}
