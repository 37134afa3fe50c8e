//! The switch between two stacks: the registers that a function must keep, and the stack pointer.
//!
//! ```text
//!   the stack that is left             the stack that goes on
//!   │ …                │               │ …                │
//!   │ kept registers   │               │ kept registers   │  ─▶ restored
//!   │ where to go on   │ ◀─ *from      │ where to go on   │  ─▶ jumped to      ◀─ *to, taken
//! ```
//!
//! The switch goes from any stack to any other; a call and a return cannot. A waiting thread hands
//! the processor to the next thread, and the loop's stack sleeps. The switch is a jump, inlined
//! into the function that waits. A processor predicts the target of a return from the calls before
//! it. If the switch were a call or a return, the processor would predict one stack's returns from
//! the other stack's calls. Each return would cost twenty cycles. A processor predicts the target
//! of a jump from the jumps before it.
//!
//! To the compiler, the switch is a piece of assembly that changes all registers. So the compiler
//! itself saves the values that it needs in other registers.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use std::cell::Cell;
use std::ptr;

#[cfg(target_arch = "aarch64")]
use aarch64 as processor;
#[cfg(target_arch = "x86_64")]
use x86_64 as processor;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!(
    "user-level threads are there for x86-64 and AArch64; crates/fiber/src/switch has a file for each"
);

/// The place where a stack was left. Null if the stack does not go on.
pub(crate) type StackPointer = *mut u8;

pub(crate) use processor::{call_on, switch};

/// Lays out a stack below `base`, a multiple of 16, and moves `data` to it. The first switch to the
/// stack then calls `main` with the address of `data` and the message of the switch.
///
/// # Safety
///
/// Below `base` there are as many bytes of memory as [`room_for`] says, and no other code uses
/// them. Only `main` can drop `data`.
pub(crate) unsafe fn prepare<D>(
    base: usize,
    data: D,
    main: extern "C" fn(*mut D, usize) -> !,
) -> StackPointer {
    let data_at = (base - size_of::<D>()) & !(alignment::<D>() - 1);
    let words = processor::first(main as *const () as usize);
    let left_at: StackPointer = ptr::with_exposed_provenance_mut(data_at - size_of_val(&words));
    // SAFETY: the data and the words below it take at most `room_for` bytes. The caller promises
    // that these bytes exist and that no other code uses them. The data has the alignment of its
    // type, and the words lie at a multiple of 16.
    unsafe {
        ptr::with_exposed_provenance_mut::<D>(data_at).write(data);
        ptr::write(left_at.cast(), words);
    }
    left_at
}

/// The most bytes that [`prepare`] uses, including the bytes that it skips for alignment.
pub(crate) const fn room_for<D>() -> usize {
    size_of::<D>() + alignment::<D>() + size_of::<processor::First>()
}

/// The alignment of the data's address. Calls begin there, and need at least 16.
const fn alignment<D>() -> usize {
    if align_of::<D>() > 16 { align_of::<D>() } else { 16 }
}

/// A place for a stack pointer, without one yet.
pub(crate) const fn nowhere() -> Cell<StackPointer> {
    Cell::new(ptr::null_mut())
}
