//! Accepting, for two kinds of architecture. In one, each thread accepts, and serves one connection
//! at a time. In the other, an acceptor gives each connection to workers, as a task.

use std::io;

use duality_runtime::handler::Connections;
use duality_runtime::net::{Backlog, TcpListener};
use duality_runtime::places::Places;
use duality_runtime::sync::Semaphore;
use duality_runtime::time::{Duration, timeout};
use duality_runtime::{block_on, drain, task};

use super::acceptor::{Acceptor, InPlace};
use super::addresses::Addresses;
use super::admission::Admission;
use super::pressure::{PAUSE, Pressure};
use super::refusals::{self, Reason};
use super::served::{ConnectionTask, Served};
use super::server::Server;
use super::wait_queue::Limit;

/// How long a thread that accepts for itself stays with a connection beyond the limit for its
/// address.
const BRIEFLY: Duration = Duration::from_millis(20);

/// The threads of a process. Each accepts for itself.
pub(crate) struct Members {
    count: usize,
    /// The connections of all members together.
    connections: Connections,
    places: Places,
    backlog: Backlog,
    addresses: Addresses,
}

impl Members {
    /// `count` members, all at one listener.
    ///
    /// # Errors
    ///
    /// `EMFILE`.
    pub(crate) fn new(listener: &TcpListener, count: usize, limit: Limit) -> io::Result<Self> {
        let (connections, places, backlog) =
            (Connections::default(), Places::default(), listener.backlog()?);
        Ok(Self { count, connections, places, backlog, addresses: limit.addresses() })
    }

    /// Whether connections wait while every member is busy. Another process may be about to accept
    /// them.
    fn others_wait(&self) -> bool {
        self.connections.count() >= self.count && self.backlog.has_connections()
    }
}

/// The slots of a server with threads that accept for themselves. A thread accepts a connection,
/// and then waits for a slot. So connections are served in the order in which they come.
pub(crate) struct Slots {
    free: Semaphore,
    patience: Duration,
}

impl Slots {
    /// Slots for so many threads. `None` if there are as many slots as threads.
    pub(crate) fn for_threads(limit: Limit, threads: usize) -> Option<Self> {
        let patience = limit.patience();
        (limit.most < threads).then(|| Self { free: Semaphore::new(limit.most), patience })
    }
}

/// Accepts a connection, serves it to its end, and accepts the next. Returns when the process
/// drains.
///
/// With `slots`, each connection is served in a slot.
pub(crate) fn accept_and_serve(
    mut listener: TcpListener,
    service: &Served,
    members: &Members,
    slots: Option<&Slots>,
) {
    let Members { connections, places, .. } = members;
    let mut pressure = Pressure::new(connections);
    block_on(async {
        task::show_stage("accept");
        loop {
            match listener.accept_until_drain().await {
                Ok(Some(stream)) => {
                    pressure.relieved();
                    let stream = match members.addresses.admit(stream) {
                        Ok(stream) => stream,
                        Err(stream) => {
                            let refusal = timeout(BRIEFLY, service.refuse(stream));
                            task::contain(|| {
                                let _ = block_on(refusal);
                            });
                            continue;
                        }
                    };
                    let slot = match slots {
                        None => Ok(None),
                        Some(slots) => {
                            timeout(slots.patience, slots.free.acquire()).await.map(Some)
                        }
                    };
                    let task = match &slot {
                        Ok(_) => service.begin(stream, connections.enter()),
                        Err(_) => {
                            refusals::count(Reason::Full);
                            service.refuse(stream)
                        }
                    };
                    places.enter(&|| members.others_wait(), || task::contain(|| block_on(task)));
                }
                Ok(None) => return,
                Err(error) => pressure.wait_out("accept", &error).await,
            }
        }
    });
}

/// Accepts connections and gives the task of each to `begin`, until the process drains. When all
/// tasks have ended, calls `close`, which must end the `workers`, and waits for the workers.
///
/// At most `--admit` connections are under way. Further ones wait in the kernel's accept queue.
pub(crate) fn accept_and_begin(
    server: Server,
    workers: &Connections,
    begin: impl Fn(ConnectionTask),
    close: impl FnOnce(),
) {
    let service = server.service.clone();
    let most = server.options.admit.unwrap_or(usize::MAX);
    let limit = server.limit();
    let listener = server.into_listener();
    let connections = Connections::default();
    let admission = Admission::new(&listener, service.descriptors(), 1);
    let mut acceptor = Acceptor::<InPlace>::new(listener, &service, limit, &connections, admission);
    block_on(async {
        task::show_stage("accept");
        loop {
            while connections.count() >= most && !drain::requested() {
                connections.one_ended(PAUSE).await;
            }
            let Some(stream) = acceptor.next(|| connections.count()).await else { break };
            begin(service.begin(stream, connections.enter()));
        }
        acceptor.close().await;
        connections.all_ended().await;
        close();
        workers.all_ended().await;
    });
}
