//! The kernel's information on a TCP socket.

use std::os::fd::{AsRawFd, BorrowedFd};

/// The numbers of a TCP socket (`TCP_INFO` of `tcp(7)`). `None` if the descriptor is no TCP socket.
/// An older kernel leaves unknown numbers at 0.
pub(crate) fn tcp_info(socket: BorrowedFd<'_>) -> Option<libc::tcp_info> {
    // SAFETY: all zeroes is a valid `tcp_info`, which consists of numbers.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `info`, and the length to `length`.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    (outcome == 0).then_some(info)
}
