//! What a running server shows of itself: counters, and what each task does or waits for.
//!
//! ```text
//!   kernel threads                      the hall (shared with child processes)        readers
//!   ┌──────────┐  plain stores          ┌──────────────────────────────────┐  loads
//!   │ a loop   │───────────────────────▶│ seat 0: counters, task, stage …  │──────▶ totals()
//!   │ a thread │───────────────────────▶│ seat 1: counters, stage, wait …  │──────▶ threads()
//!   │ a child  │───────────────────────▶│ seat 2: …                        │──────▶ loops()
//!   └──────────┘                        └──────────────────────────────────┘
//!        ▲  bell, then a report of its tasks
//!        └────────────────────────────────────────── survey() ◀── a watching kernel thread
//! ```
//!
//! Each kernel thread that runs tasks has a *seat* that it alone writes to: so a count costs a load, an
//! add and a store, and no atomic read-modify-write. The hall is one shared mapping, so that the seats of
//! the processes of `fork` and `prefork` are read like those of threads. What the tasks of a loop wait
//! for stands in the loop's own table; the loop reports it when it is asked ([`survey()`]).
//!
//! Nothing here prints: `duality serve` does, by a kernel thread of its own that [`wait`]s.

mod bell;
mod counters;
mod label;
mod places;
pub(crate) mod seats;
mod sign;
pub(crate) mod survey;
mod trace;
pub(crate) mod waits;

pub use bell::{prepare, request_dump, wait};
pub use counters::Totals;
pub use seats::{
    ChildSeat, LoopTurn, TaskTurn, ThreadReport, Threads, loops, threads, totals, uncounted_threads,
};
pub use survey::{LoopReport, Survey, TaskReport, survey};
pub use trace::{Trace, install_sampling, name_frames, name_instruction, sample};
pub use waits::Wait;

pub(crate) use counters::Counters;
pub(crate) use label::Label;
pub(crate) use sign::Sign;
pub(crate) use trace::capture;

use crate::world;

/// Adds to the counters of this kernel thread, if it has a seat.
#[inline]
pub(crate) fn count(change: impl FnOnce(&Counters)) {
    seats::with(|seat| change(&seat.counters));
}

/// Notes that the running task has reached a stage.
#[inline]
pub(crate) fn stage(name: &'static str) {
    let label = Label::new(name);
    count(|counters| counters.stages.add(1));
    world::with_loop(|core| match core {
        Some(core) => core.set_stage(label),
        None => seats::with(|seat| seat.set_stage(label)),
    });
}

/// The name of the stage that the running task has reached last, if it has one and this kernel thread is seen.
#[must_use]
pub fn current_stage() -> Option<String> {
    let stage = world::with_loop(|core| match core {
        Some(core) => core.stage(),
        None => {
            let mut stage = Label::NONE;
            seats::with(|seat| stage = seat.stage());
            stage
        }
    });
    stage.name()
}

/// Counts a connection whose service begins on this kernel thread, with the bytes of its task's state.
pub fn connection_began(state: usize) {
    count(|counters| {
        counters.connections_begun.add(1);
        counters.task_state_allocated_bytes.add(state as u64);
    });
}

/// Counts a file of a store that a service has opened on this kernel thread, or has had opened by it.
pub fn store_opened() {
    count(|counters| counters.stores_opened.add(1));
}

/// Counts a connection whose service has ended on this kernel thread.
pub fn connection_ended() {
    count(|counters| counters.connections_ended.add(1));
}
