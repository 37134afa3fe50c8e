//! Both directions at once: the body of a request goes to the upstream while the reply may already
//! come back.
//!
//! ```text
//!   client ── read ──> forward ── write ──> upstream
//!     ^                                        │
//!     └────── write ── output <── read ────────┘
//! ```
//!
//! Each direction has one buffer, and reads only when it is empty. Of the four operations, the two
//! that are due are tried at once, and one gathered wait covers both. Where nothing moves, it looks
//! from time to time whether the client is still there.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll};

use duality_runtime::net::{Input, Output};
use duality_runtime::task;
use duality_runtime::time::{self, Duration, timeout};

use super::Shared;
use super::answer::Answer;
use super::back::{Asked, Back};
use super::failure::Failure;
use super::flow::{Flowed, Framed};
use super::limits::PIECE;
use crate::http::{
    Persistence, Wire,
    status::{self, Status},
};

/// How the time of both directions ended.
pub(super) enum Ended {
    /// The upstream has the whole request. The reply may have begun.
    Sent,
    /// The client has the whole reply, and not all of the request was wanted.
    Answered,
    /// The body is malformed, or comes too slowly.
    Bad(&'static Status),
    /// The upstream failed.
    Failed(Failure),
}

/// What one wait brought. Each result is a number of bytes.
#[derive(Default)]
struct Step {
    from_client: Option<io::Result<usize>>,
    to_upstream: Option<io::Result<usize>>,
    from_upstream: Option<io::Result<usize>>,
    to_client: Option<io::Result<usize>>,
}

impl Step {
    fn is_nothing(&self) -> bool {
        self.from_client.is_none()
            && self.to_upstream.is_none()
            && self.from_upstream.is_none()
            && self.to_client.is_none()
    }
}

/// A request and its reply on their way.
struct Duplex<'d, 'w, 'u> {
    asked: &'d Asked,
    shared: &'d Shared,
    body: &'d mut Framed,
    /// Bytes for the upstream, of which so many have been sent.
    forward: Output,
    forwarded: usize,
    wire: &'d mut Wire<'w>,
    /// So many of the bytes that are gathered for the client have been sent.
    returned: usize,
    input: &'d mut Input,
    back: &'d mut Back<'u>,
    answer: &'d mut Answer,
    /// The whole body has come from the client.
    has_body: bool,
    /// The upstream takes no more of the request.
    is_refused: bool,
    /// The bytes of the body that have come, and how long they took.
    received: u64,
    waited: Duration,
    from_client: Vec<u8>,
    from_upstream: Vec<u8>,
}

/// Passes the body of a request on until the upstream has all of it, or the reply is over.
#[expect(clippy::too_many_arguments, reason = "the parts of an exchange, each borrowed")]
pub(super) async fn duplex(
    asked: &Asked,
    shared: &Shared,
    body: &mut Framed,
    forward: Output,
    wire: &mut Wire<'_>,
    input: &mut Input,
    back: &mut Back<'_>,
    answer: &mut Answer,
) -> io::Result<Ended> {
    let duplex = Duplex {
        asked,
        shared,
        body,
        forward,
        forwarded: 0,
        wire,
        returned: 0,
        input,
        back,
        answer,
        has_body: false,
        is_refused: false,
        received: 0,
        waited: Duration::ZERO,
        from_client: vec![0; PIECE],
        from_upstream: vec![0; PIECE],
    };
    duplex.run().await
}

impl Duplex<'_, '_, '_> {
    async fn run(mut self) -> io::Result<Ended> {
        let limits = &self.shared.limits;
        // How long nothing has moved.
        let mut still = Duration::ZERO;
        loop {
            let awaits_client = self.awaits_client();
            let limit = if awaits_client { limits.client.body_time } else { limits.reply_time };
            let slice = limits.look_time.min(limit.saturating_sub(still));
            let begun = time::now();
            let stepped = timeout(slice, task::gather(poll_fn(|context| self.poll(context)))).await;
            if awaits_client {
                self.waited += time::since(begun);
            }
            let Ok(step) = stepped else {
                still += slice;
                if self.shared.has_left(self.wire.client()) && !awaits_client {
                    return Ok(Ended::Failed(Failure::ClientLeft));
                }
                if still >= limit {
                    return self.late();
                }
                continue;
            };
            still = Duration::ZERO;
            if let Some(ended) = self.settle(step)? {
                return Ok(ended);
            }
            if awaits_client && self.is_slow() {
                return Ok(Ended::Bad(&status::REQUEST_TIMEOUT));
            }
        }
    }

    /// Whether nothing but bytes of the client, or an early reply, can go on.
    fn awaits_client(&self) -> bool {
        self.reads_client()
            && self.forward.gathered().is_empty()
            && self.is_returned()
            && !self.awaits_permission()
    }

    /// Whether the client may be waiting for `100 Continue`, which the upstream has to say.
    fn awaits_permission(&self) -> bool {
        self.asked.request.expects_continue && self.received == 0 && !self.answer.has_spoken()
    }

    fn reads_client(&self) -> bool {
        !self.has_body && !self.is_refused
    }

    /// Whether the client has all that is gathered for it.
    fn is_returned(&self) -> bool {
        self.wire.is_flushed()
    }

    /// Whether the body comes more slowly than clients may send.
    fn is_slow(&self) -> bool {
        let limits = &self.shared.limits.client;
        let seconds = self.received.checked_div(limits.write_rate).unwrap_or(u64::MAX);
        self.waited > limits.body_time.saturating_add(Duration::from_secs(seconds))
    }

    /// Tries the operations that are due.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Step> {
        let mut step = Step::default();
        let reads_client = self.reads_client();
        let Self { wire, back, .. } = self;
        if !self.forward.gathered().is_empty() {
            let bytes = &self.forward.gathered()[self.forwarded..];
            step.to_upstream = now(back.stream.write(bytes), context);
        } else if reads_client {
            // Bytes after the body must find room in the input.
            let most = match *self.body {
                Framed::Length(left) => usize::try_from(left).unwrap_or(PIECE).min(PIECE),
                _ => self.shared.limits.client.head.min(PIECE),
            };
            step.from_client = now(wire.stream().read(&mut self.from_client[..most]), context);
        }
        if !wire.is_flushed() {
            let (stream, output) = wire.parts();
            let bytes = &output.gathered()[self.returned..];
            // Not a new write each time: TLS may have encrypted these bytes already.
            step.to_client = match stream.poll_write(context, bytes) {
                Poll::Ready(sent) => Some(sent),
                Poll::Pending => None,
            };
        } else if self.answer.has_begun() {
            step.from_upstream = now(back.stream.read(&mut self.from_upstream), context);
        } else {
            step.from_upstream = now(back.stream.fill(&mut back.input), context);
        }
        if step.is_nothing() { Poll::Pending } else { Poll::Ready(step) }
    }

    /// Takes what a wait brought.
    fn settle(&mut self, step: Step) -> io::Result<Option<Ended>> {
        if let Some(sent) = step.to_upstream {
            self.sent_upstream(sent.ok());
        }
        if let Some(received) = step.from_client
            && let Some(ended) = self.received_from_client(received?)
        {
            return Ok(Some(ended));
        }
        if let Some(sent) = step.to_client {
            self.returned += sent?;
            if self.returned == self.wire.output().gathered().len() {
                self.wire.output().clear();
                self.returned = 0;
            }
        }
        if let Some(received) = step.from_upstream
            && let Err(failure) = self.received_from_upstream(received)
        {
            return Ok(Some(Ended::Failed(failure)));
        }
        let is_sent = self.has_body && !self.is_refused && self.forward.gathered().is_empty();
        Ok(match self.is_returned() {
            true if is_sent => Some(Ended::Sent),
            true if self.answer.is_done() => Some(Ended::Answered),
            _ => None,
        })
    }

    /// Notes the bytes that the upstream has taken. `None` if the upstream takes no more.
    fn sent_upstream(&mut self, sent: Option<usize>) {
        match sent {
            Some(length) => self.forwarded += length,
            // It may have replied before. The reply is all that still matters.
            None => {
                self.is_refused = true;
                self.forwarded = self.forward.gathered().len();
            }
        }
        if self.forwarded == self.forward.gathered().len() {
            self.forward.clear();
            self.forwarded = 0;
        }
    }

    fn received_from_client(&mut self, length: usize) -> Option<Ended> {
        if length == 0 {
            return Some(Ended::Failed(Failure::ClientLeft));
        }
        self.received += length as u64;
        let bytes = &self.from_client[..length];
        match self.body.pass(bytes, false, self.forward.gather()) {
            Flowed::All => {}
            Flowed::Finished(end) => {
                self.has_body = true;
                put_back(&bytes[end..], self.input);
            }
            Flowed::Malformed => return Some(Ended::Bad(&status::BAD_REQUEST)),
        }
        None
    }

    fn received_from_upstream(&mut self, received: io::Result<usize>) -> Result<(), Failure> {
        let length = received.map_err(|_| Failure::Gone)?;
        let Self { asked, back, answer, wire, .. } = self;
        if answer.has_begun() {
            return back.take_body(asked, &self.from_upstream[..length], answer, wire);
        }
        if length == 0 {
            return Err(Failure::Gone);
        }
        // The rest of the body may never come, so the connection cannot carry another request.
        let persistence = match self.has_body {
            true => asked.persistence(),
            false => Persistence::Close,
        };
        back.take_head(asked, persistence, answer, wire)
    }

    /// Nothing has moved for too long.
    fn late(&mut self) -> io::Result<Ended> {
        if !self.is_returned() {
            // The client takes nothing.
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(match self.awaits_client() {
            true => Ended::Bad(&status::REQUEST_TIMEOUT),
            false => Ended::Failed(Failure::Late),
        })
    }
}

/// The output of a future, if it is ready now. Otherwise the future has noted its wait.
fn now<F: Future>(future: F, context: &mut Context<'_>) -> Option<F::Output> {
    match pin!(future).poll(context) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Puts bytes of the next request where it is looked for.
fn put_back(mut bytes: &[u8], input: &mut Input) {
    while !bytes.is_empty() {
        let room = input.room();
        let length = room.len().min(bytes.len());
        if length == 0 {
            return;
        }
        room[..length].copy_from_slice(&bytes[..length]);
        input.filled(length);
        bytes = &bytes[length..];
    }
}
