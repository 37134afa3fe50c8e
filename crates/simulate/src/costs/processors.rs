//! The processors of hosts: which turn each one gives, how long it takes, and what waits.
//!
//! ```text
//!   a loop:     ┌─▶ round: poller ─▶ turns of all ready tasks, one after the other ─┐  asleep
//!               └───────────────────────────────────────────────────────────────────┘  if none
//!   threads:    one queue of ready threads ─▶ the first free processor of the host: one turn
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use duality_architectures::event_loop::serve_here;
use duality_architectures::{Options, Prefer, Served};
use duality_runtime::event_loop::{Host, LoopWorld};
use duality_runtime::net::{ListenOptions, TcpListener};

use super::clients::{Ask, Clients, pause};
use super::exchange::Exchange;
use super::figures::{Figures, Observed};
use super::machine::{LoopMachine, PORT, lock};
use super::network::{Network, Outcome, Turn};
use super::{LONGEST, Layout, Question};
use crate::decisions::Random;

/// What happens at a time. Equal times keep the order in which they were noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    /// A client begins.
    Begin(u32),
    /// An open loop makes a request.
    Arrival,
    /// A connection reaches its loop.
    Connect(u32),
    /// A request reaches its loop.
    Request(u64),
    /// A client's end reaches its loop.
    HangUp(u64),
    /// A reply has been taken by its client.
    Reply(u32, u64),
    /// A client learns that its connection is closed.
    Closed(u32, u64),
    /// A processor of a loop goes on.
    Go(usize),
    /// A loop's timer may be due.
    Timer(usize),
    /// All clients may have been served that can be.
    Settle,
}

/// The beginning of a model, up to its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Clients are served for the first time. Whether a look at them is due.
    First(bool),
    /// So many replies are left before the window begins.
    Again(usize),
    Observed,
}

/// The time between two beginnings of clients, in nanoseconds.
const BETWEEN: u64 = 1_000;

/// A loop, and the processors that it has.
struct Station {
    host: Host,
    /// Processors that do nothing.
    resting: usize,
    /// The turns that are left of the round.
    left: usize,
    /// When its timer is looked at, if it is.
    timer: Option<u64>,
}

/// See the [module](self).
pub(super) struct Driver {
    question: Question,
    network: Arc<Mutex<Network>>,
    stations: Vec<Station>,
    clients: Clients,
    observed: Observed,
    is_persistent: bool,
    happenings: BinaryHeap<Reverse<(u64, u64, Happening)>>,
    noted: u64,
    random: Random,
    base: Instant,
    now: u64,
    latency: u64,
    phase: Phase,
    spare: Vec<Outcome>,
}

impl Driver {
    pub(super) fn start(
        question: &Question,
        served: &Served,
        exchange: &Exchange,
    ) -> Result<Self, String> {
        let (loops, processors, places) = match question.layout {
            Layout::Loops => (question.hosts * question.processors, 1, usize::MAX),
            Layout::Threads { places } => (question.hosts, question.processors, places),
        };
        let network = Arc::new(Mutex::new(Network::new(exchange.clone(), loops, places)));
        let base = Instant::now();
        let station = |index| {
            let host = start_host(&network, index, served, base)
                .map_err(|error| format!("this machine cannot run one more loop: {error}"))?;
            Ok(Station { host, resting: processors, left: 0, timer: None })
        };
        let mut driver = Self {
            question: *question,
            stations: (0..loops).map(station).collect::<Result<_, String>>()?,
            network: network.clone(),
            clients: Clients::new(question, exchange.is_persistent()),
            observed: Observed::new(),
            is_persistent: exchange.is_persistent(),
            happenings: BinaryHeap::new(),
            noted: 0,
            random: Random::new(question.seed),
            base,
            now: 0,
            latency: question.latency.as_nanos() as u64,
            phase: Phase::First(false),
            spare: Vec::new(),
        };
        driver.begin();
        Ok(driver)
    }

    /// Has the servers listen, and the clients begin.
    fn begin(&mut self) {
        (0..self.stations.len()).for_each(|index| self.wake(index));
        match self.question.rate {
            Some(_) => self.note(0, Happening::Arrival),
            None => {
                self.begin_all((0..self.question.connections as u32).collect());
            }
        }
    }

    fn begin_all(&mut self, clients: Vec<u32>) {
        for (index, client) in clients.into_iter().enumerate() {
            self.note(self.now + index as u64 * BETWEEN, Happening::Begin(client));
        }
    }

    pub(super) fn run(mut self) -> Result<Figures, String> {
        let longest = LONGEST.as_nanos() as u64;
        while let Some(Reverse((time, _, happening))) = self.happenings.pop() {
            if time >= self.observed.end().min(longest) {
                break;
            }
            self.now = time;
            lock(&self.network).now = time;
            self.happen(happening);
            if let Some(wrong) = lock(&self.network).wrong.take() {
                return Err(format!("the clients do not understand this reply: {wrong:?}"));
            }
        }
        let processors = self.question.hosts * self.question.processors;
        let served = self.clients.served();
        self.observed
            .figures(processors, served)
            .ok_or_else(|| "no request is answered in the time of the model".to_owned())
    }

    fn note(&mut self, time: u64, happening: Happening) {
        self.noted += 1;
        self.happenings.push(Reverse((time, self.noted, happening)));
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Begin(client) => self.ask(client, self.now),
            Happening::Arrival => {
                let rate = self.question.rate.unwrap_or(f64::MAX);
                let next = self.now + pause(&mut self.random, rate).round() as u64;
                self.note(next, Happening::Arrival);
                self.observed.asked(self.now);
                if let Some(client) = self.clients.arrival(self.now) {
                    self.ask(client, self.now);
                }
            }
            Happening::Connect(client) => {
                let index = self.choose_loop(client);
                let connection = lock(&self.network).connect(index, client);
                self.clients.connected(client, connection);
                self.wake(index);
            }
            Happening::Request(connection) => {
                let at = lock(&self.network).ask(connection);
                at.into_iter().for_each(|index| self.wake(index));
            }
            Happening::HangUp(connection) => {
                let at = lock(&self.network).hang_up(connection);
                at.into_iter().for_each(|index| self.wake(index));
            }
            Happening::Reply(client, connection) => self.answered(client, connection),
            Happening::Closed(client, connection) => {
                if self.clients.closed(client, connection) {
                    self.note(self.now + 3 * self.latency, Happening::Connect(client));
                }
                self.note(self.now + self.latency, Happening::HangUp(connection));
            }
            Happening::Go(index) => {
                self.stations[index].resting += 1;
                lock(&self.network).look_at_listener(index);
                self.go_on(index);
            }
            Happening::Timer(index) => {
                self.stations[index].timer = None;
                self.wake(index);
            }
            Happening::Settle if self.phase == Phase::First(true) => {
                self.phase = Phase::First(false);
                self.look_whether_settled();
            }
            Happening::Settle => {}
        }
    }

    /// In the first phase: has all clients ask again, if those have been served that can be.
    fn look_whether_settled(&mut self) {
        match self.clients.settle_at() {
            Some(time) if time <= self.now => {
                self.phase = Phase::Again(2 * self.clients.served());
                let held = self.clients.release();
                self.begin_all(held);
            }
            Some(time) if self.phase == Phase::First(false) => {
                self.phase = Phase::First(true);
                self.note(time, Happening::Settle);
            }
            _ => {}
        }
    }

    /// A client has been served.
    fn pass_phase(&mut self) {
        match &mut self.phase {
            Phase::First(_) => self.look_whether_settled(),
            Phase::Again(0) => {
                self.phase = Phase::Observed;
                self.observed.begin(self.now, self.question.window.as_nanos() as u64);
            }
            Phase::Again(left) => *left -= 1,
            Phase::Observed => {}
        }
    }

    /// The loop of a connection: hosts in turn, and a loop of the host at random, as the kernel
    /// spreads connections over listeners.
    fn choose_loop(&mut self, client: u32) -> usize {
        let host = client as usize % self.question.hosts;
        match self.question.layout {
            Layout::Threads { .. } => host,
            Layout::Loops => {
                let processors = self.question.processors;
                host * processors + (self.random.next() % processors as u64) as usize
            }
        }
    }

    /// A client makes a request that was meant for the time `asked`.
    fn ask(&mut self, client: u32, asked: u64) {
        if self.question.rate.is_none() {
            self.observed.asked(self.now);
        }
        match self.clients.ask(client, asked) {
            Ask::On(connection) => {
                self.note(self.now + self.latency, Happening::Request(connection));
            }
            // The handshake takes a way there and back first.
            Ask::Connect => self.note(self.now + 3 * self.latency, Happening::Connect(client)),
        }
    }

    fn answered(&mut self, client: u32, connection: u64) {
        let Some((asked, next)) = self.clients.answered(client, self.now) else { return };
        self.observed.answered(asked, self.now);
        if !self.is_persistent {
            self.note(self.now + self.latency, Happening::HangUp(connection));
        }
        if let Some(next) = next {
            self.ask(client, next);
        }
        self.pass_phase();
    }

    /// Something has come for a loop, which may sleep.
    fn wake(&mut self, index: usize) {
        if self.stations[index].resting == 0 {
            return;
        }
        match self.question.layout {
            Layout::Loops if self.is_idle(index) => {}
            Layout::Loops => {
                let rest = self.question.prices.rest;
                self.occupy(index, rest);
            }
            Layout::Threads { .. } => self.dispatch(index, self.question.prices.rest),
        }
    }

    /// A processor of a loop has ended what it did.
    fn go_on(&mut self, index: usize) {
        match self.question.layout {
            Layout::Loops => self.go_round(index),
            Layout::Threads { .. } => self.dispatch(index, self.question.prices.switch),
        }
    }

    /// Whether a loop has nothing to do now.
    fn is_idle(&self, index: usize) -> bool {
        let now = self.base + Duration::from_nanos(self.now);
        !self.stations[index].host.is_able(now) && lock(&self.network).due(index) == 0
    }

    /// Keeps a processor of a loop busy for so many nanoseconds. Returns when it ends.
    fn occupy(&mut self, index: usize, takes: f64) -> u64 {
        let end = self.now + takes.round() as u64;
        self.stations[index].resting -= 1;
        self.observed.busy(self.now, end);
        self.note(end, Happening::Go(index));
        end
    }

    /// The next step of a loop on a processor of its own.
    fn go_round(&mut self, index: usize) {
        let prices = self.question.prices;
        let ready = self.stations[index].host.ready();
        let is_over = self.stations[index].left == 0;
        if is_over && ready == 0 && self.is_idle(index) {
            return self.sleep(index);
        }
        let mut takes = 0.0;
        if is_over {
            let events = lock(&self.network).due(index);
            takes += prices.round + events as f64 * prices.event;
        }
        let turn = self.step(index, is_over);
        if ready > 0 {
            takes += prices.turn;
        }
        let station = &mut self.stations[index];
        station.left = match is_over {
            true => station.host.ready(),
            false => (station.left - 1).min(station.host.ready()),
        };
        self.end_turn(index, turn, takes);
    }

    /// Gives turns to threads that are ready, as long as a processor is free. `switch` is what the
    /// first of them pays.
    fn dispatch(&mut self, index: usize, switch: f64) {
        let mut switch = switch;
        while self.stations[index].resting > 0 {
            if self.stations[index].host.ready() == 0 {
                if self.is_idle(index) {
                    return self.sleep(index);
                }
                // The kernel makes threads ready at no cost of the threads'.
                let turn = self.step(index, true);
                self.spare = turn.outcomes;
                if self.stations[index].host.ready() == 0 {
                    return self.sleep(index);
                }
            }
            let turn = self.step(index, false);
            self.end_turn(index, turn, switch + self.question.prices.turn);
            switch = self.question.prices.rest;
        }
    }

    /// One step of a loop: a turn of a task that is ready, and events if it `polls`.
    fn step(&mut self, index: usize, polls: bool) -> Turn {
        lock(&self.network).begin(index, polls);
        let now = self.base + Duration::from_nanos(self.now);
        self.stations[index].host.step(now, |_| 0);
        lock(&self.network).end(index, std::mem::take(&mut self.spare))
    }

    /// Has a turn be paid for, and its replies leave at its end.
    fn end_turn(&mut self, index: usize, turn: Turn, before: f64) {
        let prices = self.question.prices;
        let operations = [
            (turn.attempts, prices.attempt),
            (turn.in_vain, prices.in_vain),
            (turn.registrations, prices.registration),
            (turn.accepted, prices.start),
            (turn.works, prices.work),
        ];
        let mut takes = before;
        takes += operations.iter().map(|(count, price)| *count as f64 * price).sum::<f64>();
        for outcome in &turn.outcomes {
            // A reply that wakes the clients' processor takes the server longer.
            if outcome.replied_to.is_some()
                && self.clients.are_asleep(self.now + takes as u64 + self.latency)
            {
                takes += prices.wake;
            }
        }
        let end = self.occupy(index, takes);
        if turn.accepted > 0 {
            lock(&self.network).accepts_from(index, end);
        }
        for outcome in &turn.outcomes {
            let Outcome { client, connection, replied_to } = *outcome;
            match replied_to {
                None => {
                    let learnt = self.clients.learn(end + self.latency);
                    self.note(learnt, Happening::Closed(client, connection));
                }
                Some(came) => {
                    self.observed.left(came, end, takes.round() as u64);
                    let taken = self.clients.take(end + self.latency);
                    self.note(taken, Happening::Reply(client, connection));
                }
            }
        }
        self.spare = turn.outcomes;
    }

    /// Nothing is ready: has the loop's timer looked at when it is due.
    fn sleep(&mut self, index: usize) {
        let station = &mut self.stations[index];
        let due = station.host.next_expiry();
        let due = due.map(|due| due.saturating_duration_since(self.base).as_nanos() as u64);
        if let Some(due) = due
            && station.timer.is_none_or(|timer| due < timer)
        {
            let due = due.max(self.now + 1);
            station.timer = Some(due);
            self.note(due, Happening::Timer(index));
        }
    }
}

/// Starts a loop that serves as `duality serve` does.
fn start_host(
    network: &Arc<Mutex<Network>>,
    index: usize,
    served: &Served,
    base: Instant,
) -> std::io::Result<Host> {
    let machine = LoopMachine { network: network.clone(), index, place: Arc::default() };
    let served = served.clone();
    Host::start(
        Arc::new(machine.clone()),
        Box::new(machine),
        LoopWorld::Suspend,
        base,
        move || async move {
            let address = ([0, 0, 0, 0], PORT).into();
            let listener = TcpListener::bind(address, &ListenOptions::default())
                .expect("a model has room for a listener");
            serve_here(listener, served, &Options::default().prefer(Prefer::Accept)).await;
        },
    )
}
