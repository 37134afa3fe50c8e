//! The http service: files beneath a directory, or built-in pages, by HTTP/1.1 and HTTP/1.0
//! (RFC 9110 and RFC 9112).
//!
//! ```text
//!            input                     site                           output
//!   read ──> one buffer ──> parse ──> memo, cache or disk ──> reply ──> one buffer ──> write
//!            (input)        (request)  (memo, cache, site)   (page, reply)  (wire)
//! ```
//!
//! [`Http::serve`] is the whole of it, from top to bottom. It waits in three places only: for bytes
//! to arrive, for a file, and for bytes to leave; the modules in between are plain functions from
//! bytes to bytes. Replies to pipelined requests are gathered and leave together once no whole
//! request is left in the buffer.
//!
//! A request that repeats the last one on its connection is answered without an allocation, a lock
//! or an atomic read-modify-write.
//!
//! Everything a client sends is bounded by [`Limits`]. After an error that leaves in doubt where
//! the next request begins, the connection ends, in such a way that the reply arrives.

mod body;
mod cache;
mod conditional;
mod date;
mod demo;
mod input;
mod limits;
mod memo;
mod mime;
mod page;
mod range;
mod reply;
mod request;
mod site;
mod status;
mod target;
mod wire;

use std::{io, sync::Arc};

use duality_runtime::net::TcpStream;

pub use limits::{Config, HEADER_FIELDS, Limits};

use crate::{Entry, clock};
use body::{Progress, Unread};
use input::Input;
use memo::Memo;
use reply::{Extra, Refusal};
use request::{Framing, Method, Parsed, Persistence, Request};
use site::Site;
use wire::{Deadline, Filled, Wire};

/// The http service, as the registry lists it.
pub const ENTRY: Entry = Entry {
    name: "http",
    summary: "serves the files of a directory, or built-in pages",
    protocol: "RFC 9110 and RFC 9112 (HTTP/1.0 and HTTP/1.1)",
    serves_files: true,
    persistent: true,
    shared_memory: false,
    concurrent_connections: false,
    store: false,
};

/// An http service, shared by all its connections; a clone is the same service.
///
/// A server that starts processes opens it before, so that all have the same root. Each process
/// then has its own cache.
#[derive(Clone)]
pub struct Http {
    shared: Arc<Shared>,
}

struct Shared {
    site: Site,
    limits: Limits,
}

impl Http {
    /// Opens the root directory, or takes the built-in pages where `config` names none.
    ///
    /// # Errors
    ///
    /// The root is not a directory that can be opened.
    pub fn new(config: Config) -> io::Result<Self> {
        let site = Site::open(&config)?;
        Ok(Http { shared: Arc::new(Shared { site, limits: config.limits }) })
    }

    /// Built-in pages: `/` of 305 bytes, and a few more that it names.
    #[must_use]
    pub fn demo() -> Self {
        let site = Site::Demo(demo::Demo::new());
        Http { shared: Arc::new(Shared { site, limits: Limits::default() }) }
    }

    /// Answers the requests on one connection until either side ends it.
    ///
    /// # Errors
    ///
    /// The connection broke, or the client took nothing of a reply for too long. Errors in what
    /// the client sends are answered, and are none here.
    pub async fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let limits = &self.shared.limits;
        let mut wire = Wire::new(stream, limits)?;
        let mut input = Input::new(limits.head);
        let mut memo = Memo::default();
        let mut requests_left = limits.requests;
        loop {
            let mut deadline = Deadline::new(limits.head_time);
            let request = loop {
                match request::parse(input.unused()) {
                    Parsed::Complete(request) => break request,
                    Parsed::Bad(status) => return wire.reject(status, &mut input, limits).await,
                    Parsed::Partial => {}
                }
                if input.is_full() {
                    let status = request::too_long(input.unused());
                    return wire.reject(status, &mut input, limits).await;
                }
                // A connection may be idle for long; a request, once begun, may not.
                let idle = input.is_empty();
                let left = if idle { Some(limits.idle_time) } else { deadline.left() };
                let filled = match left {
                    Some(left) => wire.fill(&mut input, left).await?,
                    None => Filled::TimedOut,
                };
                match filled {
                    Filled::Some => {}
                    Filled::TimedOut if !idle => {
                        return wire.reject(&status::REQUEST_TIMEOUT, &mut input, limits).await;
                    }
                    Filled::End | Filled::TimedOut => return wire.flush().await,
                }
            };

            let (head_length, framing) = (request.head_length, request.body);
            if matches!(framing, Framing::Length(length) if length > limits.body) {
                return wire.reject(&status::CONTENT_TOO_LARGE, &mut input, limits).await;
            }
            requests_left = requests_left.saturating_sub(1);
            // A client that waits for leave to send a body gets its answer instead, and since it
            // may send the body or not, the connection has to end there.
            let uncertain = request.expects_continue && framing != Framing::NONE;
            let last = uncertain || requests_left == 0;
            let persistence = if last { Persistence::Close } else { request.persistence };
            self.answer(&request, persistence, &mut memo, &mut wire).await?;
            input.consume(head_length);

            let skipped = skip_body(framing, &mut wire, &mut input, limits, persistence).await?;
            match (skipped, persistence) {
                (Skipped::Whole, Persistence::Implied | Persistence::Announced) => {}
                (Skipped::Whole, Persistence::Close) if input.is_empty() && !last => {
                    return wire.flush().await;
                }
                _ => return wire.linger(&mut input, limits).await,
            }
        }
    }

    /// Answers a request. The reply is gathered, or sent if it is long.
    async fn answer(
        &self,
        request: &Request<'_>,
        persistence: Persistence,
        memo: &mut Memo,
        wire: &mut Wire,
    ) -> io::Result<()> {
        wire.flush_if_much().await?;
        let now = clock::seconds();
        match request.method {
            Method::Get | Method::Head => {}
            Method::Known => {
                let allow = Extra { name: "Allow", value: "GET, HEAD".to_owned() };
                let refusal = Refusal::with(&status::METHOD_NOT_ALLOWED, allow);
                wire.refuse(&refusal, request, persistence, now);
                return Ok(());
            }
            Method::Unknown => {
                wire.refuse(&(&status::NOT_IMPLEMENTED).into(), request, persistence, now);
                return Ok(());
            }
        }
        let page = match memo.recall(request.target, now) {
            Some(page) => page,
            None => match self.shared.site.find(request.target, now).await {
                Ok(page) => memo.keep(request.target, page, now),
                Err(refusal) => {
                    wire.refuse(&refusal, request, persistence, now);
                    return Ok(());
                }
            },
        };
        wire.send(page, request, persistence, now).await?;
        memo.release_file();
        Ok(())
    }
}

/// What became of the body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Skipped {
    /// All of it has been read; what follows is the next request.
    Whole,
    /// It did not come, or is not well-formed: there cannot be a next request.
    Broken,
}

/// Reads the body of a request that has been answered, and drops it.
async fn skip_body(
    framing: Framing,
    wire: &mut Wire,
    input: &mut Input,
    limits: &Limits,
    persistence: Persistence,
) -> io::Result<Skipped> {
    let mut unread = Unread::new(framing, limits.body);
    let mut deadline = Deadline::new(limits.body_time);
    loop {
        match unread.skip(input.unused()) {
            Progress::Finished(length) => {
                input.consume(length);
                return Ok(Skipped::Whole);
            }
            Progress::Bad => return Ok(Skipped::Broken),
            Progress::Unfinished => input.consume(input.unused().len()),
        }
        // The end of the connection has been announced: nothing more is waited for.
        if persistence == Persistence::Close {
            return Ok(Skipped::Broken);
        }
        match deadline.left() {
            Some(left) if wire.fill(input, left).await? == Filled::Some => {}
            _ => return Ok(Skipped::Broken),
        }
    }
}
