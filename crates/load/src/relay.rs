//! A relay: several loads that take turns on one kernel thread. So all servers stay alive, and the
//! load drives one at a time, for a few hundredths of a second each.
//!
//! ```text
//!   load 0   join: warm-up, window │ rests ······ │ slice │ rests ············· │ slice │
//!   load 1        (not there yet)  │ join: … │ rests ·····  │ slice │ rests ·················
//!                                                           └─ begins when nothing is under way
//! ```
//!
//! Noise on a shared machine has a flat spectrum, so servers must alternate faster than the noise
//! changes (docs/method.md). All connections of all loads stay open. Resting connections cost
//! nothing.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use duality_runtime::time;
use serde::{Deserialize, Serialize};

use crate::announce::{self, Announcer, EdgeAnnouncer, moment};
use crate::connection::Load;
use crate::counters::Counters;
use crate::engine::{Engine, Outcome, event_loop};
use crate::pattern::Pattern;
use crate::report::encode;
use crate::slices::Seen;
use crate::{Error, Observer, Options, Report, Stop, limits};

/// The first part of a slice, which the slice's rate leaves out because caches get warm in it.
const LEAD_IN: Duration = Duration::from_millis(5);

/// With this many replies on each connection, a slice is a sample of a steady state.
const REPLIES: u64 = 2;

/// The interval at which the relay checks whether a load has come to rest.
const GLANCE: Duration = Duration::from_micros(200);

/// After this time without a reply, the relay stops waiting for a load to rest: its server leaves
/// requests unanswered.
const PATIENCE: Duration = Duration::from_millis(20);
/// The additional time for each connection. The first requests of a slice arrive together, and a
/// balancer and its servers take them in batches. So the first reply may come after many requests.
const PATIENCE_OF_A_CONNECTION: Duration = Duration::from_micros(100);

/// Several loads on one kernel thread. One load at a time makes requests.
pub struct Relay {
    /// `None` once the relay is over.
    commands: Option<SyncSender<Command>>,
    thread: Option<JoinHandle<()>>,
    /// Connections of the loads that have joined, and of their crowds.
    connections: usize,
}

/// The figures of a load in a slice. A slice is a time in which only this load made requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Correct replies, from the slice's beginning until the load rested.
    pub requests: u64,
    /// Requests that failed since the end of the last slice, by kind as in [`Report::errors`].
    pub errors: BTreeMap<String, u64>,
    /// Requests without a reply when the relay stopped waiting.
    pub unanswered: u64,
    /// The number of the load's connections that have got a reply since the load joined.
    pub connections_served: u64,
    /// The length of the slice, until the load rested.
    pub elapsed: Duration,
    /// The load generator's processor time meanwhile.
    pub cpu: Duration,
    /// The time for which the load generator was ready to run without a processor.
    pub waited: Duration,
    /// Correct replies a second, from 5 ms after the beginning until the load made no more
    /// requests. If latencies are as long as the slice, the rate is until the last reply, because
    /// few replies come within the slice.
    pub requests_per_second: f64,
    /// The longest time without a reply on any connection, in microseconds.
    #[serde(default)]
    pub longest_stop_us: f64,
    /// The latencies of the replies since the last slice, in nanoseconds, in the format of
    /// [`Report::histogram`]. Empty without replies.
    #[serde(default)]
    pub histograms: Vec<String>,
}

impl Slice {
    /// Adds the figures of another load in the same slice, on another host.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.unanswered += other.unanswered;
        self.connections_served += other.connections_served;
        self.requests_per_second += other.requests_per_second;
        self.elapsed = self.elapsed.max(other.elapsed);
        self.waited = self.waited.max(other.waited);
        self.cpu += other.cpu;
        self.longest_stop_us = self.longest_stop_us.max(other.longest_stop_us);
        self.histograms.extend(other.histograms.iter().cloned());
        for (kind, count) in &other.errors {
            *self.errors.entry(kind.clone()).or_default() += count;
        }
    }
}

enum Command {
    Join {
        options: Box<Options>,
        announcer: Announcer,
        edges: EdgeAnnouncer,
        joined: SyncSender<Result<Outcome, Error>>,
    },
    Slice {
        load: usize,
        length: Duration,
        over: SyncSender<Slice>,
    },
}

impl Relay {
    /// A relay without loads, on these CPUs (see [`Options::cpus`]).
    ///
    /// # Errors
    ///
    /// [`Error::Pin`], [`Error::System`].
    pub fn new(cpus: &[usize]) -> Result<Self, Error> {
        limits::pin(cpus)?;
        let (commands, orders) = sync_channel(1);
        let thread = thread::Builder::new().name("load".to_owned()).spawn(move || serve(orders));
        let thread =
            thread.map_err(|error| Error::System { doing: "starting the load's thread", error })?;
        Ok(Self { commands: Some(commands), thread: Some(thread), connections: 0 })
    }

    /// Whether such a load can take turns. The load must be a closed loop on independent
    /// connections, without a crowd that never rests.
    pub fn can_carry(options: &Options) -> bool {
        options.pattern == Pattern::Closed
            && matches!(options.stop, Stop::After(_))
            && options.target.has_independent_connections()
            && options.crowd.slow_readers == 0
            && options.crowd.slow_senders == 0
    }

    /// The number of loads like this one that the descriptors of this process can carry at once. At
    /// least one.
    pub fn room_for(options: &Options) -> usize {
        limits::room_for(options.connections_in_all())
    }

    /// The number of loads with this many connections each that the descriptors can carry at once.
    pub fn room_for_connections(connections: usize) -> usize {
        limits::room_for(connections)
    }

    /// Adds a load, which first makes requests in its own window, as with `run`. The load's
    /// connections then stay, at rest. Returns the load's number, which is the number of loads
    /// before it.
    ///
    /// # Errors
    ///
    /// The errors of [`run`](crate::run). After an error, the load has not joined.
    ///
    /// # Panics
    ///
    /// With the panic of `observer`.
    pub fn join(
        &mut self,
        options: &Options,
        observer: &mut dyn Observer,
        interrupted: &AtomicBool,
    ) -> Result<Report, Error> {
        options.check()?;
        let all = self.connections.saturating_add(options.connections_in_all());
        limits::provide_descriptors(all)?;
        let before = Counters::read(options.target.address());
        let (announcer, edges, announcements) = announce::announcements(observer.wants_snapshots());
        let (joined, answer) = sync_channel(1);
        self.command(Command::Join {
            options: Box::new(options.clone()),
            announcer,
            edges,
            joined,
        })?;
        let outcome =
            announcements.relay_until(observer, interrupted, &answer).ok_or_else(gone)??;
        let meanwhile = Counters::read(options.target.address()).since(&before);
        if outcome.interrupted {
            return Err(Error::Interrupted);
        }
        self.connections = all;
        Ok(Report::new(options, &outcome, meanwhile))
    }

    /// Lets a load make requests for `length`, which is longer than 5 ms, and waits until the load
    /// rests again. Gives up if no reply comes for 20 ms.
    ///
    /// # Errors
    ///
    /// [`Error::System`] if the load's thread is gone.
    ///
    /// # Panics
    ///
    /// If there is no such load.
    pub fn slice(&mut self, load: usize, length: Duration) -> Result<Slice, Error> {
        let (over, answer) = sync_channel(1);
        self.command(Command::Slice { load, length, over })?;
        answer.recv().map_err(|_| gone())
    }

    fn command(&self, command: Command) -> Result<(), Error> {
        let commands = self.commands.as_ref().ok_or_else(gone)?;
        commands.send(command).map_err(|_| gone())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // The end of the commands ends the thread, and with it all connections.
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            // The thread's panic was reported when it happened.
            let _ = thread.join();
        }
    }
}

fn gone() -> Error {
    let error = std::io::Error::other("it has ended");
    Error::System { doing: "asking the load's thread", error }
}

/// The load thread. The thread executes one command at a time.
fn serve(orders: Receiver<Command>) {
    let mut event_loop = match event_loop() {
        Ok(event_loop) => event_loop,
        // The first caller gets the error.
        Err(error) => {
            if let Ok(Command::Join { joined, .. }) = orders.recv() {
                let _ = joined.send(Err(error));
            }
            return;
        }
    };
    event_loop.run(async move {
        let mut members: Vec<JoinedLoad> = Vec::new();
        // While the thread waits here, all loads rest.
        while let Ok(order) = orders.recv() {
            match order {
                Command::Join { options, announcer, edges, joined } => {
                    let engine = Engine::new(*options, announcer);
                    let outcome = engine.run(edges).await;
                    let mut told = BTreeMap::new();
                    if let Some(load) = engine.shared_load() {
                        told = load.recorder.failed();
                        load.gate.shut();
                        rest(load).await;
                    }
                    let has_joined = outcome.is_ok();
                    let _ = joined.send(outcome);
                    engine.wake_caller();
                    if has_joined {
                        members.push(JoinedLoad { engine, told });
                    }
                }
                Command::Slice { load, length, over } => {
                    let _ = over.send(members[load].slice(length).await);
                }
            }
        }
    });
}

/// A load that has joined.
struct JoinedLoad {
    engine: Engine,
    /// Failed requests by kind, as of the last report of its window or a slice.
    told: BTreeMap<&'static str, u64>,
}

impl JoinedLoad {
    async fn slice(&mut self, length: Duration) -> Slice {
        let load = self.engine.shared_load().expect("it has joined");
        let slice = slice(load, length).await;
        let failed = load.recorder.failed();
        let since = |(kind, count): (&'static str, u64)| {
            let more = count - self.told.get(kind).copied().unwrap_or_default();
            (more > 0).then(|| (kind.to_owned(), more))
        };
        let errors = failed.clone().into_iter().filter_map(since).collect();
        self.told = failed;
        Slice { errors, ..slice }
    }
}

async fn slice(load: &Load, length: Duration) -> Slice {
    let before = load.recorder.tally();
    let begun = moment();
    load.recorder.begin_slice();
    load.gate.open();
    time::sleep(LEAD_IN).await;
    let tally = load.recorder.tally();
    let (from, first, under_way) = (Instant::now(), tally.replies, tally.under_way());
    time::sleep(length.saturating_sub(begun.instant.elapsed())).await;
    let (to, last) = (Instant::now(), load.recorder.tally().replies);
    load.gate.shut();
    let rested = rest(load).await;
    let (ended, after) = (moment(), load.recorder.tally());
    let Seen { latencies, longest_stop } = load.recorder.end_slice();
    let requests = after.replies - before.replies;
    // In a closed loop, each connection has a request under way.
    let (counted, time) = match last - first >= REPLIES * under_way {
        true => (last - first, to.saturating_duration_since(from)),
        false => (requests, rested.saturating_duration_since(begun.instant)),
    };
    Slice {
        requests,
        errors: BTreeMap::new(),
        unanswered: after.under_way(),
        connections_served: after.served,
        elapsed: ended.instant.saturating_duration_since(begun.instant),
        cpu: ended.cpu.saturating_sub(begun.cpu),
        waited: ended.waited.saturating_sub(begun.waited),
        requests_per_second: if counted == 0 { 0.0 } else { counted as f64 / time.as_secs_f64() },
        longest_stop_us: 1e6 * longest_stop.as_secs_f64(),
        histograms: (!latencies.is_empty()).then(|| encode(&latencies)).into_iter().collect(),
    }
}

/// Waits until no request of `load` is under way, or until no more replies come. Returns the time
/// of the last reply.
async fn rest(load: &Load) -> Instant {
    let (mut ended, mut changed) = (load.recorder.tally().ended, Instant::now());
    let connections = u32::try_from(load.recorder.tally().under_way()).unwrap_or(u32::MAX);
    let patience = PATIENCE + PATIENCE_OF_A_CONNECTION.saturating_mul(connections);
    loop {
        let tally = load.recorder.tally();
        if tally.under_way() == 0 || changed.elapsed() > patience {
            return changed;
        }
        if tally.ended != ended {
            (ended, changed) = (tally.ended, Instant::now());
        }
        time::sleep(GLANCE).await;
    }
}
