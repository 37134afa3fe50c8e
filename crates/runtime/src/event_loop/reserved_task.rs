//! Room for a task that does not exist yet. An acceptor reserves it before it accepts a connection,
//! so that every accepted connection can be served.

use std::fmt;

use duality_fiber::Stack;

use super::core::Core;
use super::current;
use super::tasks::TaskBody;
use crate::blocks::BoxedFuture;

/// Room for one task: its stack, if tasks have one.
pub struct ReservedTask {
    pub(super) stack: Option<Stack>,
}

impl fmt::Debug for ReservedTask {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ReservedTask").finish_non_exhaustive()
    }
}

impl ReservedTask {
    pub(super) fn new(stack: Option<Stack>) -> Self {
        Self { stack }
    }

    /// Starts `future` as a task of this kernel thread's loop. A panic in the task is reported and
    /// ends the task.
    ///
    /// # Panics
    ///
    /// If this kernel thread runs no loop.
    #[inline]
    pub fn spawn(self, future: BoxedFuture) {
        here(|core| match self.stack {
            None => core.insert(|| TaskBody::Future(future)),
            Some(stack) => core.insert_fiber(stack, || future),
        });
    }
}

fn here<R>(use_core: impl FnOnce(&Core) -> R) -> R {
    current::with_loop(|core| {
        use_core(core.expect("a reserved task is spawned on the loop that made it"))
    })
}
