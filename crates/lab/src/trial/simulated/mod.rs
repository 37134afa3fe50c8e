//! Candidates that do not exist, on virtual time: a seed decides the load, the servers' faults, and
//! when the trial looks. What the limits say is compared with what clients of such servers see.
//!
//! `DUALITY_SEEDS=100000 cargo test -p duality-lab --lib simulated --release` asks more often, and
//! `DUALITY_SEED=17` one seed, with its story.

mod server;

use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use duality_load::{Percentile, Slo};

use super::Limits;
use super::bounds::Bounds;
use super::event::Reason;
use super::queue::STUCK;
use super::run::{LOOK, TICK};
use super::silence::{self, Progress, Silent};
use super::totals::Totals;
use crate::failure::{Failure, Party};
use crate::random::SplitMix64;

use server::{Conduct, Load, Seeded, Server};

/// The length of each simulated trial in milliseconds.
const LENGTH: u64 = 20_000;
/// A candidate that has broken a limit for sure must be out so many milliseconds later. The look
/// after the next one sees it, and ticks may be late.
const GRACE: u64 = 2 * LOOK.as_millis() as u64 + 300;

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
    /// No connection is accepted for longer than [`STUCK`].
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

/// A trial of two candidates.
struct Trial {
    story: Story,
    start: Instant,
    bounds: [Bounds; 2],
    silence: silence::Watch,
    /// When a candidate went out, and why.
    out: [Option<(u64, Reason)>; 2],
    due: [Due; 2],
    before: [Totals; 2],
    ticked: u64,
    looked: u64,
    /// The share of a connection that is still to come.
    credit: u64,
}

impl Trial {
    fn new(story: Story) -> Self {
        let start = Instant::now();
        Self {
            start,
            bounds: [(); 2].map(|()| Bounds::new(&story.limits, start)),
            silence: silence::Watch::new(story.limits.slo),
            out: [None, None],
            due: [Due::default(); 2],
            before: [(); 2].map(|()| Totals::default()),
            ticked: 0,
            looked: 0,
            credit: 0,
            story,
        }
    }

    fn instant(&self, now: u64) -> Instant {
        self.start + Duration::from_millis(now)
    }

    /// A millisecond of the clients and the servers.
    fn step(&mut self, now: u64, seeded: &mut Seeded) {
        let Story { load, limits, servers } = &mut self.story;
        let turn = (now / load.slot % 2) as usize;
        let turn = if self.out[turn].is_some() { 1 - turn } else { turn };
        self.credit += load.rate;
        while self.credit >= 1_000_000 * load.burst {
            self.credit -= 1_000_000 * load.burst;
            let place = if seeded.is(0.95) { turn } else { 1 - turn };
            (0..load.burst).for_each(|_| servers[place].queue.push_back(now));
        }
        let slo_ms = limits.slo.map(|slo| millis(slo.limit));
        for (server, due) in servers.iter_mut().zip(&mut self.due) {
            server.step(now, load, slo_ms, seeded);
            due.step(server, now);
        }
    }

    fn tick(&mut self, now: u64) {
        let (instant, is_blind) = (self.instant(now), now - self.ticked > 100);
        self.ticked = now;
        for (place, server) in self.story.servers.iter().enumerate() {
            let bounds = &mut self.bounds[place];
            if self.out[place].is_none() && bounds.tick(instant, !server.queue.is_empty()) {
                bounds.accepted(instant, server.totals.accepted, || Some(server.length()));
            }
            if is_blind {
                // What the trial did not see cannot be demanded.
                let last = self.due[place].last;
                self.due[place] = Due { seen: now, last, ..Due::default() };
            }
        }
    }

    fn look(&mut self, now: u64) -> Result<(), Failure> {
        self.looked = now;
        let (instant, servers) = (self.instant(now), &self.story.servers);
        for (place, server) in servers.iter().enumerate() {
            let all = server.totals.clone();
            let length = || Some(server.length());
            let reason = self.bounds[place].look(instant, &self.before[place], &all, length);
            self.before[place] = all;
            if self.out[place].is_none() {
                self.out[place] = reason.map(|reason| (now, reason));
            }
        }
        let progress =
            [0, 1].map(|place| self.out[place].is_none().then(|| servers[place].totals.progress));
        if let Some(Silent { place, requests, time }) = self.silence.look(instant, &progress) {
            self.out[place] = Some((now, Reason::Silent { requests, seconds: time.as_secs_f64() }));
        }
        let longest = self.story.limits.slo.map_or(STUCK, |slo| slo.limit.max(STUCK));
        for place in 0..2 {
            let due = &mut self.due[place];
            due.look(&servers[place], &servers[1 - place], now, millis(longest));
            judge(&self.story, place, now, due, self.out[place].as_ref())?;
        }
        for (place, due) in self.due.iter_mut().enumerate() {
            // The other one is out, so its replies prove no silence.
            if self.out[1 - place].is_some() {
                (due.silent, due.others) = (None, None);
            }
        }
        Ok(())
    }

    /// How each candidate ended.
    fn ends(&self) -> [&'static str; 2] {
        [0, 1].map(|place| match &self.out[place] {
            None => "in",
            Some((_, Reason::Errors { .. })) => "errors",
            Some((_, Reason::Slow { .. })) => "slow",
            Some((_, Reason::Stuck { .. })) => "stuck",
            Some((_, Reason::Silent { .. })) => "silent",
            Some(_) => "other",
        })
    }
}

/// One trial. The error says what is wrong with the limits.
fn trial(seed: u64, is_told: bool) -> Result<[&'static str; 2], Failure> {
    let mut seeded = Seeded(SplitMix64::new(seed));
    let story = Story::new(&mut seeded);
    if is_told {
        let conducts: Vec<_> =
            story.servers.iter().map(|server| (server.conduct, server.service)).collect();
        println!("{:?}\n{:?}\n{conducts:?}", story.load, story.limits);
    }
    let mut trial = Trial::new(story);
    let mut next_tick = millis(TICK);
    for now in 1..LENGTH {
        trial.step(now, &mut seeded);
        if now < next_tick {
            continue;
        }
        next_tick = now + millis(TICK) + late_by(&mut seeded);
        trial.tick(now);
        if now - trial.looked >= millis(LOOK) {
            trial.look(now)?;
        }
        if trial.out.iter().all(Option::is_some) {
            break;
        }
    }
    if is_told {
        println!("{:?}", trial.out);
    }
    Ok(trial.ends())
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
) -> Result<(), Failure> {
    let server = &story.servers[place];
    let name = format!("candidate {place}, {:?}, at {now} ms", server.conduct);
    if let Some((at, reason)) = out {
        return match story.is_good(server) {
            true => Err(Failure::new(
                Party::Subject,
                format!("{name}: good, and out since {at} ms: {reason:?}"),
            )),
            false => Ok(()),
        };
    }
    if due.stuck.is_some_and(|since| now - since > GRACE) {
        return Err(Failure::new(
            Party::Subject,
            format!("{name}: accepts nothing since {:?}, and is in", server.standing),
        ));
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
        return Err(Failure::new(
            Party::Subject,
            format!("{name}: fails {} of {}", totals.failed, totals.answered),
        ));
    }
    if let Conduct::Late { share, .. } = server.conduct
        && let Some(slo) = story.limits.slo
        && slo.percentile != Percentile::Max
        && share >= 4.0 * (1.0 - slo.percentile.share())
        && enough(1.0 - slo.percentile.share(), totals.late)
    {
        return Err(Failure::new(
            Party::Subject,
            format!("{name}: late {} of {}", totals.late, totals.answered),
        ));
    }
    if matches!(server.conduct, Conduct::Mute { .. })
        && due.silent.is_some_and(|since| now - since > 2 * GRACE)
    {
        return Err(Failure::new(
            Party::Subject,
            format!("{name}: answers nothing, and is in: {due:?}"),
        ));
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
    let mut seen = BTreeMap::<_, u64>::new();
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
