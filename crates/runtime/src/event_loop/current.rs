//! The loop of this kernel thread. The loop decides, at run time, which world an operation is in.

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;

use super::core::Core;
use crate::blocks;
use crate::machine::Machine;
use crate::visibility::thread_slots;

thread_local! {
    /// The loop that runs on this kernel thread, null in the block world. A plain pointer,
    /// initialised by a constant. It has no destructor, which a preloaded library could not have,
    /// and no lazy set-up.
    static LOOP: Cell<*const Core> = const { Cell::new(ptr::null()) };
    /// Points to the machine that [`enter_machine`] borrows, or is null.
    static MACHINE: Cell<*const Arc<dyn Machine>> = const { Cell::new(ptr::null()) };
}

/// Calls `operation` with the loop of this kernel thread, or with `None` in the block world.
#[inline]
pub(crate) fn with_loop<R>(operation: impl FnOnce(Option<&Core>) -> R) -> R {
    // SAFETY: the operation is called now, and cannot keep a reference.
    operation(unsafe { this_loop() })
}

/// The machine of the simulated host that runs on this kernel thread: that of its loop, or of the
/// thread itself. `None` outside of simulations.
#[inline]
pub(crate) fn machine() -> Option<Arc<dyn Machine>> {
    with_loop(|core| core.and_then(Core::machine).cloned()).or_else(machine_of_thread)
}

#[inline]
fn machine_of_thread() -> Option<Arc<dyn Machine>> {
    // SAFETY: non-null only while `enter_machine`, which borrows the machine, is on the stack
    // below.
    unsafe { MACHINE.get().as_ref() }.cloned()
}

/// Runs `body` with `machine` as that of this kernel thread.
pub(crate) fn enter_machine<R>(machine: &Arc<dyn Machine>, body: impl FnOnce() -> R) -> R {
    struct Restore(*const Arc<dyn Machine>);
    impl Drop for Restore {
        fn drop(&mut self) {
            MACHINE.set(self.0);
        }
    }
    let _restore = Restore(MACHINE.replace(ptr::from_ref(machine)));
    body()
}

/// The loop of this kernel thread, or `None` in the block world. Waits use this function. A wait
/// must be inlined into its callers ([`suspend_for`](duality_fiber::suspend_for) says why), and a
/// closure may not be.
///
/// # Safety
///
/// The reference must not outlive the call within which it was made.
#[inline]
pub(crate) unsafe fn this_loop<'a>() -> Option<&'a Core> {
    // SAFETY: non-null only while `enter`, which borrows the core, is on the stack below.
    unsafe { LOOP.get().as_ref() }
}

/// Runs `body` with `core` as this kernel thread's loop (`None`: in the block world). Restores the
/// former loop afterwards, even after a panic.
pub(crate) fn enter<R>(core: Option<&Core>, body: impl FnOnce() -> R) -> R {
    struct Restore(*const Core);
    impl Drop for Restore {
        fn drop(&mut self) {
            LOOP.set(self.0);
        }
    }
    let _slot = thread_slots::occupy();
    let _outside = blocks::Outside::enter();
    let _restore = Restore(LOOP.replace(core.map_or(ptr::null(), ptr::from_ref)));
    body()
}
