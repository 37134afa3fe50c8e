//! A bounded queue from many tasks to one.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use super::queue::{Waiting, Wake};
use crate::visibility::Wait;

/// A channel that holds at most `capacity` values.
///
/// # Panics
///
/// When `capacity` is zero.
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "a channel needs room for one value");
    let queue = Queue { values: VecDeque::new(), capacity, senders: 1, open: true };
    let shared = Arc::new(Shared {
        queue: Waiting::new(Wait::Send, queue),
        arrivals: Waiting::new(Wait::Receive, ()),
    });
    (Sender { shared: shared.clone() }, Receiver { shared })
}

/// Senders wait on `queue`, the receiver on `arrivals`, so that each wakes the other kind only.
struct Shared<T> {
    queue: Waiting<Queue<T>>,
    arrivals: Waiting<()>,
}

struct Queue<T> {
    values: VecDeque<T>,
    capacity: usize,
    senders: usize,
    open: bool,
}

impl<T> Shared<T> {
    fn tell_receiver(&self) {
        self.arrivals.change(|()| ((), Wake::All));
    }
}

/// The end that values go in at; there can be many.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

/// The receiver is gone, or (for `try_send`) there is no room; here is the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendError<T>(pub T);

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the channel takes no more values")
    }
}

impl<T: fmt::Debug> std::error::Error for SendError<T> {}

impl<T> Sender<T> {
    /// Sends a value, waiting for room.
    ///
    /// # Errors
    ///
    /// The value, when the receiver is gone.
    pub async fn send(&self, value: T) -> Result<(), SendError<T>> {
        let mut value = Some(value);
        let sent = self
            .shared
            .queue
            .until(|queue| {
                if !queue.open {
                    return Some(false);
                }
                let room = queue.values.len() < queue.capacity;
                room.then(|| {
                    queue.values.extend(value.take());
                    true
                })
            })
            .await;
        self.sent(sent, value)
    }

    /// Sends a value if there is room.
    ///
    /// # Errors
    ///
    /// The value, when there is no room or the receiver is gone.
    pub fn try_send(&self, value: T) -> Result<(), SendError<T>> {
        let mut value = Some(value);
        let sent = self.shared.queue.change(|queue| {
            let fits = queue.open && queue.values.len() < queue.capacity;
            if fits {
                queue.values.extend(value.take());
            }
            (fits, Wake::Nobody)
        });
        self.sent(sent, value)
    }

    fn sent(&self, sent: bool, value: Option<T>) -> Result<(), SendError<T>> {
        match value {
            Some(value) if !sent => Err(SendError(value)),
            _ => {
                self.shared.tell_receiver();
                Ok(())
            }
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.shared.queue.change(|queue| {
            queue.senders += 1;
            ((), Wake::Nobody)
        });
        Self { shared: self.shared.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.shared.queue.change(|queue| {
            queue.senders -= 1;
            ((), Wake::Nobody)
        });
        self.shared.tell_receiver();
    }
}

/// The end that values come out of.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Receiver<T> {
    /// Receives the next value, waiting for it; `None` when every sender is gone and nothing is left.
    pub async fn recv(&mut self) -> Option<T> {
        let shared = &self.shared;
        shared
            .arrivals
            .until(|()| {
                shared.queue.change(|queue| match queue.values.pop_front() {
                    Some(value) => (Some(Some(value)), Wake::One),
                    None => ((queue.senders == 0).then_some(None), Wake::Nobody),
                })
            })
            .await
    }

    /// Receives the next value if there is one.
    pub fn try_recv(&mut self) -> Option<T> {
        self.shared.queue.change(|queue| match queue.values.pop_front() {
            Some(value) => (Some(value), Wake::One),
            None => (None, Wake::Nobody),
        })
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let left = self.shared.queue.change(|queue| {
            queue.open = false;
            (std::mem::take(&mut queue.values), Wake::All)
        });
        drop(left);
    }
}
