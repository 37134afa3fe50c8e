//! Clocks. All of them go as the simulation's time does, those of processor time too.

use std::ffi::{c_int, c_void};

use crate::outside;

use crate::kernel::kernel;

/// What the monotonic clock says when a simulation begins, in nanoseconds.
const MONOTONIC: u64 = 1_000_000_000_000_000;

/// What a clock says on a simulated host, in nanoseconds.
fn simulated(clock: libc::clockid_t) -> Option<u64> {
    match clock {
        libc::CLOCK_REALTIME
        | libc::CLOCK_REALTIME_COARSE
        | libc::CLOCK_REALTIME_ALARM
        | libc::CLOCK_TAI => outside::time_of_day(),
        libc::CLOCK_MONOTONIC
        | libc::CLOCK_MONOTONIC_COARSE
        | libc::CLOCK_MONOTONIC_RAW
        | libc::CLOCK_BOOTTIME
        | libc::CLOCK_BOOTTIME_ALARM => outside::elapsed().map(|elapsed| MONOTONIC + elapsed),
        // Processor time of a process or a thread.
        _ => outside::elapsed(),
    }
}

/// clock_gettime(2).
///
/// # Safety
///
/// `time` is a place for a `timespec`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn clock_gettime(
    clock: libc::clockid_t,
    time: *mut libc::timespec,
) -> c_int {
    match simulated(clock) {
        Some(nanoseconds) => {
            let (seconds, rest) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
            // SAFETY: the caller promises that the place is one.
            unsafe { time.write(libc::timespec { tv_sec: seconds as _, tv_nsec: rest as _ }) };
            0
        }
        // SAFETY: the arguments are the caller's, and the kernel checks them.
        None => unsafe {
            kernel(libc::SYS_clock_gettime, [clock as usize, time as usize, 0, 0]) as c_int
        },
    }
}

/// time(2).
///
/// # Safety
///
/// `place` is null or a place for the time.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn time(place: *mut libc::time_t) -> libc::time_t {
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
pub(crate) unsafe extern "C" fn gettimeofday(
    place: *mut libc::timeval,
    _zone: *mut c_void,
) -> c_int {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a place for a `timespec`.
    unsafe { clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
    // SAFETY: the caller promises that the place is one, if it is not null.
    if let Some(place) = unsafe { place.as_mut() } {
        *place = libc::timeval { tv_sec: now.tv_sec, tv_usec: now.tv_nsec / 1000 };
    }
    0
}

/// clock(3): processor time in microseconds.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn clock() -> libc::clock_t {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a place for a `timespec`.
    unsafe { clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut now) };
    now.tv_sec * 1_000_000 + now.tv_nsec / 1000
}
