//! Admission: a connection begins only while the queues of all stages are short.

use std::sync::atomic::{AtomicUsize, Ordering};

use duality_runtime::blocks::Tasks;
use duality_runtime::handler::Connections;
use duality_runtime::sync::Notify;
use duality_runtime::time::timeout;
use duality_runtime::{block_on, drain, task};

use crate::common::acceptor::{Acceptor, InPlace};
use crate::common::admission::Admission;
use crate::common::pressure::PAUSE;
use crate::{Server, WhenFull};

/// Counts the stages with queues longer than their bound.
pub(super) struct Gate {
    bound: usize,
    full: AtomicUsize,
    /// Notified when no queue is longer than its bound any more.
    opened: Notify,
}

impl Gate {
    pub(super) fn new(bound: usize) -> Self {
        Self { bound, full: AtomicUsize::new(0), opened: Notify::new() }
    }

    /// Notes that a queue has grown by one, to `length`.
    pub(super) fn grown(&self, length: usize) {
        if length == self.bound + 1 {
            self.full.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Notes that a queue has shrunk from `before` events to `now`.
    pub(super) fn shrunk(&self, before: usize, now: usize) {
        if before > self.bound && now <= self.bound && self.full.fetch_sub(1, Ordering::SeqCst) == 1
        {
            self.opened.notify_one();
        }
    }

    fn is_open(&self) -> bool {
        self.full.load(Ordering::SeqCst) == 0
    }

    /// Waits until the gate is open, or the process drains.
    async fn wait(&self) {
        while !self.is_open() && !drain::requested() {
            // A drain does not notify.
            let _ = timeout(PAUSE, self.opened.notified()).await;
        }
    }
}

/// Accepts connections and begins a task for each that is admitted, until the process drains. When
/// all tasks have ended, calls `close`.
///
/// A connection that is not admitted waits in the kernel's accept queue, or is refused in the words
/// of the service.
pub(super) fn accept_and_admit(server: Server, gate: &Gate, tasks: &Tasks, close: impl FnOnce()) {
    let service = server.service.clone();
    let (most, when_full) = (server.options.admit.unwrap_or(usize::MAX), server.options.when_full);
    let mut limit = server.limit();
    if when_full == WhenFull::Shed {
        limit.most = limit.most.min(most);
    }
    let listener = server.into_listener();
    let connections = Connections::default();
    let admission = Admission::new(&listener, service.descriptors(), 1);
    let mut acceptor = Acceptor::<InPlace>::new(listener, &service, limit, &connections, admission);
    // While the gate is shut, there is no slot for another connection.
    let served = || match when_full {
        WhenFull::Shed if !gate.is_open() => usize::MAX,
        _ => connections.count(),
    };
    block_on(async {
        task::show_stage("accept");
        loop {
            if when_full == WhenFull::Delay {
                gate.wait().await;
                while connections.count() >= most && !drain::requested() {
                    connections.one_ended(PAUSE).await;
                }
            }
            let Some(stream) = acceptor.next(served).await else { break };
            tasks.start(service.begin(stream, connections.enter()));
        }
        acceptor.close().await;
        connections.all_ended().await;
        close();
    });
}
