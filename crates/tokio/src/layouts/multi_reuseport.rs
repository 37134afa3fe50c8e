//! `tokio-multi-reuseport`: one runtime of N kernel threads, with N acceptors.
//!
//! ```text
//!   accept queue 1 ▶▶ ┌─ acceptor 1 ─┬───────────────────────────────┐
//!   accept queue 2 ▶▶ │  acceptor 2  │ ( worker 1 ) ◀─ steals ─▶ ( N ) │
//!   accept queue N ▶▶ │  acceptor N  │   tasks: conn 1 │ conn 2 │ …   │
//!                     └──────────────┴───────────────────────────────┘
//! ```
//!
//! The runtime is as in `tokio-multi`. The kernel spreads connections over N listeners at one
//! address (`SO_REUSEPORT`), and a task accepts from each. So several tasks share the accepting.
//! Workers steal connections as in `tokio-multi`. What waits, the cost of a connection, and what
//! breaks first: as in `tokio-multi`. Source: tokio's multi-thread scheduler; socket(7).

use std::io;

use duality_architectures::common::admission::Admission;
use duality_architectures::{About, Architecture, Footprint, Options, Server};
use duality_poller::Kind;
use duality_runtime::visibility::occupy;
use tokio::task::JoinSet;

use super::{LAYOUT, STEALS, spawn_accepted};
use crate::acceptor::Acceptor;
use crate::drain::told_of_drains;
use crate::form::Form;
use crate::runtimes;

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct MultiReuseport;

const ABOUT: About = About {
    name: "tokio-multi-reuseport",
    summary: "tokio's threads steal tasks from one another; a task for each accepts (--cores)",
    foreign_runtime: Some(STEALS),
    replicates: true,
    ..LAYOUT
};

impl Architecture for MultiReuseport {
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
        let _counted = occupy();
        let runtime = runtimes::multi_thread(server.options.cores)?;
        let (service, limit) = (server.service.clone(), server.limit());
        let instance = runtime.block_on(service.foreign::<Form>()?.instance())?;
        let listeners = server.into_listeners();
        let loops = listeners.len();
        let served = runtime.block_on(told_of_drains(async move |stop| {
            let mut acceptors = JoinSet::new();
            for listener in listeners {
                let admission = Admission::new(&listener, service.descriptors(), loops);
                let acceptor = Acceptor::new(listener, &service, limit, admission, stop.clone())?;
                acceptors.spawn(spawn_accepted(acceptor, instance.clone()));
            }
            // An acceptor that panics ends the server, as in the other layouts.
            acceptors.join_all().await;
            Ok(())
        }));
        runtime.shutdown_background();
        served
    }
}
