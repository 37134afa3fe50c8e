//! The crowd: open connections beside the measured ones that do almost nothing.
//!
//! ```text
//!   idle          ├ request, reply ┤ silence ···············································
//!   slow reader   ├ many requests ┤  100 bytes of replies   rest   100 bytes   rest   100 …
//!   slow sender   r   rest   e   rest   q   rest   u   rest   …   t ├ reply ┤  r   rest   e …
//!
//!   measured      ├ request, reply ┤├ request, reply ┤├ request, reply ┤ …
//! ```
//!
//! On the open internet most connections are like this, some by nature, some through malice. Slow
//! senders delay a server before a request is complete (slowloris). Slow readers delay a server
//! when its output blocks. The report answers two questions. The [`Fate`] of each kind tells the
//! outcome for the crowd. The rest of the report tells whether the measured clients suffer.
//!
//! Every kind is a file here. The file says how a member connects, and how it stays until the
//! server ends the connection. After a rest, another member replaces an ended one. All members
//! connect before the load begins. A kind needs no knowledge of the service except its
//! [`Question`].

mod fate;
mod idle;
mod question;
mod slow_reader;
mod slow_sender;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use duality_runtime::net::TcpStream;
use duality_runtime::sync::{Semaphore, channel};
use duality_runtime::{task, time};
use serde::{Deserialize, Serialize};

pub use self::fate::{Fate, Spans};
use self::fate::{Gone, Ledger};
pub(crate) use self::question::Question;
use crate::failure::Failure;
use crate::sources::Route;
use crate::{Options, Target};

/// The number of members that connect at a time, so that they do not overflow the server's accept
/// queue.
const ENTERING: usize = 64;

/// The number of connections of each kind beside the measured connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crowd {
    /// Connections that make one request and then stay silent for as long as the server lets them.
    /// The request is there because servers soon cut connections that never sent anything.
    pub idle: usize,
    /// Connections that make requests faster than they take the replies, 100 bytes at a time. Their
    /// buffers are small, so that replies pile up in the server until its output blocks.
    pub slow_readers: usize,
    /// Connections that send their requests a byte at a time.
    pub slow_senders: usize,
    /// The time for which slow members rest between two pieces. A replacement for an ended
    /// connection also waits that long. The default is 1 s.
    pub rest: Duration,
}

impl Default for Crowd {
    /// No members.
    fn default() -> Self {
        Self { idle: 0, slow_readers: 0, slow_senders: 0, rest: Duration::from_secs(1) }
    }
}

impl Crowd {
    /// The number of members in all.
    pub(crate) fn total(&self) -> usize {
        [self.slow_readers, self.slow_senders].into_iter().fold(self.idle, usize::saturating_add)
    }

    /// The reason why this crowd does not fit `target`, if there is one.
    pub(crate) fn problem(&self, target: &Target) -> Option<&'static str> {
        if self.total() == 0 {
            None
        } else if self.rest.is_zero() {
            Some("slow clients that rest for 0 s are not slow: give a longer rest")
        } else if target.question().is_none() {
            Some(
                "chat and game have no crowd, because each member needs others, and time has \
                 none, because it ends each connection itself. HTTP/2 has none either: leave out \
                 --idle, --slow-readers and --slow-senders",
            )
        } else {
            None
        }
    }
}

/// The behaviour of a kind's members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Idle,
    SlowReader,
    SlowSender,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Idle, Kind::SlowReader, Kind::SlowSender];

    fn name(self) -> &'static str {
        match self {
            Kind::Idle => "idle",
            Kind::SlowReader => "slow-readers",
            Kind::SlowSender => "slow-senders",
        }
    }

    fn members(self, crowd: &Crowd) -> usize {
        match self {
            Kind::Idle => crowd.idle,
            Kind::SlowReader => crowd.slow_readers,
            Kind::SlowSender => crowd.slow_senders,
        }
    }

    /// Opens a connection, as far as the load requires before its start.
    async fn enter(self, shared: &Shared) -> Result<TcpStream, Failure> {
        match self {
            Kind::Idle => idle::enter(shared).await,
            Kind::SlowReader => slow_reader::enter(shared).await,
            Kind::SlowSender => slow_sender::enter(shared).await,
        }
    }

    /// Behaves as its kind does until the connection ends.
    async fn stay(self, stream: TcpStream, shared: &Shared) -> Gone {
        match self {
            Kind::Idle => idle::stay(stream).await,
            Kind::SlowReader => slow_reader::stay(stream, shared).await,
            Kind::SlowSender => slow_sender::stay(stream, shared).await,
        }
    }
}

/// The state that the members of one kind share.
struct Shared {
    route: Route,
    question: Question,
    /// The bytes of a reply.
    reply_length: u64,
    /// The longest wait for a reply.
    limit: Duration,
    rest: Duration,
    /// A permit for each member that may come in at the same time.
    entering: Arc<Semaphore>,
    ledger: Ledger,
}

/// A crowd that has come in.
#[derive(Default)]
pub(crate) struct Gathered {
    kinds: Vec<(Kind, Arc<Shared>)>,
}

impl Gathered {
    /// The fate of the crowd so far, by the names of the kinds. Kinds without members are left out.
    pub(crate) fn fates(&self) -> BTreeMap<String, Fate> {
        self.kinds
            .iter()
            .map(|(kind, shared)| (kind.name().to_owned(), shared.ledger.fate()))
            .collect()
    }
}

/// Some of the idle connections could not be opened.
pub(crate) struct NotGathered {
    pub(crate) entered: usize,
    pub(crate) failure: Failure,
}

/// Opens the connections of the crowd of `options` by `route`. A server may refuse slow members, so
/// some of these may be missing.
pub(crate) async fn gather(options: &Options, route: Route) -> Result<Gathered, NotGathered> {
    let mut gathered = Gathered::default();
    let Some(question) = options.target.question() else { return Ok(gathered) };
    if options.crowd.total() == 0 {
        return Ok(gathered);
    }
    let limit = options.reply_timeout;
    let reply_length = probe(&question, &route, limit)
        .await
        .map_err(|failure| NotGathered { entered: 0, failure })?;
    let entering = Arc::new(Semaphore::new(ENTERING));
    for kind in Kind::ALL {
        let members = kind.members(&options.crowd);
        if members == 0 {
            continue;
        }
        let shared = Arc::new(Shared {
            route: route.clone(),
            question: question.clone(),
            reply_length,
            limit,
            rest: options.crowd.rest,
            entering: entering.clone(),
            ledger: Ledger::new(members),
        });
        come_in(kind, members, &shared).await?;
        gathered.kinds.push((kind, shared));
    }
    Ok(gathered)
}

/// Makes one request, to learn the length of a reply. If the server then closes the connection, a
/// crowd is impossible.
async fn probe(question: &Question, route: &Route, limit: Duration) -> Result<u64, Failure> {
    let mut stream = route.connect(limit).await?;
    let reply = question.ask(&mut stream).await?;
    if reply.open { Ok(reply.bytes) } else { Err(Failure::ClosedEarly { received: reply.bytes }) }
}

/// Lets the members of one kind come in.
async fn come_in(kind: Kind, members: usize, shared: &Arc<Shared>) -> Result<(), NotGathered> {
    let (tell, mut results) = channel::bounded(ENTERING);
    for _ in 0..members {
        let started = task::spawn(member(kind, shared.clone(), tell.clone()));
        started.map_err(|error| NotGathered { entered: 0, failure: Failure::Io(error) })?;
    }
    drop(tell);
    let mut entered = 0;
    while let Some(result) = results.recv().await {
        match result {
            Err(failure) if kind == Kind::Idle => return Err(NotGathered { entered, failure }),
            Err(_) => {}
            Ok(()) => entered += 1,
        }
    }
    Ok(())
}

/// Runs one member to the end of the load.
async fn member(
    kind: Kind,
    shared: Arc<Shared>,
    tell: channel::Sender<Result<(), Failure>>,
) -> io::Result<()> {
    let entered = enter(kind, &shared).await;
    let (mut stream, result) = match entered {
        Ok(stream) => (Some(stream), Ok(())),
        Err(failure) => (None, Err(failure)),
    };
    // The receiver is gone if another member has failed.
    let _ = tell.send(result).await;
    drop(tell);
    loop {
        if let Some(stream) = stream.take() {
            let gone = kind.stay(stream, &shared).await;
            shared.ledger.ended(gone);
        }
        time::sleep(shared.rest).await;
        stream = enter(kind, &shared).await.ok();
    }
}

/// Connects one member.
async fn enter(kind: Kind, shared: &Shared) -> Result<TcpStream, Failure> {
    let _permit = shared.entering.acquire().await;
    let entered = kind.enter(shared).await;
    match &entered {
        Ok(_) => shared.ledger.opened(),
        Err(_) => shared.ledger.refused(),
    }
    entered
}
