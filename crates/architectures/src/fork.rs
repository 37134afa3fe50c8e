//! `fork`: a child process for each connection.
//!
//! ```text
//!   accept queue ▶▶  [ parent: accept ─ fork ─ reap ]
//!                         │ │ └──▶ [ child: serve ─ exit ]
//!                         │ └────▶ [ child: serve ─ exit ]
//!                         └──────▶ [ child: serve ─ exit ]
//! ```
//!
//! What waits: each child, for its own client, and the parent, in accept. Cost of a connection: a
//! process (its page tables, and each page that one side writes to). What breaks first: processes
//! (`ulimit -u`, `kernel.pid_max`). Children share no memory. When to choose it: connections live
//! long and must be isolated, so that a crash or a leak harms only one. Source: Kerneis &
//! Chroboczek 2009; ZeroHTTPd, `02_forking`.

use std::io;

use duality_runtime::handler::Connections;
use duality_runtime::time::{Duration, timeout};
use duality_runtime::{block_on, task};

use crate::common::acceptor::{Acceptor, InPlace};
use crate::common::admission::Admission;
use crate::common::children::{Children, ROUND};
use crate::{About, Architecture, Footprint, Needs, Options, Server, World};

/// How often a parent tries to reap children while connections wait for a slot.
const SHORT_ROUND: Duration = Duration::from_millis(1);

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Fork;

const ABOUT: About = About {
    name: "fork",
    summary: "a child process for each connection",
    source: "Kerneis & Chroboczek, ZeroHTTPd",
    gives: Needs { shared_memory: false, ..Needs::ALL },
    world: Some(World::Block),
    forks: true,
    ..About::BASE
};

impl Architecture for Fork {
    fn about(&self) -> &About {
        &ABOUT
    }

    fn footprint(&self, _: &Options) -> Footprint {
        Footprint { processes: 1, ..Footprint::STATE }
    }

    fn serve(&self, server: Server) -> io::Result<()> {
        let (service, limit) = (server.service.clone(), server.limit());
        let listener = server.into_listener();
        let mut children = Children::new()?;
        let connections = Connections::default();
        // Children have their own descriptors and memory, so the parent checks none.
        let admission = Admission::unlimited();
        let acceptor = Acceptor::<InPlace>::new(listener, &service, limit, &connections, admission);
        let mut acceptor = Some(acceptor);
        block_on(async {
            task::show_stage("accept");
            while let Some(accepting) = &mut acceptor {
                children.reap_all();
                let served = children.count();
                // While there are children to reap, the parent waits only for short times.
                let next = match (served, accepting.waiting()) {
                    (0, _) => Ok(accepting.next(|| 0).await),
                    (_, 0) => timeout(ROUND, accepting.next(|| served)).await,
                    // A slot becomes free when its child is reaped.
                    _ => timeout(SHORT_ROUND, accepting.next(|| served)).await,
                };
                let mut waiting = match next {
                    Ok(Some(stream)) => Some(stream),
                    Ok(None) => break,
                    Err(_) => continue,
                };
                while waiting.is_some() {
                    let started = children.give(&mut waiting, |stream| {
                        drop(acceptor.take());
                        task::contain(|| block_on(service.begin(stream, connections.enter())));
                    });
                    if let Err(error) = started {
                        let Some(acceptor) = &mut acceptor else { return };
                        acceptor.pressure.wait_out("fork", &error).await;
                        children.reap_all();
                    }
                }
            }
            if let Some(acceptor) = acceptor.take() {
                acceptor.close().await;
            }
        });
        children.drain();
        children.wait();
        Ok(())
    }
}
