//! The queue between the pacer and the connections. Due requests wait for a connection, or
//! connections wait for a due request.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use duality_runtime::sync::channel::{Receiver, Sender, bounded};

/// The most requests that wait here (16 MB). The caller keeps further requests: see
/// [`Queue::push`].
const CAPACITY: usize = 1 << 20;

/// Requests that are due, each as the time at which it became due.
pub(crate) struct Queue {
    state: Mutex<State>,
}

struct State {
    due: VecDeque<Instant>,
    /// Idle connections. The connection that has been idle longest comes first, so that all are
    /// used in turn.
    free: VecDeque<Sender<Instant>>,
}

/// A connection that is free for the next due request.
pub(crate) struct FreeConnection {
    give: Sender<Instant>,
    take: Receiver<Instant>,
}

impl FreeConnection {
    pub(crate) fn new() -> Self {
        let (give, take) = bounded(1);
        Self { give, take }
    }
}

impl Queue {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(State { due: VecDeque::new(), free: VecDeque::new() }) }
    }

    /// Hands a request that was due at `due` to a free connection, or queues it. Returns false if
    /// the queue is full.
    pub(crate) fn push(&self, due: Instant) -> bool {
        let mut state = self.lock();
        if state.due.len() == CAPACITY {
            return false;
        }
        let due = match state.free.pop_front() {
            // A free place has room for one request.
            Some(free) => free.try_send(due).err().map(|refused| refused.0),
            None => Some(due),
        };
        state.due.extend(due);
        true
    }

    /// Waits until there is a request for `place`. Returns the time at which the request was due.
    pub(crate) async fn next(&self, place: &mut FreeConnection) -> Instant {
        {
            let mut state = self.lock();
            if let Some(due) = state.due.pop_front() {
                return due;
            }
            state.free.push_back(place.give.clone());
        }
        place.take.recv().await.expect("the place has a sender of its own")
    }

    /// The number of connections that wait for a request.
    pub(crate) fn free(&self) -> usize {
        self.lock().free.len()
    }

    /// Calls `visit` with the time of each waiting request.
    pub(crate) fn each(&self, visit: impl FnMut(Instant)) {
        self.lock().due.iter().copied().for_each(visit);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is one push or one pop, so a panic elsewhere leaves the queue whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use duality_runtime::block_on;

    use super::*;

    #[test]
    fn requests_wait_for_connections_in_order() {
        let queue = Queue::new();
        let start = Instant::now();
        let times: Vec<Instant> =
            (0..3).map(|index| start + Duration::from_millis(index)).collect();
        assert!(times.iter().all(|due| queue.push(*due)));
        let mut waiting = Vec::new();
        queue.each(|due| waiting.push(due));
        assert_eq!(waiting, times);
        let mut place = FreeConnection::new();
        let taken: Vec<_> = times.iter().map(|_| block_on(queue.next(&mut place))).collect();
        assert_eq!(taken, times);
    }

    #[test]
    fn connections_wait_for_requests_in_order() {
        let queue = std::sync::Arc::new(Queue::new());
        let (done, ended) = std::sync::mpsc::channel();
        let start = Instant::now();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (queue, done) = (queue.clone(), done.clone());
                std::thread::spawn(move || {
                    done.send(block_on(queue.next(&mut FreeConnection::new()))).unwrap();
                })
            })
            .collect();
        assert!(queue.push(start) && queue.push(start));
        for _ in 0..2 {
            assert_eq!(ended.recv_timeout(Duration::from_secs(20)).unwrap(), start);
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
