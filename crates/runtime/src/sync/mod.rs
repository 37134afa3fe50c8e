//! Synchronisation between tasks, of any world and across kernel threads.
//!
//! All of it stands on one queue of waiters (`queue.rs`): a waiter leaves its waker there and waits as its
//! world does.

pub mod channel;
mod mutex;
mod notify;
mod queue;
mod semaphore;

pub use mutex::{Mutex, MutexGuard};
pub use notify::Notify;
pub use semaphore::{Permit, Semaphore};
