//! From requests to connections. A log that names the connection of each request is followed. For
//! others, connections are inferred from the clients:
//!
//! ```text
//!   a request comes ─┬─ HTTP/1.0, or --keep-alive 0 ───────────────────► a connection of its own
//!                    ├─ a connection of its client is idle, and not for
//!                    │  longer than --keep-alive ──────────────────────► the one used last
//!                    ├─ its client has six connections ────────────────► the one used longest ago
//!                    └─ otherwise ─────────────────────────────────────► a further connection
//! ```

use std::collections::HashMap;
use std::time::Duration;

use crate::trace::{Connection, Step};

/// A connection is idle so many microseconds after a request, if the log does not tell how long the
/// request took.
const SETTLED: i64 = 50_000;
/// Connections that are named in a log are forgotten if they are silent for so many microseconds.
const FORGOTTEN: i64 = 3_600_000_000;
/// After so many requests, what is over is dropped.
const SWEEP: u64 = 1 << 16;

/// One request, with its time and the class of what was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    /// When it began, in microseconds since 1970; its stamp, as long as only that is known.
    pub(crate) time: i64,
    /// How long it took, in microseconds, where the log tells.
    pub(crate) took: Option<u64>,
    /// A hash of its client.
    pub(crate) client: u64,
    /// What names its connection, where the log tells.
    pub(crate) connection: Option<u64>,
    /// Its number in its connection, from 1; 0 if the log does not tell.
    pub(crate) nth: u64,
    /// How many connections such a client opens at a time. 0: a connection is for one request.
    pub(crate) parallel: u8,
    /// The class of the request.
    pub(crate) class: u16,
    /// How fast the client took the reply, in bytes a second, where the log tells.
    pub(crate) rate: Option<u64>,
}

/// A connection, and when it was opened, in microseconds since 1970.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) start: i64,
    pub(crate) connection: Connection,
}

/// A connection that may carry further requests.
struct Slot {
    /// Its index.
    opened: usize,
    /// When its last reply was over.
    free: i64,
    /// Whether `free` comes from the log.
    is_timed: bool,
    /// The number of its last request.
    nth: u64,
}

/// Connections from requests that come in the order of their times, or nearly.
pub(crate) struct Sessions {
    /// In microseconds.
    keep_alive: i64,
    clients: HashMap<u64, Vec<Slot>>,
    named: HashMap<u64, Slot>,
    opened: Vec<Opened>,
    /// How many requests there were.
    pub(crate) requests: u64,
    /// When the last reply was over.
    pub(crate) last: i64,
}

impl Sessions {
    /// A connection is kept for `keep_alive` after its last reply.
    pub(crate) fn new(keep_alive: Duration) -> Self {
        Self {
            keep_alive: i64::try_from(keep_alive.as_micros()).unwrap_or(i64::MAX),
            clients: HashMap::new(),
            named: HashMap::new(),
            opened: Vec::new(),
            requests: 0,
            last: i64::MIN,
        }
    }

    /// Adds a request to the connection that it belongs to.
    pub(crate) fn add(&mut self, event: &Event) {
        self.requests += 1;
        if self.requests.is_multiple_of(SWEEP) {
            self.sweep(event.time);
        }
        let took = i64::try_from(event.took.unwrap_or(0)).unwrap_or(i64::MAX);
        let free = event.time.saturating_add(took);
        self.last = self.last.max(free);
        let opened = match event.connection {
            Some(name) => self.named(name, event, free),
            None => self.inferred(event, free),
        };
        let keeps = event.connection.is_some() || event.parallel > 0;
        let opened = &mut self.opened[opened].connection;
        opened.open_after = Duration::from_micros(if keeps { self.keep_alive as u64 } else { 0 });
        opened.rate = opened.rate.into_iter().chain(event.rate).min();
    }

    /// All connections.
    pub(crate) fn into_connections(self) -> Vec<Opened> {
        self.opened
    }

    /// The request's connection, whose name the log tells. The numbers of a server that was
    /// restarted begin again, and so do those of the requests.
    fn named(&mut self, name: u64, event: &Event, free: i64) -> usize {
        if let Some(slot) = self.named.get_mut(&name)
            && (event.nth == 0 || event.nth > slot.nth)
            && event.time.saturating_sub(slot.free) < FORGOTTEN
        {
            slot.step(&mut self.opened, event, free);
            return slot.opened;
        }
        let slot = Slot::open(&mut self.opened, event, free);
        let opened = slot.opened;
        self.named.insert(name, slot);
        opened
    }

    fn inferred(&mut self, event: &Event, free: i64) -> usize {
        if event.parallel == 0 || self.keep_alive == 0 {
            return Slot::open(&mut self.opened, event, free).opened;
        }
        let slots = self.clients.entry(event.client).or_default();
        slots.retain(|slot| event.time.saturating_sub(slot.free) < self.keep_alive);
        let is_idle = |slot: &Slot| {
            event.time.saturating_sub(slot.free) >= if slot.is_timed { 0 } else { SETTLED }
        };
        let numbers = 0..slots.len();
        let idle = numbers.clone().filter(|&slot| is_idle(&slots[slot]));
        let chosen = match idle.max_by_key(|&slot| slots[slot].free) {
            None if slots.len() >= usize::from(event.parallel) => {
                numbers.min_by_key(|&slot| slots[slot].free)
            }
            idle => idle,
        };
        match chosen {
            Some(slot) => {
                slots[slot].step(&mut self.opened, event, free);
                slots[slot].opened
            }
            None => {
                slots.push(Slot::open(&mut self.opened, event, free));
                self.opened.len() - 1
            }
        }
    }

    /// Drops what can carry no further request.
    fn sweep(&mut self, now: i64) {
        let keep_alive = self.keep_alive;
        let is_over = |slot: &Slot, most: i64| now.saturating_sub(slot.free) >= most;
        self.clients.retain(|_, slots| slots.iter().any(|slot| !is_over(slot, keep_alive)));
        self.named.retain(|_, slot| !is_over(slot, FORGOTTEN));
    }
}

impl Slot {
    /// Opens a connection by its first request.
    fn open(all: &mut Vec<Opened>, event: &Event, free: i64) -> Self {
        let step = Step { think: Duration::ZERO, class: event.class };
        let connection = Connection { steps: vec![step], ..Connection::default() };
        all.push(Opened { start: event.time, connection });
        let opened = all.len() - 1;
        Self { opened, free, is_timed: event.took.is_some(), nth: event.nth }
    }

    /// Adds a further request.
    fn step(&mut self, all: &mut [Opened], event: &Event, free: i64) {
        let think = u64::try_from(event.time.saturating_sub(self.free)).unwrap_or(0);
        let step = Step { think: Duration::from_micros(think), class: event.class };
        all[self.opened].connection.steps.push(step);
        self.free = self.free.max(free);
        self.is_timed = event.took.is_some();
        self.nth = event.nth;
    }
}
