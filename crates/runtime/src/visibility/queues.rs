//! Gauges of an architecture's queues: the length of each, its kernel threads, and the blocks that
//! they took.
//!
//! The holder of a queue's own lock writes its gauges by plain stores, and a watching thread reads
//! them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The existing queues.
static QUEUES: Mutex<Vec<Weak<QueueGauges>>> = Mutex::new(Vec::new());

/// The gauges of a queue. The queue is shown for as long as they live.
#[derive(Debug)]
pub struct QueueGauges {
    name: String,
    length: Gauge,
    threads: Gauge,
    executed: AtomicU64,
}

/// The present state of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueReport {
    /// The name of the queue. In a staged server, this is its stage.
    pub name: String,
    /// The number of waiting blocks, now and at most.
    pub length: u64,
    /// See `length`.
    pub length_most: u64,
    /// The number of kernel threads that take from the queue, now and at most.
    pub threads: u64,
    /// See `threads`.
    pub threads_most: u64,
    /// The number of blocks that were taken.
    pub executed: u64,
}

/// A number that rises and falls, and its maximum.
#[derive(Debug, Default)]
struct Gauge {
    now: AtomicU64,
    most: AtomicU64,
}

impl Gauge {
    fn set(&self, value: usize) {
        let value = value as u64;
        self.now.store(value, Ordering::Relaxed);
        if value > self.most.load(Ordering::Relaxed) {
            self.most.store(value, Ordering::Relaxed);
        }
    }
}

impl QueueGauges {
    /// The gauges of a new queue.
    #[must_use]
    pub fn new(name: &str) -> Arc<Self> {
        let gauges = Arc::new(Self {
            name: name.to_owned(),
            length: Gauge::default(),
            threads: Gauge::default(),
            executed: AtomicU64::new(0),
        });
        let mut queues = QUEUES.lock().unwrap_or_else(PoisonError::into_inner);
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(&gauges));
        gauges
    }

    /// Sets the number of waiting blocks. The holder of the queue's lock calls this method and the
    /// next two.
    pub fn set_length(&self, length: usize) {
        self.length.set(length);
    }

    /// Sets the number of kernel threads that take from the queue.
    pub fn set_threads(&self, threads: usize) {
        self.threads.set(threads);
    }

    /// Counts further blocks that were taken.
    pub fn add_executed(&self, blocks: usize) {
        let executed = self.executed.load(Ordering::Relaxed);
        self.executed.store(executed + blocks as u64, Ordering::Relaxed);
    }

    /// The number of blocks that were taken.
    #[must_use]
    pub fn executed(&self) -> u64 {
        self.executed.load(Ordering::Relaxed)
    }
}

/// The queues of this process, in the order of their creation.
#[must_use]
pub fn queues() -> Vec<QueueReport> {
    let queues = QUEUES.lock().unwrap_or_else(PoisonError::into_inner);
    let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
    let report = |queue: Arc<QueueGauges>| QueueReport {
        name: queue.name.clone(),
        length: read(&queue.length.now),
        length_most: read(&queue.length.most),
        threads: read(&queue.threads.now),
        threads_most: read(&queue.threads.most),
        executed: queue.executed(),
    };
    queues.iter().filter_map(Weak::upgrade).map(report).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_shown_for_as_long_as_it_lives() {
        let shown = |name: &str| queues().into_iter().find(|queue| queue.name == name);
        let gauges = QueueGauges::new("a queue of this test");
        gauges.set_length(7);
        gauges.set_length(3);
        gauges.set_threads(2);
        gauges.add_executed(4);
        gauges.add_executed(1);
        let report = shown("a queue of this test").unwrap();
        assert_eq!((report.length, report.length_most), (3, 7));
        assert_eq!((report.threads, report.threads_most, report.executed), (2, 2, 5));
        drop(gauges);
        assert_eq!(shown("a queue of this test"), None);
    }
}
