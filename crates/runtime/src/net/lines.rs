//! Lines from a stream, each of bounded length.
//!
//! A line ends with LF; a CR before the LF is not part of the line. Bytes after the last LF are not
//! a line. [`Lines`] gives out the same lines however the network cuts the bytes.

use std::io::{self, ErrorKind};
use std::ops::Range;

use memchr::memchr;

use super::TcpStream;

/// Bytes that are read at a time.
const BUFFER: usize = 4 << 10;

/// The bytes of one connection that have come and have not been given out as lines.
///
/// ```
/// # use duality_runtime as duality;
/// use std::io;
///
/// use duality::net::{Line, Lines, TcpStream};
///
/// /// Greets each name that the client sends, one on a line.
/// async fn greet(mut stream: TcpStream) -> io::Result<()> {
///     let mut lines = Lines::new(100);
///     while let Line::Text(name) = lines.next(&mut stream).await? {
///         let greeting = format!("hello {}\n", String::from_utf8_lossy(name));
///         stream.write_all(greeting.as_bytes()).await?;
///     }
///     Ok(())
/// }
/// # use duality::net::{ListenOptions, TcpListener};
/// # fn main() -> io::Result<()> {
/// # duality::block_on(async {
/// # let any_port = ([127, 0, 0, 1], 0).into();
/// # let mut listener = TcpListener::bind(any_port, &ListenOptions::default())?;
/// # let mut client = TcpStream::connect(listener.local_addr()?).await?;
/// # client.write_all(b"Ada\r\nGrace\n").await?;
/// # client.shutdown(std::net::Shutdown::Write).await?;
/// # let (stream, _) = listener.accept().await?;
/// # greet(stream).await?;
/// # let mut answer = [0; 22];
/// # client.read_exact(&mut answer).await?;
/// # assert_eq!(&answer, b"hello Ada\nhello Grace\n");
/// # Ok(())
/// # })
/// # }
/// ```
#[derive(Debug)]
pub struct Lines {
    bytes: Box<[u8]>,
    /// The bytes not given out yet are those from `start` to `end`.
    start: usize,
    end: usize,
    /// The number of these bytes that are known to contain no LF.
    searched: usize,
    longest: usize,
}

/// What [`Lines::next`] has found.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'b> {
    /// A line, without its end.
    Text(&'b [u8]),
    /// A line longer than the bound. Where the next one begins is unknown: the connection should
    /// end.
    TooLong,
    /// The peer has closed its side, the server is about to stop, or nothing has come for as long
    /// as the stream's read time-out.
    End,
}

/// The beginning of the received bytes. A line is given by its place.
enum Front {
    Text(Range<usize>),
    TooLong,
    Unfinished,
}

impl Lines {
    /// For lines of at most `longest` bytes, without the line ends.
    #[must_use]
    pub fn new(longest: usize) -> Self {
        let bytes = vec![0; BUFFER.max(longest + 2)].into();
        Self { bytes, start: 0, end: 0, searched: 0, longest }
    }

    /// Waits for the next line.
    ///
    /// # Errors
    ///
    /// The errors of [`TcpStream::read`], except its time-out.
    pub async fn next(&mut self, stream: &mut TcpStream) -> io::Result<Line<'_>> {
        loop {
            match self.take() {
                Front::Text(range) => return Ok(Line::Text(&self.bytes[range])),
                Front::TooLong => return Ok(Line::TooLong),
                Front::Unfinished => {}
            }
            if !self.fill(stream).await? {
                return Ok(Line::End);
            }
        }
    }

    /// Waits until something has come, a whole line or a part. False at the end.
    ///
    /// # Errors
    ///
    /// The errors of [`TcpStream::read`], except its time-out.
    pub async fn fill(&mut self, stream: &mut TcpStream) -> io::Result<bool> {
        match stream.read(self.room()).await {
            Ok(count) => {
                self.end += count;
                Ok(count > 0)
            }
            Err(error) if error.kind() == ErrorKind::TimedOut => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether a whole line has come, so that [`next`](Lines::next) will not wait.
    #[must_use]
    pub fn has_whole_line(&self) -> bool {
        self.bytes[self.start + self.searched..self.end].contains(&b'\n')
    }

    /// Takes the first line out, if all of it is there.
    fn take(&mut self) -> Front {
        let unsearched = self.start + self.searched;
        let Some(offset) = memchr(b'\n', &self.bytes[unsearched..self.end]) else {
            self.searched = self.end - self.start;
            // The longest line may still lack its CR and LF, so one byte may be there beyond it.
            let hopeless = self.searched >= self.longest + 2;
            return if hopeless { Front::TooLong } else { Front::Unfinished };
        };
        let (start, feed) = (self.start, unsearched + offset);
        (self.start, self.searched) = (feed + 1, 0);
        let has_return = feed > start && self.bytes[feed - 1] == b'\r';
        let line = start..feed - usize::from(has_return);
        if line.len() > self.longest { Front::TooLong } else { Front::Text(line) }
    }

    /// Room for the next bytes. There is some whenever the front is unfinished.
    fn room(&mut self) -> &mut [u8] {
        self.bytes.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        &mut self.bytes[self.end..]
    }
}

/// The lines that [`Lines`] finds in bytes that come in `pieces`, up to the first overlong line,
/// and whether there was one. For the tests and the fuzz targets.
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub fn given_out(longest: usize, pieces: &[&[u8]]) -> (Vec<Vec<u8>>, bool) {
    let mut lines = Lines::new(longest);
    let mut texts = Vec::new();
    for piece in pieces {
        let mut piece = *piece;
        while !piece.is_empty() {
            let room = lines.room();
            assert!(!room.is_empty());
            let count = room.len().min(piece.len());
            room[..count].copy_from_slice(&piece[..count]);
            lines.end += count;
            piece = &piece[count..];
            loop {
                let announced = lines.has_whole_line();
                match lines.take() {
                    Front::Text(range) => texts.push(lines.bytes[range].to_vec()),
                    Front::TooLong => return (texts, true),
                    Front::Unfinished => break assert!(!announced),
                }
                assert!(announced);
            }
        }
    }
    (texts, false)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LONGEST: usize = 10;

    /// The same result by the definition.
    fn defined(bytes: &[u8]) -> (Vec<Vec<u8>>, bool) {
        let mut texts = Vec::new();
        let mut rest = bytes;
        while let Some(feed) = rest.iter().position(|&byte| byte == b'\n') {
            let line = rest[..feed].strip_suffix(b"\r").unwrap_or(&rest[..feed]);
            if line.len() > LONGEST {
                return (texts, true);
            }
            texts.push(line.to_vec());
            rest = &rest[feed + 1..];
        }
        (texts, rest.len() > LONGEST + 1)
    }

    #[test]
    fn ends_and_bounds() {
        for (bytes, texts, too_long) in [
            ("", vec![], false),
            ("a\n\nb\r\n\r\nc", vec!["a", "", "b", ""], false),
            ("a\rb\n\r\r\n", vec!["a\rb", "\r"], false),
            ("0123456789\n0123456789\r\n", vec!["0123456789", "0123456789"], false),
            ("a\n0123456789+\n", vec!["a"], true),
            ("0123456789\r", vec![], false),
            ("0123456789\r+", vec![], true),
        ] {
            let texts: Vec<_> = texts.into_iter().map(|text| text.as_bytes().to_vec()).collect();
            assert_eq!(given_out(LONGEST, &[bytes.as_bytes()]), (texts, too_long), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn lines_are_the_same_however_the_bytes_are_cut(
            bytes in prop::collection::vec(prop::sample::select(b"ab\r\n".to_vec()), 0..200),
            cuts in prop::collection::vec(0..40usize, 0..40),
        ) {
            let mut pieces = Vec::new();
            let mut rest = bytes.as_slice();
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            pieces.push(rest);
            prop_assert_eq!(given_out(LONGEST, &pieces), defined(&bytes));
        }

        /// The buffer is much longer than the lines, and is used over and over.
        #[test]
        fn long_runs_of_lines_fit_a_buffer(lengths in prop::collection::vec(0..=LONGEST, 0..2000)) {
            let mut bytes = Vec::new();
            for length in &lengths {
                bytes.resize(bytes.len() + length, b'x');
                bytes.push(b'\n');
            }
            let (texts, too_long) = given_out(LONGEST, &[&bytes]);
            prop_assert!(!too_long);
            let found: Vec<usize> = texts.iter().map(Vec::len).collect();
            prop_assert_eq!(found, lengths);
        }
    }
}
