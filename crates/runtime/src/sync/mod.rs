//! Synchronisation between tasks, of any world and across kernel threads.
//!
//! All of it stands on one queue of waiters (`queue.rs`): a waiter leaves its waker there and waits as its
//! world does. A semaphore, and so a mutex, does without that as long as nobody waits (`permits.rs`).

use std::sync::atomic;

pub mod channel;
#[cfg(all(test, loom))]
mod loom_tests;
mod mutex;
mod notify;
mod permits;
mod queue;
mod semaphore;

pub use mutex::{Mutex, MutexGuard};
pub use notify::Notify;
pub use semaphore::{Permit, Semaphore};
