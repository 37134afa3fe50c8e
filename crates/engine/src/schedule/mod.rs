//! Threads and tasks, the workers that run them, and their queues.
//!
//! ```text
//!   thread, task ─▶ waiter ─▶ scheduler     run queues, parked ones   timers: their deadlines
//!   worker, more_workers, idle ─▶ pump       kernel threads that run them, and look at descriptors
//!   ticks: preemption   loops: tasks of converted programs   helpers, in_place: calls that block
//! ```
//!
//! Everything here is under the one lock (`kernel/lock.rs`), except data of a single worker.

pub(crate) mod aside;
pub(crate) mod attributes;
pub(crate) mod converted;
pub(crate) mod every_worker;
pub(crate) mod helpers;
pub(crate) mod idle;
pub(crate) mod in_place;
pub(crate) mod kernel_thread;
pub(crate) mod loops;
pub(crate) mod more_workers;
pub(crate) mod processor_time;
pub(crate) mod pump;
pub(crate) mod scheduler;
pub(crate) mod stacks;
pub(crate) mod task;
pub(crate) mod thread;
pub(crate) mod ticks;
pub(crate) mod timers;
pub(crate) mod waiter;
pub(crate) mod worker;
