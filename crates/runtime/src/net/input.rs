//! The bytes that a client has sent and the service has not yet used.
//!
//! ```text
//!   idle       no memory at all
//!      │ bytes have come: a block is taken from the loop's spare ones      room
//!      ▼
//!   [ used │ unused bytes │ room ]                                         filled, consume
//!      │ the last byte has been used: it goes back
//!      ▼
//!   idle
//! ```
//!
//! So ten thousand idle connections have no more blocks than one busy connection. And the next
//! connection reads into a block that is still in a cache. A task of the block world keeps its
//! block while it waits, since it waits in the system call that fills it.

use crate::event_loop::spare::{self, Purpose};

/// A buffer that is filled at its end and used from its beginning.
///
/// [`TcpStream::fill`](super::TcpStream::fill) fills it. The input has memory only while it holds
/// bytes, and grows to its limit only for input that needs the room.
///
/// ```
/// # use duality_runtime as duality;
/// use std::io;
///
/// use duality::net::{Input, TcpStream};
///
/// /// Reads one line, and leaves what follows it in `input`.
/// async fn line(stream: &mut TcpStream, input: &mut Input) -> io::Result<Vec<u8>> {
///     loop {
///         if let Some(end) = input.unused().iter().position(|&byte| byte == b'\n') {
///             let line = input.unused()[..end].to_vec();
///             input.consume(end + 1);
///             return Ok(line);
///         }
///         if input.is_full() || stream.fill(input).await? == 0 {
///             return Err(io::ErrorKind::InvalidData.into());
///         }
///     }
/// }
/// # use duality::net::{ListenOptions, TcpListener};
/// # fn main() -> io::Result<()> {
/// # duality::block_on(async {
/// # let any_port = ([127, 0, 0, 1], 0).into();
/// # let mut listener = TcpListener::bind(any_port, &ListenOptions::default())?;
/// # let mut client = TcpStream::connect(listener.local_addr()?).await?;
/// # client.write_all(b"one\ntwo\n").await?;
/// # let (mut stream, _) = listener.accept().await?;
/// # let mut input = Input::new(1024);
/// # assert_eq!(line(&mut stream, &mut input).await?, b"one");
/// # assert_eq!(line(&mut stream, &mut input).await?, b"two");
/// # Ok(())
/// # })
/// # }
/// ```
#[derive(Debug)]
pub struct Input {
    /// Empty while the input has no memory.
    bytes: Vec<u8>,
    /// The unused bytes are those from `start` to `end`.
    start: usize,
    end: usize,
    limit: usize,
}

/// Enough for most requests. nginx starts with the same size.
const INITIAL: usize = 1 << 10;

impl Input {
    /// An empty buffer that holds at most `limit` bytes.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), start: 0, end: 0, limit }
    }

    /// The received bytes that have not been used.
    #[must_use]
    #[inline]
    pub fn unused(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Whether there are no such bytes.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether the buffer has reached its limit of unused bytes.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.end - self.start >= self.limit
    }

    /// Whether the last fill left some of the room, and so took all received bytes.
    #[must_use]
    #[inline]
    pub fn has_all(&self) -> bool {
        self.end < self.limit.min(self.bytes.len())
    }

    /// Room for the next bytes. Empty only if the buffer [`is_full`](Self::is_full), or there is no
    /// memory for more.
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        if self.bytes.is_empty() {
            spare::borrow(Purpose::Reading, &mut self.bytes);
        }
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.bytes.len() {
            let length = self.limit.min(INITIAL.max(self.end * 2)).max(self.end);
            if self.bytes.try_reserve_exact(length - self.end).is_ok() {
                self.bytes.resize(length, 0);
            }
        }
        // A spare block may be longer than this buffer may become.
        let limit = self.limit.max(self.end).min(self.bytes.len());
        &mut self.bytes[self.end..limit]
    }

    /// Notes that the first `length` bytes of the room have been filled.
    #[inline]
    pub fn filled(&mut self, length: usize) {
        self.end = self.bytes.len().min(self.end + length);
    }

    /// Notes that the first `length` bytes have been used.
    #[inline]
    pub fn consume(&mut self, length: usize) {
        self.start = self.end.min(self.start + length);
        self.release_if_empty();
    }

    /// Gives back the memory, if the buffer is empty.
    #[inline]
    pub(super) fn release_if_empty(&mut self) {
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
            spare::give_back(Purpose::Reading, &mut self.bytes);
        }
    }

    /// Takes the memory of `spare`, unless the input already has memory. Used by loops other than
    /// the runtime's, with spare memory for all their connections.
    pub fn borrow_from(&mut self, spare: &mut Vec<u8>) {
        if self.bytes.is_empty() {
            std::mem::swap(&mut self.bytes, spare);
        }
    }

    /// Makes this buffer's memory the `spare` one, if the buffer is empty.
    pub fn give_back_to(&mut self, spare: &mut Vec<u8>) {
        if self.is_empty() && !self.bytes.is_empty() {
            (self.start, self.end) = (0, 0);
            *spare = std::mem::take(&mut self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bytes_come_out_as_they_went_in(
            steps in prop::collection::vec((0..900usize, 0..900usize), 0..40),
        ) {
            let mut input = Input::new(3000);
            let mut expected = std::collections::VecDeque::new();
            let mut next = 0u8;
            for (fill, consume) in steps {
                let room = input.room();
                let length = fill.min(room.len());
                for byte in &mut room[..length] {
                    *byte = next;
                    expected.push_back(next);
                    next = next.wrapping_add(1);
                }
                prop_assert!(length > 0 || fill == 0 || input.is_full());
                input.filled(length);
                prop_assert_eq!(input.unused(), expected.make_contiguous());
                prop_assert!(input.unused().len() <= 3000);

                let length = consume.min(expected.len());
                input.consume(length);
                expected.drain(..length);
                prop_assert_eq!(input.is_empty(), expected.is_empty());
            }
        }
    }
}
