//! Requests in the order of their times, from lines that are nearly in order. Stamps of whole
//! seconds are spread within their second.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::sessions::Event;

/// The number of requests that wait for requests with earlier times. A log has its lines in the
/// order in which requests ended; the longest of them may have begun minutes before.
const WINDOW: usize = 1 << 17;
/// A second, in microseconds.
const SECOND: i64 = 1_000_000;

/// Puts requests in order, within a window.
#[derive(Default)]
pub(crate) struct Order {
    waiting: BinaryHeap<Reverse<Waiting>>,
    added: u64,
    /// The time of the last request that left the window.
    left: i64,
    /// Requests that came too late for the window. They count as if made at `left`.
    pub(crate) late: u64,
}

/// A request in the window. Requests of one time stay in the order in which they came.
struct Waiting {
    number: u64,
    event: Event,
}

impl Order {
    /// Adds a request. Returns the earliest one, if the window is full.
    pub(crate) fn add(&mut self, mut event: Event) -> Option<Event> {
        if event.time < self.left {
            self.late += 1;
            event.time = self.left;
        }
        self.waiting.push(Reverse(Waiting { number: self.added, event }));
        self.added += 1;
        if self.waiting.len() > WINDOW { self.next() } else { None }
    }

    /// The earliest request of the window.
    pub(crate) fn next(&mut self) -> Option<Event> {
        let Reverse(Waiting { event, .. }) = self.waiting.pop()?;
        self.left = event.time;
        Some(event)
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.event.time, self.number).cmp(&(other.event.time, other.number))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Waiting {}

/// Spreads the requests of a second at random within it, in order. Otherwise each second would
/// begin with a false burst.
pub(crate) struct Spread {
    /// The requests of one second.
    second: Vec<Event>,
    random: fastrand::Rng,
}

impl Spread {
    /// The same log is spread in the same way each time.
    pub(crate) fn new() -> Self {
        Self { second: Vec::new(), random: fastrand::Rng::with_seed(1) }
    }

    /// Adds a request. If the request begins another second, gives the requests of the second
    /// before to `take`.
    pub(crate) fn add(&mut self, event: Event, take: impl FnMut(Event)) {
        if self.second.last().is_some_and(|last| last.time != event.time) {
            self.finish(take);
        }
        self.second.push(event);
    }

    /// Gives the requests that it still has to `take`.
    pub(crate) fn finish(&mut self, mut take: impl FnMut(Event)) {
        let mut places: Vec<i64> = self.second.iter().map(|_| self.random.i64(0..SECOND)).collect();
        places.sort_unstable();
        for (mut event, place) in self.second.drain(..).zip(places) {
            event.time += place;
            take(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(time: i64, class: u16) -> Event {
        Event {
            time,
            took: None,
            client: 0,
            connection: None,
            nth: 0,
            parallel: 6,
            class,
            rate: None,
        }
    }

    #[test]
    fn lines_out_of_order_are_sorted_within_the_window() {
        let mut order = Order::default();
        for (number, time) in [5, 3, 5, 4].into_iter().enumerate() {
            assert!(order.add(event(time, number as u16)).is_none());
        }
        let sorted: Vec<(i64, u16)> =
            std::iter::from_fn(|| order.next()).map(|event| (event.time, event.class)).collect();
        assert_eq!(sorted, [(3, 1), (4, 3), (5, 0), (5, 2)]);
        // The window is empty, so this request is too late.
        order.add(event(1, 9));
        assert_eq!((order.late, order.next().unwrap().time), (1, 5));
    }

    #[test]
    fn the_window_is_bounded() {
        let mut order = Order::default();
        for time in 0..3 * WINDOW as i64 {
            order.add(event(time, 0));
        }
        assert_eq!(order.waiting.len(), WINDOW);
    }

    #[test]
    fn a_second_is_spread_in_order() {
        let (mut spread, mut taken) = (Spread::new(), Vec::new());
        for class in 0..100 {
            spread.add(event(7 * SECOND, class), |event| taken.push(event));
        }
        assert!(taken.is_empty());
        spread.add(event(9 * SECOND, 100), |event| taken.push(event));
        spread.finish(|event| taken.push(event));
        assert!(taken.iter().map(|event| event.class).eq(0..101));
        assert!(taken.is_sorted_by_key(|event| event.time));
        assert!(taken[..100].iter().all(|event| event.time / SECOND == 7));
        assert!(taken[99].time - taken[0].time > SECOND / 2);
    }
}
