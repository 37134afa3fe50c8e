//! AArch64, by its procedure call standard: a switch keeps x19 to x29, the low halves of v8 to v15
//! and the stack pointer.
//!
//! ```text
//!   left:    │ (free) │ where to go on │ x29 │ x19 ◀─ place
//!   fresh:   │ data … │ main │ begin │ 0 │ 0      ◀─ place
//! ```

use std::arch::{asm, naked_asm};
use std::cell::Cell;

use super::StackPointer;

/// The words on a fresh stack below the data.
pub(super) type First = [usize; 4];

/// The words by which `main` is called.
pub(super) fn first(main: usize) -> First {
    [0, 0, begin as *const () as usize, main]
}

/// Leaves the running stack, and notes in `from` where the stack was left. Goes on at the stack
/// left at `to`, and hands `message` over. Returns the message of the switch that comes back.
/// `from` and `to` may be the same.
///
/// # Safety
///
/// A stack was left or prepared at `to`, and no other code goes on there. `from` is valid until a
/// switch comes back.
#[inline(always)]
pub(crate) unsafe fn switch(
    from: &Cell<StackPointer>,
    to: &Cell<StackPointer>,
    message: usize,
) -> usize {
    let handed;
    // SAFETY: each register that must be kept is stored, or declared as changed. Everything else
    // that a call may change is declared too.
    unsafe {
        asm!(
            "adr x3, 2f",
            "sub sp, sp, #32",
            "stp x19, x29, [sp]",
            "str x3, [sp, #16]",
            "mov x3, sp",
            "str x3, [x0]",
            "ldr x3, [x1]",
            "str xzr, [x1]",
            "mov sp, x3",
            "ldr x3, [sp, #16]",
            "br x3",
            "2:",
            "hint #36", // bti j
            "ldp x19, x29, [sp]",
            "add sp, sp, #32",
            inout("x0") from.as_ptr() => _,
            inout("x1") to.as_ptr() => _,
            inout("x2") message => handed,
            out("x20") _, out("x21") _, out("x22") _, out("x23") _, out("x24") _,
            out("x25") _, out("x26") _, out("x27") _, out("x28") _,
            out("v8") _, out("v9") _, out("v10") _, out("v11") _,
            out("v12") _, out("v13") _, out("v14") _, out("v15") _,
            clobber_abi("C"),
        );
    }
    handed
}

/// The code at which a fresh stack begins. Every walk along the stack ends here.
#[unsafe(naked)]
extern "C" fn begin() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined lr",
        "hint #36", // bti j
        "ldr x3, [sp, #24]",
        "add sp, sp, #32",
        "mov x0, sp",
        "mov x1, x2",
        "mov x29, xzr",
        "mov x30, xzr",
        "blr x3",
        "brk #1",
        ".cfi_endproc",
    )
}

/// Calls `function` with `data` on another stack, below `place`. `function` must not panic.
///
/// # Safety
///
/// The stack was left at `place`, and has room.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn call_on(
    data: *mut (),
    function: unsafe extern "C" fn(*mut ()),
    place: StackPointer,
) {
    naked_asm!(
        ".cfi_startproc",
        "hint #34", // bti c
        "stp x29, x30, [sp, #-16]!",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset x29, -16",
        ".cfi_offset x30, -8",
        "mov x29, sp",
        ".cfi_def_cfa_register x29",
        "and x2, x2, #-16",
        "mov sp, x2",
        "blr x1",
        "mov sp, x29",
        "ldp x29, x30, [sp], #16",
        ".cfi_def_cfa sp, 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "ret",
        ".cfi_endproc",
    )
}
