//! A bounded queue from many tasks to one.

use std::collections::VecDeque;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use super::wait_queue::{Position, WaitQueue, Wake, Want};
use crate::visibility::Wait;
use crate::visibility::graph;

/// A channel that holds at most `capacity` values. Waiting senders get room in the order in which
/// they came.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::sync::channel::bounded;
/// use duality::{block_on, task};
///
/// # fn main() -> std::io::Result<()> {
/// block_on(async {
///     let (sender, mut receiver) = bounded(1);
///     let task = task::spawn(async move {
///         for number in 1..=3 {
///             sender.send(number).await.expect("the receiver is there");
///         }
///     })?;
///     let mut sum = 0;
///     while let Some(number) = receiver.recv().await {
///         sum += number;
///     }
///     assert_eq!(sum, 6);
///     task.await.expect("the task does not panic");
///     Ok(())
/// })
/// # }
/// ```
///
/// # Panics
///
/// If `capacity` is zero.
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "a channel needs room for one value");
    let queue = Queue { values: VecDeque::new(), capacity, promised: 0, senders: 1, open: true };
    let shared = Arc::new(Shared {
        queue: WaitQueue::new(Wait::Send, queue),
        arrivals: WaitQueue::new(Wait::Receive, ()),
    });
    (Sender { shared: shared.clone() }, Receiver { shared })
}

/// Senders wait on `queue`, and the receiver on `arrivals`, so that each side wakes only the other.
struct Shared<T> {
    queue: WaitQueue<Queue<T>>,
    arrivals: WaitQueue<()>,
}

struct Queue<T> {
    values: VecDeque<T>,
    capacity: usize,
    /// Room that has been handed to senders that have not taken it yet.
    promised: usize,
    senders: usize,
    open: bool,
}

impl<T> Shared<T> {
    fn tell_receiver(&self) {
        self.arrivals.change(|(), _| ((), Wake::All));
    }
}

impl<T> Queue<T> {
    fn has_room(&self) -> bool {
        self.values.len() + self.promised < self.capacity
    }

    /// Takes the first value out. Its room goes to the sender that has waited longest.
    fn take(&mut self, waited: bool) -> (Option<T>, Wake) {
        match self.values.pop_front() {
            Some(value) => (Some(value), self.hand_room(waited)),
            None => (None, Wake::None),
        }
    }

    fn hand_room(&mut self, waited: bool) -> Wake {
        self.promised += usize::from(waited);
        Wake::One
    }
}

/// The wish to send a value, which leaves this struct when it is sent.
struct Sending<'v, T>(&'v mut Option<T>);

impl<T> Want<Queue<T>> for Sending<'_, T> {
    /// Whether the value was sent. Otherwise the receiver is gone.
    type Gain = bool;

    fn attempt(&mut self, queue: &mut Queue<T>, position: Position) -> Option<bool> {
        let has_room = match position {
            Position::Handed => {
                queue.promised -= 1;
                true
            }
            Position::First => queue.has_room(),
            Position::Behind => false,
        };
        if !queue.open {
            return Some(false);
        }
        has_room.then(|| {
            queue.values.extend(self.0.take());
            true
        })
    }

    fn decline(&mut self, queue: &mut Queue<T>, waited: bool) -> Wake {
        queue.promised -= 1;
        queue.hand_room(waited)
    }
}

/// The wish to receive a value, or to learn that there will be none.
struct Receiving<'q, T>(&'q WaitQueue<Queue<T>>);

impl<T> Want<()> for Receiving<'_, T> {
    type Gain = Option<T>;

    fn attempt(&mut self, (): &mut (), _: Position) -> Option<Option<T>> {
        self.0.change(|queue, waited| {
            let (value, wake) = queue.take(waited);
            let ended = value.is_none() && queue.senders == 0;
            ((value.is_some() || ended).then_some(value), wake)
        })
    }

    /// There is one receiver, which attempts again whenever it is woken.
    fn decline(&mut self, (): &mut (), _: bool) -> Wake {
        Wake::None
    }
}

/// The sending end. There can be many.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::block_on;
/// use duality::sync::channel::{SendError, bounded};
///
/// let (sender, receiver) = bounded(1);
/// assert_eq!(sender.try_send("first"), Ok(()));
/// assert_eq!(sender.try_send("second"), Err(SendError("second")), "the channel is full");
/// drop(receiver);
/// assert_eq!(block_on(sender.send("third")), Err(SendError("third")));
/// ```
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sender").finish_non_exhaustive()
    }
}

/// The receiver is gone, or (for `try_send`) there is no room. The error holds the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendError<T>(pub T);

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the channel takes no more values")
    }
}

impl<T: fmt::Debug> std::error::Error for SendError<T> {}

impl<T> Sender<T> {
    /// Sends a value, and waits for room. The drop of the future before its end drops the value.
    ///
    /// # Errors
    ///
    /// The value, if the receiver is gone.
    #[track_caller]
    pub fn send(&self, value: T) -> impl Future<Output = Result<(), SendError<T>>> {
        graph::arrive("send", Location::caller());
        async {
            let mut value = Some(value);
            let sent = self.shared.queue.until(Sending(&mut value)).await;
            self.sent(sent, value)
        }
    }

    /// Sends a value if there is room that no other sender waits for.
    ///
    /// # Errors
    ///
    /// The value, if there is no such room or the receiver is gone.
    pub fn try_send(&self, value: T) -> Result<(), SendError<T>> {
        let mut value = Some(value);
        let sent = self.shared.queue.change(|queue, waited| {
            let fits = queue.open && !waited && queue.has_room();
            if fits {
                queue.values.extend(value.take());
            }
            (fits, Wake::None)
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
        self.shared.queue.change(|queue, _| {
            queue.senders += 1;
            ((), Wake::None)
        });
        Self { shared: self.shared.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.shared.queue.change(|queue, _| {
            queue.senders -= 1;
            ((), Wake::None)
        });
        self.shared.tell_receiver();
    }
}

/// The receiving end.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::block_on;
/// use duality::sync::channel::bounded;
///
/// let (sender, mut receiver) = bounded(2);
/// sender.try_send("last words").unwrap();
/// drop(sender);
/// assert_eq!(block_on(receiver.recv()), Some("last words"));
/// assert_eq!(block_on(receiver.recv()), None);
/// ```
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Receiver").finish_non_exhaustive()
    }
}

impl<T> Receiver<T> {
    /// Receives the next value, and waits for one. `None` if every sender is gone and no value is
    /// left. A wait that is given up loses no value.
    #[track_caller]
    pub fn recv(&mut self) -> impl Future<Output = Option<T>> {
        graph::arrive("receive", Location::caller());
        self.shared.arrivals.until(Receiving(&self.shared.queue))
    }

    /// Receives the next value if there is one.
    pub fn try_recv(&mut self) -> Option<T> {
        self.shared.queue.change(Queue::take)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let left = self.shared.queue.change(|queue, _| {
            queue.open = false;
            (std::mem::take(&mut queue.values), Wake::All)
        });
        drop(left);
    }
}
