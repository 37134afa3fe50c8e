//! The budget of a task: the number of operations that it may complete in one turn.
//!
//! An operation waits only if it must. So a task with a socket, a channel or a lock that is always
//! ready would never leave its kernel thread. One budget counts all operations: those on sockets,
//! files, channels and locks, on times and on other tasks. A task without budget gives way:
//!
//! ```text
//!   loops     to the other ready tasks, and to what a look at the poller wakes
//!   reactor   to the other blocks of its stage
//!   block     to nothing, since the kernel shares processors out; but its time limit is looked at
//! ```
//!
//! A combinator may poll a busy future first each time. So the other futures of the task have an
//! operation each, even without budget.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::task::{Context, Poll};

use super::Here;
use crate::gather::leave_turn;
use crate::threads;
use crate::wait::{Ambient, BUDGET, Waited, ambient};

thread_local! {
    /// The rest of the budget of a kernel thread in the block world. Only a task with a time limit
    /// or with gathered waits has one.
    static IN_PLACE: Cell<u32> = const { Cell::new(BUDGET) };
}

/// Waits until the running task has budget for an operation, and spends it.
pub(crate) fn budgeted() -> impl Future<Output = ()> + Send {
    poll_fn(|context| {
        loop {
            // SAFETY: the references end with this call.
            let here = unsafe { Here::find() };
            match here.spend(context) {
                None => return Poll::Ready(()),
                Some(Waited::Again) => {}
                Some(Waited::Pending) => return Poll::Pending,
            }
        }
    })
}

/// Lets the other tasks of this kernel thread have their turns, and then looks at the poller,
/// before the running task has another turn. For crates that count operations themselves.
pub fn end_round() {
    // SAFETY: the references end with this call.
    if let Here::Loop(core) = unsafe { Here::find() } {
        core.end_round();
    }
}

impl Here<'_> {
    /// Spends a unit of the running task's budget. Without budget, gives way first, and returns how
    /// the task goes on.
    #[inline(always)]
    pub(crate) fn spend(self, context: &Context<'_>) -> Option<Waited> {
        let has_spent = match self {
            Self::Block => ambient() == Ambient::Never || spend_in_place(),
            Self::Loop(core) => core.spend(),
            Self::Reactor(task, _) => task.spend(),
        };
        if has_spent { None } else { Some(give_way(self, context)) }
    }

    /// Takes back what was just spent on an operation that must wait.
    #[inline]
    pub(crate) fn refund(self) {
        match self {
            Self::Block => IN_PLACE.set(IN_PLACE.get() + 1),
            Self::Loop(core) => core.refund(),
            Self::Reactor(task, _) => task.refund(),
        }
    }

    /// The end of a turn of the block world, which has no other task here.
    #[inline]
    pub(super) fn yield_in_place(context: &Context<'_>) -> Waited {
        threads::yield_now();
        match ambient() {
            Ambient::Before(deadline) if threads::now() >= deadline => Waited::Pending,
            Ambient::Never | Ambient::Before(_) => Waited::Again,
            Ambient::Gather => leave_turn(context),
        }
    }
}

fn spend_in_place() -> bool {
    let left = IN_PLACE.get();
    IN_PLACE.set(left.saturating_sub(1));
    left > 0
}

/// Not inlined, unlike other waits: it is rare enough for a mispredicted return.
#[cold]
#[inline(never)]
fn give_way(here: Here<'_>, context: &Context<'_>) -> Waited {
    match here {
        Here::Block => {
            IN_PLACE.set(BUDGET);
            Here::yield_in_place(context)
        }
        // The loop has queued the task for another turn.
        Here::Loop(core) => match core.wait(None) {
            Waited::Again => Waited::Again,
            Waited::Pending => leave_turn(context),
        },
        Here::Reactor(task, _) => {
            task.leave();
            leave_turn(context)
        }
    }
}
