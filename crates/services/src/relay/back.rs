//! What the parts of an exchange share: the request, and the connection to the upstream.

use std::io::{self, ErrorKind};

use duality_runtime::net::{Closed, Input, TcpStream};
use duality_runtime::task;
use duality_runtime::time::{self, Duration};

use super::answer::Answer;
use super::failure::Failure;
use super::head::Request;
use super::upstream::Upstream;
use super::{Shared, journal::Times};
use crate::http::{Logged, Persistence, Wire};

/// A request, after its head has been read.
pub(super) struct Asked {
    pub(super) request: Request,
    /// The head as it came, for the access log. Empty if there is none.
    pub(super) head: Box<[u8]>,
    /// The connection ends after this request.
    pub(super) is_last: bool,
}

impl Asked {
    /// How the client's connection goes on, if the head of the reply is written now.
    pub(super) fn persistence(&self) -> Persistence {
        let wish = if self.is_last { Persistence::Close } else { self.request.persistence };
        wish.unless_draining()
    }

    /// The request, with what the access log says of its upstream.
    pub(super) fn logged<'a>(&'a self, note: &'a str) -> Logged<'a> {
        Logged { head: &self.head, note }
    }
}

/// A connection to an upstream that carries a request.
pub(super) struct Back<'u> {
    pub(super) stream: TcpStream,
    /// The reply's bytes, until its head has come.
    pub(super) input: Input,
    /// More bytes came than belong to the reply.
    pub(super) has_more: bool,
    pub(super) number: usize,
    pub(super) upstream: &'u Upstream,
    pub(super) is_reused: bool,
    /// For the access log, if there is one.
    pub(super) times: Option<Times>,
}

/// A wait for an upstream, in slices. After each slice it looks whether the client is still there.
/// A reply that comes within the first slice costs nothing more than a plain wait.
pub(super) struct Patience<'w> {
    shared: &'w Shared,
    client: &'w TcpStream,
    waited: Duration,
}

impl<'w> Patience<'w> {
    pub(super) fn new(shared: &'w Shared, client: &'w TcpStream) -> Self {
        Self { shared, client, waited: Duration::ZERO }
    }

    /// Judges an error of an operation that had a slice of time. No failure: it may be tried again.
    pub(super) fn goes_on(&mut self, error: &io::Error) -> Result<(), Failure> {
        if error.kind() != ErrorKind::TimedOut {
            return Err(Failure::Gone);
        }
        self.waited += self.shared.limits.slice();
        if self.shared.has_left(self.client) {
            return Err(Failure::ClientLeft);
        }
        if self.waited < self.shared.limits.reply_time { Ok(()) } else { Err(Failure::Late) }
    }
}

impl Shared {
    /// Whether the client waits no more for its reply.
    pub(super) fn has_left(&self, client: &TcpStream) -> bool {
        match client.has_closed() {
            None => false,
            Some(Closed::Sending) => !self.serves_half_closed,
            Some(Closed::Both) => true,
        }
    }
}

impl Back<'_> {
    /// Sends a whole request, and waits for the first bytes of the reply.
    pub(super) async fn ask(
        &mut self,
        mut request: &[u8],
        mut patience: Patience<'_>,
    ) -> Result<(), Failure> {
        self.upstream.asked();
        while !request.is_empty() {
            match self.stream.write(request).await {
                Ok(sent) => request = &request[sent..],
                // An upstream that closes early may have replied before.
                Err(error) if error.kind() != ErrorKind::TimedOut => break,
                Err(error) => patience.goes_on(&error)?,
            }
        }
        self.fill(patience).await
    }

    /// Waits for bytes of a head. There is at least one.
    pub(super) async fn fill(&mut self, mut patience: Patience<'_>) -> Result<(), Failure> {
        loop {
            match self.stream.fill(&mut self.input).await {
                Ok(0) => return Err(Failure::Gone),
                Ok(_) => break,
                Err(error) => patience.goes_on(&error)?,
            }
        }
        self.upstream.connected();
        if let Some(times) = &mut self.times {
            times.head.get_or_insert_with(time::now);
        }
        Ok(())
    }

    /// Waits for bytes of a body. 0 is the end of the upstream's connection.
    pub(super) async fn read(
        &mut self,
        piece: &mut [u8],
        mut patience: Patience<'_>,
    ) -> Result<usize, Failure> {
        loop {
            match self.stream.read(piece).await {
                Ok(length) => return Ok(length),
                Err(error) => patience.goes_on(&error)?,
            }
        }
    }

    /// Takes the head of a reply, and what follows it, from the input.
    pub(super) fn take_head(
        &mut self,
        asked: &Asked,
        persistence: Persistence,
        answer: &mut Answer,
        wire: &mut Wire<'_>,
    ) -> Result<(), Failure> {
        let output = wire.output().gather();
        let bytes = self.input.unused();
        let taken = task::leaf(|| answer.take(bytes, &asked.request, persistence, output))?;
        self.input.consume(taken);
        if !answer.has_begun() && self.input.is_full() {
            return Err(Failure::Malformed);
        }
        Ok(())
    }

    /// Takes bytes of a reply's body. No bytes are the end of the upstream's connection.
    pub(super) fn take_body(
        &mut self,
        asked: &Asked,
        bytes: &[u8],
        answer: &mut Answer,
        wire: &mut Wire<'_>,
    ) -> Result<(), Failure> {
        let output = wire.output().gather();
        if bytes.is_empty() {
            return if answer.end(output) { Ok(()) } else { Err(Failure::Gone) };
        }
        let taken = answer.take(bytes, &asked.request, Persistence::Close, output)?;
        self.has_more |= taken < bytes.len();
        Ok(())
    }
}
