//! The mechanism that asks for memory before the memory is touched. The runtime's loop decides
//! which fiber's memory it asks for, and when. `event_loop/prefetch.rs` notes the gain of both
//! decisions.

use std::ptr;

use crate::{Fiber, LINE};

/// The approximate bytes of stack that the calls that begin a fiber take. These calls return only
/// when the fiber ends.
const BEGINNING: usize = 4 * LINE;

/// Asks for the cache line at `address`, without waiting for it. Any address is allowed.
#[inline]
pub fn prefetch(address: usize) {
    let address = ptr::without_provenance::<i8>(address);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults, and every x86-64 has it.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address);
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch never faults, and changes neither memory nor flags.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, readonly, preserves_flags));
    }
}

impl Fiber {
    /// Asks for the memory that the next switch to the fiber touches first, without waiting for it.
    /// This memory is the beginning of the fiber's value, and at most `most` cache lines from where
    /// the fiber was left. Calls may return to these lines before the fiber ends.
    #[inline]
    pub fn prefetch(&self, most: usize) {
        let (base, left_at) = (self.stack.base(), self.left_at.get().addr());
        prefetch(base + LINE);
        let lines = (base - left_at).saturating_sub(BEGINNING).div_ceil(LINE);
        for line in (0..lines.min(most)).rev() {
            prefetch(left_at + line * LINE);
        }
    }
}
