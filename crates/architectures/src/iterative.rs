//! `iterative`: one process serves one connection at a time.
//!
//! ```text
//!   accept queue ▶▶▶▶  [ process: accept ─ serve ─ close ─┐ ]
//!                           ▲───────────────────────────┘
//! ```
//!
//! What waits: the process, for its one client. All other clients wait in the accept queue. Cost of
//! a connection: nothing but its descriptor. What breaks first: the clients' time limits. When to
//! choose it: clients come one at a time, or a comparison needs a baseline. Source: ZeroHTTPd,
//! `01_iterative`.

use std::io;

use crate::common::accept::{Members, accept_and_serve};
use crate::{About, Architecture, Footprint, Needs, Options, Server, World};

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Iterative;

const ABOUT: About = About {
    name: "iterative",
    summary: "one process, one connection at a time",
    source: "ZeroHTTPd",
    gives: Needs { concurrent_connections: false, ..Needs::ALL },
    world: Some(World::Block),
    ..About::BASE
};

impl Architecture for Iterative {
    fn about(&self) -> &About {
        &ABOUT
    }

    fn places(&self, _: &Options) -> Option<usize> {
        Some(1)
    }

    fn footprint(&self, _: &Options) -> Footprint {
        Footprint::of_workers(1)
    }

    fn serve(&self, server: Server) -> io::Result<()> {
        let (service, limit) = (server.service.clone(), server.limit());
        let listener = server.into_listener();
        let members = Members::new(&listener, 1, limit)?;
        accept_and_serve(listener, &service, &members, None);
        Ok(())
    }
}
