//! `tokio-thread-per-connection`: a kernel thread for each connection, each with a runtime.
//!
//! ```text
//!                                          ┌─▶ ( thread: a runtime ─ conn 1 )
//!   accept queue ▶▶ [ main thread: accept ]┼─▶ ( thread: a runtime ─ conn 2 )
//!                                          └─▶ ( thread: a runtime ─ conn 3 ) …
//! ```
//!
//! The scheduler of the kernel spreads connections over processors, and a handler that computes for
//! long holds up no other connection. What waits: each thread, in epoll_wait(2), for its
//! connection. Cost of a connection: a kernel thread with its stack, and a runtime with three
//! descriptors beside the socket. An application makes its instance for each connection, pools of
//! clients included, so such pools are of little use. An application that is made once is made on
//! the acceptor's runtime. What breaks first: threads, or descriptors.
//! Source: `threads`; tokio's current-thread scheduler.

use std::io;

use duality_architectures::common::admission::Admission;
use duality_architectures::{About, Architecture, Footprint, Mappings, Options, Server};
use duality_poller::Kind;
use duality_runtime::handler::Connections;
use duality_runtime::task::thread;
use duality_runtime::visibility::occupy;

use super::LAYOUT;
use crate::acceptor::{Accepted, Acceptor};
use crate::drain::told_of_drains;
use crate::form::Form;
use crate::runtimes;

/// The descriptors of a runtime: its epoll, the copy of that epoll that waits, and the descriptor
/// that wakes it.
const OF_A_RUNTIME: usize = 3;

/// Bytes of stack that a runtime and an application have at least.
const LEAST_STACK: usize = 256 << 10;

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct ThreadPerConnection;

const ABOUT: About = About {
    name: "tokio-thread-per-connection",
    summary: "a kernel thread with a tokio runtime for each connection (--stack-size)",
    ..LAYOUT
};

impl Architecture for ThreadPerConnection {
    fn about(&self) -> &About {
        &ABOUT
    }

    fn poller(&self, _: &Options) -> Option<Kind> {
        Some(Kind::Epoll)
    }

    fn footprint(&self, _: &Options) -> Footprint {
        /// The stack and the guard page below it, which glibc protects by mprotect(2).
        const STACK: Mappings = Mappings { each: 2, reserved: 100, none_from: None };
        Footprint { threads: 1, mappings: STACK, ..Footprint::STATE }
    }

    fn serve(&self, server: Server) -> io::Result<()> {
        let _counted = occupy();
        let stack = thread::ThreadStack::chosen(
            server.options.stack_size.max(LEAST_STACK),
            "the thread of a connection",
        );
        let (service, limit) = (server.service.clone(), server.limit());
        let form = service.foreign::<Form>()?.clone();
        let listener = server.into_listener();
        let each = service.descriptors() + OF_A_RUNTIME;
        let admission = Admission::new(&listener, each, 1);
        let threads = Connections::default();
        let runtime = runtimes::current_thread()?;
        // The runtime of a connection would end too early for an application that all share.
        runtime.block_on(form.make_if_once())?;
        let served = runtime.block_on(told_of_drains(async |stop| {
            let mut acceptor = Acceptor::new(listener, &service, limit, admission, stop)?;
            while let Some(accepted) = acceptor.next().await {
                let (form, thread) = (form.clone(), threads.enter());
                let mut body: thread::ThreadBody = Box::new(move || {
                    serve(&form, accepted);
                    drop(thread);
                });
                while let Err(refused) = thread::start(stack, body) {
                    acceptor.wait_out("thread", &refused.error).await;
                    body = refused.body;
                }
            }
            acceptor.close().await;
            Ok(())
        }));
        duality_runtime::block_on(threads.all_ended());
        served
    }
}

/// Serves a connection on its own runtime.
fn serve(form: &Form, accepted: Accepted) {
    let made = runtimes::current_thread().and_then(|runtime| {
        let instance = runtime.block_on(form.instance())?;
        Ok((runtime, instance))
    });
    match made {
        Ok((runtime, instance)) => {
            runtime.block_on(accepted.serve(instance));
            runtime.shutdown_background();
        }
        Err(error) => accepted.fail(&error),
    }
}
