//! The number of the process, and the number of processors.

use std::ffi::{c_int, c_long};

use crate::outside;

use crate::kernel::kernel;

/// getpid(2). A simulated host has a number of its own.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn getpid() -> libc::pid_t {
    match outside::process_id() {
        Some(number) => number as libc::pid_t,
        // SAFETY: the call has no conditions.
        None => unsafe { kernel(libc::SYS_getpid, [0; 4]) as libc::pid_t },
    }
}

/// sched_getaffinity(2), by which `std` counts processors.
///
/// # Safety
///
/// As there.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sched_getaffinity(
    process: libc::pid_t,
    size: usize,
    set: *mut libc::cpu_set_t,
) -> c_int {
    if let Some(processors) = outside::processors() {
        // SAFETY: the caller promises a place of this size.
        let bytes = unsafe {
            set.cast::<u8>().write_bytes(0, size);
            std::slice::from_raw_parts_mut(set.cast::<u8>(), size)
        };
        for processor in 0..processors.min(size * 8) {
            bytes[processor / 8] |= 1 << (processor % 8);
        }
        return 0;
    }
    let arguments = [process as usize, size, set as usize, 0];
    // SAFETY: the arguments are the caller's, and the kernel checks them.
    let count = unsafe { kernel(libc::SYS_sched_getaffinity, arguments) };
    let Ok(written) = usize::try_from(count) else { return -1 };
    // As the C library does: what the kernel has not written is 0.
    // SAFETY: the caller promises a place of this size.
    unsafe { set.cast::<u8>().add(written).write_bytes(0, size - written) };
    0
}

type SysConf = unsafe extern "C" fn(c_int) -> c_long;

/// sysconf(3). The processors are those of the simulated host.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn sysconf(name: c_int) -> c_long {
    if let libc::_SC_NPROCESSORS_ONLN | libc::_SC_NPROCESSORS_CONF = name
        && let Some(processors) = outside::processors()
    {
        return processors as c_long;
    }
    // SAFETY: this is the function's type, and the call has no conditions.
    unsafe {
        let own: SysConf = std::mem::transmute(crate::genuine(c"sysconf"));
        own(name)
    }
}
