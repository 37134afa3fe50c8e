//! Memory that other processes may share. Threads of other processes may wait there, or wake our
//! threads.

use alloc::vec::Vec;
use core::ops::Range;

use crate::kernel::lock::{Guarded, Locked, lock};

/// Memory that other processes may share.
static SHARED: Guarded<Vec<Range<usize>>> = Guarded::new(Vec::new());

/// Whether other processes may wait or wake at an address.
pub(crate) fn contains(locked: &mut Locked, address: usize) -> bool {
    SHARED.of(locked).iter().any(|range| range.contains(&address))
}

/// The kernel maps and unmaps whole pages.
pub(crate) fn pages(address: usize, length: usize) -> Range<usize> {
    const PAGE: usize = 4096;
    address..address.saturating_add(length.checked_next_multiple_of(PAGE).unwrap_or(length))
}

/// Memory has been mapped that other processes may share.
pub(crate) fn add(range: Range<usize>) {
    SHARED.of(&mut lock()).push(range);
}

/// Memory is unmapped, or mapped anew.
pub(crate) fn forget(gone: &Range<usize>) {
    let mut locked = lock();
    let shared = SHARED.of(&mut locked);
    if shared.iter().all(|range| range.end <= gone.start || gone.end <= range.start) {
        return;
    }
    let mut left = Vec::with_capacity(shared.len() + 1);
    for range in shared.drain(..) {
        let before = range.start..range.end.min(gone.start);
        let after = range.start.max(gone.end)..range.end;
        left.extend([before, after].into_iter().filter(|part| part.start < part.end));
    }
    *shared = left;
}
