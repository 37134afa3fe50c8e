//! `tokio-multi`: one runtime of N kernel threads, which take tasks from one another.
//!
//! ```text
//!   accept queue ▶▶ [ main thread: accept ] ─▶ ┌───────────────────────────────┐
//!                                              │ ( worker 1 ) ◀─ steals ─▶ ( N ) │
//!                                              │   tasks: conn 1 │ conn 2 │ …   │
//!                                              └───────────────────────────────┘
//! ```
//!
//! `#[tokio::main]` and `axum::serve` make this layout. One task accepts. A connection is a task,
//! and an idle worker takes tasks from the queue of a busy worker. What waits: one worker at a
//! time, in epoll_wait(2), for all connections. Cost of a connection: the state of its task. What
//! breaks first: descriptors. With short connections, the acceptor breaks first. Source: tokio's
//! multi-thread scheduler, `axum::serve`.

use std::io;

use duality_architectures::common::admission::Admission;
use duality_architectures::{About, Architecture, Footprint, Options, Server};
use duality_poller::Kind;

use super::{Entrance, LAYOUT, STEALS, accept_and_spawn};
use crate::form::Form;
use crate::runtimes;

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Multi;

const ABOUT: About = About {
    name: "tokio-multi",
    summary: "tokio's threads steal tasks from one another; one task accepts (--cores)",
    foreign_runtime: Some(STEALS),
    ..LAYOUT
};

impl Architecture for Multi {
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
        let runtime = runtimes::multi_thread(server.options.cores)?;
        let (service, limit) = (server.service.clone(), server.limit());
        let instance = runtime.block_on(service.foreign::<Form>()?.instance())?;
        let listener = server.into_listener();
        let admission = Admission::new(&listener, service.descriptors(), 1);
        accept_and_spawn(runtime, instance, Entrance { listener, service, limit, admission })
    }
}
