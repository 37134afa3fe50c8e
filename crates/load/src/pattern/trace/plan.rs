//! The connections of a replay, and their times: pieces of a recorded load, laid over each other.
//!
//! ```text
//!   the recording   ──┼───a────┼──────────────────┼───b────┼─────────────────┼───c────┼──
//!                     └ a piece, at random        └ another                  └ a third
//!   the replay of 3 users   a, b and c at the same time
//! ```
//!
//! Ten times the users are ten pieces of the recording from random places. Ten times as many
//! independent people would be equally bursty. A faster clock makes the load burstier, and many
//! copies of one piece make it even burstier. The recording has no end here: its beginning follows
//! its end, so that all requests are equally likely.
//!
//! This module is arithmetic on the recording. `sender.rs` has the sockets.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use duality_trace::{Connection, Trace};
use serde::{Deserialize, Serialize};

use crate::random::SplitMix64;

/// The part of the recording around a named place, from which many users' pieces come. In a
/// recording of a day, this part is an hour.
const PART_OF_RECORDING: u32 = 24;

/// The least length of a recording, since it follows itself. So a single request does not become
/// one every microsecond.
const SHORTEST: Duration = Duration::from_secs(1);

/// A plan has no more connections.
const MOST: usize = 4_000_000;

/// The most copies of a recording to look at, on either side.
const MOST_COPIES: f64 = 1e6;

/// The choice of a piece of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cut {
    /// The multiple of the recording's users, at least 1. Each multiple's piece is from another
    /// place.
    pub users: usize,
    /// The factor of the clock's speed. This is a what-if, because users do not think faster.
    pub speed: f64,
    /// The place in the recording. `None` for any place.
    pub at: Option<At>,
    /// The seed of random choices.
    pub seed: u64,
    /// The length of the piece.
    pub length: Duration,
    /// Whether connections carry their recorded requests. If not, each request has its own
    /// connection. This is a what-if.
    pub keep_alive: bool,
    /// The number of users that come at the same time, at least 1. Each connection of the recording
    /// then comes as often, within 100 ms. This is a what-if.
    pub bunch: usize,
    /// The most bytes a second that a client takes. `None` as recorded. This is a what-if.
    pub client_rate: Option<u64>,
}

/// Users that come at the same time come within this time.
const TOGETHER: Duration = Duration::from_millis(100);

/// A place in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum At {
    /// The piece with the most requests.
    Busiest,
    /// A piece with the median number of requests.
    Median,
    /// This time after the beginning.
    Time(Duration),
}

impl fmt::Display for At {
    /// `busiest`, `median` or seconds, as in `90s`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Busiest => formatter.write_str("busiest"),
            At::Median => formatter.write_str("median"),
            At::Time(time) => write!(formatter, "{}s", time.as_secs_f64()),
        }
    }
}

impl Cut {
    /// The piece of one user, from any place, as recorded.
    #[must_use]
    pub fn of(length: Duration) -> Self {
        Self {
            users: 1,
            speed: 1.0,
            at: None,
            seed: 1,
            length,
            keep_alive: true,
            bunch: 1,
            client_rate: None,
        }
    }

    /// The first mistake, and the remedy.
    fn problem(&self) -> Option<&'static str> {
        if self.users == 0 {
            Some("0 users make no load: give at least 1")
        } else if !(self.speed.is_finite() && self.speed >= 0.001 && self.speed <= 1e6) {
            Some("a speed is between 0.001 and 1000000, and 1 is as recorded")
        } else if self.bunch == 0 {
            Some("a bunch has at least 1 user, and 1 is as recorded")
        } else if self.client_rate == Some(0) {
            Some("a client takes at least 1 byte a second")
        } else if self.length.is_zero() {
            Some("a piece of no length has no requests: give it a duration")
        } else {
            None
        }
    }

    /// The part of the recording that a piece takes.
    fn span(&self) -> Duration {
        self.length.mul_f64(self.speed)
    }
}

/// A piece of a recorded load, with the connections that are open in it.
#[derive(Clone, Debug)]
pub struct Piece {
    pub(super) trace: Arc<Trace>,
    pub(super) cut: Cut,
    /// The connections in the order of their times.
    pub(super) connections: Vec<Planned>,
}

/// A connection of a piece. Times are the replay's, from the beginning of the piece.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Planned {
    /// The time at which its first request is due. For a connection without a request, the time of
    /// its end.
    pub(super) start: Duration,
    /// The index of the connection in the recording.
    pub(super) connection: u32,
    /// The index of its first step, and the index after its last step.
    pub(super) from: u32,
    pub(super) to: u32,
    /// The connection was open before the piece begins.
    pub(super) before: bool,
    /// The time for which it stays open after its last reply. `None` means until the end of the
    /// piece.
    pub(super) stays: Option<Duration>,
}

impl Planned {
    /// The number of its requests.
    pub(super) fn requests(&self) -> usize {
        (self.to - self.from) as usize
    }
}

impl Piece {
    /// Cuts a piece out of a recording. Equal cuts give equal pieces.
    #[must_use]
    pub fn cut(trace: &Arc<Trace>, cut: &Cut) -> Self {
        let mut piece = Self { trace: trace.clone(), cut: *cut, connections: Vec::new() };
        if cut.problem().is_some() {
            return piece;
        }
        let recording = Recording::new(trace);
        let mut random = SplitMix64::new(cut.seed);
        let connections = &mut piece.connections;
        let part = recording.part(cut);
        let mut of_bunch = Duration::ZERO;
        for user in 0..cut.users {
            if user % cut.bunch == 0 {
                of_bunch = match part {
                    None => recording.length.mul_f64(random.fraction()),
                    Some((begin, width)) => begin + width.mul_f64(random.fraction()),
                };
            }
            let later = match cut.bunch {
                1 => Duration::ZERO,
                _ => TOGETHER.mul_f64(cut.speed * random.fraction()),
            };
            recording.layer(of_bunch + later, cut, connections);
            if connections.len() >= MOST {
                break;
            }
        }
        connections.sort_by_key(|planned| (planned.start, planned.connection));
        piece
    }

    /// The first mistake, and the remedy.
    pub(super) fn problem(&self) -> Option<&'static str> {
        if let Some(problem) = self.cut.problem() {
            return Some(problem);
        }
        if let Some(At::Time(time)) = self.cut.at
            && time > self.trace.head.length
        {
            return Some("the recording is shorter than that: choose an earlier time");
        }
        if self.connections.len() >= MOST {
            return Some(
                "the piece has 4000000 connections or more: give fewer users or less time",
            );
        }
        (self.requests() == 0).then_some(
            "no request is in this piece of the recording: give more users, another place or more time",
        )
    }

    /// The length of the plan.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.cut.length
    }

    /// The most connections that are open at any time. The load needs at least this many.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// The number of its requests.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.connections.iter().map(Planned::requests).sum()
    }

    /// The most connections that are open at the same time if each request is answered at once. A
    /// quarter is added, since a slow server has more open connections.
    #[must_use]
    pub fn open_at_once(&self) -> usize {
        let mut edges: Vec<(Duration, isize)> = Vec::with_capacity(2 * self.connections.len());
        for planned in &self.connections {
            let begun = if planned.before { Duration::ZERO } else { planned.start };
            edges.push((begun, 1));
            if let Some(stays) = planned.stays {
                let steps = planned.from.saturating_add(1)..planned.to;
                let thinking: Duration = steps.map(|step| self.think(planned, step)).sum();
                edges.push((planned.start + thinking + stays, -1));
            }
        }
        // If one connection ends when another begins, both count as open.
        edges.sort_by_key(|(time, change)| (*time, -change));
        let mut open = 0;
        let counts = edges.iter().map(|(_, change)| {
            open += change;
            open
        });
        let most = counts.max().unwrap_or(0).unsigned_abs();
        most + most.div_ceil(4)
    }

    /// The class of its first request.
    pub(super) fn first_class(&self) -> usize {
        let first = self.connections.iter().find(|planned| planned.requests() > 0);
        first.map_or(0, |planned| {
            usize::from(self.recorded(planned).steps[planned.from as usize].class)
        })
    }

    /// The number of connections that are open when the piece begins.
    #[must_use]
    pub fn open_before(&self) -> usize {
        self.connections.iter().filter(|planned| planned.before).count()
    }

    /// The due times of its requests, in order, if each request is answered at once.
    #[must_use]
    pub fn arrivals(&self) -> Vec<Duration> {
        let mut all = Vec::with_capacity(self.requests());
        for planned in &self.connections {
            let mut at = planned.start;
            for step in planned.from..planned.to {
                if step > planned.from {
                    at += self.think(planned, step);
                }
                all.push(at);
            }
        }
        all.sort();
        all
    }

    /// The wait between a reply and the next request of the connection.
    pub(super) fn think(&self, planned: &Planned, step: u32) -> Duration {
        let think = self.recorded(planned).steps[step as usize].think;
        think.div_f64(self.cut.speed)
    }

    /// The most bytes a second that the client of a connection takes. `None` for no limit.
    pub(super) fn rate(&self, planned: &Planned) -> Option<u64> {
        let recorded = self.recorded(planned).rate;
        recorded.into_iter().chain(self.cut.client_rate).min()
    }

    pub(super) fn recorded(&self, planned: &Planned) -> &Connection {
        &self.trace.connections[planned.connection as usize]
    }
}

/// A recording, in the form from which pieces are cut.
struct Recording<'a> {
    connections: &'a [Connection],
    length: Duration,
    /// For each connection, the time by which it and all earlier ones have ended.
    ended: Vec<Duration>,
}

impl<'a> Recording<'a> {
    fn new(trace: &'a Trace) -> Self {
        let connections = trace.connections.as_slice();
        let mut latest = Duration::ZERO;
        let mut length = trace.head.length.max(SHORTEST);
        let mut ended = Vec::with_capacity(connections.len());
        for connection in connections {
            length = length.max(connection.last_request());
            latest = latest.max(connection.end());
            ended.push(latest);
        }
        Self { connections, length, ended }
    }

    /// The start and the width of the range in which pieces begin. `None` for the whole recording.
    fn part(&self, cut: &Cut) -> Option<(Duration, Duration)> {
        let span = cut.span();
        // The piece of one user is exactly at the named place.
        let width = match cut.users {
            1 => span,
            _ => span.max(self.length / PART_OF_RECORDING),
        };
        let begin = match cut.at? {
            At::Time(time) => time,
            At::Busiest => self.ranked(width).last().copied().unwrap_or_default(),
            At::Median => {
                let ranked = self.ranked(width);
                ranked.get(ranked.len() / 2).copied().unwrap_or_default()
            }
        };
        Some((begin, width.saturating_sub(span)))
    }

    /// The beginnings of parts of a width, half a width apart, the part with the fewest requests
    /// first.
    fn ranked(&self, width: Duration) -> Vec<Duration> {
        /// The most parts to look at.
        const MOST: u128 = 1 << 20;
        let half = (width / 2).max(SHORTEST);
        let count = self.length.as_nanos().div_ceil(half.as_nanos()).clamp(1, MOST) as usize;
        let half = if count as u128 == MOST { self.length / MOST as u32 } else { half };
        let mut halves = vec![0_u64; count];
        for connection in self.connections {
            for time in connection.request_times() {
                let place = time.as_nanos() / half.as_nanos().max(1);
                halves[(place as usize).min(count - 1)] += 1;
            }
        }
        let mut ranked: Vec<usize> = (0..count).collect();
        let of = |place: usize| halves[place] + halves.get(place + 1).copied().unwrap_or(0);
        ranked.sort_by_key(|&place| of(place));
        ranked.into_iter().map(|place| half.mul_f64(place as f64)).collect()
    }

    /// Adds the connections that are open in the piece that begins at `at`.
    fn layer(&self, at: Duration, cut: &Cut, into: &mut Vec<Planned>) {
        let span = cut.span();
        let length = self.length.as_secs_f64();
        // The recording follows itself. This loop goes through its copies that reach into the
        // piece.
        let last_end = self.ended.last().copied().unwrap_or_default().as_secs_f64();
        let begin = at.as_secs_f64().rem_euclid(length);
        let first = -(last_end / length).ceil().min(MOST_COPIES);
        let last = ((begin + span.as_secs_f64()) / length).ceil().min(MOST_COPIES);
        let mut copy = first;
        while copy <= last {
            self.copy(begin - copy * length, cut, into);
            copy += 1.0;
        }
    }

    /// Adds the connections of one copy of the recording. `begin` is the piece's beginning in the
    /// copy, in seconds.
    fn copy(&self, begin: f64, cut: &Cut, into: &mut Vec<Planned>) {
        let span = cut.span().as_secs_f64();
        let starts_in_time =
            |connection: &Connection| connection.start.as_secs_f64() < begin + span;
        let until = self.connections.partition_point(starts_in_time);
        for index in (0..until).rev() {
            // No earlier connection reaches into the piece.
            if self.ended[index].as_secs_f64() < begin || into.len() >= MOST {
                return;
            }
            self.place(index, begin, cut, into);
        }
    }

    /// Adds a connection, if it is open in the piece.
    fn place(&self, index: usize, begin: f64, cut: &Cut, into: &mut Vec<Planned>) {
        let connection = &self.connections[index];
        let span = cut.span().as_secs_f64();
        let in_piece = |time: f64| Duration::from_secs_f64(time.max(0.0) / cut.speed);
        let (mut from, mut to, mut first) = (None, 0, 0.0);
        let count = connection.steps.len() as u32;
        for (step, time) in (0_u32..).zip(connection.request_times()) {
            let at = time.as_secs_f64() - begin;
            if at >= 0.0 && at < span {
                if from.is_none() {
                    (from, first) = (Some(step), at);
                }
                to = step + 1;
                if !cut.keep_alive {
                    into.push(Planned {
                        start: in_piece(at),
                        connection: index as u32,
                        from: step,
                        to: step + 1,
                        before: false,
                        stays: Some(Duration::ZERO),
                    });
                }
            } else if at < 0.0 {
                to = step + 1;
            }
        }
        let start = connection.start.as_secs_f64() - begin;
        let end = connection.end().as_secs_f64() - begin;
        let is_over = start < 0.0 && end <= 0.0;
        if count == 0 || !cut.keep_alive || is_over || start >= span {
            return;
        }
        let goes_on = to < count || end >= span;
        let stays = (!goes_on).then(|| connection.open_after.div_f64(cut.speed));
        let idle = Planned {
            start: in_piece(end),
            connection: index as u32,
            from: to,
            to,
            before: true,
            // The connection ends at this time.
            stays: stays.map(|_| Duration::ZERO),
        };
        into.push(match from {
            Some(from) => {
                Planned { start: in_piece(first), from, before: start < 0.0, stays, ..idle }
            }
            None => idle,
        });
    }
}

#[cfg(test)]
pub(in crate::pattern::trace) mod tests {
    use duality_trace::{Class, Head, Method, Step};
    use proptest::prelude::*;

    use super::*;
    use crate::fidelity::{dispersion, distance};

    /// A connection: the start, the steps as think time and bytes of the reply, and the time for
    /// which it stays open. All times are in milliseconds.
    type Recorded<'a> = (u64, &'a [(u64, u64)], u64);

    /// A recording of these connections.
    pub(in crate::pattern::trace) fn trace(connections: &[Recorded<'_>]) -> Trace {
        let mut classes: Vec<Class> = Vec::new();
        let mut class = |reply: u64| {
            let place = classes.iter().position(|known| known.reply == reply);
            let place = place.unwrap_or_else(|| {
                classes.push(Class {
                    method: Method::Get,
                    request: 0,
                    reply,
                    status: 2,
                    count: 0,
                    path: None,
                });
                classes.len() - 1
            });
            u16::try_from(place).unwrap()
        };
        let connections = connections.iter().map(|(start, steps, open_after)| Connection {
            start: Duration::from_millis(*start),
            rate: None,
            steps: steps
                .iter()
                .map(|(think, reply)| Step {
                    think: Duration::from_millis(*think),
                    class: class(*reply),
                })
                .collect(),
            open_after: Duration::from_millis(*open_after),
        });
        let connections: Vec<Connection> = connections.collect();
        let last = connections.iter().map(Connection::last_request).max().unwrap_or_default();
        Trace::new(Head { length: last, classes, ..Head::default() }, connections)
    }

    fn cut(length: u64) -> Cut {
        Cut::of(Duration::from_millis(length))
    }

    fn at(cut: Cut, milliseconds: u64) -> Cut {
        Cut { at: Some(At::Time(Duration::from_millis(milliseconds))), ..cut }
    }

    /// The start, the steps, whether it was open before, and how long it stays, in milliseconds.
    fn told(piece: &Piece) -> Vec<(u64, u32, bool, Option<u64>)> {
        let told = |planned: &Planned| {
            let stays = planned.stays.map(|time| (time.as_secs_f64() * 1e3).round() as u64);
            let start = (planned.start.as_secs_f64() * 1e3).round() as u64;
            (start, planned.to - planned.from, planned.before, stays)
        };
        piece.connections.iter().map(told).collect()
    }

    #[test]
    fn a_piece_has_what_is_open_in_it() {
        let trace = Arc::new(trace(&[
            (0, &[(0, 64)], 500),
            (1_000, &[(0, 64), (2_000, 64), (500, 64)], 4_000),
            (3_200, &[(0, 64), (100, 64)], 100),
            (3_900, &[(0, 64), (700, 64)], 0),
            (10_000, &[(0, 64)], 0),
        ]));
        let piece = Piece::cut(&trace, &at(cut(1_000), 3_000));
        assert_eq!(
            told(&piece),
            [(0, 2, true, None), (200, 2, false, Some(100)), (900, 1, false, None)]
        );
        assert_eq!((piece.requests(), piece.open_before(), piece.connections()), (5, 1, 3));
        // The connection is idle, and ends within the piece.
        let piece = Piece::cut(&trace, &at(cut(2_000), 6_000));
        assert_eq!(told(&piece), [(1_500, 0, true, Some(0))]);
        // The recording follows itself.
        let piece = Piece::cut(&trace, &at(cut(2_000), 9_500));
        assert_eq!(
            told(&piece),
            [(500, 1, false, Some(500)), (500, 1, false, Some(0)), (1_500, 1, false, None)]
        );
        let close = Cut { keep_alive: false, ..at(cut(1_000), 3_000) };
        let piece = Piece::cut(&trace, &close);
        assert_eq!(piece.connections(), 5);
        assert!(told(&piece).iter().all(|(_, steps, before, _)| *steps == 1 && !before));
    }

    #[test]
    fn a_faster_clock_is_one_for_all_times() {
        let trace = Arc::new(trace(&[(0, &[(0, 64), (2_000, 64)], 1_000), (8_000, &[(0, 64)], 0)]));
        let fast = Cut { speed: 4.0, ..at(cut(2_000), 0) };
        let piece = Piece::cut(&trace, &fast);
        // The last connection comes as the recording begins again.
        assert_eq!(told(&piece), [(0, 2, false, Some(250)), (0, 1, false, Some(0))]);
        let arrivals: Vec<u128> = piece.arrivals().iter().map(Duration::as_millis).collect();
        assert_eq!(arrivals, [0, 0, 500]);
    }

    #[test]
    fn users_of_a_bunch_come_at_the_same_time_and_all_are_as_slow() {
        let starts: Vec<Recorded<'_>> =
            (0..400).map(|place| (place * 250, &[(0_u64, 64_u64)] as &[_], 0)).collect();
        let trace = Arc::new(trace(&starts));
        let counted = |bunch| {
            let cut = Cut { users: 60, bunch, client_rate: Some(1_000), ..cut(60_000) };
            let piece = Piece::cut(&trace, &cut);
            assert_eq!(piece.rate(&piece.connections[0]), Some(1_000));
            let times: Vec<f64> = piece.arrivals().iter().map(Duration::as_secs_f64).collect();
            (times.len() as f64, dispersion(&times, 0.25, 60.0).unwrap())
        };
        let ((apart, alone), (together, bunched)) = (counted(1), counted(20));
        assert!((together / apart - 1.0).abs() < 0.05, "{together} requests, {apart} before");
        assert!(bunched > 3.0 * alone, "{bunched} {alone}");
    }

    #[test]
    fn places_are_found_by_how_busy_they_are() {
        // One request a second, with a period of 20 s in which there are ten.
        let mut connections: Vec<Recorded<'_>> = Vec::new();
        for second in 0..200_u64 {
            let count = if (100..120).contains(&second) { 10 } else { 1 };
            (0..count).for_each(|place| connections.push((second * 1000 + place, &[(0, 64)], 0)));
        }
        let trace = Arc::new(trace(&connections));
        let requests =
            |place| Piece::cut(&trace, &Cut { at: Some(place), ..cut(10_000) }).requests();
        assert_eq!((requests(At::Busiest), requests(At::Median)), (100, 10));
        // The pieces of many users are around the place.
        let many = Cut { users: 20, at: Some(At::Busiest), ..cut(2_000) };
        assert!(Piece::cut(&trace, &many).requests() > 20 * 2 * 4);
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        let trace = Arc::new(trace(&[(0, &[(0, 64)], 0), (100_000, &[(0, 64)], 0)]));
        let problem = |cut: &Cut| Piece::cut(&trace, cut).problem();
        assert_eq!(problem(&at(cut(1_000), 0)), None);
        for (cut, message) in [
            (Cut { users: 0, ..cut(1_000) }, "0 users"),
            (Cut { speed: f64::NAN, ..cut(1_000) }, "a speed is"),
            (cut(0), "no length"),
            (at(cut(1_000), 200_000), "shorter than that"),
            (at(cut(1_000), 50_000), "no request is in this piece"),
        ] {
            assert!(problem(&cut).is_some_and(|problem| problem.contains(message)), "{message}");
        }
    }

    #[test]
    fn a_connection_that_stays_for_ever_takes_no_time_to_plan() {
        let ever = u64::from(u32::MAX) * 100_000;
        let trace = Arc::new(trace(&[(0, &[(0, 64)], ever)]));
        let piece = Piece::cut(&trace, &cut(10_000));
        assert!(piece.connections() <= MOST + 1);
    }

    /// Sessions in bursts for so many seconds: people come one by one, and each opens some
    /// connections.
    fn bursty(seed: u64, seconds: f64) -> Trace {
        let mut random = SplitMix64::new(seed);
        let (mut now, mut connections) = (0.0, Vec::new());
        while now < seconds {
            now += random.exponential() * 2.0;
            let mut own = now;
            for _ in 0..1 + random.next() % 6 {
                own += random.exponential() * 0.4;
                let steps: Vec<(u64, u64)> = (0..1 + random.next() % 5)
                    .map(|step| (if step == 0 { 0 } else { random.next() % 8_000 }, 64))
                    .collect();
                connections.push(((own * 1e3) as u64, steps, 5_000));
            }
        }
        let borrowed: Vec<_> = connections
            .iter()
            .map(|(start, steps, open)| (*start, steps.as_slice(), *open))
            .collect();
        trace(&borrowed)
    }

    #[test]
    fn ten_times_the_users_are_as_bursty_and_a_faster_clock_is_not() {
        let trace = Arc::new(bursty(5, 20_000.0));
        let seconds =
            |times: &[Duration]| -> Vec<f64> { times.iter().map(Duration::as_secs_f64).collect() };
        let of_log = seconds(&trace.request_times());
        for (scale, length, pieces) in [(1.0, 600.0, 8), (10.0, 2_000.0, 16)] {
            let log = dispersion(&of_log, scale, trace.seconds()).unwrap();
            assert!(log > 1.5, "it is bursty: {log}");
            let mean = |users: usize, speed: f64| {
                let found = (0..pieces).map(|seed| {
                    let length = Duration::from_secs_f64(length / speed);
                    let cut = Cut { users, speed, seed, ..Cut::of(length) };
                    let arrivals = seconds(&Piece::cut(&trace, &cut).arrivals());
                    dispersion(&arrivals, scale, length.as_secs_f64()).unwrap()
                });
                found.sum::<f64>() / pieces as f64
            };
            for users in [1, 10] {
                let found = mean(users, 1.0);
                assert!((found / log - 1.0).abs() < 0.25, "{found} of {log} at {scale} s");
            }
            let fast = mean(1, 4.0);
            assert!(fast > 1.25 * log, "{fast} of {log} at {scale} s");
        }
    }

    #[test]
    fn connections_carry_as_many_requests_as_in_the_recording() {
        let trace = Arc::new(bursty(6, 20_000.0));
        let count = |one: &Connection| one.steps.len() as f64;
        let recorded: Vec<f64> = trace.iter().map(count).collect();
        let piece = Piece::cut(&trace, &Cut { users: 3, ..Cut::of(trace.head.length) });
        let whole = piece.connections.iter().filter(|planned| {
            !planned.before && planned.to as usize == piece.recorded(planned).steps.len()
        });
        let planned: Vec<f64> = whole.map(|planned| planned.requests() as f64).collect();
        assert!(distance(&recorded, &planned) < 0.01);
    }

    proptest! {
        #[test]
        fn a_piece_as_long_as_the_recording_has_each_request_once(seed: u64, users in 1_usize..4) {
            let trace = Arc::new(bursty(seed, 600.0));
            let piece = Piece::cut(&trace, &Cut { seed, users, ..Cut::of(trace.head.length) });
            // A last request at the very end of the recording may fall together with its beginning.
            let expected = users * trace.requests() as usize;
            prop_assert!(piece.requests().abs_diff(expected) <= users);
        }

        #[test]
        fn pieces_are_in_order_within_their_length_and_the_same_for_a_seed(
            seed: u64, users in 1_usize..20, length in 1_u64..100_000, speed in 0.1_f64..10.0,
        ) {
            let trace = Arc::new(bursty(seed, 600.0));
            let cut = Cut { seed, users, speed, ..cut(length) };
            let piece = Piece::cut(&trace, &cut);
            prop_assert!(piece.connections.is_sorted_by_key(|planned| planned.start));
            let limit = piece.length() + Duration::from_micros(1);
            prop_assert!(piece.arrivals().iter().all(|time| *time < limit));
            prop_assert!(piece.connections.iter().all(|one| one.from > 0 || !one.before));
            prop_assert_eq!(&piece.connections, &Piece::cut(&trace, &cut).connections);
            prop_assert!(piece.open_at_once() >= piece.open_before());
        }
    }
}
