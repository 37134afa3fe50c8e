//! The body of a request, read in order to be dropped (RFC 9112, sections 6 and 7.1), without I/O.
//!
//! Line ends between chunks are CR and LF and nothing else: a decoder that is lenient here lets
//! requests be smuggled.

use super::request::Framing;

/// What is still to come of a body.
#[derive(Debug)]
pub(super) enum Unread {
    Length(u64),
    Chunks(Chunks),
}

impl Unread {
    /// Before a body that may have `limit` bytes. A length that was declared has been compared
    /// with it already; with chunks, their framing counts.
    pub(super) fn new(framing: Framing, limit: u64) -> Self {
        match framing {
            Framing::Length(length) => Unread::Length(length),
            Framing::Chunked => Unread::Chunks(Chunks::new(limit)),
        }
    }

    /// Goes through the next bytes.
    pub(super) fn skip(&mut self, bytes: &[u8]) -> Progress {
        match self {
            Unread::Chunks(chunks) => chunks.skip(bytes),
            Unread::Length(left) if *left <= bytes.len() as u64 => {
                Progress::Finished(*left as usize)
            }
            Unread::Length(left) => {
                *left -= bytes.len() as u64;
                Progress::Unfinished
            }
        }
    }
}

/// Where in a chunked body the reader is.
#[derive(Debug)]
pub(super) struct Chunks {
    state: State,
    /// Bytes of the body that may still come, framing included, so that neither endless
    /// extensions nor chunks of one byte make it longer than its limit.
    allowance: u64,
}

/// What has become of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// There is more to come.
    Unfinished,
    /// It ended after this many of the bytes that were given.
    Finished(usize),
    /// It is not well-formed, or longer than was allowed.
    Bad,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Among the digits of a chunk's size.
    Size {
        digits: u32,
        size: u64,
    },
    /// After the size, before the line's CR.
    Extension {
        size: u64,
    },
    SizeLineFeed {
        size: u64,
    },
    Data {
        left: u64,
    },
    DataReturn,
    DataLineFeed,
    /// In the fields after the last chunk; the body ends at an empty line.
    Trailer {
        line_is_empty: bool,
    },
    TrailerLineFeed {
        line_is_empty: bool,
    },
}

impl Chunks {
    /// Before a body that may have `limit` bytes, framing included.
    fn new(limit: u64) -> Self {
        Chunks { state: State::Size { digits: 0, size: 0 }, allowance: limit }
    }

    /// Goes through the next bytes.
    fn skip(&mut self, bytes: &[u8]) -> Progress {
        let mut at = 0;
        while at < bytes.len() {
            let taken = match self.state {
                // The only long stretch is passed over at once.
                State::Data { left } => {
                    let taken = left.min((bytes.len() - at) as u64);
                    let left = left - taken;
                    self.state = if left > 0 { State::Data { left } } else { State::DataReturn };
                    taken
                }
                State::TrailerLineFeed { line_is_empty: true } if bytes[at] == b'\n' => {
                    return Progress::Finished(at + 1);
                }
                state => match after(state, bytes[at]) {
                    Some(next) => {
                        self.state = next;
                        1
                    }
                    None => return Progress::Bad,
                },
            };
            let Some(allowance) = self.allowance.checked_sub(taken) else {
                return Progress::Bad;
            };
            self.allowance = allowance;
            // At most the number of bytes that were given.
            at += taken as usize;
        }
        Progress::Unfinished
    }
}

/// The state after one byte of framing, if the byte may stand there.
fn after(state: State, byte: u8) -> Option<State> {
    let text = byte == b'\t' || byte >= b' ' && byte != 127;
    match (state, byte) {
        (State::Size { digits, size }, _) if byte.is_ascii_hexdigit() && digits < 16 => {
            let digit = char::from(byte).to_digit(16)?;
            Some(State::Size { digits: digits + 1, size: size << 4 | u64::from(digit) })
        }
        (State::Size { digits: 1.., size }, b'\r') => Some(State::SizeLineFeed { size }),
        (State::Size { digits: 1.., size }, b';' | b' ' | b'\t') => Some(State::Extension { size }),
        (State::Extension { size }, b'\r') => Some(State::SizeLineFeed { size }),
        (State::Extension { .. }, _) if text => Some(state),
        (State::SizeLineFeed { size: 0 }, b'\n') => Some(State::Trailer { line_is_empty: true }),
        (State::SizeLineFeed { size }, b'\n') => Some(State::Data { left: size }),
        (State::DataReturn, b'\r') => Some(State::DataLineFeed),
        (State::DataLineFeed, b'\n') => Some(State::Size { digits: 0, size: 0 }),
        (State::Trailer { line_is_empty }, b'\r') => Some(State::TrailerLineFeed { line_is_empty }),
        (State::Trailer { .. }, _) if text => Some(State::Trailer { line_is_empty: false }),
        (State::TrailerLineFeed { .. }, b'\n') => Some(State::Trailer { line_is_empty: true }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BODY: &str =
        "4\r\nWiki\r\n00B;name=\"value\"\r\npedia in \r\n\r\n0\r\nExpires: 0\r\n\r\n";

    #[test]
    fn a_body_ends_where_it_ends() {
        let followed = format!("{BODY}GET / HTTP/1.1");
        assert_eq!(Chunks::new(100).skip(followed.as_bytes()), Progress::Finished(BODY.len()));
        assert_eq!(Chunks::new(100).skip(b"0\r\n\r\n"), Progress::Finished(5));
    }

    #[test]
    fn a_declared_length_is_counted_down() {
        let mut unread = Unread::new(Framing::Length(5), 100);
        assert_eq!(unread.skip(b"abc"), Progress::Unfinished);
        assert_eq!(unread.skip(b""), Progress::Unfinished);
        assert_eq!(unread.skip(b"deGET"), Progress::Finished(2));
    }

    #[test]
    fn what_is_malformed_or_too_long_is_refused() {
        for body in [
            "\r\n",
            ";\r\n",
            "g\r\n",
            "-1\r\n",
            "0x1\r\n",
            "1\n",
            "1\r\r",
            "1\r\nab",
            "1\r\na\n",
            "1\r\na\rb",
            "1;\0\r\n",
            "0\r\nA: b\n",
            "0\r\n\r\r",
            "11111111111111111\r\n",
        ] {
            assert_eq!(Chunks::new(1000).skip(body.as_bytes()), Progress::Bad, "{body:?}");
        }
        assert_eq!(Chunks::new(4).skip(b"5\r\nhello"), Progress::Bad);
        assert_eq!(Chunks::new(100).skip(";".repeat(101).as_bytes()), Progress::Bad);
        assert_eq!(Chunks::new(9).skip(format!("0;{}", "x".repeat(20)).as_bytes()), Progress::Bad);
    }

    proptest! {
        #[test]
        fn it_makes_no_difference_how_a_body_is_cut(
            first in 0..BODY.len(),
            second in 0..BODY.len(),
        ) {
            let (first, second) = (first.min(second), first.max(second));
            let mut chunks = Chunks::new(100);
            let bytes = BODY.as_bytes();
            prop_assert_eq!(chunks.skip(&bytes[..first]), Progress::Unfinished);
            prop_assert_eq!(chunks.skip(&bytes[first..second]), Progress::Unfinished);
            prop_assert_eq!(chunks.skip(&bytes[second..]), Progress::Finished(BODY.len() - second));
        }

        #[test]
        fn any_bytes_are_read(body in "[0-9a-f;\r\n x\0]{0,60}") {
            if let Progress::Finished(length) = Chunks::new(1000).skip(body.as_bytes()) {
                prop_assert!(length <= body.len());
                prop_assert!(body[..length].ends_with("\r\n\r\n"));
            }
        }
    }
}
