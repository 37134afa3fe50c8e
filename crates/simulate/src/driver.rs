//! The driver: draws which host goes on, gives it a turn, and moves the time.
//!
//! ```text
//!   driver ─ draws a host that can go on ─▶ its loop: one turn of one task (drawn), then events (drawn)
//!      │      none can: the time moves to the next timer, packet or start
//!      ▼
//!   network ◀─ calls ─ sockets ◀─ tasks of the host
//! ```
//!
//! A host is an event loop of its own. So its tasks, timers, waits, drain state and values for each
//! loop are apart from those of other hosts. A crash is the drop of the loop. The time moves a
//! little with each turn, so that a busy loop ends.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use duality_runtime::event_loop::{Host, LoopWorld};

use crate::decisions::{Decision, Decisions, Kind, Script};
use crate::faults::{Counts, Faults, nanoseconds};
use crate::machine::{HostMachine, lock};
use crate::net::Net;
use crate::network::{Network, Story};
use crate::process::Process;
use crate::shared::{Main, Order, Shared, Task, Waits};
use crate::threads::{Reports, keep_on_one_processor};
use crate::{order, outside};

/// The stack of a task that waits on one. Code without optimisation needs more than services.
const STACK: usize = 256 << 10;

/// The time of a turn that takes the least.
const TURN: u64 = 1_000;

/// What came of one simulation.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The hash of all decisions, arrivals and bytes.
    pub(crate) hash: u64,
    pub(crate) time: Duration,
    pub(crate) counts: Counts,
    pub(crate) failure: Option<String>,
    pub(crate) story: Vec<String>,
    pub(crate) kept: Vec<Decision>,
}

/// How one simulation is run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) faults: Faults,
    pub(crate) waits: Waits,
    /// The limits of virtual time and of turns.
    pub(crate) limit: Duration,
    pub(crate) turns: u64,
    /// The decisions to make, instead of the seed's.
    pub(crate) script: Option<Script>,
    pub(crate) keeps: bool,
    /// Whether the story is told, and with decisions.
    pub(crate) tells: Option<bool>,
    /// Whether it has a process of its own.
    pub(crate) is_apart: bool,
    /// Which of the simulations that run at a time it is.
    pub(crate) worker: usize,
}

/// What runs on a host.
enum Running {
    Loop(Host),
    Process(Process),
}

impl Running {
    /// Whether a step would do anything at `now`, events of a loop aside.
    fn is_able(&mut self, now: Instant) -> bool {
        match self {
            Self::Loop(host) => host.is_able(now),
            Self::Process(process) => process.look(now),
        }
    }

    fn next_expiry(&self) -> Option<Instant> {
        match self {
            Self::Loop(host) => host.next_expiry(),
            Self::Process(process) => process.next_expiry(),
        }
    }

    fn has_ended(&self) -> bool {
        match self {
            Self::Loop(host) => host.has_ended(),
            Self::Process(process) => process.has_ended(),
        }
    }

    /// The number of tasks, or of threads.
    fn tasks(&self) -> usize {
        match self {
            Self::Loop(host) => host.tasks(),
            Self::Process(process) => process.count(),
        }
    }

    fn drain(&mut self) {
        match self {
            Self::Loop(host) => host.drain(),
            Self::Process(process) => process.drain(),
        }
    }
}

struct Slot {
    running: Option<Running>,
    main: Main,
    waits: Waits,
    may_panic: bool,
    starts_at: Option<u64>,
    has_started: bool,
    last_turn: u64,
    order: order::Order,
}

struct Driver {
    shared: Arc<Shared>,
    /// The worker that simulates, until a host has kernel threads.
    worker: Option<usize>,
    hosts: Vec<Option<Slot>>,
    base: Instant,
    turns: u64,
    failure: Option<String>,
}

/// The host of the test itself.
const TEST: usize = 0;

/// Runs a simulation on this kernel thread.
pub(crate) fn run(plan: &Plan, test: impl FnOnce(Net) -> Task + Send + 'static) -> Outcome {
    assert!(outside::elapsed().is_none(), "a simulation runs on this kernel thread already");
    outside::begin(plan.seed);
    // The simulation's own, where a program answers for the clock (`outside`).
    let base = Instant::now();
    let decisions = Decisions::new(plan.seed, plan.script.clone(), plan.keeps);
    let story = plan.tells.map_or_else(Story::default, Story::told);
    let mut network = Network::new(decisions, plan.faults, story);
    let test_host = network.add_host("test");
    debug_assert_eq!(test_host, TEST);
    let network = Arc::new(Mutex::new(network));
    outside::name_hosts(&network);
    let shared = Arc::new(Shared::new(network, plan.waits, plan.faults));
    let test = Mutex::new(Some(test));
    let net = Net::new(shared.clone());
    let main = Main::Task(Arc::new(move || {
        let test = test.lock().unwrap_or_else(PoisonError::into_inner).take();
        test.expect("the test starts once")(net.clone())
    }));
    shared.order(Order::Start { host: TEST, main, waits: Waits::Suspend, may_panic: false });
    let (hosts, worker) = (Vec::new(), Some(plan.worker));
    let mut driver = Driver { shared, worker, hosts, base, turns: 0, failure: None };
    driver.run(nanoseconds(plan.limit), plan.turns);
    driver.end()
}

impl Driver {
    fn run(&mut self, limit: u64, turns: u64) {
        let mut able = Vec::new();
        loop {
            self.obey();
            self.start_hosts();
            if self.failure.is_some() || self.shared.with_end(TEST, |end| end.outcome.is_some()) {
                return;
            }
            let now = lock(&self.shared.network).now;
            if now >= limit {
                self.failure = Some(format!("the time is over, and {} go on", self.living()));
                return;
            }
            if self.turns >= turns {
                let hint = "a task may run in circles; raise the limit with turns()";
                self.failure = Some(format!("{turns} turns are over: {hint}"));
                return;
            }
            self.find_able(now, &mut able);
            if able.is_empty() {
                if !self.move_time(limit) {
                    let living = self.living();
                    self.failure = Some(format!("nothing can happen any more, and {living} wait"));
                    return;
                }
                continue;
            }
            let drawn = lock(&self.shared.network).draw(Kind::Host, able.len() as u64);
            self.step(able[drawn as usize].1);
            let takes = {
                let mut net = lock(&self.shared.network);
                let most = net.profile.turn;
                TURN + net.draw(Kind::Turn, most)
            };
            self.set_time((now + takes).min(limit));
        }
    }

    /// The hosts that can go on now, the least recent first.
    fn find_able(&mut self, now: u64, able: &mut Vec<(u64, usize)>) {
        able.clear();
        for (index, slot) in self.hosts.iter_mut().enumerate() {
            let Some(slot) = slot else { continue };
            let Some(running) = &mut slot.running else { continue };
            let (is_told, own) = {
                let net = lock(&self.shared.network);
                let own = self.base + Duration::from_nanos(net.hosts[index].clock.at(now));
                (matches!(running, Running::Loop(_)) && net.has_events(index, 0), own)
            };
            // Threads ask the network whether their waits are over.
            if is_told || running.is_able(own) {
                able.push((slot.last_turn, index));
            }
        }
        able.sort_unstable();
    }

    fn living(&self) -> String {
        let net = lock(&self.shared.network);
        let living = self.hosts.iter().enumerate().filter(|(_, slot)| {
            let host = slot.as_ref().and_then(|slot| slot.running.as_ref());
            host.is_some_and(|host| !host.has_ended())
        });
        let each = living.map(|(index, slot)| {
            let name = net.name(index);
            match slot.as_ref().and_then(|slot| slot.running.as_ref()) {
                Some(Running::Process(process)) => format!("{name} ({})", process.waits()),
                _ => name.to_owned(),
            }
        });
        each.collect::<Vec<_>>().join(", ")
    }

    /// Moves the time to what comes next. False if nothing does.
    fn move_time(&mut self, limit: u64) -> bool {
        let mut net = lock(&self.shared.network);
        let timers = self.hosts.iter().enumerate().filter_map(|(index, slot)| {
            let due = slot.as_ref()?.running.as_ref()?.next_expiry()?;
            let due = nanoseconds(due.saturating_duration_since(self.base));
            Some(net.hosts[index].clock.when(due))
        });
        let starts = self.hosts.iter().flatten().filter_map(|slot| slot.starts_at);
        let timer = timers.chain(starts).min();
        let arrival = net.next_arrival();
        let next = match (timer, arrival) {
            (None, None) => return false,
            (Some(timer), arrival) if arrival.is_none_or(|arrival| timer <= arrival) => {
                let most = net.profile.late_timer;
                let late = net.draw(Kind::LateTimer, most);
                net.counts.late_timers += u64::from(late > 0);
                timer + late
            }
            (_, arrival) => arrival.unwrap_or(0),
        };
        let time = next.max(net.now).min(limit);
        drop(net);
        self.set_time(time);
        true
    }

    fn set_time(&self, time: u64) {
        let mut net = lock(&self.shared.network);
        net.now = time;
        net.deliver();
    }

    /// One turn of one task of the host, and its events.
    fn step(&mut self, index: usize) {
        self.turns += 1;
        let Some(slot) = &mut self.hosts[index] else { return };
        slot.last_turn = self.turns;
        let Some(running) = &mut slot.running else { return };
        let network = &self.shared.network;
        lock(network).counts.turns += 1;
        let now = self.base + Duration::from_nanos(enter(network, index));
        let order = &mut slot.order;
        let reports = match running {
            Running::Loop(host) => {
                host.step(now, |ready| order.choose(&ready, &mut lock(network)));
                Reports::take()
            }
            Running::Process(process) => {
                let turn = self.turns;
                let given = process.step(turn, |able| order.choose(able, &mut lock(network)));
                given.unwrap_or_else(|why| Reports { panic: None, refused: Some(why) })
            }
        };
        if let Some(refused) = reports.refused {
            let name = lock(network).name(index).to_owned();
            self.failure.get_or_insert(format!("{name}: {refused}"));
        }
        if let Some(panic) = reports.panic {
            let name = lock(network).name(index).to_owned();
            lock(network).tell(|_| format!("{name} panics: {panic}"));
            if !slot.may_panic {
                let who = if index == TEST { String::new() } else { format!("{name}: ") };
                self.failure.get_or_insert(format!("{who}{panic}"));
            }
        }
        let tasks = running.tasks();
        self.shared.with_end(index, |end| end.tasks = tasks);
        if running.has_ended() {
            let why = self.shared.with_end(index, |end| end.outcome.clone().and_then(Result::err));
            if let Some(why) = why {
                lock(network).tell(|net| format!("{} ends: {why}", net.name(index)));
            }
            end(&mut slot.running, &mut self.failure);
            lock(&self.shared.network).exit(index);
        }
    }

    fn obey(&mut self) {
        for order in self.shared.take_orders() {
            match order {
                Order::Start { host, main, waits, may_panic } => {
                    if self.hosts.len() <= host {
                        self.hosts.resize_with(host + 1, || None);
                    }
                    self.hosts[host] = Some(Slot {
                        running: None,
                        main,
                        waits,
                        may_panic,
                        starts_at: Some(0),
                        has_started: false,
                        last_turn: 0,
                        order: order::Order::default(),
                    });
                }
                Order::Crash { host } => self.crash(host),
                Order::Restart { host, after } => {
                    let at = lock(&self.shared.network).now + nanoseconds(after);
                    if let Some(slot) = &mut self.hosts[host]
                        && slot.running.is_none()
                    {
                        slot.starts_at = Some(at);
                    }
                }
                Order::Drain { host } => {
                    let Some(running) =
                        self.hosts[host].as_mut().and_then(|slot| slot.running.as_mut())
                    else {
                        continue;
                    };
                    let mut net = lock(&self.shared.network);
                    net.counts.drains += 1;
                    net.tell(|net| format!("{} drains", net.name(host)));
                    drop(net);
                    running.drain();
                }
                Order::Fail(failure) => _ = self.failure.get_or_insert(failure),
            }
        }
    }

    fn crash(&mut self, host: usize) {
        let Some(slot) = &mut self.hosts[host] else { return };
        slot.starts_at = None;
        if slot.running.is_none() {
            return;
        }
        let network = &self.shared.network;
        lock(network).crash(host);
        lock(network).stop_disks(host);
        // Destructors run, but nothing that they send leaves the host.
        end(&mut slot.running, &mut self.failure);
        outside::take_panic();
        if let Err(error) = lock(network).roll_back(host) {
            self.failure.get_or_insert(format!("the folder of a host's disk: {error}"));
        }
    }

    fn start_hosts(&mut self) {
        let now = lock(&self.shared.network).now;
        for index in 0..self.hosts.len() {
            let Some(slot) = &mut self.hosts[index] else { continue };
            if slot.starts_at.is_none_or(|at| at > now) {
                continue;
            }
            slot.starts_at = None;
            if matches!(slot.main, Main::Thread(_)) {
                self.worker.take().into_iter().for_each(keep_on_one_processor);
            }
            self.shared.with_end(index, |end| end.outcome = None);
            let is_first = !std::mem::replace(&mut slot.has_started, true);
            lock(&self.shared.network).start(index, is_first);
            let time = self.base + Duration::from_nanos(enter(&self.shared.network, index));
            match start(&self.shared, index, slot, self.base, time) {
                Ok(running) => slot.running = Some(running),
                Err(error) => {
                    let problem = format!("this machine cannot run one more host: {error}");
                    self.failure.get_or_insert(problem);
                }
            }
        }
    }

    fn end(mut self) -> Outcome {
        let failed = self.shared.with_end(TEST, |end| end.outcome.take());
        let failure = self.failure.take();
        let failure =
            failure.or(failed.and_then(Result::err).map(|violation| violation.to_string()));
        let mut net = lock(&self.shared.network);
        let (hash, now, counts) = (net.decisions.hash(), net.now, net.counts);
        let (story, kept) = (net.story.take(), net.decisions.take_kept());
        (0..net.hosts.len()).for_each(|host| {
            net.hosts[host].is_up = false;
            net.stop(host);
        });
        drop(net);
        for slot in self.hosts.iter_mut().flatten() {
            end(&mut slot.running, &mut None);
        }
        outside::take_panic();
        outside::end();
        Outcome { hash, time: Duration::from_nanos(now), counts, failure, story, kept }
    }
}

/// Starts what runs on a host.
fn start(
    shared: &Arc<Shared>,
    index: usize,
    slot: &Slot,
    base: Instant,
    now: Instant,
) -> io::Result<Running> {
    let (network, place) = (shared.network.clone(), Arc::default());
    let machine = HostMachine { network, host: index, queue: 0, place };
    let shared = shared.clone();
    let ended = move |outcome| {
        let waiters = shared.with_end(index, |end| {
            end.outcome = Some(outcome);
            std::mem::take(&mut end.waiters)
        });
        waiters.into_iter().for_each(Waker::wake);
    };
    let main = match slot.main.clone() {
        Main::Thread(main) => {
            let main = Box::new(move || ended(main()));
            return Process::start(machine, base, main).map(Running::Process);
        }
        Main::Task(main) => main,
    };
    let world = match slot.waits {
        Waits::Suspend => LoopWorld::Suspend,
        Waits::Park => LoopWorld::Park { stack_size: STACK },
    };
    let of_loop = Arc::new(machine.clone());
    let main = move || async move { ended(main().await) };
    Host::start(of_loop, Box::new(machine), world, now, main).map(Running::Loop)
}

/// Ends what runs on a host. A thread that cannot be ended is a failure.
fn end(running: &mut Option<Running>, failure: &mut Option<String>) {
    if let Some(Running::Process(mut process)) = running.take()
        && let Err(why) = process.end()
    {
        failure.get_or_insert(why);
    }
}

/// The clocks of a host are those of this kernel thread, until another host goes on. Returns the
/// monotonic one.
fn enter(network: &Mutex<Network>, host: usize) -> u64 {
    let net = lock(network);
    let clock = net.hosts[host].clock;
    let elapsed = clock.at(net.now);
    outside::set_time(elapsed, clock.time_of_day(net.now));
    elapsed
}
