//! The park and the suspend world: how a task of a loop waits.
//!
//! ```text
//!                   ┌─ park:    switch to the next ready fiber, or to the loop;
//!   Core::wait ─────┤           comes back, by another switch, in the task's next turn
//!                   └─ suspend: return Pending to the loop, which polls the task again
//! ```
//!
//! In the park world a task is a fiber: a user-level thread. The task's future is polled once, on
//! the fiber's stack. It never returns `Pending`, because each wait within it leaves the stack and
//! comes back.
//!
//! In the suspend world, the compiler has turned the service into a state machine. The state
//! machine holds exactly the values that are alive at each wait. This is the continuation of
//! selective CPS conversion (Kerneis & Chroboczek 2009).

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use duality_fiber::{Fiber, Stack, suspend_for};

use super::LoopWorld;
use super::core::Core;
use super::{current, waker};
use crate::gather;
use crate::visibility::graph;
use crate::wait::{Ambient, Waited, ambient, earlier, set_ambient};

impl Core {
    /// Leaves the running task until it is woken, `deadline` passes or the ambient deadline does.
    ///
    /// Inlined into its callers, as [`suspend_for`] is.
    #[inline(always)]
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> Waited {
        let ambient = match ambient() {
            Ambient::Never => None,
            // The time limit has passed: the caller has made its last attempt.
            Ambient::Before(ambient) if ambient <= self.now() => return Waited::Pending,
            Ambient::Before(ambient) => Some(ambient),
            Ambient::Gather => return Waited::Pending,
        };
        if let Some(deadline) = earlier(deadline, ambient)
            && let Some(name) = self.tasks.running().name()
        {
            self.timers.borrow_mut().set(name.slot(), deadline);
        }
        // If the task is woken otherwise, its timer stays set. The next deadline replaces it.
        // Without a later deadline, the timer wakes the task once in vain.
        self.leave(ambient)
    }

    /// Leaves the running task until the other ready tasks have had a turn.
    #[inline(always)]
    pub(crate) fn wait_for_turn(&self, context: &Context<'_>) -> Waited {
        self.tasks.requeue_running();
        match ambient() {
            Ambient::Never => self.leave(None),
            Ambient::Before(ambient) if ambient <= self.now() => Waited::Pending,
            Ambient::Before(ambient) => self.leave(Some(ambient)),
            Ambient::Gather => gather::leave_turn(context),
        }
    }

    /// Leaves the running task until its next turn. `ambient` is its ambient deadline.
    #[inline(always)]
    fn leave(&self, ambient: Option<Instant>) -> Waited {
        match (self.world(), ambient) {
            (LoopWorld::Suspend, _) => Waited::Pending,
            (LoopWorld::Park { .. }, Some(deadline)) => self.park_before(deadline),
            (LoopWorld::Park { .. }, None) => {
                let trace = graph::leave();
                // SAFETY: a fiber with a turn is suspended, or had its turn until now. The fiber
                // stays in its control block until the turn ends.
                unsafe { suspend_for(|| self.next_fiber()) };
                graph::come_back(trace);
                Waited::Again
            }
        }
    }

    /// Parks the running task under an ambient deadline. Other tasks run on this kernel thread in
    /// between, each with its own deadline.
    ///
    /// After the deadline too, the operation is attempted once more, as in the suspend world.
    /// There, the operation is polled before its time limit is checked. The next wait then finds
    /// that the deadline has passed.
    #[cold]
    fn park_before(&self, deadline: Instant) -> Waited {
        set_ambient(Ambient::Never);
        self.leave(None);
        set_ambient(Ambient::Before(deadline));
        Waited::Again
    }
}

/// The fiber that runs, on `stack`, the future that `make` makes. `waker` wakes the task that the
/// fiber becomes.
#[inline(always)]
pub(super) fn fiber<F: Future<Output = ()> + 'static>(
    stack: Stack,
    waker: Waker,
    make: impl FnOnce() -> F,
) -> Fiber {
    Fiber::with(stack, make, move |mut future| {
        let mut context = Context::from_waker(&waker);
        // `Pending` comes from a foreign future, or from gathered waits. Both use the waker.
        while future.as_mut().poll(&mut context).is_pending() {
            // SAFETY: the reference ends with this call. The loop that has given this fiber a turn
            // lives until the fiber has ended or is dropped. A drop unwinds from here without
            // another look at the loop.
            let core = unsafe { current::this_loop() }.expect("a fiber is run by a loop");
            core.leave(None);
        }
    })
}

/// Runs a future to its end on the stack of the running task, which waits there. A future that
/// polls several ones must be gathered. Gives the future back if the running task is a state
/// machine, or if no task of a loop runs.
///
/// # Errors
///
/// The future, if there is no stack to wait on.
pub fn wait_on_stack<F: Future>(future: F) -> Result<F::Output, F> {
    let waker = current::with_loop(|core| {
        let core = core.filter(|core| matches!(core.world(), LoopWorld::Park { .. }))?;
        core.tasks.running().name().map(|name| waker::of(Some(name)))
    });
    let Some(waker) = waker else { return Err(future) };
    // The task may be within a gathered wait, of which the future is no part.
    let outer = set_ambient(Ambient::Never);
    let mut future = pin!(future);
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            set_ambient(outer);
            return Ok(output);
        }
        // SAFETY: the reference ends with this call. The loop lives until the fiber has ended or is
        // dropped. A drop unwinds from here without another look at the loop.
        let core = unsafe { current::this_loop() }.expect("a fiber is run by a loop");
        core.leave(None);
    }
}
