//! `tokio-no-steal`: a runtime for each of N kernel threads; one acceptor hands out connections.
//!
//! ```text
//!                                         ┌─▶ ( thread 1: conn 1 │ conn N+1 │ … )
//!   accept queue ▶▶ [ main thread: accept ]─▶ ( thread 2: conn 2 │ … )
//!                                         └─▶ ( thread N: conn N │ … )
//! ```
//!
//! The acceptor deals connections to the threads in turn, so all threads have equally many. A
//! connection stays on its thread. Unlike `SO_REUSEPORT`, a deal does not depend on addresses. What
//! waits: the acceptor, for connections; each thread, in epoll_wait(2), for its connections. Cost
//! of a connection: the state of its task, and a message that wakes the thread. What breaks first:
//! descriptors. With short connections, the acceptor breaks first. Source: actix-server's acceptor
//! and workers.

use std::io;
use std::sync::mpsc::channel;

use duality_architectures::common::admission::Admission;
use duality_architectures::{About, Architecture, Footprint, Options, Server};
use duality_poller::Kind;
use duality_runtime::handler::{Active, Connections};
use duality_runtime::task::thread;
use duality_runtime::visibility::occupy;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::LAYOUT;
use crate::acceptor::{Accepted, Acceptor};
use crate::drain::told_of_drains;
use crate::form::Form;
use crate::instance::Instance;
use crate::runtimes;

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct NoSteal;

const ABOUT: About = About {
    name: "tokio-no-steal",
    summary: "a tokio runtime for each core; one acceptor deals connections in turn (--cores)",
    ..LAYOUT
};

impl Architecture for NoSteal {
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
        let _counted = occupy();
        let runtime = runtimes::current_thread()?;
        let (service, limit) = (server.service.clone(), server.limit());
        let form = service.foreign::<Form>()?.clone();
        let present = Connections::default();
        let workers = (0..server.options.cores)
            .map(|_| start_worker(form.clone(), present.enter()))
            .collect::<io::Result<Vec<_>>>()?;
        let listener = server.into_listener();
        let admission = Admission::new(&listener, service.descriptors(), 1);
        let served = runtime.block_on(told_of_drains(async move |stop| {
            let mut acceptor = Acceptor::new(listener, &service, limit, admission, stop)?;
            for worker in workers.iter().cycle() {
                let Some(accepted) = acceptor.next().await else { break };
                // A worker that has panicked closes the connections that it gets.
                let _ = worker.send(accepted);
            }
            acceptor.close().await;
            // The workers end when their senders are gone.
            Ok(())
        }));
        duality_runtime::block_on(present.all_ended());
        served
    }
}

/// Starts a kernel thread with a runtime, which serves the connections that it gets.
///
/// # Errors
///
/// Returns the errors of the application. Fails if the thread or the runtime cannot be made.
fn start_worker(form: Form, present: Active) -> io::Result<UnboundedSender<Accepted>> {
    const STACK: thread::ThreadStack = thread::ThreadStack::fixed(1 << 20, "the thread of a core");
    let (deal, dealt) = unbounded_channel();
    let (tell, receiver) = channel();
    let body = Box::new(move || {
        let _present = present;
        let opened = runtimes::current_thread().and_then(|runtime| {
            let instance = runtime.block_on(form.instance())?;
            Ok((runtime, instance))
        });
        match opened {
            Ok((runtime, instance)) => {
                let _ = tell.send(Ok(()));
                runtime.block_on(serve_dealt(dealt, instance));
                runtime.shutdown_background();
            }
            Err(error) => drop(tell.send(Err(error))),
        }
    });
    thread::start(STACK, body).map_err(|refused| refused.error)?;
    let ended = || io::Error::other("the application panicked: its message is on standard error");
    receiver.recv().map_err(|_| ended())??;
    Ok(deal)
}

async fn serve_dealt(mut dealt: UnboundedReceiver<Accepted>, instance: Instance) {
    while let Some(accepted) = dealt.recv().await {
        tokio::spawn(accepted.serve(instance.clone()));
    }
}
