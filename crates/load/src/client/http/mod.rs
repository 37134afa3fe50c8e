//! The client of `http`: GET one path, and compare the reply with the first one.
//!
//! ```text
//!   write the request ▶ read ▶ head as it was last time, whole reply here? ─yes─▶ compare the body
//!                        ▲                 │ no
//!                        │                 ▼
//!                        └──more─── parse the head, check the status,
//!                                   take the body out of its framing and compare it as it arrives
//! ```
//!
//! A reply needs no check if its head is byte for byte the last one that was checked. That is the
//! steady path: one write, one read, two comparisons. `Date` changes once a second, and then the
//! head is parsed once again.

mod body;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod head;

use std::sync::Arc;

use duality_runtime::net::TcpStream;

use self::body::Body;
use self::head::{Framing, Interim};
pub(super) use self::head::{Head, header};
use super::{Entry, Protocol};
use crate::announce::EdgeAnnouncer;
use crate::crowd::Question;
use crate::engine::{Engine, Loading};
use crate::failure::Failure;
use crate::pattern;
use crate::request::{Client, Reply, expect_end, read_more, send_all};

/// Bounds of the read buffer of a connection: a head must fit into it, a body need not.
const BUFFER_SIZES: std::ops::RangeInclusive<usize> = 4 * 1024..=64 * 1024;

/// The longest body that a client learns from the probe.
const LONGEST_BODY: usize = 1 << 30;

pub(crate) static ENTRY: Entry =
    Entry { page: Some("/"), port: Some(80), ..Entry::plain("http", |page| Arc::new(page)) };

/// A resource of an HTTP/1.1 server. A load of `http` GETs it, again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The value of the `Host` header: the authority of the URL as written.
    pub host: String,
    /// The request target: an absolute path, with a query if there is one.
    pub path: String,
}

impl Protocol for Page {
    fn service(&self) -> &'static str {
        ENTRY.name
    }

    fn page(&self) -> Option<&Page> {
        Some(self)
    }

    fn question(&self) -> Option<Question> {
        Some(question(self))
    }

    fn load<'a>(&'a self, engine: &'a Engine, edges: EdgeAnnouncer) -> Loading<'a> {
        Box::pin(pattern::load(engine, Http::new(self, engine.options.keep_alive), edges))
    }
}

/// The client of `http` on one connection.
struct Http {
    request: Arc<[u8]>,
    /// The only correct body: that of the reply from which it was learnt.
    reference: Arc<[u8]>,
    buffer: Box<[u8]>,
    known: KnownReply,
}

/// The last reply that was checked in full and was in the buffer as a whole.
#[derive(Default)]
struct KnownReply {
    head: Vec<u8>,
    /// Bytes of head and body; `None` when no reply is known.
    length: Option<usize>,
    closing: bool,
}

impl Http {
    /// A client that does not know the correct body yet; see [`learn`](Client::learn).
    fn new(page: &Page, keep_alive: bool) -> Self {
        Self {
            request: request(page, keep_alive),
            reference: Arc::default(),
            buffer: vec![0; *BUFFER_SIZES.end()].into(),
            known: KnownReply::default(),
        }
    }
}

impl Client for Http {
    async fn learn(&mut self, stream: &mut TcpStream) -> Result<(), Failure> {
        let mut body = Vec::new();
        let collect = |data: &[u8]| {
            if body.len() + data.len() > LONGEST_BODY {
                return Err(Failure::Malformed("the body is longer than 1 GiB"));
            }
            body.extend_from_slice(data);
            Ok(())
        };
        self.send(stream).await?;
        let known = &mut self.known;
        let check = |head: &Head, bytes: &[u8]| check_head(head, bytes, known);
        let reply = read_reply(stream, &mut self.buffer, 0, check, collect).await?;
        self.reference = body.into();
        // Room for the whole reply with a longer head, and for an excess byte, in one read.
        let fitting = usize::try_from(reply.bytes).unwrap_or(usize::MAX).saturating_add(1024);
        self.buffer = vec![0; fitting.clamp(*BUFFER_SIZES.start(), *BUFFER_SIZES.end())].into();
        Ok(())
    }

    async fn send(&mut self, stream: &mut TcpStream) -> Result<(), Failure> {
        send_all(stream, &self.request).await
    }

    async fn receive(&mut self, stream: &mut TcpStream) -> Result<Reply, Failure> {
        let filled = read_more(stream, &mut self.buffer, 0).await?;
        if let Some(body) = self.known.body_of(&self.buffer[..filled]) {
            if *body != *self.reference {
                return Err(Failure::WrongBytes("the body is not the one of the first reply"));
            }
            return finish(stream, self.known.closing, filled as u64).await;
        }
        let reference = self.reference.clone();
        let mut position = 0;
        let compare = |data: &[u8]| {
            let end = position + data.len();
            if reference.get(position..end) != Some(data) {
                return Err(Failure::WrongBytes("the body is not the one of the first reply"));
            }
            position = end;
            Ok(())
        };
        let known = &mut self.known;
        let check = |head: &Head, bytes: &[u8]| check_head(head, bytes, known);
        let checked = read_reply(stream, &mut self.buffer, filled, check, compare).await;
        let whole = position == reference.len();
        match checked {
            Ok(_) if !whole => {
                Err(Failure::WrongBytes("the body is shorter than the one of the first reply"))
            }
            other => other,
        }
        .inspect_err(|_| self.known = KnownReply::default())
    }
}

impl Clone for Http {
    fn clone(&self) -> Self {
        Self {
            request: self.request.clone(),
            reference: self.reference.clone(),
            buffer: vec![0; self.buffer.len()].into(),
            known: KnownReply::default(),
        }
    }
}

impl KnownReply {
    /// Remembers the head at the start of `bytes`, and the length of the reply if the head declares
    /// it.
    fn learn(&mut self, head: &Head, bytes: &[u8]) {
        self.length = None;
        if let Framing::Length(body) = head.framing
            && let Ok(body) = usize::try_from(body)
        {
            self.head.clear();
            self.head.extend_from_slice(&bytes[..head.length]);
            self.length = head.length.checked_add(body);
            self.closing = head.closing;
        }
    }

    /// The body of a reply with the same head, if `bytes` are the whole reply.
    fn body_of<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        if self.length != Some(bytes.len()) {
            return None;
        }
        bytes.strip_prefix(&*self.head)
    }
}

/// Reads a reply. Its first `filled` bytes are in `buffer`. Passes the head and the bytes that came
/// with it to `check`, and the body to `sink`. Skips interim replies.
pub(super) async fn read_reply(
    stream: &mut TcpStream,
    buffer: &mut [u8],
    mut filled: usize,
    check: impl FnOnce(&Head, &[u8]) -> Result<(), Failure> + Send,
    mut sink: impl FnMut(&[u8]) -> Result<(), Failure> + Send,
) -> Result<Reply, Failure> {
    let (mut interim, mut skipped) = (Interim::default(), 0);
    let head = loop {
        if let Some(head) = Head::parse(&buffer[..filled])? {
            if !interim.is(&head)? {
                break head;
            }
            buffer.copy_within(head.length..filled, 0);
            filled -= head.length;
            skipped += head.length as u64;
            continue;
        }
        if filled == buffer.len() {
            return Err(Failure::Malformed("the head is longer than the client's buffer"));
        }
        filled += read_more(stream, &mut buffer[filled..], skipped + filled as u64).await?;
    };
    check(&head, &buffer[..filled])?;
    let mut received = skipped + filled as u64;
    let mut body = Body::new(head.framing);
    let mut piece = head.length..filled;
    loop {
        let taken = body.take(&buffer[piece.clone()], &mut sink)?;
        if taken < piece.len() {
            return Err(Failure::Malformed("bytes after the end of the reply"));
        }
        if body.is_complete() {
            break;
        }
        match read_more(stream, buffer, received).await {
            Ok(count) => {
                received += count as u64;
                piece = 0..count;
            }
            Err(Failure::ClosedEarly { .. }) if body.may_end() => {
                return Ok(Reply { bytes: received, open: false });
            }
            Err(failure) => return Err(failure),
        }
    }
    finish(stream, head.closing, received).await
}

/// The crowd's request for a page.
pub(super) fn question(page: &Page) -> Question {
    Question::new(request(page, true), |stream| Box::pin(take_page(stream)))
}

/// Reads a reply. Its status must be 200; its body is not compared.
async fn take_page(stream: &mut TcpStream) -> Result<Reply, Failure> {
    let mut buffer = vec![0; *BUFFER_SIZES.end()];
    let check = |head: &Head, _: &[u8]| match head.status {
        200 => Ok(()),
        status => Err(Failure::WrongStatus(status)),
    };
    read_reply(stream, &mut buffer, 0, check, |_| Ok(())).await
}

/// Ends a correct reply. If the server closes the connection, the reply ends only then.
async fn finish(stream: &mut TcpStream, closing: bool, received: u64) -> Result<Reply, Failure> {
    if closing {
        expect_end(stream).await?;
    }
    Ok(Reply { bytes: received, open: !closing })
}

/// Remembers a correct head.
fn check_head(head: &Head, bytes: &[u8], known: &mut KnownReply) -> Result<(), Failure> {
    if head.status != 200 {
        return Err(Failure::WrongStatus(head.status));
    }
    known.learn(head, bytes);
    Ok(())
}

/// The request for a page.
pub(super) fn request(page: &Page, keep_alive: bool) -> Arc<[u8]> {
    let Page { host, path } = page;
    let connection = if keep_alive { "" } else { "Connection: close\r\n" };
    let text = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: duality-load\r\n{connection}\r\n"
    );
    text.into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody";

    fn known() -> KnownReply {
        let mut known = KnownReply::default();
        known.learn(&Head::parse(REPLY).unwrap().unwrap(), REPLY);
        known
    }

    #[test]
    fn the_same_head_gives_the_body() {
        assert_eq!(known().body_of(REPLY), Some(&b"body"[..]));
    }

    #[test]
    fn any_other_head_or_length_is_unknown() {
        for (index, _) in REPLY.iter().enumerate().take(REPLY.len() - 4) {
            let mut other = REPLY.to_vec();
            other[index] ^= 1;
            assert_eq!(known().body_of(&other), None, "{index}");
        }
        assert_eq!(known().body_of(&REPLY[..REPLY.len() - 1]), None);
        assert_eq!(known().body_of(&[REPLY, b"x"].concat()), None);
        assert_eq!(known().body_of(b""), None);
        assert_eq!(KnownReply::default().body_of(b""), None);
    }

    #[test]
    fn a_reply_without_a_length_is_not_remembered() {
        let mut known = known();
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        known.learn(&Head::parse(chunked).unwrap().unwrap(), chunked);
        assert_eq!(known.body_of(REPLY), None);
    }

    #[test]
    fn the_request_says_when_it_is_the_last() {
        let page = Page { host: "127.0.0.1".to_owned(), path: "/x?y".to_owned() };
        let text = |keep_alive| String::from_utf8(request(&page, keep_alive).to_vec()).unwrap();
        assert!(text(true).starts_with("GET /x?y HTTP/1.1\r\nHost: 127.0.0.1\r\n"));
        assert!(text(true).ends_with("\r\n\r\n") && !text(true).contains("Connection"));
        assert!(text(false).ends_with("Connection: close\r\n\r\n"));
    }
}
