//! `threads`: a kernel thread for each connection.
//!
//! ```text
//!   accept queue ▶▶  [ main thread: accept ─ create ]
//!                         │ │ └──▶ ( thread: serve ─ end )
//!                         │ └────▶ ( thread: serve ─ end )
//!                         └──────▶ ( thread: serve ─ end )
//! ```
//!
//! What waits: each thread, for its own client, and the main thread, in accept. Cost of a
//! connection: a kernel thread, its stack (the pages it touches) and the kernel's own 16 KiB. What
//! breaks first: threads (`kernel.threads-max`, `kernel.pid_max`), then memory. When to choose it:
//! some hundred connections at most, or code that blocks in foreign libraries. Source: ZeroHTTPd,
//! `04_threaded`, and all other sources of these architectures.

use std::io;

use duality_runtime::block_on;
use duality_runtime::handler::Connections;
use duality_runtime::task::{self, thread};

use crate::common::acceptor::{Acceptor, InPlace};
use crate::common::admission::Admission;
use crate::{About, Architecture, Footprint, Mappings, Options, Server, World};

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Threads;

const ABOUT: About = About {
    name: "threads",
    summary: "a kernel thread for each connection (--stack-size)",
    source: "Demsky, Kerneis & Chroboczek, von Behren et al., Truppel & Abreu, ZeroHTTPd",
    world: Some(World::Block),
    ..About::BASE
};

impl Architecture for Threads {
    fn about(&self) -> &About {
        &ABOUT
    }

    fn footprint(&self, _: &Options) -> Footprint {
        /// The stack, and the guard page below it, which glibc makes by mprotect(2).
        const STACK: Mappings = Mappings { each: 2, reserved: 100, none_from: None };
        Footprint { threads: 1, mappings: STACK, ..Footprint::STATE }
    }

    fn serve(&self, server: Server) -> io::Result<()> {
        let stack =
            thread::ThreadStack::chosen(server.options.stack_size, "the thread of a connection");
        let (service, limit) = (server.service.clone(), server.limit());
        let listener = server.into_listener();
        let connections = Connections::default();
        let admission = Admission::new(&listener, service.descriptors(), 1);
        let mut acceptor =
            Acceptor::<InPlace>::new(listener, &service, limit, &connections, admission);
        block_on(async {
            task::show_stage("accept");
            while let Some(stream) = acceptor.next(|| connections.count()).await {
                let task = service.begin(stream, connections.enter());
                let mut body: thread::ThreadBody = Box::new(move || block_on(task));
                while let Err(refused) = thread::start(stack, body) {
                    acceptor.pressure.wait_out("thread", &refused.error).await;
                    body = refused.body;
                }
            }
            acceptor.close().await;
            connections.all_ended().await;
        });
        Ok(())
    }
}
