//! `/dev/null`, which simulated sockets have as their descriptor.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags, open};

/// Stays open.
static NULL: OnceLock<OwnedFd> = OnceLock::new();

/// The descriptor to duplicate, or to share.
pub(in crate::net) fn null() -> io::Result<&'static OwnedFd> {
    match NULL.get() {
        Some(null) => Ok(null),
        None => {
            let opened = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
            Ok(NULL.get_or_init(|| opened))
        }
    }
}

/// What a socket without a descriptor of its own shows as its descriptor.
#[cold]
pub(super) fn shared() -> BorrowedFd<'static> {
    NULL.get().expect("a socket has its descriptor until it is dropped, or shares one").as_fd()
}
