//! The head of an HTTP reply: its status, the end of its body, and the fate of the connection.

use crate::failure::Failure;
use crate::request::decimal;

/// A reply with more headers is malformed.
const MOST_HEADERS: usize = 64;

/// The most interim replies before a final one. More of them count as a server that never ends.
const MOST_INTERIM: u32 = 16;

/// The parts of a head that the client needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) struct Head {
    /// The bytes up to the empty line, which is included.
    pub(in crate::client) length: usize,
    pub(in crate::client) status: u16,
    pub(super) framing: Framing,
    /// The server closes the connection after this reply.
    pub(super) closing: bool,
}

/// Whether the reply to a request has a body by its method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// HEAD: whatever the head declares, no body follows.
    Head,
    /// Any other method.
    Body,
}

/// The rule that ends a body (RFC 9112, section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// `Content-Length`.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// The body ends with the connection.
    UntilEnd,
}

impl Head {
    /// Reads the head at the beginning of `bytes`. `None` if the head is not complete.
    pub(super) fn parse(bytes: &[u8], asked: Asked) -> Result<Option<Head>, Failure> {
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut reply = httparse::Response::new(&mut headers);
        let length = match reply.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => {
                return Err(Failure::Malformed("more than 64 headers"));
            }
            Err(_) => return Err(Failure::Malformed("the head is not HTTP/1")),
        };
        // A complete head has both fields.
        let (status, minor) = (reply.code.unwrap_or_default(), reply.version.unwrap_or_default());
        let mut content_length = None;
        let mut chunked = false;
        // By default, HTTP/1.0 closes the connection and HTTP/1.1 keeps it open.
        let mut closing = minor == 0;
        for header in reply.headers.iter() {
            if header.name.eq_ignore_ascii_case("content-length") {
                let value = decimal(header.value)
                    .ok_or(Failure::Malformed("Content-Length is no number"))?;
                if content_length.replace(value).is_some_and(|earlier| earlier != value) {
                    return Err(Failure::Malformed("two different Content-Lengths"));
                }
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                if !header.value.eq_ignore_ascii_case(b"chunked") {
                    return Err(Failure::Malformed("a Transfer-Encoding other than chunked"));
                }
                chunked = true;
            } else if header.name.eq_ignore_ascii_case("connection") {
                for option in header.value.split(|byte| *byte == b',') {
                    if option.trim_ascii().eq_ignore_ascii_case(b"close") {
                        closing = true;
                    } else if option.trim_ascii().eq_ignore_ascii_case(b"keep-alive") {
                        closing = false;
                    }
                }
            }
        }
        // Statuses of replies that never have a body, whatever they declare (RFC 9110, section
        // 6.4.1).
        let is_bodiless = asked == Asked::Head || matches!(status, 100..=199 | 204 | 304);
        let framing = match (chunked, content_length) {
            _ if is_bodiless => Framing::Length(0),
            (true, Some(_)) => {
                return Err(Failure::Malformed("both Content-Length and Transfer-Encoding"));
            }
            (true, None) => Framing::Chunked,
            (false, Some(length)) => Framing::Length(length),
            (false, None) => Framing::UntilEnd,
        };
        closing |= framing == Framing::UntilEnd;
        Ok(Some(Head { length, status, framing, closing }))
    }
}

/// Counts the interim replies before a final one. An interim reply has a head only. A client that
/// has not asked for it skips it (RFC 9110, section 15.2).
#[derive(Default)]
pub(super) struct Interim(u32);

impl Interim {
    /// Whether the reply of this head is an interim one. 101 is not, because it ends the use of
    /// HTTP on the connection.
    pub(super) fn is(&mut self, head: &Head) -> Result<bool, Failure> {
        if !(100..=199).contains(&head.status) || head.status == 101 {
            return Ok(false);
        }
        self.0 += 1;
        if self.0 > MOST_INTERIM {
            return Err(Failure::Malformed("more than 16 interim replies (1xx) to a request"));
        }
        Ok(true)
    }
}

/// The value of the first header with this name, in the bytes of a complete head.
pub(in crate::client) fn header<'a>(head: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut reply = httparse::Response::new(&mut headers);
    reply.parse(head).ok()?;
    let found = reply.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
    found.map(|header| header.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Head {
        Head::parse(text.as_bytes(), Asked::Body).unwrap().expect("the head is complete")
    }

    #[test]
    fn some_replies_have_no_body() {
        let head = |status, headers, asked| {
            let text = format!("HTTP/1.1 {status} x\r\n{headers}\r\n");
            Head::parse(text.as_bytes(), asked).unwrap().unwrap()
        };
        for headers in ["", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"] {
            for (status, asked) in
                [(204, Asked::Body), (304, Asked::Body), (103, Asked::Body), (200, Asked::Head)]
            {
                let Head { framing, closing, .. } = head(status, headers, asked);
                assert_eq!((framing, closing), (Framing::Length(0), false), "{status} {headers}");
            }
            assert_ne!(head(200, headers, Asked::Body).framing, Framing::Length(0));
        }
        assert!(head(304, "Connection: close\r\n", Asked::Body).closing);
    }

    #[test]
    fn the_length_of_the_body_is_read() {
        let text = "HTTP/1.1 200 OK\r\ncontent-LENGTH: 12\r\n\r\nbody";
        let expected = Head {
            length: text.len() - 4,
            status: 200,
            framing: Framing::Length(12),
            closing: false,
        };
        assert_eq!(parse(text), expected);
    }

    #[test]
    fn interim_replies_are_those_of_1xx_but_for_101_and_not_without_end() {
        let head = |status| parse(&format!("HTTP/1.1 {status} x\r\n\r\n"));
        let mut interim = Interim::default();
        for (status, expected) in
            [(100, true), (103, true), (199, true), (101, false), (200, false)]
        {
            assert_eq!(interim.is(&head(status)).unwrap(), expected, "{status}");
        }
        let mut endless = (0..100).map(|_| interim.is(&head(103)));
        assert!(endless.any(|head| head.is_err()));
    }

    #[test]
    fn every_prefix_is_incomplete() {
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n";
        for length in 0..text.len() {
            assert_eq!(
                Head::parse(&text.as_bytes()[..length], Asked::Body).unwrap(),
                None,
                "{length}"
            );
        }
    }

    #[test]
    fn who_closes_is_read() {
        for (text, closing) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false),
            ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: Close\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: x , close\r\n\r\n", true),
            ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: Keep-Alive\r\n\r\n", false),
            ("HTTP/1.1 200 OK\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false),
        ] {
            assert_eq!(parse(text).closing, closing, "{text}");
        }
    }

    #[test]
    fn a_header_is_found_by_any_case_of_its_name() {
        let head = b"HTTP/1.1 303 See Other\r\nServer: x\r\nlocation: /here\r\n\r\n";
        assert_eq!(header(head, "Location"), Some(&b"/here"[..]));
        assert_eq!(header(head, "Content-Length"), None);
        assert_eq!(header(b"not HTTP", "Location"), None);
    }

    #[test]
    fn ambiguous_framing_is_malformed() {
        for headers in [
            "Content-Length: 1\r\nContent-Length: 2",
            "Content-Length: 1\r\nTransfer-Encoding: chunked",
            "Content-Length: +1",
            "Content-Length: ",
            "Content-Length: 99999999999999999999",
            "Transfer-Encoding: gzip, chunked",
        ] {
            let text = format!("HTTP/1.1 200 OK\r\n{headers}\r\n\r\n");
            assert!(
                matches!(Head::parse(text.as_bytes(), Asked::Body), Err(Failure::Malformed(_))),
                "{headers}"
            );
        }
        assert!(matches!(
            Head::parse(b"SSH-2.0-OpenSSH\r\n", Asked::Body),
            Err(Failure::Malformed(_))
        ));
    }
}
