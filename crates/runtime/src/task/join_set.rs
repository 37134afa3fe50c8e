//! A set of tasks that end together with it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use super::{AbortHandle, Aborted, JoinError, JoinHandle, abortable, spawn};
use crate::sync::Notify;

/// Tasks that report their results in the order in which they end. The drop of the set aborts the
/// tasks that are left.
///
/// The tasks are [`abortable`], so their waits are [gathered](super::gather).
///
/// ```
/// # use duality_runtime as duality;
/// use duality::block_on;
/// use duality::task::JoinSet;
/// use duality::time::{Duration, sleep};
///
/// # fn main() -> std::io::Result<()> {
/// block_on(async {
///     let mut set = JoinSet::new();
///     for milliseconds in [3_600_000, 1] {
///         set.spawn(async move {
///             sleep(Duration::from_millis(milliseconds)).await;
///             milliseconds
///         })?;
///     }
///     assert_eq!(set.join_next().await, Some(Ok(1)));
///     set.shutdown().await;
///     assert!(set.is_empty());
///     Ok(())
/// })
/// # }
/// ```
pub struct JoinSet<T> {
    /// In the order in which they were spawned.
    members: BTreeMap<u64, Member<T>>,
    spawned: u64,
    ended: Arc<Ended>,
    /// A member that has ended and that `join_next` waits for, briefly.
    next: Option<u64>,
}

struct Member<T> {
    handle: JoinHandle<Result<T, Aborted>>,
    abort: AbortHandle,
}

/// The numbers of tasks that have ended, or are about to.
struct Ended {
    numbers: Mutex<VecDeque<u64>>,
    told: Notify,
}

/// Notes the end of a task when it is dropped.
struct NotesEnd {
    ended: Arc<Ended>,
    number: u64,
}

impl Drop for NotesEnd {
    fn drop(&mut self) {
        let mut numbers = self.ended.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        numbers.push_back(self.number);
        drop(numbers);
        self.ended.told.notify_one();
    }
}

impl<T> JoinSet<T> {
    /// A set without tasks.
    #[must_use]
    pub fn new() -> Self {
        let ended = Ended { numbers: Mutex::default(), told: Notify::new() };
        Self { members: BTreeMap::new(), spawned: 0, ended: Arc::new(ended), next: None }
    }

    /// The number of tasks that still have a result to take.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether all results have been taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Aborts all tasks. [`join_next`](JoinSet::join_next) still returns each one: as cancelled,
    /// or with its result if it has ended before.
    pub fn abort_all(&self) {
        self.members.values().for_each(|member| member.abort.abort());
    }

    /// Takes all tasks out of the set. They run on.
    pub fn detach_all(&mut self) {
        self.members.clear();
        self.next = None;
    }

    /// Takes the number of the next task that has ended.
    fn find_next(&mut self) -> Option<u64> {
        let mut numbers = self.ended.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        while self.next.is_none() {
            // A task that could not be spawned, or that was detached, is no member.
            let number = numbers.pop_front()?;
            self.next = self.members.contains_key(&number).then_some(number);
        }
        self.next
    }
}

impl<T: Send + 'static> JoinSet<T> {
    /// Starts `future` as a task of this set. The handle aborts this task alone.
    ///
    /// # Errors
    ///
    /// The errors of [`spawn`].
    pub fn spawn<F>(&mut self, future: F) -> io::Result<AbortHandle>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let number = self.spawned;
        let notes_end = NotesEnd { ended: self.ended.clone(), number };
        let (future, abort) = abortable(future);
        let handle = spawn(async move {
            let _notes_end = notes_end;
            future.await
        })?;
        self.spawned += 1;
        self.members.insert(number, Member { handle, abort: abort.clone() });
        Ok(abort)
    }

    /// Waits for the next task that ends, and returns its result. `None` if the set is empty. A
    /// wait that is given up loses no result.
    ///
    /// # Errors
    ///
    /// If the task panicked or was aborted.
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        let number = loop {
            if self.members.is_empty() {
                return None;
            }
            match self.find_next() {
                Some(number) => break number,
                None => self.ended.told.notified().await,
            }
        };
        let member = self.members.get_mut(&number).expect("find_next finds members");
        let outcome = (&mut member.handle).await;
        self.taken(number);
        Some(flat(outcome))
    }

    /// The result of a task that has ended, if there is one.
    ///
    /// # Errors
    ///
    /// If the task panicked or was aborted.
    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
        let number = self.find_next()?;
        let member = self.members.get_mut(&number).expect("find_next finds members");
        let outcome = member.handle.outcome()?;
        self.taken(number);
        Some(flat(outcome))
    }

    /// Aborts all tasks, and waits until they have ended.
    pub async fn shutdown(&mut self) {
        self.abort_all();
        while self.join_next().await.is_some() {}
    }

    /// Waits for all tasks, and returns their results in the order in which the tasks ended.
    ///
    /// # Panics
    ///
    /// With the panic of a task, and if a task was aborted. The others are then aborted.
    pub async fn join_all(mut self) -> Vec<T> {
        let mut results = Vec::with_capacity(self.len());
        while let Some(result) = self.join_next().await {
            match result.map_err(JoinError::try_into_panic) {
                Ok(result) => results.push(result),
                Err(Ok(payload)) => std::panic::resume_unwind(payload),
                Err(Err(error)) => panic!("{error}"),
            }
        }
        results
    }

    fn taken(&mut self, number: u64) {
        self.members.remove(&number);
        self.next = None;
    }
}

fn flat<T>(outcome: Result<Result<T, Aborted>, JoinError>) -> Result<T, JoinError> {
    outcome?.map_err(|Aborted| JoinError::CANCELLED)
}

impl<T> Default for JoinSet<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for JoinSet<T> {
    fn drop(&mut self) {
        self.abort_all();
    }
}

impl<T> fmt::Debug for JoinSet<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("JoinSet").field("len", &self.len()).finish_non_exhaustive()
    }
}
