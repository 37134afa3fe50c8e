//! Descriptors that are known by their number only.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// A duplicate of the descriptor of `object`.
///
/// # Errors
///
/// If the number is of no open descriptor, or no descriptor is left.
pub(super) fn duplicate(object: &impl AsRawFd) -> io::Result<OwnedFd> {
    let number = object.as_raw_fd();
    if number < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: the borrow ends with this call, and the number is not -1. If the object does not own
    // an open descriptor, the kernel refuses the call, or the duplicate is of another file. Such a
    // duplicate is waited for, and neither read nor written.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    borrowed.try_clone_to_owned()
}
