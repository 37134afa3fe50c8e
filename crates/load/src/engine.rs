//! A load: probes the server, starts the connections, and minds the clock. [`run`] has a thread for
//! one; a [relay](crate::relay) has one for many.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use duality_poller::Kind;
use duality_runtime::event_loop::{EventLoop, LoopWorld};
use duality_runtime::time;

use crate::announce::{Announcer, EdgeAnnouncer};
use crate::connection::Load;
use crate::connection::gate::Gate;
use crate::crowd::{self, Fate, Gathered, NotGathered};
use crate::due::Queue;
use crate::edges::{EdgeHook, Edges};
use crate::failure::Failure;
use crate::measurement::Measurement;
use crate::recorder::Recorder;
use crate::request::Client;
use crate::sources::connect;
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

/// The connections could not be started.
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
    crowd: OnceCell<Gathered>,
    /// The state that its connections share, once they have been started.
    load: OnceCell<Arc<Load>>,
}

/// The caller asked for an end.
pub(crate) struct Interrupted;

impl Engine {
    pub(crate) fn new(options: Options, announcer: Announcer) -> Self {
        let start = Instant::now();
        Self { options, announcer, start, crowd: OnceCell::new(), load: OnceCell::new() }
    }

    /// The load, from the first connection to the end of the window.
    pub(crate) async fn run(&self, edges: EdgeAnnouncer) -> Result<Outcome, Error> {
        self.options.target.load(self, edges).await
    }

    /// Finds out whether there is a server, and has the crowd come in.
    pub(crate) async fn prepare<C: Client>(&self, client: &mut C) -> Result<(), Error> {
        self.probe(client).await?;
        self.gather().await
    }

    /// The state that its connections share. `None` before they are started.
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

    /// Makes the state that the connections share from now on.
    pub(crate) fn shared(
        &self,
        edges: Edges,
        queue: Option<Arc<Queue>>,
        hook: Box<dyn EdgeHook>,
    ) -> Arc<Load> {
        let load = self.load.get_or_init(|| {
            Arc::new(Load {
                routes: self.options.routes(),
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
    pub(crate) async fn attend<T>(&self, preparation: impl Future<Output = T>) -> Result<T, Error> {
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

    /// The error if no correct answer came before the load.
    pub(crate) fn unanswered(&self, failure: &Failure) -> Error {
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

    /// Waits for the end of a window of `duration`, and marks each part of it.
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
