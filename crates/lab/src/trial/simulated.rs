//! Candidates that do not exist, on virtual time: a seed decides the load, the servers' faults, and
//! when the trial looks. What the limits say is compared with what clients of such servers see.
//!
//! `DUALITY_SEEDS=100000 cargo test -p duality-lab --lib simulated --release` asks more often, and
//! `DUALITY_SEED=17` one seed, with its story.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use duality_load::{Percentile, Slo};

use super::Limits;
use super::bounds::Bounds;
use super::event::Reason;
use super::queue::STUCK;
use super::run::{LOOK, TICK};
use super::silence::{self, Progress, Silent};
use super::totals::Totals;
use crate::random::SplitMix64;

/// The length of each simulated trial in milliseconds.
const LENGTH: u64 = 20_000;
/// So many milliseconds after a limit is broken for sure, the candidate must be out: a look that
/// has just begun, the next one, and late ticks.
const GRACE: u64 = 2 * LOOK.as_millis() as u64 + 300;

/// What a server does.
#[derive(Clone, Copy, Debug)]
enum Conduct {
    /// It answers each request in its time.
    Good,
    /// It stands still again and again.
    Pauses { every: u64, length: u64 },
    /// It accepts nothing from a moment on.
    Deaf { from: u64 },
    /// It holds this many connections, which never end.
    Full { most: usize },
    /// It reads requests from a moment on, and answers none.
    Mute { from: u64 },
    /// It fails this share of its requests, after some time.
    Fails { share: f64, after: u64 },
    /// It answers this share of its requests later than the limit.
    Late { share: f64, by: u64 },
}

/// The load, which candidates get in turns.
#[derive(Debug)]
struct Load {
    /// Connections in a thousand seconds.
    rate: u64,
    /// Connections that come at once.
    burst: u64,
    /// Requests of a connection, one after the other.
    requests: u64,
    /// The share of connections without a request.
    probes: f64,
    /// The length of a turn in milliseconds.
    slot: u64,
}

struct Seeded(SplitMix64);

impl Seeded {
    fn from(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.below(high - low + 1)
    }

    /// Small values as often as large ones.
    fn scale(&mut self, low: u64, high: u64) -> u64 {
        let share = self.0.below(1 << 20) as f64 / f64::from(1 << 20);
        (low as f64 * (high as f64 / low as f64).powf(share)).round() as u64
    }

    fn is(&mut self, share: f64) -> bool {
        (self.0.below(1 << 30) as f64) < share * f64::from(1 << 30)
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.0.below(all.len() as u64) as usize]
    }
}

/// A connection that is being served.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Reply {
    at: u64,
    /// When the request was read.
    since: u64,
    /// Requests of the connection after this one.
    left: u64,
    fails: bool,
}

struct Server {
    conduct: Conduct,
    /// The time of a request in milliseconds.
    service: u64,
    queue: VecDeque<u64>,
    replies: BinaryHeap<Reverse<Reply>>,
    held: usize,
    totals: Totals,
    /// Since when nobody was accepted, although somebody waits.
    standing: Option<u64>,
}

impl Server {
    fn is_still(&self, now: u64) -> bool {
        matches!(self.conduct, Conduct::Pauses { every, length } if now % every < length)
    }

    fn accepts(&self, now: u64) -> bool {
        match self.conduct {
            Conduct::Deaf { from } => now < from,
            Conduct::Full { most } => self.held < most,
            _ => true,
        }
    }

    /// A millisecond.
    fn step(&mut self, now: u64, load: &Load, slo_ms: Option<u64>, seeded: &mut Seeded) {
        if self.is_still(now) {
            if !self.queue.is_empty() {
                self.standing.get_or_insert(now);
            }
            return;
        }
        while !self.queue.is_empty() && self.accepts(now) {
            self.queue.pop_front();
            self.standing = None;
            self.held += 1;
            self.totals.accepted += 1;
            if !seeded.is(load.probes) {
                self.read(now, load.requests - 1, slo_ms, seeded);
            } else if !matches!(self.conduct, Conduct::Full { .. }) {
                self.held -= 1;
            }
        }
        if self.queue.is_empty() {
            self.standing = None;
        } else {
            self.standing.get_or_insert(now);
        }
        while self.replies.peek().is_some_and(|reply| reply.0.at <= now) {
            let Some(Reverse(reply)) = self.replies.pop() else { break };
            if matches!(self.conduct, Conduct::Mute { from } if now >= from) {
                continue;
            }
            match self.conduct {
                Conduct::Fails { .. } if reply.fails => self.totals.failed += 1,
                _ => {
                    self.totals.answered += 1;
                    self.totals.progress.replies += 1;
                    if slo_ms.is_some_and(|limit| now - reply.since > limit) {
                        self.totals.late += 1;
                    }
                }
            }
            if reply.left > 0 {
                self.read(now, reply.left - 1, slo_ms, seeded);
            } else if !matches!(self.conduct, Conduct::Full { .. }) {
                self.held -= 1;
            }
        }
    }

    fn read(&mut self, now: u64, left: u64, slo_ms: Option<u64>, seeded: &mut Seeded) {
        self.totals.progress.begun += 1;
        let (more, fails) = match self.conduct {
            Conduct::Late { share, by } if seeded.is(share) => (slo_ms.unwrap_or(0) + by, false),
            Conduct::Fails { share, after } if seeded.is(share) => (after, true),
            _ => (0, false),
        };
        self.replies.push(Reverse(Reply {
            at: now + self.service + more,
            since: now,
            left,
            fails,
        }));
    }
}

/// What a seed decides.
struct Story {
    load: Load,
    limits: Limits,
    servers: Vec<Server>,
}

impl Story {
    fn new(seeded: &mut Seeded) -> Self {
        let percentiles = [Percentile::P90, Percentile::P99, Percentile::P99_9, Percentile::Max];
        let slo = seeded.is(0.7).then(|| Slo {
            percentile: seeded.of(&percentiles),
            limit: Duration::from_millis(seeded.scale(1, 1_000)),
        });
        let limits = Limits { slo, max_errors: seeded.of(&[0.0, 0.001, 0.01]), max_memory: None };
        let burst = if seeded.is(0.3) { seeded.scale(2, 300) } else { 1 };
        let load = Load {
            rate: seeded.scale(500, 3_000_000),
            burst,
            requests: seeded.scale(1, 20),
            probes: if seeded.is(0.3) { seeded.of(&[0.1, 0.9, 1.0]) } else { 0.0 },
            slot: seeded.scale(100, 3_000),
        };
        let servers = (0..2).map(|_| Server {
            conduct: conduct(seeded, &limits),
            service: seeded.from(0, slo.map_or(500, |slo| millis(slo.limit)) / 2),
            queue: VecDeque::new(),
            replies: BinaryHeap::new(),
            held: 0,
            totals: Totals::default(),
            standing: None,
        });
        let servers = servers.collect();
        Self { load, limits, servers }
    }

    /// Whether no client of this server has a reason to complain.
    fn is_good(&self, server: &Server) -> bool {
        match server.conduct {
            Conduct::Good => true,
            Conduct::Pauses { length, .. } => {
                let slo =
                    self.limits.slo.is_none_or(|slo| length + server.service <= millis(slo.limit));
                slo && length + GRACE < millis(STUCK)
            }
            Conduct::Fails { share, .. } => share <= self.limits.max_errors / 2.0,
            Conduct::Late { share, .. } => {
                self.limits.slo.is_none_or(|slo| share <= (1.0 - slo.percentile.share()) / 2.0)
            }
            Conduct::Deaf { .. } | Conduct::Full { .. } | Conduct::Mute { .. } => false,
        }
    }
}

fn conduct(seeded: &mut Seeded, limits: &Limits) -> Conduct {
    let late = limits.slo.map_or(0.0, |slo| 1.0 - slo.percentile.share());
    match seeded.from(0, 9) {
        0..3 => Conduct::Good,
        3 | 4 => {
            let length = seeded.scale(5, 1_400);
            Conduct::Pauses { length, every: length * seeded.from(2, 50) }
        }
        5 => Conduct::Deaf { from: seeded.from(0, LENGTH / 2) },
        6 => Conduct::Full { most: seeded.scale(1, 2_000) as usize },
        7 => Conduct::Mute { from: seeded.from(0, LENGTH / 2) },
        8 => Conduct::Fails {
            share: limits.max_errors * seeded.of(&[0.0, 0.5, 4.0, 50.0]),
            after: seeded.scale(1, 1_000),
        },
        _ => Conduct::Late {
            share: (late * seeded.of(&[0.0, 0.5, 4.0, 9.0])).min(1.0),
            by: seeded.scale(1, 1_000),
        },
    }
}

fn millis(time: Duration) -> u64 {
    time.as_millis() as u64
}

/// Since when it is certain that a candidate must go, and why.
#[derive(Clone, Copy, Debug, Default)]
struct Due {
    /// Since when the trial has seen everything.
    seen: u64,
    /// Nobody is accepted for longer than [`STUCK`].
    stuck: Option<u64>,
    /// Requests were read and not answered, and the other one has answered later ones.
    silent: Option<u64>,
    /// What this one had done at the look that saw its last reply.
    last: Progress,
    /// When this one had twenty requests without a reply, and what the other one had begun.
    others: Option<(u64, u64)>,
}

impl Due {
    /// A millisecond has passed.
    fn step(&mut self, server: &Server, now: u64) {
        match server.standing {
            Some(since) if now - since.max(self.seen) > millis(STUCK) => {
                self.stuck.get_or_insert(now);
            }
            Some(_) => {}
            None => self.stuck = None,
        }
    }

    /// The trial looks. `longest` is the time that a request may take, whatever the limits.
    fn look(&mut self, server: &Server, other: &Server, now: u64, longest: u64) {
        let own = server.totals.progress;
        if own.replies != self.last.replies {
            self.last = own;
        }
        if own.begun - self.last.begun < 20 {
            (self.silent, self.others) = (None, None);
            return;
        }
        let progress = other.totals.progress;
        let (since, begun) = *self.others.get_or_insert((now, progress.begun));
        if progress.replies >= begun + 20 && now - since >= longest {
            self.silent.get_or_insert(now);
        }
    }
}

/// One trial. The error says what is wrong with the limits.
fn trial(seed: u64, is_told: bool) -> Result<Vec<&'static str>, String> {
    let mut seeded = Seeded(SplitMix64::new(seed));
    let mut story = Story::new(&mut seeded);
    let slo_ms = story.limits.slo.map(|slo| millis(slo.limit));
    if is_told {
        let conducts: Vec<_> =
            story.servers.iter().map(|server| (server.conduct, server.service)).collect();
        println!("{:?}\n{:?}\n{conducts:?}", story.load, story.limits);
    }
    let longest = millis(STUCK).max(slo_ms.unwrap_or(0));
    let start = Instant::now();
    let instant = |now: u64| start + Duration::from_millis(now);
    let mut bounds = [(); 2].map(|()| Bounds::new(&story.limits, start));
    let mut silence = silence::Watch::new(story.limits.slo);
    let mut out: [Option<(u64, Reason)>; 2] = [None, None];
    let mut due = [Due::default(); 2];
    let mut before = [(); 2].map(|()| Totals::default());
    let (mut next_tick, mut looked, mut ticked, mut credit) = (20, 0, 0, 0);
    for now in 1..LENGTH {
        credit += story.load.rate;
        let turn = (now / story.load.slot % 2) as usize;
        let turn = if out[turn].is_some() { 1 - turn } else { turn };
        while credit >= 1_000_000 * story.load.burst {
            credit -= 1_000_000 * story.load.burst;
            let place = if seeded.is(0.95) { turn } else { 1 - turn };
            (0..story.load.burst).for_each(|_| story.servers[place].queue.push_back(now));
        }
        for server in &mut story.servers {
            server.step(now, &story.load, slo_ms, &mut seeded);
        }
        for (due, server) in due.iter_mut().zip(&story.servers) {
            due.step(server, now);
        }
        if now < next_tick {
            continue;
        }
        let is_blind = now - ticked > 100;
        ticked = now;
        next_tick = now + millis(TICK) + late_by(&mut seeded);
        for (place, server) in story.servers.iter().enumerate() {
            if out[place].is_none() && bounds[place].tick(instant(now), !server.queue.is_empty()) {
                let length = || Some(server.queue.len() as u64);
                bounds[place].accepted(instant(now), server.totals.accepted, length);
            }
            if is_blind {
                // What the trial did not see cannot be demanded.
                due[place] = Due { seen: now, last: due[place].last, ..Due::default() };
            }
        }
        if now - looked < millis(LOOK) {
            continue;
        }
        looked = now;
        for (place, server) in story.servers.iter().enumerate() {
            let length = || Some(server.queue.len() as u64);
            let all = server.totals.clone();
            let reason = bounds[place].look(instant(now), &before[place], &all, length);
            before[place] = all;
            if out[place].is_none() {
                out[place] = reason.map(|reason| (now, reason));
            }
        }
        let progress: Vec<Option<Progress>> = (0..2)
            .map(|place| out[place].is_none().then(|| story.servers[place].totals.progress))
            .collect();
        if let Some(Silent { place, requests, time }) = silence.look(instant(now), &progress) {
            out[place] = Some((now, Reason::Silent { requests, seconds: time.as_secs_f64() }));
        }
        for place in 0..2 {
            due[place].look(&story.servers[place], &story.servers[1 - place], now, longest);
            judge(&story, place, now, &due[place], out[place].as_ref())?;
        }
        if out.iter().all(Option::is_some) {
            break;
        }
        for (place, due) in due.iter_mut().enumerate() {
            // The other one is out, so nobody can prove its silence.
            if out[1 - place].is_some() {
                (due.silent, due.others) = (None, None);
            }
        }
    }
    if is_told {
        println!("{out:?}");
    }
    let names = out.iter().map(|out| match out {
        None => "in",
        Some((_, Reason::Errors { .. })) => "errors",
        Some((_, Reason::Slow { .. })) => "slow",
        Some((_, Reason::Stuck { .. })) => "stuck",
        Some((_, Reason::Silent { .. })) => "silent",
        Some(_) => "other",
    });
    Ok(names.collect())
}

/// Mostly a little; now and then the trial's own process gets no processor.
fn late_by(seeded: &mut Seeded) -> u64 {
    match seeded.from(0, 999) {
        0..900 => seeded.from(0, 2),
        900..998 => seeded.from(2, 40),
        _ => seeded.from(300, 3_000),
    }
}

fn judge(
    story: &Story,
    place: usize,
    now: u64,
    due: &Due,
    out: Option<&(u64, Reason)>,
) -> Result<(), String> {
    let server = &story.servers[place];
    let name = format!("candidate {place}, {:?}, at {now} ms", server.conduct);
    if let Some((at, reason)) = out {
        return match story.is_good(server) {
            true => Err(format!("{name}: good, and out since {at} ms: {reason:?}")),
            false => Ok(()),
        };
    }
    if due.stuck.is_some_and(|since| now - since > GRACE) {
        return Err(format!("{name}: accepts nothing since {:?}, and is in", server.standing));
    }
    let totals = &server.totals;
    // The good requests of some seconds weigh against the wrong ones of now.
    let enough = |limit: f64, wrong: u64| {
        now > 8_000 && wrong > 60 && wrong as f64 > 3.0 * limit * totals.answered as f64
    };
    let errors = story.limits.max_errors;
    if let Conduct::Fails { share, .. } = server.conduct
        && errors > 0.0
        && share >= 4.0 * errors
        && enough(errors, totals.failed)
    {
        return Err(format!("{name}: fails {} of {}", totals.failed, totals.answered));
    }
    if let Conduct::Late { share, .. } = server.conduct
        && let Some(slo) = story.limits.slo
        && slo.percentile != Percentile::Max
        && share >= 4.0 * (1.0 - slo.percentile.share())
        && enough(1.0 - slo.percentile.share(), totals.late)
    {
        return Err(format!("{name}: late {} of {}", totals.late, totals.answered));
    }
    if matches!(server.conduct, Conduct::Mute { .. })
        && due.silent.is_some_and(|since| now - since > 2 * GRACE)
    {
        return Err(format!("{name}: answers nothing, and is in: {due:?}"));
    }
    Ok(())
}

#[test]
fn the_limits_take_out_bad_candidates_and_no_good_ones() {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    if let Some(seed) = number("DUALITY_SEED") {
        trial(seed, true).unwrap_or_else(|wrong| panic!("{wrong}"));
        return;
    }
    let mut seen = std::collections::BTreeMap::<_, u64>::new();
    let seeds = number("DUALITY_SEEDS").unwrap_or(400);
    let mut wrong = Vec::new();
    for seed in 0..seeds {
        match trial(seed, false) {
            Ok(ends) => ends.into_iter().for_each(|end| *seen.entry(end).or_default() += 1),
            Err(error) => wrong.push(format!("seed {seed}: {error}")),
        }
    }
    wrong.truncate(20);
    assert!(wrong.is_empty(), "{}\n{seen:?}", wrong.join("\n"));
    for end in ["in", "errors", "slow", "stuck", "silent"] {
        assert!(seen.get(end).is_some_and(|times| *times >= seeds / 100), "{end}: {seen:?}");
    }
}
