//! Sleeps of kernel threads. A simulated kernel thread waits in the simulation's time. A host that
//! is a loop would stop with all its tasks, so that there a sleep is refused.

use std::ffi::{c_int, c_uint};
use std::time::Duration;

use crate::outside;

use crate::kernel::kernel;
use crate::{fail, place};

/// Sleeps in the simulation. False outside of simulations.
fn sleeps(duration: Duration) -> bool {
    if outside::elapsed().is_none() {
        return false;
    }
    if !outside::sleep(duration) {
        outside::refuse(format!(
            "a simulated host sleeps on its kernel thread{}: use time::sleep",
            place()
        ));
    }
    true
}

/// The duration of a `timespec`. `None` if it is none.
///
/// # Safety
///
/// `time` is null, or a `timespec`.
unsafe fn duration(time: *const libc::timespec) -> Option<Duration> {
    // SAFETY: the caller promises it.
    let time = unsafe { time.as_ref() }?;
    let nanoseconds = u32::try_from(time.tv_nsec).ok().filter(|rest| *rest < 1_000_000_000)?;
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, nanoseconds))
}

/// nanosleep(2).
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nanosleep(
    time: *const libc::timespec,
    rest: *mut libc::timespec,
) -> c_int {
    // SAFETY: the caller promises a `timespec`.
    match unsafe { duration(time) } {
        Some(duration) if sleeps(duration) => 0,
        // SAFETY: the arguments are the caller's, and the kernel checks them.
        _ => unsafe { kernel(libc::SYS_nanosleep, [time as usize, rest as usize, 0, 0]) as c_int },
    }
}

/// clock_nanosleep(2). It returns the error, and sets no `errno`.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn clock_nanosleep(
    clock: libc::clockid_t,
    flags: c_int,
    time: *const libc::timespec,
    rest: *mut libc::timespec,
) -> c_int {
    // SAFETY: the caller promises a `timespec`.
    let asked = unsafe { duration(time) };
    let duration = match flags & libc::TIMER_ABSTIME {
        0 => asked,
        _ => asked.map(|until| {
            let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: `now` is a place for a `timespec`.
            unsafe { crate::clocks::clock_gettime(clock, &raw mut now) };
            // SAFETY: `now` is a `timespec`.
            until.saturating_sub(unsafe { duration(&raw const now) }.unwrap_or_default())
        }),
    };
    if duration.is_some_and(sleeps) {
        return 0;
    }
    let arguments = [clock as usize, flags as usize, time as usize, rest as usize];
    // SAFETY: the arguments are the caller's, and the kernel checks them.
    match unsafe { kernel(libc::SYS_clock_nanosleep, arguments) } {
        0 => 0,
        // SAFETY: the place belongs to this thread.
        _ => unsafe { *libc::__errno_location() },
    }
}

/// usleep(3).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn usleep(microseconds: c_uint) -> c_int {
    let duration = Duration::from_micros(microseconds.into());
    if sleeps(duration) { 0 } else { really(duration) }
}

/// sleep(3).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn sleep(seconds: c_uint) -> c_uint {
    let duration = Duration::from_secs(seconds.into());
    match sleeps(duration) || really(duration) == 0 {
        true => 0,
        // A signal has ended it. How much is left matters to no caller here.
        false => 1,
    }
}

/// Sleeps by the machine's time, also within simulations.
pub(crate) fn really(duration: Duration) -> c_int {
    let Ok(seconds) = libc::time_t::try_from(duration.as_secs()) else {
        return fail(libc::EINVAL);
    };
    let time = libc::timespec { tv_sec: seconds, tv_nsec: duration.subsec_nanos().into() };
    // SAFETY: the place is a `timespec`, and the rest is not asked for.
    unsafe { kernel(libc::SYS_nanosleep, [(&raw const time) as usize, 0, 0, 0]) as c_int }
}
