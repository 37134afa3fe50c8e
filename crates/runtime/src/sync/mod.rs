//! Synchronisation between tasks, of any world and across kernel threads.
//!
//! All types use one queue of waiters (`wait_queue.rs`): a waiter leaves its waker there and waits
//! as in its world. A semaphore, and so a mutex, does not use the queue as long as no task waits
//! (`permits.rs`).
//!
//! **Order.** All types are fair: first come, first served. A newcomer cannot take what was handed
//! to a waiter. A waiter's place in the order is the time of its future's first poll.
//!
//! - [`Semaphore`] and [`Mutex`] give the permit, or the lock, to waiters in the order in which
//!   they came.
//!
//! - [`Notify::notify_one`] notifies the waiter that came first.
//!
//! - [`Notify::notify_waiters`] notifies all waiters. The waiters run in the order in which they
//!   came.
//!
//! - [`channel`] gives room to senders in the order in which they came. Values leave in the order
//!   in which they went in.
//!
//! - [`RwLock`] has readers and writers in the order in which they came. Readers that follow each
//!   other read at the same time.
//!
//! [`broadcast`], [`watch`], [`Barrier`] and [`CancellationToken`] hand nothing to a single task.
//! They wake all tasks that wait, in the order in which they came.
//!
//! `try_acquire`, `try_lock` and `try_send` fail while tasks wait. Fairness costs a switch of tasks
//! for each release while tasks wait. A task that wants the lock again right after its release goes
//! to the end of the line.

use std::sync::atomic;

mod barrier;
pub mod broadcast;
mod cancellation;
pub mod channel;
#[cfg(all(test, loom))]
mod loom_tests;
mod mutex;
mod notify;
pub mod oneshot;
mod permits;
mod rwlock;
mod semaphore;
mod value_lock;
mod wait_queue;
mod waiter_list;
pub mod watch;

pub use barrier::{Barrier, BarrierWaitResult};
pub use cancellation::{CancellationToken, DropGuard};
pub use mutex::{Mutex, MutexGuard};
pub use notify::Notify;
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::{Permit, Semaphore};
