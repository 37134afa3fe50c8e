//! The http service: files beneath a directory, or built-in pages, over HTTP/1.1 and HTTP/1.0 (RFC
//! 9110, RFC 9112). Services that extend it add pages made for each request.
//!
//! ```text
//!            input                      site                            output
//!   read ──> one buffer ──> parse ──┬─> memo, cache or disk ──┬─> reply ──> one buffer ──> write
//!            (input)       (request)│   (memo, cache, site)   │   (page, reply)  (wire)
//!                                   └─> body ──> a page made ─┘
//!                                       (body)   (pages)
//! ```
//!
//! [`Http::serve`] is the whole service. It waits in four places only: for bytes to arrive, for a
//! file, for a page that is being made, and for bytes to leave. The other modules are plain
//! functions from bytes to bytes. Replies to pipelined requests are gathered. They leave together
//! when no whole request is left in the buffer.
//!
//! A request that repeats the last one on its connection is answered without an allocation, a lock
//! or an atomic read-modify-write.
//!
//! [`Limits`] bounds everything that a client sends. If an error leaves the start of the next
//! request in doubt, the connection ends, but the reply still arrives.

mod access;
mod authority;
mod body;
mod cache;
mod conditional;
mod date;
mod demo;
mod fields;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod grammar;
mod limits;
mod memo;
mod mime;
mod page;
mod pages;
pub mod parts;
mod range;
mod receive;
mod reply;
mod request;
mod site;
pub mod status;
mod target;
mod wire;

use std::{io, pin::Pin, sync::Arc, time::Duration};

use duality_runtime::{
    handler::Handler,
    net::{Input, TcpStream},
    task,
};

pub(crate) use access::Logged;
pub(crate) use body::{Chunks, Progress};
pub use demo::demo_files;
pub(crate) use fields::{Codings, Framing, Persistence, content_length, is_on_behalf};
pub use limits::{Config, HEADER_FIELDS, Limits};
pub use pages::{Answer, Asked, Offer, Pages};
pub use reply::Reply;
pub(crate) use request::{Raw, Unread, has_bare_line_feed, is_head, read, too_long};
pub(crate) use target::split_absolute;
pub(crate) use wire::{Deadline, Filled, Wire};

use crate::{Entry, Setting, Setup, SetupError, clock};
use limits::REFUSAL_ROOM;
use memo::Memo;
use parts::BodyPlan;
use range::Part;
use receive::{Taken, take_body};
use request::{Method, Parsed, Request};
use site::{Looked, Site};
use status::Status;
use wire::Again;

/// The http service, as the registry lists it.
pub const ENTRY: Entry = Entry {
    name: "http",
    summary: "serves the files of a directory, or built-in pages",
    protocol: "RFC 9110 and RFC 9112 (HTTP/1.0 and HTTP/1.1)",
    open: |setup| Ok(Http::set_up(setup)?.handler()),
    settings: &[
        Setting::Root,
        Setting::HeadTime,
        Setting::BodyTime,
        Setting::IdleTime,
        Setting::WriteTime,
    ],
    logs_requests: true,
    ..Entry::PLAIN
};

/// How long [`Http::refuse`] reads on at most, so that the client can read the reason.
pub const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// An http service, shared by all its connections; a clone is the same service.
///
/// A server opens the service before it starts processes, so that all have the same root. Each
/// process has its own cache.
#[derive(Clone)]
pub struct Http {
    shared: Arc<Shared>,
}

struct Shared {
    pages: Option<Box<dyn Pages>>,
    site: Site,
    limits: Limits,
}

/// Answers any request of a connection by 503, and ends the connection within [`REFUSAL_TIME`].
pub(crate) async fn refuse(mut stream: TcpStream, limits: &Limits) -> io::Result<()> {
    let mut wire = Wire::new(&mut stream, limits)?;
    let limit = limits.linger_time.min(REFUSAL_TIME);
    // The server reads the request only because a close with unread bytes could destroy the reply.
    wire.end_with(Logged::of(&[]), &parts::refusal(), false, &mut Input::new(REFUSAL_ROOM), limit)
        .await
}

impl Http {
    /// Opens the root directory, or takes the built-in pages if `config` names none.
    ///
    /// # Errors
    ///
    /// The root is not a directory that can be opened.
    pub fn new(config: Config) -> io::Result<Self> {
        match config.root {
            Some(_) => Http::open(config, None),
            None => Http::open(config, Some(Box::new(demo::Echo))),
        }
    }

    /// The same service with `pages` in front of the files.
    ///
    /// # Errors
    ///
    /// The errors of [`Http::new`].
    pub fn with_pages(config: Config, pages: impl Pages + 'static) -> io::Result<Self> {
        Http::open(config, Some(Box::new(pages)))
    }

    fn open(config: Config, pages: Option<Box<dyn Pages>>) -> io::Result<Self> {
        let site = Site::open(&config)?;
        Ok(Http { shared: Arc::new(Shared { pages, site, limits: config.limits }) })
    }

    /// A service of the built-in pages: `/` of 305 bytes, and a few more that `/` names. `/` sends
    /// back posted bodies.
    #[must_use]
    pub fn demo() -> Self {
        let (pages, site) = (Some(Box::new(demo::Echo) as _), Site::Demo(demo::Demo::new()));
        Http { shared: Arc::new(Shared { pages, site, limits: Limits::default() }) }
    }

    /// The service that `setup` describes.
    ///
    /// # Errors
    ///
    /// The root is not a directory that can be opened.
    pub fn set_up(setup: &Setup) -> Result<Self, SetupError> {
        // The error names the directory and the remedy.
        Http::new(setup.http()).map_err(|error| SetupError::Choice { flags: "--root", error })
    }

    /// The handler of each connection, which serves or refuses it.
    pub(crate) fn handler(&self) -> Handler {
        let (http, refusing) = (self.clone(), self.clone());
        Handler::new(move |stream| http.serve(stream)).refusing(move |stream| {
            let http = refusing.clone();
            async move { http.refuse(stream).await }
        })
    }

    /// Answers the requests on one connection until either side ends it.
    ///
    /// # Errors
    ///
    /// The connection broke, or the client took a reply too slowly. A bad request gets a reply, and
    /// is not an error here.
    pub fn serve(
        &self,
        mut stream: TcpStream,
    ) -> impl Future<Output = io::Result<()>> + Send + use<> {
        let http = self.clone();
        // Not an `async fn`: its future would hold the stream twice, as an argument and as a local
        // variable.
        async move {
            let mut wire = Wire::new(&mut stream, &http.shared.limits)?;
            let served = http.serve_requests(&mut wire).await;
            if served.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut) {
                wire.reset();
            }
            served
        }
    }

    /// An idle connection is as large as the largest wait here. So no wait keeps a request. Rare
    /// waits, and waits that occur once in a connection, are [`boxed`].
    async fn serve_requests(&self, wire: &mut Wire<'_>) -> io::Result<()> {
        let limits = &self.shared.limits;
        let mut input = Input::new(limits.head);
        let mut memo = Memo::default();
        let mut requests_left = limits.requests;
        loop {
            task::stage("http: request").await;
            wire.make_room().await?;
            wire.begin_request_if(!input.is_empty());
            let mut deadline = Deadline::new(limits.head_time);
            let next = loop {
                let looked = if input.is_empty() {
                    Look::Partial // The silence between two requests.
                } else {
                    // One call, on a stack that is in the processor's cache.
                    task::leaf(|| look(input.unused(), requests_left, &memo, wire))
                };
                match looked {
                    Look::Answered(done) => {
                        break done.settle(&mut memo, &mut input, requests_left);
                    }
                    Look::Begun(begun) => {
                        let (kept, wire) = (&mut memo, &mut *wire);
                        let done = boxed(move || self.go_on(begun, kept, wire)).await?;
                        break done.settle(&mut memo, &mut input, requests_left);
                    }
                    Look::WithBody(length) => {
                        let head = Box::from(&input.unused()[..length as usize]);
                        let last = requests_left <= 1;
                        let answer = || self.take_and_answer(head, last, wire, &mut input);
                        break boxed(answer).await?;
                    }
                    Look::Bad(status) => return boxed(|| reject(status, wire, &mut input)).await,
                    Look::Partial => {}
                }
                if input.is_full() {
                    let status = request::too_long(input.unused());
                    return boxed(|| reject(status, wire, &mut input)).await;
                }
                // A connection may be idle for long. A request that has begun has a deadline.
                let idle = input.is_empty();
                let left = if idle { Some(limits.idle_time) } else { deadline.left() };
                let filled = match left {
                    Some(left) => wire.fill(&mut input, left).await?,
                    None => Filled::TimedOut,
                };
                match filled {
                    Filled::Some => wire.begin_request_if(idle),
                    Filled::TimedOut if !idle => {
                        let status = &status::REQUEST_TIMEOUT;
                        return boxed(|| reject(status, wire, &mut input)).await;
                    }
                    Filled::End | Filled::TimedOut => return wire.flush().await,
                }
            };
            wire.answered_if(!matches!(next, Next::Over));
            requests_left = requests_left.saturating_sub(1);
            let is_over = match next {
                Next::Request => continue,
                Next::Over => true,
                Next::End => wire.finish().await?,
                Next::Linger => false,
            };
            if !is_over {
                boxed(|| wire.linger(&mut input, limits.linger_time)).await?;
            }
            return Ok(());
        }
    }

    /// Answers a request that needs a wait, or sends the rest of its answer.
    async fn go_on(
        &self,
        begun: Box<Begun<'_>>,
        memo: &mut Memo,
        wire: &mut Wire<'_>,
    ) -> io::Result<Done> {
        match *begun {
            Begun::New(done, request) => {
                let persistence = self.answer(request, &[], done.persistence, memo, wire).await?;
                Ok(Done { persistence, ..done })
            }
            Begun::Long(done, rest) => {
                if let Some(page) = memo.page() {
                    wire.send(page.content(), rest).await?;
                }
                Ok(done)
            }
        }
    }

    /// Answers any request of a connection beyond the limit by 503. Ends the connection within
    /// [`REFUSAL_TIME`].
    ///
    /// # Errors
    ///
    /// The connection broke.
    pub async fn refuse(&self, stream: TcpStream) -> io::Result<()> {
        refuse(stream, &self.shared.limits).await
    }

    /// Reads the body of a request, then answers the request.
    ///
    /// The body is read first even if no page wants it, so that a malformed body gets the right
    /// reply. An earlier reply could not be withdrawn.
    async fn take_and_answer(
        &self,
        head: Box<[u8]>,
        last: bool,
        wire: &mut Wire<'_>,
        input: &mut Input,
    ) -> io::Result<Next> {
        input.consume(head.len());
        let Parsed::Complete(request) = request::parse(&head) else {
            return Err(io::Error::other("a head was read differently when it was read again"));
        };
        let (limits, mut memo) = (&self.shared.limits, Memo::default());
        let is_head = request.method == Method::Head;
        let room = match self.plan_body(&request) {
            BodyPlan::Read { room } => room,
            BodyPlan::TooLong => {
                wire.reject(&status::CONTENT_TOO_LARGE, is_head, input).await?;
                return Ok(Next::Over);
            }
            BodyPlan::Leave => {
                self.answer(request, &[], Persistence::Close, &mut memo, wire).await?;
                return Ok(Next::Linger);
            }
        };
        // A client that has begun to send the body does not wait for "100 Continue".
        if request.expects_continue && input.is_empty() {
            wire.write_continue();
        }
        let body = match take_body(request.body, room, wire, input, limits).await? {
            Taken::Whole(body) => body,
            Taken::Bad(status) => {
                wire.reject(status, is_head, input).await?;
                return Ok(Next::Over);
            }
            Taken::End => return Ok(Next::Over),
        };
        let persistence = if last { Persistence::Close } else { request.persistence };
        let persistence = self.answer(request, &body, persistence, &mut memo, wire).await?;
        Ok(Next::after(persistence, !last && input.is_empty()))
    }

    /// Answers a request for a page that is not in the memo. Returns whether the connection
    /// persists. The reply is gathered, or sent if it is long.
    async fn answer(
        &self,
        request: Request<'_>,
        body: &[u8],
        persistence: Persistence,
        memo: &mut Memo,
        wire: &mut Wire<'_>,
    ) -> io::Result<Persistence> {
        task::stage("http: reply").await;
        let now = clock::seconds();
        let made = match self.shared.pages.as_deref() {
            Some(pages) => pages::answer(pages, &request, body, Some(wire.client())).await,
            None => None,
        };
        let found = match made.or_else(|| pages::to_method_of_files(&request)) {
            Some(reply) => Err(reply),
            None => match self.shared.site.look(request.target, now) {
                Looked::Known(found) => found,
                Looked::Unknown(errand) => Box::pin(self.shared.site.run(errand)).await,
            },
        };
        // All slow work is done by now. A drain may have begun meanwhile.
        let persistence = persistence.unless_draining();
        match found {
            Ok(page) => {
                let page = memo.keep(request.target, page, now);
                if let Some(rest) = wire.answer(page, &request, persistence, now) {
                    wire.send(page.content(), rest).await?;
                }
            }
            Err(reply) => wire.reply(&reply, &request, persistence, now).await?,
        }
        Ok(persistence)
    }
}

/// Boxes a future. The function is not inlined, because the caller's frame stays while the
/// connection is served.
#[inline(never)]
fn boxed<F>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::pin(make())
}

/// Answers a bad or incomplete head, and ends the connection.
async fn reject(status: &'static Status, wire: &mut Wire<'_>, input: &mut Input) -> io::Result<()> {
    let is_head = request::is_head(input.unused());
    wire.reject(status, is_head, input).await
}

/// The state of a connection's input. The value fits in two registers. A larger value would go
/// through a stack that is in no cache, which takes longer than allocating a box.
enum Look<'r> {
    /// No whole request yet.
    Partial,
    /// A bad request, with the status of its reply. Nothing can be read after it.
    Bad(&'static Status),
    /// A request for the page in the memo. It has been answered.
    Answered(Done),
    /// A request that takes a wait.
    Begun(Box<Begun<'r>>),
    /// A request with a body, and the length of its head.
    WithBody(u32),
}

const _: () = assert!(size_of::<Look<'_>>() == 16, "two words");

/// A request that takes a wait to answer.
enum Begun<'r> {
    /// A request for the page in the memo. This part must still be sent.
    Long(Done, Part),
    /// Any other request.
    New(Done, Request<'r>),
}

/// Looks at the received bytes, and answers a request that needs no wait.
fn look<'r>(received: &'r [u8], requests_left: u32, memo: &Memo, wire: &mut Wire<'_>) -> Look<'r> {
    let request = match request::parse(received) {
        Parsed::Complete(request) => request,
        Parsed::Bad(status) => return Look::Bad(status),
        Parsed::Partial => return Look::Partial,
    };
    if !matches!(request.body, Framing::NONE) {
        return Look::WithBody(request.head.len() as u32);
    }
    let persistence = if requests_left <= 1 { Persistence::Close } else { request.persistence };
    let persistence = persistence.unless_draining();
    let done = Done { length: request.head.len() as u32, persistence };
    match wire.answer_again(memo, &request, persistence) {
        Again::Done => Look::Answered(done),
        Again::Rest(rest) => Look::Begun(Box::new(Begun::Long(done, rest))),
        Again::No => Look::Begun(Box::new(Begun::New(done, request))),
    }
}

/// An answered request that has been read to its end.
#[derive(Clone, Copy)]
struct Done {
    length: u32,
    persistence: Persistence,
}

impl Done {
    /// Takes the request out of `input`, and returns how the connection goes on. `requests_left`
    /// includes this request.
    fn settle(self, memo: &mut Memo, input: &mut Input, requests_left: u32) -> Next {
        memo.release_file();
        input.consume(self.length as usize);
        Next::after(self.persistence, requests_left > 1 && input.is_empty())
    }
}

/// How a connection goes on after a request.
enum Next {
    Request,
    /// The connection ends, and the client is probably not sending.
    End,
    /// The connection ends, but the client may still be sending.
    Linger,
    /// The connection has ended.
    Over,
}

impl Next {
    /// The next step after a request has been read to its end and answered. `is_quiet`: nothing
    /// followed the request, and nothing is likely to follow.
    fn after(persistence: Persistence, is_quiet: bool) -> Self {
        match persistence {
            Persistence::Implied | Persistence::Announced => Next::Request,
            Persistence::Close if is_quiet => Next::End,
            Persistence::Close => Next::Linger,
        }
    }
}
