//! A load: probes the server, starts the connections, and watches the clock. [`run`] uses a thread
//! for one load, and a [relay](crate::relay) uses one for many.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use duality_poller::Kind;
use duality_runtime::event_loop::{EventLoop, LoopWorld};
use duality_runtime::net::TcpStream;
use duality_runtime::time;

use crate::announce::{Announcer, EdgeAnnouncer};
use crate::connection::Load;
use crate::connection::gate::Gate;
use crate::crowd::{self, Fate, Gathered, NotGathered};
use crate::due::Queue;
use crate::edges::{EdgeHook, Edges};
use crate::failure::Failure;
use crate::fidelity::Replayed;
use crate::measurement::Measurement;
use crate::place::Place;
use crate::recorder::Recorder;
use crate::request::Client;
use crate::sources::Route;
use crate::{Error, Options, Stop};

/// The interval at which the load reports progress and checks for an interruption.
const TICK: Duration = Duration::from_millis(100);

/// The number of parts of a window that count replies separately, to show whether the state was
/// steady.
const PARTS: u32 = 20;

/// The outcome of a load.
pub(crate) struct Outcome {
    pub(crate) measurement: Measurement,
    /// The load was interrupted before its end.
    pub(crate) interrupted: bool,
    /// The fate of the crowd.
    pub(crate) crowd: BTreeMap<String, Fate>,
    /// The addresses of the host name that could not be reached, and were left out.
    pub(crate) unreachable: Vec<Place>,
    /// The number of replies that came in two parts, with the time of a delayed acknowledgement in
    /// between.
    pub(crate) held_up: u64,
    /// The replayed piece, in a replay.
    pub(crate) replayed: Option<Replayed>,
}

/// Runs a load on this kernel thread.
pub(crate) fn run(
    options: Options,
    announcer: Announcer,
    edges: EdgeAnnouncer,
) -> Result<Outcome, Error> {
    event_loop()?.run(async move { Engine::new(options, announcer).run(edges).await })
}

/// Opens the event loop that carries the connections of loads.
pub(crate) fn event_loop() -> Result<EventLoop, Error> {
    let opened = Kind::Epoll.open().and_then(|poller| EventLoop::new(poller, LoopWorld::Suspend));
    opened.map_err(|error| Error::System { doing: "starting the load", error })
}

/// The error that the connections could not be started.
pub(crate) fn not_started(error: io::Error) -> Error {
    Error::System { doing: "starting the connections", error }
}

/// A load under way. The type of its client is erased, so that all loads have one type.
pub(crate) type Loading<'a> = Pin<Box<dyn Future<Output = Result<Outcome, Error>> + 'a>>;

/// A load, and its state so far.
pub(crate) struct Engine {
    pub(crate) options: Options,
    announcer: Announcer,
    start: Instant,
    /// The places of the target that could be reached, if one is enough.
    reachable: OnceCell<Vec<Place>>,
    crowd: OnceCell<Gathered>,
    /// The shared state of the connections, once they have been started.
    load: OnceCell<Arc<Load>>,
}

/// The caller asked for an end.
pub(crate) struct Interrupted;

impl Engine {
    pub(crate) fn new(options: Options, announcer: Announcer) -> Self {
        let start = Instant::now();
        let (reachable, crowd, load) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Self { options, announcer, start, reachable, crowd, load }
    }

    /// The load, from the first connection to the end of the window.
    pub(crate) async fn run(&self, edges: EdgeAnnouncer) -> Result<Outcome, Error> {
        self.options.target.load(self, edges).await
    }

    /// Checks whether there is a server, and lets the crowd come in.
    pub(crate) async fn prepare<C: Client>(&self, client: &mut C) -> Result<(), Error> {
        self.probe(client).await?;
        self.gather().await
    }

    /// The ways to all places of the target. If one is enough, to the reachable ones.
    pub(crate) fn routes(&self) -> Vec<Route> {
        let reachable = self.reachable.get().map(Vec::as_slice);
        let places = reachable.unwrap_or(self.options.target.places());
        places.iter().map(|place| self.options.route_to(place)).collect()
    }

    /// The shared state of the connections. `None` before they are started.
    pub(crate) fn shared_load(&self) -> Option<&Load> {
        self.load.get().map(Arc::as_ref)
    }

    /// Wakes the caller, which waits for announcements.
    pub(crate) fn wake_caller(&self) {
        self.announcer.progress(0, self.start.elapsed());
    }

    /// When the window opens and closes.
    pub(crate) fn edges(&self) -> Edges {
        match self.options.stop {
            Stop::After(_) => Edges::ByTime,
            Stop::Requests(total) => Edges::for_requests(total),
        }
    }

    /// Makes the shared state of the connections.
    pub(crate) fn shared(
        &self,
        edges: Edges,
        queue: Option<Arc<Queue>>,
        hook: Box<dyn EdgeHook>,
    ) -> Arc<Load> {
        let load = self.load.get_or_init(|| {
            Arc::new(Load {
                routes: self.routes(),
                keep_alive: self.options.keeps_connections(),
                reply_timeout: self.options.reply_timeout,
                recorder: Recorder::new(self.options.connections, edges, queue, hook),
                gate: Gate::default(),
            })
        });
        load.clone()
    }

    /// Lets a load that has been started run to its end.
    pub(crate) async fn finish(&self, recorder: &Recorder) -> Outcome {
        let interrupted = self.measure(recorder).await.is_err();
        recorder.close();
        let crowd = self.crowd.get().map(Gathered::fates).unwrap_or_default();
        let reachable = self.reachable.get().map(Vec::as_slice);
        let places = self.options.target.places();
        let is_left_out = |place: &&Place| reachable.is_some_and(|some| !some.contains(place));
        let unreachable = places.iter().filter(is_left_out).cloned().collect();
        let measurement = recorder.measurement();
        Outcome { measurement, interrupted, crowd, unreachable, held_up: 0, replayed: None }
    }

    /// Asks the server once, on a connection of its own.
    async fn probe<C: Client>(&self, client: &mut C) -> Result<(), Error> {
        let asking = async {
            let mut stream = self.reach().await?;
            client.learn(&mut stream).await
        };
        self.attend(asking).await?.map_err(|failure| self.unanswered(&failure))
    }

    /// Connects to the first place of the target. If one of several places is enough, connects to
    /// the first reachable one. The load leaves the others out.
    async fn reach(&self) -> Result<TcpStream, Failure> {
        let Options { target, reply_timeout, .. } = &self.options;
        let connect = |place: &Place| {
            let route = self.options.way_to(place, 1);
            async move { route.connect(*reply_timeout).await }
        };
        if !target.has_alternatives() {
            return connect(target.place()).await;
        }
        let (mut reached, mut first, mut problem) = (Vec::new(), None, None);
        for place in target.places() {
            match connect(place).await {
                Ok(stream) => {
                    reached.push(place.clone());
                    first.get_or_insert(stream);
                }
                Err(failure) => {
                    problem.get_or_insert(failure);
                }
            }
        }
        match (first, problem) {
            (None, Some(failure)) => Err(failure),
            (first, _) => {
                self.reachable.get_or_init(|| reached);
                Ok(first.expect("a target has a place"))
            }
        }
    }

    /// Waits for a preparation of the load.
    pub(crate) async fn attend<T>(&self, preparation: impl Future<Output = T>) -> Result<T, Error> {
        let mut preparation = pin!(preparation);
        loop {
            match time::timeout(TICK, preparation.as_mut()).await {
                Ok(done) => return Ok(done),
                Err(time::Elapsed) => self.tick(&[]).map_err(|Interrupted| Error::Interrupted)?,
            }
        }
    }

    /// Lets the crowd come in.
    async fn gather(&self) -> Result<(), Error> {
        let gathered =
            self.attend(crowd::gather(&self.options, self.routes().swap_remove(0))).await?;
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

    /// The error if no correct answer came before the load.
    pub(crate) fn unanswered(&self, failure: &Failure) -> Error {
        let service = self.options.target.service();
        let is_local = self.options.target.address().is_none();
        let remedy = match failure {
            Failure::ConnectRefused | Failure::Connect(_) if is_local => {
                "is the server running, and is this its socket?".to_owned()
            }
            Failure::ConnectRefused => match service {
                "exchange" => "is the server running?".to_owned(),
                _ => format!("is the server running? start one with `duality serve {service}`"),
            },
            Failure::ConnectTimeout | Failure::Connect(_) => {
                "can this machine reach that address?".to_owned()
            }
            Failure::Handshake(_) if self.options.target.is_http2() => {
                "does the server speak HTTP/2 (ALPN h2)? otherwise load https://; name the \
                 authority of its certificate by --ca, or give --insecure"
                    .to_owned()
            }
            Failure::Handshake(_) => {
                "if you trust its certificate, name the authority by --ca, or give --insecure"
                    .to_owned()
            }
            Failure::WrongStatus(404) => "load a path that the server has".to_owned(),
            Failure::WrongStatus(_) => {
                "load a path that it answers with 200, or expect this status (`load --expect-status`)"
                    .to_owned()
            }
            Failure::TimedOut => "does it have a free worker to answer with?".to_owned(),
            Failure::StoreUnavailable => "is its store (--store) running?".to_owned(),
            _ if self.options.target.is_http2() => {
                "does the server speak HTTP/2 without TLS? otherwise load http://, or h2:// with TLS"
                    .to_owned()
            }
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
                self.window(duration, &[recorder]).await
            }
            Stop::Requests(total) => {
                while recorder.requests_ended() < total {
                    self.wait(TICK, recorder).await?;
                }
                Ok(())
            }
        }
    }

    /// Waits for the end of a window of `duration`, and makes `recorders` mark each part of it.
    pub(crate) async fn window(
        &self,
        duration: Duration,
        recorders: &[&Recorder],
    ) -> Result<(), Interrupted> {
        let start = Instant::now();
        let mut announced = start;
        for part in 1..=PARTS {
            let end = duration * part / PARTS;
            loop {
                let left = end.saturating_sub(start.elapsed());
                if left.is_zero() {
                    break;
                }
                time::sleep(left.min(TICK)).await;
                if announced.elapsed() >= TICK {
                    announced = Instant::now();
                    self.tick(recorders)?;
                }
            }
            recorders.iter().for_each(|recorder| recorder.mark());
        }
        // However short the window was, an interruption is noticed.
        self.tick(recorders)
    }

    /// Waits for `duration`, and reports progress meanwhile.
    pub(crate) async fn wait(
        &self,
        duration: Duration,
        recorder: &Recorder,
    ) -> Result<(), Interrupted> {
        let start = Instant::now();
        loop {
            let left = duration.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            time::sleep(left.min(TICK)).await;
            self.tick(&[recorder])?;
        }
    }

    fn tick(&self, recorders: &[&Recorder]) -> Result<(), Interrupted> {
        let goes_on = match recorders {
            [recorder] if self.announcer.wants_snapshots() => {
                self.announcer.snapshot(recorder.snapshot())
            }
            _ => {
                let ended = recorders.iter().map(|recorder| recorder.requests_ended()).sum();
                self.announcer.progress(ended, self.start.elapsed())
            }
        };
        if goes_on { Ok(()) } else { Err(Interrupted) }
    }
}
