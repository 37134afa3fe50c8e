//! From bytes to a request: syntax, framing and limits, without I/O (RFC 9112).
//!
//! Where the standard lets a server choose, a request is refused if two implementations could read
//! it differently. Attackers smuggle such requests past a proxy.

use std::mem::MaybeUninit;

use httparse::Header;

use super::{
    authority::split_authority,
    conditional::Conditions,
    fields::{Fields, Finished, Framing, Persistence},
    limits::HEADER_FIELDS,
    status::{self, Status},
};

/// The parser's result for the bytes at the start of a request.
pub enum Parsed<'b> {
    /// A whole head; its body and further requests may follow.
    Complete(Request<'b>),
    /// The beginning of a head.
    Partial,
    /// A bad request, answered by this status. Its end is unknown, so the connection ends too.
    Bad(&'static Status),
}

/// A request's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'b> {
    /// The method.
    pub method: Method,
    /// The target, as it came.
    pub target: &'b str,
    /// The client's wish for the connection.
    pub persistence: Persistence,
    /// How its body is framed.
    pub body: Framing,
    /// The client waits for "100 Continue" before it sends the body.
    pub expects_continue: bool,
    pub(super) conditions: Conditions<'b>,
    /// The head as it came, from its first byte to the empty line at its end.
    pub head: &'b [u8],
}

impl Request<'_> {
    /// Whether the target is of a form that goes with this method only (RFC 9112, section 3.2).
    pub(super) fn has_its_own_target(&self) -> bool {
        match self.method {
            Method::Options => self.target == "*",
            // RFC 9110, section 9.3.6: the port is required.
            Method::Connect => {
                matches!(split_authority(self.target.as_bytes()), Some((_, Some(_))))
            }
            _ => false,
        }
    }
}

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET.
    Get,
    /// HEAD.
    Head,
    /// POST.
    Post,
    /// OPTIONS.
    Options,
    /// CONNECT. No page offers this method either, but its target has its own form.
    Connect,
    /// Another method of RFC 9110 or RFC 5789. No page offers it.
    Known,
    /// Any other method.
    Unknown,
}

/// Parses the head at the start of `bytes`.
///
/// The caller bounds the length of `bytes`. [`too_long`] is the reply at that bound.
#[inline(never)] // Frees the stack of the header fields after parsing.
pub fn parse(bytes: &[u8]) -> Parsed<'_> {
    // No bytes have come since the last request.
    if bytes.is_empty() {
        return Parsed::Partial;
    }
    let mut room = [const { MaybeUninit::uninit() }; FEW_FIELDS];
    let parsed = parse_within(bytes, &mut room).or_else(|| parse_many_fields(bytes));
    parsed.unwrap_or(Parsed::Bad(&status::FIELDS_TOO_LARGE))
}

/// More fields than most requests have. Room for the most fields takes half a page of stack, and
/// would make user-level threads touch a second page.
const FEW_FIELDS: usize = 24;

#[cold]
#[inline(never)]
fn parse_many_fields(bytes: &[u8]) -> Option<Parsed<'_>> {
    parse_within(bytes, &mut [const { MaybeUninit::uninit() }; HEADER_FIELDS])
}

/// Parses with room for so many header fields. `None` if there are more.
#[inline]
fn parse_within<'b>(bytes: &'b [u8], room: &mut [MaybeUninit<Header<'b>>]) -> Option<Parsed<'b>> {
    Some(match read_within(bytes, room)? {
        Err(Unread::Partial) => Parsed::Partial,
        Err(Unread::Bad(status)) => Parsed::Bad(status),
        Ok(Raw { method, target, finished, head, .. }) => {
            let Finished { persistence, body, expects_continue, conditions } = finished;
            Parsed::Complete(Request {
                method: method_of(method),
                target,
                persistence,
                body,
                expects_continue,
                conditions,
                head,
            })
        }
    })
}

/// Why there is no head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// The head is not whole.
    Partial,
    /// The head is bad, and answered by this status.
    Bad(&'static Status),
}

/// A request's head with all of its fields, for services that pass the fields on.
pub(crate) struct Raw<'h, 'b> {
    pub(crate) method: &'b str,
    pub(crate) target: &'b str,
    /// The 0 or 1 of HTTP/1.0 and HTTP/1.1.
    pub(crate) minor_version: u8,
    pub(crate) fields: &'h [Header<'b>],
    /// The fields' meaning.
    pub(crate) finished: Finished<'b>,
    /// The head as it came.
    pub(crate) head: &'b [u8],
}

/// Parses the head at the start of `bytes`, and passes it to `take`. As strict as [`parse`].
///
/// # Errors
///
/// The head is not whole, or bad, or `take` refuses it.
#[inline(never)] // Frees the stack of the header fields after parsing.
pub(crate) fn read<'b, T>(
    bytes: &'b [u8],
    take: impl FnOnce(Raw<'_, 'b>) -> Result<T, &'static Status>,
) -> Result<T, Unread> {
    if bytes.is_empty() {
        return Err(Unread::Partial);
    }
    let mut room = [const { MaybeUninit::uninit() }; HEADER_FIELDS];
    let read = read_within(bytes, &mut room);
    let raw = read.unwrap_or(Err(Unread::Bad(&status::FIELDS_TOO_LARGE)))?;
    take(raw).map_err(Unread::Bad)
}

/// Reads a head with room for so many header fields. `None` if there are more.
#[inline]
fn read_within<'h, 'b>(
    bytes: &'b [u8],
    room: &'h mut [MaybeUninit<Header<'b>>],
) -> Option<Result<Raw<'h, 'b>, Unread>> {
    let mut raw = httparse::Request::new(&mut []);
    let head_length = match raw.parse_with_uninit_headers(bytes, room) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Some(Err(Unread::Partial)),
        Err(httparse::Error::TooManyHeaders) => return None,
        Err(httparse::Error::Version) => {
            return Some(Err(bad_version(bytes).map_or(Unread::Partial, Unread::Bad)));
        }
        Err(_) => return Some(Err(Unread::Bad(&status::BAD_REQUEST))),
    };
    let (Some(method), Some(target), Some(minor_version)) = (raw.method, raw.path, raw.version)
    else {
        return Some(Err(Unread::Bad(&status::BAD_REQUEST)));
    };
    // RFC 9112, section 2.2, lets a server accept LF alone as a line's end. Servers that do and
    // servers that do not would then read different fields or requests.
    if !target.is_ascii() || has_bare_line_feed(&bytes[..head_length]) {
        return Some(Err(Unread::Bad(&status::BAD_REQUEST)));
    }
    let fields: &'h [Header<'b>] = raw.headers;
    let finished = Fields::read(fields).and_then(|read| read.finish(minor_version, target));
    Some(finished.map_err(Unread::Bad).map(|finished| Raw {
        method,
        target,
        minor_version,
        fields,
        finished,
        head: &bytes[..head_length],
    }))
}

/// The value of a header field in a parsed `head`. `None` if there is no such field.
///
/// For pages that need fields that [`Request`] does not have. Only requests for such pages pay for
/// the search.
///
/// # Errors
///
/// 400 if the field is repeated, because its value is ambiguous.
pub(super) fn field<'b>(head: &'b [u8], name: &str) -> Result<Option<&'b [u8]>, &'static Status> {
    let mut room = [const { MaybeUninit::<Header<'_>>::uninit() }; HEADER_FIELDS];
    let mut raw = httparse::Request::new(&mut []);
    raw.parse_with_uninit_headers(head, &mut room).map_err(|_| &status::BAD_REQUEST)?;
    let mut values = raw.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
    match (values.next(), values.next()) {
        (first, None) => Ok(first.map(|header| header.value)),
        (_, Some(_)) => Err(&status::BAD_REQUEST),
    }
}

/// Whether the bytes at the start of a possibly bad request ask for a reply without a body.
///
/// The function skips only bytes that the parser skips. Otherwise the pieces in which a bad request
/// arrives would decide whether its reply has a body.
pub fn is_head(mut bytes: &[u8]) -> bool {
    while let [b'\r', b'\n', rest @ ..] | [b'\n', rest @ ..] = bytes {
        bytes = rest;
    }
    bytes.starts_with(b"HEAD ")
}

/// The reply to a partial head that has filled its room.
pub fn too_long(bytes: &[u8]) -> &'static Status {
    let line = bytes.trim_ascii_start();
    if line.contains(&b'\n') {
        &status::FIELDS_TOO_LARGE
    } else if line.contains(&b' ') {
        &status::URI_TOO_LONG
    } else {
        &status::BAD_REQUEST
    }
}

/// Whether a line ends without CR. The function does not stop early, so that the compiler can
/// compare many bytes at once.
pub(crate) fn has_bare_line_feed(head: &[u8]) -> bool {
    let (after, before) = (&head[1..], &head[..head.len() - 1]);
    let bare = |(&byte, &earlier): (&u8, &u8)| (byte == b'\n') & (earlier != b'\r');
    head[0] == b'\n' || after.iter().zip(before).map(bare).fold(false, |any, bare| any | bare)
}

fn method_of(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "OPTIONS" => Method::Options,
        "CONNECT" => Method::Connect,
        "PUT" | "DELETE" | "PATCH" | "TRACE" => Method::Known,
        _ => Method::Unknown,
    }
}

/// The parser takes `HTTP/1.0` and `HTTP/1.1`. Other digits are another version, and any other text
/// is malformed. `None` if the line is still too short to tell, because the pieces in which a
/// request arrives must not change the reply.
fn bad_version(bytes: &[u8]) -> Option<&'static Status> {
    let line = bytes.trim_ascii_start();
    let (line, is_whole) = match line.iter().position(|&byte| byte == b'\n') {
        Some(feed) => (&line[..feed], true),
        None => (line, false),
    };
    let word = line.split(|&byte| byte == b' ').nth(2).unwrap_or_default();
    let fits = |(byte, pattern): (&u8, &u8)| match pattern {
        b'0' => byte.is_ascii_digit(),
        _ => byte == pattern,
    };
    let begins_well = word.iter().zip(b"HTTP/0.0\r").all(fits);
    match word.len() {
        8 | 9 if begins_well && is_whole => Some(&status::VERSION_NOT_SUPPORTED),
        ..=9 if begins_well && !is_whole => None,
        _ => Some(&status::BAD_REQUEST),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn complete(text: &str) -> Request<'_> {
        match parse(text.as_bytes()) {
            Parsed::Complete(request) => request,
            Parsed::Partial => panic!("partial: {text:?}"),
            Parsed::Bad(status) => panic!("{}: {text:?}", status.code),
        }
    }

    /// 0 when complete, 1 when partial, or the status.
    fn code(bytes: &[u8]) -> u16 {
        match parse(bytes) {
            Parsed::Complete(_) => 0,
            Parsed::Partial => 1,
            Parsed::Bad(status) => status.code,
        }
    }

    #[test]
    fn a_plain_request_is_understood() {
        let text = "GET /a?b HTTP/1.1\r\nHost: localhost:8080\r\nAccept: */*\r\n\r\nGET";
        let request = complete(text);
        assert_eq!(request.method, Method::Get);
        assert_eq!(request.target, "/a?b");
        assert_eq!(request.persistence, Persistence::Implied);
        assert_eq!(request.body, Framing::Length(0));
        assert!(!request.expects_continue);
        assert_eq!(request.conditions, Conditions::default());
        assert_eq!(request.head, &text.as_bytes()[..text.len() - 3]);
    }

    #[test]
    fn methods_are_told_apart() {
        for (name, method) in [
            ("GET", Method::Get),
            ("HEAD", Method::Head),
            ("POST", Method::Post),
            ("OPTIONS", Method::Options),
            ("DELETE", Method::Known),
            ("get", Method::Unknown),
            ("BREW", Method::Unknown),
        ] {
            let text = format!("{name} / HTTP/1.1\r\nHost: h\r\n\r\n");
            assert_eq!(complete(&text).method, method, "{name}");
        }
    }

    #[test]
    fn persistence_depends_on_version_and_connection() {
        for (version, field, persistence) in [
            ("1.1", "", Persistence::Implied),
            ("1.1", "Connection: keep-alive\r\n", Persistence::Implied),
            ("1.1", "Connection: close\r\n", Persistence::Close),
            ("1.1", "connection: Upgrade , CLOSE\r\n", Persistence::Close),
            ("1.1", "Connection: close\r\nConnection: keep-alive\r\n", Persistence::Close),
            ("1.1", "Connection: closed\r\n", Persistence::Implied),
            ("1.0", "", Persistence::Close),
            ("1.0", "Connection: Keep-Alive\r\n", Persistence::Announced),
            ("1.0", "Connection: keep-alive, close\r\n", Persistence::Close),
        ] {
            let text = format!("GET / HTTP/{version}\r\nHost: h\r\n{field}\r\n");
            assert_eq!(complete(&text).persistence, persistence, "{text:?}");
        }
    }

    #[test]
    fn framing_is_understood() {
        let body =
            |fields: &str| complete(&format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n")).body;
        assert_eq!(body("Content-Length: 5\r\n"), Framing::Length(5));
        assert_eq!(body("Content-Length: 0\r\n"), Framing::Length(0));
        assert_eq!(body("Content-Length: 18446744073709551615\r\n"), Framing::Length(u64::MAX));
        assert_eq!(body("Transfer-Encoding: Chunked\r\n"), Framing::Chunked);
    }

    #[test]
    fn lenient_forms_that_the_standard_allows_are_taken() {
        for text in [
            "GET / HTTP/1.0\r\n\r\n",
            "\r\nGET / HTTP/1.1\r\nHost:h\r\n\r\n",
            "GET http://h/ HTTP/1.1\r\nHost:   H  \r\n\r\n",
            "GET http://h?http://i HTTP/1.1\r\nHost: h\r\n\r\n",
            "GET http://h/ HTTP/1.0\r\n\r\n",
            "GET /http://i HTTP/1.1\r\nHost: h:080\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: [::1]:80\r\nX-Text: \u{e9}\r\n\r\n",
        ] {
            assert_eq!(code(text.as_bytes()), 0, "{text:?}");
        }
    }

    #[test]
    fn doubtful_requests_are_refused() {
        for (fields, expected) in [
            ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400),
            ("Content-Length: 5\r\nContent-Length: 6\r\n", 400),
            ("Content-Length: 5\r\nContent-Length: 5\r\n", 400),
            ("Content-Length: 5, 5\r\n", 400),
            ("Content-Length: +5\r\n", 400),
            ("Content-Length: -5\r\n", 400),
            ("Content-Length: 0x5\r\n", 400),
            ("Content-Length: 05\r\n", 400),
            ("Content_Length: 5\r\n", 400),
            ("Transfer_Encoding: chunked\r\n", 400),
            ("Content-Type: a/b\r\nContent-Type: a/b\r\n", 400),
            ("Content-Length:\r\n", 400),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400),
            ("Content-Length: 18446744073709551616\r\n", 400),
            ("Transfer-Encoding: chunked, chunked\r\n", 400),
            ("Transfer-Encoding: chunked, gzip, chunked\r\n", 400),
            ("Transfer-Encoding: chunked, gzip\r\n", 400),
            ("Transfer-Encoding: , chunked\r\n", 400),
            ("Transfer-Encoding: chunked,\r\n", 400),
            ("Transfer-Encoding: chunked;q=1\r\n", 400),
            ("Transfer-Encoding: identity\r\n", 400),
            ("Transfer-Encoding:\r\n", 400),
            ("Transfer-Encoding: gzip, chunked\r\n", 501),
            ("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", 501),
            ("Transfer-Encoding: gzip\r\n", 400),
            ("Transfer-Encoding: gzip\r\nTransfer-Encoding: br\r\n", 400),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n", 400),
            ("Transfer-Encoding: \r\nTransfer-Encoding: chunked\r\n", 400),
            ("Transfer-Encoding: \u{b}chunked\r\n", 400),
            ("Transfer-Encoding : chunked\r\n", 400),
            (" Folded: x\r\n", 400),
            ("X: a\r\n b\r\n", 400),
            ("X: a\rb\r\n", 400),
            ("X: a\0b\r\n", 400),
            ("X\0: a\r\n", 400),
            ("no colon\r\n", 400),
            (": no name\r\n", 400),
            ("Host: h\r\n", 400),
        ] {
            let text = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
            assert_eq!(code(text.as_bytes()), expected, "{text:?}");
        }
        for (text, expected) in [
            ("GET / HTTP/1.1\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
            ("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", 400),
            ("GET http://i/ HTTP/1.1\r\nHost: h\r\n\r\n", 400),
            ("GET http://h:81/ HTTP/1.1\r\nHost: h\r\n\r\n", 400),
            ("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
            ("GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
            ("GET / HTTP/1.1 \r\nHost: h\r\n\r\n", 400),
            ("GET /\0 HTTP/1.1\r\nHost: h\r\n\r\n", 400),
            ("GET /a b HTTP/1.1\r\nHost: h\r\n\r\n", 400),
            ("GET /\r\n\r\n", 400),
            ("GET / HTTP/2.0\r\n\r\n", 505),
            ("GET / HTTP/1.2\r\n\r\n", 505),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
            ("GET / http/1.1\r\n\r\n", 400),
            ("GET / ICY/1.1\r\n\r\n", 400),
            ("\u{16}\u{3}\u{1}\u{2}", 400),
        ] {
            assert_eq!(code(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn heads_are_bounded() {
        let fields = |count: usize| "X: y\r\n".repeat(count);
        let text = |count| format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", fields(count));
        assert_eq!(code(text(HEADER_FIELDS - 1).as_bytes()), 0);
        assert_eq!(code(text(HEADER_FIELDS).as_bytes()), 431);
        assert_eq!(too_long(b"\r\nGET /aaaa").code, 414);
        assert_eq!(too_long(b"GETGETGET").code, 400);
        assert_eq!(too_long(b"GET / HTTP/1.1\r\nA: b").code, 431);
    }

    const EXAMPLE: &str = "HEAD /some/where?x=y HTTP/1.1\r\nHost: example.org\r\n\
        Range: bytes=1-2\r\nIf-None-Match: \"a\", W/\"b\"\r\nConnection: close\r\n\r\n";

    #[test]
    fn a_request_is_partial_until_its_last_byte() {
        for end in 0..EXAMPLE.len() {
            assert_eq!(code(&EXAMPLE.as_bytes()[..end]), 1, "{end}");
        }
        assert_eq!(code(EXAMPLE.as_bytes()), 0);
    }

    /// The fuzz target http_head found this case: 505 or 400, depending on the pieces.
    #[test]
    fn an_unknown_version_is_judged_once_it_is_there() {
        let text = b"PRI * HTTP/2.0\r\n\r\n";
        for end in 0..=text.len() {
            let expected = if end <= b"PRI * HTTP/2.0\r".len() { 1 } else { 505 };
            assert_eq!(code(&text[..end]), expected, "{end}");
        }
        for text in ["PRI * HTTX", "PRI * HTTP/2.0x", "PRI * HTTP/2.00", "PRI * HTTP/2\r\n"] {
            assert_eq!(code(text.as_bytes()), 400, "{text:?}");
        }
    }

    /// The reply to the first bad piece of a request: a status, and whether it has a body.
    fn verdict(bytes: &[u8]) -> Option<(u16, bool)> {
        match parse(bytes) {
            Parsed::Bad(status) => Some((status.code, is_head(bytes))),
            _ => None,
        }
    }

    proptest! {
        #[test]
        fn it_makes_no_difference_how_a_bad_request_is_cut(
            text in "[\r\n ]{0,3}(HEAD|GET|G T|HEADER)[ \t]{1,2}/[ \0]?( HTTP/[0-2].1| ICY)?\r?\n(Host ?: h\r\n| X: y\r\n){0,2}\r?\n?",
        ) {
            let verdicts = (0..=text.len()).map(|end| verdict(&text.as_bytes()[..end]));
            let mut found = verdicts.flatten();
            if let Some(first) = found.next() {
                prop_assert!(found.all(|later| later == first), "{:?}", text);
            }
        }

        #[test]
        fn any_bytes_are_judged(bytes: Vec<u8>) {
            code(&bytes);
            too_long(&bytes);
        }

        #[test]
        fn a_damaged_request_is_judged(at in 0..EXAMPLE.len(), byte: u8, cut in 0..EXAMPLE.len()) {
            let mut bytes = EXAMPLE.as_bytes().to_vec();
            bytes[at] = byte;
            code(&bytes);
            // More bytes do not make a bad request good.
            if code(&bytes[..cut]) > 1 {
                prop_assert!(code(&bytes) > 1);
            }
        }

        /// The bytes after a head do not influence the reading of the head.
        #[test]
        fn a_head_is_read_alike_whatever_follows(tail: Vec<u8>) {
            let joined = [EXAMPLE.as_bytes(), &tail].concat();
            let Parsed::Complete(request) = parse(&joined) else { panic!("not complete") };
            prop_assert_eq!(request, complete(EXAMPLE));
        }
    }
}
