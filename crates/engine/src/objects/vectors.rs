//! The size of the area for the vector registers.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The bytes that XSAVE takes for the components kept here: x87, SSE, AVX, AVX-512 and protection
/// keys.
pub(crate) static XSAVE_BYTES: AtomicUsize = AtomicUsize::new(512 + 64);

/// Finds out the size of the area for the vector registers on this processor. The engine asks once
/// and only on demand, because the instruction is slow on a virtual machine.
pub(crate) fn measure_vector_state() {
    static MEASURED: AtomicBool = AtomicBool::new(false);
    if MEASURED.swap(true, Ordering::Relaxed) {
        return;
    }
    // Components above SSE, in the standard format: AVX, three of AVX-512, protection keys.
    let bytes = [2u32, 5, 6, 7, 9].map(|component| {
        let leaf = core::arch::x86_64::__cpuid_count(0xd, component);
        leaf.ebx + leaf.eax
    });
    let largest = bytes.into_iter().max().unwrap_or(0).max(512 + 64);
    XSAVE_BYTES.store(largest as usize, Ordering::Relaxed);
}
