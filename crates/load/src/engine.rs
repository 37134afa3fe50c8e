//! A load: probes the server, starts the connections, and minds the clock. [`run`] has a thread for one; a
//! [relay](crate::relay) has one for many.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duality_poller::Kind;
use duality_runtime::event_loop::{EventLoop, LoopWorld};
use duality_runtime::{task, time};

use crate::announce::{Announcer, EdgeAnnouncer};
use crate::client::Client;
use crate::client::exchange::Exchange;
use crate::client::game::Game;
use crate::client::guestbook::Guestbook;
use crate::client::http::Http;
use crate::client::phone::Phone;
use crate::client::quote::Quote;
use crate::client::time::Time;
use crate::crowd::{self, Fate, Gathered, NotGathered};
use crate::due::Queue;
use crate::failure::Failure;
use crate::measurement::Measurement;
use crate::pattern::chat::{self, NotLetIn};
use crate::pattern::connection::Connection;
use crate::pattern::gate::Gate;
use crate::pattern::open::pacer::{Clock, Pacer, StoppedClock};
use crate::pattern::{self, Arrivals, Load, Pattern, closed, limited, open, serial};
use crate::recorder::{Bell, Edges, Recorder};
use crate::sources::connect;
use crate::{Error, Options, Stop, Target};

/// How often progress is told and an interruption is looked for.
const TICK: Duration = Duration::from_millis(100);

/// In how many parts of a window replies are counted, to see whether it was a steady state.
const PARTS: u32 = 20;

/// How often it is looked whether all connections are open.
const GLANCE: Duration = Duration::from_millis(1);

/// What a load came to.
pub(crate) struct Outcome {
    pub(crate) measurement: Measurement,
    /// It was interrupted before its end.
    pub(crate) interrupted: bool,
    /// What has become of the crowd.
    pub(crate) crowd: BTreeMap<String, Fate>,
}

/// Runs a load on this kernel thread.
pub(crate) fn run(
    options: Options,
    announcer: Announcer,
    edges: EdgeAnnouncer,
) -> Result<Outcome, Error> {
    event_loop()?.run(async move { Engine::new(options, announcer).run(edges).await })
}

/// What the connections of loads live on.
pub(crate) fn event_loop() -> Result<EventLoop, Error> {
    let opened = Kind::Epoll.open().and_then(|poller| EventLoop::new(poller, LoopWorld::Suspend));
    opened.map_err(|error| Error::System { doing: "starting the load", error })
}

fn not_started(error: io::Error) -> Error {
    Error::System { doing: "starting the connections", error }
}

/// A load and what it has come to.
pub(crate) struct Engine {
    options: Options,
    announcer: Announcer,
    start: Instant,
    crowd: OnceCell<Gathered>,
    /// What its connections share, from when they are started.
    load: OnceCell<Arc<Load>>,
}

/// The caller asked for an end.
struct Interrupted;

impl Engine {
    pub(crate) fn new(options: Options, announcer: Announcer) -> Self {
        let start = Instant::now();
        Self { options, announcer, start, crowd: OnceCell::new(), load: OnceCell::new() }
    }

    /// The load, from the first connection to the end of the window.
    pub(crate) async fn run(&self, edges: EdgeAnnouncer) -> Result<Outcome, Error> {
        let Options { keep_alive, reply_timeout, .. } = self.options;
        match &self.options.target {
            Target::Http(target) => self.load(Http::new(target, keep_alive), edges).await,
            Target::Echo { message, .. } => self.load(Exchange::new(message, message), edges).await,
            Target::Exchange { request, reply, .. } => {
                self.load(Exchange::new(request, reply), edges).await
            }
            Target::Time { .. } => self.load(Time, edges).await,
            Target::Quote { .. } => self.load(Quote::new(), edges).await,
            Target::Game { .. } => self.load(Game::new(reply_timeout), edges).await,
            Target::Chat { lines, .. } => self.chat(*lines, edges).await,
            Target::Guestbook { page, post_every } => {
                self.load(Guestbook::new(page, *post_every, keep_alive), edges).await
            }
            Target::Phone { .. } => self.load(Phone::new(keep_alive), edges).await,
        }
    }

    /// What its connections share; none before they are started.
    pub(crate) fn shared_load(&self) -> Option<&Load> {
        self.load.get().map(Arc::as_ref)
    }

    /// Has the caller look up, who waits for what is announced.
    pub(crate) fn wake_caller(&self) {
        self.announcer.progress(0, self.start.elapsed());
    }

    async fn load<C: Client>(&self, mut client: C, edges: EdgeAnnouncer) -> Result<Outcome, Error> {
        self.probe(&mut client).await?;
        self.gather().await?;
        match self.options.pattern {
            Pattern::Closed => {
                let load = self.shared(self.edges(), None, Box::new(edges));
                load.recorder.ready();
                closed::start(&client, self.options.connections, &load).map_err(not_started)?;
                Ok(self.finish(&load.recorder).await)
            }
            Pattern::Serial => {
                let (row, load) = self.row(&client, edges).await?;
                task::spawn(serial::run(row, load.clone())).map_err(not_started)?;
                Ok(self.finish(&load.recorder).await)
            }
            Pattern::Limited => {
                let (row, load) = self.row(&client, edges).await?;
                task::spawn(limited::run(row, load.clone())).map_err(not_started)?;
                Ok(self.finish(&load.recorder).await)
            }
            Pattern::Open(arrivals) => self.open_loop(&client, arrivals, edges).await,
        }
    }

    /// The connections of a pattern that uses them in order, once they are open.
    async fn row<C: Client>(
        &self,
        client: &C,
        edges: EdgeAnnouncer,
    ) -> Result<(Vec<Connection<C>>, Arc<Load>), Error> {
        let load = self.shared(self.edges(), None, Box::new(edges));
        let row = self.attend(pattern::row(client, self.options.connections, &load)).await?;
        load.recorder.ready();
        Ok((row, load))
    }

    async fn open_loop<C: Client>(
        &self,
        client: &C,
        arrivals: Arrivals,
        edges: EdgeAnnouncer,
    ) -> Result<Outcome, Error> {
        let (clock, queue) = (Clock::new(), Arc::new(Queue::new()));
        let bell = StoppedClock { clock: clock.clone(), bell: edges };
        let load = self.shared(self.edges(), Some(queue.clone()), Box::new(bell));
        let connections = self.options.connections;
        open::start(client, connections, &queue, &load).map_err(not_started)?;
        // A request that is due before there are connections would be late for no fault of the server's.
        while queue.free() < connections {
            let waited = self.wait(GLANCE, &load.recorder).await;
            waited.map_err(|Interrupted| Error::Interrupted)?;
        }
        load.recorder.ready();
        clock.restart();
        let count = match self.options.stop {
            Stop::After(_) => u64::MAX,
            Stop::Requests(total) => total,
        };
        let schedule = arrivals.schedule(self.options.seed);
        let pacer = Pacer::start(schedule, count, clock, queue)
            .map_err(|error| Error::System { doing: "starting the pacer's thread", error })?;
        let outcome = self.finish(&load.recorder).await;
        drop(pacer);
        Ok(outcome)
    }

    /// A load whose connections all have to do with each other.
    async fn chat(&self, lines: u32, bell: EdgeAnnouncer) -> Result<Outcome, Error> {
        let Options { connections, reply_timeout, .. } = self.options;
        let joined =
            self.attend(chat::join(self.options.route(), connections, reply_timeout)).await?;
        let company = joined.map_err(|refused| self.not_let_in(&refused))?;
        let (edges, deliveries) = match self.options.stop {
            Stop::After(_) => (Edges::ByTime, None),
            // That none is missing is the point of it, so no margin is left out.
            Stop::Requests(total) => {
                (Edges::ByCount { open_after: 0, close_after: total, total }, Some(total))
            }
        };
        let load = self.shared(edges, None, Box::new(bell));
        load.recorder.ready();
        let talking = chat::run(company, chat::Plan { lines, deliveries }, load.clone());
        task::spawn(talking).map_err(not_started)?;
        Ok(self.finish(&load.recorder).await)
    }

    fn edges(&self) -> Edges {
        match self.options.stop {
            Stop::After(_) => Edges::ByTime,
            Stop::Requests(total) => Edges::for_requests(total),
        }
    }

    fn shared(&self, edges: Edges, queue: Option<Arc<Queue>>, bell: Box<dyn Bell>) -> Arc<Load> {
        let load = self.load.get_or_init(|| {
            Arc::new(Load {
                address: self.options.route(),
                keep_alive: self.options.keeps_connections(),
                reply_timeout: self.options.reply_timeout,
                recorder: Recorder::new(self.options.connections, edges, queue, bell),
                gate: Gate::default(),
            })
        });
        load.clone()
    }

    /// Lets a load that has been started run to its end.
    async fn finish(&self, recorder: &Recorder) -> Outcome {
        let interrupted = self.measure(recorder).await.is_err();
        recorder.close();
        let crowd = self.crowd.get().map(Gathered::fates).unwrap_or_default();
        Outcome { measurement: recorder.measurement(), interrupted, crowd }
    }

    /// Asks the server once, on a connection of its own.
    async fn probe<C: Client>(&self, client: &mut C) -> Result<(), Error> {
        let (address, limit) = (self.options.target.address(), self.options.reply_timeout);
        let asking = async {
            let mut stream = connect(address, limit).await?;
            client.learn(&mut stream).await
        };
        self.attend(asking).await?.map_err(|failure| self.unanswered(&failure))
    }

    /// Waits for what comes before the load.
    async fn attend<T>(&self, preparation: impl Future<Output = T>) -> Result<T, Error> {
        let mut preparation = pin!(preparation);
        loop {
            match time::timeout(TICK, preparation.as_mut()).await {
                Ok(done) => return Ok(done),
                Err(time::Elapsed) => self.tick(0).map_err(|Interrupted| Error::Interrupted)?,
            }
        }
    }

    /// Has the crowd come in.
    async fn gather(&self) -> Result<(), Error> {
        let gathered = self.attend(crowd::gather(&self.options)).await?;
        let gathered = gathered.map_err(|refused| self.not_gathered(&refused))?;
        self.crowd.get_or_init(|| gathered);
        Ok(())
    }

    fn not_gathered(&self, refused: &NotGathered) -> Error {
        let NotGathered { entered, failure } = refused;
        let idle = self.options.crowd.idle;
        Error::Unanswered {
            target: self.options.target.to_string(),
            problem: match idle {
                0 => failure.to_string(),
                _ => format!("only {entered} of {idle} idle connections were served: {failure}"),
            },
            remedy: "a server that holds a worker for each connection needs more workers, and one without \
                     keep-alive can have no crowd"
                .to_owned(),
        }
    }

    fn not_let_in(&self, refused: &NotLetIn) -> Error {
        let NotLetIn { joined, failure } = refused;
        let members = self.options.connections;
        let mut error = self.unanswered(failure);
        if let Error::Unanswered { problem, remedy, .. } = &mut error
            && (1..members).contains(joined)
        {
            *problem = format!("only {joined} of {members} members were let in: {failure}");
            if matches!(failure, Failure::TimedOut | Failure::ConnectTimeout | Failure::ServerFull)
            {
                "a chat serves all of its members at once; give the server more workers, or use fewer \
                 connections"
                    .clone_into(remedy);
            }
        }
        error
    }

    fn unanswered(&self, failure: &Failure) -> Error {
        let service = self.options.target.service();
        let remedy = match failure {
            Failure::ConnectRefused => match service {
                "exchange" => "is the server running?".to_owned(),
                _ => format!("is the server running? start one with `duality serve {service}`"),
            },
            Failure::ConnectTimeout | Failure::Connect(_) => {
                "can this machine reach that address?".to_owned()
            }
            Failure::WrongStatus(404) => "load a path that the server has".to_owned(),
            Failure::WrongStatus(_) => "load a path that it answers with 200".to_owned(),
            Failure::TimedOut => "does it have a free worker to answer with?".to_owned(),
            Failure::StoreUnavailable => "is its store (--store) running?".to_owned(),
            _ => format!("is it really a server of {service}?"),
        };
        Error::Unanswered {
            target: self.options.target.to_string(),
            problem: failure.to_string(),
            remedy,
        }
    }

    /// Waits for the end of the load.
    async fn measure(&self, recorder: &Recorder) -> Result<(), Interrupted> {
        match self.options.stop {
            Stop::After(duration) => {
                self.wait(self.options.warm_up, recorder).await?;
                recorder.open();
                self.window(duration, recorder).await
            }
            Stop::Requests(total) => {
                while recorder.requests_ended() < total {
                    self.wait(TICK, recorder).await?;
                }
                Ok(())
            }
        }
    }

    /// Waits for the end of a window of `duration`, and has each part of it marked.
    async fn window(&self, duration: Duration, recorder: &Recorder) -> Result<(), Interrupted> {
        let start = Instant::now();
        let mut told = start;
        for part in 1..=PARTS {
            let end = duration * part / PARTS;
            loop {
                let left = end.saturating_sub(start.elapsed());
                if left.is_zero() {
                    break;
                }
                time::sleep(left.min(TICK)).await;
                if told.elapsed() >= TICK {
                    told = Instant::now();
                    self.tick(recorder.requests_ended())?;
                }
            }
            recorder.mark();
        }
        // However short the window was, an interruption is noticed.
        self.tick(recorder.requests_ended())
    }

    /// Waits for `duration`, and tells the progress meanwhile.
    async fn wait(&self, duration: Duration, recorder: &Recorder) -> Result<(), Interrupted> {
        let start = Instant::now();
        loop {
            let left = duration.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            time::sleep(left.min(TICK)).await;
            self.tick(recorder.requests_ended())?;
        }
    }

    fn tick(&self, requests: u64) -> Result<(), Interrupted> {
        if self.announcer.progress(requests, self.start.elapsed()) {
            Ok(())
        } else {
            Err(Interrupted)
        }
    }
}
