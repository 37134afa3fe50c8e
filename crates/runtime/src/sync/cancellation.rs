//! One order to end, for any number of tasks.

use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Weak};

use super::wait_queue::{Position, WaitQueue, Wake, Want};
use crate::visibility::Wait;
use crate::visibility::graph;

/// Tells any number of tasks to end. Clones are the same token.
///
/// The token of a part of the work is a [`child_token`](CancellationToken::child_token). The
/// cancellation of a token cancels its children, and not its parent.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::sync::CancellationToken;
/// use duality::time::{Duration, sleep};
/// use duality::{block_on, task};
///
/// # fn main() -> std::io::Result<()> {
/// block_on(async {
///     let token = CancellationToken::new();
///     let child = token.child_token();
///     let task = task::spawn(async move {
///         let hour = sleep(Duration::from_secs(3600));
///         child.run_until_cancelled(hour).await.is_none()
///     })?;
///     token.cancel();
///     assert!(task.await.expect("the task does not panic"), "it was cancelled");
///     Ok(())
/// })
/// # }
/// ```
#[derive(Clone)]
pub struct CancellationToken {
    node: Arc<Node>,
}

struct Node {
    state: WaitQueue<State>,
    /// Keeps the way from the root to this node.
    parent: Option<Arc<Node>>,
}

struct State {
    is_cancelled: bool,
    children: Vec<Weak<Node>>,
    /// Children that are gone are forgotten when there are so many.
    tidied_at: usize,
}

/// Few enough to be looked at often.
const FEW_CHILDREN: usize = 16;

impl Node {
    fn new(is_cancelled: bool, parent: Option<Arc<Node>>) -> Arc<Self> {
        let state = State { is_cancelled, children: Vec::new(), tidied_at: FEW_CHILDREN };
        Arc::new(Self { state: WaitQueue::new(Wait::Notify, state), parent })
    }
}

impl Drop for Node {
    /// A loop, because a line of descent may be longer than a stack is deep.
    fn drop(&mut self) {
        let mut parent = self.parent.take();
        while let Some(mut node) = parent.and_then(Arc::into_inner) {
            parent = node.parent.take();
        }
    }
}

impl CancellationToken {
    /// A token that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self { node: Node::new(false, None) }
    }

    /// A token that is cancelled with this one, and can be cancelled alone.
    #[must_use]
    pub fn child_token(&self) -> Self {
        let child = Node::new(false, Some(self.node.clone()));
        let is_cancelled = self.node.state.change(|state, _| {
            if !state.is_cancelled {
                if state.children.len() >= state.tidied_at {
                    state.children.retain(|child| child.strong_count() > 0);
                    state.tidied_at = (2 * state.children.len()).max(FEW_CHILDREN);
                }
                state.children.push(Arc::downgrade(&child));
            }
            (state.is_cancelled, Wake::None)
        });
        Self { node: if is_cancelled { Node::new(true, None) } else { child } }
    }

    /// Cancels this token and its children. A second call does nothing.
    pub fn cancel(&self) {
        let mut nodes = vec![self.node.clone()];
        while let Some(node) = nodes.pop() {
            let children = node.state.change(|state, _| {
                state.is_cancelled = true;
                (std::mem::take(&mut state.children), Wake::All)
            });
            nodes.extend(children.iter().filter_map(Weak::upgrade));
        }
    }

    /// Whether this token, or one that it descends from, was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.node.state.change(|state, _| (state.is_cancelled, Wake::None))
    }

    /// Waits until this token is cancelled. Returns at once if it is.
    #[track_caller]
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + '_ {
        graph::arrive("cancelled", Location::caller());
        self.node.state.until(Cancelled)
    }

    /// As [`cancelled`](CancellationToken::cancelled), without a borrow of the token.
    pub async fn cancelled_owned(self) {
        self.cancelled().await;
    }

    /// Runs `future`, and drops it where it waits when this token is cancelled. The result is then
    /// `None`.
    ///
    /// A `future` that is ready at once counts, even if the token is cancelled.
    pub async fn run_until_cancelled<F: Future>(&self, future: F) -> Option<F::Output> {
        crate::select! {
            output = future => Some(output),
            () = self.cancelled() => None,
        }
    }

    /// A guard that cancels this token when it is dropped.
    #[must_use = "the drop cancels the token"]
    pub fn drop_guard(self) -> DropGuard {
        DropGuard { token: Some(self) }
    }
}

impl Default for CancellationToken {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for CancellationToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_cancelled = self.is_cancelled();
        formatter.debug_struct("CancellationToken").field("is_cancelled", &is_cancelled).finish()
    }
}

/// Cancels a [`CancellationToken`] when it is dropped.
#[derive(Debug)]
pub struct DropGuard {
    /// `None` after `disarm`.
    token: Option<CancellationToken>,
}

impl DropGuard {
    /// The token, which the guard no longer cancels.
    pub fn disarm(mut self) -> CancellationToken {
        self.token.take().expect("only `disarm`, which takes the guard, takes the token")
    }
}

impl Drop for DropGuard {
    fn drop(&mut self) {
        if let Some(token) = &self.token {
            token.cancel();
        }
    }
}

/// The wish to be cancelled.
struct Cancelled;

impl Want<State> for Cancelled {
    type Gain = ();

    fn attempt(&mut self, state: &mut State, _: Position) -> Option<()> {
        state.is_cancelled.then_some(())
    }

    /// Nothing is handed to a single task.
    fn decline(&mut self, _: &mut State, _: bool) -> Wake {
        Wake::None
    }
}
