//! The suspend world: a wait returns `Pending`.
//!
//! The compiler has turned the service into a state machine that holds what is alive at each wait, and
//! no more: the continuation of selective CPS conversion (Kerneis & Chroboczek 2009). To wait is to
//! return it to the loop, which polls it again when the task has been woken.

use super::Waited;

/// There is nothing to do but to say so.
pub(crate) const fn wait() -> Waited {
    Waited::Pending
}
