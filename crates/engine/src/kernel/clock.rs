//! The time, from the kernel's shared object that every process has mapped (vdso(7)).

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::kernel::elf;
use crate::kernel::sys::sys;

/// Nanoseconds of the monotonic clock.
pub(crate) type Nanoseconds = u64;

/// No deadline.
pub(crate) const NEVER: Nanoseconds = 0;

const SECOND: i64 = 1_000_000_000;

static VDSO_CLOCK: AtomicUsize = AtomicUsize::new(0);

/// Finds the clock in the shared object that the kernel mapped at `vdso`.
pub(crate) fn find(vdso: usize) {
    if vdso != 0 {
        let found = elf::exported(vdso, b"__vdso_clock_gettime");
        VDSO_CLOCK.store(found.unwrap_or(0), Ordering::Relaxed);
    }
}

/// The time of `clock`: `CLOCK_REALTIME` or `CLOCK_MONOTONIC`.
pub(crate) fn now_of(clock: i32) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let function = VDSO_CLOCK.load(Ordering::Relaxed);
    if function == 0 {
        sys!(SYS_clock_gettime, clock, &mut time);
    } else {
        // SAFETY: the kernel's function, with the signature of clock_gettime(2).
        let function: extern "C" fn(i32, *mut libc::timespec) -> i32 =
            unsafe { core::mem::transmute(function) };
        function(clock, &raw mut time);
    }
    time.tv_sec * SECOND + time.tv_nsec
}

/// The time of the monotonic clock.
pub(crate) fn now() -> Nanoseconds {
    now_of(libc::CLOCK_MONOTONIC) as Nanoseconds
}

/// Whether the kernel would accept this time.
pub(crate) fn valid(time: &libc::timespec) -> bool {
    time.tv_sec >= 0 && (0..SECOND).contains(&time.tv_nsec)
}

/// The deadline that lies `time` ahead.
pub(crate) fn after(time: &libc::timespec) -> Nanoseconds {
    let ahead = time.tv_sec.saturating_mul(SECOND).saturating_add(time.tv_nsec);
    now().saturating_add(ahead.max(0) as u64)
}

/// The deadline at `time` of `clock`.
pub(crate) fn at(time: &libc::timespec, clock: i32) -> Nanoseconds {
    let at = time.tv_sec.saturating_mul(SECOND).saturating_add(time.tv_nsec);
    if clock == libc::CLOCK_MONOTONIC {
        return (at.max(1)) as u64;
    }
    now().saturating_add(at.saturating_sub(now_of(clock)).max(0) as u64)
}

/// The deadline that lies so many milliseconds ahead.
pub(crate) fn after_milliseconds(milliseconds: i32) -> Nanoseconds {
    now() + milliseconds.max(0) as u64 * 1_000_000
}

/// The time that is left until `deadline`.
pub(crate) fn left(deadline: Nanoseconds) -> libc::timespec {
    let left = deadline.saturating_sub(now());
    timespec(left)
}

/// A length of time in the kernel's format.
pub(crate) fn timespec(nanoseconds: u64) -> libc::timespec {
    let nanoseconds = nanoseconds as i64;
    libc::timespec { tv_sec: nanoseconds / SECOND, tv_nsec: nanoseconds % SECOND }
}
