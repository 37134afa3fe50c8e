//! Syncs of files.

use std::ffi::c_int;

use duality_simulate::outside;

/// fsync(2). A file on the disk of a simulated host is not written to a real one.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn fsync(descriptor: c_int) -> c_int {
    sync(descriptor, libc::SYS_fsync)
}

/// fdatasync(2). As [`fsync`].
#[unsafe(no_mangle)]
pub(crate) extern "C" fn fdatasync(descriptor: c_int) -> c_int {
    sync(descriptor, libc::SYS_fdatasync)
}

fn sync(descriptor: c_int, call: libc::c_long) -> c_int {
    if outside::elapsed().is_some()
        && let Ok(path) = std::fs::read_link(format!("/proc/self/fd/{descriptor}"))
        && outside::synced(&path)
    {
        return 0;
    }
    // SAFETY: the argument is the caller's, and the kernel checks it.
    unsafe { libc::syscall(call, descriptor) as c_int }
}
