//! The kernel's own interface: raw system calls, which return a value or a negated error number.
//!
//! No function of libc is called: inside libc, the very instructions are patched that lead here.

use core::arch::asm;

/// A system call's six arguments.
pub(crate) type Arguments = [usize; 6];

/// Executes a system call.
///
/// The kernel checks every address that it is given. What it then writes through one is what the
/// program asked for, or what the caller here has provided.
#[inline(always)]
pub(crate) fn call(number: i64, arguments: Arguments) -> isize {
    let result;
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the registers are those of the x86_64 calling convention of the kernel, and the ones
    // that it clobbers are declared.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// A system call of up to six arguments, each converted to a word.
macro_rules! sys {
    ($number:ident $(, $argument:expr)* $(,)?) => {
        $crate::kernel::sys::call(libc::$number, $crate::kernel::sys::words(&[$(($argument) as usize),*]))
    };
}
pub(crate) use sys;

/// Fills up with zeros.
#[inline(always)]
pub(crate) fn words(given: &[usize]) -> Arguments {
    let mut arguments = [0; 6];
    let mut index = 0;
    while index < given.len() {
        arguments[index] = given[index];
        index += 1;
    }
    arguments
}

/// The result of a system call that failed.
pub(crate) const fn error(number: i32) -> isize {
    -(number as isize)
}

pub(crate) const EAGAIN: isize = error(libc::EAGAIN);
pub(crate) const EBADF: isize = error(libc::EBADF);
pub(crate) const EFAULT: isize = error(libc::EFAULT);
pub(crate) const EINTR: isize = error(libc::EINTR);
pub(crate) const EINVAL: isize = error(libc::EINVAL);
pub(crate) const ENOSYS: isize = error(libc::ENOSYS);
pub(crate) const ESRCH: isize = error(libc::ESRCH);
pub(crate) const ETIMEDOUT: isize = error(libc::ETIMEDOUT);

/// Interrupted, and to be executed again unless a handler without `SA_RESTART` runs: what the
/// kernel calls `ERESTARTSYS`. It never reaches the program.
pub(crate) const RESTART: isize = -512;

/// The call of a task waits; what the task has come to is kept (`schedule/task.rs`). These two
/// reach the runtime of a converted program alone.
pub(crate) const SUSPENDED: isize = -0x4455_0001;
/// A task cannot make the call, since only a thread can wait for it.
pub(crate) const NEEDS_THREAD: isize = -0x4455_0002;

/// Anonymous memory, or nothing.
pub(crate) fn map(length: usize, protection: i32, flags: i32) -> Option<usize> {
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let address = sys!(SYS_mmap, 0, length, protection, flags, -1isize, 0);
    (address > 0).then_some(address as usize)
}

/// Addresses for a table, or nothing: the table is there as far as it is opened, see
/// [`open_reserved`], so that a program that locks its memory (mlockall(2)) does not lock all of
/// it. The addresses lie far from the program's libraries, whose neighbourhood is for the stubs.
pub(crate) fn reserve(length: usize) -> Option<usize> {
    const FAR: usize = 0x0800_0000_0000;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let address = sys!(SYS_mmap, FAR, length, libc::PROT_NONE, flags, -1isize, 0);
    (address > 0).then_some(address as usize)
}

/// How many of `entries` entries a table may have, such that the most of a limit of the address
/// space (RLIMIT_AS) is left to the program: a multiple of the steps in which tables grow.
pub(crate) fn affordable(entries: usize, size: usize) -> usize {
    const SHARE: u64 = 16;
    const STEP: usize = 1024;
    let mut limits = [u64::MAX; 2];
    sys!(SYS_prlimit64, 0, libc::RLIMIT_AS, 0, &raw mut limits);
    if limits[0] == u64::MAX {
        return entries;
    }
    let share = (limits[0] / SHARE) as usize / size;
    entries.min(share / STEP * STEP).max(STEP)
}

/// Does something that the limit of file sizes could forbid, for files that are memory.
pub(crate) fn with_large_files<T>(work: impl FnOnce() -> T) -> T {
    let mut limits = [u64::MAX; 2];
    sys!(SYS_prlimit64, 0, libc::RLIMIT_FSIZE, 0, &raw mut limits);
    if limits[0] == u64::MAX {
        return work();
    }
    let (none, all) = ([u64::MAX; 2], [limits[1]; 2]);
    if failed(sys!(SYS_prlimit64, 0, libc::RLIMIT_FSIZE, &raw const none, 0)) {
        sys!(SYS_prlimit64, 0, libc::RLIMIT_FSIZE, &raw const all, 0);
    }
    let result = work();
    sys!(SYS_prlimit64, 0, libc::RLIMIT_FSIZE, &raw const limits, 0);
    result
}

/// Makes reserved addresses memory, which is zero; returns whether that worked. What was opened
/// before stays as it is.
pub(crate) fn open_reserved(start: usize, length: usize) -> bool {
    const PAGE: usize = 4096;
    let first = start & !(PAGE - 1);
    let end = (start + length).next_multiple_of(PAGE);
    let accessible = libc::PROT_READ | libc::PROT_WRITE;
    !failed(sys!(SYS_mprotect, first, end - first, accessible))
}

/// Whether a result is an error.
pub(crate) const fn failed(result: isize) -> bool {
    result < 0 && result >= -4095
}

/// Writes to standard error, as far as that is possible.
pub(crate) fn complain(text: &[u8]) {
    sys!(SYS_write, 2, text.as_ptr(), text.len());
}

/// Ends the process at once.
pub(crate) fn exit_group(status: i32) -> ! {
    loop {
        sys!(SYS_exit_group, status);
    }
}

/// Whether a descriptor is ready, without waiting.
pub(crate) fn is_ready(number: usize, events: i16) -> bool {
    let mut poll = libc::pollfd { fd: number as i32, events, revents: 0 };
    sys!(SYS_poll, &raw mut poll, 1, 0) > 0
}
