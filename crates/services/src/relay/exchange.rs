//! One request and its reply, from the head of the request on.

use std::io;

use duality_runtime::net::{Input, Output};
use duality_runtime::task;
use duality_runtime::time;

use super::Shared;
use super::answer::Answer;
use super::back::{Asked, Back, Patience};
use super::duplex::{Ended, duplex};
use super::failure::Failure;
use super::flow::{Flowed, Framed};
use super::journal;
use super::limits::PIECE;
use super::pool::Pool;
use super::reach::Tried;
use super::tunnel::tunnel;
use crate::http::{Persistence, Reply, Wire, status};

/// The status in the access log if the client has left, as nginx writes it.
pub(super) const LEFT: u16 = 499;

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
        let mut back = match self.ask(asked, forward.gathered(), wire, pool).await {
            Ok(back) => back,
            Err((failure, back)) => return self.refuse(asked, failure, back.as_ref(), wire).await,
        };
        forward.clear();
        let mut answer = Answer::default();
        match self.take_reply(asked, &mut back, &mut answer, wire).await? {
            Ok(()) if answer.has_switched() => {
                let note = note(None, Some(&back), wire);
                wire.relayed(asked.logged(&note), answer.summary().0, 0);
                Box::pin(tunnel(&self.limits, wire, input, back)).await?;
                Ok(Next::Over)
            }
            Ok(()) => self.settle(asked, back, &answer, wire, input, pool).await,
            Err(failure) if answer.has_begun() => Ok(cut(asked, failure, &back, &answer, wire)),
            Err(failure) => self.refuse(asked, failure, Some(&back), wire).await,
        }
    }

    /// Sends a whole request to the next upstream that answers, and waits for the first bytes of
    /// the reply.
    ///
    /// A request may reach a second upstream only if the first one has not begun a reply, and twice
    /// has the effect of once.
    async fn ask(
        &self,
        asked: &Asked,
        request: &[u8],
        wire: &Wire<'_>,
        pool: &Pool,
    ) -> Result<Back<'_>, (Failure, Option<Back<'_>>)> {
        let mut tried = Tried::default();
        let mut last: Option<Back<'_>> = None;
        loop {
            let mut back = match self.reach(pool, &mut tried, wire.client()).await {
                Ok(back) => back,
                // What the last one did says more.
                Err(Failure::Unreachable) if last.is_some() => return Err((Failure::Gone, last)),
                Err(failure) => return Err((failure, last)),
            };
            match back.ask(request, Patience::new(self, wire.client())).await {
                Ok(()) => return Ok(back),
                // The upstream closed the idle connection before the request reached it.
                Err(Failure::Gone) if back.is_reused && asked.request.is_idempotent => {
                    tried.needs_fresh = true;
                }
                Err(Failure::Gone) if asked.request.is_repeatable() => tried.add(back.number),
                Err(failure) => return Err((failure, Some(back))),
            }
            if let Some(previous) = last.replace(back)
                && !previous.is_reused
            {
                previous.upstream.count(Failure::Gone);
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
        // A drain must not cut the body.
        wire.set_outlives_drain(true);
        task::stage("relay: upstream").await;
        let mut back = match self.reach(pool, &mut Tried::default(), wire.client()).await {
            Ok(back) => back,
            Err(failure) => return self.reject(asked, failure, None, wire, input).await,
        };
        back.upstream.asked();
        let mut answer = Answer::default();
        wire.flush().await?;
        let ended =
            duplex(asked, self, &mut body, forward, wire, input, &mut back, &mut answer).await?;
        wire.set_outlives_drain(false);
        let failure = match ended {
            Ended::Sent if answer.is_done() => {
                return self.settle(asked, back, &answer, wire, input, pool).await;
            }
            Ended::Sent => match self.take_reply(asked, &mut back, &mut answer, wire).await? {
                Ok(()) => return self.settle(asked, back, &answer, wire, input, pool).await,
                Err(failure) => failure,
            },
            Ended::Answered => {
                let (code, content) = answer.summary();
                let note = note(None, Some(&back), wire);
                wire.relayed(asked.logged(&note), code, content);
                return Ok(Next::Linger);
            }
            Ended::Bad(status) if !answer.has_begun() => {
                let note = note(None, Some(&back), wire);
                let logged = asked.logged(&note);
                wire.reject_after(logged, &status.into(), asked.request.is_head, input).await?;
                return Ok(Next::Over);
            }
            Ended::Bad(_) => Failure::ClientLeft,
            Ended::Failed(failure) => failure,
        };
        if answer.has_begun() {
            return Ok(cut(asked, failure, &back, &answer, wire));
        }
        self.reject(asked, failure, Some(&back), wire, input).await
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
            if let Err(failure) = back.fill(Patience::new(self, wire.client())).await {
                return Ok(Err(failure));
            }
        }
        if answer.is_done() {
            return Ok(Ok(()));
        }
        let mut piece = vec![0; PIECE];
        while !answer.is_done() {
            wire.flush().await?;
            let taken = match back.read(&mut piece, Patience::new(self, wire.client())).await {
                Ok(length) => back.take_body(asked, &piece[..length], answer, wire),
                Err(failure) => Err(failure),
            };
            if taken.is_err() {
                return Ok(taken);
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
        let note = note(None, Some(&back), wire);
        if answer.upstream_stays() && !back.has_more && back.input.is_empty() {
            pool.put(back.number, back.stream);
        }
        let (code, content) = answer.summary();
        wire.relayed(asked.logged(&note), code, content);
        match answer.persistence() {
            Persistence::Close if input.is_empty() => Ok(Next::End),
            Persistence::Close => Ok(Next::Linger),
            Persistence::Implied | Persistence::Announced => {
                wire.flush().await?;
                Ok(Next::Request)
            }
        }
    }

    /// Answers a request that has been read to its end, because there is no reply.
    async fn refuse(
        &self,
        asked: &Asked,
        failure: Failure,
        back: Option<&Back<'_>>,
        wire: &mut Wire<'_>,
    ) -> io::Result<Next> {
        let note = note(Some(failure), back, wire);
        if failure == Failure::ClientLeft {
            wire.lost(asked.logged(&note), LEFT, 0);
            return Ok(Next::Over);
        }
        let persistence = asked.persistence();
        let reply = Reply::because(failure.status(), failure.reason());
        wire.gather_reply(&reply, asked.logged(&note), persistence, asked.request.is_head);
        if persistence == Persistence::Close {
            return Ok(Next::Linger);
        }
        wire.flush().await?;
        Ok(Next::Request)
    }

    /// Answers a request of which the body may still come, because there is no reply.
    async fn reject(
        &self,
        asked: &Asked,
        failure: Failure,
        back: Option<&Back<'_>>,
        wire: &mut Wire<'_>,
        input: &mut Input,
    ) -> io::Result<Next> {
        let note = note(Some(failure), back, wire);
        if failure == Failure::ClientLeft {
            wire.lost(asked.logged(&note), LEFT, 0);
            return Ok(Next::Over);
        }
        let reply = Reply::because(failure.status(), failure.reason());
        let logged = asked.logged(&note);
        wire.reject_after(logged, &reply, asked.request.is_head, input).await?;
        Ok(Next::Over)
    }
}

/// Counts a failure. Returns what the access log says of it, or of the whole reply.
fn note(failure: Option<Failure>, back: Option<&Back<'_>>, wire: &Wire<'_>) -> String {
    if let (Some(failure), Some(back)) = (failure, back) {
        back.upstream.count(failure);
    }
    if !wire.is_logged() {
        return String::new();
    }
    let times = back.and_then(|back| back.times.map(|times| (back.upstream.address, times)));
    journal::members(times, failure, time::now())
}

/// Ends the client's connection within a reply, by a reset, so that the client cannot take the part
/// for the whole.
fn cut(
    asked: &Asked,
    failure: Failure,
    back: &Back<'_>,
    answer: &Answer,
    wire: &mut Wire<'_>,
) -> Next {
    let note = note(Some(failure), Some(back), wire);
    let (code, content) = answer.summary();
    wire.lost(asked.logged(&note), code, content);
    wire.reset();
    Next::Over
}
