//! `staged`: SEDA, the staged event-driven architecture. Each stage has a queue of events and a
//! pool of kernel threads.
//!
//! ```text
//!   accept queue ▶ [ acceptor: admits ]                 ┌─ reactor: epoll_wait(2), timers ─┐
//!                        │                              │ wakes: an event for the task's stage
//!                        ▼                              ▼                                  │
//!        ┌─ begin ─┐   ┌─ http: request ─┐   ┌─ http: reply ─┐                             │
//!        │ ▢▢▢     │──▶│ ▢▢▢▢▢▢▢         │──▶│ ▢▢            │── a task that waits ────────┘
//!        │ ( )     │   │ ( ) ( ) ( )     │   │ ( )           │
//!        └─────────┘   └─────────────────┘   └───────────────┘
//!          ▲ the controllers: a long queue gets threads, idle threads end; batches by throughput
//! ```
//!
//! A stage is the code after `task::stage(name)`. An event is a task that has come to the stage or
//! was woken there. A wait for a client suspends the task, so a slow client never holds a thread.
//!
//! What waits: the reactor, for all clients, and the threads of each pool, for events. Cost of a
//! connection: the state of its task. Cost of each stage: a queue's lock, and often a switch
//! between kernel threads. What breaks first: the processor, by switches, if stages are short.
//! Admission bounds the queues under overload: while a stage's queue is longer than
//! `--stage-queue`, no connection is admitted (`admission.rs`). New connections wait in the accept
//! queue, or are refused (`--when-full shed`). A queue never holds more than one event for each
//! admitted task. When to choose it: stages differ much in their needs, and overload must be
//! visible and bounded for each stage. Source: Welsh, Culler, Brewer, "SEDA", SOSP 2001; Haboob in
//! von Behren, Condit, Brewer 2003.

mod admission;
mod controller;
mod stage;

use std::io;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use duality_poller::Kind;
use duality_runtime::blocks::{Block, Reactor, Tasks, Waits};
use duality_runtime::handler::Connections;
use duality_runtime::task::thread;

use self::admission::{Gate, accept_and_admit};
use self::controller::Controller;
use self::stage::{Limits, Stage};
use crate::{About, Architecture, Footprint, Options, Server, World};

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Staged;

const ABOUT: About = About {
    name: "staged",
    summary: "SEDA: each stage has a queue and a pool of kernel threads (--stage-threads, --stage-queue)",
    source: "Knot (Haboob); Welsh et al. 2001",
    world: Some(World::Reactor),
    ..About::BASE
};

impl Architecture for Staged {
    fn about(&self) -> &About {
        &ABOUT
    }

    fn poller(&self, _options: &Options) -> Option<Kind> {
        Some(Kind::Epoll)
    }

    fn footprint(&self, options: &Options) -> Footprint {
        Footprint::admitted(options)
    }

    fn serve(&self, server: Server) -> io::Result<()> {
        let reactor = Reactor::new()?;
        let stages = Arc::new(Stages::new(&server.options));
        let run = {
            let reactor = reactor.clone();
            move || reactor.run()
        };
        stages.start_thread("the reactor's thread", run)?;
        let controller = Arc::new(Controller::new(Duration::from_millis(100)));
        let control = {
            let (controller, stages) = (controller.clone(), stages.clone());
            move || controller.run(&stages)
        };
        stages.start_thread("the controller's thread", control)?;
        let tasks = Tasks::new(Waits::Suspend(reactor.clone()), {
            let stages = stages.clone();
            move |block| stages.dispatch(block)
        });
        accept_and_admit(server, &stages.gate, &tasks, || {
            stages.close();
            controller.stop();
            reactor.stop();
        });
        duality_runtime::block_on(stages.present.all_ended());
        Ok(())
    }
}

/// Runs a future, and the tasks that it spawns, as the tasks of a server run here. Unit costs are
/// measured so.
///
/// # Errors
///
/// If the reactor or its thread cannot be had.
///
/// # Panics
///
/// If the future panics.
pub fn run<F>(options: &Options, root: F) -> io::Result<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let reactor = Reactor::new()?;
    let stages = Arc::new(Stages::new(options));
    let running = reactor.clone();
    stages.start_thread("the reactor's thread", move || running.run())?;
    let tasks = Tasks::new(Waits::Suspend(reactor.clone()), {
        let stages = stages.clone();
        move |block| stages.dispatch(block)
    });
    let (tell, receiver) = mpsc::channel();
    tasks.start(Box::pin(async move { drop(tell.send(root.await)) }));
    let outcome = receiver.recv();
    stages.close();
    reactor.stop();
    Ok(outcome.expect("the future has panicked"))
}

/// The stages of a server, each made when a task first comes to it.
struct Stages {
    /// The stages by number. Number 0 is the code before the first stage.
    table: Vec<OnceLock<Arc<Stage>>>,
    limits: Limits,
    gate: Arc<Gate>,
    /// Counts the kernel threads.
    present: Connections,
}

impl Stages {
    fn new(options: &Options) -> Self {
        let stack = thread::ThreadStack::chosen(options.stack_size, "a thread of a stage");
        let gate = Arc::new(Gate::new(options.stage_queue.get()));
        Self {
            table: (0..=Block::LAST_STAGE).map(|_| OnceLock::new()).collect(),
            limits: Limits { threads: options.stage_threads.get(), stack },
            gate,
            present: Connections::default(),
        }
    }

    /// Queues a block at its stage.
    fn dispatch(&self, block: Block) {
        let entry = &self.table[block.stage()];
        let stage = entry.get_or_init(|| {
            let name = block.stage_name().unwrap_or_else(|| "begin".to_owned());
            Arc::new(Stage::new(name, self.gate.clone()))
        });
        stage.put(block);
        if stage.has_no_thread() {
            self.add_thread(stage);
        }
    }

    /// Adds a thread to a stage's pool, unless the pool has its most threads. A failure is reported
    /// once, and the controller tries again.
    fn add_thread(&self, stage: &Arc<Stage>) {
        stage.add_thread(&self.limits, &self.present);
    }

    fn iter(&self) -> impl Iterator<Item = &Arc<Stage>> {
        self.table.iter().filter_map(OnceLock::get)
    }

    fn start_thread(
        &self,
        owner: &'static str,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let here = self.present.enter();
        let body = Box::new(move || {
            body();
            drop(here);
        });
        let stack = thread::ThreadStack::fixed(256 << 10, owner);
        thread::start(stack, body).map_err(|refused| refused.error)
    }

    fn close(&self) {
        self.iter().for_each(|stage| stage.close());
    }
}
