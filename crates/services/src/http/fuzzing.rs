//! The part of http that the fuzz targets drive: its parsers, combined as in
//! [`Http::serve`](super::Http), without a connection.

use duality_runtime::net::Input;

use super::{
    body::{Body, Progress},
    conditional::{Conditions, Validators, Verdict},
    date,
    fields::Framing,
    range,
    request::{self, Parsed},
    target,
};

/// An event of a connection. A refusal is the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The head of a request, as it came, and the parsed request.
    Head {
        /// The bytes up to the empty line.
        bytes: Vec<u8>,
        /// The target as it came.
        target: String,
        /// The bytes of the body; `None` if it is chunked.
        length: Option<u64>,
    },
    /// The result for the body of a request.
    Body(Vec<u8>),
    /// The status that ends the connection.
    Refused(u16),
}

/// The events of a connection with bytes that come in `pieces`, under these bounds on heads and
/// bodies.
///
/// # Panics
///
/// If a head is read differently without the bytes that follow it, or if the buffer has no room.
#[must_use]
pub fn requests(pieces: &[&[u8]], head_limit: usize, body_limit: u64) -> Vec<Heard> {
    let mut input = Input::new(head_limit);
    let mut body = None;
    let mut heard = Vec::new();
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            let room = input.room();
            assert!(!room.is_empty(), "nothing was refused, and there is no room");
            let count = room.len().min(rest.len());
            room[..count].copy_from_slice(&rest[..count]);
            input.filled(count);
            rest = &rest[count..];
            while let Some(next) = hear(&mut input, &mut body, body_limit) {
                let is_last = matches!(next, Heard::Refused(_));
                heard.push(next);
                if is_last {
                    return heard;
                }
            }
        }
    }
    heard
}

/// The next event, if enough bytes have come.
fn hear(input: &mut Input, body: &mut Option<Body>, body_limit: u64) -> Option<Heard> {
    if let Some(reading) = body {
        return match reading.take(input.unused()) {
            Progress::Finished(length) => {
                input.consume(length);
                body.take().map(|body| Heard::Body(body.into_kept()))
            }
            Progress::Malformed => Some(Heard::Refused(400)),
            Progress::TooLong => Some(Heard::Refused(413)),
            Progress::Unfinished => {
                input.consume(input.unused().len());
                None
            }
        };
    }
    match request::parse(input.unused()) {
        Parsed::Complete(request) => {
            let alone = request::parse(request.head);
            assert!(matches!(alone, Parsed::Complete(alone) if alone == request));
            let length = match request.body {
                Framing::Length(length) if length > body_limit => return Some(Heard::Refused(413)),
                Framing::Length(length) => Some(length),
                Framing::Chunked => None,
            };
            let (bytes, target) = (request.head.to_vec(), request.target.to_owned());
            *body = Some(Body::new(request.body, body_limit, Some(body_limit as usize)));
            input.consume(bytes.len());
            Some(Heard::Head { bytes, target, length })
        }
        Parsed::Bad(status) => Some(Heard::Refused(status.code)),
        Parsed::Partial if input.is_full() => {
            Some(Heard::Refused(request::too_long(input.unused()).code))
        }
        Parsed::Partial => None,
    }
}

/// The result for a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The body has not come to its end.
    Unfinished,
    /// The body took so many bytes, and this is its content.
    Finished(usize, Vec<u8>),
    /// The body is malformed, or too long.
    Refused,
}

/// Reads a chunked body that comes in `pieces`: at most `limit` bytes with its framing, and `room`
/// bytes without.
#[must_use]
pub fn chunked(pieces: &[&[u8]], limit: u64, room: usize) -> Ended {
    let mut body = Body::new(Framing::Chunked, limit, Some(room));
    let mut taken = 0;
    for piece in pieces {
        match body.take(piece) {
            Progress::Unfinished => taken += piece.len(),
            Progress::Finished(length) => return Ended::Finished(taken + length, body.into_kept()),
            Progress::Malformed | Progress::TooLong => return Ended::Refused,
        }
    }
    Ended::Unfinished
}

/// The path and the query of a target, and the target to which a directory of that name redirects.
/// The error is the status.
pub fn resolve(target: &str) -> Result<(String, String, String), u16> {
    let resolved = target::resolve(target).map_err(|status| status.code)?;
    let redirect = target::with_slash(&resolved.path, resolved.query);
    Ok((resolved.path.into_owned(), resolved.query.to_owned(), redirect))
}

/// The status of a GET with these header `fields` of a file of `length` bytes. For a part, also its
/// offset and length.
#[must_use]
pub fn judge(
    fields: &[(&str, &[u8])],
    (entity_tag, last_modified, length): (&str, u64, u64),
) -> (u16, Option<(u64, u64)>) {
    let mut conditions = Conditions::default();
    for (name, value) in fields {
        conditions.take(name, value);
    }
    match conditions.judge(true, Validators { entity_tag, last_modified }, length) {
        Verdict::Whole => (200, None),
        Verdict::Part(part) => (206, Some((part.offset, part.length))),
        Verdict::NotModified => (304, None),
        Verdict::PreconditionFailed => (412, None),
        Verdict::RangeNotSatisfiable => (416, None),
    }
}

/// The offset and length of the part that a `Range` names in a file of `total` bytes.
#[must_use]
pub fn range(value: &[u8], total: u64) -> Option<(u64, u64)> {
    match range::parse(value, total) {
        range::Asked::Part(part) => Some((part.offset, part.length)),
        range::Asked::Whole | range::Asked::Nothing => None,
    }
}

/// The date in a text, in seconds since 1 January 1970.
#[must_use]
pub fn date(text: &[u8]) -> Option<u64> {
    date::parse(text)
}

/// The text of a date.
#[must_use]
pub fn written_date(seconds: u64) -> Vec<u8> {
    date::format(seconds).to_vec()
}
