//! The service without its waits, for servers that wait in another way, such as the state machines
//! of `crates/handwritten`. The parts are plain functions from bytes to bytes, and [`Http::serve`]
//! uses the same functions.

use std::sync::Arc;

use duality_runtime::block_on;

pub use super::{
    body::{Body, Progress},
    fields::{Framing, Persistence},
    limits::{GATHERED, REFUSAL_ROOM},
    memo::Memo,
    page::{Content, Page},
    range::Part,
    reply::CONTINUE,
    request::{Method, Parsed, Request, is_head, parse, too_long},
    site::{Errand, Looked},
};
pub use crate::clock::seconds;
pub use duality_runtime::net::Input;

use super::{
    Http, Limits, Reply,
    pages::{self, Admission},
    status,
};

/// The treatment of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyPlan {
    /// The body is read before the request is answered.
    Read {
        /// The most bytes to keep. `None` if no page wants the body.
        room: Option<usize>,
    },
    /// The body is refused with 413, and the connection ends.
    TooLong,
    /// A client that waits for "100 Continue" gets its reply instead. The client may or may not
    /// send the body, so the connection has to end.
    Leave,
}

impl Http {
    /// The limits on clients.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// The treatment of the body of a request with a body.
    #[must_use]
    pub fn plan_body(&self, request: &Request<'_>) -> BodyPlan {
        let room = match self.shared.pages.as_deref().map(|pages| pages::admit(pages, request)) {
            Some(Admission::Post(longest)) => Some(longest),
            _ => None,
        };
        let limit = self.shared.limits.body;
        let longest = room.map_or(limit, |room| limit.min(room as u64));
        if matches!(request.body, Framing::Length(length) if length > longest) {
            BodyPlan::TooLong
        } else if request.expects_continue && room.is_none() {
            BodyPlan::Leave
        } else {
            BodyPlan::Read { room }
        }
    }

    /// The reply that is made for this request alone. `None` if the request is for a page of the
    /// site.
    ///
    /// If a page waits, this kernel thread waits too. The pages that come with http do not wait.
    #[must_use]
    pub fn made(&self, request: &Request<'_>, body: &[u8]) -> Option<Reply> {
        let pages = self.shared.pages.as_deref();
        let reply = pages.and_then(|pages| block_on(pages::answer(pages, request, body, None)));
        reply.or_else(|| pages::to_method_of_files(request))
    }

    /// The known reply to a target in the second `now`.
    #[must_use]
    pub fn look(&self, target: &str, now: u64) -> Looked {
        self.shared.site.look(target, now)
    }

    /// Looks on the disk for a page that [`look`](Self::look) did not know. Blocks this kernel
    /// thread.
    ///
    /// # Errors
    ///
    /// The reply to send instead of the page.
    pub fn run(&self, errand: Errand) -> Result<Arc<Page>, Reply> {
        block_on(self.shared.site.run(errand))
    }
}

/// The reply to a connection beyond the limit.
#[must_use]
pub fn refusal() -> Reply {
    Reply::from(&status::SERVICE_UNAVAILABLE).with("Retry-After", "1")
}
