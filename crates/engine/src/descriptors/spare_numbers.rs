//! Numbers of descriptors that the program does not use.

use crate::kernel::sys::{failed, sys};

/// Descriptors at and above this number are left to the kernel.
pub(crate) const MOST_DESCRIPTORS: usize = 1 << 20;

/// This number is high enough, if the program's limit of descriptors allows it. The kernel's table
/// reaches to the highest number, and fork(2) copies the table. With numbers near a limit of a
/// million, the copy takes two milliseconds.
const FAR: u64 = 4096;

/// Moves a descriptor above the numbers that the program may use. If that fails, moves it to the
/// end of those numbers, or far away.
pub(crate) fn out_of_the_way(descriptor: isize) -> Result<isize, isize> {
    if failed(descriptor) {
        return Err(descriptor);
    }
    let mut limits = [0u64; 2];
    sys!(SYS_prlimit64, 0, libc::RLIMIT_NOFILE, 0, &mut limits);
    let [soft, hard] = limits;
    let room = 16;
    if soft >= FAR + room {
        return Ok(moved_beyond(descriptor, FAR));
    }
    let most = MOST_DESCRIPTORS as u64;
    // Numbers beyond the soft limit are invisible to the program. If the hard limit is as low, a
    // privileged process may raise the limit for a moment.
    let raised = hard.max(soft + room).min(most);
    let beyond = [raised, raised.max(hard)];
    let widened = soft < raised && !failed(sys!(SYS_prlimit64, 0, libc::RLIMIT_NOFILE, &beyond, 0));
    let moved = moved_beyond(descriptor, if widened { soft } else { soft.saturating_sub(room) });
    if widened {
        sys!(SYS_prlimit64, 0, libc::RLIMIT_NOFILE, &limits, 0);
    }
    Ok(moved)
}

/// Copies a descriptor to a number of at least `from`, if one is free.
fn moved_beyond(descriptor: isize, from: u64) -> isize {
    let moved = sys!(SYS_fcntl, descriptor, libc::F_DUPFD_CLOEXEC, from);
    if failed(moved) {
        return descriptor;
    }
    sys!(SYS_close, descriptor);
    moved
}
