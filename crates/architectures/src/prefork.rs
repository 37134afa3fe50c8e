//! `prefork`: N processes, made at the start, accept from one socket.
//!
//! ```text
//!                   ┌─▶ [ child 1: accept ─ serve ─ close ─┐ ]
//!   accept queue ▶▶─┼─▶ [ child 2:   ▲─────────────────────┘ ]
//!                   └─▶ [ child N … ]
//!   [ parent: replaces children that die ]
//! ```
//!
//! Who waits: each child, in accept or for its client. The kernel wakes one of those in accept.
//! Cost of a connection: nothing but its descriptor; the processes are there. What breaks first: the
//! number of workers, which is the number of connections served at a time. No memory is shared.
//! Source: ZeroHTTPd, `03_preforking`; Apache's prefork in Kerneis & Chroboczek 2009.

use std::io;
use std::thread;

use duality_runtime::{block_on, drain};

use crate::common::accept::accept_and_serve;
use crate::common::children::{Children, ROUND};
use crate::common::pressure::{Connections, Pressure};
use crate::{Architecture, Needs, Options, Server};

/// See the [module](self).
pub struct Prefork;

impl Architecture for Prefork {
    fn name(&self) -> &'static str {
        "prefork"
    }

    fn summary(&self) -> &'static str {
        "N processes made at the start, each accepting (--workers)"
    }

    fn source(&self) -> &'static str {
        "ZeroHTTPd, Kerneis & Chroboczek"
    }

    fn gives(&self) -> Needs {
        Needs { straight_line: true, shared_memory: false, concurrent_connections: true }
    }

    fn places(&self, options: &Options) -> Option<usize> {
        Some(options.workers)
    }

    fn serve(&self, server: Server) -> io::Result<()> {
        let workers = server.options.workers;
        let service = server.service.clone();
        let mut listener = Some(server.into_listener());
        let mut children = Children::default();
        let connections = Connections::default();
        let mut pressure = Pressure::new(&connections);
        while !drain::requested() {
            children.reap();
            while children.count() < workers && !drain::requested() {
                let started = children.start(|| {
                    let listener = listener.take().expect("taken in children only");
                    accept_and_serve(listener, &service, &Connections::default());
                });
                match started {
                    Ok(()) => pressure.relieved(),
                    Err(error) if children.count() == 0 => return Err(error),
                    Err(error) => block_on(pressure.wait_out("fork", &error)),
                }
            }
            thread::sleep(ROUND);
        }
        drop(listener);
        children.drain();
        Ok(())
    }
}
