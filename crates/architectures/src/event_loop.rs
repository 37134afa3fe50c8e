//! `select`, `poll`, `epoll`: an event loop; each connection is the state machine of its service.
//!
//! ```text
//!   accept queue ▶▶  one kernel thread (one for each of --cores)
//!                    ┌─────────────────────────────────────────────┐
//!                    │ loop: select│poll│epoll ─▶ poll a task ─▶   │
//!                    │   tasks: accept, lobby │ conn 1 │ conn 2 …  │
//!                    └─────────────────────────────────────────────┘
//! ```
//!
//! Who waits: the kernel thread, in its poller, for all; a connection is what its state machine holds.
//! Cost of a connection: that state, no stack and no thread. What breaks first: descriptors; before
//! them, under `select` and `poll`, the time to look at every descriptor in every round.
//! Source: CPC in Kerneis & Chroboczek 2009; Demsky 2001; ZeroHTTPd, `06_poll` and `07_epoll`.
//!
//! The architectures differ in their poller alone; `uthreads` differs in how a task waits alone.

use std::io;
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};

use duality_poller::Kind;
use duality_runtime::event_loop::{EventLoop, Waiting};
use duality_runtime::net::TcpListener;
use duality_runtime::task::{self, thread};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::common::lobby::{self, Lobby, room};
use crate::common::pressure::{Connections, Pressure};
use crate::{Architecture, Needs, Server, Service};

/// The event loop on `select(2)`.
pub static SELECT: EventDriven = EventDriven { poller: Kind::Select };
/// The event loop on `poll(2)`.
pub static POLL: EventDriven = EventDriven { poller: Kind::Poll };
/// The event loop on `epoll(7)`.
pub static EPOLL: EventDriven = EventDriven { poller: Kind::Epoll };

/// See the [module](self).
pub struct EventDriven {
    poller: Kind,
}

impl Architecture for EventDriven {
    fn name(&self) -> &'static str {
        self.poller.name()
    }

    fn summary(&self) -> &'static str {
        match self.poller {
            Kind::Select => "an event loop on select(2) (--cores)",
            Kind::Poll => "an event loop on poll(2) (--cores)",
            Kind::Epoll => "an event loop on edge-triggered epoll(7) (--cores)",
        }
    }

    fn source(&self) -> &'static str {
        "Kerneis & Chroboczek, Demsky, ZeroHTTPd"
    }

    fn gives(&self) -> Needs {
        Needs { shared_memory: true, concurrent_connections: true }
    }

    fn replicates(&self) -> bool {
        true
    }

    fn unavailable(&self) -> Option<String> {
        self.poller.unavailable()
    }

    fn serve(&self, server: Server) -> io::Result<()> {
        run_loops(server, self.poller, Waiting::Suspend)
    }
}

/// Runs a loop for each listener: the first on this kernel thread, the others on threads of their own,
/// each confined to a processor. Loops share nothing.
pub(crate) fn run_loops(server: Server, poller: Kind, waiting: Waiting) -> io::Result<()> {
    const LOOP_STACK: usize = 1 << 20;
    let service = server.service.clone();
    let mut listeners = server.into_listeners();
    let first = listeners.swap_remove(0);
    if listeners.is_empty() {
        open_loop(poller, waiting)?.run(accept_and_spawn(first, service));
        return Ok(());
    }
    let cpus = allowed_cpus()?;
    let replicas = Connections::default();
    // No loop serves before all are open: connections could take the descriptors that one needs.
    let all_open = Arc::new(Barrier::new(listeners.len() + 1));
    let (opened, outcomes) = channel();
    for (index, listener) in listeners.into_iter().enumerate() {
        let (service, running) = (service.clone(), replicas.enter());
        let (all_open, opened) = (all_open.clone(), opened.clone());
        let cpu = cpus[(index + 1) % cpus.len()];
        let body = move || {
            let _running = running;
            let (ready, outcome) = match confine(cpu).and_then(|()| open_loop(poller, waiting)) {
                Ok(ready) => (Some(ready), Ok(())),
                Err(error) => (None, Err(error)),
            };
            // The other end is there until all have met at the barrier.
            let _ = opened.send(outcome);
            drop(opened);
            all_open.wait();
            if let Some(mut ready) = ready {
                ready.run(accept_and_spawn(listener, service));
            }
        };
        thread::start(LOOP_STACK, Box::new(body)).map_err(|refused| refused.error)?;
    }
    drop(opened);
    let own = confine(cpus[0]).and_then(|()| open_loop(poller, waiting));
    all_open.wait();
    outcomes.iter().collect::<io::Result<()>>()?;
    own?.run(accept_and_spawn(first, service));
    duality_runtime::block_on(replicas.all_ended());
    Ok(())
}

fn open_loop(poller: Kind, waiting: Waiting) -> io::Result<EventLoop> {
    EventLoop::new(poller.open()?, waiting)
}

/// The loop's first task: accepts, and spawns a task for each connection; when the loop is full, the
/// connection waits in the lobby.
async fn accept_and_spawn(mut listener: TcpListener, service: Service) {
    task::stage("accept").await;
    let connections = Connections::default();
    let mut pressure = Pressure::new(&connections);
    let lobby = Arc::new(Lobby::default());
    let usher = {
        let (lobby, service, connections) = (lobby.clone(), service.clone(), connections.clone());
        task::spawn(async move { lobby.usher(&service, &connections).await })
    };
    let usher = usher.expect("a loop without connections has room for a task");
    // Room first: a connection that is accepted can be served.
    let mut place = room(&mut pressure).await;
    loop {
        match listener.accept_until_drain().await {
            Ok(Some((stream, _))) => {
                pressure.relieved();
                if lobby.is_empty() && !lobby::is_full(&connections) {
                    place.spawn(service.begin(stream, connections.enter()));
                    place = room(&mut pressure).await;
                } else {
                    lobby.enter(stream);
                }
            }
            Ok(None) => break,
            Err(error) => pressure.wait_out("accept", &error).await,
        }
    }
    drop(listener);
    lobby.close();
    let _ = usher.await;
    connections.all_ended().await;
}

fn allowed_cpus() -> io::Result<Vec<usize>> {
    let allowed = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect())
}

fn confine(cpu: usize) -> io::Result<()> {
    let mut only = CpuSet::new();
    only.set(cpu);
    Ok(sched_setaffinity(None, &only)?)
}

#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::io::Read;
    use std::net::{Ipv4Addr, SocketAddr, TcpStream};
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Poll;
    use std::time::Duration;

    use duality_runtime::net::ListenOptions;
    use duality_runtime::sync::Notify;

    use super::*;

    /// Rings when it is dropped, as at the end of a thread that panics.
    struct Rings(Arc<Notify>);

    impl Drop for Rings {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }

    /// More than a full loop has, and none can go on before all are there.
    #[test]
    fn connections_that_wait_for_one_another_are_all_accepted() {
        const ALL: usize = 1200;
        let meeting = Arc::new((AtomicUsize::new(0), Notify::new()));
        let service = Service::new("meeting", Needs::default(), move |mut stream| {
            let meeting = meeting.clone();
            async move {
                let (arrived, all_are_here) = &*meeting;
                if arrived.fetch_add(1, Ordering::Relaxed) + 1 == ALL {
                    all_are_here.notify_waiters();
                } else {
                    all_are_here.notified().await;
                }
                stream.write_all(b"!").await
            }
        });
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = TcpListener::bind(any_port, &ListenOptions::default()).unwrap();
        let address = listener.local_addr().unwrap();
        let over = Arc::new(Notify::new());
        let rings = Rings(over.clone());
        let clients = std::thread::spawn(move || {
            let _rings = rings;
            let clients: Vec<_> = (0..ALL).map(|_| TcpStream::connect(address).unwrap()).collect();
            for mut client in clients {
                client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                client.read_exact(&mut [0]).unwrap();
            }
        });
        open_loop(Kind::Epoll, Waiting::Suspend).unwrap().run(async move {
            let mut accepting = pin!(accept_and_spawn(listener, service));
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
