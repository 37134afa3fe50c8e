//! Http by hand: `duality_services::http` does the same in one function.
//!
//! ```text
//!                 ┌──────────── answered, goes on ────────────┐
//!                 ▼                                           │
//!   accepted ─▶ Head ──────── no body, in memory ─────────────┤
//!                 │ ├───────── on disk ───────▶ Disk ─────────┤
//!                 │ └─▶ Body ──────────────────────┴──────────┤ answered, and the last
//!                 │       │                                   ├──────▶ End ─▶ closed
//!                 │       │                                   │         │ not all in one packet
//!    refused ─────┴───────┴─ cannot be read ─▶ Linger ◀───────┴─────────┘
//!                                                │  the client may still be sending
//!                                                └──▶ Discard ─▶ closed
//! ```
//!
//! The connection sends its replies before it waits for bytes. So any stage except Disk may have to
//! wait for room first. When there is room, the stage begins again.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duality_services::http::parts::{
    self, Body, BodyPlan, CONTINUE, Errand, Framing, Input, Looked, Memo, Method, Page, Parsed,
    Persistence, Progress, REFUSAL_ROOM, Request, is_head, parse, too_long,
};
use duality_services::http::status::{self, Status};
use duality_services::http::{Http, Limits, REFUSAL_TIME, Reply};

use crate::attempts::Attempts;
use crate::output::Output;
use crate::{Next, StateMachine, Why};

/// The result of a helper thread that looked for a page on the disk.
type Found = Result<Arc<Page>, Reply>;

/// `Ok`: the machine goes on. `Err`: the machine must wait for this.
type Step = Result<(), Next<Found>>;

/// State that the connections of one loop share.
pub(crate) struct Common {
    http: Http,
    /// The memory for input and for gathered replies. A connection has its own memory only if bytes
    /// are left here when its callback returns.
    input: Vec<u8>,
    gathered: Vec<u8>,
}

impl Common {
    pub(crate) fn new(http: Http) -> Self {
        Self { http, input: Vec::new(), gathered: Vec::new() }
    }
}

/// One connection.
pub(crate) struct Conversation {
    input: Input,
    desk: Desk,
    requests_left: u32,
    stage: Stage,
}

/// Where replies are made.
#[derive(Default)]
struct Desk {
    output: Output,
    memo: Memo,
}

/// What the connection is doing.
enum Stage {
    /// The machine reads a head, which has a deadline from its first byte on.
    Head { deadline: Option<Option<Instant>> },
    /// The machine reads a body.
    Body(Box<Incoming>),
    /// A helper thread looks for the page.
    Disk(Box<Sought>),
    /// The machine sends the last reply.
    End,
    /// The machine sends the last reply within this time. The client may still be sending.
    Linger(Duration),
    /// The last reply has left. The machine reads further bytes and drops them.
    Discard { until: Option<Instant> },
}

/// A request, while its body is being read.
struct Incoming {
    head: Box<[u8]>,
    body: Body,
    is_last: bool,
    deadline: Option<Option<Instant>>,
}

/// A request, while its page is being looked for.
struct Sought {
    /// The head of the request, unless it is still in the input.
    head: Option<Box<[u8]>>,
    persistence: Persistence,
    now: u64,
    /// No bytes followed the request, and none are likely to.
    is_quiet: bool,
}

const NEXT_HEAD: Stage = Stage::Head { deadline: None };

impl StateMachine for Conversation {
    type Common = Common;
    type Found = Found;

    fn accepted(common: &Common) -> Self {
        let limits = common.http.limits();
        Self {
            input: Input::new(limits.head),
            desk: Desk::default(),
            requests_left: limits.requests,
            stage: NEXT_HEAD,
        }
    }

    fn refused(common: &Common) -> Option<Self> {
        let linger = common.http.limits().linger_time.min(REFUSAL_TIME);
        // The machine reads the request only because a close with unread bytes could destroy the
        // reply.
        let input = Input::new(REFUSAL_ROOM);
        let stage = Stage::Linger(linger);
        let mut refused = Self { input, desk: Desk::default(), requests_left: 0, stage };
        refused.desk.say_last(&parts::refusal(), false);
        Some(refused)
    }

    fn wake(
        &mut self,
        why: Why<Found>,
        attempts: &mut Attempts<'_>,
        common: &mut Common,
    ) -> Next<Found> {
        self.input.borrow_from(&mut common.input);
        self.desk.output.borrow_from(&mut common.gathered);
        let wait = self.go_on(why, attempts, &common.http);
        self.input.give_back_to(&mut common.input);
        self.desk.output.give_back_to(&mut common.gathered);
        wait
    }
}

impl Conversation {
    fn go_on(&mut self, why: Why<Found>, attempts: &mut Attempts<'_>, http: &Http) -> Next<Found> {
        let mut step = match why {
            Why::Ready => Ok(()),
            Why::TimedOut => self.time_out(attempts, http.limits()),
            Why::Found(found) => self.bring(found, http.limits()),
        };
        loop {
            if let Err(wait) = step {
                return wait;
            }
            step = match &self.stage {
                Stage::Head { .. } => self.take_head(attempts, http),
                Stage::Body(_) => self.take_body(attempts, http),
                Stage::Disk(_) => Err(Next::End),
                Stage::End => self.end(attempts, http.limits()),
                Stage::Linger(limit) => self.linger(*limit, attempts, http.limits()),
                Stage::Discard { .. } => self.drop_input(attempts, http.limits()),
            };
        }
    }
}

// One function for each stage.

impl Conversation {
    fn take_head(&mut self, attempts: &mut Attempts<'_>, http: &Http) -> Step {
        let limits = http.limits();
        if self.desk.output.is_much() {
            self.desk.send(attempts, limits)?;
        }
        // A connection may be idle for long. A request that has begun has a deadline.
        if self.input.is_empty() {
            return self.fill(attempts.after(limits.idle_time), attempts, limits);
        }
        match parse(self.input.unused()) {
            Parsed::Complete(request) => {
                self.requests_left = self.requests_left.saturating_sub(1);
                let is_last = self.requests_left == 0;
                let length = request.head.len();
                if request.body != Framing::NONE {
                    let head = Box::from(request.head);
                    self.input.consume(length);
                    return self.plan_body(head, is_last, http);
                }
                let persistence = if is_last { Persistence::Close } else { request.persistence };
                let is_quiet = !is_last && self.input.unused().len() == length;
                return match self.desk.answer(&request, &[], persistence, http) {
                    Ok(announced) => {
                        self.input.consume(length);
                        self.stage = Stage::after(announced, is_quiet, limits);
                        Ok(())
                    }
                    Err((errand, now)) => {
                        self.seek(errand, http, Sought { head: None, persistence, now, is_quiet })
                    }
                };
            }
            Parsed::Bad(status) => return self.reject(status, limits),
            Parsed::Partial => {}
        }
        if self.input.is_full() {
            return self.reject(too_long(self.input.unused()), limits);
        }
        let Stage::Head { deadline } = &mut self.stage else { return Err(Next::End) };
        let deadline = *deadline.get_or_insert_with(|| attempts.after(limits.head_time));
        self.fill(deadline, attempts, limits)
    }

    /// Decides what to do about a body. Like the service, it reads even an unwanted body before it
    /// answers the request.
    fn plan_body(&mut self, head: Box<[u8]>, is_last: bool, http: &Http) -> Step {
        let Parsed::Complete(request) = parse(&head) else { return Err(Next::End) };
        match http.plan_body(&request) {
            BodyPlan::TooLong => {
                let is_head = request.method == Method::Head;
                self.reject_with(&status::CONTENT_TOO_LARGE, is_head, http.limits())
            }
            BodyPlan::Leave => self.answer(&head, &[], Persistence::Close, false, http),
            BodyPlan::Read { room } => {
                // A client that has begun to send the body does not wait for "100 Continue".
                if request.expects_continue && self.input.is_empty() {
                    self.desk.output.gathered.extend_from_slice(CONTINUE);
                }
                let body = Body::new(request.body, http.limits().body, room);
                let incoming = Incoming { head, body, is_last, deadline: None };
                self.stage = Stage::Body(Box::new(incoming));
                Ok(())
            }
        }
    }

    fn take_body(&mut self, attempts: &mut Attempts<'_>, http: &Http) -> Step {
        let limits = http.limits();
        let Stage::Body(incoming) = &mut self.stage else { return Err(Next::End) };
        let bad = match incoming.body.take(self.input.unused()) {
            Progress::Unfinished => {
                let deadline =
                    incoming.deadline.get_or_insert_with(|| attempts.after(limits.body_time));
                let deadline = *deadline;
                self.input.consume(self.input.unused().len());
                attempts.outlive_drain();
                return self.fill(deadline, attempts, limits);
            }
            Progress::Finished(length) => {
                self.input.consume(length);
                return self.answer_with_body(http);
            }
            Progress::Malformed => &status::BAD_REQUEST,
            Progress::TooLong => &status::CONTENT_TOO_LARGE,
        };
        let is_head = is_head(&incoming.head);
        self.reject_with(bad, is_head, limits)
    }

    /// Sends the last reply together with the end of our side, if no tail follows.
    fn end(&mut self, attempts: &mut Attempts<'_>, limits: &Limits) -> Step {
        if self.desk.output.send_last(attempts)? {
            return Err(Next::End);
        }
        self.stage = Stage::Linger(limits.linger_time);
        Ok(())
    }

    /// Sends the last reply and the end of our side.
    ///
    /// If a socket with unread bytes is closed, the kernel sends a reset. The reset can destroy the
    /// reply before the client has read it.
    fn linger(&mut self, limit: Duration, attempts: &mut Attempts<'_>, limits: &Limits) -> Step {
        self.desk.send(attempts, limits)?;
        // A client that has reset the connection reads no more.
        if attempts.shut_down_writing().is_err() {
            return Err(Next::End);
        }
        self.stage = Stage::Discard { until: attempts.after(limit) };
        Ok(())
    }

    fn drop_input(&mut self, attempts: &mut Attempts<'_>, limits: &Limits) -> Step {
        let Stage::Discard { until } = self.stage else { return Err(Next::End) };
        self.input.consume(self.input.unused().len());
        // The reply is out. Later errors do not count as failures.
        self.fill(until, attempts, limits).map_err(|next| match next {
            Next::Failed(_) => Next::End,
            next => next,
        })
    }

    /// Decides what happens after a wait that took too long.
    fn time_out(&mut self, attempts: &mut Attempts<'_>, limits: &Limits) -> Step {
        if !self.desk.output.is_empty() {
            // After a plain close, the kernel would try for minutes to send the rest.
            attempts.reset();
            return Err(Next::Failed(io::ErrorKind::TimedOut.into()));
        }
        match &self.stage {
            Stage::Head { .. } if !self.input.is_empty() => {
                self.reject(&status::REQUEST_TIMEOUT, limits)
            }
            Stage::Body(incoming) => {
                let is_head = is_head(&incoming.head);
                self.reject_with(&status::REQUEST_TIMEOUT, is_head, limits)
            }
            _ => Err(Next::End),
        }
    }
}

// Functions that the stages share.

impl Conversation {
    /// Sends the gathered bytes, then reads.
    fn fill(
        &mut self,
        deadline: Option<Instant>,
        attempts: &mut Attempts<'_>,
        limits: &Limits,
    ) -> Step {
        self.desk.send(attempts, limits)?;
        match attempts.read(self.input.room())? {
            None => Err(Next::Read(deadline)),
            Some(0) => Err(Next::End),
            Some(length) => {
                self.input.filled(length);
                self.desk.output.is_quiet = self.input.has_all();
                Ok(())
            }
        }
    }

    fn answer_with_body(&mut self, http: &Http) -> Step {
        let Stage::Body(incoming) = std::mem::replace(&mut self.stage, NEXT_HEAD) else {
            return Err(Next::End);
        };
        let Incoming { head, body, is_last, .. } = *incoming;
        let Parsed::Complete(request) = parse(&head) else { return Err(Next::End) };
        let persistence = if is_last { Persistence::Close } else { request.persistence };
        let is_quiet = !is_last && self.input.is_empty();
        self.answer(&head, &body.into_kept(), persistence, is_quiet, http)
    }

    /// Answers a request that came with a body.
    fn answer(
        &mut self,
        head: &[u8],
        body: &[u8],
        persistence: Persistence,
        is_quiet: bool,
        http: &Http,
    ) -> Step {
        let Parsed::Complete(request) = parse(head) else { return Err(Next::End) };
        match self.desk.answer(&request, body, persistence, http) {
            Ok(announced) => {
                self.stage = Stage::after(announced, is_quiet, http.limits());
                Ok(())
            }
            Err((errand, now)) => {
                let head = Some(Box::from(head));
                self.seek(errand, http, Sought { head, persistence, now, is_quiet })
            }
        }
    }

    /// Makes a helper thread look for a page.
    fn seek(&mut self, errand: Errand, http: &Http, sought: Sought) -> Step {
        self.stage = Stage::Disk(Box::new(sought));
        let http = http.clone();
        Err(Next::Helper(Box::new(move || http.run(errand))))
    }

    /// Answers the request with the page that was found.
    fn bring(&mut self, found: Found, limits: &Limits) -> Step {
        let Stage::Disk(sought) = std::mem::replace(&mut self.stage, Stage::End) else {
            return Err(Next::End);
        };
        let Sought { head, persistence, now, is_quiet } = *sought;
        let bytes = head.as_deref().unwrap_or(self.input.unused());
        let Parsed::Complete(request) = parse(bytes) else { return Err(Next::End) };
        let announced = self.desk.answer_found(found, &request, persistence, now);
        let length = request.head.len();
        if head.is_none() {
            self.input.consume(length);
        }
        self.stage = Stage::after(announced, is_quiet, limits);
        Ok(())
    }

    /// Answers a bad or incomplete head, and ends the connection.
    fn reject(&mut self, status: &'static Status, limits: &Limits) -> Step {
        let is_head = is_head(self.input.unused());
        self.reject_with(status, is_head, limits)
    }

    fn reject_with(&mut self, status: &'static Status, is_head: bool, limits: &Limits) -> Step {
        self.desk.say_last(&Reply::from(status), is_head);
        self.stage = Stage::Linger(limits.linger_time);
        Ok(())
    }
}

impl Stage {
    /// The stage after a request has been read to its end and answered. `is_quiet`: nothing
    /// followed the request, and nothing is likely to follow.
    fn after(persistence: Persistence, is_quiet: bool, limits: &Limits) -> Self {
        match persistence {
            Persistence::Implied | Persistence::Announced => NEXT_HEAD,
            Persistence::Close if is_quiet => Self::End,
            Persistence::Close => Self::Linger(limits.linger_time),
        }
    }
}

impl Desk {
    /// Answers a request, and returns whether the connection persists. `Err`: an errand to do
    /// first, and the second for which the answer will hold.
    fn answer(
        &mut self,
        request: &Request<'_>,
        body: &[u8],
        persistence: Persistence,
        http: &Http,
    ) -> Result<Persistence, (Errand, u64)> {
        let now = parts::seconds();
        if let Some(page) = self.memo.recall(request, now) {
            let persistence = persistence.unless_draining();
            self.output.page(page, request, persistence, now);
            return Ok(persistence);
        }
        if let Some(reply) = http.made(request, body) {
            return Ok(self.answer_found(Err(reply), request, persistence, now));
        }
        match http.look(request.target, now) {
            Looked::Known(found) => Ok(self.answer_found(found, request, persistence, now)),
            Looked::Unknown(errand) => Err((errand, now)),
        }
    }

    fn answer_found(
        &mut self,
        found: Found,
        request: &Request<'_>,
        persistence: Persistence,
        now: u64,
    ) -> Persistence {
        let persistence = persistence.unless_draining();
        match found {
            Ok(page) => {
                let page = self.memo.keep(request.target, page, now);
                self.output.page(page, request, persistence, now);
            }
            Err(reply) => self.output.reply(reply, request, persistence, now),
        }
        persistence
    }

    /// Adds a reply after which the connection ends.
    fn say_last(&mut self, reply: &Reply, is_head: bool) {
        reply.write(&mut self.output.gathered, parts::seconds(), Persistence::Close, is_head);
    }

    fn send(&mut self, attempts: &mut Attempts<'_>, limits: &Limits) -> Step {
        self.output.send(attempts, &mut self.memo, limits)
    }
}
