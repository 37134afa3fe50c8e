//! `tokio-prefork`: N processes, made at the start, each with a runtime and a listener.
//!
//! ```text
//!   accept queue 1 ▶▶ [ child 1: accept │ conn 1 │ conn 2 │ … ]
//!   accept queue 2 ▶▶ [ child 2: accept │ conn 3 │ … ]
//!   accept queue N ▶▶ [ child N … ]
//!   [ parent: replaces children that die ]
//! ```
//!
//! The processes are made before any runtime, since a child has only the thread that forks.
//! Connections in different processes share no memory. The kernel spreads connections over the
//! listeners (`SO_REUSEPORT`). The parent keeps all listeners open: if a child dies, its
//! connections wait for the replacement. What waits: each child, in epoll_wait(2), for its
//! connections. Cost of a connection: the state of its task. What breaks first: descriptors; each
//! child has its own. Source: `prefork`; nginx; granian and uvicorn's workers.

use std::thread;
use std::{io, iter};

use duality_architectures::common::admission::Admission;
use duality_architectures::common::children::{Children, ROUND};
use duality_architectures::common::losses::Losses;
use duality_architectures::common::pressure::Pressure;
use duality_architectures::{About, Architecture, Footprint, Needs, Options, Server};
use duality_poller::Kind;
use duality_runtime::handler::Connections;
use duality_runtime::{drain, log};

use super::{Entrance, LAYOUT, accept_and_spawn};
use crate::form::Form;
use crate::runtimes;

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Prefork;

const ABOUT: About = About {
    name: "tokio-prefork",
    summary: "N processes, each with a tokio runtime and its own listener (--cores)",
    gives: Needs { shared_memory: false, ..Needs::ALL },
    replicates: true,
    forks: true,
    ..LAYOUT
};

impl Architecture for Prefork {
    fn about(&self) -> &About {
        &ABOUT
    }

    fn poller(&self, _: &Options) -> Option<Kind> {
        Some(Kind::Epoll)
    }

    fn footprint(&self, _: &Options) -> Footprint {
        Footprint::STATE
    }

    fn serve(&self, server: Server) -> io::Result<()> {
        let (service, limit) = (server.service.clone(), server.limit());
        let mut listeners: Vec<_> = server.into_listeners().into_iter().map(Some).collect();
        // The processes, one for each listener.
        let mut processes = vec![None; listeners.len()];
        let mut children = Children::new()?;
        let mut pressure = Pressure::new(&Connections::default());
        let mut losses = Losses::new(self.name(), listeners.len());
        loop {
            let ended: Vec<_> = iter::from_fn(|| children.reap()).collect();
            // Asked after the reaping, so that the end of a drained child is no loss. At a drain, a
            // listener without a process may still have connections.
            let drains = drain::requested();
            for ended in &ended {
                if !drains {
                    losses.count(ended)?;
                }
                for process in &mut processes {
                    *process = process.filter(|process| *process != ended.process);
                }
            }
            for (number, process) in processes.iter_mut().enumerate() {
                if process.is_some() || !(drains || losses.are_over()) {
                    continue;
                }
                let started = children.start(|| {
                    let listener = listeners[number].take().expect("taken in children only");
                    // The child leaves the other listeners to their processes.
                    listeners.clear();
                    let admission = Admission::new(&listener, service.descriptors(), 1);
                    let service = service.clone();
                    serve_in_child(Entrance { listener, service, limit, admission });
                });
                match started {
                    Ok(started) => {
                        pressure.relieved();
                        *process = Some(started);
                    }
                    Err(error) if children.count() == 0 => return Err(error),
                    Err(error) => drop(pressure.is_lack("fork", &error)),
                }
            }
            if drains {
                break;
            }
            thread::sleep(ROUND);
        }
        children.drain();
        // Each child now has the only handle of its listener. The child closes the listener once
        // the accept queue is empty.
        drop(listeners);
        children.wait();
        Ok(())
    }
}

fn serve_in_child(entrance: Entrance) {
    let served = runtimes::current_thread().and_then(|runtime| {
        let instance = runtime.block_on(entrance.service.foreign::<Form>()?.instance())?;
        accept_and_spawn(runtime, instance, entrance)
    });
    if let Err(error) = served {
        log::warn(format_args!("tokio-prefork: a worker process cannot serve: {error}"));
    }
}
