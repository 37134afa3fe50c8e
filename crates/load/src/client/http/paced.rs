//! Requests of a replay, for many pages. A client takes a reply as fast as its line allows.
//!
//! A recording has no bodies, so a reply is checked for its status and its length.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duality_runtime::net::TcpStream;
use duality_runtime::time;

use super::body::Body;
use super::head::{self, Head, Interim};
use super::reply::end;
use super::{BUFFER_SIZES, Page, Statuses, request};
use crate::failure::Failure;
use crate::request::{Ask, Reply, read_more, send_all};

/// The number of pieces that a slow client takes in a second.
const PIECES: u64 = 20;

/// The least number of bytes that a slow client takes at a time.
const LEAST_PIECE: usize = 64;

/// A page that a replay asks for, with the bytes of its request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    kept: Arc<[u8]>,
    last: Arc<[u8]>,
    expected: Expected,
    /// The correct statuses, if the user names them.
    statuses: Option<Statuses>,
}

/// The reply to a request.
#[derive(Clone, Copy, Debug)]
enum Expected {
    /// A reply with status 200, and a body of this many bytes.
    File(u64),
    /// A reply with a status that begins with this digit, or any status if it is 0.
    Any(u8),
}

impl Asked {
    fn new(host: &str, path: &str, expected: Expected) -> Self {
        let page = &Page { host: host.to_owned(), path: path.to_owned() };
        Self { kept: request(page, true), last: request(page, false), expected, statuses: None }
    }
}

impl Ask for Asked {
    fn file(host: &str, path: &str, length: u64) -> Self {
        Self::new(host, path, Expected::File(length))
    }

    fn page(host: &str, path: &str, status: u8) -> Self {
        Self::new(host, path, Expected::Any(status))
    }

    fn expecting(self, statuses: [u64; 16]) -> Self {
        Self { statuses: Some(Statuses::of_bits(statuses)), ..self }
    }

    async fn send(&self, stream: &mut TcpStream, is_last: bool) -> Result<(), Failure> {
        send_all(stream, if is_last { &self.last } else { &self.kept }).await
    }

    async fn receive(&self, stream: &mut TcpStream, rate: Option<u64>) -> Result<Reply, Failure> {
        // While a client waits for a reply, it uses little memory.
        let mut buffer = vec![0; *BUFFER_SIZES.start()];
        let mut line = Line { rate, received: 0, first: None };
        let (mut filled, mut interim) = (0, Interim::default());
        let head = loop {
            if filled == buffer.len() {
                return Err(Failure::Malformed("the head is longer than the client's buffer"));
            }
            filled += line.take(stream, &mut buffer[filled..]).await?;
            while let Some(head) = Head::parse(&buffer[..filled], head::Asked::Body)?
                && interim.is(&head)?
            {
                buffer.copy_within(head.length..filled, 0);
                filled -= head.length;
            }
            if let Some(head) = Head::parse(&buffer[..filled], head::Asked::Body)? {
                break head;
            }
        };
        let is_named = self.statuses.map(|statuses| statuses.contains(head.status));
        if !is_named.unwrap_or_else(|| self.expected.has_status(head.status)) {
            return Err(Failure::WrongStatus(head.status));
        }
        let (mut body, mut length) = (Body::new(head.framing), 0);
        let mut piece = head.length..filled;
        loop {
            let count = |data: &[u8]| {
                length += data.len() as u64;
                Ok(())
            };
            if body.take(&buffer[piece.clone()], count)? < piece.len() {
                return Err(Failure::Malformed("bytes after the end of the reply"));
            }
            if body.is_complete() {
                break;
            }
            buffer.resize(*BUFFER_SIZES.end(), 0);
            match line.take(stream, &mut buffer).await {
                Ok(count) => piece = 0..count,
                Err(Failure::ClosedEarly { .. }) if body.may_end() => break,
                Err(failure) => return Err(failure),
            }
        }
        let is_other = matches!(self.expected, Expected::File(expected) if expected != length);
        // The page of an error has a length of its own.
        if is_other && head.status == 200 {
            return Err(Failure::WrongBytes("the body is not as long as in the recording"));
        }
        if !body.is_complete() {
            return Ok(Reply { bytes: line.received, open: false, first: line.first });
        }
        end(stream, head.closing, line.received, line.first).await
    }
}

impl Expected {
    /// Whether a reply may have this status. A client of a recording had pages in its cache (304),
    /// and ours has none.
    fn has_status(self, status: u16) -> bool {
        let digit = status / 100;
        match self {
            Self::File(_) => status == 200,
            Self::Any(0) => true,
            Self::Any(2 | 3) => matches!(digit, 2 | 3),
            Self::Any(recorded) => digit == u16::from(recorded),
        }
    }
}

/// The line of a client.
struct Line {
    /// Bytes a second. `None` means no limit.
    rate: Option<u64>,
    received: u64,
    /// When the first bytes had come.
    first: Option<Instant>,
}

impl Line {
    /// Reads the bytes that have come. A slow line takes a piece, and then rests for the time that
    /// the piece takes.
    async fn take(&mut self, stream: &mut TcpStream, buffer: &mut [u8]) -> Result<usize, Failure> {
        let Some(rate) = self.rate else {
            let count = read_more(stream, buffer, self.received).await?;
            self.first.get_or_insert_with(Instant::now);
            self.received += count as u64;
            return Ok(count);
        };
        let piece = usize::try_from(rate / PIECES).unwrap_or(usize::MAX).max(LEAST_PIECE);
        let piece = piece.min(buffer.len());
        let count = read_more(stream, &mut buffer[..piece], self.received).await?;
        self.first.get_or_insert_with(Instant::now);
        self.received += count as u64;
        time::sleep(Duration::from_secs_f64(count as f64 / rate.max(1) as f64)).await;
        Ok(count)
    }
}
