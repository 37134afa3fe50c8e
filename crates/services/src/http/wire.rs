//! The side of a connection that touches the network: replies are gathered here and sent together.

use std::{
    io::{self, ErrorKind, IoSlice},
    net::Shutdown,
    pin::Pin,
    time::{Duration, Instant},
};

use duality_runtime::{
    net::TcpStream,
    task,
    time::{Elapsed, timeout},
};

use super::{
    conditional::Verdict,
    input::Input,
    limits::Limits,
    page::{Content, Page},
    range::Part,
    reply::Reply,
    request::{Method, Persistence, Request},
    status::{self, Status},
};
use crate::clock;

/// A stream and the replies that wait to be sent on it.
pub(super) struct Wire<'l> {
    stream: TcpStream,
    output: Vec<u8>,
    limits: &'l Limits,
}

/// What came of waiting for bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filled {
    Some,
    /// The client has closed its side, or the server is about to stop.
    End,
    /// It took too long.
    TimedOut,
}

/// Bytes of replies that are gathered before they are sent. What is longer is not worth copying.
const GATHERED: usize = 16 << 10;

/// Bytes that are read of what a client still sends after it has got an error.
const LINGERED: usize = 1 << 20;

impl<'l> Wire<'l> {
    pub(super) fn new(mut stream: TcpStream, limits: &'l Limits) -> io::Result<Self> {
        stream.set_write_timeout(Some(limits.write_time))?;
        Ok(Wire { stream, output: Vec::new(), limits })
    }

    /// Sends what has been gathered, then waits up to `limit` for more to read.
    pub(super) async fn fill(&mut self, input: &mut Input, limit: Duration) -> io::Result<Filled> {
        self.flush().await?;
        self.stream.set_read_timeout(Some(limit))?;
        match self.stream.read(input.room()).await {
            Ok(0) => Ok(Filled::End),
            Ok(length) => {
                input.filled(length);
                Ok(Filled::Some)
            }
            Err(error) if error.kind() == ErrorKind::TimedOut => Ok(Filled::TimedOut),
            Err(error) => Err(error),
        }
    }

    /// Sends what has been gathered.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        if self.output.is_empty() {
            return Ok(());
        }
        let sent = self.stream.write(&self.output).await?;
        if sent < self.output.len() {
            let rest = &self.output[sent..];
            patiently(self.limits, rest.len() as u64, self.stream.write_all(rest)).await??;
        }
        self.output.clear();
        Ok(())
    }

    /// Answers a request with the page that it asks for, or with as much as its conditions ask.
    pub(super) async fn send(
        &mut self,
        page: &Page,
        request: &Request<'_>,
        persistence: Persistence,
        now: u64,
    ) -> io::Result<()> {
        let is_get = request.method == Method::Get;
        let output = &mut self.output;
        let part = match request.conditions.judge(is_get, page.validators(), page.length()) {
            Verdict::Whole => {
                page.write_head(output, now, persistence);
                Part { offset: 0, length: page.length() }
            }
            Verdict::Part(part) => {
                page.write_part_head(output, now, persistence, part);
                part
            }
            Verdict::NotModified => {
                page.write_not_modified(output, now, persistence);
                return Ok(());
            }
            Verdict::PreconditionFailed => {
                let refusal = Reply::from(&status::PRECONDITION_FAILED);
                return self.reply(&refusal, request, persistence, now).await;
            }
            Verdict::RangeNotSatisfiable => {
                let refusal = Reply::from(&status::RANGE_NOT_SATISFIABLE)
                    .with("Content-Range", page.unsatisfied_range());
                return self.reply(&refusal, request, persistence, now).await;
            }
        };
        match page.content() {
            _ if !is_get => Ok(()),
            // A part lies within its page, and so within the range of usize.
            Content::Memory(bytes) => {
                self.send_bytes(&bytes[part.offset as usize..][..part.length as usize]).await
            }
            Content::File(file) => {
                self.flush().await?;
                let Part { offset, length } = part;
                patiently(self.limits, length, self.stream.send_file(file, offset, length)).await?
            }
        }
    }

    /// Answers a request with what was made for it.
    pub(super) async fn reply(
        &mut self,
        reply: &Reply,
        request: &Request<'_>,
        persistence: Persistence,
        now: u64,
    ) -> io::Result<()> {
        reply.write_head(&mut self.output, now, persistence);
        if request.method == Method::Head {
            return Ok(());
        }
        self.send_bytes(&reply.body).await
    }

    /// Gives a client leave to send a body.
    pub(super) fn write_continue(&mut self) {
        self.output.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
    }

    /// Sends what has been gathered if it is much, so that it does not become more than that.
    pub(super) async fn flush_if_much(&mut self) -> io::Result<()> {
        if self.output.len() < GATHERED { Ok(()) } else { self.flush().await }
    }

    /// Answers what cannot be read to its end, by a page or, where `is_head`, by its head alone, and
    /// ends the connection.
    pub(super) async fn reject(
        &mut self,
        status: &'static Status,
        is_head: bool,
        input: &mut Input,
    ) -> io::Result<()> {
        self.end_with(&status.into(), is_head, input, self.limits.linger_time).await
    }

    /// Has the connection end with a reset. To close it would leave what the client has not taken to
    /// the kernel, which would try to send it for minutes.
    pub(super) fn reset(self) {
        // What fails here has ended already.
        let _ = self.stream.set_linger_reset();
    }

    /// Answers something, as [`reject`](Self::reject) does, and ends the connection.
    pub(super) async fn end_with(
        &mut self,
        reply: &Reply,
        is_head: bool,
        input: &mut Input,
        linger: Duration,
    ) -> io::Result<()> {
        reply.write_head(&mut self.output, clock::seconds(), Persistence::Close);
        if !is_head {
            self.output.extend_from_slice(&reply.body);
        }
        self.linger(input, linger).await
    }

    /// Ends a connection whose client may still be sending.
    ///
    /// To close a socket that has unread bytes makes the kernel send a reset, which can destroy
    /// the reply before the client has read it. So only our side is closed, and what still comes
    /// is read and dropped, for at most `limit` and up to a bounded amount (RFC 9112, section 9.6).
    pub(super) async fn linger(&mut self, input: &mut Input, limit: Duration) -> io::Result<()> {
        task::stage("http: linger").await;
        self.flush().await?;
        if self.stream.shutdown(Shutdown::Write).is_err() {
            return Ok(());
        }
        let mut deadline = Deadline::new(limit);
        let mut dropped = 0;
        while dropped < LINGERED
            && let Some(left) = deadline.left()
        {
            input.consume(input.unused().len());
            // The reply is out; what goes wrong from here on concerns nobody.
            let Ok(Filled::Some) = self.fill(input, left).await else {
                break;
            };
            dropped += input.unused().len();
        }
        Ok(())
    }

    /// Gathers the body of a reply, or sends it together with what has been gathered.
    async fn send_bytes(&mut self, body: &[u8]) -> io::Result<()> {
        if self.output.len() + body.len() <= GATHERED {
            self.output.extend_from_slice(body);
            return Ok(());
        }
        let mut pieces = [IoSlice::new(&self.output), IoSlice::new(body)];
        let sent = self.stream.write_vectored(&pieces).await?;
        let mut rest = &mut pieces[..];
        IoSlice::advance_slices(&mut rest, sent);
        if !rest.is_empty() {
            let length = self.output.len() + body.len() - sent;
            patiently(self.limits, length as u64, self.stream.write_all_vectored(rest)).await??;
        }
        self.output.clear();
        Ok(())
    }
}

/// Sends the many bytes of a reply that do not leave at once, in the time that their number gives
/// them: a client that takes a byte now and then would never meet the limit of a single write.
///
/// In a box, so that connections whose clients keep up have no room for it.
fn patiently<F: Future<Output = io::Result<()>>>(
    limits: &Limits,
    length: u64,
    sending: F,
) -> Pin<Box<impl Future<Output = Result<io::Result<()>, Elapsed>> + use<F>>> {
    Box::pin(timeout(allowance(limits, length), sending))
}

/// How long so many bytes may take to send.
fn allowance(limits: &Limits, length: u64) -> Duration {
    let seconds = length.checked_div(limits.write_rate).unwrap_or(u64::MAX);
    limits.write_time.saturating_add(Duration::from_secs(seconds))
}

/// A point in time that several waits share, fixed when the first of them begins.
#[derive(Debug)]
pub(super) struct Deadline {
    limit: Duration,
    at: Option<Instant>,
}

impl Deadline {
    pub(super) fn new(limit: Duration) -> Self {
        Deadline { limit, at: None }
    }

    /// The time that is left; `None` when it is up.
    pub(super) fn left(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let at = *self.at.get_or_insert(now + self.limit);
        at.checked_duration_since(now).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_a_reply_the_longer_it_may_take() {
        let limits = Limits::default();
        assert_eq!(allowance(&limits, 100), limits.write_time);
        assert_eq!(allowance(&limits, 10 << 10), limits.write_time + Duration::from_secs(10));
        assert_eq!(allowance(&Limits { write_rate: 0, ..limits }, 1), Duration::MAX);
    }

    #[test]
    fn a_deadline_stands_from_its_first_use() {
        assert_eq!(Deadline::new(Duration::ZERO).left(), None);
        let mut deadline = Deadline::new(Duration::from_secs(1000));
        let first = deadline.left().unwrap();
        assert_eq!(first, Duration::from_secs(1000));
        assert!(deadline.left().is_some_and(|second| second <= first));
    }
}
