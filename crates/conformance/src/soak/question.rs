//! The right requests of each service, and the checks of their replies.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use duality_lab::random::SplitMix64;
use duality_lab::{Blame as _, Party};

use super::rounds::Protocol;
use super::wire::Wire;
use super::{Result, wrong};

const INDEX: &[u8] = include_bytes!("../../../services/demo/index.html");
const HELLO: &[u8] = include_bytes!("../../../services/demo/hello.txt");

/// The built-in long page, as services/src/http/demo.rs makes it. The page is too long for one
/// write, and too long to be gathered with other replies.
static LARGE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let line = |number| {
        let text = format!("Line {number:4} of 1600: the dual of this one is an event.");
        format!("{text:.<63}\n")
    };
    (1..=1600).map(line).collect::<String>().into()
});

pub(super) struct Question {
    pub(super) bytes: Vec<u8>,
    reply: Reply,
}

enum Reply {
    /// Exactly these bytes.
    Same(Vec<u8>),
    /// A reply of HTTP with this status.
    Http(&'static str, Body),
}

enum Body {
    Exactly(Vec<u8>),
    /// The reply states its length, and has no body.
    Withheld,
    /// The guestbook's page. The page changes with each visit, so the check covers only its
    /// beginning and its end.
    Guestbook,
    /// Any body.
    Any,
}

/// The head of the reply to each request of a round, with the date masked. The head for a request
/// never changes.
#[derive(Default)]
pub(super) struct Heads(Mutex<HashMap<Vec<u8>, Vec<u8>>>);

impl Question {
    /// A question that the service answers on every connection. A `short` question and its reply
    /// fit into a socket's buffer many times.
    pub(super) fn of(service: Protocol, random: &mut SplitMix64, short: bool) -> Self {
        match service {
            Protocol::Echo | Protocol::Chat => {
                let longest = if short { 300 } else { 16 << 10 };
                let length = 1 + random_below(random, longest);
                let bytes = printable(random, length);
                Self { reply: Reply::Same(bytes.clone()), bytes }
            }
            Protocol::Http if !short && random.below(6) == 0 => Self::of_body(random),
            Protocol::Http => Self::of_page(random, short),
            Protocol::Guestbook if random.below(3) == 0 => Self::of_page(random, short),
            Protocol::Guestbook => Self::of_guestbook(random),
        }
    }

    /// A question with a body, which the http service sends back, and the guestbook does not.
    fn of_body(random: &mut SplitMix64) -> Self {
        let length = (1 + random_below(random, 60)) << 10;
        let body = printable(random, length);
        let head = format!("POST / HTTP/1.1\r\nContent-Length: {length}");
        Self::http(&head, &body, "200 OK", Body::Exactly(body.clone()))
    }

    fn of_page(random: &mut SplitMix64, short: bool) -> Self {
        let of = |bytes: &[u8]| Body::Exactly(bytes.to_vec());
        let (head, status, body) = match random.below(if short { 5 } else { 7 }) {
            0 | 1 => ("GET / HTTP/1.1", "200 OK", of(INDEX)),
            2 => ("GET /hello.txt HTTP/1.1", "200 OK", of(HELLO)),
            3 => ("HEAD /large.txt HTTP/1.1", "200 OK", Body::Withheld),
            4 => ("GET /absent HTTP/1.1", "404 Not Found", Body::Any),
            5 => ("GET /large.txt HTTP/1.1", "200 OK", of(&LARGE)),
            _ => {
                let range = "GET /large.txt HTTP/1.1\r\nRange: bytes=777-77776";
                (range, "206 Partial Content", of(&LARGE[777..77777]))
            }
        };
        Self::http(head, b"", status, body)
    }

    fn of_guestbook(random: &mut SplitMix64) -> Self {
        if random.below(2) == 0 {
            return Self::http("GET /guestbook HTTP/1.1", b"", "200 OK", Body::Guestbook);
        }
        let form = format!("guest-name=Ann&guest-remarks=soaked+{}", random.below(1 << 20));
        let head = format!(
            "POST /guestbook HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}",
            form.len()
        );
        Self::http(&head, form.as_bytes(), "303 See Other", Body::Any)
    }

    fn http(head: &str, sent: &[u8], status: &'static str, reply: Body) -> Self {
        let mut bytes = format!("{head}\r\nHost: soak\r\n\r\n").into_bytes();
        bytes.extend_from_slice(sent);
        Self { bytes, reply: Reply::Http(status, reply) }
    }

    /// Reads the reply from the connection, and checks it.
    ///
    /// # Errors
    ///
    /// Says how the reply is wrong.
    pub(super) fn check(&self, wire: &mut Wire, heads: &Heads) -> Result {
        let (status, body) = match &self.reply {
            Reply::Same(expected) => {
                let got = wire.exactly(expected.len()).blame_at(Party::Subject, self.lacks())?;
                return self.compare(expected, &got);
            }
            Reply::Http(status, body) => (status, body),
        };
        let head = wire.until(b"\r\n\r\n").blame_at(Party::Subject, self.lacks())?;
        let text = String::from_utf8_lossy(&head);
        if text.lines().next() != Some(&format!("HTTP/1.1 {status}")) {
            return Err(wrong(format_args!("{text:?} is not {status}")).at(self.name()));
        }
        if !matches!(body, Body::Guestbook) {
            heads.same(&self.bytes, &head)?;
        }
        let length = text.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let length = length.map_or(Ok(0), str::parse::<usize>);
        let length =
            length.map_err(|_| wrong(format_args!("no length in {text:?}")).at(self.name()))?;
        let length = if matches!(body, Body::Withheld) { 0 } else { length };
        let got = wire.exactly(length).blame_at(Party::Subject, self.lacks())?;
        match body {
            Body::Exactly(expected) => self.compare(expected, &got),
            Body::Withheld | Body::Any => Ok(()),
            Body::Guestbook => {
                let page = String::from_utf8_lossy(&got);
                let whole = page.starts_with("<!doctype html>") && page.ends_with("</html>");
                match whole && page.contains("You are visitor number") {
                    true => Ok(()),
                    false => Err(wrong(format_args!("no guestbook: {page:?}")).at(self.name())),
                }
            }
        }
    }

    fn compare(&self, expected: &[u8], got: &[u8]) -> Result {
        if expected == got {
            return Ok(());
        }
        let at = expected.iter().zip(got).position(|(left, right)| left != right);
        let at = at.unwrap_or(expected.len().min(got.len()));
        let near = |bytes: &[u8]| {
            String::from_utf8_lossy(&bytes[at..bytes.len().min(at + 60)]).into_owned()
        };
        let (whole, came) = (expected.len(), got.len());
        let (expected, got) = (near(expected), near(got));
        let what =
            format_args!("byte {at} of {whole} ({came} came): expected {expected:?}, got {got:?}");
        Err(wrong(what).at(self.name()))
    }

    fn lacks(&self) -> String {
        format!("{}: no whole reply", self.name())
    }

    /// The beginning of the request, which names it in findings.
    fn name(&self) -> String {
        let line = self.bytes.split(|&byte| byte == b'\r').next().unwrap_or_default();
        format!("{:?}", String::from_utf8_lossy(&line[..line.len().min(40)]))
    }
}

impl Heads {
    fn same(&self, request: &[u8], reply: &[u8]) -> Result {
        let end = request.windows(4).position(|window| window == b"\r\n\r\n");
        let request = request[..end.unwrap_or(request.len())].to_vec();
        let reply = without_date(reply);
        let mut heads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = heads.entry(request).or_insert_with(|| reply.clone());
        if *known == reply {
            return Ok(());
        }
        let [known, reply] =
            [&*known, &reply].map(|head| String::from_utf8_lossy(head).into_owned());
        Err(wrong(format_args!("one head was {known:?}, and the next {reply:?}")))
    }
}

/// The head, with as many zeros in place of its date.
fn without_date(head: &[u8]) -> Vec<u8> {
    const FIELD: &[u8] = b"\r\nDate: ";
    let mut head = head.to_vec();
    if let Some(field) = head.windows(FIELD.len()).position(|window| window == FIELD) {
        let date = head.iter_mut().skip(field + FIELD.len()).take_while(|byte| **byte != b'\r');
        date.for_each(|byte| *byte = b'0');
    }
    head
}

/// Text without a line's end.
pub(super) fn printable(random: &mut SplitMix64, length: usize) -> Vec<u8> {
    (0..length).map(|_| b' ' + random.below(95) as u8).collect()
}

pub(super) fn random_below(random: &mut SplitMix64, bound: usize) -> usize {
    random.below(bound as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_differ_by_more_than_their_date() {
        let heads = Heads::default();
        let head = |date: &str, etag: &str| {
            format!("HTTP/1.1 200 OK\r\nDate: {date}\r\nETag: {etag}\r\n\r\n")
        };
        let (monday, sunday) = ("Mon, 01 Jan 2024 00:00:00 GMT", "Sun, 31 Dec 2023 23:59:59 GMT");
        heads.same(b"GET /\r\n\r\n", head(monday, "a").as_bytes()).unwrap();
        heads.same(b"GET /\r\n\r\nbody", head(sunday, "a").as_bytes()).unwrap();
        heads.same(b"GET /other\r\n\r\n", head(sunday, "b").as_bytes()).unwrap();
        assert!(heads.same(b"GET /\r\n\r\n", head(sunday, "b").as_bytes()).is_err());
    }

    #[test]
    fn a_wrong_byte_is_named() {
        let question = Question { bytes: b"abcd".to_vec(), reply: Reply::Same(b"abcd".to_vec()) };
        question.compare(b"abcd", b"abcd").unwrap();
        let problem = question.compare(b"abcd", b"abXd").unwrap_err().to_string();
        assert!(problem.contains("byte 2 of 4"), "{problem}");
        assert!(question.compare(b"abcd", b"abc").is_err());
    }

    #[test]
    fn the_long_page_has_the_length_of_the_built_in_one() {
        assert_eq!(LARGE.len(), 102_400);
    }
}
