//! `select`, `poll`, `epoll`: an event loop; each connection is the state machine of its service.
//!
//! ```text
//!   accept queue ▶▶  one kernel thread (one for each of --cores)
//!                    ┌─────────────────────────────────────────────┐
//!                    │ loop: select│poll│epoll ─▶ poll a task ─▶   │
//!                    │   tasks: accept │ conn 1 │ conn 2 │ …       │
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
use duality_runtime::event_loop::{self, EventLoop, Waiting};
use duality_runtime::net::TcpListener;
use duality_runtime::task::thread;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

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

/// The loop's first task: accepts, and spawns a task for each connection.
async fn accept_and_spawn(mut listener: TcpListener, service: Service) {
    let connections = Connections::default();
    let mut pressure = Pressure::new(&connections);
    loop {
        // Room first: a connection that is accepted can be served.
        let place = match event_loop::reserve() {
            Ok(place) => place,
            Err(error) => {
                pressure.wait_out("stack", &error).await;
                continue;
            }
        };
        match listener.accept_until_drain().await {
            Ok(Some((stream, _))) => {
                pressure.relieved();
                place.spawn(service.begin(stream, connections.enter()));
            }
            Ok(None) => break,
            Err(error) => pressure.wait_out("accept", &error).await,
        }
    }
    drop(listener);
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
