//! System calls, past the functions that this crate defines.

use std::ffi::{c_long, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::genuine;

/// The arguments are as many as a system call has at most. What the caller has not given is not
/// looked at.
pub(crate) type Call =
    unsafe extern "C" fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long;

/// The C library's function.
pub(crate) fn own() -> Call {
    static OWN: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    let mut own = OWN.load(Ordering::Relaxed);
    if own.is_null() {
        own = genuine(c"syscall");
        OWN.store(own, Ordering::Relaxed);
    }
    // SAFETY: this is the function's type, as far as callers of C are concerned.
    unsafe { std::mem::transmute(own) }
}

/// A system call, past this crate.
///
/// # Safety
///
/// As with syscall(2). Arguments that the call does not have are 0.
pub(crate) unsafe fn kernel(number: c_long, arguments: [usize; 4]) -> c_long {
    let [one, two, three, four] = arguments;
    // SAFETY: the caller promises what the call needs.
    unsafe { own()(number, one, two, three, four, 0, 0) }
}
