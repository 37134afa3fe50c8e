//! What a load sees in its slices, after its window: latencies, and times without any reply.
//!
//! ```text
//!   slice │ reply reply       reply │ rests ······· │ reply      (stands)      │ ·· reply │
//!               └ a stop ────────┘                       └ a stop, longer than its slice ┘
//! ```

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::histogram::{coarse, record};

/// The replies since the last slice was reported.
pub(crate) struct Since {
    latencies: Histogram<u64>,
    longest_stop: Duration,
    /// The last reply, or the begin of the slice. `None` while the load rests.
    last: Option<Instant>,
}

/// The replies of a slice.
pub(crate) struct Seen {
    /// In nanoseconds.
    pub(crate) latencies: Histogram<u64>,
    /// The longest time without a reply on any connection.
    pub(crate) longest_stop: Duration,
}

impl Default for Since {
    fn default() -> Self {
        Self { latencies: coarse(), longest_stop: Duration::ZERO, last: None }
    }
}

impl Since {
    /// A slice begins. A server that still owes replies goes on standing.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.last.get_or_insert(now);
    }

    /// A request that was due at `due` has its reply.
    #[inline]
    pub(crate) fn reply(&mut self, due: Instant, end: Instant) {
        record(&mut self.latencies, end.saturating_duration_since(due));
        if let Some(last) = &mut self.last {
            self.longest_stop = self.longest_stop.max(end.saturating_duration_since(*last));
            *last = end;
        }
    }

    /// A slice is over. The server may still owe replies.
    pub(crate) fn end(&mut self, owes: bool) -> Seen {
        if !owes {
            self.last = None;
        }
        let latencies = std::mem::replace(&mut self.latencies, coarse());
        Seen { latencies, longest_stop: std::mem::take(&mut self.longest_stop) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_ends_with_a_reply_in_its_slice_or_after_it() {
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let stop = |seen: &Seen| seen.longest_stop.as_millis();
        let mut since = Since::default();
        since.begin(at(0));
        since.reply(at(0), at(5));
        since.reply(at(1), at(25));
        let seen = since.end(false);
        assert_eq!((stop(&seen), seen.latencies.len()), (20, 2));
        // It rests, and then stands.
        since.begin(at(1000));
        since.reply(at(1000), at(1001));
        assert_eq!(stop(&since.end(true)), 1);
        since.reply(at(1001), at(1200));
        since.begin(at(1300));
        since.reply(at(1300), at(1310));
        assert_eq!(stop(&since.end(false)), 199);
    }
}
