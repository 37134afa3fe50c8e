//! Synchronisation between tasks, of any world and across kernel threads.
//!
//! All of it stands on one queue of waiters (`wait_queue.rs`): a waiter leaves its waker there and
//! waits as its world does. A semaphore, and so a mutex, does without that as long as nothing waits
//! (`permits.rs`).
//!
//! **Order.** All of it is fair: first come, first served. A newcomer cannot take what was handed
//! to a waiter. A waiter comes when its future is polled first.
//!
//! - [`Semaphore`] and [`Mutex`] give the permit, or the lock, to waiters in the order in which
//!   they came.
//!
//! - [`Notify::notify_one`] tells the waiter that came first.
//!
//! - [`Notify::notify_waiters`] tells all waiters. They run in the order in which they came.
//!
//! - [`channel`] gives room to senders in the order in which they came. Values leave in the order
//!   in which they went in.
//!
//! `try_acquire`, `try_lock` and `try_send` fail while tasks wait. To be fair costs a switch of
//! tasks for each release while tasks wait. A task that wants back what it just released goes to
//! the end of the line.

use std::sync::atomic;

pub mod channel;
#[cfg(all(test, loom))]
mod loom_tests;
mod mutex;
mod notify;
pub mod oneshot;
mod permits;
mod semaphore;
mod wait_queue;
mod waiter_list;

pub use mutex::{Mutex, MutexGuard};
pub use notify::Notify;
pub use semaphore::{Permit, Semaphore};
