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
use duality_architectures::{
    Architecture, Footprint, ForeignRuntime, Needs, Options, Server, World,
};
use duality_poller::Kind;

use super::{Entrance, SOURCE, STEALS, accept_and_spawn};
use crate::form::Form;
use crate::runtimes;

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Multi;

impl Architecture for Multi {
    fn name(&self) -> &'static str {
        "tokio-multi"
    }

    fn summary(&self) -> &'static str {
        "tokio's threads steal tasks from one another; one task accepts (--cores)"
    }

    fn source(&self) -> &'static str {
        SOURCE
    }

    fn gives(&self) -> Needs {
        Needs { straight_line: true, shared_memory: true, concurrent_connections: true }
    }

    fn world(&self) -> Option<World> {
        Some(World::Suspend)
    }

    fn poller(&self, _: &Options) -> Option<Kind> {
        Some(Kind::Epoll)
    }

    fn foreign_runtime(&self) -> Option<ForeignRuntime> {
        Some(STEALS)
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
