//! The agent: carries out the orders of a link on this host, with the code that measures on one
//! machine.
//!
//! The agent ends all processes that it started when its orders end, or after 10 s without a line.
//! A thread of its own makes load, so that the agent can answer questions about servers on the same
//! host meanwhile.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use duality_load::{Observer, Relay, Report};

use super::protocol::{Answer, BEAT, LONGEST_LINE, Load, Order, SILENCE, UNASKED, VERSION};
use crate::failure::{Blame, Failure, Party};
use crate::measure::behind;
use crate::measure::experiment::Experiment;
use crate::measure::machine;
use crate::measure::meter::{BesideLoad, Meter, OfThisMachine};
use crate::measure::no_server::NoServer;
use crate::measure::server::{self, Server};
use crate::measure::store::{OpenStore, Reach, Store};
use crate::record::Role;

/// Carries out orders from `orders` until they end, and writes the answers to `answers`.
///
/// # Errors
///
/// Fails if an order cannot be read. In this case, too, the agent ends all processes that it
/// started.
pub fn run(
    orders: impl Read + Send + 'static,
    answers: impl Write + Send + 'static,
) -> io::Result<()> {
    let output = Output(Arc::new(Mutex::new(Box::new(answers))));
    output.say(
        UNASKED,
        &Answer::Hello {
            version: VERSION,
            duality: env!("CARGO_PKG_VERSION").to_owned(),
            machine: Box::new(machine::describe()),
        },
    );
    let beating = output.clone();
    thread::Builder::new().name("beat".into()).spawn(move || {
        loop {
            thread::sleep(BEAT);
            beating.say(UNASKED, &Answer::Beat);
        }
    })?;
    let (heard, lines) = mpsc::channel();
    thread::Builder::new().name("orders".into()).spawn(move || hear(orders, &heard))?;
    let mut agent = Agent::new(output)?;
    // The end of the orders and a long silence mean the same: the measurement is over.
    while let Ok(line) = lines.recv_timeout(SILENCE) {
        let (number, order) = line?;
        agent.obey(number, order);
    }
    agent.end();
    Ok(())
}

/// Reads orders until they end.
fn hear(orders: impl Read, heard: &Sender<io::Result<(u64, Order)>>) {
    let mut orders = BufReader::new(orders);
    loop {
        let mut line = Vec::new();
        let read = orders.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
        let order = match read {
            Ok(0) => return,
            Ok(_) => serde_json::from_slice(&line).map_err(io::Error::from),
            Err(error) => Err(error),
        };
        let is_broken = order.is_err();
        if heard.send(order).is_err() || is_broken {
            return;
        }
    }
}

/// The writer of answers, which several threads share.
#[derive(Clone)]
struct Output(Arc<Mutex<Box<dyn Write + Send>>>);

impl Output {
    fn say(&self, number: u64, answer: &Answer) {
        let line = serde_json::to_string(&(number, answer)).expect("answers are plain data");
        let mut output = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // If there is no reader, the orders also end.
        let _ = output.write_all(format!("{line}\n").as_bytes()).and_then(|()| output.flush());
    }
}

/// The processes and loads on this host.
struct Agent {
    output: Output,
    experiment: Option<Box<Experiment>>,
    servers: BTreeMap<u64, (Box<dyn Server>, Option<OpenStore>)>,
    stores: BTreeMap<u64, OpenStore>,
    meter: OfThisMachine,
    loads: LoadThread,
}

impl Agent {
    fn new(output: Output) -> io::Result<Self> {
        Ok(Self {
            loads: LoadThread::start(output.clone())?,
            output,
            experiment: None,
            servers: BTreeMap::new(),
            stores: BTreeMap::new(),
            meter: OfThisMachine::new(&[], &[], BesideLoad::default()),
        })
    }

    /// Carries an order out, and answers it.
    fn obey(&mut self, number: u64, order: Order) {
        let answer = match order {
            Order::Beat => return,
            Order::Go => return self.loads.go(),
            Order::Stop => return self.loads.stop(),
            Order::Load(load) => {
                let experiment = self.experiment.clone();
                return self.loads.work(number, experiment, Work::Load(load));
            }
            Order::Slice { number: load, length } => {
                return self.loads.work(number, None, Work::Slice { load, length });
            }
            Order::Leave => return self.loads.work(number, None, Work::Leave),
            other => self.answer(other).unwrap_or_else(Answer::Failed),
        };
        self.output.say(number, &answer);
    }

    fn answer(&mut self, order: Order) -> Result<Answer, Failure> {
        let machine = |error: io::Error| Failure::new(Party::Machine, error);
        match order {
            Order::Begin { experiment, roles } => {
                self.begin(experiment, &roles)?;
                Ok(Answer::Done)
            }
            Order::Server { number, key, listen, store } => {
                let mut experiment = self.experiment()?;
                experiment.listen = listen;
                let own = match (&store, &experiment.store) {
                    (None, Some(kind @ Store::Sqlite)) => Some(kind.open(&[])),
                    (Some(url), _) => Some(Store::At(url.clone()).open(&[])),
                    _ => None,
                };
                let begun = own.transpose().and_then(|store| {
                    let upstreams = behind::addresses(&experiment, None)?;
                    let server = server::start(&experiment, &key, store.as_ref(), &upstreams)?;
                    Ok((server, store))
                });
                Ok(begun.map_or_else(absent, |begun| self.listens(number, begun)))
            }
            Order::Balancer { number, key, listen, servers } => {
                let mut experiment = self.experiment()?;
                experiment.listen = listen;
                let begun = server::start_balancer(&experiment, &key, &servers);
                Ok(begun.map_or_else(absent, |server| self.listens(number, (server, None))))
            }
            Order::Store { number, listen } => {
                let experiment = self.experiment()?;
                let reach = Reach::network(listen).map_err(machine)?;
                let password = reach.password().map(str::to_owned);
                match Store::Redis.open_for(&reach, &experiment.design.client_cpus) {
                    Err(none) => Ok(absent(none)),
                    Ok((store, port)) => {
                        self.stores.insert(number, store);
                        Ok(Answer::Listens { port, password })
                    }
                }
            }
            Order::Problem { number } => {
                Ok(Answer::Text(self.stores.get_mut(&number).and_then(OpenStore::problem)))
            }
            Order::End { number } => {
                self.servers.remove(&number);
                self.stores.remove(&number);
                Ok(Answer::Done)
            }
            Order::Look => self.look().map(Answer::Disturbance).map_err(machine),
            Order::RoundTrip { address } => round_trip(address).map(Answer::Time).map_err(machine),
            other => {
                let answer = self.of_server(other).blame(Party::Subject)?;
                answer.ok_or_else(|| Failure::new(Party::Machine, "not understood"))
            }
        }
    }

    /// Answers a question to a running server. `None` for any other order.
    fn of_server(&mut self, order: Order) -> io::Result<Option<Answer>> {
        Ok(Some(match order {
            Order::Cpu { number } => Answer::Time(self.server(number)?.cpu()?),
            Order::Settled { number } => Answer::Time(self.server(number)?.settled()?),
            Order::Counters { number, with_memory } => {
                Answer::Counters(self.server(number)?.counters(with_memory)?)
            }
            Order::Queues { number } => Answer::Queues(self.server(number)?.queues()?),
            Order::ListenQueue { number } => Answer::Length(self.server(number)?.listen_queue()),
            Order::LastWords { number, error } => {
                let error = error.map(io::Error::other);
                Answer::Text(Some(self.server(number)?.last_words(error.as_ref())))
            }
            _ => return Ok(None),
        }))
    }

    fn begin(&mut self, mut experiment: Box<Experiment>, roles: &[Role]) -> Result<(), Failure> {
        experiment.program = std::env::current_exe().blame(Party::Machine)?;
        let design = &experiment.design;
        let has = |role| roles.contains(&role);
        let own = |cpus: &[usize], is_own: bool| if is_own { cpus.to_vec() } else { Vec::new() };
        self.meter = OfThisMachine::new(
            &own(&design.server_cpus, has(Role::Server)),
            &own(&design.client_cpus, has(Role::Load)),
            BesideLoad::default(),
        );
        self.experiment = Some(experiment);
        Ok(())
    }

    fn experiment(&self) -> Result<Experiment, Failure> {
        self.experiment.as_deref().cloned().ok_or_else(nothing_begun)
    }

    fn server(&mut self, number: u64) -> io::Result<&mut Box<dyn Server>> {
        let server = self.servers.get_mut(&number).map(|(server, _)| server);
        server.ok_or_else(|| io::Error::other(format!("there is no server {number}")))
    }

    fn listens(&mut self, number: u64, begun: (Box<dyn Server>, Option<OpenStore>)) -> Answer {
        let port = begun.0.address().port();
        self.servers.insert(number, begun);
        Answer::Listens { port, password: None }
    }

    fn look(&mut self) -> io::Result<crate::record::Disturbance> {
        let Self { meter, servers, .. } = self;
        meter.look(&mut || servers.values_mut().map(|(server, _)| server.cpu()).sum())
    }

    /// Ends all started processes. Ends servers side by side, since each may take some time.
    fn end(self) {
        self.loads.stop();
        thread::scope(|scope| {
            for (_, begun) in self.servers {
                scope.spawn(|| drop(begun));
            }
        });
    }
}

/// The answer about a server that does not exist.
fn absent(none: NoServer) -> Answer {
    match none {
        NoServer::Unavailable(reason) => Answer::Unavailable(reason),
        NoServer::Failed(failure) => Answer::Failed(failure),
    }
}

fn nothing_begun() -> Failure {
    Failure::new(Party::Machine, "nothing has begun")
}

/// The length of a round trip to a listener: the median of some handshakes. Only the kernels take
/// part in a handshake.
fn round_trip(address: SocketAddr) -> io::Result<Duration> {
    const TIMES: usize = 9;
    const PATIENCE: Duration = Duration::from_secs(5);
    let mut took = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let begun = Instant::now();
        TcpStream::connect_timeout(&address, PATIENCE)?;
        took.push(begun.elapsed());
    }
    took.sort();
    Ok(took[TIMES / 2])
}

/// A message to the thread that makes load.
enum Work {
    Load(Box<Load>),
    Slice { load: u64, length: Duration },
    Leave,
}

/// The thread that makes load, and the channels to the thread.
struct LoadThread {
    work: Sender<(u64, Option<Box<Experiment>>, Work)>,
    go: Sender<()>,
    stopped: Arc<AtomicBool>,
}

impl LoadThread {
    fn start(output: Output) -> io::Result<Self> {
        let (work, orders) = mpsc::channel::<(u64, Option<Box<Experiment>>, Work)>();
        let (go, gone) = mpsc::channel();
        let stopped = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stopped);
        thread::Builder::new().name("loads".into()).spawn(move || {
            let mut maker = LoadMaker { output, gone, stopped: seen, relay: None, joined: vec![] };
            for (number, experiment, work) in orders {
                let answer = maker.make(number, experiment.as_deref(), work);
                maker.output.say(number, &answer.unwrap_or_else(Answer::Failed));
            }
        })?;
        Ok(Self { work, go, stopped })
    }

    fn work(&self, number: u64, experiment: Option<Box<Experiment>>, work: Work) {
        // The thread ends when this struct is dropped.
        let _ = self.work.send((number, experiment, work));
    }

    fn go(&self) {
        let _ = self.go.send(());
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

struct LoadMaker {
    output: Output,
    gone: Receiver<()>,
    stopped: Arc<AtomicBool>,
    relay: Option<Relay>,
    /// The loads that have joined the relay, in this order.
    joined: Vec<u64>,
}

impl LoadMaker {
    fn make(
        &mut self,
        number: u64,
        experiment: Option<&Experiment>,
        work: Work,
    ) -> Result<Answer, Failure> {
        match work {
            Work::Load(load) => {
                let experiment = experiment.ok_or_else(nothing_begun)?;
                self.load(number, experiment, &load).map(|report| Answer::Report(Box::new(report)))
            }
            Work::Slice { load, length } => {
                let place = self.joined.iter().position(|joined| *joined == load);
                let (relay, place) = self
                    .relay
                    .as_mut()
                    .zip(place)
                    .ok_or("there is no such load")
                    .blame(Party::Load)?;
                relay.slice(place, length).map(Answer::Slice).blame(Party::Load)
            }
            Work::Leave => {
                self.relay = None;
                self.joined.clear();
                Ok(Answer::Done)
            }
        }
    }

    fn load(
        &mut self,
        number: u64,
        experiment: &Experiment,
        load: &Load,
    ) -> Result<Report, Failure> {
        let options = experiment.part_of_load(load.address, &load.key, load.part, load.parts)?;
        self.stopped.store(false, Ordering::Relaxed);
        // Messages that an earlier, stopped load has left.
        while self.gone.try_recv().is_ok() {}
        let mut gate =
            Gate { number, output: &self.output, gone: &self.gone, stopped: &self.stopped };
        if !load.stays {
            return Ok(duality_load::run(&options, &mut gate, &self.stopped)?);
        }
        let relay = match &mut self.relay {
            Some(relay) => relay,
            none => none.insert(Relay::new(&options.cpus)?),
        };
        let report = relay.join(&options, &mut gate, &self.stopped)?;
        self.joined.push(load.number);
        Ok(report)
    }
}

/// Makes a load wait until all hosts are ready.
struct Gate<'a> {
    number: u64,
    output: &'a Output,
    gone: &'a Receiver<()>,
    stopped: &'a AtomicBool,
}

impl Gate<'_> {
    fn pass(&self, at: &Answer) {
        /// The interval at which the load checks for a stop.
        const GLANCE: Duration = Duration::from_millis(20);
        self.output.say(self.number, at);
        while !self.stopped.load(Ordering::Relaxed) && self.gone.recv_timeout(GLANCE).is_err() {}
    }
}

impl Observer for Gate<'_> {
    fn window_opened(&mut self) {
        self.pass(&Answer::Opened);
    }

    fn window_closed(&mut self) {
        self.pass(&Answer::Closed);
    }
}
