//! The counters of a run: the measured window, and all events in it.
//!
//! ```text
//!    ramp-up, warm-up      │            window              │   after
//!   ───────────────────────┼────────────────────────────────┼──────────▶ time
//!      a ├─────┤           │                                │            not counted
//!      b          ├────────┼──┤                             │            a request, no latency
//!      c                   │    ├───────┤                   │            a request and its latency
//!      d                   │                          ├─────┼────┤       not counted
//! ```
//!
//! *Requests* are correct replies that were complete within the window. So their number divided by
//! the window's length is the throughput (b makes up for d, which is cut off). *Latencies* are
//! those of requests that also began in the window (c). So they contain no ramp-up. The halts at
//! both edges, in which the observer reads counters, are also excluded. A request that was still
//! unanswered at the end, after a wait longer than any latency, is counted apart. A closed loop
//! would hide such a request.
//!
//! In an open loop, a request begins when it is *due*, even without a free connection. The request
//! belongs to its due time, and its latency counts from then. The *raw* latency counts from the
//! time of sending.
//!
//! One recorder serves all connections of a load, under an uncontended mutex.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::due::Queue;
use crate::edges::{EdgeHook, Edges, Moment};
use crate::failure::{Failure, is_wrong_reply};
use crate::histogram::record;
use crate::measurement::{FailureCount, Measurement, OpenCounts, Start};
use crate::request::Reply;
use crate::slices::{Seen, Since};
use crate::snapshot::Snapshot;

/// The counters of one load.
pub(crate) struct Recorder {
    state: Mutex<State>,
}

struct State {
    hook: Box<dyn EdgeHook>,
    edges: Edges,
    window: Window,
    tally: Tally,
    /// Requests that failed since the start, in the window or not, by kind.
    failed: BTreeMap<&'static str, u64>,
    connections: Vec<ConnectionRecord>,
    /// Requests that are due and not yet sent, in an open loop.
    queue: Option<Arc<Queue>>,
    counts: Measurement,
    /// The replies after the window.
    since: Since,
}

/// The counts since the start, in the window or not.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Requests that have begun, and requests that have ended in any way.
    pub(crate) begun: u64,
    pub(crate) ended: u64,
    /// Correct replies.
    pub(crate) replies: u64,
    /// Connections that have got a correct reply.
    pub(crate) served: u64,
}

impl Tally {
    /// Requests that are under way.
    pub(crate) fn under_way(&self) -> u64 {
        self.begun.saturating_sub(self.ended)
    }
}

enum Window {
    Before,
    Open(Moment),
    After(Instant),
}

#[derive(Clone, Copy, Default)]
struct ConnectionRecord {
    /// The due time and the sending time of its unanswered request.
    waiting_since: Option<Instant>,
    sent: Option<Instant>,
    /// The time at which its last request ended.
    resting_since: Option<Instant>,
    /// Whether it ever got a reply, and whether it got a reply within the window.
    ever_served: bool,
    served: bool,
}

impl Recorder {
    /// A recorder for this many connections. An open loop has a `queue`.
    pub(crate) fn new(
        connections: usize,
        edges: Edges,
        queue: Option<Arc<Queue>>,
        hook: Box<dyn EdgeHook>,
    ) -> Self {
        let state = State {
            hook,
            edges,
            window: Window::Before,
            tally: Tally::default(),
            failed: BTreeMap::new(),
            connections: vec![ConnectionRecord::default(); connections],
            counts: Measurement {
                open_loop: queue.as_ref().map(|_| OpenCounts::new()),
                ..Measurement::default()
            },
            queue,
            since: Since::default(),
        };
        Self { state: Mutex::new(state) }
    }

    /// The first request may begin. A window that leaves nothing out opens now.
    pub(crate) fn ready(&self) {
        self.lock().pass_edges();
    }

    /// Whether `connection` may make a request. If so, the call begins the request.
    #[inline]
    pub(crate) fn begin(&self, connection: usize, start: Start) -> bool {
        self.lock().begin(connection, start)
    }

    /// Records a correct reply to the request of a connection.
    #[inline]
    pub(crate) fn reply(&self, connection: usize, start: Start, end: Instant, reply: Reply) {
        let mut state = self.lock();
        state.count_use(start.sent, end);
        if state.count_reply(connection, start, end, reply.bytes) {
            let first = reply.first.unwrap_or(end);
            let wait = first.saturating_duration_since(start.sent);
            record(&mut state.counts.first_bytes, wait);
        }
        state.end_request(connection, end);
    }

    /// Records a failed request of a connection.
    pub(crate) fn failure(&self, connection: usize, failure: &Failure) {
        let mut state = self.lock();
        state.count_failures(failure, 1);
        let now = Instant::now();
        if let (Window::Open(opened), Some(since)) =
            (&state.window, state.connections[connection].waiting_since)
        {
            let part = now.saturating_duration_since(since.max(opened.instant));
            state.counts.cut += part;
        }
        state.end_request(connection, now);
    }

    /// Records correct replies on `connection` that were complete at `end`. There is one for each
    /// of `starts`, with `bytes` bytes in all. For callers that receive many replies at once and do
    /// not begin each request.
    pub(crate) fn replies(
        &self,
        connection: usize,
        starts: &[Instant],
        end: Instant,
        mut bytes: u64,
    ) {
        let mut state = self.lock();
        for &start in starts {
            if state.left() == Some(0) {
                return;
            }
            state.count_use(start, end);
            state.count_reply(connection, Start::at(start), end, std::mem::take(&mut bytes));
            state.tally.ended += 1;
            state.pass_edges();
        }
    }

    /// Records a failure after which the load cannot go on as before. In a load with a number of
    /// requests, all remaining requests fail with it.
    pub(crate) fn break_off(&self, failure: &Failure) {
        let mut state = self.lock();
        let lost = state.left().unwrap_or(1);
        if lost > 0 {
            state.count_failures(failure, lost);
            state.tally.ended += lost;
            state.pass_edges();
        }
    }

    /// Sets the time since which `connection` waits for a reply, for callers that do not
    /// [`begin`](Recorder::begin) each request.
    pub(crate) fn waits(&self, connection: usize, since: Option<Instant>) {
        let mut state = self.lock();
        let connection = &mut state.connections[connection];
        (connection.waiting_since, connection.sent) = (since, since);
    }

    /// Counts a new connection.
    pub(crate) fn connected(&self) {
        self.lock().counts.connections_opened += 1;
    }

    /// Opens the window, if it has not been opened.
    pub(crate) fn open(&self) {
        self.lock().open();
    }

    /// Remembers the present number of correct replies, if the window is open.
    pub(crate) fn mark(&self) {
        let mut state = self.lock();
        if let Window::Open(opened) = state.window {
            let mark = (opened.instant.elapsed(), state.counts.requests);
            state.counts.marks.push(mark);
        }
    }

    /// Closes the window, if it is open.
    pub(crate) fn close(&self) {
        self.lock().close();
    }

    /// The number of requests that have ended since the start.
    pub(crate) fn requests_ended(&self) -> u64 {
        self.tally().ended
    }

    /// The counts since the start.
    pub(crate) fn tally(&self) -> Tally {
        self.lock().tally
    }

    /// The number of requests that have failed since the start, by kind.
    pub(crate) fn failed(&self) -> BTreeMap<&'static str, u64> {
        self.lock().failed.clone()
    }

    /// A slice after the window begins.
    pub(crate) fn begin_slice(&self) {
        self.lock().since.begin(Instant::now());
    }

    /// A slice after the window is over. Connections that were never served wait for their turn,
    /// and not for a server that stands.
    pub(crate) fn end_slice(&self) -> Seen {
        let mut state = self.lock();
        let mut served = state.connections.iter().filter(|connection| connection.ever_served);
        let owes = served.any(|connection| connection.waiting_since.is_some());
        state.since.end(owes)
    }

    /// What a display may show of the load now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let state = self.lock();
        Snapshot {
            window: match state.window {
                Window::Before => None,
                Window::Open(opened) => Some(opened.instant.elapsed()),
                Window::After(_) => Some(state.counts.window),
            },
            ended: state.tally.ended,
            replies: state.tally.replies,
            failed: state.failed.values().sum(),
            latencies: state.counts.latencies.clone(),
        }
    }

    /// The measurement so far.
    pub(crate) fn measurement(&self) -> Measurement {
        self.lock().counts.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // After a panic elsewhere, a half-finished count does no further harm.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn begin(&mut self, connection: usize, start: Start) -> bool {
        if let Edges::ByCount { total, .. } = self.edges
            && self.tally.begun == total
        {
            return false;
        }
        self.tally.begun += 1;
        let connection = &mut self.connections[connection];
        (connection.waiting_since, connection.sent) = (Some(start.due), Some(start.sent));
        let Window::Open(opened) = &self.window else { return true };
        match &mut self.counts.open_loop {
            Some(counts) if start.due >= opened.instant => counts.sent(start),
            Some(_) => {}
            None => {
                let since = connection.resting_since.unwrap_or(opened.instant).max(opened.instant);
                self.counts.rest += start.due.saturating_duration_since(since);
            }
        }
        true
    }

    /// Counts a correct reply. Returns whether the reply has a latency: whether its request began
    /// and ended in the window.
    fn count_reply(&mut self, connection: usize, start: Start, end: Instant, bytes: u64) -> bool {
        self.tally.replies += 1;
        if !self.connections[connection].ever_served {
            self.connections[connection].ever_served = true;
            self.tally.served += 1;
        }
        let opened = match self.window {
            Window::Before => return false,
            Window::Open(opened) => opened,
            Window::After(closed) => {
                if start.due >= closed {
                    self.since.reply(start.due, end);
                }
                return false;
            }
        };
        self.counts.requests += 1;
        self.counts.bytes += bytes;
        self.counts.silence.end(opened.instant, end);
        let has_latency = start.due >= opened.instant;
        if has_latency {
            record(&mut self.counts.latencies, end.saturating_duration_since(start.due));
            if let Some(counts) = &mut self.counts.open_loop {
                record(&mut counts.raw, end.saturating_duration_since(start.sent));
            }
        } else {
            self.counts.cut += end.saturating_duration_since(opened.instant);
        }
        let connection = &mut self.connections[connection];
        if !connection.served {
            connection.served = true;
            self.counts.connections_served += 1;
        }
        has_latency
    }

    /// Counts the part of an answered request's time that lies within the window.
    fn count_use(&mut self, sent: Instant, end: Instant) {
        if let Window::Open(opened) = self.window {
            self.counts.in_use += end.saturating_duration_since(sent.max(opened.instant));
        }
    }

    fn count_failures(&mut self, failure: &Failure, count: u64) {
        *self.failed.entry(failure.kind()).or_default() += count;
        if !matches!(self.window, Window::Open(_)) {
            let counts = &mut self.counts;
            *match is_wrong_reply(failure.kind()) {
                true => &mut counts.wrong_outside,
                false => &mut counts.failures_outside,
            } += count;
            return;
        }
        let entry = self.counts.failures.entry(failure.kind());
        entry.or_insert_with(|| FailureCount { count: 0, example: failure.to_string() }).count +=
            count;
    }

    /// The number of remaining requests, in a load with a number of requests.
    fn left(&self) -> Option<u64> {
        match self.edges {
            Edges::ByTime => None,
            Edges::ByCount { total, .. } => Some(total.saturating_sub(self.tally.ended)),
        }
    }

    /// Ends a request that has been counted.
    #[inline]
    fn end_request(&mut self, connection: usize, end: Instant) {
        self.tally.ended += 1;
        let connection = &mut self.connections[connection];
        (connection.waiting_since, connection.sent) = (None, None);
        connection.resting_since = Some(end);
        self.pass_edges();
    }

    fn pass_edges(&mut self) {
        if let Edges::ByCount { open_after, close_after, .. } = self.edges {
            if self.tally.ended == open_after {
                self.open();
            }
            if self.tally.ended == close_after {
                self.close();
            }
        }
    }

    fn open(&mut self) {
        if matches!(self.window, Window::Before) {
            self.window = Window::Open(self.hook.opened());
        }
    }

    fn close(&mut self) {
        let Window::Open(opened) = self.window else { return };
        let closed = self.hook.closed();
        self.window = Window::After(closed.instant);
        self.counts.window = closed.instant.saturating_duration_since(opened.instant);
        self.counts.cpu = closed.cpu.saturating_sub(opened.cpu);
        self.counts.waited = closed.waited.saturating_sub(opened.waited);
        for connection in &self.connections {
            let (sum, since) = match (connection.waiting_since, connection.resting_since) {
                (Some(since), _) => (&mut self.counts.cut, since),
                (None, since) => (&mut self.counts.rest, since.unwrap_or(opened.instant)),
            };
            *sum += closed.instant.saturating_duration_since(since.max(opened.instant));
            // A connection without any reply waits in a queue for its turn, so it has no request
            // under way.
            if let Some(sent) = connection.sent.filter(|_| connection.served) {
                let part = closed.instant.saturating_duration_since(sent.max(opened.instant));
                self.counts.in_use += part;
            }
        }
        self.counts.silence.end(opened.instant, closed.instant);
        self.count_unanswered(opened.instant, closed.instant);
    }

    /// Counts the requests that are under way, or due and not sent, as the window closes.
    fn count_unanswered(&mut self, opened: Instant, closed: Instant) {
        let counts = &mut self.counts;
        let longest = Duration::from_nanos(counts.latencies.max());
        let mut open_loop = counts.open_loop.take();
        let mut unanswered = |due: Instant| {
            let wait = closed.saturating_duration_since(due);
            if let Some(counts) = &mut open_loop {
                record(&mut counts.unanswered, wait);
            }
            if wait > longest {
                counts.overdue.count += 1;
                counts.overdue.longest = counts.overdue.longest.max(wait);
            }
        };
        let sent = self.connections.iter().filter_map(|connection| connection.waiting_since);
        sent.for_each(&mut unanswered);
        let mut unsent = 0;
        if let Some(queue) = &self.queue {
            queue.each(|due| {
                unanswered(due);
                unsent += u64::from((opened..=closed).contains(&due));
            });
        }
        if let Some(counts) = &mut open_loop {
            counts.due += unsent;
            counts.unsent = unsent;
        }
        self.counts.open_loop = open_loop;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use std::collections::BTreeMap;

    use hdrhistogram::Histogram;

    use super::*;
    use crate::unanswered::Overdue;

    /// A clock in milliseconds that changes only when it is set.
    #[derive(Clone)]
    struct Clock {
        start: Instant,
        now: Arc<AtomicU64>,
    }

    impl Clock {
        fn new() -> Self {
            Self { start: Instant::now(), now: Arc::default() }
        }

        fn at(&self, milliseconds: u64) -> Instant {
            self.start + Duration::from_millis(milliseconds)
        }

        fn start(&self, milliseconds: u64) -> Start {
            Start::at(self.at(milliseconds))
        }

        fn set(&self, milliseconds: u64) {
            self.now.store(milliseconds, Ordering::Relaxed);
        }

        fn moment(&self) -> Moment {
            let now = self.now.load(Ordering::Relaxed);
            let (cpu, waited) = (Duration::from_millis(now / 2), Duration::from_millis(now / 10));
            Moment { instant: self.at(now), cpu, waited }
        }
    }

    impl EdgeHook for Clock {
        fn opened(&mut self) -> Moment {
            self.moment()
        }

        fn closed(&mut self) -> Moment {
            self.moment()
        }
    }

    fn recorder(connections: usize, edges: Edges) -> (Recorder, Clock) {
        let clock = Clock::new();
        let recorder = Recorder::new(connections, edges, None, Box::new(clock.clone()));
        recorder.ready();
        (recorder, clock)
    }

    #[test]
    fn the_picture_at_the_top_is_right() {
        let (recorder, clock) = recorder(4, Edges::ByTime);
        for (connection, start) in [0, 80, 150, 280].into_iter().enumerate() {
            assert!(recorder.begin(connection, clock.start(start)));
        }
        recorder.reply(0, clock.start(0), clock.at(50), Reply::at_once(1, true)); // a
        clock.set(100);
        recorder.open();
        recorder.reply(1, clock.start(80), clock.at(130), Reply::at_once(10, true)); // b
        recorder.reply(2, clock.start(150), clock.at(170), Reply::at_once(100, true)); // c
        clock.set(300);
        recorder.close();
        recorder.reply(3, clock.start(280), clock.at(320), Reply::at_once(1000, true)); // d
        let counted = recorder.measurement();
        assert_eq!((counted.requests, counted.bytes), (2, 110));
        assert_eq!(counted.latencies.len(), 1);
        assert!(counted.latencies.max().abs_diff(20_000_000) < 20_000);
        assert_eq!(counted.window, Duration::from_millis(200));
        assert_eq!(counted.cpu, Duration::from_millis(100));
        assert_eq!(counted.waited, Duration::from_millis(20));
        assert_eq!(counted.connections_served, 2);
        assert_eq!(recorder.requests_ended(), 4);
        // 30 ms of b and 20 of c. The connection of d was not served in the window.
        assert_eq!(counted.in_use, Duration::from_millis(50));
    }

    /// The one counted latency is 190 ms. Two requests with this mean would be 1.9 under way on one
    /// connection.
    #[test]
    fn no_more_requests_are_under_way_than_there_are_connections() {
        let (recorder, clock) = recorder(1, Edges::ByTime);
        recorder.begin(0, clock.start(0));
        clock.set(100);
        recorder.open();
        recorder.reply(0, clock.start(0), clock.at(110), Reply::at_once(1, true));
        recorder.begin(0, clock.start(110));
        recorder.reply(0, clock.start(110), clock.at(300), Reply::at_once(1, true));
        clock.set(300);
        recorder.close();
        let counted = recorder.measurement();
        assert_eq!((counted.requests, counted.latencies.len()), (2, 1));
        assert_eq!(counted.in_use, counted.window);
    }

    #[test]
    fn all_the_time_of_connections_is_accounted_for() {
        let (recorder, clock) = recorder(2, Edges::ByTime);
        recorder.begin(0, clock.start(0));
        clock.set(100);
        recorder.open();
        recorder.reply(0, clock.start(0), clock.at(130), Reply::at_once(1, true));
        recorder.begin(0, clock.start(140));
        recorder.reply(0, clock.start(140), clock.at(190), Reply::at_once(1, true));
        recorder.begin(0, clock.start(190));
        clock.set(300);
        recorder.close();
        let counted = recorder.measurement();
        let milliseconds = |duration: Duration| duration.as_millis();
        // The part of the first request and of the last one, 10 ms between the two, and the whole
        // time of the other connection.
        assert_eq!((milliseconds(counted.cut), milliseconds(counted.rest)), (30 + 110, 10 + 200));
        let latencies = (counted.latencies.mean() / 1e6).round() as u128;
        assert_eq!(latencies + 140 + 210, 2 * milliseconds(counted.window));
    }

    #[test]
    fn what_waits_longer_than_any_latency_is_overdue() {
        let (recorder, clock) = recorder(3, Edges::ByTime);
        clock.set(10);
        recorder.open();
        for connection in 0..3 {
            recorder.begin(connection, clock.start(10 * connection as u64));
        }
        recorder.reply(2, clock.start(20), clock.at(100), Reply::at_once(1, true));
        clock.set(110);
        recorder.close();
        let overdue = recorder.measurement().overdue;
        assert_eq!(overdue, Overdue { count: 2, longest: Duration::from_millis(110) });
    }

    #[test]
    fn failures_are_counted_by_kind() {
        let (recorder, _) = recorder(1, Edges::ByTime);
        recorder.failure(0, &Failure::TimedOut);
        recorder.open();
        recorder.failure(0, &Failure::WrongStatus(404));
        recorder.failure(0, &Failure::WrongStatus(500));
        recorder.close();
        recorder.failure(0, &Failure::TimedOut);
        recorder.failure(0, &Failure::WrongBytes("its length"));
        let counted = recorder.measurement();
        let example = Failure::WrongStatus(404).to_string();
        assert_eq!(
            counted.failures,
            BTreeMap::from([("wrong-status", FailureCount { count: 2, example })])
        );
        assert_eq!((counted.failures_outside, counted.wrong_outside, counted.requests), (2, 1, 0));
        let all = [("timed-out", 2), ("wrong-status", 2), ("wrong-bytes", 1)];
        assert_eq!(recorder.failed(), BTreeMap::from(all));
    }

    #[test]
    fn many_replies_at_once_count_like_one_after_the_other() {
        let edges = Edges::ByCount { open_after: 1, close_after: 4, total: 4 };
        let (recorder, clock) = recorder(1, edges);
        let starts = [1, 2, 3, 3, 3].map(|milliseconds| clock.at(milliseconds));
        recorder.replies(0, &starts[..2], clock.at(5), 20);
        assert_eq!(recorder.requests_ended(), 2);
        clock.set(7);
        recorder.replies(0, &starts[2..], clock.at(6), 20);
        let counted = recorder.measurement();
        // The first request opened the window. Requests beyond the total are not counted.
        assert_eq!((counted.requests, recorder.requests_ended()), (3, 4));
        assert_eq!(counted.bytes, 20);
        assert_eq!(counted.window, Duration::from_millis(7));
    }

    #[test]
    fn what_is_broken_off_fails_with_all_that_has_not_ended() {
        let edges = Edges::ByCount { open_after: 0, close_after: 9, total: 9 };
        let (recorder, clock) = recorder(2, edges);
        recorder.replies(1, &[clock.at(0); 2], clock.at(1), 2);
        recorder.break_off(&Failure::TooSlow);
        recorder.break_off(&Failure::TimedOut);
        recorder.replies(0, &[clock.at(0); 2], clock.at(1), 2);
        let counted = recorder.measurement();
        assert_eq!((counted.requests, recorder.requests_ended()), (2, 9));
        assert_eq!(counted.failures.len(), 1);
        assert_eq!(counted.failures["too-slow"].count, 7);
        assert_eq!(counted.overdue, Overdue::default());
    }

    #[test]
    fn of_a_load_for_a_time_what_breaks_is_one_failure() {
        let (recorder, clock) = recorder(2, Edges::ByTime);
        recorder.open();
        recorder.break_off(&Failure::TooSlow);
        recorder.waits(0, Some(clock.at(0)));
        recorder.waits(1, Some(clock.at(0)));
        recorder.waits(1, None);
        clock.set(10);
        recorder.close();
        let counted = recorder.measurement();
        assert_eq!(counted.failures["too-slow"].count, 1);
        assert_eq!(counted.overdue, Overdue { count: 1, longest: Duration::from_millis(10) });
    }

    #[test]
    fn a_few_requests_are_all_counted() {
        let (recorder, clock) = recorder(2, Edges::for_requests(3));
        assert!(recorder.begin(0, clock.start(0)) && recorder.begin(1, clock.start(0)));
        recorder.reply(0, clock.start(0), clock.at(5), Reply::at_once(1, true));
        assert!(recorder.begin(0, clock.start(5)));
        recorder.failure(1, &Failure::TimedOut);
        assert!(!recorder.begin(1, clock.start(6)));
        clock.set(8);
        recorder.reply(0, clock.start(5), clock.at(8), Reply::at_once(1, true));
        let counted = recorder.measurement();
        assert_eq!((counted.requests, counted.latencies.len()), (2, 2));
        assert_eq!(counted.failures["timed-out"].count, 1);
        assert_eq!(counted.window, Duration::from_millis(8));
        assert_eq!(counted.overdue, Overdue::default());
    }

    #[test]
    fn the_first_and_last_thousand_of_many_are_left_out() {
        let (recorder, clock) = recorder(1, Edges::for_requests(10_000));
        for number in 1..=10_000 {
            assert!(recorder.begin(0, clock.start(number - 1)));
            clock.set(number);
            recorder.reply(0, clock.start(number - 1), clock.at(number), Reply::at_once(1, true));
        }
        assert!(!recorder.begin(0, clock.start(10_000)));
        let counted = recorder.measurement();
        assert_eq!((counted.requests, counted.latencies.len()), (8_000, 8_000));
        assert_eq!(counted.window, Duration::from_secs(8));
    }

    #[test]
    fn in_an_open_loop_a_request_begins_when_it_is_due() {
        let (clock, queue) = (Clock::new(), Arc::new(Queue::new()));
        let hook = Box::new(clock.clone());
        let recorder = Recorder::new(3, Edges::ByTime, Some(queue.clone()), hook);
        let start = |due, free, sent| Start {
            due: clock.at(due),
            free: clock.at(free),
            sent: clock.at(sent),
        };
        clock.set(100);
        recorder.open();
        // The first request is due before the window. The second is due in the window and sent late
        // by 10 ms. For 6 ms of this time, its connection was free. The third is due in the window
        // and not answered. The fourth is due in the window and not sent.
        let (before, late, open) = (start(90, 0, 101), start(110, 114, 120), start(150, 0, 150));
        for (connection, start) in [before, late, open].into_iter().enumerate() {
            assert!(recorder.begin(connection, start));
        }
        recorder.reply(0, before, clock.at(105), Reply::at_once(1, true));
        recorder.reply(1, late, clock.at(140), Reply::at_once(1, true));
        assert!(queue.push(clock.at(180)));
        clock.set(200);
        recorder.close();
        let counted = recorder.measurement();
        let counts = counted.open_loop.unwrap();
        let only = |histogram: &Histogram<u64>| {
            assert_eq!(histogram.len(), 1);
            (histogram.max() as f64 / 1e6).round()
        };
        assert_eq!((counted.requests, counts.due, counts.unsent), (2, 3, 1));
        assert_eq!((only(&counted.latencies), only(&counts.raw)), (30.0, 20.0));
        assert_eq!((counts.send_lag.len(), counts.send_lag.max() / 1_000_000), (2, 10));
        assert_eq!((counts.generator_lag.len(), counts.generator_lag.max() / 1_000_000), (2, 6));
        assert_eq!(counted.overdue, Overdue { count: 1, longest: Duration::from_millis(50) });
    }
}
