//! The replay of a recorded load: connections come, ask, think and stay as in a recording.
//!
//! ```text
//!   a recording ─▶ plan: a piece of it, for so many users
//!                    └─▶ sender: its connections, each of which starts at its time
//!                          └─▶ fidelity: was what was sent what was planned?
//! ```
//!
//! One replay may be sent to several servers at once. Each gets every connection, and the copies of
//! a connection are up to 20 ms apart. So events on the machine affect all servers alike.

mod alarm;
pub(crate) mod files;
pub(crate) mod plan;
mod sender;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use duality_runtime::{priority, task};

use self::alarm::Alarm;
use self::plan::Piece;
use self::sender::Replay;
use super::{Named, Pattern};
use crate::announce::{Announcer, EdgeAnnouncer};
use crate::connection::Load;
use crate::connection::gate::Gate;
use crate::due::Queue;
use crate::edges::{EdgeHook, Edges, Moment};
use crate::engine::{Engine, Interrupted, Outcome, event_loop, not_started};
use crate::failure::Failure;
use crate::fidelity::Replayed;
use crate::random::SplitMix64;
use crate::recorder::Recorder;
use crate::request::Ask;
use crate::{Error, Options, Target};

/// The largest distance between the copies of a connection that go to several servers.
const APART: Duration = Duration::from_millis(20);

/// The part of the warm-up in which the replay opens the connections that are open before the
/// piece. The rest of the warm-up is for the replies.
const OPENING: f64 = 0.7;

/// The reason why other services have no replay.
pub(super) const OF_HTTP: &str = "a recording is one of http: replay it on an http:// address";

pub(super) const NAMED: Named = Named {
    name: "trace",
    about: "connections come as they did in a recording (--trace)",
    pattern: Some(Pattern::Trace),
    keep_alive: None,
};

/// The first mistake in the options of a replay, and the remedy.
pub(crate) fn problem(options: &Options) -> Option<&'static str> {
    let Some(piece) = &options.replay else {
        return Some("the pattern trace replays a recording: name it by --trace");
    };
    if options.target.service() != "http" {
        return Some(OF_HTTP);
    }
    piece.problem()
}

/// Runs a load in this pattern.
pub(crate) async fn load<A: Ask>(engine: &Engine, edges: EdgeAnnouncer) -> Result<Outcome, Error> {
    let target = std::slice::from_ref(&engine.options.target);
    let mut outcomes = replay::<A>(engine, target, edges).await?;
    Ok(outcomes.pop().expect("there is one for each target"))
}

/// Runs a replay on all of `targets` at once on this kernel thread. There is an outcome for each.
pub(crate) fn run<A: Ask>(
    options: Options,
    targets: &[Target],
    announcer: Announcer,
    edges: EdgeAnnouncer,
) -> Result<Vec<Outcome>, Error> {
    let targets = targets.to_vec();
    event_loop()?
        .run(async move { replay::<A>(&Engine::new(options, announcer), &targets, edges).await })
}

/// Replays the piece of `engine` on all of `targets` at once. The window opens when the piece
/// begins, and closes when it ends. There is an outcome for each target.
async fn replay<A: Ask>(
    engine: &Engine,
    targets: &[Target],
    mut edges: EdgeAnnouncer,
) -> Result<Vec<Outcome>, Error> {
    let options = &engine.options;
    let piece = options.replay.clone().expect("the options were checked");
    let no_real_time = priority::real_time().err().map(|error| error.to_string());
    for target in targets {
        probe::<A>(engine, target, &piece).await?;
    }
    let alarm = Alarm::start()
        .map_err(|error| Error::System { doing: "starting the alarm's thread", error })?;
    let (alarm, moment) = (Arc::new(alarm), Edge::default());
    let mut random = SplitMix64::new(options.seed);
    let replays: Vec<Arc<Replay<A>>> = targets
        .iter()
        .map(|target| {
            let apart = if targets.len() > 1 { APART } else { Duration::ZERO };
            let offsets: Vec<Duration> =
                piece.connections.iter().map(|_| apart.mul_f64(random.fraction())).collect();
            let load = shared(options, target, &moment);
            let asked = pages(options, target, &piece);
            Arc::new(Replay::new(load, piece.clone(), asked, offsets, alarm.clone()))
        })
        .collect();
    open_before(options, &replays, &mut random).map_err(not_started)?;
    let recorders: Vec<&Recorder> = replays.iter().map(|replay| &replay.load.recorder).collect();
    let warmed = engine.wait(options.warm_up, recorders[0]).await;
    warmed.map_err(|Interrupted| Error::Interrupted)?;
    let left_waiting: Vec<usize> = replays.iter().map(|replay| replay.opening()).collect();
    moment.set(edges.opened());
    recorders.iter().for_each(|recorder| recorder.open());
    let begun = Instant::now();
    replays.iter().for_each(|replay| replay.begin(begun));
    task::spawn(start_all(replays.clone(), alarm, begun)).map_err(not_started)?;
    let interrupted = engine.window(piece.length(), &recorders).await.is_err();
    moment.set(edges.closed());
    recorders.iter().for_each(|recorder| recorder.close());
    let outcomes = replays.iter().zip(left_waiting).map(|(replay, left_waiting)| Outcome {
        measurement: replay.load.recorder.measurement(),
        interrupted,
        crowd: BTreeMap::new(),
        unreachable: Vec::new(),
        held_up: 0,
        replayed: Some(Replayed {
            users: piece.cut.users,
            speed: piece.cut.speed,
            bunch: (piece.cut.bunch > 1).then_some(piece.cut.bunch),
            client_rate: piece.cut.client_rate,
            at: piece.cut.at.map(|at| at.to_string()),
            seed: piece.cut.seed,
            connections: piece.connections(),
            open_before: piece.open_before(),
            left_waiting,
            requests: piece.requests(),
            inferred: inferred(&piece),
            no_real_time: no_real_time.clone(),
            fidelity: replay.fidelity(moment.get().instant),
        }),
    });
    Ok(outcomes.collect())
}

/// The properties that the recording lacked, and their substitutes.
fn inferred(piece: &Piece) -> Vec<String> {
    let inferred = piece.trace.head.inferred.iter();
    inferred.map(|one| format!("{}: {}", one.what, one.value)).collect()
}

/// Asks for one page of the piece, to check the server and its pages.
async fn probe<A: Ask>(engine: &Engine, target: &Target, piece: &Piece) -> Result<(), Error> {
    let options = &engine.options;
    let asked: Arc<[A]> = pages(options, target, piece);
    let class = piece.first_class();
    let path = files::path(&piece.trace.head, class);
    let asking = async {
        let route = options.route_to(target.place());
        let mut stream = route.connect(options.reply_timeout).await?;
        asked[class].send(&mut stream, true).await?;
        asked[class].receive(&mut stream, None).await
    };
    match engine.attend(asking).await? {
        Ok(_) => Ok(()),
        Err(failure) => Err(unanswered(engine, target, &path, &failure)),
    }
}

fn unanswered(engine: &Engine, target: &Target, path: &str, failure: &Failure) -> Error {
    match failure {
        Failure::WrongStatus(_) | Failure::WrongBytes(_) => Error::Unanswered {
            target: target.to_string(),
            problem: format!("{path}: {failure}"),
            remedy: "serve the files that stand for the recording's pages: write them by `duality \
                     load --trace TRACE --files DIR`, and serve them by `duality serve http --root \
                     DIR`"
                .to_owned(),
        },
        other => engine.unanswered(other),
    }
}

/// The pages of the classes, in their order.
fn pages<A: Ask>(options: &Options, target: &Target, piece: &Piece) -> Arc<[A]> {
    let host = target.page().map_or_else(|| target.place().to_string(), |page| page.host.clone());
    let head = &piece.trace.head;
    let asked = (0..head.classes.len()).map(|class| {
        let path = files::path(head, class);
        let asked = match head.classes[class].path {
            Some(_) => A::page(&host, &path, head.classes[class].status),
            None => A::file(&host, &path, files::length(head, class)),
        };
        match options.expected {
            Some(statuses) => asked.expecting(statuses.bits()),
            None => asked,
        }
    });
    asked.collect()
}

/// The state that the connections to a server share.
fn shared(options: &Options, target: &Target, moment: &Edge) -> Arc<Load> {
    let gate = Gate::default();
    gate.shut();
    // Each request has its own connection, so none is ever in the queue. The queue exists because
    // this is an open loop.
    let queue = Some(Arc::new(Queue::new()));
    let connections = options.replay.as_ref().map_or(0, |piece| piece.connections());
    Arc::new(Load {
        routes: vec![options.route_to(target.place())],
        keep_alive: true,
        reply_timeout: options.reply_timeout,
        recorder: Recorder::new(connections, Edges::ByTime, queue, Box::new(moment.clone())),
        gate,
    })
}

/// Opens the connections that are open before the piece begins, over most of the warm-up.
fn open_before<A: Ask>(
    options: &Options,
    replays: &[Arc<Replay<A>>],
    random: &mut SplitMix64,
) -> io::Result<()> {
    let now = Instant::now();
    for replay in replays {
        for number in replay.open_before() {
            let at = now + options.warm_up.mul_f64(OPENING * random.fraction());
            task::spawn(sender::run_before(replay.clone(), number, at))?;
        }
    }
    Ok(())
}

/// Starts each connection at its time.
async fn start_all<A: Ask>(replays: Vec<Arc<Replay<A>>>, alarm: Arc<Alarm>, begun: Instant) {
    let all = replays.iter().enumerate().flat_map(|(server, replay)| {
        replay.starts().map(move |(start, number)| (start, server, number))
    });
    let mut starts: Vec<(Duration, usize, usize)> = all.collect();
    starts.sort_unstable();
    let mut sleeper = alarm.sleeper();
    for (start, server, number) in starts {
        sleeper.until(begun + start).await;
        let replay = replays[server].clone();
        if let Err(error) = task::spawn(sender::run(replay.clone(), number)) {
            replay.load.recorder.failure(number, &Failure::Io(error));
        }
    }
}

/// The edge of the window that all servers share.
#[derive(Clone, Default)]
struct Edge(Arc<Mutex<Option<Moment>>>);

impl Edge {
    fn set(&self, moment: Moment) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(moment);
    }

    fn get(&self) -> Moment {
        let moment = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        moment.unwrap_or_else(crate::announce::moment)
    }
}

impl EdgeHook for Edge {
    fn opened(&mut self) -> Moment {
        self.get()
    }

    fn closed(&mut self) -> Moment {
        self.get()
    }
}
