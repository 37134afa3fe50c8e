//! syscall(2), by which some libraries ask the kernel. getrandom 0.2 does, and so does ring.

use std::ffi::c_long;

use crate::kernel::own;
use crate::{clocks, processes, random, sleeps};

/// syscall(2). What has a function of C here is answered by that function.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn syscall(
    number: c_long,
    one: usize,
    two: usize,
    three: usize,
    four: usize,
    five: usize,
    six: usize,
) -> c_long {
    // SAFETY: the arguments are the caller's, and those of the functions are the calls' own.
    unsafe {
        match number {
            libc::SYS_getrandom => random::getrandom(one as _, two, three as _) as _,
            libc::SYS_clock_gettime => clocks::clock_gettime(one as _, two as _).into(),
            libc::SYS_gettimeofday => clocks::gettimeofday(one as _, two as _).into(),
            libc::SYS_nanosleep => sleeps::nanosleep(one as _, two as _).into(),
            libc::SYS_getpid => processes::getpid().into(),
            _ => own()(number, one, two, three, four, five, six),
        }
    }
}
