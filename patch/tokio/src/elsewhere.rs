//! Futures that another executor polls, on a thread that runs neither a loop nor `block_on`. Such a
//! thread cannot wait for a descriptor or a time, so the entered runtime waits and wakes it.
//!
//! ```text
//!   futures::executor::block_on ──▶ poll ─ would wait ─▶ a task of the entered runtime ─▶ wakers
//! ```
//!
//! Such an executor may poll a socket many times before it is ready. One task waits for each
//! direction of a socket, and has the wakers of all polls.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use duality_poller::Direction;
use duality_runtime::net::SharedDescriptor;
use duality_runtime::time::Alarm;
use rustix::fs::{FileType, fstat};

use crate::join::JoinHandle;
use crate::scheduler::{Handle, RuntimeId, context};

/// The runtime that must wait for the calling code. `None` if the calling code can wait, or if no
/// runtime is entered.
fn helper() -> Option<Handle> {
    match context::is_inside() {
        true => None,
        false => context::try_current().ok(),
    }
}

/// Returns `polled`. If it is pending, has the task woken once the descriptor is ready, by a
/// duplicate of the descriptor.
#[inline]
pub(crate) fn helped<T>(
    descriptor: impl AsFd,
    context: &Context<'_>,
    direction: Direction,
    polled: Poll<io::Result<T>>,
) -> Poll<io::Result<T>> {
    if polled.is_pending()
        && let Some(runtime) = helper()
    {
        wait_elsewhere(&runtime, descriptor.as_fd(), direction, context.waker())?;
    }
    polled
}

/// Has `runtime` use the waker once the descriptor is ready.
#[cold]
fn wait_elsewhere(
    runtime: &Handle,
    descriptor: BorrowedFd<'_>,
    direction: Direction,
    waker: &Waker,
) -> io::Result<()> {
    let key = Key::of(runtime, descriptor, direction)?;
    if key.is_some_and(|key| join(key, waker)) {
        return Ok(());
    }
    let ends = Ends { key, waker: key.is_none().then(|| waker.clone()) };
    // From here on, a drop of `ends` forgets the wakers.
    let duplicate = SharedDescriptor::of_nonblocking(descriptor.try_clone_to_owned()?);
    runtime.spawn(async move {
        let _ = poll_fn(|context| duplicate.poll_ready(context, direction)).await;
        ends.wake();
    });
    Ok(())
}

/// What a task waits for. Only descriptors with an inode of their own have a key: all eventfds have
/// the same inode. The task's duplicate keeps the inode from being used again.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
struct Key {
    runtime: RuntimeId,
    inode: (u64, u64),
    direction: Direction,
}

impl Key {
    fn of(
        runtime: &Handle,
        descriptor: BorrowedFd<'_>,
        direction: Direction,
    ) -> io::Result<Option<Self>> {
        let status = fstat(descriptor)?;
        let has_own = FileType::from_raw_mode(status.st_mode) == FileType::Socket;
        let inode = (status.st_dev, status.st_ino);
        Ok(has_own.then(|| Self { runtime: runtime.id(), inode, direction }))
    }
}

/// The wakers of each task that waits.
fn waiting() -> MutexGuard<'static, Option<HashMap<Key, Vec<Waker>>>> {
    static WAITING: Mutex<Option<HashMap<Key, Vec<Waker>>>> = Mutex::new(None);
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a waker to those of a key. Returns whether a task waits for it already.
fn join(key: Key, waker: &Waker) -> bool {
    let mut waiting = waiting();
    let wakers = waiting.get_or_insert_default().entry(key).or_default();
    let is_awaited = !wakers.is_empty();
    if !wakers.iter().any(|known| known.will_wake(waker)) {
        wakers.push(waker.clone());
    }
    is_awaited
}

/// The end of a task that waits. A task that is dropped before wakes nothing, because its runtime
/// has ended.
struct Ends {
    /// The wakers are noted under this key.
    key: Option<Key>,
    /// The only waker, without a key.
    waker: Option<Waker>,
}

impl Ends {
    fn wake(mut self) {
        self.take().into_iter().for_each(Waker::wake);
    }

    /// The wakers, which are forgotten.
    fn take(&mut self) -> Vec<Waker> {
        let shared = self.key.take().and_then(|key| waiting().as_mut()?.remove(&key));
        shared.unwrap_or_default().into_iter().chain(self.waker.take()).collect()
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// A sleep that a runtime waits for.
#[derive(Debug, Default)]
pub(crate) struct Sleeping(Option<JoinHandle<()>>);

impl Sleeping {
    /// Forgets the sleep, since its time has changed.
    pub(crate) fn stop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
        }
    }

    /// Waits until `deadline`. `None` if the calling code can wait by itself.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>, until: Instant) -> Option<Poll<()>> {
        if self.0.is_none() {
            self.0 = Some(helper()?.spawn(Alarm::new(Some(until))));
        }
        let task = Pin::new(self.0.as_mut()?);
        let ended = match task.poll(context) {
            Poll::Pending => return Some(Poll::Pending),
            Poll::Ready(ended) => ended,
        };
        self.0 = None;
        // A runtime that has ended waits for nothing.
        ended.is_ok().then_some(Poll::Ready(()))
    }
}

impl Drop for Sleeping {
    fn drop(&mut self) {
        self.stop();
    }
}
