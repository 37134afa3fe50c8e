//! The budget of a task: the number of operations in one turn, on channels, locks, sockets, times
//! and other tasks. A task without budget gives way, and its loop looks at the poller. So it cannot
//! hold up its loop.
//!
//! The genuine tokio's channels and locks count, so all else counts with them. The genuine tokio
//! counts in a thread-local number, which its own executors set. Its interface
//! has no call that sets the number. But the drop of a [`RestoreOnPending`] puts the number back
//! that `poll_proceed` found. So each kernel thread keeps one that found the full budget.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use duality_runtime::task::end_round;
use real::task::LocalSet;
use real::task::coop::{RestoreOnPending, has_budget_remaining, poll_proceed, unconstrained};

thread_local! {
    static FULL: Cell<Option<RestoreOnPending>> = const { Cell::new(None) };
}

/// Calls `turn` with a budget of its own.
pub(crate) fn with_budget<R>(
    context: &mut Context<'_>,
    turn: impl FnOnce(&mut Context<'_>) -> R,
) -> R {
    without_budget(context, |context| {
        refill(context);
        let result = turn(context);
        if !has_budget_remaining() {
            end_round();
        }
        result
    })
}

/// Calls `operation` as one of the task's operations. Without budget, the task gives way instead.
#[inline]
pub(crate) fn counted<T>(context: &Context<'_>, operation: impl FnOnce() -> Poll<T>) -> Poll<T> {
    let budget = ready!(poll_proceed(&mut Context::from_waker(context.waker())));
    let polled = operation();
    if polled.is_ready() {
        budget.made_progress();
    }
    polled
}

/// Calls `turn` without a limit. The budget of the caller is what it was, afterwards.
pub(crate) fn without_budget<R>(
    context: &mut Context<'_>,
    turn: impl FnOnce(&mut Context<'_>) -> R,
) -> R {
    let (mut turn, mut result) = (Some(turn), None);
    let once = unconstrained(poll_fn(|context| {
        result = turn.take().map(|turn| turn(context));
        Poll::Ready(())
    }));
    let _: Poll<()> = pin!(once).poll(context);
    result.expect("a future that is polled once calls its function")
}

/// Sets the number of this kernel thread to the full budget, less the one operation of this call.
fn refill(context: &mut Context<'_>) {
    // At the end of the thread, the place is gone, and nothing limits its tasks.
    let kept = FULL.try_with(Cell::take);
    let Ok(Some(full)) = kept.map(|kept| kept.or_else(full)) else { return };
    drop(full);
    if let Poll::Ready(again) = poll_proceed(context) {
        let _ = FULL.try_with(|place| place.set(Some(again)));
    }
}

/// Finds the full budget in a task of the genuine tokio's, which needs no runtime.
fn full() -> Option<RestoreOnPending> {
    let found = Rc::new(Cell::new(None));
    let place = found.clone();
    let set = LocalSet::new();
    set.spawn_local(poll_fn(move |context| {
        poll_proceed(context).map(|budget| place.set(Some(budget)))
    }));
    let _: Poll<()> = pin!(set).poll(&mut Context::from_waker(Waker::noop()));
    found.take()
}
