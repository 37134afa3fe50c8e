//! The client of HTTP/2 (RFC 9113): the requests of a [`Script`](super::Script), and the checks of
//! HTTP/1.1. A connection has one request under way at a time, as with HTTP/1.1.
//!
//! Each request is read once from its bytes for HTTP/1.1. So each flag about requests is valid
//! here, too.

mod pipe;
mod session;

use std::sync::Arc;

use bytes::Bytes;
use duality_runtime::net::TcpStream;
use http::{HeaderName, HeaderValue, Method, Request, Uri, header};

use self::session::Http2Connection;
use super::script::Choice;
use super::{Asking, Common, ExpectedBody, KEPT_BODY, LONGEST_BODY};
use crate::announce::EdgeAnnouncer;
use crate::engine::{Engine, Loading};
use crate::failure::Failure;
use crate::pattern;
use crate::request::{Client, Reply};
use crate::{Error, Options};

/// The most headers of a request: those of a user, and those of the script.
const MOST_HEADERS: usize = 128;

/// Headers about the connection, which HTTP/2 does not have (RFC 9113, section 8.2.2). The host is
/// a part of the URI.
const OF_THE_CONNECTION: [HeaderName; 4] =
    [header::HOST, header::CONNECTION, header::TRANSFER_ENCODING, header::UPGRADE];

/// The error if a request has no form in HTTP/2.
const NOT_IN_HTTP2: &str = "a request cannot be sent by HTTP/2: check its path and its headers";

/// A request of HTTP/2.
struct Prepared {
    head: Request<()>,
    body: Bytes,
}

impl Prepared {
    /// Reads a request from its bytes for HTTP/1.1. `None` if HTTP/2 cannot carry the request.
    fn read(bytes: &[u8], secure: bool) -> Option<Self> {
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        let httparse::Status::Complete(length) = request.parse(bytes).ok()? else { return None };
        let host = request.headers.iter().find(|one| one.name.eq_ignore_ascii_case("host"))?;
        let uri = Uri::builder()
            .scheme(if secure { "https" } else { "http" })
            .authority(host.value)
            .path_and_query(request.path?)
            .build()
            .ok()?;
        let method = Method::from_bytes(request.method?.as_bytes()).ok()?;
        let mut head = Request::builder().uri(uri).method(method);
        for one in request.headers.iter() {
            let name = HeaderName::from_bytes(one.name.as_bytes()).ok()?;
            if !OF_THE_CONNECTION.contains(&name) {
                head = head.header(name, HeaderValue::from_bytes(one.value).ok()?);
            }
        }
        let body = Bytes::copy_from_slice(&bytes[length..]);
        Some(Self { head: head.body(()).ok()?, body })
    }
}

/// The client of HTTP/2 on one connection.
pub(super) struct Http2 {
    common: Arc<Common>,
    /// The requests of each row of values, as in [`Common`].
    rows: Arc<[Box<[Prepared]>]>,
    /// The row of this connection.
    row: usize,
    choice: Option<Choice>,
    /// The index of the last sent request in the row.
    current: usize,
    /// The number of requests on the connection.
    carried: u32,
    /// The connection's state. `None` before its first request.
    session: Option<Http2Connection>,
    /// A buffer for bodies.
    body: Vec<u8>,
}

impl Http2 {
    /// The client for the first request of a load.
    ///
    /// # Errors
    ///
    /// HTTP/2 cannot carry a request.
    pub(super) fn new(asking: &Asking, options: &Options) -> Result<Self, Error> {
        let common = Arc::new(Common::new(asking, options));
        let secure = options.target.is_secure();
        let rows = common.sheets.iter().map(|sheet| {
            sheet.iter().map(|written| Prepared::read(&written.bytes, secure)).collect()
        });
        let rows: Option<Vec<Box<[Prepared]>>> = rows.collect();
        let rows = rows.ok_or(Error::Options(NOT_IN_HTTP2))?.into();
        Ok(Self::on(common, rows, 0))
    }

    fn on(common: Arc<Common>, rows: Arc<[Box<[Prepared]>]>, connection: usize) -> Self {
        Self {
            row: connection % rows.len(),
            choice: common.script.choice(common.seed, connection),
            current: 0,
            carried: 0,
            session: None,
            body: Vec::new(),
            rows,
            common,
        }
    }

    /// Reads the reply, and checks it as the client of HTTP/1.1 does.
    async fn read(&mut self, stream: &mut TcpStream) -> Result<Reply, Failure> {
        let expectation = self.common.script.expectation();
        let statuses = expectation.statuses;
        let is_any = matches!(expectation.body, ExpectedBody::Any);
        let body = &mut self.body;
        let check = move |status| match statuses.contains(status) {
            true => Ok(()),
            false => Err(Failure::WrongStatus(status)),
        };
        let collect = |data: &[u8]| {
            if is_any {
                return Ok(());
            }
            if body.len() + data.len() > LONGEST_BODY {
                return Err(Failure::Malformed("the body is longer than 1 GiB"));
            }
            body.extend_from_slice(data);
            Ok(())
        };
        let Some(session) = &mut self.session else {
            return Err(Failure::Malformed("no request was sent"));
        };
        let answer = session.receive(stream, check, collect).await?;
        let request = self.row * self.common.script.len() + self.current;
        self.common.judge(request, answer.status, &self.body)?;
        let is_last = self.common.limit.is_some_and(|limit| self.carried >= limit);
        Ok(Reply { bytes: answer.bytes, open: answer.open && !is_last, first: answer.first })
    }
}

impl Client for Http2 {
    fn for_connection(&self, number: usize) -> Self {
        Self::on(self.common.clone(), self.rows.clone(), number)
    }

    fn connected(&mut self) {
        (self.session, self.carried) = (None, 0);
    }

    async fn send(&mut self, stream: &mut TcpStream) -> Result<(), Failure> {
        if let Some(choice) = &mut self.choice {
            self.current = choice.next();
        }
        self.carried = self.carried.saturating_add(1);
        let Prepared { head, body } = &self.rows[self.row][self.current];
        if self.session.is_none() {
            self.session = Some(Http2Connection::new()?);
        }
        match &mut self.session {
            Some(session) => session.send(stream, head.clone(), body).await,
            None => Ok(()),
        }
    }

    async fn receive(&mut self, stream: &mut TcpStream) -> Result<Reply, Failure> {
        let read = self.read(stream).await;
        match self.body.capacity() <= KEPT_BODY {
            true => self.body.clear(),
            false => self.body = Vec::new(),
        }
        read
    }
}

impl Clone for Http2 {
    fn clone(&self) -> Self {
        self.for_connection(0)
    }
}

/// Runs a load by HTTP/2.
pub(super) fn load<'a>(
    asking: &'a Asking,
    engine: &'a Engine,
    edges: EdgeAnnouncer,
) -> Loading<'a> {
    Box::pin(async move {
        let client = Http2::new(asking, &engine.options)?;
        pattern::load(engine, client, edges).await
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_keeps_what_is_not_about_the_connection() {
        let bytes = b"POST /a?b HTTP/1.1\r\nHost: here:81\r\nConnection: close\r\nX-Own: 1\r\n\
            Content-Length: 4\r\n\r\nbody";
        for (secure, uri) in [(false, "http://here:81/a?b"), (true, "https://here:81/a?b")] {
            let Prepared { head, body } = Prepared::read(bytes, secure).unwrap();
            assert_eq!((head.method().as_str(), head.uri().to_string()), ("POST", uri.to_owned()));
            let names: Vec<&str> = head.headers().keys().map(HeaderName::as_str).collect();
            assert_eq!(names, ["x-own", "content-length"]);
            assert_eq!(body, "body");
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for bytes in [
            "",
            "GET / HTTP/1.1\r\n",
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
        ] {
            assert!(Prepared::read(bytes.as_bytes(), false).is_none(), "{bytes:?}");
        }
    }
}
