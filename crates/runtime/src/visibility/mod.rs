//! The visible state of a running server: counters, and the work or wait of each task.
//!
//! ```text
//!   kernel threads                      table of slots (shared with child processes)   readers
//!   ┌──────────┐  plain stores          ┌──────────────────────────────────┐  loads
//!   │ a loop   │───────────────────────▶│ slot 0: counters, task, stage …  │──────▶ totals()
//!   │ a thread │───────────────────────▶│ slot 1: counters, stage, wait …  │──────▶ threads()
//!   │ a child  │───────────────────────▶│ slot 2: …                        │──────▶ loops()
//!   └──────────┘                        └──────────────────────────────────┘
//!        ▲  interrupt, then a report of its tasks
//!        └────────────────────────────────────────── survey() ◀── a watching kernel thread
//! ```
//!
//! Each kernel thread that runs tasks has a *slot* that it alone writes to. So a count takes a
//! load, an add and a store, and no atomic read-modify-write. The table is one shared mapping, so
//! the slots of `fork`'s and `prefork`'s processes are read like those of threads. A loop's table
//! holds the waits of its tasks, and the loop reports them on request ([`survey()`]).
//!
//! This module does not print. `duality serve` prints from a separate kernel thread, which waits in
//! [`wait_for_dump_request`].

mod counters;
mod dump;
mod free_list;
pub(crate) mod graph;
mod label;
mod latencies;
mod queues;
mod records;
mod request_log;
mod requests;
mod shown_task;
mod stage_names;
pub(crate) mod survey;
pub(crate) mod thread_slots;
mod trace;
pub(crate) mod waits;

pub use counters::Totals;
pub use dump::{prepare_dumps, request_dump, wait_for_dump_request};
pub use graph::{Edge, Node, graph, prepare_graph};
pub use latencies::{Latencies, count_late_requests, latencies, prepare_latencies};
pub use queues::{QueueGauges, QueueReport, queues};
pub use records::{Record, prepare_records, records};
pub use request_log::{RequestLog, dropped_log_lines, prepare_request_log};
pub use requests::{Timing, time_request};
pub use survey::{LoopReport, Survey, TaskReport, survey};
pub use thread_slots::{
    ChildSlot, LoopTurn, Occupancy, TaskTurn, ThreadReport, Threads, loops, occupy, threads,
    totals, uncounted_threads,
};
pub use trace::{Trace, install_sampling, name_frames, name_instruction, sample};
pub use waits::Wait;

pub(crate) use counters::Counters;
pub(crate) use label::Label;
pub(crate) use records::block_begins;
pub(crate) use requests::Client;
pub(crate) use shown_task::ShownTask;
pub(crate) use trace::capture;

/// Adds to the counters of this kernel thread, if it has a slot.
#[inline]
pub(crate) fn count(change: impl FnOnce(&Counters)) {
    thread_slots::with(|slot| change(&slot.counters));
}

/// Counts an idle thread of a pool or stage that this kernel thread wakes for work.
pub fn thread_woken() {
    count(|counters| counters.threads_woken.add(1));
}

/// Counts a connection that this kernel thread has accepted by its own call.
pub fn connection_accepted() {
    count(|counters| counters.connections_accepted.add(1));
}

/// Counts a connection as its service begins on this kernel thread, with the bytes of its task's
/// state.
pub fn connection_began(state: usize) {
    count(|counters| {
        counters.connections_begun.add(1);
        counters.task_state_allocated_bytes.add(state as u64);
    });
}

/// Counts a file of a store that a service has opened, itself or through a helper.
pub fn store_opened() {
    count(|counters| counters.stores_opened.add(1));
}

/// Counts a connection as its service ends on this kernel thread.
pub fn connection_ended() {
    count(|counters| counters.connections_ended.add(1));
}

/// Counts a request with an answer that tells of a failure of the service.
pub fn note_failed_request() {
    count(|counters| counters.requests_failed.add(1));
}
