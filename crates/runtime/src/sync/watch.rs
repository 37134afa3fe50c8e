//! The latest value, for many tasks that watch it.

use std::fmt;
use std::ops::Deref;
use std::panic::Location;
use std::sync::Arc;
use std::sync::RwLockReadGuard;
use std::sync::atomic::{AtomicU64, Ordering};

use super::value_lock::ValueLock;
use super::wait_queue::{Position, WaitQueue, Wake, Want};
use crate::visibility::Wait;
use crate::visibility::graph;

/// A channel that keeps the latest value. Receivers see it at any time, and wait for another one.
/// A receiver that is slow misses values in between.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::sync::watch;
/// use duality::{block_on, task};
///
/// # fn main() -> std::io::Result<()> {
/// block_on(async {
///     let (sender, mut settings) = watch::channel("slow");
///     let task = task::spawn(async move {
///         while settings.changed().await.is_ok() {
///             if *settings.borrow_and_update() == "fast" {
///                 return true;
///             }
///         }
///         false
///     })?;
///     sender.send("fast").expect("a task watches");
///     assert!(task.await.expect("the task does not panic"));
///     Ok(())
/// })
/// # }
/// ```
#[must_use]
pub fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        value: ValueLock::new(value),
        version: AtomicU64::new(0),
        ends: WaitQueue::new(Wait::Receive, Ends { senders: 1, receivers: 1 }),
        leaving: WaitQueue::new(Wait::Notify, ()),
    });
    (Sender { shared: shared.clone() }, Receiver { shared, seen: 0 })
}

struct Shared<T> {
    value: ValueLock<T>,
    /// The number of changes. It grows with the value locked for a change.
    version: AtomicU64,
    /// Receivers wait here for a change.
    ends: WaitQueue<Ends>,
    /// Senders wait here until there is no receiver.
    leaving: WaitQueue<()>,
}

struct Ends {
    senders: usize,
    receivers: usize,
}

impl<T> Shared<T> {
    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn receivers(&self) -> usize {
        self.ends.change(|ends, _| (ends.receivers, Wake::None))
    }

    fn come(self: &Arc<Self>, seen: u64) -> Receiver<T> {
        self.ends.change(|ends, _| {
            ends.receivers += 1;
            ((), Wake::None)
        });
        Receiver { shared: self.clone(), seen }
    }
}

/// The end that sets the value. There can be many.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

/// The end that sees the value. There can be many, each of which notes what it has seen.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// The version that this receiver has seen.
    seen: u64,
}

/// The value, as long as this reference is there. Changes wait until then, so keep it briefly.
pub struct Ref<'r, T> {
    value: RwLockReadGuard<'r, T>,
    has_changed: bool,
}

/// There is no receiver. The error holds the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendError<T>(pub T);

/// Every sender is gone, and the receiver has seen the last value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvError;

impl<T: Send + Sync> Sender<T> {
    /// Sets the value.
    ///
    /// # Errors
    ///
    /// The value, if there is no receiver. The channel then keeps the former value.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        if self.shared.receivers() == 0 {
            return Err(SendError(value));
        }
        drop(self.send_replace(value));
        Ok(())
    }

    /// Sets the value, with or without a receiver. Returns the former value.
    pub fn send_replace(&self, mut value: T) -> T {
        self.send_modify(|kept| std::mem::swap(kept, &mut value));
        value
    }

    /// Changes the value in place.
    ///
    /// # Panics
    ///
    /// With the panic of `modify`. Receivers are then not notified.
    pub fn send_modify(&self, modify: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            modify(value);
            true
        });
    }

    /// Changes the value in place. Notifies receivers if `modify` returns true, and returns the
    /// same.
    ///
    /// # Panics
    ///
    /// With the panic of `modify`. Receivers are then not notified.
    pub fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        let mut value = self.shared.value.write();
        let is_modified = modify(&mut value);
        if is_modified {
            self.shared.version.fetch_add(1, Ordering::Release);
        }
        drop(value);
        if is_modified {
            self.shared.ends.change(|_, _| ((), Wake::All));
        }
        is_modified
    }

    /// The value.
    #[must_use]
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref { value: self.shared.value.read(), has_changed: false }
    }
}

impl<T> Sender<T> {
    /// Another receiver, which has seen the present value.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        self.shared.come(self.shared.version())
    }

    /// The number of receivers.
    #[must_use]
    pub fn receiver_count(&self) -> usize {
        self.shared.receivers()
    }

    /// Whether there is no receiver.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.receivers() == 0
    }

    /// Waits until there is no receiver.
    #[track_caller]
    pub fn closed(&self) -> impl Future<Output = ()> {
        graph::arrive("closed", Location::caller());
        self.shared.leaving.until(NoReceiver(&self.shared.ends))
    }
}

impl<T: Send + Sync> Receiver<T> {
    /// The value. It does not count as seen.
    #[must_use]
    pub fn borrow(&self) -> Ref<'_, T> {
        let value = self.shared.value.read();
        let has_changed = self.shared.version() != self.seen;
        Ref { value, has_changed }
    }

    /// The value, which from now on counts as seen.
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let value = self.shared.value.read();
        let version = self.shared.version();
        let has_changed = std::mem::replace(&mut self.seen, version) != version;
        Ref { value, has_changed }
    }

    /// Waits until the value is one that `wanted` wants. Returns at once if it is.
    ///
    /// # Errors
    ///
    /// If every sender is gone, and the last value is none that is wanted.
    pub async fn wait_for(
        &mut self,
        mut wanted: impl FnMut(&T) -> bool,
    ) -> Result<Ref<'_, T>, RecvError> {
        loop {
            if wanted(&self.borrow_and_update()) {
                return Ok(self.borrow());
            }
            self.changed().await?;
        }
    }
}

impl<T> Receiver<T> {
    /// Waits for a value that this receiver has not seen, which then counts as seen. A wait that
    /// is given up loses nothing.
    ///
    /// # Errors
    ///
    /// If every sender is gone, and the last value has been seen.
    #[track_caller]
    pub fn changed(&mut self) -> impl Future<Output = Result<(), RecvError>> {
        graph::arrive("changed", Location::caller());
        let Self { shared, seen } = self;
        shared.ends.until(Change { version: &shared.version, seen })
    }

    /// Whether there is a value that this receiver has not seen.
    ///
    /// # Errors
    ///
    /// If every sender is gone, and the last value has been seen.
    pub fn has_changed(&self) -> Result<bool, RecvError> {
        let senders = self.shared.ends.change(|ends, _| (ends.senders, Wake::None));
        match self.shared.version() != self.seen {
            false if senders == 0 => Err(RecvError),
            has_changed => Ok(has_changed),
        }
    }

    /// Has the next [`changed`](Receiver::changed) return at once.
    pub fn mark_changed(&mut self) {
        self.seen = self.shared.version().wrapping_sub(1);
    }

    /// Has the next [`changed`](Receiver::changed) wait for a later value than the present one.
    pub fn mark_unchanged(&mut self) {
        self.seen = self.shared.version();
    }
}

impl<T> Ref<'_, T> {
    /// Whether the receiver had not seen the value.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.has_changed
    }
}

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// The wish for a version that was not seen.
struct Change<'c> {
    version: &'c AtomicU64,
    seen: &'c mut u64,
}

impl Want<Ends> for Change<'_> {
    type Gain = Result<(), RecvError>;

    fn attempt(&mut self, ends: &mut Ends, _: Position) -> Option<Self::Gain> {
        let version = self.version.load(Ordering::Acquire);
        if std::mem::replace(self.seen, version) != version {
            return Some(Ok(()));
        }
        (ends.senders == 0).then_some(Err(RecvError))
    }

    /// Nothing is handed to a single task.
    fn decline(&mut self, _: &mut Ends, _: bool) -> Wake {
        Wake::None
    }
}

/// The wish that there is no receiver.
struct NoReceiver<'c>(&'c WaitQueue<Ends>);

impl Want<()> for NoReceiver<'_> {
    type Gain = ();

    fn attempt(&mut self, (): &mut (), _: Position) -> Option<()> {
        self.0.change(|ends, _| ((ends.receivers == 0).then_some(()), Wake::None))
    }

    /// Nothing is handed to a single task.
    fn decline(&mut self, (): &mut (), _: bool) -> Wake {
        Wake::None
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.shared.ends.change(|ends, _| {
            ends.senders += 1;
            ((), Wake::None)
        });
        Self { shared: self.shared.clone() }
    }
}

impl<T> Clone for Receiver<T> {
    /// The clone has seen what this receiver has seen.
    fn clone(&self) -> Self {
        self.shared.come(self.seen)
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.shared.ends.change(|ends, _| {
            ends.senders -= 1;
            ((), if ends.senders == 0 { Wake::All } else { Wake::None })
        });
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let left = self.shared.ends.change(|ends, _| {
            ends.receivers -= 1;
            (ends.receivers, Wake::None)
        });
        if left == 0 {
            self.shared.leaving.change(|(), _| ((), Wake::All));
        }
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

impl<T: fmt::Debug> fmt::Debug for Ref<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the channel has no receiver")
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("every sender is gone")
    }
}

impl<T: fmt::Debug> std::error::Error for SendError<T> {}
impl std::error::Error for RecvError {}
