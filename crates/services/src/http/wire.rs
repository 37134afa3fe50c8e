//! The network side of a connection. The wire gathers replies and sends them together.

use std::{
    io::{self, ErrorKind, IoSlice},
    mem,
    net::Shutdown,
    pin::Pin,
    time::{Duration, Instant},
};

use duality_runtime::{
    net::{Input, Output, TcpStream},
    task,
    time::{self, Elapsed, timeout},
};

use super::{
    access::Logged,
    fields::Persistence,
    limits::{GATHERED, Limits},
    memo::Memo,
    page::{Content, Page},
    range::Part,
    reply::{CONTINUE, Reply},
    request::{Method, Request},
    status::Status,
};
use crate::clock;

/// A stream and the replies that wait to be sent on it.
pub(crate) struct Wire<'l> {
    stream: &'l mut TcpStream,
    output: Output,
    limits: &'l Limits,
    /// The last read took all present bytes, and nothing has been sent since. So probably neither
    /// the client nor the kernel has bytes left to deliver.
    is_quiet: bool,
    /// The kernel knows for how long the client may take nothing.
    is_watched: bool,
    /// Requests with gathered replies.
    answered: u32,
}

/// The result of a wait for bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    Some,
    /// The client has closed its side, or the server is about to stop.
    End,
    /// The request took too long.
    TimedOut,
}

/// The result of a request that may be for the page in the memo.
pub(super) enum Again {
    /// The request is answered.
    Done,
    /// This part of the page must still be sent.
    Rest(Part),
    /// The request is for something else.
    No,
}

impl<'l> Wire<'l> {
    pub(crate) fn new(stream: &'l mut TcpStream, limits: &'l Limits) -> io::Result<Self> {
        stream.set_write_timeout(Some(limits.write_time))?;
        Ok(Wire {
            stream,
            output: Output::new(),
            limits,
            is_quiet: false,
            is_watched: false,
            answered: 0,
        })
    }

    /// Sends the gathered bytes, then waits up to `limit` for more to read.
    pub(crate) async fn fill(&mut self, input: &mut Input, limit: Duration) -> io::Result<Filled> {
        self.flush().await?;
        self.stream.set_read_timeout(Some(limit))?;
        match self.stream.fill(input).await {
            Ok(0) => Ok(Filled::End),
            Ok(_) => {
                self.is_quiet = input.has_all();
                Ok(Filled::Some)
            }
            Err(error) if error.kind() == ErrorKind::TimedOut => Ok(Filled::TimedOut),
            Err(error) => Err(error),
        }
    }

    /// If `has_come`, notes that the first bytes of a request have come.
    pub(crate) fn begin_request_if(&mut self, has_come: bool) {
        if has_come {
            self.stream.begin_request();
        }
    }

    /// If `is_made`, notes that the oldest request has its reply. The request ends when the
    /// gathered bytes have been sent.
    pub(crate) fn answered_if(&mut self, is_made: bool) {
        self.answered += u32::from(is_made);
        if self.output.gathered().is_empty() {
            self.end_requests();
        }
    }

    /// Ends the requests after their replies have been sent.
    fn end_requests(&mut self) {
        (0..mem::take(&mut self.answered)).for_each(|_| self.stream.end_request());
    }

    /// Sends the gathered bytes.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        if self.output.gathered().is_empty() {
            return Ok(());
        }
        let sent = self.stream.write(self.output.gathered()).await?;
        self.sent(sent).await
    }

    /// Sends the gathered bytes together with the end of our side, in one packet. True: the
    /// connection may be closed. False: it has to [`linger`](Self::linger).
    ///
    /// The server has to linger if more bytes may be on their way, in either direction. If a byte
    /// arrives at a closed socket, the kernel sends a reset and drops undelivered bytes.
    pub(crate) async fn finish(&mut self) -> io::Result<bool> {
        let length = self.output.gathered().len();
        if !self.is_quiet || length == 0 {
            return Ok(false);
        }
        let sent = self.stream.write_last(self.output.gathered()).await?;
        self.sent(sent).await?;
        Ok(sent == length)
    }

    /// The stream, for a caller that reads and writes at once. The caller has gathered nothing.
    pub(crate) fn stream(&mut self) -> &mut TcpStream {
        self.is_quiet = false;
        self.stream
    }

    /// The client's connection, for a look at it.
    pub(crate) fn client(&self) -> &TcpStream {
        self.stream
    }

    /// Whether a drain leaves the client's input open, because a body is still coming.
    pub(crate) fn set_outlives_drain(&mut self, outlives: bool) {
        self.stream.set_outlives_drain(outlives);
    }

    /// The bytes that are gathered for the client.
    pub(crate) fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    /// The stream, and the bytes that are gathered for the client.
    pub(crate) fn parts(&mut self) -> (&mut TcpStream, &Output) {
        (self.stream, &self.output)
    }

    /// Whether no bytes are gathered.
    pub(crate) fn is_flushed(&self) -> bool {
        self.output.gathered().is_empty()
    }

    /// Whether the access log wants descriptions of requests.
    pub(crate) fn is_logged(&self) -> bool {
        self.stream.is_logged()
    }

    /// Notes that the oldest request has the reply of another server, with `content` bytes.
    pub(crate) fn relayed(&mut self, logged: Logged<'_>, code: u16, content: u64) {
        if code >= 500 && ![501, 505].contains(&code) {
            self.stream.fail_request();
        }
        if self.stream.is_logged() {
            let reply = format!("HTTP/1.1 {code}\r\n\r\n");
            self.stream.describe_request(logged.members(reply.as_bytes(), content));
        }
        self.answered_if(true);
    }

    /// Notes that the oldest request gets no whole reply any more: its client has left, or its
    /// connection ends within the reply. `code` and `content` are what the client has got, or would
    /// have got.
    pub(crate) fn lost(&mut self, logged: Logged<'_>, code: u16, content: u64) {
        if self.answered == 0 {
            self.relayed(logged, code, content);
        }
        // Replies that are still gathered are not sent.
        self.end_requests();
    }

    /// Gathers a reply that was made here.
    pub(crate) fn gather_reply(
        &mut self,
        reply: &Reply,
        logged: Logged<'_>,
        persistence: Persistence,
        is_head: bool,
    ) {
        self.note(reply.status);
        let start = self.output.gathered().len();
        reply.write(self.output.gather(), clock::seconds(), persistence, is_head);
        self.describe(logged, start, 0);
        self.answered_if(true);
    }

    /// Sends the rest of the gathered bytes, after some were sent.
    async fn sent(&mut self, sent: usize) -> io::Result<()> {
        self.is_quiet = false;
        let rest = &self.output.gathered()[sent..];
        if !rest.is_empty() {
            watch(self.stream, self.limits, &mut self.is_watched)?;
            patiently(self.limits, rest.len() as u64, self.stream.write_all(rest)).await??;
        }
        self.output.clear();
        self.end_requests();
        Ok(())
    }

    /// Answers a request with a page, or with the part that the request's conditions ask for.
    /// Returns a page that is too long to be gathered, for [`send`](Self::send).
    pub(super) fn answer(
        &mut self,
        page: &Page,
        request: &Request<'_>,
        persistence: Persistence,
        now: u64,
    ) -> Option<Part> {
        let start = self.output.gathered().len();
        let part = page.answer(self.output.gather(), request, persistence, now);
        let rest = part.filter(|part| match page.content() {
            Content::Memory(bytes) => !self.gather(part.of(bytes)),
            Content::File(_) => true,
        });
        self.describe(Logged::of(request.head), start, rest.as_ref().map_or(0, |rest| rest.length));
        rest
    }

    /// Describes a request to the access log, if there is one. The reply begins at `start` of the
    /// gathered bytes, and `more` bytes follow.
    #[inline]
    fn describe(&mut self, logged: Logged<'_>, start: usize, more: u64) {
        if self.stream.is_logged() {
            let reply = &self.output.gathered()[start..];
            self.stream.describe_request(logged.members(reply, more));
        }
    }

    /// Answers a request for the page in the memo.
    pub(super) fn answer_again(
        &mut self,
        memo: &Memo,
        request: &Request<'_>,
        persistence: Persistence,
    ) -> Again {
        let now = clock::seconds();
        let Some(page) = memo.recall(request, now) else { return Again::No };
        let rest = self.answer(page, request, persistence, now);
        rest.map_or(Again::Done, Again::Rest)
    }

    /// Sends a part of a page after the gathered bytes.
    pub(super) async fn send(&mut self, content: &Content, part: Part) -> io::Result<()> {
        task::stage("http: reply").await;
        match content {
            Content::Memory(bytes) => self.send_long(part.of(bytes)).await,
            Content::File(file) => {
                self.flush().await?;
                self.is_quiet = false;
                let Part { offset, length } = part;
                watch(self.stream, self.limits, &mut self.is_watched)?;
                patiently(self.limits, length, self.stream.send_file(file, offset, length)).await?
            }
        }
    }

    /// Answers a request with the reply that was made for it.
    pub(super) async fn reply(
        &mut self,
        reply: &Reply,
        request: &Request<'_>,
        persistence: Persistence,
        now: u64,
    ) -> io::Result<()> {
        self.note(reply.status);
        let start = self.output.gathered().len();
        reply.write_head(self.output.gather(), now, persistence);
        let is_head = request.method == Method::Head;
        let length = if is_head { 0 } else { reply.body.len() as u64 };
        self.describe(Logged::of(request.head), start, length);
        if is_head {
            return Ok(());
        }
        if self.gather(&reply.body) { Ok(()) } else { self.send_long(&reply.body).await }
    }

    /// Notes a status that reports a failure of this server.
    fn note(&mut self, status: &Status) {
        if status.is_a_failure() {
            self.stream.fail_request();
        }
    }

    /// Tells a client to send its body.
    pub(super) fn write_continue(&mut self) {
        self.output.gather().extend_from_slice(CONTINUE);
    }

    /// Sends the gathered bytes if there is no room for another reply.
    pub(super) async fn make_room(&mut self) -> io::Result<()> {
        if self.output.gathered().len() >= GATHERED {
            self.flush().await?;
        }
        Ok(())
    }

    /// Answers a request that cannot be read to its end, and ends the connection. The answer is a
    /// page, or its head alone if `is_head`.
    pub(crate) async fn reject(
        &mut self,
        status: &'static Status,
        is_head: bool,
        input: &mut Input,
    ) -> io::Result<()> {
        // A request that cannot be read has no first line to log.
        self.reject_after(Logged::of(&[]), &status.into(), is_head, input).await
    }

    /// Answers a request with a known head that cannot be read to its end, as
    /// [`reject`](Self::reject) does.
    pub(crate) async fn reject_after(
        &mut self,
        logged: Logged<'_>,
        reply: &Reply,
        is_head: bool,
        input: &mut Input,
    ) -> io::Result<()> {
        self.end_with(logged, reply, is_head, input, self.limits.linger_time).await
    }

    /// Ends the connection with a reset. After a plain close, the kernel would try for minutes to
    /// send the rest.
    pub(crate) fn reset(&self) {
        // If this fails, the connection has ended already.
        let _ = self.stream.set_linger_reset();
    }

    /// Sends a last reply, as [`reject`](Self::reject) does, and ends the connection.
    pub(crate) async fn end_with(
        &mut self,
        logged: Logged<'_>,
        reply: &Reply,
        is_head: bool,
        input: &mut Input,
        linger: Duration,
    ) -> io::Result<()> {
        self.note(reply.status);
        let start = self.output.gathered().len();
        reply.write(self.output.gather(), clock::seconds(), Persistence::Close, is_head);
        self.describe(logged, start, 0);
        self.answered_if(true);
        self.linger(input, linger).await
    }

    /// Ends a connection while its client may still be sending.
    ///
    /// If a socket with unread bytes is closed, the kernel sends a reset. The reset can destroy the
    /// reply before the client has read it. So only our side closes. Later bytes are read and
    /// dropped, for at most `limit` (RFC 9112, section 9.6).
    pub(crate) async fn linger(&mut self, input: &mut Input, limit: Duration) -> io::Result<()> {
        task::stage("http: linger").await;
        self.flush().await?;
        if self.stream.shutdown(Shutdown::Write).await.is_err() {
            return Ok(());
        }
        let mut deadline = Deadline::new(limit);
        while let Some(left) = deadline.left() {
            input.consume(input.unused().len());
            // The reply is out. Later errors do not matter.
            let Ok(Filled::Some) = self.fill(input, left).await else {
                break;
            };
        }
        Ok(())
    }

    /// Gathers the body of a reply, if there is room for it.
    fn gather(&mut self, body: &[u8]) -> bool {
        let has_room = self.output.gathered().len() + body.len() <= GATHERED;
        if has_room {
            self.output.gather().extend_from_slice(body);
        }
        has_room
    }

    /// Sends the body of a reply together with the gathered bytes.
    async fn send_long(&mut self, body: &[u8]) -> io::Result<()> {
        let mut pieces = [IoSlice::new(self.output.gathered()), IoSlice::new(body)];
        self.is_quiet = false;
        watch(self.stream, self.limits, &mut self.is_watched)?;
        let sent = self.stream.write_vectored(&pieces).await?;
        let mut rest = &mut pieces[..];
        IoSlice::advance_slices(&mut rest, sent);
        if !rest.is_empty() {
            let length = self.output.gathered().len() + body.len() - sent;
            patiently(self.limits, length as u64, self.stream.write_all_vectored(rest)).await??;
        }
        self.output.clear();
        self.end_requests();
        Ok(())
    }
}

/// Makes the kernel end the connection when the client takes nothing for too long. A limit on each
/// write would begin anew whenever the socket's buffer grows. The system call is made once in a
/// connection, and only if bytes do not leave at once.
fn watch(stream: &TcpStream, limits: &Limits, is_watched: &mut bool) -> io::Result<()> {
    if !mem::replace(is_watched, true) {
        stream.set_taking_limit(limits.write_time)?;
    }
    Ok(())
}

/// Sends the bytes of a long reply, within a time that grows with their number. A limit on a single
/// write would never stop a client that takes a byte now and then.
///
/// The wait is boxed, so that it does not enlarge connections with clients that keep up.
fn patiently<F: Future<Output = io::Result<()>>>(
    limits: &Limits,
    length: u64,
    sending: F,
) -> Pin<Box<impl Future<Output = Result<io::Result<()>, Elapsed>> + use<F>>> {
    Box::pin(timeout(limits.sending_time(length), sending))
}

/// A point in time that several waits share, fixed when the first of them begins.
#[derive(Debug)]
pub(crate) struct Deadline {
    limit: Duration,
    at: Option<Instant>,
}

impl Deadline {
    pub(crate) fn new(limit: Duration) -> Self {
        Deadline { limit, at: None }
    }

    /// The time that is left. `None` when it is up.
    pub(crate) fn left(&mut self) -> Option<Duration> {
        let now = time::now();
        let at = *self.at.get_or_insert(now + self.limit);
        at.checked_duration_since(now).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_stands_from_its_first_use() {
        assert_eq!(Deadline::new(Duration::ZERO).left(), None);
        let mut deadline = Deadline::new(Duration::from_secs(1000));
        let first = deadline.left().unwrap();
        assert_eq!(first, Duration::from_secs(1000));
        assert!(deadline.left().is_some_and(|second| second <= first));
    }
}
