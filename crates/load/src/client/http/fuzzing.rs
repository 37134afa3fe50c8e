//! The parts of the client of `http` that fuzz targets drive. The parts read a server's bytes like
//! `read_reply`, without a connection.

use super::body::Body;
use super::head::{Asked, Framing, Head, Interim, header};
use super::reply::KnownReply;

/// A reply as the client understands it.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    /// The number of bytes of its head.
    pub head: usize,
    /// The status.
    pub status: u16,
    /// The value of its `Location`.
    pub location: Option<Vec<u8>>,
    /// The bytes of its body so far.
    pub content: Vec<u8>,
    /// Whether the body is complete.
    pub is_complete: bool,
    /// Whether the body is complete if the connection ends here.
    pub may_end: bool,
    /// The number of bytes taken.
    pub taken: usize,
}

/// The reply if its bytes come in `pieces`: `None` if its head is not complete.
///
/// # Errors
///
/// The reply is malformed.
///
/// # Panics
///
/// If a remembered reply is not recalled unchanged.
pub fn reply(pieces: &[&[u8]]) -> Result<Option<Reply>, ()> {
    let mut buffer = Vec::new();
    let (mut interim, mut skipped) = (Interim::default(), 0);
    let mut reading: Option<(Reply, Body)> = None;
    for piece in pieces {
        buffer.extend_from_slice(piece);
        let mut rest = *piece;
        if reading.is_none() {
            let head = loop {
                match Head::parse(&buffer, Asked::Body).map_err(|_| ())? {
                    Some(head) if interim.is(&head).map_err(|_| ())? => {
                        skipped += head.length;
                        buffer.drain(..head.length);
                    }
                    other => break other,
                }
            };
            let Some(head) = head else { continue };
            recall(&head, &buffer);
            rest = &buffer[head.length..];
            let body = Body::new(head.framing);
            let mut reply = started(&head, &buffer);
            reply.head += skipped;
            reply.taken += skipped;
            reading = Some((reply, body));
        }
        if let Some((reply, body)) = &mut reading {
            let collect = |data: &[u8]| {
                reply.content.extend_from_slice(data);
                Ok(())
            };
            reply.taken += body.take(rest, collect).map_err(|_| ())?;
            (reply.is_complete, reply.may_end) = (body.is_complete(), body.may_end());
        }
    }
    Ok(reading.map(|(reply, _)| reply))
}

fn started(head: &Head, bytes: &[u8]) -> Reply {
    Reply {
        head: head.length,
        status: head.status,
        location: header(&bytes[..head.length], "location").map(<[u8]>::to_vec),
        content: Vec::new(),
        is_complete: false,
        may_end: false,
        taken: head.length,
    }
}

/// Uses the short path for a reply that repeats the last one.
fn recall(head: &Head, bytes: &[u8]) {
    let mut known = KnownReply::default();
    known.learn(head, Asked::Body, bytes);
    if let Framing::Length(length) = head.framing
        && let Some(end) =
            usize::try_from(length).ok().and_then(|body| body.checked_add(head.length))
        && let Some(whole) = bytes.get(..end)
    {
        assert_eq!(known.body_of(whole, Asked::Body), Some(&bytes[head.length..end]));
    }
}

/// The body in a chunked reply, and the number of bytes taken. `None` if the reply is malformed or
/// not complete.
#[must_use]
pub fn chunked(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut content = Vec::new();
    let mut body = Body::new(Framing::Chunked);
    let collect = |data: &[u8]| {
        content.extend_from_slice(data);
        Ok(())
    };
    let taken = body.take(bytes, collect).ok()?;
    body.is_complete().then_some((content, taken))
}
