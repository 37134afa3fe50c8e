//! The clients of `chat`: all members of one room. The members talk in rounds, and check every
//! delivery.
//!
//! ```text
//!   join ──▶ all are in ──▶ round: some lines are said ──▶ everyone has heard all ──┐
//!                           ▲                              lines of the others      │
//!                           └───────────────────────────────────────────────────────┤
//!                                                  the last round: leave, and hear ◀┘
//!                                                  nothing more to the very end
//! ```
//!
//! A request is one delivery: one member's line, received by one other member. The latency of a
//! delivery counts from the moment before the line was sent. As in Demsky's measurements (2001), a
//! member that has spoken waits for all due lines. A round is so short that no member can be far
//! behind, whatever the server's backlog.
//!
//! After one wrong delivery, the other due lines of the room are unknown. So all members leave it.
//! A load with a time limit continues in a new room. In a load with a number of requests, the
//! remaining requests fail with the room.
//!
//! The members of one room may be on several servers, in turn. If one of these servers ends, its
//! members are lost: each loss is a failed request. All other members go on without them.

mod hearing;
mod member;
mod room;
mod said;

use std::sync::Arc;
use std::time::Duration;

use duality_runtime::net::TcpStream;
use duality_runtime::sync::Semaphore;
use duality_runtime::{task, time};

use self::hearing::word_of_server;
use self::member::Member;
use self::room::Room;
use self::said::Numbers;
use crate::announce::EdgeAnnouncer;
use crate::connection::Load;
use crate::edges::Edges;
use crate::engine::{Engine, Outcome, not_started};
use crate::failure::Failure;
use crate::place::Place;
use crate::request::decimal;
use crate::request::line::Lines;
use crate::sources::Route;
use crate::{Error, Options, Stop};

/// The longest welcome.
const LONGEST_WELCOME: usize = 128;

/// The number of members that join at a time. The server speaks first. If a connection overflows
/// the accept queue, the server may never learn of it (`tcp_syncookies`), so it would stay silent
/// for ever.
const JOINING: usize = 64;

/// The time that the members wait before they join again. The wait doubles with each refusal, up to
/// a second.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The task of a room's members.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoomRound {
    /// The most lines that each member says in a round.
    pub(crate) lines: u32,
    /// The number of deliveries after which the load ends, if it has an end.
    pub(crate) deliveries: Option<u64>,
}

/// The members that have joined.
struct Members {
    streams: Vec<TcpStream>,
    numbers: Numbers,
}

/// Some of the members could not join.
struct NotLetIn {
    /// The number of members that could join.
    joined: usize,
    /// The reason of the first failed member, and its server.
    failure: Failure,
    at: Option<Place>,
}

/// Runs a load with one chat's members as its connections. Each says at most `lines` lines in a
/// round.
pub(crate) async fn load(
    engine: &Engine,
    lines: u32,
    hook: EdgeAnnouncer,
) -> Result<Outcome, Error> {
    let Options { connections, reply_timeout, .. } = engine.options;
    let routes = engine.routes();
    let joined = engine.attend(join(&routes, connections, reply_timeout)).await?;
    let members = joined.map_err(|refused| not_let_in(engine, &refused))?;
    let (edges, deliveries) = match engine.options.stop {
        Stop::After(_) => (Edges::ByTime, None),
        // All deliveries must count, so no margin is left out.
        Stop::Requests(total) => {
            (Edges::ByCount { open_after: 0, close_after: total, total }, Some(total))
        }
    };
    let load = engine.shared(edges, None, Box::new(hook));
    load.recorder.ready();
    let talking = run(members, routes, RoomRound { lines, deliveries }, load.clone());
    task::spawn(talking).map_err(not_started)?;
    Ok(engine.finish(&load.recorder).await)
}

fn not_let_in(engine: &Engine, refused: &NotLetIn) -> Error {
    let NotLetIn { joined, failure, at } = refused;
    let members = engine.options.connections;
    let mut error = engine.unanswered(failure);
    if let (Error::Unanswered { problem, .. }, Some(at), 2..) =
        (&mut error, at, engine.options.target.places().len())
    {
        *problem = format!("{at}: {failure}");
    }
    if let Error::Unanswered { problem, remedy, .. } = &mut error
        && (1..members).contains(joined)
    {
        *problem = format!("only {joined} of {members} members were let in: {problem}");
        if matches!(failure, Failure::TimedOut | Failure::ConnectTimeout | Failure::ServerFull) {
            "a chat serves all of its members at once; give the server more workers, or use fewer \
             connections"
                .clone_into(remedy);
        }
    }
    error
}

/// Lets `members` members join the chat, at each of its servers in turn. The members must join
/// within `limit`.
async fn join(routes: &[Route], members: usize, limit: Duration) -> Result<Members, NotLetIn> {
    let joining = Arc::new(Semaphore::new(JOINING));
    let enter = |route: &Route| task::spawn(enter(route.clone(), limit, joining.clone()));
    let entering: Vec<_> = routes.iter().cycle().take(members).map(enter).collect();
    let (mut streams, mut numbers, mut refused) = (Vec::new(), Vec::new(), None);
    for (entered, route) in entering.into_iter().zip(routes.iter().cycle()) {
        let entered = match entered {
            Ok(task) => task.await.expect("to enter a chat does not panic"),
            Err(error) => Err(Failure::Io(error)),
        };
        match entered {
            Ok((stream, number)) => {
                streams.push(stream);
                numbers.push(number);
            }
            Err(failure) => {
                refused.get_or_insert((failure, Some(route.place().clone())));
            }
        }
    }
    let numbers = match refused {
        None => Numbers::new(numbers).map_err(|failure| (failure, None)),
        Some(refused) => Err(refused),
    };
    match numbers {
        Ok(numbers) => Ok(Members { streams, numbers }),
        Err((failure, at)) => Err(NotLetIn { joined: streams.len(), failure, at }),
    }
}

/// Lets `members` talk for as long as `round` says, or for ever.
async fn run(mut members: Members, routes: Vec<Route>, round: RoomRound, load: Arc<Load>) {
    let count = members.streams.len();
    loop {
        let whole = talk(members, routes.len() > 1, round, &load).await;
        if whole || round.deliveries.is_some() {
            return;
        }
        let mut pause = FIRST_PAUSE;
        members = loop {
            time::sleep(pause).await;
            match join(&routes, count, load.reply_timeout).await {
                Ok(members) => break members,
                Err(NotLetIn { failure, .. }) => load.recorder.break_off(&failure),
            }
            pause = (2 * pause).min(LONGEST_PAUSE);
        };
    }
}

/// Lets members talk until the room is lost or all lines are said. Returns true if all lines were
/// said.
async fn talk(members: Members, is_across: bool, round: RoomRound, load: &Arc<Load>) -> bool {
    let Members { streams, numbers } = members;
    let room = Arc::new(Room::new(numbers, is_across, round));
    let mut talking = Vec::with_capacity(streams.len());
    for (index, stream) in streams.into_iter().enumerate() {
        load.recorder.connected();
        match task::spawn(Member::new(index, stream, room.clone(), load.clone()).run()) {
            Ok(task) => talking.push(task),
            Err(error) => {
                if room.break_off() {
                    load.recorder.break_off(&Failure::Io(error));
                }
            }
        }
    }
    for task in talking {
        task.await.expect("a member of a chat does not panic");
    }
    if let Some(failure) = room.loss()
        && round.deliveries.is_some()
    {
        // The deliveries that were planned for members that were lost in the last round.
        load.recorder.break_off(&failure);
    }
    !room.is_broken()
}

/// Lets one member join. Returns its connection and its number.
async fn enter(
    route: Route,
    limit: Duration,
    joining: Arc<Semaphore>,
) -> Result<(TcpStream, u64), Failure> {
    let entering = async {
        let _permit = joining.acquire().await;
        let mut stream = route.connect(limit).await?;
        let mut lines = Lines::new(LONGEST_WELCOME);
        let line = lines.only(&mut stream).await?;
        let number = line.strip_prefix(b"* you are ").and_then(decimal);
        Ok((stream, number.ok_or_else(|| word_of_server(line))?))
    };
    time::timeout(limit, entering).await.unwrap_or(Err(Failure::TimedOut))
}
