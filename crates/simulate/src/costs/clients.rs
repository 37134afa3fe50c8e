//! The clients of a model: when they ask, and what a reply has them do.

use std::collections::VecDeque;

use super::Question;
use crate::decisions::Random;

/// One client.
#[derive(Clone, Copy, Default)]
struct Client {
    connection: Option<u64>,
    /// When the request was meant to be made that is not answered yet.
    asked: Option<u64>,
    was_served: bool,
}

/// What the driver does next for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// Connects, and asks.
    Connect,
    /// Asks on this connection.
    On(u64),
}

/// All clients.
pub(super) struct Clients {
    all: Vec<Client>,
    /// Those that have nothing to ask, in an open loop.
    idle: VecDeque<u32>,
    /// The times of requests for which no client was idle.
    late: VecDeque<u64>,
    is_persistent: bool,
    is_open: bool,
    /// What a reply takes of the clients' one processor, and when that has nothing to do.
    takes: f64,
    free_at: f64,
    served: usize,
    /// When a client was served for the first time, lately.
    last_first: u64,
    /// Those that ask again when all have been served that can be. `None` from then on.
    held: Option<Vec<u32>>,
}

impl Clients {
    pub(super) fn new(question: &Question, is_persistent: bool) -> Self {
        let is_open = question.rate.is_some();
        let idle = 0..if is_open { question.connections as u32 } else { 0 };
        Self {
            all: vec![Client::default(); question.connections],
            idle: idle.collect(),
            late: VecDeque::new(),
            is_persistent,
            is_open,
            takes: question.client,
            free_at: 0.0,
            served: 0,
            last_first: 0,
            held: (!is_open).then(Vec::new),
        }
    }

    /// How many clients have had a reply.
    pub(super) fn served(&self) -> usize {
        self.served
    }

    /// When it is known that each client has been served that can be: once all have, or none for
    /// the first time for a while. `None` before the first reply.
    pub(super) fn settle_at(&self) -> Option<u64> {
        /// For so long, in nanoseconds.
        const WHILE: u64 = 300_000_000;
        let waits = if self.served == self.all.len() { 0 } else { WHILE };
        (self.served > 0).then_some(self.last_first + waits)
    }

    /// A request is to be made now. Returns the client that makes it.
    pub(super) fn arrival(&mut self, now: u64) -> Option<u32> {
        let client = self.idle.pop_front();
        if client.is_none() {
            self.late.push_back(now);
        }
        client
    }

    /// A client asks, by a request that was meant for the time `asked`.
    pub(super) fn ask(&mut self, client: u32, asked: u64) -> Ask {
        let client = &mut self.all[client as usize];
        client.asked = Some(asked);
        client.connection.map_or(Ask::Connect, Ask::On)
    }

    pub(super) fn connected(&mut self, client: u32, connection: u64) {
        self.all[client as usize].connection = Some(connection);
    }

    /// Whether a reply at this time finds the clients' processor asleep.
    pub(super) fn are_asleep(&self, time: u64) -> bool {
        self.takes > 0.0 && self.free_at <= time as f64
    }

    /// When clients learn of what comes then: after the replies that came before.
    pub(super) fn learn(&self, comes: u64) -> u64 {
        comes.max(self.free_at.round() as u64)
    }

    /// When a reply that comes then has been taken.
    pub(super) fn take(&mut self, comes: u64) -> u64 {
        if self.takes == 0.0 {
            return comes;
        }
        self.free_at = self.free_at.max(comes as f64) + self.takes;
        self.free_at.round() as u64
    }

    /// The clients that have been held back ask again from now on.
    pub(super) fn release(&mut self) -> Vec<u32> {
        self.held.take().unwrap_or_default()
    }

    /// A client has been answered. Returns when it had asked, and whether it asks again: at what
    /// time its request was meant to be made.
    pub(super) fn answered(&mut self, client: u32, now: u64) -> Option<(u64, Option<u64>)> {
        let own = &mut self.all[client as usize];
        let asked = own.asked.take()?;
        if !std::mem::replace(&mut own.was_served, true) {
            self.served += 1;
            self.last_first = now;
        }
        if !self.is_persistent {
            own.connection = None;
        }
        if let Some(held) = &mut self.held {
            held.push(client);
            return Some((asked, None));
        }
        if !self.is_open {
            return Some((asked, Some(now)));
        }
        let next = self.late.pop_front();
        if next.is_none() {
            self.idle.push_back(client);
        }
        Some((asked, next))
    }

    /// The server has closed a connection. Returns whether its client must ask again on another.
    pub(super) fn closed(&mut self, client: u32, connection: u64) -> bool {
        let client = &mut self.all[client as usize];
        if client.connection != Some(connection) {
            return false;
        }
        client.connection = None;
        client.asked.is_some()
    }
}

/// The time to the next request of many independent users, in nanoseconds.
pub(super) fn pause(random: &mut Random, rate: f64) -> f64 {
    let uniform = ((random.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    -uniform.ln() / rate * 1e9
}
