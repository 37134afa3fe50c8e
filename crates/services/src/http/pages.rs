//! Pages that are made anew for each request, in front of the files. Services that extend http
//! provide them.
//!
//! ```text
//!   head ──> offer ──> screen ──> body is read ──> answer ──> reply
//!              │ no such page                        │ no such page
//!              └────────────> the site <─────────────┘
//! ```

use std::pin::Pin;

use duality_runtime::net::TcpStream;

use super::{
    reply::Reply,
    request::{self, Method, Request},
    status, target,
};
use crate::client::Client;

/// Pages that all connections share. [`Http::with_pages`](super::Http::with_pages) serves them.
pub trait Pages: Send + Sync {
    /// The methods that the page at `path` takes; `path` is as in [`Asked`]. `None` if there is no
    /// such page. Then the server looks for a file.
    ///
    /// The server calls `offer` for every target that is not in memory, so `offer` should be fast.
    fn offer(&self, path: &str) -> Option<Offer>;

    /// Looks at the head of a POST before its body is read, in order to refuse it.
    ///
    /// # Errors
    ///
    /// The reply that refuses the request.
    fn screen(&self, asked: &Asked<'_>) -> Result<(), Reply> {
        let _ = asked;
        Ok(())
    }

    /// Makes the reply. `None` if there is no such page after all. Then the server looks for a
    /// file.
    fn answer<'p>(&'p self, asked: Asked<'p>) -> Answer<'p>;
}

/// A page in the making.
pub type Answer<'p> = Pin<Box<dyn Future<Output = Option<Reply>> + Send + 'p>>;

/// The requests that a page allows, besides GET, HEAD and OPTIONS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The most bytes in the body of a POST. `None` if the page takes no POST.
    /// [`Limits::body`](super::Limits::body) bounds all bodies too.
    pub post: Option<usize>,
}

/// A request for a page.
#[derive(Clone, Copy)]
pub struct Asked<'r> {
    /// Whether the request is a POST. Otherwise it is a GET or a HEAD. The reply to a HEAD loses
    /// its body later.
    pub is_post: bool,
    /// The page's path, decoded and without a slash at the beginning. Single slashes join the
    /// segments, and no segment is empty, `.` or `..`. There are no control characters. A slash at
    /// the end of the target stands for `index.html`.
    pub path: &'r str,
    /// The text after the question mark, as it came.
    pub query: &'r str,
    /// The body of a POST.
    pub body: &'r [u8],
    head: &'r [u8],
    stream: Option<&'r TcpStream>,
}

impl<'r> Asked<'r> {
    /// The client, for a page that waits for a store on its behalf. See [`Client::of`].
    #[must_use]
    pub fn client(&self, serves_half_closed: bool) -> Client<'r> {
        let of = |stream| Client::of(stream, serves_half_closed);
        self.stream.map(of).unwrap_or_default()
    }

    /// The value of a header field. `None` if the request does not have it.
    ///
    /// # Errors
    ///
    /// A reply of 400 if the field came more than once.
    pub fn field(&self, name: &str) -> Result<Option<&'r [u8]>, Reply> {
        request::field(self.head, name).map_err(Reply::from)
    }
}

/// The requests that a file allows.
const FILES_ALLOW: &str = "GET, HEAD, OPTIONS";

/// The answer to the head of a request.
pub(super) enum Admission {
    /// The request is not for a page.
    Elsewhere,
    /// The request is for a page, which takes a body of at most so many bytes.
    Post(usize),
    /// The request is for a page, which takes no body.
    Get,
    Settled(Reply),
}

/// Judges a request by its head.
pub(super) fn admit(pages: &dyn Pages, request: &Request<'_>) -> Admission {
    let Ok(resolved) = target::resolve(request.target) else {
        return Admission::Elsewhere;
    };
    // The target is not a page, even if it looks like the path of one.
    if request.method == Method::Connect {
        return Admission::Elsewhere;
    }
    let Some(offer) = pages.offer(&resolved.path) else {
        return Admission::Elsewhere;
    };
    let (Method::Post, Some(longest)) = (request.method, offer.post) else {
        let allow = if offer.post.is_some() { "GET, HEAD, POST, OPTIONS" } else { FILES_ALLOW };
        return match Reply::to_method(request.method, allow) {
            None => Admission::Get,
            Some(reply) => Admission::Settled(unstored(reply)),
        };
    };
    match pages.screen(&asked(request, &resolved, &[], None)) {
        Ok(()) => Admission::Post(longest),
        Err(reply) => Admission::Settled(unstored(reply)),
    }
}

/// The reply to a request with its body, which came by this stream. `None` if the request is not
/// for a page.
pub(super) async fn answer(
    pages: &dyn Pages,
    request: &Request<'_>,
    body: &[u8],
    stream: Option<&TcpStream>,
) -> Option<Reply> {
    match admit(pages, request) {
        Admission::Elsewhere => return None,
        Admission::Settled(reply) => return Some(reply),
        Admission::Get | Admission::Post(_) => {}
    }
    let resolved = target::resolve(request.target).ok()?;
    pages.answer(asked(request, &resolved, body, stream)).await.map(unstored)
}

/// The reply to a request for a file with a method other than GET or HEAD, for any target. `None`
/// for a GET or HEAD.
pub(super) fn to_method_of_files(request: &Request<'_>) -> Option<Reply> {
    let reply = Reply::to_method(request.method, FILES_ALLOW)?;
    if request.has_its_own_target() {
        return Some(reply);
    }
    match target::resolve(request.target) {
        Err(refusal) => Some(refusal.into()),
        Ok(_) if request.method == Method::Connect => Some((&status::BAD_REQUEST).into()),
        Ok(_) => Some(reply),
    }
}

fn asked<'r>(
    request: &Request<'r>,
    resolved: &'r target::Resolved<'r>,
    body: &'r [u8],
    stream: Option<&'r TcpStream>,
) -> Asked<'r> {
    let query = resolved.query.strip_prefix('?').unwrap_or_default();
    let is_post = request.method == Method::Post;
    Asked { is_post, path: &resolved.path, query, body, head: request.head, stream }
}

/// Tells caches not to keep a page that was made for one request.
fn unstored(reply: Reply) -> Reply {
    reply.with("Cache-Control", "no-store")
}
