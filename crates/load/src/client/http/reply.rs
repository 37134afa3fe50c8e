//! A reply of http, read from a connection: its head, its body, and how its parts arrived.
//!
//! A reply needs no parsing if its head is byte for byte the last checked one: see [`KnownReply`].

use std::ops::Range;
use std::time::{Duration, Instant};

use duality_runtime::net::TcpStream;

use super::body::Body;
use super::head::{Asked, Framing, Head, Interim};
use crate::failure::Failure;
use crate::request::{Reply, expect_end, read_more};

/// How late a delayed acknowledgement may be: the kernel waits for 40 ms (`TCP_DELACK_MIN`), and
/// wakes a little later.
const DELAYED_ACK: Range<Duration> = Duration::from_millis(38)..Duration::from_millis(60);

/// The last reply that was checked completely and was in the buffer as a whole.
#[derive(Default)]
pub(super) struct KnownReply {
    head: Vec<u8>,
    /// The numbers of bytes of head and body. `None` if no reply is known.
    length: Option<usize>,
    pub(super) status: u16,
    pub(super) closing: bool,
    is_to_head: bool,
}

impl KnownReply {
    /// Remembers the head at the start of `bytes`, and the length of the reply if the head declares
    /// it.
    pub(super) fn learn(&mut self, head: &Head, asked: Asked, bytes: &[u8]) {
        self.length = None;
        if let Framing::Length(body) = head.framing
            && let Ok(body) = usize::try_from(body)
        {
            self.head.clear();
            self.head.extend_from_slice(&bytes[..head.length]);
            self.length = head.length.checked_add(body);
            (self.status, self.closing) = (head.status, head.closing);
            self.is_to_head = asked == Asked::Head;
        }
    }

    /// Forgets the known reply.
    pub(super) fn forget(&mut self) {
        self.length = None;
    }

    /// The body of a reply with the same head, if `bytes` are the whole reply.
    #[inline]
    pub(super) fn body_of<'a>(&self, bytes: &'a [u8], asked: Asked) -> Option<&'a [u8]> {
        if self.length != Some(bytes.len()) || self.is_to_head != (asked == Asked::Head) {
            return None;
        }
        bytes.strip_prefix(&*self.head)
    }
}

/// A reply after its head has been read. The bytes that came with the head are in the buffer.
pub(super) struct Begun {
    pub(super) head: Head,
    /// The number of bytes in the buffer, from the first byte of the head on.
    pub(super) filled: usize,
    /// The bytes of interim replies before the head.
    skipped: u64,
    /// As in [`Reply`].
    first: Option<Instant>,
    /// The longest wait between two parts of the reply.
    pub(super) longest_wait: Duration,
}

/// Reads the head of a reply, and the bytes that come with it. The first `filled` bytes of the
/// reply are in `buffer`. Skips interim replies.
pub(super) async fn read_head(
    stream: &mut TcpStream,
    buffer: &mut [u8],
    mut filled: usize,
    asked: Asked,
) -> Result<Begun, Failure> {
    let (mut interim, mut skipped) = (Interim::default(), 0);
    let (mut longest_wait, mut first) = (Duration::ZERO, None);
    loop {
        if let Some(head) = Head::parse(&buffer[..filled], asked)? {
            if !interim.is(&head)? {
                return Ok(Begun { head, filled, skipped, first, longest_wait });
            }
            buffer.copy_within(head.length..filled, 0);
            filled -= head.length;
            skipped += head.length as u64;
            continue;
        }
        if filled == buffer.len() {
            return Err(Failure::Malformed("the head is longer than the client's buffer"));
        }
        let received = skipped + filled as u64;
        let begun = Instant::now();
        if received > skipped {
            first.get_or_insert(begun);
        }
        filled += read_more(stream, &mut buffer[filled..], received).await?;
        // Before the first byte, and after an interim reply, the server may take time.
        if received > skipped {
            longest_wait = longest_wait.max(begun.elapsed());
        }
    }
}

impl Begun {
    /// Reads the rest of the reply to its last byte, and passes the body to `sink`.
    pub(super) async fn finish(
        mut self,
        stream: &mut TcpStream,
        buffer: &mut [u8],
        mut sink: impl FnMut(&[u8]) -> Result<(), Failure> + Send,
    ) -> Result<Whole, Failure> {
        let mut received = self.skipped + self.filled as u64;
        let mut body = Body::new(self.head.framing);
        let mut piece = self.head.length..self.filled;
        loop {
            let taken = body.take(&buffer[piece.clone()], &mut sink)?;
            if taken < piece.len() {
                return Err(Failure::Malformed("bytes after the end of the reply"));
            }
            if body.is_complete() {
                break;
            }
            let begun = Instant::now();
            self.first.get_or_insert(begun);
            match read_more(stream, buffer, received).await {
                Ok(count) => {
                    received += count as u64;
                    piece = 0..count;
                    self.longest_wait = self.longest_wait.max(begun.elapsed());
                }
                Err(Failure::ClosedEarly { .. }) if body.may_end() => {
                    return Ok(self.whole(Reply {
                        bytes: received,
                        open: false,
                        first: self.first,
                    }));
                }
                Err(failure) => return Err(failure),
            }
        }
        let reply = end(stream, self.head.closing, received, self.first).await?;
        Ok(self.whole(reply))
    }

    fn whole(&self, reply: Reply) -> Whole {
        Whole { reply, is_held_up: is_held_up(self.longest_wait) }
    }
}

/// A reply that has been read to its end.
pub(super) struct Whole {
    pub(super) reply: Reply,
    /// Whether the parts came as far apart as a delayed acknowledgement is late.
    pub(super) is_held_up: bool,
}

/// Whether a wait between two parts of a reply is due to a delayed acknowledgement.
fn is_held_up(wait: Duration) -> bool {
    DELAYED_ACK.contains(&wait)
}

/// Reads a reply. The first `filled` bytes of the reply are in `buffer`. Passes the head and the
/// bytes that came with it to `check`, and the body to `sink`. Skips interim replies.
pub(in crate::client) async fn read_reply(
    stream: &mut TcpStream,
    buffer: &mut [u8],
    filled: usize,
    check: impl FnOnce(&Head, &[u8]) -> Result<(), Failure> + Send,
    sink: impl FnMut(&[u8]) -> Result<(), Failure> + Send,
) -> Result<Reply, Failure> {
    let begun = read_head(stream, buffer, filled, Asked::Body).await?;
    check(&begun.head, &buffer[..begun.filled])?;
    Ok(begun.finish(stream, buffer, sink).await?.reply)
}

/// Ends a correct reply, with what is known of its `first` byte. If the server closes the
/// connection, the reply ends with the close.
pub(super) async fn end(
    stream: &mut TcpStream,
    closing: bool,
    received: u64,
    mut first: Option<Instant>,
) -> Result<Reply, Failure> {
    if closing {
        first.get_or_insert_with(Instant::now);
        expect_end(stream).await?;
    }
    Ok(Reply { bytes: received, open: !closing, first })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody";

    fn learnt(reply: &[u8], asked: Asked) -> KnownReply {
        let mut known = KnownReply::default();
        known.learn(&Head::parse(reply, asked).unwrap().unwrap(), asked, reply);
        known
    }

    #[test]
    fn the_same_head_gives_the_body() {
        let known = learnt(REPLY, Asked::Body);
        assert_eq!(known.body_of(REPLY, Asked::Body), Some(&b"body"[..]));
        assert_eq!(known.status, 200);
    }

    #[test]
    fn any_other_head_or_length_is_unknown() {
        let known = learnt(REPLY, Asked::Body);
        let body_of = |bytes: &[u8]| known.body_of(bytes, Asked::Body).is_some();
        for (index, _) in REPLY.iter().enumerate().take(REPLY.len() - 4) {
            let mut other = REPLY.to_vec();
            other[index] ^= 1;
            assert!(!body_of(&other), "{index}");
        }
        assert!(!body_of(&REPLY[..REPLY.len() - 1]));
        assert!(!body_of(&[REPLY, b"x"].concat()));
        assert!(!body_of(b""));
        assert_eq!(KnownReply::default().body_of(b"", Asked::Body), None);
    }

    #[test]
    fn the_head_alone_is_a_reply_to_head_only() {
        let head = &REPLY[..REPLY.len() - 4];
        let known = learnt(head, Asked::Head);
        assert_eq!(known.body_of(head, Asked::Head), Some(&b""[..]));
        assert_eq!(known.body_of(head, Asked::Body), None);
        assert_eq!(learnt(REPLY, Asked::Body).body_of(head, Asked::Head), None);
    }

    #[test]
    fn a_reply_without_a_length_is_not_remembered() {
        let mut known = learnt(REPLY, Asked::Body);
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let head = Head::parse(chunked, Asked::Body).unwrap().unwrap();
        known.learn(&head, Asked::Body, chunked);
        assert_eq!(known.body_of(REPLY, Asked::Body), None);
        let mut known = learnt(REPLY, Asked::Body);
        known.forget();
        assert_eq!(known.body_of(REPLY, Asked::Body), None);
    }

    #[test]
    fn only_the_wait_of_a_delayed_acknowledgement_is_one() {
        for (milliseconds, expected) in
            [(0, false), (37, false), (40, true), (44, true), (60, false), (200, false)]
        {
            assert_eq!(is_held_up(Duration::from_millis(milliseconds)), expected);
        }
    }
}
