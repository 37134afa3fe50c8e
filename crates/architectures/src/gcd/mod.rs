//! `gcd`: blocks on the queues of libdispatch (Grand Central Dispatch), which manages its own
//! threads.
//!
//! ```text
//!   accept ▶ [ main thread: ] ▶ concurrent:  one queue ───────────┬─▶ ( libdispatch's threads:  )
//!   queue    [ accept, put  ]   serial:      a queue for each     │   ( run a block, put the    )
//!                               ▲            connection ──────────┘   ( next of the same task   )
//!                               └──────────────────────────────────────────────┘
//! ```
//!
//! `gcd` is [`workpool`](crate::workpool) with libdispatch's pool. With a concurrent queue it
//! corresponds to `workpool-fifo`, with serial queues to `workpool-serial` (`--gcd-queues`).
//!
//! What waits: the thread of libdispatch that runs the block. On Linux the library starts with a
//! thread for each processor, and adds one a second while all of them block. So connections that
//! need one another could wait for long, and `gcd` refuses services with such connections. Cost of
//! a connection: its descriptor and the state of its task. Cost of a block: the library's own. What
//! breaks first: the threads, when more clients than threads are slow. The library ends the process
//! if it gets no thread, memory or descriptor for itself. A stack overflow in one of its threads is
//! a plain SIGSEGV. When to choose it: the program is built on libdispatch anyway. Source: Truppel
//! & Abreu.

mod libdispatch;

use std::collections::HashMap;
use std::io;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use duality_runtime::blocks::{Block, Tasks, Waits};
use duality_runtime::handler::Connections;
use duality_runtime::net::Backlog;
use duality_runtime::places::Places;

use self::libdispatch::{Library, Queue};
use crate::common::accept::accept_and_begin;
use crate::{About, Architecture, Footprint, GcdQueues, Needs, Options, Server, World};

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Gcd;

const ABOUT: About = About {
    name: "gcd",
    summary: "blocks of tasks on libdispatch's queues, one or one for each connection (--gcd-queues, --admit)",
    source: "Truppel & Abreu",
    gives: Needs { concurrent_connections: false, ..Needs::ALL },
    world: Some(World::Block),
    ..About::BASE
};

impl Architecture for Gcd {
    fn about(&self) -> &About {
        &ABOUT
    }

    /// A resting connection holds a thread, and there is one thread for each processor at first.
    fn places(&self, _: &Options) -> Option<usize> {
        thread::available_parallelism().ok().map(NonZeroUsize::get)
    }

    fn unavailable(&self, _: &Options) -> Option<String> {
        libdispatch::library().err().map(io::Error::to_string)
    }

    fn footprint(&self, options: &Options) -> Footprint {
        Footprint::admitted(options)
    }

    fn serve(&self, server: Server) -> io::Result<()> {
        let library = libdispatch::library().map_err(io::Error::other)?;
        let threads = Arc::new(Threads::new(server.backlog()?));
        let tasks = match server.options.gcd_queues {
            GcdQueues::Concurrent => {
                let queue = Arc::new(library.concurrent_queue()?);
                Tasks::new(Waits::InPlace, move |block| {
                    let run = threads.to_run(block);
                    queue.put(run);
                })
            }
            GcdQueues::Serial => {
                let queues = Arc::new(Serial { library, queues: Mutex::default(), threads });
                Tasks::new(Waits::InPlace, move |block| queues.put(block))
            }
        };
        // libdispatch's threads end with the process.
        let workers = Connections::default();
        accept_and_begin(server, &workers, |task| tasks.start(task), || {});
        Ok(())
    }
}

/// The threads of libdispatch, which serve one connection at a time.
struct Threads {
    /// Blocks in queues that no thread has begun.
    waiting: AtomicUsize,
    backlog: Backlog,
    places: Places,
}

impl Threads {
    fn new(backlog: Backlog) -> Self {
        Self { waiting: AtomicUsize::new(0), backlog, places: Places::default() }
    }

    /// The function to put into a queue for a block.
    fn to_run(self: &Arc<Self>, block: Block) -> impl FnOnce() + Send + use<> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let threads = self.clone();
        move || {
            threads.waiting.fetch_sub(1, Ordering::Relaxed);
            threads.places.enter(&|| threads.others_wait(), || block.run());
        }
    }

    fn others_wait(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0 || self.backlog.has_connections()
    }
}

/// A serial queue for each connection that has blocks.
struct Serial {
    library: &'static Library,
    threads: Arc<Threads>,
    queues: Mutex<HashMap<u64, Entry>>,
}

struct Entry {
    queue: Arc<Queue>,
    /// The queue's blocks that wait or run.
    blocks: usize,
}

impl Serial {
    fn put(self: &Arc<Self>, block: Block) {
        let (queues, connection) = (self.clone(), block.connection());
        let (queue, run) = (self.begin(connection), self.threads.to_run(block));
        queue.put(move || {
            run();
            // The task's next block is in the queue by now.
            queues.end(connection);
        });
    }

    fn begin(&self, connection: u64) -> Arc<Queue> {
        let mut queues = self.lock();
        let entry = queues
            .entry(connection)
            .or_insert_with(|| Entry { queue: Arc::new(self.library.serial_queue()), blocks: 0 });
        entry.blocks += 1;
        entry.queue.clone()
    }

    fn end(&self, connection: u64) {
        let mut queues = self.lock();
        let Some(entry) = queues.get_mut(&connection) else { return };
        entry.blocks -= 1;
        if entry.blocks == 0 {
            queues.remove(&connection);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Entry>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
