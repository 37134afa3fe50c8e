//! The lobby of an event loop: connections that have been accepted and whose tasks have not begun.
//!
//! ```text
//!   accept queue ▶ [ acceptor ] ─── not full ──────────────▶ ( a task: under way, or at rest )
//!                        └─ full ─▶ lobby ▶ [ usher ] ──────▶ (  …                           )
//! ```
//!
//! A connection is *under way* unless it rests, which is to wait for its client, be it to send or to
//! take. A loop that begins all that come, however many it has yet to answer, comes back to each so late
//! that nothing of it is in a cache any more: at 15,000 connections every request cost a sixth more. So
//! a loop that is full serves first. It accepts all the same, as eagerly as there is room in the lobby: what
//! overflows the kernel's accept queue is not heard of again for a second, or several.
//!
//! Two options bend this. Under [`Prefer::Accept`] every connection begins as it comes, and the lobby stays
//! empty. [`Options::accept_queue`](super::options::Options::accept_queue) bounds the lobby; a lobby without
//! any room leaves connections in the kernel's accept queue until it is their turn.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use duality_runtime::event_loop::{self, Place};
use duality_runtime::handler::Connections;
use duality_runtime::net::TcpStream;
use duality_runtime::sync::Notify;
use duality_runtime::task;
use duality_runtime::time::{self, Duration, Instant};

use super::options::Prefer;
use super::pressure::Pressure;
use super::service::Service;

/// How many connections are under way on a loop that is full.
pub(crate) const FULL: usize = 1024;

/// How often a full loop looks whether it is busy: it is unless a quarter of the time was idle.
const GLANCE: Duration = Duration::from_millis(1);

/// How many connections it begins if it is not: those under way all wait for something else than this
/// processor, and more of them do no harm.
const CREDIT: u32 = 64;

/// Whether so many connections are under way that others have to wait.
fn is_full(connections: &Connections) -> bool {
    connections.count().saturating_sub(event_loop::resting()) >= FULL
}

/// Connections that wait for their turn, the first come first.
pub(crate) struct Lobby {
    prefer: Prefer,
    /// How many may wait.
    size: usize,
    inner: Mutex<Inner>,
    /// There is a connection, or there will be none.
    changed: Notify,
    /// One has left.
    left: Notify,
}

#[derive(Default)]
struct Inner {
    streams: VecDeque<TcpStream>,
    closed: bool,
}

impl Lobby {
    /// An empty one for at most `size` connections.
    pub(crate) fn new(prefer: Prefer, size: usize) -> Self {
        let inner = Mutex::default();
        Self { prefer, size, inner, changed: Notify::new(), left: Notify::new() }
    }

    /// Whether connections may have to stay in the kernel's accept queue.
    pub(crate) fn is_bounded(&self) -> bool {
        self.prefer == Prefer::Serve && self.size < usize::MAX
    }

    /// Waits until a connection may be accepted: there is room for it to wait, or it need not. `credit` is the
    /// acceptor's, 0 at the start.
    pub(crate) async fn vacancy(&self, connections: &Connections, credit: &mut u32) {
        match (self.prefer, self.size) {
            (Prefer::Accept, _) => {}
            (Prefer::Serve, 0) => wait_while_full(connections, credit).await,
            (Prefer::Serve, size) => {
                while self.waiting() >= size {
                    self.left.notified().await;
                }
            }
        }
    }

    /// Whether a connection that has been accepted after [`vacancy`](Self::vacancy) begins without waiting.
    pub(crate) fn lets_through(&self, connections: &Connections) -> bool {
        match (self.prefer, self.size) {
            (Prefer::Accept, _) | (Prefer::Serve, 0) => true,
            (Prefer::Serve, _) => self.waiting() == 0 && !is_full(connections),
        }
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().streams.len()
    }

    /// Has a connection wait.
    pub(crate) fn enter(&self, stream: TcpStream) {
        self.lock().streams.push_back(stream);
        self.changed.notify_one();
    }

    /// Nobody comes any more.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_one();
    }

    /// Begins the connections in their turn, until the lobby is closed and empty.
    pub(crate) async fn usher(&self, service: &Service, connections: &Connections) {
        task::stage("lobby").await;
        let mut pressure = Pressure::new(connections);
        let mut credit = 0;
        while self.is_waited_in().await {
            wait_while_full(connections, &mut credit).await;
            let place = room(&mut pressure).await;
            // Nobody else takes one out.
            let Some(stream) = self.lock().streams.pop_front() else { continue };
            self.left.notify_one();
            place.spawn(service.begin(stream, connections.enter()));
        }
    }

    /// Waits until there is a connection; false when there will be none.
    async fn is_waited_in(&self) -> bool {
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

/// Room for a task, as soon as there is some.
pub(crate) async fn room(pressure: &mut Pressure) -> Place {
    loop {
        match event_loop::reserve() {
            Ok(place) => return place,
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
        let (start, idle) = (Instant::now(), event_loop::idle());
        time::sleep(GLANCE).await;
        if 4 * (event_loop::idle() - idle) > start.elapsed() {
            *credit = CREDIT;
        }
    }
}
