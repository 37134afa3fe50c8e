//! `prefork`: N processes, made at the start, accept from one socket.
//!
//! ```text
//!                   ┌─▶ [ child 1: accept ─ serve ─ close ─┐ ]
//!   accept queue ▶▶─┼─▶ [ child 2:   ▲─────────────────────┘ ]
//!                   └─▶ [ child N … ]
//!   [ parent: replaces children that die ]
//! ```
//!
//! What waits: each child, in accept or for its client. For a new connection, the kernel wakes one
//! child in accept. Cost of a connection: its descriptor only, since the processes exist already.
//! What breaks first: the number of workers, which is the number of connections served at a time.
//! The processes share no memory. When to choose it: the code is not thread-safe, and serves few
//! clients at a time. Source: ZeroHTTPd, `03_preforking`; Apache's prefork in Kerneis & Chroboczek
//! 2009.

use std::io;
use std::thread;

use duality_runtime::handler::Connections;
use duality_runtime::net::TcpListener;
use duality_runtime::{block_on, drain, task};

use crate::common::accept::{Members, accept_and_serve};
use crate::common::children::{Children, ROUND};
use crate::common::losses::Losses;
use crate::common::pressure::Pressure;
use crate::{About, Architecture, Footprint, Needs, Options, Served, Server, World};

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Prefork;

const ABOUT: About = About {
    name: "prefork",
    summary: "N processes made at the start, each accepting (--workers)",
    source: "ZeroHTTPd, Kerneis & Chroboczek",
    gives: Needs { shared_memory: false, ..Needs::ALL },
    world: Some(World::Block),
    forks: true,
    ..About::BASE
};

impl Architecture for Prefork {
    fn about(&self) -> &About {
        &ABOUT
    }

    fn places(&self, options: &Options) -> Option<usize> {
        Some(options.workers)
    }

    fn footprint(&self, options: &Options) -> Footprint {
        Footprint::of_workers(options.workers)
    }

    fn serve(&self, server: Server) -> io::Result<()> {
        // Each process serves one connection at a time.
        let workers = server.options.workers.min(server.options.max_connections);
        let (service, limit) = (server.service.clone(), server.limit());
        let listener = server.into_listener();
        // Each child has a copy of `members`.
        let members = Members::new(&listener, 1, limit)?;
        let mut listener = Some(listener);
        let mut children = Children::new()?;
        let connections = Connections::default();
        let mut pressure = Pressure::new(&connections);
        let mut losses = Losses::new("prefork", workers);
        while !drain::requested() {
            while let Some(ended) = children.reap() {
                losses.count(&ended)?;
            }
            while children.count() < workers && losses.are_over() && !drain::requested() {
                let started = children.start(|| {
                    let listener = listener.take().expect("taken in children only");
                    accept_and_serve(listener, &service, &members, None);
                });
                match started {
                    Ok(_) => pressure.relieved(),
                    Err(error) if children.count() == 0 => return Err(error),
                    Err(error) => block_on(pressure.wait_out("fork", &error)),
                }
            }
            thread::sleep(ROUND);
        }
        children.drain();
        serve_the_rest(listener, &service, &mut children, &mut pressure);
        children.wait();
        Ok(())
    }
}

/// Starts a child for each connection that came before the drain and is not accepted yet.
fn serve_the_rest(
    mut listener: Option<TcpListener>,
    service: &Served,
    children: &mut Children,
    pressure: &mut Pressure,
) {
    block_on(async {
        while let Some(accepting) = &mut listener {
            let mut stream = match accepting.accept_until_drain().await {
                Ok(Some(stream)) => Some(stream),
                Ok(None) => return,
                Err(error) => {
                    pressure.wait_out("accept", &error).await;
                    continue;
                }
            };
            while stream.is_some() {
                children.reap_all();
                let started = children.give(&mut stream, |stream| {
                    drop(listener.take());
                    let active = Connections::default().enter();
                    task::contain(|| block_on(service.begin(stream, active)));
                });
                if let Err(error) = started {
                    pressure.wait_out("fork", &error).await;
                }
            }
        }
    });
}
