//! `uthreads`: a user-level thread for each connection, many on one kernel thread.
//!
//! ```text
//!   accept queue ▶▶  one kernel thread
//!                    ┌─────────────────────────────────────────────┐
//!                    │ loop: uring ─▶ switch to a stack ─▶ back    │
//!                    │   stacks: accept │ conn 1 │ conn 2 │ …      │
//!                    └─────────────────────────────────────────────┘
//! ```
//!
//! What waits: the kernel thread, in io_uring, for all connections. A connection's stack is parked
//! meanwhile. If the kernel refuses io_uring, the thread waits in epoll; `--poller` chooses another
//! poller. Only the stacks distinguish this architecture from the event loop on the same poller.
//! Cost of a connection: a stack (the touched pages), no kernel thread. What breaks first:
//! descriptors; before Linux 6.13, mappings (`vm.max_map_count`, two for each stack). When to
//! choose it: many connections, for code that must keep a stack, such as C or deep recursion.
//! Source: State Threads and Pth in Kerneis & Chroboczek 2009; Demsky 2001; von Behren et al. 2003.

use std::io;

use duality_poller::Kind;
use duality_runtime::event_loop::LoopWorld;

use crate::event_loop::run_event_loops;
use crate::{About, Architecture, Footprint, Mappings, Options, Server, World};

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Uthreads;

const ABOUT: About = About {
    name: "uthreads",
    summary: "a user-level thread for each connection, on uring or else epoll (--poller, --stack-size, --cores)",
    source: "Kerneis & Chroboczek, Demsky, von Behren et al.",
    world: Some(World::Park),
    replicates: true,
    ..About::BASE
};

impl Architecture for Uthreads {
    fn about(&self) -> &About {
        &ABOUT
    }

    fn poller(&self, options: &Options) -> Option<Kind> {
        Some(options.poller.unwrap_or_else(Kind::best))
    }

    fn unavailable(&self, options: &Options) -> Option<String> {
        // Without a choice, the architecture uses the best available poller.
        options.poller.and_then(Kind::unavailable)
    }

    fn degraded(&self, options: &Options) -> Option<String> {
        match options.poller {
            None => Kind::Uring.unavailable().map(|why| format!("on {}: {why}", Kind::best())),
            Some(_) => None,
        }
    }

    fn footprint(&self, _: &Options) -> Footprint {
        /// The stack and its guard page. `fiber/src/slab.rs` keeps the reserve free.
        const STACK: Mappings = Mappings { each: 2, reserved: 4096, none_from: Some((6, 13)) };
        Footprint { mappings: STACK, ..Footprint::STATE }
    }

    fn serve(&self, server: Server) -> io::Result<()> {
        let world = LoopWorld::Park { stack_size: server.options.stack_size };
        let poller = server.options.poller.unwrap_or_else(Kind::best);
        run_event_loops(server, poller, world)
    }
}
