//! Watches the accept queue of a candidate. A server counts no time for a connection before it
//! accepts the connection, so its own figures hide waits outside.
//!
//! ```text
//!   tick (20 ms)   is the queue empty?     · ■ ■ ■ ■ ■ ■ ■ · · ■ ■
//!   accepted                                   5 5 5 5 5 5   9
//!                                              └ it stands ┘
//! ```
//!
//! So a wait is known to within three ticks, and never taken for longer than it was.

use std::time::{Duration, Instant};

/// A candidate that accepts nothing for so long, although connections wait, is out.
pub(super) const STUCK: Duration = Duration::from_secs(2);
/// If the trial itself did not run for so long, the queue was not watched.
const BLIND: Duration = Duration::from_millis(500);

/// The state of a queue.
#[derive(Debug)]
pub(super) struct Watch {
    ticked: Instant,
    /// Since when the queue is not empty.
    filled: Option<Instant>,
    /// Since when connections wait, and none is accepted.
    standing: Option<Instant>,
    /// The longest time of that kind that was seen since the last look.
    longest: Duration,
    /// The most connections that waited meanwhile, and how many of them the last look counted.
    most: u64,
    counted: u64,
    accepted: u64,
}

/// How long connections waited in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Waited {
    /// The longest wait, or the mean wait if that is longer.
    pub(super) time: Duration,
    /// How many connections waited.
    pub(super) connections: u64,
}

impl Watch {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            ticked: now,
            filled: None,
            standing: None,
            longest: Duration::ZERO,
            most: 0,
            counted: 0,
            accepted: 0,
        }
    }

    /// Whether it must be known how many connections are accepted: the queue is not empty for a
    /// while.
    pub(super) fn tick(&mut self, now: Instant, has_connections: bool) -> bool {
        let is_blind = now.saturating_duration_since(self.ticked) > BLIND;
        self.ticked = now;
        if !has_connections || is_blind {
            self.standing = None;
            self.filled = has_connections.then_some(now);
        }
        let filled = *self.filled.get_or_insert(now);
        if !has_connections {
            self.filled = None;
        }
        has_connections && now > filled
    }

    /// The server has accepted so many connections until now. `length` is the length of the queue.
    pub(super) fn accepted(
        &mut self,
        now: Instant,
        accepted: u64,
        length: impl FnOnce() -> Option<u64>,
    ) {
        if accepted != self.accepted {
            self.standing = None;
        }
        self.accepted = accepted;
        if self.filled.is_none() {
            return;
        }
        match self.standing {
            Some(since) => {
                self.longest = self.longest.max(now.saturating_duration_since(since));
                self.most = self.most.max(length().unwrap_or(1));
            }
            // Until now, other connections may have stood in the queue.
            None => self.standing = Some(now),
        }
    }

    /// The waits since the last look, `elapsed` ago, in which `accepted` connections were accepted.
    /// `length` is the length of the queue now.
    pub(super) fn look(
        &mut self,
        elapsed: Duration,
        accepted: u64,
        length: impl FnOnce() -> Option<u64>,
    ) -> Waited {
        let longest = std::mem::take(&mut self.longest);
        let waited = self.most.saturating_sub(self.counted);
        (self.most, self.counted) = match self.standing {
            Some(_) => (self.most, self.most),
            None => (0, 0),
        };
        let Some(filled) = self.filled else {
            return Waited { time: longest, connections: waited };
        };
        let length = length().unwrap_or(0).max(1);
        // Little's law: a queue that never was empty holds what is accepted in the time of a wait.
        let was_full = self.ticked.saturating_duration_since(filled) >= elapsed;
        let mean = match accepted {
            1.. if was_full => elapsed.mul_f64(length as f64 / accepted as f64),
            _ => Duration::ZERO,
        };
        // While a queue stands, only the connections in it wait.
        let connections = if mean > longest { accepted + length } else { waited };
        Waited { time: longest.max(mean), connections }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(20);

    #[test]
    fn a_queue_that_stands_is_seen_and_one_that_moves_is_not() {
        let start = Instant::now();
        let mut watch = Watch::new(start);
        let mut stands = false;
        for number in 1..=12 {
            let now = start + number * TICK;
            if watch.tick(now, true) {
                watch.accepted(now, 5, || Some(3));
                stands = true;
            }
        }
        assert!(stands);
        let waited = watch.look(12 * TICK, 0, || Some(3));
        assert_eq!((waited.time, waited.connections), (10 * TICK, 3));
        // It goes on, and accepts at each tick.
        let mut go_on = |number: u32| {
            let now = start + number * TICK;
            if watch.tick(now, true) {
                watch.accepted(now, u64::from(number), || Some(3));
            }
        };
        go_on(13);
        (14..=15).for_each(&mut go_on);
        // Of a thousand that were accepted meanwhile, three waited, and were counted.
        assert!(watch.look(3 * TICK, 1000, || Some(3)).time < TICK);
        for number in 16..=24 {
            let now = start + number * TICK;
            if watch.tick(now, true) {
                watch.accepted(now, u64::from(number), || Some(3));
            }
        }
        let waited = watch.look(9 * TICK, 90, || Some(3));
        assert!(waited.time < 4 * TICK, "{waited:?}");
        // An empty queue ends it.
        watch.tick(start + 25 * TICK, false);
        watch.look(TICK, 0, || None);
        assert_eq!(watch.look(TICK, 9, || None), Waited::default());
    }

    #[test]
    fn a_long_queue_that_moves_slowly_makes_connections_wait() {
        let start = Instant::now();
        let mut watch = Watch::new(start);
        for number in 1..=30 {
            let now = start + number * TICK;
            if watch.tick(now, true) {
                watch.accepted(now, u64::from(number / 10), || Some(3));
            }
        }
        let waited = watch.look(20 * TICK, 2, || Some(100));
        assert_eq!(waited.time, 20 * TICK * 50);
    }

    #[test]
    fn a_trial_that_did_not_run_blames_no_server() {
        let start = Instant::now();
        let mut watch = Watch::new(start);
        for milliseconds in [20, 40, 5_000] {
            let now = start + Duration::from_millis(milliseconds);
            if watch.tick(now, true) {
                watch.accepted(now, 1, || Some(3));
            }
        }
        assert!(watch.look(TICK, 0, || Some(1)).time < STUCK);
    }
}
