//! Lines from a stream, each of bounded length: what the services that people can speak with `nc` share.
//!
//! A line ends with LF; a CR before it is not part of the line. What follows the last LF is not a line.

use std::io;

use duality_runtime::net::TcpStream;

/// The bytes that have come of one connection and have not been given out as lines.
pub(crate) struct Lines {
    bytes: Box<[u8]>,
    /// The bytes not given out yet are those from `start` to `end`.
    start: usize,
    end: usize,
    /// How many of them have been looked through for a line's end.
    searched: usize,
}

/// What came next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'b> {
    /// A line, without its end.
    Text(&'b [u8]),
    /// A line longer than the bound. Where the next one begins is unknown: the connection should end.
    TooLong,
    /// The peer has closed its side, or the server is about to stop.
    End,
}

impl Lines {
    /// For lines of at most `longest` bytes, their ends not counted.
    pub(crate) fn new(longest: usize) -> Self {
        Self { bytes: vec![0; longest + 2].into(), start: 0, end: 0, searched: 0 }
    }

    /// Waits for the next line.
    ///
    /// # Errors
    ///
    /// Those of [`TcpStream::read`].
    pub(crate) async fn next(&mut self, stream: &mut TcpStream) -> io::Result<Line<'_>> {
        loop {
            if let Some(range) = self.whole_line() {
                return Ok(match &self.bytes[range] {
                    line if line.len() > self.bytes.len() - 2 => Line::TooLong,
                    line => Line::Text(line),
                });
            }
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.end == self.bytes.len() {
                return Ok(Line::TooLong);
            }
            match stream.read(&mut self.bytes[self.end..]).await? {
                0 => return Ok(Line::End),
                count => self.end += count,
            }
        }
    }

    /// Whether a whole line has come already, so that the next one will be there without a wait.
    pub(crate) fn has_whole_line(&self) -> bool {
        self.bytes[self.start..self.end].contains(&b'\n')
    }

    /// Takes the first line out, if all of it is there.
    fn whole_line(&mut self) -> Option<std::ops::Range<usize>> {
        let unsearched = self.start + self.searched;
        let found = self.bytes[unsearched..self.end].iter().position(|&byte| byte == b'\n');
        let Some(offset) = found else {
            self.searched = self.end - self.start;
            return None;
        };
        let (start, feed) = (self.start, unsearched + offset);
        (self.start, self.searched) = (feed + 1, 0);
        let has_return = feed > start && self.bytes[feed - 1] == b'\r';
        Some(start..feed - usize::from(has_return))
    }
}
