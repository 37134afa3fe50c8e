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

/// The time in microseconds after which a connection is idle, if the log does not tell exactly when
/// its request ended.
const SETTLED: i64 = 50_000;
/// The silence in microseconds after which a connection that a log names is forgotten.
const FORGOTTEN: i64 = 3_600_000_000;
/// The number of requests after which ended connections are dropped.
const SWEEP: u64 = 1 << 16;

/// One request, with its time and its class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    /// When it began, in microseconds since 1970; its stamp, as long as only that is known.
    pub(crate) time: i64,
    /// The duration of the request in microseconds, where the log has it.
    pub(crate) took: Option<u64>,
    /// A hash of its client.
    pub(crate) client: u64,
    /// The name of its connection, if the log has it.
    pub(crate) connection: Option<u64>,
    /// The number in its connection, from 1; 0 if the log does not tell.
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
    /// The index.
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
    is_coarse: bool,
    clients: HashMap<u64, Vec<Slot>>,
    named: HashMap<u64, Slot>,
    opened: Vec<Opened>,
    /// How many requests there were.
    pub(crate) requests: u64,
    /// When the last reply was over.
    pub(crate) last: i64,
}

impl Sessions {
    /// A connection is kept for `keep_alive` after its last reply. Times may be coarse: spread
    /// within their second.
    pub(crate) fn new(keep_alive: Duration, is_coarse: bool) -> Self {
        Self {
            is_coarse,
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

    /// The request's connection, by the name that the log tells. The numbers of a server that was
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
            event.time.saturating_sub(slot.free)
                >= if slot.is_timed && !self.is_coarse { 0 } else { SETTLED }
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

    /// Drops connections that can carry no further request.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEEP_ALIVE: Duration = Duration::from_secs(10);

    prop_compose! {
        /// A request of one of three clients, some milliseconds after the one before it.
        fn event()(
            gap in 0i64..4_000_000,
            took in proptest::option::of(0u64..1_000_000),
            client in 0u64..3,
            parallel in prop_oneof![Just(0u8), Just(1), Just(6)],
        ) -> Event {
            Event {
                time: gap, took, client, connection: None, nth: 0, parallel, class: 0, rate: None,
            }
        }
    }

    /// The same requests, each at its time.
    fn timed(mut events: Vec<Event>) -> Vec<Event> {
        let mut now = 0;
        for event in &mut events {
            now += event.time;
            event.time = now;
        }
        events
    }

    fn connections(events: &[Event]) -> Vec<Opened> {
        let mut sessions = Sessions::new(KEEP_ALIVE, false);
        events.iter().for_each(|event| sessions.add(event));
        assert_eq!(sessions.requests, events.len() as u64);
        sessions.into_connections()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn each_request_is_in_one_connection(events in proptest::collection::vec(event(), 0..60)) {
            let events = timed(events);
            let opened = connections(&events);
            let steps: usize = opened.iter().map(|opened| opened.connection.steps.len()).sum();
            prop_assert_eq!(steps, events.len());
            for Opened { start, connection } in &opened {
                prop_assert!(events.iter().any(|event| event.time == *start));
                // A server would have closed a connection that was idle for longer.
                prop_assert!(connection.steps.iter().all(|step| step.think < KEEP_ALIVE));
            }
        }

        #[test]
        fn requests_of_http_1_0_have_connections_of_their_own(
            events in proptest::collection::vec(event(), 1..60),
        ) {
            let mut events = timed(events);
            events.iter_mut().for_each(|event| event.parallel = 0);
            let opened = connections(&events);
            prop_assert_eq!(opened.len(), events.len());
            prop_assert!(opened.iter().all(|opened| opened.connection.open_after.is_zero()));
        }

        #[test]
        fn a_client_opens_six_at_most(events in proptest::collection::vec(event(), 1..60)) {
            // All at once: nothing is idle, and nothing has ended.
            let same = |event: Event| Event { time: 5, client: 1, parallel: 6, ..event };
            let events: Vec<Event> = events.into_iter().map(same).collect();
            prop_assert_eq!(connections(&events).len() <= 6, true);
        }

        #[test]
        fn named_connections_are_found(
            events in proptest::collection::vec((event(), 0u64..5), 1..60),
        ) {
            let mut counts = [0; 5];
            let (events, names): (Vec<Event>, Vec<u64>) = events.into_iter().unzip();
            let events: Vec<Event> = timed(events)
                .into_iter()
                .zip(names)
                .map(|(event, name)| {
                    counts[name as usize] += 1;
                    Event { connection: Some(name), nth: counts[name as usize], ..event }
                })
                .collect();
            let mut found: Vec<u64> = connections(&events)
                .iter()
                .map(|opened| opened.connection.steps.len() as u64)
                .collect();
            let mut counts: Vec<u64> = counts.into_iter().filter(|count| *count > 0).collect();
            counts.sort_unstable();
            found.sort_unstable();
            prop_assert_eq!(found, counts);
        }
    }

    #[test]
    fn the_numbers_of_a_server_that_was_restarted_begin_again() {
        let event = |time, nth| Event {
            time,
            took: Some(10),
            client: 0,
            connection: Some(1),
            nth,
            parallel: 6,
            class: 0,
            rate: Some(1000 / nth),
        };
        let opened = connections(&[event(0, 1), event(100, 2), event(200, 1)]);
        let steps: Vec<usize> = opened.iter().map(|opened| opened.connection.steps.len()).collect();
        assert_eq!((steps, opened[0].connection.rate), (vec![2, 1], Some(500)));
        assert_eq!(opened[0].connection.steps[1].think, Duration::from_micros(90));
    }
}
