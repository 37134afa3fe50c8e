//! Restartable sequences (rseq(2)), which belong to kernel threads.
//!
//! glibc registers an area in the main thread's storage with the process's first kernel thread.
//! With several workers, the main thread may run on another kernel thread. The area would then
//! describe the wrong kernel thread. So the engine takes the registration back, and glibc asks the
//! kernel instead.

use crate::kernel::frame::duality_rseq_offset;
use crate::kernel::settings;
use crate::kernel::sys::{failed, sys};
use crate::schedule::thread::MAIN;

/// Takes back what glibc has registered, if threads may move to other workers.
pub(crate) fn leave() {
    const UNREGISTER: i32 = 1;
    /// glibc's own, for x86.
    const SIGNATURE: usize = 0x5305_3053;
    /// The number of registered bytes: the first version of the area, or as many as later kernels
    /// ask for.
    const LENGTHS: [usize; 3] = [32, 64, 96];
    // SAFETY: reads a variable of the dynamic linker, if there is one.
    let offset = unsafe { duality_rseq_offset() };
    if settings::CORES.get() < 2 || offset == 0 {
        return;
    }
    let area = MAIN.fs.get().wrapping_add_signed(offset);
    let _taken_back =
        LENGTHS.iter().any(|&length| !failed(sys!(SYS_rseq, area, length, UNREGISTER, SIGNATURE)));
}
