//! Room for a task that does not exist yet. An acceptor reserves it before it accepts a connection, so that every
//! connection that is accepted can be served.

use std::fmt;
use std::future::Future;

use duality_fiber::Stack;

use super::LoopWorld;
use super::core::Core;
use super::current;
use super::recycler::{BoxedFuture, boxed_future};
use super::tasks::TaskBody;

/// Room for one task: its stack, where tasks have one.
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

    /// Starts `future` as a task of this kernel thread's loop. A panic in it is reported and ends it.
    ///
    /// # Panics
    ///
    /// When this kernel thread runs no loop.
    #[inline]
    pub fn spawn(self, future: BoxedFuture) {
        here(|core| match self.stack {
            None => core.insert(|| TaskBody::Future(future.into())),
            Some(stack) => core.insert_fiber(stack, || future),
        });
    }

    /// The same, for a future that is not there yet: `make` makes it where it will be. Unless it is large, it lives on its
    /// stack.
    ///
    /// A micro-optimisation: it saves a block, and at each wake a page to touch. Its gain has not been measured alone (`duality
    /// model --measure park spawn 5000000`, and `cargo bench -p duality-runtime --bench wakes`); delete it if both gain less
    /// than 3 %.
    pub(crate) fn spawn_unboxed<F>(self, make: impl FnOnce() -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        match (self.stack, here(Core::world)) {
            (Some(stack), LoopWorld::Park { stack_size }) if size_of::<F>() < stack_size / 16 => {
                here(|core| core.insert_fiber(stack, make));
            }
            (stack, _) => Self { stack }.spawn(boxed_future(make())),
        }
    }
}

fn here<R>(use_core: impl FnOnce(&Core) -> R) -> R {
    current::with_loop(|core| {
        use_core(core.expect("a reserved task is spawned on the loop that made it"))
    })
}
