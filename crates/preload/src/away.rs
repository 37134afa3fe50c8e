//! Numbers of descriptors that the program does not use.

use crate::sys::{failed, sys};

/// Descriptors at and above this number are left to the kernel.
pub(crate) const MOST_DESCRIPTORS: usize = 1 << 20;

/// Moves a descriptor above those that the program may have, or at least to the end of them.
pub(crate) fn out_of_the_way(descriptor: isize) -> Result<isize, isize> {
    if failed(descriptor) {
        return Err(descriptor);
    }
    let mut limits = [0u64; 2];
    sys!(SYS_prlimit64, 0, libc::RLIMIT_NOFILE, 0, &raw mut limits);
    let [soft, hard] = limits;
    let most = MOST_DESCRIPTORS as u64;
    // Room beyond the soft limit is invisible to the program.
    // Where the hard limit is as low, a privileged process may have more than that for a moment.
    let raised = hard.max(soft + 16).min(most);
    let beyond = [raised, raised.max(hard)];
    let widened =
        soft < raised && !failed(sys!(SYS_prlimit64, 0, libc::RLIMIT_NOFILE, &raw const beyond, 0));
    let from = if widened { soft } else { soft.min(most).saturating_sub(16) };
    let moved = sys!(SYS_fcntl, descriptor, libc::F_DUPFD_CLOEXEC, from);
    if widened {
        sys!(SYS_prlimit64, 0, libc::RLIMIT_NOFILE, &raw const limits, 0);
    }
    if failed(moved) {
        return Ok(descriptor);
    }
    sys!(SYS_close, descriptor);
    Ok(moved)
}
