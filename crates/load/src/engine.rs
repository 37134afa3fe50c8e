//! The load thread: probes the server, starts the connections, and minds the clock.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duality_poller::Kind;
use duality_runtime::event_loop::{EventLoop, Waiting};
use duality_runtime::{task, time};

use crate::announce::{Announcer, EdgeAnnouncer};
use crate::client::Client;
use crate::client::chat::{self, NotLetIn};
use crate::client::exchange::Exchange;
use crate::client::game::Game;
use crate::client::guestbook::Guestbook;
use crate::client::http::Http;
use crate::client::phone::Phone;
use crate::client::quote::Quote;
use crate::client::time::Time;
use crate::failure::Failure;
use crate::pattern::{Load, closed, connect};
use crate::recorder::{Edges, Measurement, Recorder};
use crate::{Error, Options, Stop, Target};

/// How often progress is told and an interruption is looked for.
const TICK: Duration = Duration::from_millis(100);

/// What a load came to.
pub(crate) struct Outcome {
    pub(crate) measurement: Measurement,
    /// It was interrupted before its end.
    pub(crate) interrupted: bool,
}

/// Runs a load on this kernel thread.
pub(crate) fn run(
    options: Options,
    announcer: Announcer,
    edges: EdgeAnnouncer,
) -> Result<Outcome, Error> {
    let opened = Kind::Epoll.open().and_then(|poller| EventLoop::new(poller, Waiting::Suspend));
    let mut event_loop =
        opened.map_err(|error| Error::System { doing: "starting the load", error })?;
    event_loop.run(async move {
        let engine = Engine { announcer, start: Instant::now(), options };
        match &engine.options.target {
            Target::Http(target) => {
                let client = Http::new(target, engine.options.keep_alive);
                engine.load(client, edges).await
            }
            Target::Echo { message, .. } => {
                engine.load(Exchange::new(message, message), edges).await
            }
            Target::Exchange { request, reply, .. } => {
                engine.load(Exchange::new(request, reply), edges).await
            }
            Target::Time { .. } => engine.load(Time, edges).await,
            Target::Quote { .. } => engine.load(Quote::new(), edges).await,
            Target::Game { .. } => {
                engine.load(Game::new(engine.options.reply_timeout), edges).await
            }
            Target::Chat { lines, .. } => engine.chat(*lines, edges).await,
            Target::Guestbook { page, post_every } => {
                let client = Guestbook::new(page, *post_every, engine.options.keep_alive);
                engine.load(client, edges).await
            }
            Target::Phone { .. } => engine.load(Phone::new(engine.options.keep_alive), edges).await,
        }
    })
}

fn not_started(error: io::Error) -> Error {
    Error::System { doing: "starting the connections", error }
}

struct Engine {
    options: Options,
    announcer: Announcer,
    start: Instant,
}

/// The caller asked for an end.
struct Interrupted;

impl Engine {
    async fn load<C: Client>(&self, mut client: C, bell: EdgeAnnouncer) -> Result<Outcome, Error> {
        self.probe(&mut client).await?;
        let edges = match self.options.stop {
            Stop::After(_) => Edges::ByTime,
            Stop::Requests(total) => Edges::for_requests(total),
        };
        let load = self.shared(edges, bell);
        closed::start(&client, self.options.connections, &load).map_err(not_started)?;
        Ok(self.finish(&load.recorder).await)
    }

    /// A load whose connections all have to do with each other.
    async fn chat(&self, lines: u32, bell: EdgeAnnouncer) -> Result<Outcome, Error> {
        let Options { connections, reply_timeout, .. } = self.options;
        let address = self.options.target.address();
        let joined = self.attend(chat::join(address, connections, reply_timeout)).await?;
        let company = joined.map_err(|refused| self.not_let_in(&refused))?;
        let (edges, deliveries) = match self.options.stop {
            Stop::After(_) => (Edges::ByTime, None),
            // That none is missing is the point of it, so no margin is left out.
            Stop::Requests(total) => {
                (Edges::ByCount { open_after: 0, close_after: total, total }, Some(total))
            }
        };
        let load = self.shared(edges, bell);
        let talking = chat::run(company, chat::Plan { lines, deliveries }, load.clone());
        task::spawn(talking).map_err(not_started)?;
        Ok(self.finish(&load.recorder).await)
    }

    fn shared(&self, edges: Edges, bell: EdgeAnnouncer) -> Arc<Load> {
        Arc::new(Load {
            address: self.options.target.address(),
            keep_alive: self.options.keep_alive,
            reply_timeout: self.options.reply_timeout,
            recorder: Recorder::new(self.options.connections, edges, Box::new(bell)),
        })
    }

    async fn finish(&self, recorder: &Recorder) -> Outcome {
        let interrupted = self.measure(recorder).await.is_err();
        recorder.close();
        Outcome { measurement: recorder.measurement(), interrupted }
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

    /// Lets the load run to its end.
    async fn measure(&self, recorder: &Recorder) -> Result<(), Interrupted> {
        match self.options.stop {
            Stop::After(duration) => {
                self.wait(self.options.warm_up, recorder).await?;
                recorder.open();
                self.wait(duration, recorder).await
            }
            Stop::Requests(total) => {
                while recorder.requests_ended() < total {
                    self.wait(TICK, recorder).await?;
                }
                Ok(())
            }
        }
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
