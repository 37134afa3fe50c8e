//! x86-64, by the System V ABI: a switch keeps rbx, rbp, r12 to r15 and the stack pointer.
//!
//! ```text
//!   left:    │ rbx │ rbp │ where to go on ◀─ place
//!   fresh:   │ data … │ main │ begin      ◀─ place
//! ```

use std::arch::{asm, naked_asm};
use std::cell::Cell;

use super::StackPointer;

/// The words on a fresh stack below the data.
pub(super) type First = [usize; 2];

/// The words by which `main` is called.
pub(super) fn first(main: usize) -> First {
    [begin as *const () as usize, main]
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
    // SAFETY: each register that must be kept is pushed, or declared as changed. Everything else
    // that a call may change is declared too.
    unsafe {
        asm!(
            "push rbx",
            "push rbp",
            "lea rcx, [rip + 2f]",
            "push rcx",
            "mov [rdi], rsp",
            "mov rsp, [rsi]",
            "mov qword ptr [rsi], 0",
            "pop rcx",
            "jmp rcx",
            "2:",
            "pop rbp",
            "pop rbx",
            inout("rdi") from.as_ptr() => _,
            inout("rsi") to.as_ptr() => _,
            inout("rax") message => handed,
            out("r12") _, out("r13") _, out("r14") _, out("r15") _,
            clobber_abi("sysv64"),
        );
    }
    handed
}

/// The code at which a fresh stack begins. Every walk along the stack ends here.
#[unsafe(naked)]
extern "C" fn begin() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "pop rcx",
        "mov rdi, rsp",
        "mov rsi, rax",
        "xor ebp, ebp",
        "call rcx",
        "ud2",
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
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "mov rsp, rdx",
        "and rsp, -16",
        "call rsi",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}
