//! Writes and syncs of files on the disks of simulated hosts.

use std::ffi::{c_int, c_void};
use std::io;
use std::path::PathBuf;

use crate::outside;

use crate::fail;
use crate::kernel::kernel;

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

/// write(2). The disk of a simulated host may take less, or have no room.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn write(
    descriptor: c_int,
    bytes: *const c_void,
    count: usize,
) -> isize {
    match taken(descriptor, count) {
        // SAFETY: the arguments are the caller's, or fewer bytes. The kernel checks them.
        Ok(count) => unsafe {
            kernel(libc::SYS_write, [descriptor as usize, bytes as usize, count, 0]) as isize
        },
        Err(error) => fail_by(&error) as isize,
    }
}

/// pwrite(2). As [`write`].
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pwrite64(
    descriptor: c_int,
    bytes: *const c_void,
    count: usize,
    place: libc::off64_t,
) -> isize {
    match taken(descriptor, count) {
        // SAFETY: as in `write`.
        Ok(count) => unsafe {
            let arguments = [descriptor as usize, bytes as usize, count, place as usize];
            kernel(libc::SYS_pwrite64, arguments) as isize
        },
        Err(error) => fail_by(&error) as isize,
    }
}

/// pwrite(2), for callers without large files. On 64-bit machines, it is the same.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pwrite(
    descriptor: c_int,
    bytes: *const c_void,
    count: usize,
    place: libc::off_t,
) -> isize {
    // SAFETY: the arguments are the caller's.
    unsafe { pwrite64(descriptor, bytes, count, place) }
}

fn sync(descriptor: c_int, call: libc::c_long) -> c_int {
    match path(descriptor).and_then(|path| outside::sync(&path)) {
        Some(Ok(())) => 0,
        Some(Err(error)) => fail_by(&error),
        // SAFETY: the argument is the caller's, and the kernel checks it.
        None => unsafe { kernel(call, [descriptor as usize, 0, 0, 0]) as c_int },
    }
}

/// How many bytes of a write are to be written.
fn taken(descriptor: c_int, count: usize) -> io::Result<usize> {
    path(descriptor).map_or(Ok(count), |path| outside::write(&path, count))
}

/// The path of an open file, within a simulation.
fn path(descriptor: c_int) -> Option<PathBuf> {
    outside::elapsed()?;
    std::fs::read_link(format!("/proc/self/fd/{descriptor}")).ok()
}

fn fail_by(error: &io::Error) -> c_int {
    fail(error.raw_os_error().unwrap_or(libc::EIO))
}
