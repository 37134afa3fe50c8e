//! `threads`: a kernel thread for each connection.
//!
//! ```text
//!   accept queue ▶▶  [ main thread: accept ─ create ]
//!                         │ │ └──▶ ( thread: serve ─ end )
//!                         │ └────▶ ( thread: serve ─ end )
//!                         └──────▶ ( thread: serve ─ end )
//! ```
//!
//! Who waits: each thread, for its own client; the main thread, in accept.
//! Cost of a connection: a kernel thread, its stack (the pages it touches) and the kernel's own 16 KiB.
//! What breaks first: threads (`kernel.threads-max`, `kernel.pid_max`), then memory.
//! Source: all five; ZeroHTTPd, `04_threaded`.

use std::io;

use duality_runtime::block_on;
use duality_runtime::handler::Connections;
use duality_runtime::task::{self, thread};

use crate::common::admission::Admission;
use crate::common::pressure::Pressure;
use crate::{Architecture, Needs, Server, World};

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Threads;

impl Architecture for Threads {
    fn name(&self) -> &'static str {
        "threads"
    }

    fn summary(&self) -> &'static str {
        "a kernel thread for each connection (--stack-size)"
    }

    fn source(&self) -> &'static str {
        "all five"
    }

    fn gives(&self) -> Needs {
        Needs { straight_line: true, shared_memory: true, concurrent_connections: true }
    }

    fn world(&self) -> Option<World> {
        Some(World::Block)
    }

    fn serve(&self, server: Server) -> io::Result<()> {
        let stack =
            thread::ThreadStack::chosen(server.options.stack_size, "the thread of a connection");
        let service = server.service.clone();
        let mut listener = server.into_listener();
        let connections = Connections::default();
        let mut pressure = Pressure::new(&connections);
        let admission = Admission::new(&listener, service.descriptors(), 1);
        block_on(async {
            task::show_stage("accept");
            loop {
                pressure.admit(&admission, || connections.count()).await;
                let stream = match listener.accept_until_drain().await {
                    Ok(Some(stream)) => stream,
                    Ok(None) => break,
                    Err(error) => {
                        pressure.wait_out("accept", &error).await;
                        continue;
                    }
                };
                let task = service.begin(stream, connections.enter());
                let mut body: thread::ThreadBody = Box::new(move || block_on(task));
                while let Err(refused) = thread::start(stack, body) {
                    pressure.wait_out("thread", &refused.error).await;
                    body = refused.body;
                }
                pressure.relieved();
            }
            drop(listener);
            connections.all_ended().await;
        });
        Ok(())
    }
}
