//! `fork`: a child process for each connection.
//!
//! ```text
//!   accept queue ▶▶  [ parent: accept ─ fork ─ reap ]
//!                         │ │ └──▶ [ child: serve ─ exit ]
//!                         │ └────▶ [ child: serve ─ exit ]
//!                         └──────▶ [ child: serve ─ exit ]
//! ```
//!
//! Who waits: each child, for its own client; the parent, in accept.
//! Cost of a connection: a process (page tables copied, pages copied when written to). What breaks
//! first: processes (`ulimit -u`, `kernel.pid_max`). Children share no memory.
//! Source: Kerneis & Chroboczek 2009; ZeroHTTPd, `02_forking`.

use std::io;

use duality_runtime::handler::Connections;
use duality_runtime::net::TcpStream;
use duality_runtime::time::timeout;
use duality_runtime::{block_on, drain, task};

use crate::common::children::{Children, ROUND};
use crate::common::pressure::Pressure;
use crate::{Architecture, Needs, Server, World};

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Fork;

impl Architecture for Fork {
    fn name(&self) -> &'static str {
        "fork"
    }

    fn summary(&self) -> &'static str {
        "a child process for each connection"
    }

    fn source(&self) -> &'static str {
        "Kerneis & Chroboczek, ZeroHTTPd"
    }

    fn gives(&self) -> Needs {
        Needs { straight_line: true, shared_memory: false, concurrent_connections: true }
    }

    fn world(&self) -> Option<World> {
        Some(World::Block)
    }

    fn forks(&self) -> bool {
        true
    }

    fn serve(&self, server: Server) -> io::Result<()> {
        let service = server.service.clone();
        let mut listener = Some(server.into_listener());
        let mut children = Children::new()?;
        let connections = Connections::default();
        let mut pressure = Pressure::new(&connections);
        block_on(async {
            task::show_stage("accept");
            while let Some(accepting) = &mut listener {
                children.reap_all();
                // While there are children to reap, the parent does not stay in accept for long.
                let accepted = match children.count() {
                    0 => accepting.accept_until_drain().await,
                    _ => match timeout(ROUND, accepting.accept_until_drain()).await {
                        Ok(accepted) => accepted,
                        Err(_) => continue,
                    },
                };
                let stream = match accepted {
                    Ok(Some(stream)) => stream,
                    Ok(None) => break,
                    Err(error) => {
                        pressure.wait_out("accept", &error).await;
                        continue;
                    }
                };
                let mut waiting = Some(stream);
                while waiting.is_some() && !drain::requested() {
                    let siblings = children.count();
                    let started = children.start(|| {
                        drop(listener.take());
                        let stream = waiting.take().expect("the loop's condition");
                        let active = connections.enter_beside(siblings);
                        task::contain(|| block_on(service.begin(stream, active)));
                    });
                    match started {
                        // The child has the connection; the parent's descriptor goes.
                        Ok(()) => waiting.take().into_iter().for_each(TcpStream::leave_to_child),
                        Err(error) => {
                            pressure.wait_out("fork", &error).await;
                            children.reap_all();
                        }
                    }
                }
                pressure.relieved();
            }
        });
        drop(listener);
        children.drain();
        Ok(())
    }
}
