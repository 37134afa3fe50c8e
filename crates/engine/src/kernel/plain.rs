//! Types for which all bytes are valid values.

/// A type for which all bytes are valid values.
///
/// # Safety
///
/// Every bit pattern is a value, and padding does not matter.
pub(crate) unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($type:ty),* $(,)?) => {
        // SAFETY: integers, and structures of integers that the kernel defines.
        $(unsafe impl Plain for $type {})*
    };
}

plain!(
    u8,
    u16,
    i32,
    u32,
    i64,
    u64,
    usize,
    u128,
    libc::timespec,
    libc::timeval,
    libc::siginfo_t,
    libc::stack_t,
    libc::pollfd,
    libc::iovec,
    libc::epoll_event,
    libc::sigevent,
    libc::mmsghdr,
    libc::shmid_ds,
    libc::Elf64_Ehdr,
    libc::Elf64_Shdr,
    libc::Elf64_Sym,
    libc::stat,
    libc::termios,
);

// SAFETY: any bytes are values of each element.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// The value of all zeros.
pub(crate) fn zeroed<T: Plain>() -> T {
    // SAFETY: every bit pattern of a plain type is a value.
    unsafe { core::mem::zeroed() }
}
