//! `tokio-per-core`: a runtime for each of N kernel threads, each with its own listener.
//!
//! ```text
//!   accept queue 1 ▶▶ ( thread 1, on processor 1: accept │ conn 1 │ conn 2 │ … )
//!   accept queue 2 ▶▶ ( thread 2, on processor 2: accept │ conn 3 │ … )
//!   accept queue N ▶▶ ( thread N, on processor N: … )
//! ```
//!
//! Threads share nothing and steal nothing. A connection stays on the kernel thread that accepted
//! it, and that thread is confined to its processor. The kernel spreads connections by their
//! addresses (`SO_REUSEPORT`). One thread may get more connections, or busier connections, than
//! another. What waits: each thread, in epoll_wait(2), for its connections. Cost of a connection:
//! the state of its task. What breaks first: descriptors. With unequal connections, the busiest
//! thread breaks first. Source: actix-server; thread per core.

use std::io;
use std::sync::Arc;

use duality_architectures::event_loop::run_loops;
use duality_architectures::{About, Architecture, Footprint, Options, Server};
use duality_poller::Kind;
use duality_runtime::log;
use tokio::sync::watch;

use super::{Entrance, LAYOUT, accept_on};
use crate::form::Form;
use crate::runtimes;

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct PerCore;

const ABOUT: About = About {
    name: "tokio-per-core",
    summary: "a tokio runtime for each core, each with its own listener (--cores)",
    replicates: true,
    ..LAYOUT
};

impl Architecture for PerCore {
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
        // Each core that serves has a receiver.
        let cores = Arc::new(watch::Sender::new(()));
        run_loops(server, move |service, limit| {
            let runtime = runtimes::current_thread()?;
            let instance = runtime.block_on(service.foreign::<Form>()?.instance())?;
            let service = service.clone();
            let (cores, own) = (cores.clone(), cores.subscribe());
            Ok(move |listener, admission| {
                let entrance = Entrance { listener, service, limit, admission };
                if let Err(error) = accept_on(&runtime, instance, entrance) {
                    log::warn(format_args!("tokio-per-core: a core has ended: {error}"));
                }
                // Other cores may still use what the application has made on this one.
                drop(own);
                runtime.block_on(cores.closed());
                runtime.shutdown_background();
            })
        })
    }
}
