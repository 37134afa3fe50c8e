//! The body of a request (RFC 9112, sections 6 and 7.1): its end and its content, without I/O.
//!
//! ```text
//!          ┌──────── size > 0 ────────┐
//!          v                          │
//!   Data ──> DataEnd ── CR LF ──> Size ── size 0 ──> Trailer ── empty line ──> the end
//!                                  ^ start             └─┘ a field
//! ```
//!
//! Only CR and LF end a line. The content of a line is checked to the last byte, because a lenient
//! decoder lets requests be smuggled.

use super::fields::{Framing, is_on_behalf};
use super::grammar::is_token_byte;

/// Reads a body piece by piece, and keeps the bytes that the page wants.
#[derive(Debug)]
pub struct Body {
    rest: Rest,
    /// The most bytes to keep. `None` if the body is only skipped.
    room: Option<usize>,
    kept: Vec<u8>,
}

/// The rest of the body.
#[derive(Debug)]
enum Rest {
    Length(u64),
    Chunks(Chunks),
}

/// The state of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More bytes must come.
    Unfinished,
    /// The body ended after this many of the given bytes.
    Finished(usize),
    /// The end of the body cannot be found.
    Malformed,
    /// The body is longer than allowed.
    TooLong,
}

impl Body {
    /// A reader of a body of at most `limit` bytes, of which at most `room` are kept. With chunks,
    /// framing counts towards `limit`, and only content towards `room`.
    ///
    /// The caller must compare a declared length with both bounds.
    pub fn new(framing: Framing, limit: u64, room: Option<usize>) -> Self {
        let rest = match framing {
            Framing::Length(length) => Rest::Length(length),
            Framing::Chunked => Rest::Chunks(Chunks::new(limit)),
        };
        Body { rest, room, kept: Vec::new() }
    }

    /// Goes through the next bytes.
    pub fn take(&mut self, bytes: &[u8]) -> Progress {
        match &mut self.rest {
            Rest::Length(left) => {
                let taken =
                    usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                *left -= taken as u64;
                if self.room.is_some() {
                    self.kept.extend_from_slice(&bytes[..taken]);
                }
                if *left == 0 { Progress::Finished(taken) } else { Progress::Unfinished }
            }
            Rest::Chunks(chunks) => chunks.take(bytes, |content| match self.room {
                None => true,
                Some(room) if self.kept.len() + content.len() <= room => {
                    self.kept.extend_from_slice(content);
                    true
                }
                Some(_) => false,
            }),
        }
    }

    /// The kept bytes.
    pub fn into_kept(self) -> Vec<u8> {
        self.kept
    }
}

/// A reader of the chunked coding.
#[derive(Debug)]
pub(crate) struct Chunks {
    part: Part,
    /// The bytes of the unfinished line so far.
    line: Vec<u8>,
    /// The number of bytes of the body that may still come, framing included. So endless extensions
    /// and chunks of one byte count too.
    allowance: u64,
}

/// The next part of the body.
#[derive(Clone, Copy, Debug)]
enum Part {
    Size,
    Data { left: u64 },
    DataEnd,
    Trailer,
}

/// The most bytes in a line of the framing, its end included. Few senders write more than the size.
const LINE: usize = 1 << 10;

impl Chunks {
    /// A reader of at most `limit` bytes, framing included.
    pub(crate) fn new(limit: u64) -> Self {
        Chunks { part: Part::Size, line: Vec::new(), allowance: limit }
    }

    /// Goes through the next bytes, and passes content to `keep` until `keep` refuses it.
    pub(crate) fn take(&mut self, bytes: &[u8], mut keep: impl FnMut(&[u8]) -> bool) -> Progress {
        let mut rest = bytes;
        while !rest.is_empty() {
            let length = match self.part {
                Part::Data { left } => left.min(rest.len() as u64) as usize,
                _ => rest.iter().position(|&byte| byte == b'\n').map_or(rest.len(), |at| at + 1),
            };
            let (piece, tail) = rest.split_at(length);
            rest = tail;
            match self.allowance.checked_sub(piece.len() as u64) {
                Some(allowance) => self.allowance = allowance,
                None => return Progress::TooLong,
            }
            if let Part::Data { left } = &mut self.part {
                if !keep(piece) {
                    return Progress::TooLong;
                }
                *left -= piece.len() as u64;
                if *left == 0 {
                    self.part = Part::DataEnd;
                }
            } else {
                self.line.extend_from_slice(piece);
                match self.line_so_far() {
                    Ok(None) => {}
                    Ok(Some(part)) => self.part = part,
                    Err(Progress::Finished(_)) => {
                        return Progress::Finished(bytes.len() - rest.len());
                    }
                    Err(progress) => return progress,
                }
            }
        }
        Progress::Unfinished
    }

    /// The part after the line, if the line is complete. An error if the body has ended.
    fn line_so_far(&mut self) -> Result<Option<Part>, Progress> {
        if self.line.len() > LINE {
            return Err(Progress::Malformed);
        }
        let Some(line) = self.line.strip_suffix(b"\r\n") else {
            let begun = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
            let possible = !begun.contains(&b'\r')
                && !begun.contains(&b'\n')
                && (begun.is_empty() || !matches!(self.part, Part::DataEnd));
            return if possible { Ok(None) } else { Err(Progress::Malformed) };
        };
        let next = match self.part {
            Part::Size => match chunk_size(line).ok_or(Progress::Malformed)? {
                0 => Part::Trailer,
                left if left > self.allowance => return Err(Progress::TooLong),
                left => Part::Data { left },
            },
            Part::Trailer if line.is_empty() => return Err(Progress::Finished(0)),
            Part::Trailer if is_trailer(line) => Part::Trailer,
            Part::DataEnd if line.is_empty() => Part::Size,
            _ => return Err(Progress::Malformed),
        };
        self.line.clear();
        Ok(Some(next))
    }
}

/// The size at the start of a chunk: hexadecimal digits, and ignored extensions.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
    // A number of 64 bits has at most sixteen digits.
    if !(1..=16).contains(&digits) || !are_extensions(&line[digits..]) {
        return None;
    }
    let append = |size: u64, digit: &u8| {
        char::from(*digit).to_digit(16).map(|digit| size << 4 | u64::from(digit))
    };
    line[..digits].iter().try_fold(0, append)
}

/// Whether this is `*( BWS ";" BWS name [ BWS "=" BWS value ] )`, as in RFC 9112, section 7.1.1.
fn are_extensions(mut text: &[u8]) -> bool {
    while !text.is_empty() {
        let Some(after) = skip_space(text).strip_prefix(b";").map(skip_space).and_then(skip_token)
        else {
            return false;
        };
        text = after;
        if let Some(value) = skip_space(after).strip_prefix(b"=").map(skip_space) {
            let Some(after) = skip_token(value).or_else(|| skip_quoted(value)) else {
                return false;
            };
            text = after;
        }
    }
    true
}

fn skip_space(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| !matches!(byte, b' ' | b'\t')).unwrap_or(text.len());
    &text[end..]
}

/// The bytes after a token. `None` if there is no token.
fn skip_token(text: &[u8]) -> Option<&[u8]> {
    let end = text.iter().position(|&byte| !is_token_byte(byte)).unwrap_or(text.len());
    if end == 0 { None } else { Some(&text[end..]) }
}

/// The bytes after a quoted string. `None` if there is no string.
fn skip_quoted(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text.strip_prefix(b"\"")?;
    loop {
        rest = match rest {
            [b'"', after @ ..] => return Some(after),
            [b'\\', escaped, after @ ..] if is_text(*escaped) => after,
            [byte, after @ ..] if is_text(*byte) && *byte != b'\\' => after,
            _ => return None,
        };
    }
}

/// Names that no field of a trailer may have, beside those of [`is_on_behalf`]. Such fields
/// describe framing, sender, destination or content (RFC 9110, section 6.5.1). Some implementations
/// add the trailer to the head. Those implementations would read a different request.
const NOT_IN_TRAILERS: [&str; 16] = [
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "cookie",
    "expect",
    "host",
    "keep-alive",
    "max-forwards",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Whether a line is a header field that may stand in a trailer. Trailers are ignored. But a
/// decoder that accepts any line as a trailer could swallow the next request.
fn is_trailer(line: &[u8]) -> bool {
    let Some(rest) = skip_token(line) else {
        return false;
    };
    let name = &line[..line.len() - rest.len()];
    let is_allowed =
        !NOT_IN_TRAILERS.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
            && !is_on_behalf(name);
    let value = rest.strip_prefix(b":");
    is_allowed && value.is_some_and(|value| value.iter().copied().all(is_text))
}

/// Whether RFC 9110 lets a byte stand in a field's value.
fn is_text(byte: u8) -> bool {
    byte == b'\t' || byte >= b' ' && byte != 127
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BODY: &str =
        "4\r\nWiki\r\n00B ; name = \"va\\\"lue\";x\r\npedia in \r\n\r\n0\r\nExpires: 0\r\n\r\n";
    const CONTENT: &[u8] = b"Wikipedia in \r\n";

    fn chunked(limit: u64, room: Option<usize>) -> Body {
        Body::new(Framing::Chunked, limit, room)
    }

    #[test]
    fn a_body_ends_where_it_ends() {
        let followed = format!("{BODY}GET / HTTP/1.1");
        let mut body = chunked(100, Some(100));
        assert_eq!(body.take(followed.as_bytes()), Progress::Finished(BODY.len()));
        assert_eq!(body.into_kept(), CONTENT);
        let mut skipped = chunked(100, None);
        assert_eq!(skipped.take(b"0\r\n\r\n"), Progress::Finished(5));
        assert_eq!(skipped.into_kept(), b"");
    }

    #[test]
    fn a_declared_length_is_counted_down() {
        let mut body = Body::new(Framing::Length(5), 100, Some(5));
        assert_eq!(body.take(b"abc"), Progress::Unfinished);
        assert_eq!(body.take(b""), Progress::Unfinished);
        assert_eq!(body.take(b"deGET"), Progress::Finished(2));
        assert_eq!(body.into_kept(), b"abcde");
    }

    #[test]
    fn what_is_malformed_is_refused() {
        for body in [
            "\r\n",
            ";\r\n",
            "g\r\n",
            "-1\r\n",
            "+1\r\n",
            " 1\r\n",
            "0x1\r\n",
            "1_0\r\n",
            "1\n",
            "1\r\r",
            "1\ra\r\n",
            "1\r\nab",
            "1\r\na\n",
            "1\r\na\rb",
            "1 \r\n",
            "1;\r\n",
            "1;a[=b\r\n",
            "1;a=\r\n",
            "1;a=\"b\r\n",
            "1;a b\r\n",
            "1;\0\r\n",
            "1;a\n",
            "0\r\nA: b\n",
            "0\r\nA : b\r\n",
            "0\r\nGET / HTTP/1.1\r\n",
            "0\r\n A: b\r\n",
            "0\r\n: b\r\n",
            "0\r\nA: \0\r\n",
            "0\r\n\r\r",
            "11111111111111111\r\n",
        ] {
            assert_eq!(chunked(1000, None).take(body.as_bytes()), Progress::Malformed, "{body:?}");
        }
        let extension = format!("1;{}", "x".repeat(LINE));
        assert_eq!(chunked(10_000, None).take(extension.as_bytes()), Progress::Malformed);
    }

    #[test]
    fn what_is_too_long_is_refused() {
        // The reader refuses the chunk as soon as its size is announced.
        assert_eq!(chunked(100, None).take(b"65\r\n"), Progress::TooLong);
        assert_eq!(chunked(1000, None).take(b"ffffffffffffffff\r\n"), Progress::TooLong);
        assert_eq!(chunked(9, None).take(b"0;xxxxxxxxxxxxxxxxxxxx"), Progress::TooLong);
        assert_eq!(chunked(100, Some(4)).take(b"5\r\nhello\r\n"), Progress::TooLong);
        assert_eq!(chunked(100, Some(4)).take(b"4\r\nhell\r\n1\r\no\r\n"), Progress::TooLong);
        assert_eq!(chunked(30, None).take("1\r\na\r\n".repeat(6).as_bytes()), Progress::TooLong);
    }

    proptest! {
        #[test]
        fn it_makes_no_difference_how_a_body_is_cut(
            first in 0..BODY.len(),
            second in 0..BODY.len(),
        ) {
            let (first, second) = (first.min(second), first.max(second));
            let mut body = chunked(100, Some(CONTENT.len()));
            let bytes = BODY.as_bytes();
            prop_assert_eq!(body.take(&bytes[..first]), Progress::Unfinished);
            prop_assert_eq!(body.take(&bytes[first..second]), Progress::Unfinished);
            prop_assert_eq!(body.take(&bytes[second..]), Progress::Finished(BODY.len() - second));
            prop_assert_eq!(body.into_kept(), CONTENT);
        }

        #[test]
        fn any_bytes_are_read(text in "[0-9a-f;=\"\\\\\r\n x:\0]{0,60}") {
            let mut body = chunked(1000, Some(1000));
            if let Progress::Finished(length) = body.take(text.as_bytes()) {
                prop_assert!(length <= text.len());
                prop_assert!(text[..length].ends_with("\r\n\r\n"));
            }
        }
    }
}
