//! The connections of a replay: each starts at its time, asks, thinks, and asks again.
//!
//! ```text
//!   start ├── request ──┤ think ├─ request ─┤    think    ├──── request ────┤  stays  │ closed
//!         due                   due                       due
//!         (its time)            (its think time after the reply before)
//! ```
//!
//! Such a load is partly open (Schroeder, Wierman & Harchol-Balter, NSDI 2006). The server delays
//! later requests of a connection, but no other connection. A connection that is open when the
//! piece begins was opened before, with a request that does not count.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use duality_runtime::net::{ConnectOptions, TcpStream};
use duality_runtime::time;

use super::alarm::{Alarm, Sleeper};
use super::plan::{Piece, Planned};
use crate::connection::Load;
use crate::failure::Failure;
use crate::fidelity::{self, Carried, Fidelity};
use crate::measurement::Start;
use crate::request::{Ask, Reply};

/// The unread bytes that the kernel keeps for a slow client, and the size of a segment. With the
/// default, the kernel takes a megabyte ahead, and the server notices no slow client.
const SLOW: (u32, u16) = (4096, 536);

/// A time that no replay reaches.
const NEVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A replay on one server.
pub(super) struct Replay<A> {
    pub(super) load: Arc<Load>,
    piece: Arc<Piece>,
    /// The pages of the classes, in their order.
    asked: Arc<[A]>,
    /// The delay of each connection's beginning, so that servers do not get requests at the same
    /// moment.
    offsets: Vec<Duration>,
    alarm: Arc<Alarm>,
    course: Mutex<Course>,
}

/// The state of the replay so far.
struct Course {
    begun: Option<Instant>,
    /// The due and sending time of each request, since the beginning of the piece.
    requests: Vec<(Duration, Duration)>,
    sessions: Vec<ReplayedConnection>,
}

/// The state of a connection.
#[derive(Clone, Copy, Default)]
struct ReplayedConnection {
    carried: Carried,
    /// The time at which the next request is due. `None` while it waits for a reply, and after its
    /// last request.
    next: Option<Instant>,
    /// Whether it waits for the reply to the request that opened it.
    is_opening: bool,
}

impl<A: Ask> Replay<A> {
    pub(super) fn new(
        load: Arc<Load>,
        piece: Arc<Piece>,
        asked: Arc<[A]>,
        offsets: Vec<Duration>,
        alarm: Arc<Alarm>,
    ) -> Self {
        let sessions = vec![ReplayedConnection::default(); piece.connections.len()];
        let course = Course { begun: None, requests: Vec::new(), sessions };
        Self { load, piece, asked, offsets, alarm, course: Mutex::new(course) }
    }

    /// The times and numbers of its connections, from the beginning of the piece on.
    pub(super) fn starts(&self) -> impl Iterator<Item = (Duration, usize)> {
        let planned = self.piece.connections.iter().zip(&self.offsets).enumerate();
        planned
            .filter(|(_, (planned, _))| !planned.before)
            .map(|(number, (planned, offset))| (planned.start + *offset, number))
    }

    /// The indices of the connections that are open before the piece.
    pub(super) fn open_before(&self) -> impl Iterator<Item = usize> {
        let planned = self.piece.connections.iter().enumerate();
        planned.filter(|(_, planned)| planned.before).map(|(number, _)| number)
    }

    /// Begins the piece. From now on, a connection that still waits for its first reply waits as
    /// for a counted request.
    pub(super) fn begin(&self, now: Instant) {
        let opening: Vec<usize> = {
            let mut course = self.lock();
            course.begun = Some(now);
            let sessions = course.sessions.iter().enumerate();
            sessions.filter(|(_, one)| one.is_opening).map(|(number, _)| number).collect()
        };
        for number in opening {
            self.load.recorder.begin(number, Start::at(now));
        }
        self.load.gate.open();
    }

    /// The number of connections that wait for the reply to their opening request.
    pub(super) fn opening(&self) -> usize {
        self.lock().sessions.iter().filter(|session| session.is_opening).count()
    }

    /// Planned against sent, in the window from the beginning until `closed`.
    pub(super) fn fidelity(&self, closed: Instant) -> Fidelity {
        let course = self.lock();
        let Some(begun) = course.begun else { return Fidelity::default() };
        let window = closed.saturating_duration_since(begun);
        let sent: Vec<_> =
            course.requests.iter().filter(|(_, sent)| *sent <= window).copied().collect();
        let carried = course.sessions.iter().map(|session| {
            let is_lost = session.next.is_some_and(|due| fidelity::is_missing(due, closed));
            Carried { due: session.carried.due + u32::from(is_lost), ..session.carried }
        });
        let carried: Vec<_> = carried.filter(|carried| carried.due > 0).collect();
        Fidelity::of(&sent, &carried, window)
    }

    fn lock(&self) -> MutexGuard<'_, Course> {
        // After a panic elsewhere, a half-finished count does no further harm.
        self.course.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The due time of a connection's next request, if there is one.
    fn due(&self, number: usize, due: Option<Instant>) {
        self.lock().sessions[number].next = due;
    }

    /// Notes that a request of a connection is sent.
    fn sends(&self, number: usize, start: Start) {
        let mut course = self.lock();
        let begun = course.begun.unwrap_or(start.due);
        let since = |time: Instant| time.saturating_duration_since(begun);
        course.requests.push((since(start.due.max(start.free)), since(start.sent)));
        let session = &mut course.sessions[number];
        session.next = None;
        session.carried.due += 1;
        session.carried.sent += 1;
    }
}

/// A connection, and its place in its plan.
struct Visitor<A> {
    replay: Arc<Replay<A>>,
    number: usize,
    planned: Planned,
    stream: Option<TcpStream>,
    sleeper: Sleeper,
}

/// Runs a connection of a replay, from its opening to its end.
pub(super) async fn run<A: Ask>(replay: Arc<Replay<A>>, number: usize) {
    let planned = replay.piece.connections[number];
    let sleeper = replay.alarm.sleeper();
    let mut visitor = Visitor { replay, number, planned, stream: None, sleeper };
    visitor.visit().await;
}

/// Runs a connection that is open before the piece begins, and opens at `at`.
pub(super) async fn run_before<A: Ask>(replay: Arc<Replay<A>>, number: usize, at: Instant) {
    let planned = replay.piece.connections[number];
    let sleeper = replay.alarm.sleeper();
    let mut visitor = Visitor { replay, number, planned, stream: None, sleeper };
    visitor.sleeper.until(at).await;
    visitor.open_before().await;
    visitor.replay.load.gate.opened().await;
    visitor.visit().await;
}

impl<A: Ask> Visitor<A> {
    /// Opens the connection with a request. The request counts only if its reply does not come
    /// before the piece begins.
    async fn open_before(&mut self) {
        let has_begun = {
            let mut course = self.replay.lock();
            course.sessions[self.number].is_opening = true;
            course.begun.is_some()
        };
        let outcome = self.ask(self.planned.from - 1, false).await;
        let mut course = self.replay.lock();
        course.sessions[self.number].is_opening = false;
        let begun = course.begun;
        drop(course);
        if let Some(begun) = begun.filter(|_| !has_begun) {
            self.record(Start::at(begun), outcome);
        }
    }

    /// Makes the requests of the piece, each at its due time.
    async fn visit(&mut self) {
        let replay = self.replay.clone();
        let Planned { from, to, start, stays, .. } = self.planned;
        let begun = replay.lock().begun.unwrap_or_else(Instant::now);
        let mut due = begun + start + replay.offsets[self.number];
        // A late reply delays the connection's next request, but nothing delays a new connection.
        let mut free = if self.planned.before { Instant::now() } else { due };
        for step in from..to {
            replay.due(self.number, Some(due));
            self.sleeper.until(due).await;
            let is_last = step + 1 == to && stays == Some(Duration::ZERO);
            let start = Start { due, sent: Instant::now(), free };
            replay.sends(self.number, start);
            replay.load.recorder.begin(self.number, start);
            let outcome = self.ask(step, is_last).await;
            self.record(start, outcome);
            free = Instant::now();
            if step + 1 < to {
                due = free + replay.piece.think(&self.planned, step + 1);
            }
        }
        match stays {
            None => time::sleep(NEVER).await,
            // A connection without a request ends at its time.
            Some(_) if from == to => self.sleeper.until(due).await,
            Some(rest) => self.sleeper.until(free + rest).await,
        }
    }

    /// Makes one request. Opens a new connection if there is none, or if the server has closed it
    /// since its last use.
    async fn ask(&mut self, step: u32, is_last: bool) -> Result<Reply, Failure> {
        let recorded = self.replay.piece.recorded(&self.planned);
        let class = recorded.steps[step as usize].class;
        let rate = self.replay.piece.rate(&self.planned);
        let asked = self.replay.asked[usize::from(class)].clone();
        let outcome = match self.stream.take() {
            None => None,
            Some(stream) => match exchange(&asked, stream, rate, is_last).await {
                (Err(failure), _) if failure.is_before_reply() => None,
                other => Some(other),
            },
        };
        let (outcome, stream) = match outcome {
            Some(exchanged) => exchanged,
            None => {
                let stream = connect(&self.replay.load, rate).await?;
                exchange(&asked, stream, rate, is_last).await
            }
        };
        // After a failure, the next bytes on the connection are unpredictable.
        let may_stay = outcome.as_ref().is_ok_and(|reply| reply.open) && !is_last;
        self.stream = Some(stream).filter(|_| may_stay);
        outcome
    }

    fn record(&self, start: Start, outcome: Result<Reply, Failure>) {
        let recorder = &self.replay.load.recorder;
        match outcome {
            Ok(reply) => recorder.reply(self.number, start, Instant::now(), reply),
            Err(failure) => recorder.failure(self.number, &failure),
        }
    }
}

/// Opens a connection. A client with a rate is a slow one.
async fn connect(load: &Load, rate: Option<u64>) -> Result<TcpStream, Failure> {
    let mut options = ConnectOptions::default();
    if rate.is_some() {
        options = options.receive_buffer(SLOW.0).largest_segment(SLOW.1);
    }
    let stream = load.routes[0].connect_with(load.reply_timeout, options).await?;
    load.recorder.connected();
    Ok(stream)
}

/// A request and its reply.
async fn exchange<A: Ask>(
    asked: &A,
    mut stream: TcpStream,
    rate: Option<u64>,
    is_last: bool,
) -> (Result<Reply, Failure>, TcpStream) {
    let outcome = match asked.send(&mut stream, is_last).await {
        Ok(()) => asked.receive(&mut stream, rate).await,
        Err(failure) => Err(failure),
    };
    (outcome, stream)
}
