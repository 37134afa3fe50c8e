//! The body of an HTTP reply, extracted from the pieces in which the connection's bytes arrive.

use super::head::Framing;
use crate::failure::Failure;

/// The decoder's place in a body.
#[derive(Debug)]
pub(super) struct Body {
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The number of remaining bytes.
    Length(u64),
    UntilEnd,
    /// The decoder is in the size of a chunk. This is its value so far; `None` before the first
    /// digit.
    Size(Option<u64>),
    /// The decoder is in the extensions after the size.
    Extension(u64),
    /// The number of remaining bytes of the chunk.
    Chunk(u64),
    /// The decoder is before the line end that follows a chunk.
    ChunkEnd,
    /// The decoder is in the lines after the last chunk. True at the beginning of a line.
    Trailer(bool),
    Complete,
}

impl Body {
    pub(super) fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::Length(0) => State::Complete,
            Framing::Length(length) => State::Length(length),
            Framing::UntilEnd => State::UntilEnd,
            Framing::Chunked => State::Size(None),
        };
        Self { state }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.state == State::Complete
    }

    /// Whether the end of the connection is the end of the body.
    pub(super) fn may_end(&self) -> bool {
        matches!(self.state, State::UntilEnd | State::Complete)
    }

    /// Takes the next bytes of the connection, and passes the body's bytes to `sink`. Returns the
    /// number of bytes taken: all bytes, unless the body ends before the last.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        mut sink: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<usize, Failure> {
        let mut taken = 0;
        while taken < bytes.len() && self.state != State::Complete {
            let rest = &bytes[taken..];
            let data = match self.state {
                State::Length(left) | State::Chunk(left) => {
                    rest.len().min(usize::try_from(left).unwrap_or(usize::MAX))
                }
                State::UntilEnd => rest.len(),
                _ => 0,
            };
            if data > 0 {
                sink(&rest[..data])?;
            }
            self.state = match self.state {
                State::Length(left) if left == data as u64 => State::Complete,
                State::Length(left) => State::Length(left - data as u64),
                State::Chunk(left) if left == data as u64 => State::ChunkEnd,
                State::Chunk(left) => State::Chunk(left - data as u64),
                State::UntilEnd => State::UntilEnd,
                marker => after_byte(marker, rest[0])?,
            };
            taken += data.max(1);
        }
        Ok(taken)
    }
}

/// The state after one byte of the framing around chunks (RFC 9112, section 7.1).
fn after_byte(state: State, byte: u8) -> Result<State, Failure> {
    const WRONG_SIZE: Failure = Failure::Malformed("the size of a chunk is no number");
    Ok(match (state, byte) {
        (State::Size(Some(size)), b'\r' | b';' | b' ' | b'\t') => State::Extension(size),
        (State::Size(Some(size)) | State::Extension(size), b'\n') => match size {
            0 => State::Trailer(true),
            size => State::Chunk(size),
        },
        (State::Extension(size), _) => State::Extension(size),
        (State::Size(size), byte) => {
            let digit = char::from(byte).to_digit(16).ok_or(WRONG_SIZE)?;
            let shifted = size.unwrap_or(0).checked_mul(16).ok_or(WRONG_SIZE)?;
            State::Size(Some(shifted + u64::from(digit)))
        }
        (State::ChunkEnd, b'\r') => State::ChunkEnd,
        (State::ChunkEnd, b'\n') => State::Size(None),
        (State::ChunkEnd, _) => return Err(Failure::Malformed("a chunk is longer than its size")),
        (State::Trailer(true), b'\n') => State::Complete,
        (State::Trailer(_), b'\n') => State::Trailer(true),
        (State::Trailer(beginning), b'\r') => State::Trailer(beginning),
        (State::Trailer(_), _) => State::Trailer(false),
        (other, _) => other,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The body within `bytes` when they arrive `step` at a time, and the number of bytes taken.
    fn decode(
        framing: Framing,
        bytes: &[u8],
        step: usize,
    ) -> Result<(Vec<u8>, usize, Body), Failure> {
        let (mut body, mut found, mut taken) = (Body::new(framing), Vec::new(), 0);
        for piece in bytes.chunks(step) {
            taken += body.take(piece, |data| {
                found.extend_from_slice(data);
                Ok(())
            })?;
        }
        Ok((found, taken, body))
    }

    #[test]
    fn a_length_ends_where_it_says() {
        for step in 1..8 {
            let (found, taken, body) = decode(Framing::Length(4), b"bodymore", step).unwrap();
            assert_eq!((&found[..], taken, body.is_complete()), (&b"body"[..], 4, true));
        }
        assert!(Body::new(Framing::Length(0)).is_complete());
        let (_, _, body) = decode(Framing::Length(4), b"bod", 3).unwrap();
        assert!(!body.is_complete() && !body.may_end());
    }

    #[test]
    fn without_a_length_the_end_is_the_end() {
        let (found, taken, body) = decode(Framing::UntilEnd, b"body", 3).unwrap();
        assert_eq!(
            (&found[..], taken, body.is_complete(), body.may_end()),
            (&b"body"[..], 4, false, true)
        );
    }

    #[test]
    fn chunks_are_joined() {
        let text = b"3\r\nabc\r\n0A ;name=value\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\nnext";
        for step in 1..text.len() {
            let (found, taken, body) = decode(Framing::Chunked, text, step).unwrap();
            assert_eq!(found, b"abc0123456789", "{step}");
            assert_eq!((taken, body.is_complete()), (text.len() - 4, true), "{step}");
        }
    }

    #[test]
    fn wrong_chunks_are_malformed() {
        for text in ["x\r\n", "\r\n", "3\r\nabcd\r\n", "11111111111111111\r\n", "-1\r\n"] {
            assert!(
                matches!(decode(Framing::Chunked, text.as_bytes(), 64), Err(Failure::Malformed(_))),
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_chunking_in_any_pieces_gives_the_body(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..8),
            step in 1_usize..100,
        ) {
            let mut text = Vec::new();
            for chunk in &chunks {
                text.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                text.extend_from_slice(chunk);
                text.extend_from_slice(b"\r\n");
            }
            text.extend_from_slice(b"0\r\n\r\n");
            let (found, taken, body) = decode(Framing::Chunked, &text, step).unwrap();
            prop_assert_eq!(found, chunks.concat());
            prop_assert_eq!(taken, text.len());
            prop_assert!(body.is_complete());
        }

        #[test]
        fn any_bytes_end_without_a_panic(text in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = decode(Framing::Chunked, &text, 7);
            let _ = Head::parse(&text, Asked::Body);
        }
    }

    use super::super::head::{Asked, Head};
}
