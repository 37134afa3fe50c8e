//! One stage: its queue of events, and its pool of kernel threads.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use duality_runtime::blocks::Block;
use duality_runtime::handler::Connections;
use duality_runtime::locks::{Condvar, Mutex, MutexGuard};
use duality_runtime::log;
use duality_runtime::task::thread;
use duality_runtime::threads::processors;
use duality_runtime::visibility::QueueGauges;

use super::admission::Gate;
use crate::common::pressure::remedy;
use crate::common::waiters::{self, Waiters};

/// How long a thread is idle before it ends, unless it is its stage's only thread.
const IDLE: Duration = Duration::from_secs(1);
/// The most events that a thread takes at a time, and the number at first.
pub(super) const LARGEST_BATCH: usize = 32;

/// The bounds of the pools.
pub(super) struct Limits {
    /// The most threads of each stage.
    pub(super) threads: usize,
    pub(super) stack: thread::ThreadStack,
}

/// A stage.
pub(super) struct Stage {
    name: String,
    queue: Mutex<Queue>,
    /// An event was added, or the queue was closed.
    changed: Condvar,
    /// How many events a thread takes at a time.
    batch: AtomicUsize,
    /// How many of its threads can run at once.
    processors: usize,
    gauges: Arc<QueueGauges>,
    gate: Arc<Gate>,
    has_complained: AtomicBool,
}

#[derive(Default)]
struct Queue {
    events: VecDeque<Block>,
    threads: usize,
    idle: Waiters,
    is_closed: bool,
}

impl Stage {
    pub(super) fn new(name: String, gate: Arc<Gate>) -> Self {
        let gauges = QueueGauges::new(&name);
        Self {
            name,
            queue: Mutex::default(),
            changed: Condvar::new(),
            batch: AtomicUsize::new(LARGEST_BATCH),
            processors: processors(),
            gauges,
            gate,
            has_complained: AtomicBool::new(false),
        }
    }

    pub(super) fn put(&self, event: Block) {
        let mut queue = self.lock();
        queue.events.push_back(event);
        let length = queue.events.len();
        self.gauges.set_length(length);
        self.gate.grown(length);
        let wake = queue.idle.wake_for(length);
        drop(queue);
        wake.send(&self.changed);
    }

    pub(super) fn has_no_thread(&self) -> bool {
        self.lock().threads == 0
    }

    /// The number of events that wait.
    pub(super) fn length(&self) -> usize {
        self.lock().events.len()
    }

    /// The number of events that the stage has executed.
    pub(super) fn executed(&self) -> u64 {
        self.gauges.executed()
    }

    pub(super) fn batch(&self) -> usize {
        self.batch.load(Ordering::Relaxed)
    }

    pub(super) fn set_batch(&self, batch: usize) {
        self.batch.store(batch.clamp(1, LARGEST_BATCH), Ordering::Relaxed);
    }

    /// Adds a thread to the pool, unless the pool has its most threads.
    pub(super) fn add_thread(self: &Arc<Self>, limits: &Limits, present: &Connections) {
        {
            let mut queue = self.lock();
            if queue.threads >= limits.threads || queue.is_closed {
                return;
            }
            queue.threads += 1;
            self.gauges.set_threads(queue.threads);
        }
        let (stage, here) = (self.clone(), present.enter());
        let body = Box::new(move || {
            stage.work();
            drop(here);
        });
        if let Err(refused) = thread::start(limits.stack, body) {
            self.lose_thread(&mut self.lock());
            if !self.has_complained.swap(true, Ordering::Relaxed) {
                let (name, error) = (&self.name, refused.error);
                let remedy = remedy(&error);
                log::warn(format_args!(
                    "staged: no further thread for the stage {name}: {error}{remedy}"
                ));
            }
        }
    }

    /// The body of a thread of the pool. It takes events in batches, until the queue is closed or
    /// it has been idle for too long.
    fn work(&self) {
        let mut batch = Vec::with_capacity(LARGEST_BATCH);
        while self.take(&mut batch) {
            batch.drain(..).for_each(Block::run);
        }
    }

    /// Takes the next events. False if the thread must end; then it counts as ended already.
    fn take(&self, batch: &mut Vec<Block>) -> bool {
        let mut queue = self.lock();
        while queue.events.is_empty() {
            if queue.is_closed {
                self.lose_thread(&mut queue);
                return false;
            }
            let is_over;
            (queue, is_over) =
                waiters::wait_for(&self.changed, queue, IDLE, |queue| &mut queue.idle);
            if is_over && queue.events.is_empty() && queue.threads > 1 {
                self.lose_thread(&mut queue);
                return false;
            }
        }
        // Leaves idle threads their share of the events, as far as processors can run them.
        let takers = (queue.idle.count() + 1).min(self.processors);
        let share = queue.events.len().div_ceil(takers);
        let count = share.min(self.batch());
        let before = queue.events.len();
        batch.extend(queue.events.drain(..count));
        self.gate.shrunk(before, before - count);
        self.gauges.set_length(before - count);
        self.gauges.add_executed(count);
        let wake = queue.idle.wake_for(before - count);
        drop(queue);
        wake.send(&self.changed);
        true
    }

    fn lose_thread(&self, queue: &mut Queue) {
        queue.threads -= 1;
        self.gauges.set_threads(queue.threads);
    }

    /// Closes the queue. The threads end after all events have run.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
