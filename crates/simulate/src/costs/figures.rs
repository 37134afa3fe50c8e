//! What a model observes in its window.

use hdrhistogram::Histogram;

/// What came of a model. Times are virtual.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Replies per second.
    pub requests_per_second: f64,
    /// The servers' processor time for a request, in microseconds.
    pub cpu_us_per_request: f64,
    /// The median latency of clients, in microseconds.
    pub p50_us: f64,
    /// The latency that one request in a hundred exceeds, in microseconds.
    pub p99_us: f64,
    /// The mean latency, in microseconds.
    pub mean_us: f64,
    /// How long a request was at its server on average, in microseconds.
    pub at_server_us: f64,
    /// The part of it before the turn that replies: the wait for a processor, and earlier turns.
    pub waited_us: f64,
    /// The share of the servers' processors that was busy, from 0 to 1.
    pub busy: f64,
    /// The mean number of requests that were asked and not answered.
    pub in_service: f64,
    /// The clients that got a reply before the window's end.
    pub served: usize,
    /// The replies in the window.
    pub requests: u64,
}

/// The sums of a window.
pub(super) struct Observed {
    /// The beginning and the end of the window, once it has begun.
    window: Option<(u64, u64)>,
    latencies: Histogram<u64>,
    busy: u64,
    at_server: u64,
    waited: u64,
    left_server: u64,
    /// Requests under way, since when, and the sum over time.
    under_way: u64,
    since: u64,
    area: f64,
}

/// The longest latency that is told apart, in nanoseconds.
const LONGEST: u64 = 3_600_000_000_000;

impl Observed {
    pub(super) fn new() -> Self {
        let latencies = Histogram::new_with_bounds(1, LONGEST, 3).expect("the bounds are right");
        Self {
            window: None,
            latencies,
            busy: 0,
            at_server: 0,
            waited: 0,
            left_server: 0,
            under_way: 0,
            since: 0,
            area: 0.0,
        }
    }

    fn has_begun(&self) -> bool {
        self.window.is_some()
    }

    pub(super) fn begin(&mut self, now: u64, length: u64) {
        self.window = Some((now, now + length));
        self.since = now;
    }

    /// The end of the window, once it has begun.
    pub(super) fn end(&self) -> u64 {
        self.window.map_or(u64::MAX, |(_, end)| end)
    }

    /// A processor is busy from now on until then.
    pub(super) fn busy(&mut self, now: u64, until: u64) {
        if let Some((_, end)) = self.window {
            self.busy += until.min(end).saturating_sub(now);
        }
    }

    /// A request was at a server, and the last turn of it took `turn`.
    pub(super) fn left(&mut self, came: u64, leaves: u64, turn: u64) {
        if self.has_begun() {
            let stay = leaves - came;
            self.at_server += stay;
            self.waited += stay.saturating_sub(turn);
            self.left_server += 1;
        }
    }

    pub(super) fn asked(&mut self, now: u64) {
        self.pass(now);
        self.under_way += 1;
    }

    pub(super) fn answered(&mut self, asked: u64, now: u64) {
        self.pass(now);
        self.under_way -= 1;
        if self.has_begun() {
            self.latencies.saturating_record(now - asked);
        }
    }

    fn pass(&mut self, now: u64) {
        if self.has_begun() {
            self.area += self.under_way as f64 * (now - self.since) as f64;
        }
        self.since = now;
    }

    /// The figures of a window that is over.
    pub(super) fn figures(mut self, processors: usize, served: usize) -> Option<Figures> {
        let (begin, end) = self.window?;
        self.pass(end);
        let (requests, length) = (self.latencies.len(), (end - begin) as f64);
        if requests == 0 {
            return None;
        }
        let us = |ns: f64| ns / 1e3;
        let of_each = |sum: u64| us(sum as f64 / self.left_server.max(1) as f64);
        let quantile = |share| us(self.latencies.value_at_quantile(share) as f64);
        Some(Figures {
            requests_per_second: requests as f64 / length * 1e9,
            cpu_us_per_request: us(self.busy as f64 / requests as f64),
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            mean_us: us(self.latencies.mean()),
            at_server_us: of_each(self.at_server),
            waited_us: of_each(self.waited),
            busy: self.busy as f64 / (length * processors as f64),
            in_service: self.area / length,
            served,
            requests,
        })
    }
}
