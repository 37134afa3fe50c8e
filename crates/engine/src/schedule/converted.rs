//! What the runtime of a converted program says about itself: `struct engine_facts` of
//! `convert/runtime/engine.h`.

use crate::kernel::lock::Setting;
use crate::kernel::plain::Plain;
use crate::kernel::user;
use crate::schedule::task::TaskRef;

#[repr(C)]
#[derive(Clone, Copy)]
struct Facts {
    /// A function of type `Naming`.
    name: usize,
    /// A function of type `Leaving`.
    leave: usize,
    /// The addresses of the runtime's code.
    start: u64,
    end: u64,
}

// SAFETY: the struct has no padding, and each of its bit patterns is valid.
unsafe impl Plain for Facts {}

type Naming = extern "C" fn(TaskRef) -> usize;
type Leaving = extern "C" fn() -> i32;

/// The address of the facts. Zero in a program that was not converted.
static FACTS: Setting<usize> = Setting::new(0);

pub(crate) fn learn(facts: usize) {
    FACTS.set(facts);
}

/// Whether the program was converted.
pub(crate) fn exists() -> bool {
    FACTS.get() != 0
}

fn facts() -> Option<Facts> {
    let address = FACTS.get();
    if address == 0 { None } else { user::read(address).ok() }
}

/// Whether the address is in the runtime's code.
pub(crate) fn is_runtime(address: u64) -> bool {
    facts().is_some_and(|facts| (facts.start..facts.end).contains(&address))
}

/// The program's name of a task.
pub(crate) fn name(task: TaskRef, into: &mut [u8]) -> &[u8] {
    let Some(Facts { name, .. }) = facts() else { return b"" };
    // SAFETY: the runtime gave a function of this type, which may be called anywhere.
    let naming: Naming = unsafe { core::mem::transmute(name) };
    user::read_text(naming(task), into).unwrap_or(b"")
}

/// Asks the runtime to have the current thread leave its loop, together with the task that it runs.
/// Returns whether it has left.
pub(crate) fn leave() -> bool {
    let Some(Facts { leave, .. }) = facts() else { return false };
    // SAFETY: as above. The current thread is on its own stack, and was interrupted outside of the
    // runtime.
    let leaving: Leaving = unsafe { core::mem::transmute(leave) };
    leaving() != 0
}
