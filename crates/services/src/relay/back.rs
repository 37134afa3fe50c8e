//! What the parts of an exchange share: the request, and the connection to the upstream.

use std::io::{self, ErrorKind};

use duality_runtime::net::{Input, TcpStream};
use duality_runtime::task;

use super::answer::Answer;
use super::head::{Malformed, Request};
use super::upstream::Upstream;
use crate::http::{
    Persistence, Wire,
    status::{self, Status},
};

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
}

/// Why there is no whole reply.
#[derive(Clone, Copy, Debug)]
pub(super) enum Failure {
    /// The upstream took too long.
    Late,
    /// The upstream closed, broke its connection, or sent what cannot be relayed.
    Gone,
}

impl Failure {
    pub(super) fn of(error: &io::Error) -> Self {
        if error.kind() == ErrorKind::TimedOut { Self::Late } else { Self::Gone }
    }

    pub(super) fn status(self) -> &'static Status {
        match self {
            Self::Late => &status::GATEWAY_TIMEOUT,
            Self::Gone => &status::BAD_GATEWAY,
        }
    }
}

impl From<Malformed> for Failure {
    fn from(_: Malformed) -> Self {
        Self::Gone
    }
}

impl Back<'_> {
    /// Sends a whole request, and waits for the first bytes of the reply.
    pub(super) async fn ask(&mut self, request: &[u8]) -> Result<(), Failure> {
        let sent = self.stream.write_all(request).await;
        if let Err(error) = sent
            && error.kind() == ErrorKind::TimedOut
        {
            return Err(Failure::Late);
        }
        // An upstream that closes early may have replied before.
        match self.stream.fill(&mut self.input).await {
            Ok(0) => Err(Failure::Gone),
            Ok(_) => Ok(()),
            Err(error) => Err(Failure::of(&error)),
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
            return Err(Failure::Gone);
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
        if bytes.is_empty() {
            return if answer.end() { Ok(()) } else { Err(Failure::Gone) };
        }
        let output = wire.output().gather();
        let taken = answer.take(bytes, &asked.request, Persistence::Close, output)?;
        self.has_more |= taken < bytes.len();
        Ok(())
    }

    /// Leaves the upstream out for a while, if it took too long.
    pub(super) fn note(&self, failure: Failure) {
        match failure {
            Failure::Late => self.upstream.failed(&"it takes too long to answer"),
            Failure::Gone => {}
        }
    }
}
