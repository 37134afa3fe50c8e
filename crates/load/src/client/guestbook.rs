//! The client of `guestbook`. The client GETs the page, on which the visitor counter must have
//! grown since the last time. It POSTs a remark once in a while.
//!
//! A remark is full of characters that mean something to HTML. Among them is a copy of the
//! counter's own mark-up. A page that shows a remark as it was written has two counters, and is
//! wrong.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use duality_runtime::net::TcpStream;

use super::http::{self, Head, Page, header, read_reply};
use super::{Entry, Protocol};
use crate::announce::EdgeAnnouncer;
use crate::crowd::Question;
use crate::engine::{Engine, Loading};
use crate::failure::Failure;
use crate::pattern;
use crate::request::{Client, Reply, decimal, send_all};

/// The head of a reply must fit into this buffer, but a page need not.
const BUFFER_SIZE: usize = 16 * 1024;

/// The longest page that the client reads.
const LONGEST_PAGE: usize = 1 << 20;

/// The text before the number of visitors.
const COUNTER: &str = "id=\"visitors\">";

/// The number of requests of a connection for each POST, the POST included.
const POST_EVERY: u32 = 10;

pub(crate) static ENTRY: Entry = Entry {
    page: Some("/guestbook"),
    port: Some(80),
    ..Entry::plain("guestbook", |page| Arc::new(Visits { page, post_every: POST_EVERY }))
};

/// GET a page that counts its visitors, and POST remarks in between.
#[derive(Debug)]
pub(crate) struct Visits {
    pub(crate) page: Page,
    /// On each connection, every `post_every`-th request is a POST. 0 means never.
    pub(crate) post_every: u32,
}

impl Protocol for Visits {
    fn service(&self) -> &'static str {
        ENTRY.name
    }

    fn page(&self) -> Option<&Page> {
        Some(&self.page)
    }

    fn question(&self) -> Option<Question> {
        Some(http::question(&self.page))
    }

    fn load<'a>(&'a self, engine: &'a Engine, edges: EdgeAnnouncer) -> Loading<'a> {
        let keep_alive = engine.options.keep_alive;
        Box::pin(pattern::load(
            engine,
            Guestbook::new(&self.page, self.post_every, keep_alive),
            edges,
        ))
    }
}

/// The client on one connection.
struct Guestbook {
    common: Arc<Common>,
    /// The index of the client's connection in the load.
    number: u64,
    connections: Arc<AtomicU64>,
    /// The number of its requests, plus its index so that connections do not post in step.
    turn: u64,
    /// The last visitor count that the client saw.
    visitors: u64,
    buffer: Box<[u8]>,
    body: Vec<u8>,
}

/// The state that all connections share.
struct Common {
    page: Page,
    post_every: u64,
    keep_alive: bool,
    get: Arc<[u8]>,
}

impl Guestbook {
    /// A client that makes every `post_every`-th request on a connection a POST. With 0, no request
    /// is a POST.
    fn new(page: &Page, post_every: u32, keep_alive: bool) -> Self {
        let get = http::request(page, keep_alive);
        let post_every = u64::from(post_every);
        Self {
            common: Arc::new(Common { page: page.clone(), post_every, keep_alive, get }),
            number: 0,
            connections: Arc::new(AtomicU64::new(1)),
            turn: 0,
            visitors: 0,
            buffer: vec![0; BUFFER_SIZE].into(),
            body: Vec::new(),
        }
    }

    async fn visited(&mut self, stream: &mut TcpStream) -> Result<Reply, Failure> {
        let body = &mut self.body;
        body.clear();
        let collect = |data: &[u8]| {
            if body.len() + data.len() > LONGEST_PAGE {
                return Err(Failure::Malformed("the page is longer than 1 MiB"));
            }
            body.extend_from_slice(data);
            Ok(())
        };
        let check = |head: &Head, _: &[u8]| check_status(head, 200);
        let reply = read_reply(stream, &mut self.buffer, 0, check, collect).await?;
        let visitors = visitors(&self.body)?;
        let before = std::mem::replace(&mut self.visitors, visitors);
        if visitors <= before {
            return Err(Failure::WrongBytes("the visitor counter has not grown"));
        }
        Ok(reply)
    }

    async fn posted(&mut self, stream: &mut TcpStream) -> Result<Reply, Failure> {
        let page = self.common.clone();
        let check = |head: &Head, bytes: &[u8]| {
            check_status(head, 303)?;
            let location = header(bytes, "location");
            if !location.is_some_and(|location| page.is_at(location)) {
                return Err(Failure::WrongBytes("the answer to a POST does not lead to the page"));
            }
            Ok(())
        };
        read_reply(stream, &mut self.buffer, 0, check, |_| Ok(())).await
    }

    /// Whether the request of this turn is a POST.
    fn posts(&self) -> bool {
        // With 0 there is no remainder, so there is never a POST.
        self.turn.checked_rem(self.common.post_every) == Some(0)
    }

    /// A remark that no other client makes, form-encoded.
    fn remark(&self) -> String {
        let (process, Self { number, turn, .. }) = (std::process::id(), self);
        let name = format!("Zoë <{process}-{number}-{turn}>");
        let remarks = format!("1 + 1 < 3 & 'so' on; 100 % <b {COUNTER}0</b>");
        format!("guest-name={}&guest-remarks={}", form_encoded(&name), form_encoded(&remarks))
    }
}

impl Client for Guestbook {
    async fn learn(&mut self, stream: &mut TcpStream) -> Result<(), Failure> {
        send_all(stream, &self.common.get).await?;
        self.visited(stream).await.map(|_| ())
    }

    async fn send(&mut self, stream: &mut TcpStream) -> Result<(), Failure> {
        self.turn += 1;
        if self.posts() {
            send_all(stream, self.common.post(&self.remark()).as_bytes()).await
        } else {
            send_all(stream, &self.common.get).await
        }
    }

    async fn receive(&mut self, stream: &mut TcpStream) -> Result<Reply, Failure> {
        if self.posts() { self.posted(stream).await } else { self.visited(stream).await }
    }
}

impl Clone for Guestbook {
    fn clone(&self) -> Self {
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        Self {
            common: self.common.clone(),
            number,
            connections: self.connections.clone(),
            turn: number,
            visitors: self.visitors,
            buffer: vec![0; self.buffer.len()].into(),
            body: Vec::new(),
        }
    }
}

impl Common {
    fn post(&self, form: &str) -> String {
        let Page { host, path } = &self.page;
        let connection = if self.keep_alive { "" } else { "Connection: close\r\n" };
        format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: duality-load\r\n{connection}\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
            form.len()
        )
    }

    /// Whether a `Location` is this page, as a path or as an absolute URL.
    fn is_at(&self, location: &[u8]) -> bool {
        let Page { host, path } = &self.page;
        let path = path.split('?').next().unwrap_or_default();
        location == path.as_bytes() || location == format!("http://{host}{path}").as_bytes()
    }
}

fn check_status(head: &Head, expected: u16) -> Result<(), Failure> {
    match head.status {
        status if status == expected => Ok(()),
        503 => Err(Failure::StoreUnavailable),
        other => Err(Failure::WrongStatus(other)),
    }
}

/// The visitor count of a complete page with exactly one counter.
pub(crate) fn visitors(page: &[u8]) -> Result<u64, Failure> {
    let text = str::from_utf8(page).map_err(|_| Failure::WrongBytes("the page is not UTF-8"))?;
    if !text.trim_end().ends_with("</html>") {
        return Err(Failure::WrongBytes("the page does not end with </html>"));
    }
    let (_, after) =
        text.split_once(COUNTER).ok_or(Failure::WrongBytes("no visitor counter on the page"))?;
    if after.contains(COUNTER) {
        return Err(Failure::WrongBytes("two visitor counters: is a remark shown unescaped?"));
    }
    let digits = after.split_once('<').map(|(digits, _)| digits.as_bytes());
    digits
        .and_then(decimal)
        .ok_or(Failure::WrongBytes("the visitor counter is not a number within an element"))
}

/// The encoding of `application/x-www-form-urlencoded` (WHATWG URL, section 5.2).
fn form_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'*' | b'-' | b'.' | b'_' => {
                encoded.push(char::from(byte));
            }
            b' ' => encoded.push('+'),
            other => {
                let _ = write!(encoded, "%{other:02X}");
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_encoded() {
        assert_eq!(form_encoded("Zoë & <1+1>"), "Zo%C3%AB+%26+%3C1%2B1%3E");
        assert_eq!(form_encoded("a-b_c.d*e~"), "a-b_c.d*e%7E");
    }

    #[test]
    fn a_page_has_one_counter() {
        let page = |inside: &str| visitors(format!("<html>{inside}</html>\n").as_bytes());
        assert_eq!(page("<b id=\"visitors\">42</b>").unwrap(), 42);
        for wrong in [
            "",
            "<b id=\"visitors\"></b>",
            "<b id=\"visitors\"> 42</b>",
            "<b id=\"visitors\">4,200</b>",
            "<b id=\"visitors\">+42</b>",
            "<b id=\"visitors\">99999999999999999999</b>",
            "<b id=\"visitors\">1</b><b id=\"visitors\">1</b>",
        ] {
            assert!(matches!(page(wrong), Err(Failure::WrongBytes(_))), "{wrong}");
        }
        for wrong in [&b"<html><b id=\"visitors\">42"[..], b"<b id=\"visitors\">42</b>\xff</html>"]
        {
            assert!(matches!(visitors(wrong), Err(Failure::WrongBytes(_))));
        }
    }

    #[test]
    fn a_remark_as_it_was_written_would_be_a_second_counter() {
        let page = "<html><b id=\"visitors\">1</b>1 + 1 < 3 <b id=\"visitors\">0</b></html>";
        assert!(visitors(page.as_bytes()).is_err());
        let page = Page { host: "example.org".to_owned(), path: "/guestbook".to_owned() };
        let remark = Guestbook::new(&page, 1, true).remark();
        assert!(remark.contains("id%3D%22visitors%22%3E0%3C"), "{remark}");
        assert!(!remark.contains(' ') && remark.is_ascii(), "{remark}");
    }

    #[test]
    fn a_location_may_be_a_path_or_a_whole_url() {
        let page = Page { host: "example.org:81".to_owned(), path: "/guestbook?x".to_owned() };
        let common = Guestbook::new(&page, 1, true).common;
        assert!(common.is_at(b"/guestbook") && common.is_at(b"http://example.org:81/guestbook"));
        assert!(
            !common.is_at(b"/")
                && !common.is_at(b"")
                && !common.is_at(b"http://example.org/guestbook")
        );
    }
}
