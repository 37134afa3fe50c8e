//! Threads and tasks, their queues, and the state of the workers that run them.
//!
//! ```text
//!   thread, task ─▶ waiter ─▶ scheduler     run queues, parked ones   timers: their deadlines
//!   edges, poll_node                         those that wait for one descriptor, or for several
//!   worker, idle                             kernel threads that run them, or have nothing to run
//!   ticks: preemption   loops: tasks of converted programs   context: interrupted registers
//!   stacks, aside: of threads   inspection: for debuggers
//! ```
//!
//! Everything here is under the one lock (`kernel/lock.rs`), except data of a single worker.

pub(crate) mod aside;
pub(crate) mod attributes;
pub(crate) mod context;
pub(crate) mod converted;
pub(crate) mod edges;
pub(crate) mod every_worker;
pub(crate) mod idle;
pub(crate) mod inspection;
pub(crate) mod loops;
pub(crate) mod poll_node;
pub(crate) mod processor_time;
pub(crate) mod scheduler;
pub(crate) mod stacks;
pub(crate) mod task;
pub(crate) mod thread;
pub(crate) mod ticks;
pub(crate) mod timers;
pub(crate) mod waiter;
pub(crate) mod worker;
