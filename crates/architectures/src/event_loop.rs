//! `select`, `poll`, `epoll`, `uring`: an event loop; each connection is the state machine of its
//! service.
//!
//! ```text
//!   accept queue ▶▶  one kernel thread (one for each of --cores)
//!                    ┌─────────────────────────────────────────────┐
//!                    │ loop: select│poll│epoll│uring ─▶ a task ─▶  │
//!                    │   tasks: accept, start │ conn 1 │ conn 2 …  │
//!                    └─────────────────────────────────────────────┘
//! ```
//!
//! What waits: the kernel thread, in its poller, for all connections. A connection is the content
//! of its state machine. Cost of a connection: that content, no stack and no thread. What breaks
//! first: descriptors. Under `select` and `poll`, it is the time to look at every descriptor in
//! every round. When to choose it: many connections. Take `epoll` or `uring`, whichever `duality
//! compare` finds better; `select` and `poll` suit few connections that are all busy. Source: CPC
//! in Kerneis & Chroboczek 2009; Demsky 2001; ZeroHTTPd, `06_poll` and `07_epoll`.
//!
//! These architectures differ only in their poller, which under `uring` also accepts, receives and
//! sends. `uthreads` differs only in how a task waits.

use std::io;
use std::sync::{Arc, PoisonError};

use duality_poller::Kind;
use duality_runtime::event_loop::{EventLoop, LoopWorld};
use duality_runtime::handler::Connections;
use duality_runtime::locks::{Condvar, Mutex, MutexGuard};
use duality_runtime::net::TcpListener;
use duality_runtime::task::{self, thread};
use duality_runtime::threads;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::common::accept_queue::{AcceptQueue, reserve};
use crate::common::acceptor::{Acceptor, AsTasks};
use crate::common::admission::Admission;
use crate::common::wait_queue::Limit;
use crate::{About, Architecture, Disk, Footprint, Options, Served, Server, World};

/// The event loop on `select(2)`.
pub static SELECT: EventDriven = EventDriven {
    poller: Kind::Select,
    about: About { name: "select", summary: "an event loop on select(2) (--cores)", ..ABOUT },
};
/// The event loop on `poll(2)`.
pub static POLL: EventDriven = EventDriven {
    poller: Kind::Poll,
    about: About { name: "poll", summary: "an event loop on poll(2) (--cores)", ..ABOUT },
};
/// The event loop on `epoll(7)`.
pub static EPOLL: EventDriven = EventDriven {
    poller: Kind::Epoll,
    about: About {
        name: "epoll",
        summary: "an event loop on edge-triggered epoll(7) (--cores)",
        ..ABOUT
    },
};
/// The event loop on `io_uring(7)`.
pub static URING: EventDriven = EventDriven {
    poller: Kind::Uring,
    about: About {
        name: "uring",
        summary: "an event loop on io_uring(7), completions for readiness (--cores)",
        source: "Axboe 2019; the successor of epoll in ZeroHTTPd's line",
        ..ABOUT
    },
};

const ABOUT: About = About {
    source: "Kerneis & Chroboczek, Demsky, ZeroHTTPd",
    world: Some(World::Suspend),
    replicates: true,
    ..About::BASE
};

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct EventDriven {
    poller: Kind,
    about: About,
}

impl Architecture for EventDriven {
    fn about(&self) -> &About {
        &self.about
    }

    fn poller(&self, _options: &Options) -> Option<Kind> {
        Some(self.poller)
    }

    fn unavailable(&self, _options: &Options) -> Option<String> {
        self.poller.unavailable()
    }

    fn footprint(&self, _: &Options) -> Footprint {
        Footprint::STATE
    }

    fn serve(&self, server: Server) -> io::Result<()> {
        run_event_loops(server, self.poller, LoopWorld::Suspend)
    }
}

/// Runs the runtime's event loop for each listener.
pub(crate) fn run_event_loops(server: Server, poller: Kind, world: LoopWorld) -> io::Result<()> {
    let options = server.options.clone();
    let backlog = options.backlog as usize;
    let queue_size = options.accept_queue.map_or(usize::MAX, |all| all.div_ceil(options.cores));
    run_loops(server, move |service, limit| {
        let service = service.clone();
        let mut event_loop = open_loop(poller, world, &options)?;
        let queue = Arc::new(AcceptQueue::new(options.prefer, queue_size));
        Ok(move |listener, admission| {
            let policy = AcceptPolicy { limit, admission, queue, backlog };
            event_loop.run(accept_and_spawn(listener, service, policy));
        })
    })
}

/// Runs a loop for each listener: the first on this kernel thread, the others on threads of their
/// own, each confined to a processor. Loops share nothing. `open` makes a loop ready, and returns a
/// function that runs it.
///
/// # Errors
///
/// The errors of `open`, and those of making or confining a thread.
pub fn run_loops<R: FnOnce(TcpListener, Admission)>(
    server: Server,
    open: impl Fn(&Served, Limit) -> io::Result<R> + Clone + Send + 'static,
) -> io::Result<()> {
    const LOOP_STACK: thread::ThreadStack =
        thread::ThreadStack::fixed(1 << 20, "the thread of a loop");
    let (service, limit) = (server.service.clone(), server.limit());
    task::limit_helpers(server.options.disk_helpers);
    let mut listeners = server.into_listeners();
    let first = listeners.swap_remove(0);
    if listeners.is_empty() {
        let run = open(&service, limit)?;
        let admission = Admission::new(&first, service.descriptors(), 1);
        run(first, admission);
        return Ok(());
    }
    let cpus = allowed_cpus()?;
    let loops = listeners.len() + 1;
    let replicas = Connections::default();
    // No loop serves before all loops are open. Otherwise connections could take the descriptors
    // that another loop needs.
    let opening = Arc::new(Opening::of(loops));
    for (index, listener) in listeners.into_iter().enumerate() {
        let (service, open, running) = (service.clone(), open.clone(), replicas.enter());
        let opening = opening.clone();
        let cpu = cpus[(index + 1) % cpus.len()];
        let body = move || {
            let _running = running;
            let (run, outcome) = match confine(cpu).and_then(|()| open(&service, limit)) {
                Ok(run) => (Some(run), Ok(())),
                Err(error) => (None, Err(error)),
            };
            opening.meet(outcome);
            if let Some(run) = run {
                let admission = Admission::new(&listener, service.descriptors(), loops);
                run(listener, admission);
            }
        };
        thread::start(LOOP_STACK, Box::new(body)).map_err(|refused| refused.error)?;
    }
    let own = confine(cpus[0]).and_then(|()| open(&service, limit));
    opening.meet(Ok(()));
    opening.outcome()?;
    let admission = Admission::new(&first, service.descriptors(), loops);
    own?(first, admission);
    duality_runtime::block_on(replicas.all_ended());
    Ok(())
}

/// Where the loops of a server meet once each is open, or could not be opened.
struct Opening {
    state: Mutex<(usize, io::Result<()>)>,
    all_are_here: Condvar,
}

impl Opening {
    fn of(loops: usize) -> Self {
        Self { state: Mutex::new((loops, Ok(()))), all_are_here: Condvar::new() }
    }

    /// Waits for all loops.
    fn meet(&self, outcome: io::Result<()>) {
        let mut state = self.lock();
        state.0 -= 1;
        if outcome.is_err() {
            state.1 = outcome;
        }
        self.all_are_here.notify_all();
        drop(self.all_are_here.wait_while(state, |(missing, _)| *missing > 0));
    }

    /// The error of a loop that could not be opened.
    fn outcome(&self) -> io::Result<()> {
        std::mem::replace(&mut self.lock().1, Ok(()))
    }

    fn lock(&self) -> MutexGuard<'_, (usize, io::Result<()>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open_loop(poller: Kind, world: LoopWorld, options: &Options) -> io::Result<EventLoop> {
    let poller = match threads::here() {
        Some(threads) => threads.poller(),
        None => match poller.unavailable() {
            Some(reason) => return Err(io::Error::other(reason)),
            None => poller.open()?,
        },
    };
    let opened = EventLoop::new(poller, world)?.busy_polling(options.busy_poll);
    Ok(match options.disk {
        Disk::Helpers => opened,
        Disk::Inline => opened.disk_in_place(),
    })
}

/// Decides whether a loop accepts another connection.
struct AcceptPolicy {
    limit: Limit,
    admission: Admission,
    queue: Arc<AcceptQueue>,
    /// How many connections the kernel may have ready for the loop.
    backlog: usize,
}

impl AcceptPolicy {
    /// Whether connections must be accepted one by one. A ring takes all ready connections from the
    /// kernel. These may be more than the loop may accept beside the `held` ones.
    fn is_one_by_one(&self, held: usize) -> bool {
        self.queue.is_bounded() || self.admission.most() < held.saturating_add(self.backlog)
    }
}

/// The loop's first task. It accepts connections, and spawns a task for each or puts it into the
/// accept queue.
async fn accept_and_spawn(listener: TcpListener, service: Served, policy: AcceptPolicy) {
    task::show_stage("accept");
    let queue = &policy.queue;
    let connections = Connections::default();
    let mut acceptor =
        Acceptor::<AsTasks>::new(listener, &service, policy.limit, &connections, policy.admission);
    let starter = {
        let (queue, service, connections) = (queue.clone(), service.clone(), connections.clone());
        task::spawn(async move { queue.start_connections(&service, &connections).await })
    };
    let starter = starter.expect("a loop without connections has room for a task");
    // Reserves a task first, so that each accepted connection can be served.
    let mut reserved = reserve(&mut acceptor.pressure).await;
    let mut credit = 0;
    loop {
        queue.wait_for_room(&connections, &mut credit).await;
        let served = || connections.count() + queue.waiting();
        if policy.is_one_by_one(served() + acceptor.waiting()) {
            acceptor.listener().accept_on_demand();
        }
        let Some(stream) = acceptor.next(served).await else { break };
        if queue.starts_at_once(&connections) {
            reserved.spawn(service.begin(stream, connections.enter()));
            reserved = reserve(&mut acceptor.pressure).await;
        } else {
            queue.push(stream);
        }
    }
    acceptor.close().await;
    queue.close();
    let _ = starter.await;
    connections.all_ended().await;
}

/// Serves on the loop of the calling task, as the loops of an architecture do, until the loop
/// drains and all connections have ended. For loops that another program runs, such as those of
/// simulated hosts.
#[doc(hidden)]
pub async fn serve_here(listener: TcpListener, service: Served, options: &Options) {
    let limit = Limit::new(options.max_connections, options.when_full);
    let queue_size = options.accept_queue.unwrap_or(usize::MAX);
    let queue = Arc::new(AcceptQueue::new(options.prefer, queue_size));
    let admission = Admission::unlimited();
    let policy = AcceptPolicy { limit, admission, queue, backlog: options.backlog as usize };
    accept_and_spawn(listener, service, policy).await;
}

fn allowed_cpus() -> io::Result<Vec<usize>> {
    let allowed = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect())
}

fn confine(cpu: usize) -> io::Result<()> {
    if threads::here().is_some() {
        return Ok(()); // A simulation has the machine's processors for itself.
    }
    let mut only = CpuSet::new();
    only.set(cpu);
    Ok(sched_setaffinity(None, &only)?)
}

#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, SocketAddr, TcpStream};
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Poll;
    use std::time::{Duration, Instant};

    use duality_runtime::handler::Handler;
    use duality_runtime::net::ListenOptions;
    use duality_runtime::sync::Notify;

    use super::*;
    use crate::common::accept_queue::FULL;
    use crate::{Needs, Prefer};

    /// More connections than a full loop has.
    const ALL: usize = FULL + 200;
    /// The limit after which an operation counts as failed.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// The preference, and the size of the accept queue.
    const POLICIES: [(Prefer, usize); 4] = [
        (Prefer::Serve, usize::MAX),
        (Prefer::Serve, 10),
        (Prefer::Serve, 0),
        (Prefer::Accept, usize::MAX),
    ];

    /// Notifies when it is dropped, even if its thread panics.
    struct NotifiesOnDrop(Arc<Notify>);

    impl Drop for NotifiesOnDrop {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }

    fn listener() -> (TcpListener, SocketAddr) {
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = TcpListener::bind(any_port, &ListenOptions::default()).unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    fn policy(queue: Arc<AcceptQueue>) -> AcceptPolicy {
        AcceptPolicy { limit: Limit::none(), admission: Admission::unlimited(), queue, backlog: 0 }
    }

    /// Serves on a loop until `is_over` says so. The loop calls `is_over` in every round, so it is
    /// never idle.
    fn serve_until<F>(
        poller: Kind,
        listener: TcpListener,
        service: Served,
        queue: Arc<AcceptQueue>,
        is_over: F,
    ) where
        F: Fn() -> bool + 'static,
    {
        let opened = open_loop(poller, LoopWorld::Suspend, &Options::default());
        opened.unwrap().run(async move {
            let mut accepting = pin!(accept_and_spawn(listener, service, policy(queue)));
            poll_fn(|context| {
                context.waker().wake_by_ref();
                if is_over() { Poll::Ready(()) } else { accepting.as_mut().poll(context) }
            })
            .await;
        });
    }

    #[test]
    fn connections_that_wait_for_one_another_are_all_begun() {
        for (prefer, size) in POLICIES {
            let barrier = Arc::new((AtomicUsize::new(0), Notify::new()));
            let service = Served::new(
                "barrier",
                Needs::default(),
                Handler::new(move |mut stream| {
                    let barrier = barrier.clone();
                    async move {
                        let (arrived, all_are_here) = &*barrier;
                        if arrived.fetch_add(1, Ordering::Relaxed) + 1 == ALL {
                            all_are_here.notify_waiters();
                        } else {
                            all_are_here.notified().await;
                        }
                        stream.write_all(b"!").await
                    }
                }),
            );
            let (listener, address) = listener();
            let over = Arc::new(Notify::new());
            let notifies = NotifiesOnDrop(over.clone());
            let clients = std::thread::spawn(move || {
                let _notifies = notifies;
                let all: Vec<_> = (0..ALL).map(|_| TcpStream::connect(address).unwrap()).collect();
                for mut client in all {
                    client.set_read_timeout(Some(PATIENCE)).unwrap();
                    client.read_exact(&mut [0]).unwrap();
                }
            });
            let queue = Arc::new(AcceptQueue::new(prefer, size));
            let opened = open_loop(Kind::Epoll, LoopWorld::Suspend, &Options::default());
            opened.unwrap().run(async move {
                let mut accepting = pin!(accept_and_spawn(listener, service, policy(queue)));
                let mut over = pin!(over.notified());
                poll_fn(|context| match over.as_mut().poll(context) {
                    Poll::Ready(()) => Poll::Ready(()),
                    Poll::Pending => accepting.as_mut().poll(context),
                })
                .await;
            });
            clients.join().unwrap();
        }
    }

    /// No client gets an answer. So each connection has started, waits in the accept queue, or is
    /// not accepted.
    fn begins_and_accepts_as_it_was_told(poller: Kind) {
        if let Some(reason) = poller.unavailable() {
            let _ = writeln!(std::io::stderr(), "skipped: {reason}");
            return;
        }
        for (prefer, size) in POLICIES {
            let begun = Arc::new(AtomicUsize::new(0));
            let counted = begun.clone();
            let service = Served::new(
                "busy",
                Needs::default(),
                Handler::new(move |_stream| {
                    counted.fetch_add(1, Ordering::Relaxed);
                    std::future::pending()
                }),
            );
            let (listener, address) = listener();
            let clients: Vec<_> = (0..ALL).map(|_| TcpStream::connect(address).unwrap()).collect();
            let queue = Arc::new(AcceptQueue::new(prefer, size));
            // While the acceptor waits, its listener counts as a resting connection, so one more
            // may start.
            let most = if prefer == Prefer::Accept { ALL } else { FULL + 1 };
            let (watched, started, rounds) = (queue.clone(), Instant::now(), AtomicUsize::new(0));
            serve_until(poller, listener, service, queue, move || {
                let (begun, waiting) = (begun.load(Ordering::Relaxed), watched.waiting());
                let seen = format!("{prefer:?}, {size}: {begun} begun, {waiting} waiting");
                assert!(begun <= most && waiting <= size, "{seen}");
                assert!(started.elapsed() < PATIENCE, "{seen}");
                let settled = begun + 1 >= most && waiting == size.min(ALL - begun);
                // The state must not change in later rounds.
                if !settled || rounds.fetch_add(1, Ordering::Relaxed) < 1000 {
                    return false;
                }
                assert_eq!(in_accept_queue(address), ALL - begun - waiting, "{seen}");
                true
            });
            drop(clients);
        }
    }

    /// How many connections the kernel keeps for a listener: its "receive queue" (proc_net(5)).
    fn in_accept_queue(address: SocketAddr) -> usize {
        let (port, table) = (address.port(), std::fs::read_to_string("/proc/net/tcp").unwrap());
        let own = format!("0100007F:{port:04X} 00000000:0000 0A ");
        let row = table.lines().find_map(|row| row.split_once(&own)).expect("it listens");
        let (_, received) = row.1.split_at("00000000:".len());
        usize::from_str_radix(&received[..8], 16).unwrap()
    }

    macro_rules! on_every_poller {
        ($($name:ident $kind:expr;)*) => {
            $(#[test]
            fn $name() {
                begins_and_accepts_as_it_was_told($kind);
            })*
        };
    }

    on_every_poller! {
        a_busy_loop_on_select_begins_and_accepts_as_it_was_told Kind::Select;
        a_busy_loop_on_poll_begins_and_accepts_as_it_was_told Kind::Poll;
        a_busy_loop_on_epoll_begins_and_accepts_as_it_was_told Kind::Epoll;
        a_busy_loop_on_uring_begins_and_accepts_as_it_was_told Kind::Uring;
    }
}
