//! `workpool-fifo`, `workpool-priority` and `workpool-serial`: W kernel threads that take blocks
//! from a queue.
//!
//! ```text
//!   accept ▶ [ main thread: ] ▶ queue of blocks ─┬─▶ ( worker 1: run a block ) ──┐
//!   queue    [ accept, put  ]   ▲                ├─▶ ( worker 2: run a block ) ──┤
//!                               │                └─▶ ( worker W … )              │
//!                               └──────── the next block of the same task ◀──────┘
//! ```
//!
//! A block is the stretch of a task between two stage boundaries. The queue's order (`order.rs`)
//! decides which block comes next: one FIFO, the most urgent first, or a FIFO for each connection.
//! The most urgent block is the one nearest to the end of its request, unless the service says
//! otherwise.
//!
//! What waits: each worker, for the client or the disk of the block that it runs. So W workers wait
//! for W clients at most. A connection that rests between two requests holds a worker until its
//! client goes on. Cost of a connection: its descriptor and the state of its task. Cost of a block:
//! a lock, and maybe the wake-up of a worker. What breaks first: the workers, if more clients than
//! workers are slow. Under overload the FIFO begins every request before it ends one, so a
//! request's memory leaves the caches before its next block. The other two orders first finish
//! requests that have begun, and `--admit` bounds how many begin. When to choose it: the blocks
//! work on disk or processor, for few clients at a time. If overload is likely, take the serial or
//! the priority queue. Source: Truppel & Abreu, for the FIFO (the other two are their open
//! questions).

mod order;

use std::io;
use std::sync::{Arc, PoisonError};

use duality_runtime::blocks::{Block, Tasks, Waits};
use duality_runtime::handler::Connections;
use duality_runtime::locks::{Condvar, Mutex, MutexGuard};
use duality_runtime::log;
use duality_runtime::net::Backlog;
use duality_runtime::places::Places;
use duality_runtime::task::thread;
use duality_runtime::visibility::QueueGauges;

use self::order::{ByPriority, Fifo, Order, Serial};
use crate::common::accept::accept_and_begin;
use crate::common::admission::Admission;
use crate::common::pressure::remedy;
use crate::common::waiters::{self, Waiters};
use crate::{About, Architecture, Footprint, Options, Server, World};

/// One queue, first in, first out.
pub const FIFO: WorkPool = WorkPool {
    about: About {
        name: "workpool-fifo",
        summary: "N kernel threads take blocks of tasks from one queue (--workers, --admit)",
        ..ABOUT
    },
    order: || Box::<Fifo<Block>>::default(),
};

/// Blocks that are nearest to the end of their request come first.
pub const PRIORITY: WorkPool = WorkPool {
    about: About {
        name: "workpool-priority",
        summary: "N kernel threads take the block nearest to its end first (--workers, --admit)",
        ..ABOUT
    },
    order: || Box::<ByPriority<Block>>::default(),
};

/// A queue for each connection.
pub const SERIAL: WorkPool = WorkPool {
    about: About {
        name: "workpool-serial",
        summary: "N kernel threads, a queue for each connection, one thread at a time on it (--workers, --admit)",
        ..ABOUT
    },
    order: || Box::<Serial<Block>>::default(),
};

const ABOUT: About = About { source: "Truppel & Abreu", world: Some(World::Block), ..About::BASE };

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct WorkPool {
    about: About,
    order: fn() -> Box<dyn Order<Block>>,
}

impl Architecture for WorkPool {
    fn about(&self) -> &About {
        &self.about
    }

    /// A resting connection holds a worker.
    fn places(&self, options: &Options) -> Option<usize> {
        Some(options.workers)
    }

    fn footprint(&self, options: &Options) -> Footprint {
        Footprint::admitted(options)
    }

    fn serve(&self, server: Server) -> io::Result<()> {
        let stack = thread::ThreadStack::chosen(server.options.stack_size, "a worker");
        let queue = Arc::new(Queue::new((self.order)(), server.backlog()?));
        let present = Connections::default();
        self.start_workers(server.options.workers, stack, &queue, &present)?;
        let tasks = Tasks::new(Waits::InPlace, {
            let queue = queue.clone();
            move |block| queue.put(block)
        });
        accept_and_begin(server, &present, |task| tasks.start(task), || queue.close());
        Ok(())
    }
}

impl WorkPool {
    /// Starts the workers, or as many as possible.
    fn start_workers(
        &self,
        wanted: usize,
        stack: thread::ThreadStack,
        queue: &Arc<Queue>,
        present: &Connections,
    ) -> io::Result<()> {
        let memory = Admission::of_memory();
        for started in 0..wanted {
            let (queue, here) = (queue.clone(), present.enter());
            let body = Box::new(move || {
                queue.work();
                drop(here);
            });
            let start = || {
                memory.check(started)?;
                thread::start(stack, body).map_err(|refused| refused.error)
            };
            match start() {
                Ok(()) => {}
                Err(error) if started == 0 => return Err(error),
                Err(error) => {
                    let (name, remedy) = (self.about.name, remedy(&error));
                    log::warn(format_args!(
                        "{name}: {started} workers instead of {wanted}: {error}{remedy}"
                    ));
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Blocks that wait for a worker.
struct Queue {
    inner: Mutex<Inner>,
    /// A block was added, or the queue was closed.
    changed: Condvar,
    gauges: Arc<QueueGauges>,
    /// Connections that are not accepted yet, for example under `--admit`.
    backlog: Backlog,
    /// The workers.
    places: Places,
}

struct Inner {
    order: Box<dyn Order<Block>>,
    /// Workers that wait for a block.
    idle: Waiters,
    /// Blocks that wait for a worker.
    length: usize,
    /// Workers that take blocks.
    workers: usize,
    is_closed: bool,
}

impl Queue {
    fn new(order: Box<dyn Order<Block>>, backlog: Backlog) -> Self {
        let inner =
            Inner { order, idle: Waiters::default(), length: 0, workers: 0, is_closed: false };
        let gauges = QueueGauges::new("blocks");
        let (inner, changed, places) = (Mutex::new(inner), Condvar::new(), Places::default());
        Self { inner, changed, gauges, backlog, places }
    }

    /// Whether blocks or connections wait while each worker runs a block.
    fn others_wait(&self) -> bool {
        let inner = self.lock();
        inner.idle.count() == 0 && (inner.length > 0 || self.backlog.has_connections())
    }

    fn put(&self, block: Block) {
        let mut inner = self.lock();
        inner.order.put(block);
        inner.length += 1;
        self.gauges.set_length(inner.length);
        let length = inner.length;
        let wake = inner.idle.wake_for(length);
        drop(inner);
        wake.send(&self.changed);
    }

    /// Runs blocks until no more will come.
    fn work(&self) {
        self.count_worker(1);
        let mut last = None;
        self.places.enter(&|| self.others_wait(), || {
            while let Some(block) = self.take(last) {
                last = Some(block.connection());
                block.run();
            }
        });
        self.count_worker(-1);
    }

    fn count_worker(&self, change: isize) {
        let mut inner = self.lock();
        inner.workers = inner.workers.saturating_add_signed(change);
        self.gauges.set_threads(inner.workers);
    }

    /// Waits for the next block of a worker that has just run a block of the connection `last`.
    fn take(&self, last: Option<u64>) -> Option<Block> {
        let mut inner = self.lock();
        let mut next = inner.order.next(last);
        while next.is_none() && !inner.is_closed {
            inner = waiters::wait(&self.changed, inner, |inner| &mut inner.idle);
            next = inner.order.next(None);
        }
        if next.is_some() {
            inner.length -= 1;
            self.gauges.set_length(inner.length);
            self.gauges.add_executed(1);
        }
        let left = inner.length;
        let wake = inner.idle.wake_for(left);
        drop(inner);
        wake.send(&self.changed);
        next
    }

    /// Closes the queue. The workers end after all blocks have run.
    fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
