//! `handwritten`: an event loop; each connection is a state machine written by hand.
//!
//! ```text
//!   accept queue ▶▶  one kernel thread (one for each of --cores)
//!                    ┌──────────────────────────────────────────────────┐
//!                    │ loop: epoll ─▶ event ─▶ machine of that          │
//!                    │   connection ─▶ what it waits for next           │
//!                    │   machines: conn 1 │ conn 2 │ …                  │
//!                    └──────────────────────────────────────────────────┘
//! ```
//!
//! What waits: the kernel thread, in epoll_wait(2), for all connections. A connection is the state
//! that its author chose to keep. Cost of a connection: only that state, no stack, thread or task.
//! What breaks first: descriptors. When to choose it: to learn what the compiler's conversion
//! costs; as a server, only if that price matters. Source: nginx. Demsky 2001 and Kerneis &
//! Chroboczek 2009 say that no programmer should have to write such machines.
//!
//! `handwritten` differs from `epoll` only in its state machines and the loop that calls them
//! directly. So the measured difference is the price of the compiler's conversion. `handwritten`
//! runs every service that has a machine written by hand
//! ([`Served::by_hand`](crate::Served::by_hand)).

use std::io;

use duality_poller::Kind;

use crate::event_loop::run_loops;
use crate::{About, Architecture, Footprint, Needs, Options, Served, Server};

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Handwritten;

const ABOUT: About = About {
    name: "handwritten",
    summary: "state machines written by hand, on edge-triggered epoll(7) (--cores)",
    source: "Demsky, Kerneis & Chroboczek, nginx",
    gives: Needs { straight_line: false, ..Needs::ALL },
    replicates: true,
    ..About::BASE
};

impl Architecture for Handwritten {
    fn about(&self) -> &About {
        &ABOUT
    }

    fn unavailable(&self, _options: &Options) -> Option<String> {
        Kind::Epoll.unavailable()
    }

    fn footprint(&self, _: &Options) -> Footprint {
        Footprint::STATE
    }

    fn serve(&self, server: Server) -> io::Result<()> {
        run_loops(server, Served::open_by_hand)
    }
}
