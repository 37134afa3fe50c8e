//! A place where tasks wait for each other.

use std::fmt;
use std::panic::Location;

use super::wait_queue::{Position, WaitQueue, Wake, Want};
use crate::visibility::Wait;
use crate::visibility::graph;
use crate::world::budget::budgeted;

/// Lets tasks go on together: each one waits until a number of tasks have come.
///
/// Then the barrier is closed again, for the next round.
///
/// ```
/// # use duality_runtime as duality;
/// use std::sync::Arc;
///
/// use duality::sync::Barrier;
/// use duality::{block_on, task};
///
/// # fn main() -> std::io::Result<()> {
/// block_on(async {
///     let barrier = Arc::new(Barrier::new(3));
///     let mut tasks = Vec::new();
///     for _ in 0..3 {
///         let barrier = barrier.clone();
///         tasks.push(task::spawn(async move { barrier.wait().await.is_leader() })?);
///     }
///     let mut leaders = 0;
///     for task in tasks {
///         leaders += u32::from(task.await.expect("the task does not panic"));
///     }
///     assert_eq!(leaders, 1);
///     Ok(())
/// })
/// # }
/// ```
pub struct Barrier {
    size: usize,
    state: WaitQueue<State>,
}

struct State {
    /// The tasks that have come in this round.
    waiting: usize,
    round: u64,
}

/// What [`Barrier::wait`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierWaitResult {
    is_leader: bool,
}

impl BarrierWaitResult {
    /// Whether this task is the one of its round that came last.
    #[must_use]
    pub const fn is_leader(self) -> bool {
        self.is_leader
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Barrier").field("size", &self.size).finish_non_exhaustive()
    }
}

impl Barrier {
    /// A barrier for `size` tasks. No task waits at one of size 0 or 1.
    #[must_use]
    pub const fn new(size: usize) -> Self {
        Self { size, state: WaitQueue::new(Wait::Notify, State { waiting: 0, round: 0 }) }
    }

    /// Waits until as many tasks have come as the barrier's size says.
    ///
    /// A task that gives up its wait no longer counts, unless the barrier has opened meanwhile.
    /// With tokio it still counts.
    #[track_caller]
    pub fn wait(&self) -> impl Future<Output = BarrierWaitResult> + Send + '_ {
        graph::arrive("barrier", Location::caller());
        async {
            budgeted().await;
            let round = self.state.change(|state, _| {
                state.waiting += 1;
                if state.waiting < self.size {
                    return (Some(state.round), Wake::None);
                }
                state.waiting = 0;
                state.round += 1;
                (None, Wake::All)
            });
            if let Some(round) = round {
                let arrival = Arrival { barrier: self, round };
                self.state.until(Over(round)).await;
                drop(arrival);
            }
            graph::depart();
            BarrierWaitResult { is_leader: round.is_none() }
        }
    }
}

/// The arrival of a task, which its drop takes back if the round is not over.
struct Arrival<'b> {
    barrier: &'b Barrier,
    round: u64,
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        self.barrier.state.change(|state, _| {
            if state.round == self.round {
                state.waiting -= 1;
            }
            ((), Wake::None)
        });
    }
}

/// The wish that a round is over.
struct Over(u64);

impl Want<State> for Over {
    type Gain = ();

    fn attempt(&mut self, state: &mut State, _: Position) -> Option<()> {
        (state.round != self.0).then_some(())
    }

    /// Nothing is handed to a single task.
    fn decline(&mut self, _: &mut State, _: bool) -> Wake {
        Wake::None
    }
}
