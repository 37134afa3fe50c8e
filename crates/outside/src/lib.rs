//! Answers code that asks the machine for the time, for randomness, for the address of a host, or
//! for a kernel thread. On a kernel thread that simulates, the answer is the simulation's own. So
//! `Instant::now()`, `SystemTime::now()` and the order of a `HashMap` are the same whenever a seed
//! is run. A name is that of a simulated host. A kernel thread runs before its starter goes on, and
//! one that waits is refused. A sync of a file on a host's disk is noted. A listener of `std` binds
//! no port of the machine.
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

mod files;
mod names;
mod sockets;
mod threads;

use std::ffi::{CStr, c_void};

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

/// time(2).
///
/// # Safety
///
/// `place` is null or a place for the time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn time(place: *mut libc::time_t) -> libc::time_t {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a place for a `timespec`.
    unsafe { clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
    // SAFETY: the caller promises that the place is one, if it is not null.
    if let Some(place) = unsafe { place.as_mut() } {
        *place = now.tv_sec;
    }
    now.tv_sec
}

/// gettimeofday(2), without a time zone.
///
/// # Safety
///
/// `place` is null or a place for a `timeval`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(
    place: *mut libc::timeval,
    _zone: *mut c_void,
) -> libc::c_int {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a place for a `timespec`.
    unsafe { clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
    // SAFETY: the caller promises that the place is one, if it is not null.
    if let Some(place) = unsafe { place.as_mut() } {
        *place = libc::timeval { tv_sec: now.tv_sec, tv_usec: now.tv_nsec / 1000 };
    }
    0
}

/// The C library's own function of a name that this crate defines.
fn genuine(name: &CStr) -> *mut c_void {
    // SAFETY: the name is a string of C.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    assert!(!found.is_null(), "the C library has {name:?}: link it dynamically");
    found
}
