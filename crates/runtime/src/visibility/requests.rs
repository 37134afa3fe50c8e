//! The notes on the requests of a connection: rows of [`records`](super::records), times for the
//! histogram of [`latencies`](super::latencies), lines for the [`request log`](super::request_log).
//!
//! ```text
//!   accept ──▶ Client, kept by the stream ── begin ──▶ Begun: when, how busy the server was ─┐
//!                                         ── describe ──▶ what was asked and answered ───────┤
//!                                         ── end ──▶ a row, a length, a line ◀───────────────┘
//! ```
//!
//! If none of them is kept, a stream has no client. Then the beginning and the end of a request
//! cost a branch each.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;

use super::records::{self, Mark};
use super::{latencies, request_log};

/// A connected client, and its requests under way.
pub(crate) struct Client {
    /// The oldest request that has begun. Most clients have no other request, and need no queue.
    oldest: Option<Begun>,
    /// The requests that began later, the oldest first.
    later: VecDeque<Begun>,
    /// The time of the client's arrival, until its first request begins.
    came: Option<Mark>,
    /// The connection's number in the log, and the common part of its lines.
    logged: Option<Logged>,
    /// A value that is dropped with the connection.
    held: Option<Box<dyn Any + Send + Sync>>,
    counts: bool,
}

/// A request that has not been answered.
struct Begun {
    /// The time of arrival, for the request's record.
    mark: Option<Mark>,
    /// The time at which its first bytes were read, in nanoseconds of the monotonic clock.
    read_at: u64,
    /// The request and its reply, as members of a JSON object.
    members: Option<String>,
}

/// A connection in the request log.
struct Logged {
    number: u64,
    /// Requests that were answered.
    answered: u64,
    /// The round trip of a packet to the client in microseconds, as measured at the first answer.
    round_trip: u32,
    /// The client's address.
    client: String,
}

impl Client {
    /// A client that has just come. `None` if nothing is noted.
    #[inline]
    pub(crate) fn comes() -> Option<Box<Self>> {
        let is_noted = records::are_kept() || latencies::are_kept() || request_log::is_kept();
        is_noted.then(Self::new)
    }

    #[cold]
    pub(crate) fn new() -> Box<Self> {
        records::client_came();
        let came = if records::are_kept() { Mark::at(records::now()) } else { None };
        let logged = request_log::connection_number();
        let logged = logged.map(|number| Logged {
            number,
            answered: 0,
            round_trip: 0,
            client: String::new(),
        });
        let later = VecDeque::new();
        Box::new(Self { oldest: None, later, came, logged, held: None, counts: true })
    }

    /// Begins a request. `address` finds the client's address, which the log wants.
    #[cold]
    pub(crate) fn begin(&mut self, address: impl FnOnce() -> Option<String>) {
        let read_at = records::now();
        latencies::begin();
        if let Some(logged) = &mut self.logged
            && logged.client.is_empty()
        {
            logged.client = address().unwrap_or_default();
        }
        let mark = self.came.take().or_else(|| Mark::at(read_at));
        let begun = Begun { mark, read_at, members: None };
        match self.oldest {
            None => self.oldest = Some(begun),
            Some(_) => self.later.push_back(begun),
        }
    }

    /// Whether the log needs descriptions of requests and replies.
    pub(crate) fn is_logged(&self) -> bool {
        self.logged.is_some()
    }

    /// Describes the oldest request without a description.
    #[cold]
    pub(crate) fn describe(&mut self, members: String) {
        let mut begun = self.oldest.iter_mut().chain(&mut self.later);
        if let Some(begun) = begun.find(|begun| begun.members.is_none()) {
            begun.members = Some(members);
        }
    }

    /// Ends the oldest request. `round_trip` is called once in a connection.
    #[cold]
    pub(crate) fn end(&mut self, round_trip: impl FnOnce() -> u32) {
        let Some(Begun { mark, read_at, members }) = self.oldest.take() else { return };
        self.oldest = self.later.pop_front();
        let now = records::now();
        if let (Some(came), Some(answered)) = (mark, Mark::at(now)) {
            came.add_until(answered);
        }
        let length = now.saturating_sub(read_at);
        latencies::add(length);
        if let Some(logged) = &mut self.logged {
            if logged.answered == 0 {
                logged.round_trip = round_trip();
            }
            logged.answered += 1;
            let Logged { number, answered, round_trip, ref client } = *logged;
            request_log::add(&request_log::Line {
                connection: number,
                request: answered,
                client,
                length,
                members: members.as_deref().unwrap_or_default(),
                round_trip,
            });
        }
    }

    /// Keeps a value until the connection ends.
    pub(crate) fn hold(&mut self, held: Box<dyn Any + Send + Sync>) {
        self.held = Some(held);
    }

    /// The value that is kept until the connection ends.
    pub(crate) fn release(&mut self) -> Option<Box<dyn Any + Send + Sync>> {
        self.held.take()
    }

    /// Leaves the count of the end to a child process, which has a copy.
    pub(crate) fn leave_to_child(&mut self) {
        self.counts = false;
    }
}

/// A request that is under way on a stream of a foreign runtime.
#[derive(Debug)]
#[must_use = "a request that does not end is not counted"]
pub struct Timing(Option<u64>);

/// Notes that a request begins, for the histogram of latencies. Without one, the call costs a
/// branch.
#[inline]
pub fn time_request() -> Timing {
    latencies::begin();
    Timing(latencies::are_kept().then(records::now))
}

impl Timing {
    /// Notes that the request is answered.
    #[inline]
    pub fn ends(&self) {
        if let Some(began) = self.0 {
            latencies::add(records::now().saturating_sub(began));
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if self.counts {
            records::client_went();
        }
    }
}
