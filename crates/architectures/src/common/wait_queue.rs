//! A limit on the connections that are served at a time, and a queue of connections that wait for a
//! slot.
//!
//! ```text
//!   accepted ─┬─ a slot is free, the queue is empty ────────────────────▶ served
//!             └─▶ queue, first in, first out ─┬─ a slot becomes free ────▶ served
//!                                             └─ waited for `patience` ──▶ refused, without a slot
//! ```
//!
//! A connection waits before it is refused. While slots become free, no waiting connection is
//! refused. A refusal costs as much as a short request, and clients try again and again. So a
//! server that refused at once would be busy with refusals. With five times as many clients as
//! slots, it would refuse four of five connections.
//!
//! If no slots become free, at most a thousand connections a second are refused, however many come.
//! The queue has a place for each millisecond of patience. Connections beyond that stay in the
//! kernel's accept queue.
//!
//! A connection beyond a limit for its address ([`Addresses`]) is refused before it comes here.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::addresses::Addresses;
use super::options::WhenFull;

/// The most connections that are being refused at a time.
pub const MOST_REFUSALS: usize = 64;

/// A limit on the connections that are served at a time.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// The most connections that are served at a time.
    pub(crate) most: usize,
    /// The time that a further connection waits for a slot before it is refused.
    patience: Duration,
    /// The limits for each client address, which are checked without a wait.
    addresses: Addresses,
}

impl Limit {
    /// The time that a connection waits for a slot under [`WhenFull::Delay`], and under
    /// [`WhenFull::Shed`].
    const PATIENCE: [Duration; 2] = [Duration::from_secs(1), Duration::from_millis(100)];

    /// A limit of `most` connections.
    #[must_use]
    pub fn new(most: usize, when_full: WhenFull) -> Self {
        let [delay, shed] = Self::PATIENCE;
        let patience = match when_full {
            WhenFull::Delay => delay,
            WhenFull::Shed => shed,
        };
        Self { most, patience, addresses: Addresses::UNLIMITED }
    }

    /// Adds limits for each client address.
    #[must_use]
    pub(crate) fn with_addresses(self, addresses: Addresses) -> Self {
        Self { addresses, ..self }
    }

    /// No limit.
    #[must_use]
    pub fn none() -> Self {
        Self::new(usize::MAX, WhenFull::Delay)
    }

    /// The limits for each client address.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// The time that a connection waits for a slot.
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// The most connections in a queue.
    fn places(&self) -> usize {
        self.patience.as_millis() as usize
    }
}

/// Connections that wait for a slot.
#[derive(Debug)]
pub struct WaitQueue<T> {
    limit: Limit,
    /// The connections, each with the time at which it is refused.
    waiting: VecDeque<(T, Instant)>,
}

/// The fate of the connection that has waited longest.
#[derive(Debug, PartialEq, Eq)]
pub enum Turn<T> {
    /// The connection has a slot.
    Serve(T),
    /// The connection has waited too long.
    Refuse(T),
    /// The connection goes on waiting, or no connection waits.
    Wait,
}

impl<T> WaitQueue<T> {
    /// An empty queue.
    #[must_use]
    pub fn new(limit: Limit) -> Self {
        Self { limit, waiting: VecDeque::new() }
    }

    /// Whether a new connection is served at once, beside `served` ones.
    #[inline]
    pub fn passes(&self, served: usize) -> bool {
        self.waiting.is_empty() && served < self.limit.most
    }

    /// Adds a connection, which came at `now`.
    pub fn join(&mut self, connection: T, now: Instant) {
        self.waiting.push_back((connection, now + self.limit.patience));
    }

    /// Takes the connection that has waited longest, if `served` others leave a slot for it.
    /// Otherwise takes it if it has waited too long and `may_be_refused`.
    pub fn turn(&mut self, served: usize, may_be_refused: bool, now: Instant) -> Turn<T> {
        let is_late = may_be_refused && self.end_of_patience().is_some_and(|end| end <= now);
        let has_slot = served < self.limit.most;
        let first = if has_slot || is_late { self.waiting.pop_front() } else { None };
        match first {
            Some((connection, _)) if has_slot => Turn::Serve(connection),
            Some((connection, _)) => Turn::Refuse(connection),
            None => Turn::Wait,
        }
    }

    /// The time until which the connection that has waited longest may wait.
    pub fn end_of_patience(&self) -> Option<Instant> {
        self.waiting.front().map(|(_, end)| *end)
    }

    /// Whether another connection may join.
    pub fn has_room(&self) -> bool {
        self.waiting.len() < self.limit.places()
    }

    /// How many connections wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no connection waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shed(most: usize) -> WaitQueue<u32> {
        WaitQueue::new(Limit::new(most, WhenFull::Shed))
    }

    #[test]
    fn a_slot_goes_to_the_connection_that_has_waited_longest() {
        let (mut queue, now) = (shed(2), Instant::now());
        assert!(queue.passes(1) && !queue.passes(2));
        (0..3).for_each(|number| queue.join(number, now));
        assert!(!queue.passes(1), "nothing overtakes the queue");
        assert_eq!(queue.turn(2, true, now), Turn::Wait);
        assert_eq!(queue.turn(1, true, now), Turn::Serve(0));
        // A free slot takes precedence over a refusal.
        assert_eq!(queue.turn(1, true, now + Duration::from_secs(9)), Turn::Serve(1));
    }

    #[test]
    fn a_connection_is_refused_when_it_has_waited_for_too_long() {
        let (mut queue, now) = (shed(1), Instant::now());
        queue.join(0, now);
        queue.join(1, now + Duration::from_millis(1));
        let end = queue.end_of_patience().unwrap();
        assert_eq!(queue.turn(1, true, end - Duration::from_millis(1)), Turn::Wait);
        assert_eq!(queue.turn(1, false, end), Turn::Wait, "refusals are bounded");
        assert_eq!(queue.turn(1, true, end), Turn::Refuse(0));
        assert_eq!(queue.turn(1, true, end), Turn::Wait);
    }

    /// All refused clients come back at once, and no slot ever becomes free.
    #[test]
    fn at_most_a_thousand_a_second_are_refused() {
        for when_full in [WhenFull::Delay, WhenFull::Shed] {
            let mut queue = WaitQueue::new(Limit::new(1, when_full));
            let (start, mut refused) = (Instant::now(), 0);
            for elapsed in 0..10_000 {
                let now = start + Duration::from_millis(elapsed);
                while let Turn::Refuse(()) = queue.turn(1, true, now) {
                    refused += 1;
                }
                while queue.has_room() {
                    queue.join((), now);
                }
            }
            assert!((8_900..=10_000).contains(&refused), "{when_full:?}: {refused}");
        }
    }
}
