//! The permits under loom: the same file, with loom's atomics, whose making is not constant.

use std::collections::VecDeque;

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex, atomic};
use loom::thread;

use self::atomic::AtomicUsize;
use self::permits::Permits;

#[path = "permits.rs"]
mod permits;

/// A lock of one permit, with a queue as [`Waiting`](super::queue::Waiting) has it.
struct Lock {
    permits: Permits,
    queue: Mutex<VecDeque<thread::Thread>>,
    value: UnsafeCell<u32>,
}

impl Lock {
    fn new() -> Arc<Self> {
        let permits = Permits::new(AtomicUsize::new(Permits::word(1)));
        Arc::new(Self { permits, queue: Mutex::default(), value: UnsafeCell::new(0) })
    }

    /// Adds one to the value.
    fn add(&self) {
        if !self.permits.take() {
            self.wait();
        }
        // SAFETY: the permit is the only one; loom would find another who reaches the value.
        self.value.with_mut(|value| unsafe { *value += 1 });
        if self.permits.give_back() {
            let mut queue = self.queue.lock().unwrap();
            if queue.is_empty() {
                self.permits.nobody_waits();
            }
            let woken = queue.pop_front();
            drop(queue);
            if let Some(woken) = woken {
                woken.unpark();
            }
        }
    }

    fn wait(&self) {
        loop {
            let mut queue = self.queue.lock().unwrap();
            if self.permits.take_or_wait() {
                return;
            }
            queue.push_back(thread::current());
            drop(queue);
            thread::park();
        }
    }
}

/// Each has the permit once, alone, and is woken for it; else loom finds who waits for ever.
fn model(threads: u32) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let lock = Lock::new();
        let others = (1..threads).map(|_| {
            let lock = lock.clone();
            thread::spawn(move || lock.add())
        });
        let others: Vec<_> = others.collect();
        lock.add();
        for other in others {
            other.join().unwrap();
        }
        // SAFETY: the others have ended.
        lock.value.with(|value| assert_eq!(unsafe { *value }, threads));
        assert_eq!(lock.permits.count(), 1);
    });
}

#[test]
fn loom_two_that_want_the_permit_have_it() {
    model(2);
}

#[test]
fn loom_three_that_want_the_permit_have_it() {
    model(3);
}
