//! Replies of one line, for the clients of line-based services.

use duality_runtime::net::TcpStream;

use super::read_more;
use crate::failure::Failure;

/// Splits the bytes of a connection into lines.
pub(crate) struct Lines {
    buffer: Box<[u8]>,
    /// The range of bytes that have come and not been taken.
    unread: std::ops::Range<usize>,
}

impl Lines {
    /// Reads lines of at most `longest` bytes, line ends included.
    pub(crate) fn new(longest: usize) -> Self {
        // One byte more than a line, to detect an excess byte.
        Self { buffer: vec![0; longest + 1].into(), unread: 0..0 }
    }

    /// A reader with the same bound, for another connection.
    pub(crate) fn fresh(&self) -> Self {
        Self::new(self.buffer.len() - 1)
    }

    /// Forgets all bytes.
    pub(crate) fn clear(&mut self) {
        self.unread = 0..0;
    }

    /// The next line without its end, which is LF. A CR before the LF counts as a byte of the line.
    pub(crate) async fn next(&mut self, stream: &mut TcpStream) -> Result<&[u8], Failure> {
        let mut searched = 0;
        loop {
            let unread = &self.buffer[self.unread.clone()];
            if let Some(length) = unread[searched..].iter().position(|byte| *byte == b'\n') {
                let start = self.unread.start;
                let end = start + searched + length;
                self.unread.start = end + 1;
                return Ok(&self.buffer[start..end]);
            }
            searched = unread.len();
            self.buffer.copy_within(self.unread.clone(), 0);
            self.unread = 0..searched;
            if searched == self.buffer.len() {
                return Err(Failure::Malformed("the line is too long"));
            }
            let room = &mut self.buffer[searched..];
            self.unread.end += read_more(stream, room, searched as u64).await?;
        }
    }

    /// The next line. The error: more bytes have come after it.
    pub(crate) async fn only(&mut self, stream: &mut TcpStream) -> Result<&[u8], Failure> {
        let length = self.next(stream).await?.len();
        if !self.unread.is_empty() {
            return Err(Failure::Malformed("bytes after the end of the reply"));
        }
        let end = self.unread.start - 1;
        Ok(&self.buffer[end - length..end])
    }
}
