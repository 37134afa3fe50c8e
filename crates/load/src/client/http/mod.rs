//! The client of `http`: it makes the requests of a [`Script`], and checks the replies.
//!
//! ```text
//!   write the request ▶ read ▶ head as it was last time, whole reply here? ─yes─▶ judge the body
//!                        ▲                 │ no
//!                        │                 ▼
//!                        └──more─── parse the head, check the status, take the body out of its
//!                                   framing, and compare it as it arrives
//! ```
//!
//! A reply needs no check if its head is byte for byte the last one that was checked. The steady
//! path is one write, one read, and two comparisons. `Date` changes once a second, and then the
//! head is parsed once again.
//!
//! By default, the request is a GET of one page. Each reply must have the status 200 and the same
//! body. The folder `http2` carries the same requests by HTTP/2 (feature `http2`).

mod body;
mod expectation;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod head;
#[cfg(feature = "http2")]
mod http2;
pub(crate) mod paced;
mod reference;
mod reply;
mod script;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use duality_runtime::net::TcpStream;

pub use self::expectation::{Expectation, ExpectedBody, Statuses};
use self::head::Asked;
pub(super) use self::head::{Head, header};
use self::reference::References;
pub(super) use self::reply::read_reply;
use self::reply::{KnownReply, Whole, end, read_head};
use self::script::{Choice, Closing, Sheet, Written};
pub use self::script::{Header, Listed, Method, Request, Script, Values};
use super::{Entry, Protocol};
use crate::Options;
use crate::announce::EdgeAnnouncer;
use crate::crowd::Question;
use crate::engine::{Engine, Loading};
use crate::failure::Failure;
use crate::pattern::{self, Pattern};
use crate::request::{Client, Reply, read_more, send_all};

/// The bounds of a connection's read buffer: a head must fit into it, a body need not.
const BUFFER_SIZES: std::ops::RangeInclusive<usize> = 4 * 1024..=64 * 1024;

/// The least size of a connection's buffer, if replies may have other heads than the first.
const BUFFER_OF_SEVERAL: usize = 16 * 1024;

/// The longest body that the client collects, either as a reference or to search for an expression.
const LONGEST_BODY: usize = 1 << 30;

/// After a body has been collected, a buffer of at most this size is kept for the next.
const KEPT_BODY: usize = 1 << 20;

pub(crate) static ENTRY: Entry = Entry {
    page: Some("/"),
    port: Some(80),
    uses_all_addresses: true,
    ..Entry::plain("http", |page| {
        let script = Script::of_page(&page);
        asking(page, script, Version::One)
    })
};

/// The version of HTTP on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// HTTP/1.1.
    One,
    /// HTTP/2.
    Two,
}

/// A resource of an HTTP/1.1 server. A load of `http` GETs the page again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The value of the `Host` header: the authority of the URL as written.
    pub host: String,
    /// The request target: an absolute path, with a query if there is one.
    pub path: String,
}

/// A load of the requests of `script`, to the server of `page`.
pub(crate) fn asking(page: Page, script: Script, version: Version) -> Arc<dyn Protocol> {
    Arc::new(Asking { page, script, version })
}

/// A load of GETs of `page` by HTTP/2.
pub(crate) fn by_http2(page: Page) -> Arc<dyn Protocol> {
    let script = Script::of_page(&page);
    asking(page, script, Version::Two)
}

/// The requests of a load of http.
#[derive(Debug)]
struct Asking {
    page: Page,
    script: Script,
    version: Version,
}

impl Protocol for Asking {
    fn service(&self) -> &'static str {
        ENTRY.name
    }

    fn page(&self) -> Option<&Page> {
        Some(&self.page)
    }

    fn version(&self) -> Version {
        self.version
    }

    fn problem(&self) -> Option<String> {
        let lacks = self.version == Version::Two && !cfg!(feature = "http2");
        lacks.then(|| {
            "this program was built without HTTP/2: build it with `--features http2`".to_owned()
        })
    }

    fn misfit(&self, options: &Options) -> Option<&'static str> {
        if self.version == Version::Two && options.pattern == Pattern::Trace {
            return Some("a recording is replayed by HTTP/1.1: write http:// or https://");
        }
        self.script.problem(options.connections)
    }

    fn question(&self) -> Option<Question> {
        if self.version == Version::Two {
            return None;
        }
        Some(question_of(self.script.first(&self.page), self.script.expectation().statuses))
    }

    fn load<'a>(&'a self, engine: &'a Engine, edges: EdgeAnnouncer) -> Loading<'a> {
        if engine.options.pattern == Pattern::Trace {
            return Box::pin(pattern::trace::load::<paced::Asked>(engine, edges));
        }
        #[cfg(feature = "http2")]
        if self.version == Version::Two {
            return http2::load(self, engine, edges);
        }
        let common = Arc::new(Common::new(self, &engine.options));
        Box::pin(async move {
            let mut outcome = pattern::load(engine, Http::new(common.clone()), edges).await?;
            outcome.held_up = common.held_up.load(Ordering::Relaxed);
            Ok(outcome)
        })
    }
}

/// The common state of a load's connections.
struct Common {
    script: Script,
    /// The requests of each row of values, or those of all connections.
    sheets: Vec<Arc<Sheet>>,
    references: References,
    /// The number of requests on a connection before its replacement.
    limit: Option<u32>,
    seed: u64,
    /// The number of replies with parts that came as far apart as a delayed acknowledgement is
    /// late.
    held_up: AtomicU64,
}

impl Common {
    fn new(Asking { page, script, .. }: &Asking, options: &Options) -> Self {
        let limit = options.requests_per_connection;
        let closing = match (options.keep_alive, limit) {
            (false, _) => Closing::Always,
            (true, Some(_)) => Closing::Last,
            (true, None) => Closing::Never,
        };
        let sheets = script.write(page, options.connections, closing);
        let requests = match script.expectation().body {
            ExpectedBody::Same => sheets.len() * script.len(),
            ExpectedBody::Any | ExpectedBody::Matching(_) => 0,
        };
        Self {
            script: script.clone(),
            sheets,
            references: References::new(requests),
            limit: limit.map(u32::from),
            seed: options.seed,
            held_up: AtomicU64::new(0),
        }
    }

    /// Whether the body of a reply is correct. The request has an index among the requests of all
    /// sheets.
    #[inline]
    fn judge(&self, request: usize, status: u16, body: &[u8]) -> Result<(), Failure> {
        match &self.script.expectation().body {
            ExpectedBody::Same => self.references.judge(request, status, body),
            ExpectedBody::Any => Ok(()),
            ExpectedBody::Matching(expression) if expression.is_match(body) => Ok(()),
            ExpectedBody::Matching(_) => {
                Err(Failure::WrongBytes("the expected expression is not in the body"))
            }
        }
    }

    /// The way to judge the body of a reply.
    fn judgement(&self, request: usize, status: u16) -> Judgement {
        match &self.script.expectation().body {
            ExpectedBody::Any => Judgement::Any,
            ExpectedBody::Matching(_) => Judgement::Whole,
            ExpectedBody::Same => {
                let reference = self.references.of(request, status);
                reference.map_or(Judgement::Whole, Judgement::Same)
            }
        }
    }
}

/// The way to judge a body.
enum Judgement {
    /// Any body is correct.
    Any,
    /// The body must be this one.
    Same(Arc<[u8]>),
    /// The body must be collected first.
    Whole,
}

/// The client of `http` on one connection.
struct Http {
    common: Arc<Common>,
    /// The requests of this connection's row, and the index of the first one among the requests of
    /// all sheets.
    sheet: Arc<Sheet>,
    first: usize,
    choice: Option<Choice>,
    /// The index of the last sent request in the sheet.
    current: usize,
    /// The number of requests on the connection. Counted only under a limit.
    carried: u32,
    buffer: Box<[u8]>,
    known: KnownReply,
    /// A buffer for collected bodies.
    body: Vec<u8>,
}

impl Http {
    /// The client for the first request of a load.
    fn new(common: Arc<Common>) -> Self {
        Self::with_buffer(common, 0, *BUFFER_SIZES.end())
    }

    fn with_buffer(common: Arc<Common>, connection: usize, size: usize) -> Self {
        let row = connection % common.sheets.len();
        Self {
            sheet: common.sheets[row].clone(),
            first: row * common.script.len(),
            choice: common.script.choice(common.seed, connection),
            current: 0,
            carried: 0,
            buffer: vec![0; size].into(),
            known: KnownReply::default(),
            body: Vec::new(),
            common,
        }
    }

    /// Whether the last request was the connection's last.
    #[inline]
    fn is_last(&self) -> bool {
        self.common.limit.is_some_and(|limit| self.carried >= limit)
    }

    /// Reads a reply that differs from the last one. The first `filled` bytes of the reply are in
    /// the buffer.
    async fn read(&mut self, stream: &mut TcpStream, filled: usize) -> Result<Whole, Failure> {
        let asked = self.sheet[self.current].asked;
        let begun = read_head(stream, &mut self.buffer, filled, asked).await?;
        let status = begun.head.status;
        if !self.common.script.expectation().statuses.contains(status) {
            return Err(Failure::WrongStatus(status));
        }
        self.known.learn(&begun.head, asked, &self.buffer);
        let request = self.first + self.current;
        match self.common.judgement(request, status) {
            Judgement::Any => begun.finish(stream, &mut self.buffer, |_| Ok(())).await,
            Judgement::Same(reference) => {
                let mut position = 0;
                let compare = |data: &[u8]| {
                    let end = position + data.len();
                    if reference.get(position..end) != Some(data) {
                        return Err(Failure::WrongBytes(
                            "the body is not the one of the first reply",
                        ));
                    }
                    position = end;
                    Ok(())
                };
                let whole = begun.finish(stream, &mut self.buffer, compare).await?;
                match position == reference.len() {
                    true => Ok(whole),
                    false => Err(Failure::WrongBytes(
                        "the body is shorter than the one of the first reply",
                    )),
                }
            }
            Judgement::Whole => {
                let mut body = std::mem::take(&mut self.body);
                let collect = |data: &[u8]| {
                    if body.len() + data.len() > LONGEST_BODY {
                        return Err(Failure::Malformed("the body is longer than 1 GiB"));
                    }
                    body.extend_from_slice(data);
                    Ok(())
                };
                let whole = begun.finish(stream, &mut self.buffer, collect).await?;
                self.common.judge(request, status, &body)?;
                if body.capacity() <= KEPT_BODY {
                    body.clear();
                    self.body = body;
                }
                Ok(whole)
            }
        }
    }
}

impl Client for Http {
    async fn learn(&mut self, stream: &mut TcpStream) -> Result<(), Failure> {
        send_all(stream, &self.sheet[self.current].bytes).await?;
        let reply = self.receive(stream).await?;
        // Room for a whole reply with a longer head, plus an excess byte, in one read.
        let fitting = usize::try_from(reply.bytes).unwrap_or(usize::MAX).saturating_add(1024);
        let is_single = self.common.script.len() == 1;
        let least = if is_single { *BUFFER_SIZES.start() } else { BUFFER_OF_SEVERAL };
        self.buffer = vec![0; fitting.clamp(least, *BUFFER_SIZES.end())].into();
        Ok(())
    }

    fn for_connection(&self, number: usize) -> Self {
        Self::with_buffer(self.common.clone(), number, self.buffer.len())
    }

    fn connected(&mut self) {
        self.carried = 0;
    }

    async fn send(&mut self, stream: &mut TcpStream) -> Result<(), Failure> {
        if let Some(choice) = &mut self.choice {
            self.current = choice.next();
        }
        if self.common.limit.is_some() {
            self.carried += 1;
        }
        let request = &self.sheet[self.current];
        let bytes = if self.is_last() { request.last() } else { &request.bytes };
        send_all(stream, bytes).await
    }

    async fn receive(&mut self, stream: &mut TcpStream) -> Result<Reply, Failure> {
        let filled = read_more(stream, &mut self.buffer, 0).await?;
        let asked = self.sheet[self.current].asked;
        let reply = match self.known.body_of(&self.buffer[..filled], asked) {
            Some(body) => {
                self.common.judge(self.first + self.current, self.known.status, body)?;
                end(stream, self.known.closing, filled as u64, None).await?
            }
            None => {
                let read = self.read(stream, filled).await;
                let Whole { reply, is_held_up } = read.inspect_err(|_| self.known.forget())?;
                if is_held_up {
                    self.common.held_up.fetch_add(1, Ordering::Relaxed);
                }
                reply
            }
        };
        Ok(Reply { open: reply.open && !self.is_last(), ..reply })
    }
}

impl Clone for Http {
    fn clone(&self) -> Self {
        self.for_connection(0)
    }
}

/// The crowd's question about a page.
pub(super) fn question(page: &Page) -> Question {
    let script = Script::of_page(page);
    question_of(script.first(page), script.expectation().statuses)
}

/// The crowd's question, and the statuses that it accepts. Bodies are not compared.
fn question_of(request: Written, statuses: Statuses) -> Question {
    let asked = request.asked;
    Question::new(request.bytes.into(), move |stream| Box::pin(take(stream, asked, statuses)))
}

async fn take(stream: &mut TcpStream, asked: Asked, statuses: Statuses) -> Result<Reply, Failure> {
    let mut buffer = vec![0; *BUFFER_SIZES.end()];
    let begun = read_head(stream, &mut buffer, 0, asked).await?;
    match begun.head.status {
        status if !statuses.contains(status) => Err(Failure::WrongStatus(status)),
        _ => Ok(begun.finish(stream, &mut buffer, |_| Ok(())).await?.reply),
    }
}

/// The request for a page.
pub(super) fn request(page: &Page, keep_alive: bool) -> Arc<[u8]> {
    let closing = if keep_alive { Closing::Never } else { Closing::Always };
    let sheets = Script::of_page(page).write(page, 1, closing);
    Arc::from(&*sheets[0][0].bytes)
}

/// The authority and the path of a URL without its scheme. A client does not send the fragment.
pub(crate) fn authority_and_path(rest: &str) -> (&str, &str) {
    let rest = rest.split('#').next().unwrap_or_default();
    match rest.find(['/', '?']) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_says_when_it_is_the_last() {
        let page = Page { host: "127.0.0.1".to_owned(), path: "/x?y".to_owned() };
        let text = |keep_alive| String::from_utf8(request(&page, keep_alive).to_vec()).unwrap();
        assert!(text(true).starts_with("GET /x?y HTTP/1.1\r\nHost: 127.0.0.1\r\n"));
        assert!(text(true).ends_with("\r\n\r\n") && !text(true).contains("Connection"));
        assert!(text(false).ends_with("Connection: close\r\n\r\n"));
    }
}
