//! One request and its reply, from the head of the request on.

use std::io;

use duality_runtime::net::{Input, Output, TcpStream};
use duality_runtime::task;
use duality_runtime::time::timeout;
use rustix::io::Errno;

use super::Shared;
use super::answer::Answer;
use super::back::{Asked, Back, Failure};
use super::duplex::{Ended, duplex};
use super::flow::{Flowed, Framed};
use super::limits::{PIECE, REPLY_HEAD};
use super::pool::Pool;
use super::upstream::Upstream;
use crate::http::{Persistence, Reply, Wire, status};

/// How the client's connection goes on after a request.
pub(super) enum Next {
    Request,
    /// The connection ends, and the client is probably not sending.
    End,
    /// The connection ends, but the client may still be sending.
    Linger,
    /// The connection has ended, or ends at once.
    Over,
}

impl Shared {
    /// Relays one request. `forward` has its head for the upstream, and `input` what has come after
    /// the head.
    pub(super) async fn exchange(
        &self,
        asked: &Asked,
        mut forward: Output,
        wire: &mut Wire<'_>,
        input: &mut Input,
        pool: &Pool,
    ) -> io::Result<Next> {
        let mut body = Framed::new(asked.request.body);
        match body.pass(input.unused(), false, forward.gather()) {
            Flowed::Finished(length) => input.consume(length),
            Flowed::All => {
                input.consume(input.unused().len());
                let long = self.exchange_long(asked, body, forward, wire, input, pool);
                return Box::pin(long).await;
            }
            Flowed::Malformed => {
                Box::pin(wire.reject(&status::BAD_REQUEST, asked.request.is_head, input)).await?;
                return Ok(Next::Over);
            }
        }
        task::stage("relay: upstream").await;
        let mut fresh = false;
        let mut back = loop {
            let Some(mut back) = self.reach(pool, fresh).await else {
                return refuse(asked, Failure::Gone, wire).await;
            };
            match back.ask(forward.gathered()).await {
                Ok(()) => break back,
                // The upstream closed the idle connection before the request reached it.
                Err(Failure::Gone) if back.is_reused && asked.request.is_idempotent => fresh = true,
                Err(failure) => {
                    back.note(failure);
                    return refuse(asked, failure, wire).await;
                }
            }
        };
        forward.clear();
        let mut answer = Answer::default();
        match self.take_reply(asked, &mut back, &mut answer, wire).await? {
            Ok(()) => self.settle(asked, back, &answer, wire, input, pool).await,
            Err(failure) => {
                back.note(failure);
                if answer.has_begun() {
                    return Ok(cut(wire));
                }
                refuse(asked, failure, wire).await
            }
        }
    }

    /// Relays a request while its body is still coming.
    async fn exchange_long(
        &self,
        asked: &Asked,
        mut body: Framed,
        forward: Output,
        wire: &mut Wire<'_>,
        input: &mut Input,
        pool: &Pool,
    ) -> io::Result<Next> {
        task::stage("relay: upstream").await;
        let is_head = asked.request.is_head;
        let Some(mut back) = self.reach(pool, false).await else {
            wire.reject(&status::BAD_GATEWAY, is_head, input).await?;
            return Ok(Next::Over);
        };
        let mut answer = Answer::default();
        let limits = &self.limits;
        wire.flush().await?;
        let ended =
            duplex(asked, limits, &mut body, forward, wire, input, &mut back, &mut answer).await?;
        let failure = match ended {
            Ended::Sent if answer.is_done() => {
                return self.settle(asked, back, &answer, wire, input, pool).await;
            }
            Ended::Sent => match self.take_reply(asked, &mut back, &mut answer, wire).await? {
                Ok(()) => return self.settle(asked, back, &answer, wire, input, pool).await,
                Err(failure) => {
                    back.note(failure);
                    failure.status()
                }
            },
            Ended::Answered => {
                let (code, content) = answer.summary();
                wire.relayed(&asked.head, code, content);
                return Ok(Next::Linger);
            }
            Ended::ClientLeft => return Ok(Next::Over),
            Ended::Bad(status) => status,
            Ended::Failed(failure) => {
                back.note(failure);
                failure.status()
            }
        };
        if answer.has_begun() {
            return Ok(cut(wire));
        }
        wire.reject(failure, is_head, input).await?;
        Ok(Next::Over)
    }

    /// Takes the rest of a reply, of which `back.input` may have the beginning, and sends it to the
    /// client. The last bytes stay gathered.
    async fn take_reply(
        &self,
        asked: &Asked,
        back: &mut Back<'_>,
        answer: &mut Answer,
        wire: &mut Wire<'_>,
    ) -> io::Result<Result<(), Failure>> {
        task::stage("relay: reply").await;
        while !answer.has_begun() {
            if let Err(failure) = back.take_head(asked, asked.persistence(), answer, wire) {
                return Ok(Err(failure));
            }
            if answer.has_begun() {
                break;
            }
            // Interim replies.
            wire.flush().await?;
            match back.stream.fill(&mut back.input).await {
                Ok(0) => return Ok(Err(Failure::Gone)),
                Ok(_) => {}
                Err(error) => return Ok(Err(Failure::of(&error))),
            }
        }
        back.upstream.answered();
        if answer.is_done() {
            return Ok(Ok(()));
        }
        let mut piece = vec![0; PIECE];
        while !answer.is_done() {
            wire.flush().await?;
            match back.stream.read(&mut piece).await {
                Ok(length) => {
                    let bytes = &piece[..length];
                    if let Err(failure) = back.take_body(asked, bytes, answer, wire) {
                        return Ok(Err(failure));
                    }
                }
                Err(error) => return Ok(Err(Failure::of(&error))),
            }
        }
        Ok(Ok(()))
    }

    /// Ends an exchange after a whole request and a whole reply.
    async fn settle(
        &self,
        asked: &Asked,
        back: Back<'_>,
        answer: &Answer,
        wire: &mut Wire<'_>,
        input: &Input,
        pool: &Pool,
    ) -> io::Result<Next> {
        if answer.upstream_stays() && !back.has_more && back.input.is_empty() {
            pool.put(back.number, back.stream);
        }
        let (code, content) = answer.summary();
        wire.relayed(&asked.head, code, content);
        match answer.persistence() {
            Persistence::Close if input.is_empty() => Ok(Next::End),
            Persistence::Close => Ok(Next::Linger),
            Persistence::Implied | Persistence::Announced => {
                wire.flush().await?;
                Ok(Next::Request)
            }
        }
    }

    /// A connection to the next upstream that answers: an idle one, unless it must be `fresh`, or a
    /// new one. `None` if no upstream answers.
    async fn reach(&self, pool: &Pool, fresh: bool) -> Option<Back<'_>> {
        let count = self.upstreams.len();
        let first = pool.turn(count);
        for number in (first..first + count).map(|number| number % count) {
            let upstream = &self.upstreams[number];
            if !upstream.admits() {
                continue;
            }
            let idle = if fresh { None } else { pool.take(number) };
            let is_reused = idle.is_some();
            let stream = match idle {
                Some(stream) => Some(stream),
                None => Box::pin(self.connect(upstream)).await,
            };
            if let Some(stream) = stream {
                let input = Input::new(REPLY_HEAD);
                return Some(Back { stream, input, has_more: false, number, upstream, is_reused });
            }
        }
        None
    }

    /// A new connection to an upstream. If it refuses, or takes too long, it is left out.
    async fn connect(&self, upstream: &Upstream) -> Option<TcpStream> {
        let connecting = TcpStream::connect(upstream.address);
        let connected = timeout(self.limits.connect_time, connecting).await;
        let limit = Some(self.limits.reply_time);
        let ready =
            connected.unwrap_or_else(|elapsed| Err(elapsed.into())).and_then(|mut stream| {
                stream.set_read_timeout(limit)?;
                stream.set_write_timeout(limit)?;
                Ok(stream)
            });
        match ready {
            Ok(stream) => Some(stream),
            Err(error) => {
                let lacking = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
                let is_ours =
                    Errno::from_io_error(&error).is_some_and(|errno| lacking.contains(&errno));
                if !is_ours {
                    upstream.failed(&error);
                }
                None
            }
        }
    }
}

/// Answers a request that has been read to its end, because an upstream has failed.
async fn refuse(asked: &Asked, failure: Failure, wire: &mut Wire<'_>) -> io::Result<Next> {
    let persistence = asked.persistence();
    let reply = Reply::explained(failure.status());
    wire.gather_reply(&reply, &asked.head, persistence, asked.request.is_head);
    if persistence == Persistence::Close {
        return Ok(Next::Linger);
    }
    wire.flush().await?;
    Ok(Next::Request)
}

/// Ends the client's connection within a reply, by a reset, so that the client cannot take the part
/// for the whole.
fn cut(wire: &Wire<'_>) -> Next {
    wire.reset();
    Next::Over
}
