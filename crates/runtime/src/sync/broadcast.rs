//! A bounded queue from many tasks to many, each of which receives every value.

use std::collections::VecDeque;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use super::wait_queue::{Position, WaitQueue, Wake, Want};
use crate::visibility::Wait;
use crate::visibility::graph;

/// A channel in which each receiver receives a clone of every value sent after it came.
///
/// A send never waits. The channel keeps the last `capacity` values. A receiver that is slower
/// learns how many values it has missed, and goes on with the oldest one that is kept.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::block_on;
/// use duality::sync::broadcast::{RecvError, channel};
///
/// block_on(async {
///     let (sender, mut one) = channel(2);
///     let mut other = sender.subscribe();
///     sender.send("first").unwrap();
///     sender.send("second").unwrap();
///     assert_eq!(one.recv().await, Ok("first"));
///     sender.send("third").unwrap();
///     assert_eq!(one.recv().await, Ok("second"));
///     assert_eq!(other.recv().await, Err(RecvError::Lagged(1)));
///     assert_eq!(other.recv().await, Ok("second"));
///     drop(sender);
///     assert_eq!(other.recv().await, Ok("third"));
///     assert_eq!(other.recv().await, Err(RecvError::Closed));
/// });
/// ```
///
/// Values are cloned and dropped under the channel's lock. Send an `Arc` if that takes long.
///
/// # Panics
///
/// If `capacity` is zero.
#[must_use]
pub fn channel<T: Clone>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "a channel needs room for one value");
    let kept = Kept { values: VecDeque::new(), first: 0, capacity, senders: 1, receivers: 1 };
    let kept = Arc::new(WaitQueue::new(Wait::Receive, kept));
    (Sender { kept: kept.clone() }, Receiver { kept, next: 0 })
}

/// The values that a receiver may still want.
struct Kept<T> {
    values: VecDeque<Slot<T>>,
    /// The number of the first value in `values`. The first value sent has the number 0.
    first: u64,
    capacity: usize,
    senders: usize,
    receivers: usize,
}

struct Slot<T> {
    value: T,
    /// The receivers that have not received the value.
    left: usize,
}

impl<T> Kept<T> {
    /// The number of the value that is sent next.
    fn end(&self) -> u64 {
        self.first + self.values.len() as u64
    }

    fn index(&self, number: u64) -> usize {
        number.saturating_sub(self.first) as usize
    }

    /// Drops the values that all receivers have received.
    fn trim(&mut self) {
        while self.values.front().is_some_and(|slot| slot.left == 0) {
            self.values.pop_front();
            self.first += 1;
        }
    }
}

impl<T: Clone> Kept<T> {
    fn receive(&mut self, next: &mut u64) -> Result<T, TryRecvError> {
        if *next < self.first {
            let missed = self.first - *next;
            *next = self.first;
            return Err(TryRecvError::Lagged(missed));
        }
        let index = self.index(*next);
        let Some(slot) = self.values.get_mut(index) else {
            return Err(match self.senders {
                0 => TryRecvError::Closed,
                _ => TryRecvError::Empty,
            });
        };
        let value = slot.value.clone();
        slot.left -= 1;
        *next += 1;
        self.trim();
        Ok(value)
    }
}

/// The sending end. There can be many.
pub struct Sender<T> {
    kept: Arc<WaitQueue<Kept<T>>>,
}

/// The receiving end. There can be many, which all receive the same values.
pub struct Receiver<T> {
    kept: Arc<WaitQueue<Kept<T>>>,
    /// The number of the next value.
    next: u64,
}

/// There is no receiver. The error holds the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendError<T>(pub T);

/// There is no value for this receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvError {
    /// Every sender is gone, and no value is left.
    Closed,
    /// The receiver was too slow, and has missed so many values.
    Lagged(u64),
}

/// There is no value for this receiver now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// Another value may come.
    Empty,
    /// Every sender is gone, and no value is left.
    Closed,
    /// The receiver was too slow, and has missed so many values.
    Lagged(u64),
}

impl<T> Sender<T> {
    /// Sends a value to all receivers, and returns their number. Does not wait.
    ///
    /// # Errors
    ///
    /// The value, if there is no receiver. A later [`subscribe`](Sender::subscribe) may make one.
    pub fn send(&self, value: T) -> Result<usize, SendError<T>> {
        let (sent, replaced) = self.kept.change(|kept, _| {
            if kept.receivers == 0 {
                return ((Err(SendError(value)), None), Wake::None);
            }
            let mut replaced = None;
            if kept.values.len() == kept.capacity {
                replaced = kept.values.pop_front();
                kept.first += 1;
            }
            kept.values.push_back(Slot { value, left: kept.receivers });
            ((Ok(kept.receivers), replaced), Wake::All)
        });
        drop(replaced);
        sent
    }

    /// Another receiver, for the values that are sent from now on.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver::after_now(&self.kept)
    }

    /// The number of receivers.
    #[must_use]
    pub fn receiver_count(&self) -> usize {
        self.kept.change(|kept, _| (kept.receivers, Wake::None))
    }

    /// The number of values that some receiver has not received.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kept.change(|kept, _| (kept.values.len(), Wake::None))
    }

    /// Whether all receivers have received all values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Clone> Receiver<T> {
    /// Receives the next value, and waits for one. A wait that is given up loses no value.
    ///
    /// # Errors
    ///
    /// [`RecvError::Lagged`] if values were missed. The next call receives the oldest value that is
    /// kept. [`RecvError::Closed`] if every sender is gone and no value is left.
    #[track_caller]
    pub fn recv(&mut self) -> impl Future<Output = Result<T, RecvError>> {
        graph::arrive("receive", Location::caller());
        self.kept.until(Receiving(&mut self.next))
    }

    /// Receives the next value if there is one.
    ///
    /// # Errors
    ///
    /// Those of [`recv`](Receiver::recv), and [`TryRecvError::Empty`].
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        self.kept.change(|kept, _| (kept.receive(&mut self.next), Wake::None))
    }
}

impl<T> Receiver<T> {
    /// Another receiver, for the values that are sent from now on.
    #[must_use]
    pub fn resubscribe(&self) -> Self {
        Self::after_now(&self.kept)
    }

    fn after_now(kept: &Arc<WaitQueue<Kept<T>>>) -> Self {
        let next = kept.change(|kept, _| {
            kept.receivers += 1;
            (kept.end(), Wake::None)
        });
        Self { kept: kept.clone(), next }
    }

    /// The number of values that are sent and not received, those included that were missed.
    #[must_use]
    pub fn len(&self) -> usize {
        let end = self.kept.change(|kept, _| (kept.end(), Wake::None));
        (end - self.next) as usize
    }

    /// Whether there is no value to receive.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The wish for the value with this number, or to learn that there will be none.
struct Receiving<'r>(&'r mut u64);

impl<T: Clone> Want<Kept<T>> for Receiving<'_> {
    type Gain = Result<T, RecvError>;

    fn attempt(&mut self, kept: &mut Kept<T>, _: Position) -> Option<Self::Gain> {
        match kept.receive(self.0) {
            Ok(value) => Some(Ok(value)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Closed) => Some(Err(RecvError::Closed)),
            Err(TryRecvError::Lagged(missed)) => Some(Err(RecvError::Lagged(missed))),
        }
    }

    /// Nothing is handed to a single task.
    fn decline(&mut self, _: &mut Kept<T>, _: bool) -> Wake {
        Wake::None
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.kept.change(|kept, _| {
            kept.senders += 1;
            ((), Wake::None)
        });
        Self { kept: self.kept.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.kept.change(|kept, _| {
            kept.senders -= 1;
            ((), if kept.senders == 0 { Wake::All } else { Wake::None })
        });
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.kept.change(|kept, _| {
            kept.receivers -= 1;
            let index = kept.index(self.next);
            kept.values.iter_mut().skip(index).for_each(|slot| slot.left -= 1);
            kept.trim();
            ((), Wake::None)
        });
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Receiver").finish_non_exhaustive()
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the channel has no receiver")
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => formatter.write_str("every sender is gone"),
            Self::Lagged(missed) => {
                write!(formatter, "the receiver was too slow, and has missed {missed} values")
            }
        }
    }
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Empty => formatter.write_str("there is no value now"),
            Self::Closed => RecvError::Closed.fmt(formatter),
            Self::Lagged(missed) => RecvError::Lagged(missed).fmt(formatter),
        }
    }
}

impl<T: fmt::Debug> std::error::Error for SendError<T> {}
impl std::error::Error for RecvError {}
impl std::error::Error for TryRecvError {}
