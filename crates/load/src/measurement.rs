//! The measurement of a window, which the recorder fills and the report reads.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::histogram::{histogram, record};
use crate::unanswered::{Overdue, Silence};

/// The beginning of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    /// The time at which the request was due.
    pub(crate) due: Instant,
    /// The time at which the request was sent.
    pub(crate) sent: Instant,
    /// The time at which the request's connection was free. After both times, the generator is to
    /// blame for any further delay.
    pub(crate) free: Instant,
}

impl Start {
    /// The start of a request without a due time, which begins when it may.
    pub(crate) fn at(now: Instant) -> Self {
        Self { due: now, sent: now, free: now }
    }
}

/// The counts and times of a window.
#[derive(Clone, Debug)]
pub(crate) struct Measurement {
    /// The length of the window, and the load's CPU time in it. Zero if the window never opened.
    pub(crate) window: Duration,
    pub(crate) cpu: Duration,
    /// The time in the window for which the load was ready to run without a CPU.
    pub(crate) waited: Duration,
    /// The times of all connections in the window that latencies do not cover. `cut` belongs to
    /// requests that did not both begin and end in it; `rest` lies between requests. Together with
    /// the latencies, these are the whole time of the connections.
    pub(crate) cut: Duration,
    pub(crate) rest: Duration,
    /// The sum of the times for which requests were under way in the window, on connections that
    /// got a reply in it.
    pub(crate) in_use: Duration,
    /// Marks within the window: the time since it opened, and the correct replies so far.
    pub(crate) marks: Vec<(Duration, u64)>,
    /// Correct replies, and their bytes, that were complete in the window.
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    /// Nanoseconds of requests that began and ended in the window.
    pub(crate) latencies: Histogram<u64>,
    /// Of the same requests, nanoseconds from the sending to the first byte of the reply.
    pub(crate) first_bytes: Histogram<u64>,
    /// The figures that only an open loop has.
    pub(crate) open_loop: Option<OpenCounts>,
    /// Connections made in the whole run.
    pub(crate) connections_opened: u64,
    /// Connections that got a reply in the window.
    pub(crate) connections_served: u64,
    /// Failures in the window by kind, and one failure of each kind in words.
    pub(crate) failures: BTreeMap<&'static str, FailureCount>,
    /// Failures before the window opened or after it closed, without wrong replies.
    pub(crate) failures_outside: u64,
    /// Wrong replies before the window opened or after it closed.
    pub(crate) wrong_outside: u64,
    pub(crate) overdue: Overdue,
    /// The longest time in the window without a reply on any connection.
    pub(crate) silence: Silence,
}

/// The counts of an open loop. Histograms are in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct OpenCounts {
    /// Requests that were due in the window.
    pub(crate) due: u64,
    /// The number of these requests that had not been sent when the window closed.
    pub(crate) unsent: u64,
    /// Latencies of the same requests as the corrected ones, counted from the sending.
    pub(crate) raw: Histogram<u64>,
    /// The time from due to sent, for whatever reason.
    pub(crate) send_lag: Histogram<u64>,
    /// The generator's part of the lag: the time in which a connection was free.
    pub(crate) generator_lag: Histogram<u64>,
    /// The waits of unanswered and unsent requests when the window closed.
    pub(crate) unanswered: Histogram<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailureCount {
    pub(crate) count: u64,
    pub(crate) example: String,
}

impl Default for Measurement {
    fn default() -> Self {
        Self {
            window: Duration::ZERO,
            cpu: Duration::ZERO,
            waited: Duration::ZERO,
            cut: Duration::ZERO,
            rest: Duration::ZERO,
            in_use: Duration::ZERO,
            marks: Vec::new(),
            requests: 0,
            bytes: 0,
            latencies: histogram(),
            first_bytes: histogram(),
            open_loop: None,
            connections_opened: 0,
            connections_served: 0,
            failures: BTreeMap::new(),
            failures_outside: 0,
            wrong_outside: 0,
            overdue: Overdue::default(),
            silence: Silence::default(),
        }
    }
}

impl OpenCounts {
    pub(crate) fn new() -> Self {
        Self {
            due: 0,
            unsent: 0,
            raw: histogram(),
            send_lag: histogram(),
            generator_lag: histogram(),
            unanswered: histogram(),
        }
    }

    pub(crate) fn sent(&mut self, start: Start) {
        self.due += 1;
        record(&mut self.send_lag, start.sent.saturating_duration_since(start.due));
        let possible = start.due.max(start.free);
        record(&mut self.generator_lag, start.sent.saturating_duration_since(possible));
    }
}
