//! Files that calls wait for although their descriptors have been closed.
//!
//! Natively a call that waits keeps its file open. Here the engine keeps a copy of the descriptor, out of the
//! program's way, with which the calls go on.

use crate::away::out_of_the_way;
use crate::descriptors::get;
use crate::lock::lock;
use crate::sys::sys;
use crate::uring;
use crate::worker::current;

/// Before a descriptor is closed: the calls that wait for it go on with its file, as the kernel's do, by way of another
/// descriptor. See [`goes_on_with`].
pub(crate) fn for_waiters(number: usize) {
    let Some(descriptor) = get(number) else { return };
    if uring::is_active() {
        uring::take_before_close(&mut lock(), number);
    }
    if !descriptor.is_waited_for_by_threads() {
        return;
    }
    let copy = sys!(SYS_fcntl, number as i32, libc::F_DUPFD_CLOEXEC, 3);
    let Ok(kept) = out_of_the_way(copy) else { return };
    let Some(other) = get(kept as usize) else {
        sys!(SYS_close, kept);
        return;
    };
    other.renew(kept as usize);
    let _locked = lock();
    for side in [&descriptor.read, &descriptor.write] {
        for thread in side.iter().filter(|waiter| waiter.home().is_none()) {
            thread.waits_for.set(kept as usize);
            other.kept_for.set(other.kept_for.get() + 1);
        }
    }
}

/// The descriptor with which the current thread's call goes on, after its own one was closed. The caller gives it back.
pub(crate) fn goes_on_with(number: usize) -> Option<usize> {
    let kept = current().waits_for.get();
    let is_kept = kept != number && get(kept).is_some_and(|other| other.kept_for.get() > 0);
    is_kept.then_some(kept)
}

/// Closes a descriptor of [`goes_on_with`] when the last call that used it has ended.
pub(crate) fn give_back(kept: usize) {
    let Some(other) = get(kept) else { return };
    let left = {
        let _locked = lock();
        other.kept_for.set(other.kept_for.get() - 1);
        other.kept_for.get()
    };
    if left == 0 {
        other.renew(kept);
        sys!(SYS_close, kept);
    }
}
