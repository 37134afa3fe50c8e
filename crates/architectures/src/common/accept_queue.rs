//! The accept queue of an event loop: accepted connections that have no started task yet.
//!
//! ```text
//!   kernel's accept queue ▶ [ acceptor ] ─ not full ──────────▶ ( a task: under way, or at rest )
//!                               └─ full ▶ loop's accept queue ▶ [ starter ] ▶ ( …               )
//! ```
//!
//! A connection is *under way* unless it rests. A connection rests while it waits for its client to
//! send or to receive. A full loop serves first. If it started all connections at once, it would
//! return to each connection after the caches have lost its data. At 15,000 connections, each
//! request would cost a sixth more. A full loop still accepts, as long as its accept queue has
//! room. If a connection overflows the kernel's accept queue, its client is silent for a second or
//! longer.
//!
//! Two options change this. Under [`Prefer::Accept`] every connection starts as it comes, and the
//! loop's accept queue stays empty.
//! [`Options::accept_queue`](super::options::Options::accept_queue) bounds the loop's accept queue.
//! With a bound of 0, connections stay in the kernel's accept queue until they can start.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use duality_runtime::event_loop::{self, ReservedTask};
use duality_runtime::handler::Connections;
use duality_runtime::net::TcpStream;
use duality_runtime::sync::Notify;
use duality_runtime::task;
use duality_runtime::time::{self, Duration};

use super::options::Prefer;
use super::pressure::Pressure;
use super::served::Served;

/// The number of connections under way with which a loop is full.
pub(crate) const FULL: usize = 1024;

/// The interval at which a full loop checks whether it is busy. The loop is busy unless a quarter
/// of the time was idle.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// The number of connections that a full loop starts if it is not busy. The connections under way
/// then wait for something other than this processor, so more of them do no harm.
const CREDIT: u32 = 64;

/// Whether the loop is full, so that other connections have to wait.
fn is_full(connections: &Connections) -> bool {
    connections.count().saturating_sub(event_loop::resting()) >= FULL
}

/// Connections that wait to be started, first in, first out.
pub(crate) struct AcceptQueue {
    prefer: Prefer,
    /// The number of connections that may wait.
    size: usize,
    inner: Mutex<Inner>,
    /// A connection was added, or the queue was closed.
    changed: Notify,
    /// A connection has been removed.
    removed: Notify,
}

#[derive(Default)]
struct Inner {
    streams: VecDeque<TcpStream>,
    closed: bool,
}

impl AcceptQueue {
    /// An empty queue for at most `size` connections.
    pub(crate) fn new(prefer: Prefer, size: usize) -> Self {
        let inner = Mutex::default();
        Self { prefer, size, inner, changed: Notify::new(), removed: Notify::new() }
    }

    /// Whether connections may have to stay in the kernel's accept queue.
    pub(crate) fn is_bounded(&self) -> bool {
        self.prefer == Prefer::Serve && self.size < usize::MAX
    }

    /// Waits until a connection may be accepted: there is room in the queue, or the connection need
    /// not wait. `credit` belongs to the acceptor, and begins at 0.
    pub(crate) async fn wait_for_room(&self, connections: &Connections, credit: &mut u32) {
        match (self.prefer, self.size) {
            (Prefer::Accept, _) => {}
            (Prefer::Serve, 0) => wait_while_full(connections, credit).await,
            (Prefer::Serve, size) => {
                while self.waiting() >= size {
                    self.removed.notified().await;
                }
            }
        }
    }

    /// Whether a connection that has been accepted after [`wait_for_room`](Self::wait_for_room)
    /// starts without waiting.
    pub(crate) fn starts_at_once(&self, connections: &Connections) -> bool {
        match (self.prefer, self.size) {
            (Prefer::Accept, _) | (Prefer::Serve, 0) => true,
            (Prefer::Serve, _) => self.waiting() == 0 && !is_full(connections),
        }
    }

    /// How many connections wait.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().streams.len()
    }

    /// Adds a connection.
    pub(crate) fn push(&self, stream: TcpStream) {
        self.lock().streams.push_back(stream);
        self.changed.notify_one();
    }

    /// Ends the queue: no further connection will be added.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_one();
    }

    /// Starts the connections in their order, until the queue is closed and empty.
    pub(crate) async fn start_connections(&self, service: &Served, connections: &Connections) {
        task::show_stage("start");
        let mut pressure = Pressure::new(connections);
        let mut credit = 0;
        while self.has_connection().await {
            wait_while_full(connections, &mut credit).await;
            let reserved = reserve(&mut pressure).await;
            // Only this task removes connections.
            let Some(stream) = self.lock().streams.pop_front() else { continue };
            self.removed.notify_one();
            reserved.spawn(service.begin(stream, connections.enter()));
        }
    }

    /// Waits until there is a connection. False if no connection will come any more.
    async fn has_connection(&self) -> bool {
        loop {
            {
                let inner = self.lock();
                if !inner.streams.is_empty() || inner.closed {
                    return !inner.streams.is_empty();
                }
            }
            self.changed.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reserves a task, as soon as there is room for one.
pub(crate) async fn reserve(pressure: &mut Pressure) -> ReservedTask {
    loop {
        match event_loop::reserve() {
            Ok(reserved) => return reserved,
            Err(error) => pressure.wait_out("stack", &error).await,
        }
    }
}

async fn wait_while_full(connections: &Connections, credit: &mut u32) {
    while is_full(connections) {
        if let Some(left) = credit.checked_sub(1) {
            *credit = left;
            return;
        }
        let (start, idle) = (time::now(), event_loop::idle());
        time::sleep(CHECK_INTERVAL).await;
        if 4 * (event_loop::idle() - idle) > time::since(start) {
            *credit = CREDIT;
        }
    }
}
