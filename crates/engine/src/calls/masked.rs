//! Calls that have a mask of signals of their own: ppoll(2), pselect(2), epoll_pwait(2),
//! sigsuspend(2).

use crate::kernel::lock::lock;
use crate::kernel::sys::EINVAL;
use crate::kernel::user;
use crate::schedule::worker::current;
use crate::signals::handling::{assign_held, set_mask};

/// The mask at an address, if there is one. The kernel accepts masks of one size alone.
pub(crate) fn read(address: usize, size: usize) -> Result<Option<u64>, isize> {
    if address != 0 && size != size_of::<u64>() {
        return Err(EINVAL);
    }
    user::read_optional(address)
}

/// Runs a call with another mask, if there is one. The runtime of a converted program manages the
/// masks of its tasks.
pub(crate) fn with(mask: Option<u64>) -> Option<impl Drop> {
    mask.filter(|_| current().task.get().is_none()).map(with_mask)
}

/// Runs a call with another mask, and restores the old mask. If a handler will run, the old mask
/// returns after the handler.
pub(crate) fn with_mask(mask: u64) -> impl Drop {
    struct Back(u64);
    impl Drop for Back {
        fn drop(&mut self) {
            let mut locked = lock();
            assign_held(&mut locked);
            let thread = current();
            if thread.deliverable() != 0 {
                thread.mask_after.set(Some(self.0));
            } else {
                set_mask(&mut locked, thread, self.0);
            }
        }
    }
    let thread = current();
    let before = thread.mask.get();
    set_mask(&mut lock(), thread, mask);
    Back(before)
}
