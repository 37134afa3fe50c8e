//! Answers code that asks the machine for the time or for randomness. On a kernel thread that
//! simulates, the answer is the simulation's own. So `Instant::now()`, `SystemTime::now()` and the
//! order of a `HashMap` are the same whenever a seed is run.
//!
//! The crate defines symbols of the C library. A program that links it calls these functions, and
//! so does `std`. Link it into tests alone, as a dev-dependency, since each call costs more there:
//!
//! ```
//! use duality_outside as _;
//! ```
//!
//! Code that makes system calls itself, or asks the vDSO, is not answered: rustix does so, unless
//! its feature `use-libc` is on.

use std::ffi::c_void;

use duality_simulate::outside;

/// What the monotonic clock says when a simulation begins, in nanoseconds.
const MONOTONIC: u64 = 1_000_000_000_000_000;

/// clock_gettime(2).
///
/// # Safety
///
/// `time` is a place for a `timespec`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(
    clock: libc::clockid_t,
    time: *mut libc::timespec,
) -> libc::c_int {
    let simulated = match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => outside::time_of_day(),
        libc::CLOCK_MONOTONIC
        | libc::CLOCK_MONOTONIC_COARSE
        | libc::CLOCK_MONOTONIC_RAW
        | libc::CLOCK_BOOTTIME => outside::elapsed().map(|elapsed| MONOTONIC + elapsed),
        _ => None,
    };
    match simulated {
        Some(nanoseconds) => {
            let (seconds, rest) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
            // SAFETY: the caller promises that the place is one.
            unsafe { time.write(libc::timespec { tv_sec: seconds as _, tv_nsec: rest as _ }) };
            0
        }
        // SAFETY: the arguments are the caller's, and the kernel checks them.
        None => unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) as libc::c_int },
    }
}

/// getrandom(2).
///
/// # Safety
///
/// `buffer` is a place for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(
    buffer: *mut c_void,
    length: usize,
    flags: libc::c_uint,
) -> isize {
    if outside::elapsed().is_some() {
        // SAFETY: the caller promises that the place has this length. Zeros initialise it.
        let bytes = unsafe {
            buffer.cast::<u8>().write_bytes(0, length);
            std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length)
        };
        if outside::fill_random(bytes) {
            return length as isize;
        }
    }
    // SAFETY: the arguments are the caller's, and the kernel checks them.
    unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) as isize }
}
