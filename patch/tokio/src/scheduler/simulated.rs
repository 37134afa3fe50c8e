//! The current runtime of a simulated host. Several hosts share a kernel thread, so the runtimes
//! that code has entered stand with the host. All its tasks have the one that was entered last.
//!
//! A host is a program from the beginning of its `main`, so it always has a runtime.

use duality_runtime::machine::with_place;
use duality_runtime::net::SimulatedSockets;

use super::{Builder, Handle};

/// The runtimes that code of the host has entered. A number stays the place of its runtime.
type Entered = Vec<Option<Handle>>;

/// Whether a simulated host runs on this kernel thread.
pub(super) fn is_here() -> bool {
    SimulatedSockets::here().is_some()
}

fn with_entered<R>(operation: impl FnOnce(&mut Entered) -> R) -> Option<R> {
    with_place(|place| {
        let entered = place.get_or_insert_with(|| Box::new(Entered::new()));
        entered.downcast_mut().map(operation)
    })?
}

/// The runtime that was entered last, or one that the host then has from now on.
pub(super) fn current() -> Option<Handle> {
    let last = with_entered(|entered| entered.iter().flatten().next_back().cloned())?;
    last.or_else(|| {
        let runtime = Builder::new_multi_thread().build().ok()?;
        let handle = runtime.handle().clone();
        // The runtime ends with the host, since its tasks are the host's.
        std::mem::forget(runtime);
        enter(&handle)?;
        Some(handle)
    })
}

pub(super) fn enter(handle: &Handle) -> Option<usize> {
    with_entered(|entered| {
        entered.push(Some(handle.clone()));
        entered.len()
    })
}

/// Ends [`enter`], which returned `depth`. False outside of simulations.
///
/// Tasks that wait on stacks may end in any order.
pub(super) fn exit(depth: usize) -> bool {
    let left = with_entered(|entered| {
        let left = depth.checked_sub(1).and_then(|place| entered.get_mut(place)?.take());
        while entered.last().is_some_and(Option::is_none) {
            entered.pop();
        }
        left
    });
    // The handle is dropped here, where its destructors may ask for the current runtime.
    left.is_some()
}
