//! Replies of one line, for the clients of line-based services.

use duality_runtime::net::TcpStream;

use super::read_more;
use crate::failure::Failure;

/// Takes lines out of the bytes of a connection.
pub(crate) struct Lines {
    buffer: Box<[u8]>,
    /// The bytes that have come and were not taken.
    unread: std::ops::Range<usize>,
}

impl Lines {
    /// Reads lines of at most `longest` bytes, their end included.
    pub(crate) fn new(longest: usize) -> Self {
        // One byte more than a line, so that an excess byte is seen.
        Self { buffer: vec![0; longest + 1].into(), unread: 0..0 }
    }

    /// Lines of the same bound, from another connection.
    pub(crate) fn fresh(&self) -> Self {
        Self::new(self.buffer.len() - 1)
    }

    /// Forgets what has come.
    pub(crate) fn clear(&mut self) {
        self.unread = 0..0;
    }

    /// The next line, without its end (LF; a CR before it would be one of the line's bytes).
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

    /// The next line. An error if more has come after it.
    pub(crate) async fn only(&mut self, stream: &mut TcpStream) -> Result<&[u8], Failure> {
        let length = self.next(stream).await?.len();
        if !self.unread.is_empty() {
            return Err(Failure::Malformed("bytes after the end of the reply"));
        }
        let end = self.unread.start - 1;
        Ok(&self.buffer[end - length..end])
    }
}
