//! The kernel's own interface: system calls, which return a value or a negated error number.
//!
//! `sys!` is safe: it takes numbers and references, and no call that changes what is mapped. The
//! kernel writes only through references that may change, or where the program asked it to. Other
//! calls are made by the unsafe `call`, or by the functions for mappings below.
//!
//! No function of libc is called, because libc's own system calls are patched to lead here.

use core::arch::asm;
use core::ffi::CStr;
use core::sync::atomic::AtomicU32;

use crate::kernel::plain::Plain;

/// A system call's six arguments.
pub(crate) type Arguments = [usize; 6];

/// Executes a system call.
///
/// # Safety
///
/// The kernel checks every address. But what the call writes, maps or unmaps must be the program's
/// own, or memory that no other code uses meanwhile.
#[inline(always)]
pub(crate) unsafe fn call(number: i64, arguments: Arguments) -> isize {
    let result;
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the registers are those of the x86_64 calling convention of the kernel, and the ones
    // that it clobbers are declared. The effects are the caller's concern.
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

/// A system call of up to six arguments, which leaves all mappings as they are.
macro_rules! sys {
    ($number:ident $(, $argument:expr)* $(,)?) => {{
        const { assert!(!$crate::kernel::sys::changes_mappings(libc::$number)) };
        let arguments =
            $crate::kernel::sys::words(&[$($crate::kernel::sys::Argument::word($argument)),*]);
        // SAFETY: the call changes no mapping, and the kernel writes only through mutable
        // references, or to addresses that the program gave.
        unsafe { $crate::kernel::sys::call(libc::$number, arguments) }
    }};
}
pub(crate) use sys;

/// Whether a call changes mappings, or the address at which code goes on.
pub(crate) const fn changes_mappings(number: i64) -> bool {
    matches!(
        number,
        libc::SYS_mmap
            | libc::SYS_munmap
            | libc::SYS_mremap
            | libc::SYS_mprotect
            | libc::SYS_madvise
            | libc::SYS_brk
            | libc::SYS_shmat
            | libc::SYS_shmdt
            | libc::SYS_clone
            | libc::SYS_clone3
            | libc::SYS_vfork
            | libc::SYS_rt_sigreturn
    )
}

/// An argument of a system call.
pub(crate) trait Argument {
    fn word(self) -> usize;
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Argument for $type {
            #[inline(always)]
            fn word(self) -> usize {
                self as usize
            }
        }
    )*};
}

numbers!(i32, u32, i64, u64, isize, usize);

/// For the kernel to read.
impl<T: Plain> Argument for &T {
    #[inline(always)]
    fn word(self) -> usize {
        &raw const *self as usize
    }
}

/// For the kernel to read and write.
impl<T: Plain> Argument for &mut T {
    #[inline(always)]
    fn word(self) -> usize {
        &raw mut *self as usize
    }
}

/// For the kernel to read; the length is an argument of its own.
impl<T: Plain> Argument for &[T] {
    #[inline(always)]
    fn word(self) -> usize {
        self.as_ptr() as usize
    }
}

/// For the kernel to read and write; the length is an argument of its own.
impl<T: Plain> Argument for &mut [T] {
    #[inline(always)]
    fn word(self) -> usize {
        self.as_mut_ptr() as usize
    }
}

/// A path or a name.
impl Argument for &CStr {
    #[inline(always)]
    fn word(self) -> usize {
        self.as_ptr() as usize
    }
}

/// A word that the kernel waits on.
impl Argument for &AtomicU32 {
    #[inline(always)]
    fn word(self) -> usize {
        self.as_ptr() as usize
    }
}

/// `None` is the address zero.
impl<A: Argument> Argument for Option<A> {
    #[inline(always)]
    fn word(self) -> usize {
        self.map_or(0, Argument::word)
    }
}

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
pub(crate) const ENOMEM: isize = error(libc::ENOMEM);
pub(crate) const ENOSYS: isize = error(libc::ENOSYS);
pub(crate) const ESRCH: isize = error(libc::ESRCH);
pub(crate) const ETIMEDOUT: isize = error(libc::ETIMEDOUT);

/// The call was interrupted, and is executed again unless a handler without `SA_RESTART` runs. The
/// kernel calls this result `ERESTARTSYS`. The program never sees it.
pub(crate) const RESTART: isize = -512;

/// A signal came before the call had begun. The call is executed whatever the handler says
/// (`ERESTARTNOINTR` of the kernel).
pub(crate) const BEGIN: isize = -513;

/// The call of a task waits, and its state is kept (`schedule/task.rs`). Only the runtime of a
/// converted program sees this result and the next one.
pub(crate) const SUSPENDED: isize = -0x4455_0001;
/// Only a thread can wait for this call, so a task cannot make it.
pub(crate) const NEEDS_THREAD: isize = -0x4455_0002;

/// Anonymous memory, or nothing.
pub(crate) fn map(length: usize, protection: i32, flags: i32) -> Option<usize> {
    map_file(length, protection, flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
}

/// A part of a file as memory at addresses that the kernel chooses, or nothing.
pub(crate) fn map_file(
    length: usize,
    protection: i32,
    flags: i32,
    file: i32,
    offset: usize,
) -> Option<usize> {
    map_near(0, length, protection, flags, file, offset).ok()
}

/// Maps a part of a file near an address, if nothing is mapped there. The error is a negated
/// number.
pub(crate) fn map_near(
    wanted: usize,
    length: usize,
    protection: i32,
    flags: i32,
    file: i32,
    offset: usize,
) -> Result<usize, isize> {
    let flags = (flags & !libc::MAP_FIXED) as usize;
    let arguments = [wanted, length, protection as usize, flags, file as usize, offset];
    // SAFETY: without MAP_FIXED, the kernel takes addresses at which nothing is mapped.
    let mapped = unsafe { call(libc::SYS_mmap, arguments) };
    if failed(mapped) { Err(mapped) } else { Ok(mapped as usize) }
}

/// Anonymous memory at an address where nothing is mapped. Returns whether the memory was mapped.
pub(crate) fn map_exactly(wanted: usize, length: usize, protection: i32, flags: i32) -> bool {
    let all = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE | flags;
    let mapped = map_near(wanted, length, protection, all, -1, 0);
    if let Ok(other) = mapped
        && other != wanted
    {
        // A kernel that does not know the flag.
        // SAFETY: mapped just now, and not used yet.
        unsafe { unmap(other, length) };
    }
    mapped == Ok(wanted)
}

/// Gives mapped memory back.
///
/// # Safety
///
/// The memory is whole pages, and nothing uses it from now on.
pub(crate) unsafe fn unmap(start: usize, length: usize) {
    // SAFETY: the caller keeps the promise above.
    unsafe { call(libc::SYS_munmap, [start, length, 0, 0, 0, 0]) };
}

/// Changes what may be done with memory (mprotect(2)).
///
/// # Safety
///
/// The memory is whole pages, and no code relies on what is not allowed from now on.
pub(crate) unsafe fn protect(start: usize, length: usize, protection: i32) -> isize {
    // SAFETY: the caller keeps the promise above.
    unsafe { call(libc::SYS_mprotect, [start, length, protection as usize, 0, 0, 0]) }
}

/// Tells the kernel what to do with memory (madvise(2)).
///
/// # Safety
///
/// The memory is whole pages, and no code relies on a content that the advice takes away.
pub(crate) unsafe fn advise(start: usize, length: usize, advice: i32) -> isize {
    // SAFETY: the caller keeps the promise above.
    unsafe { call(libc::SYS_madvise, [start, length, advice as usize, 0, 0, 0]) }
}

/// Addresses for a table, or `None`. The table exists as far as it is opened, see
/// [`open_reserved`]. So a program that locks its memory (mlockall(2)) does not lock the whole
/// table. The addresses lie far from the program's libraries: the space near them is for the stubs.
pub(crate) fn reserve(length: usize) -> Option<usize> {
    const FAR: usize = 0x0800_0000_0000;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    map_near(FAR, length, libc::PROT_NONE, flags, -1, 0).ok()
}

/// The number of entries, at most `entries`, that a table may have. The number is a multiple of the
/// step in which tables grow. Most of a limit of the address space (RLIMIT_AS) is left to the
/// program.
pub(crate) fn affordable(entries: usize, size: usize) -> usize {
    const SHARE: u64 = 16;
    const STEP: usize = 1024;
    let mut limits = [u64::MAX; 2];
    sys!(SYS_prlimit64, 0, libc::RLIMIT_AS, 0, &mut limits);
    if limits[0] == u64::MAX {
        return entries;
    }
    let share = (limits[0] / SHARE) as usize / size;
    entries.min(share / STEP * STEP).max(STEP)
}

/// Runs a function without the limit of file sizes, which also applies to files in memory.
pub(crate) fn with_large_files<T>(work: impl FnOnce() -> T) -> T {
    let mut limits = [u64::MAX; 2];
    sys!(SYS_prlimit64, 0, libc::RLIMIT_FSIZE, 0, &mut limits);
    if limits[0] == u64::MAX {
        return work();
    }
    let (none, all) = ([u64::MAX; 2], [limits[1]; 2]);
    if failed(sys!(SYS_prlimit64, 0, libc::RLIMIT_FSIZE, &none, 0)) {
        sys!(SYS_prlimit64, 0, libc::RLIMIT_FSIZE, &all, 0);
    }
    let result = work();
    sys!(SYS_prlimit64, 0, libc::RLIMIT_FSIZE, &limits, 0);
    result
}

/// Turns reserved addresses into zeroed memory. Returns whether this worked. Memory that was opened
/// before stays as it is.
pub(crate) fn open_reserved(start: usize, length: usize) -> bool {
    const PAGE: usize = 4096;
    let first = start & !(PAGE - 1);
    let end = (start + length).next_multiple_of(PAGE);
    let accessible = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: to allow more than before breaks no reference to this memory.
    !failed(unsafe { protect(first, end - first, accessible) })
}

/// Whether a result is an error.
pub(crate) const fn failed(result: isize) -> bool {
    result < 0 && result >= -4095
}

/// Writes to standard error, as far as that is possible.
pub(crate) fn complain(text: &[u8]) {
    sys!(SYS_write, 2, text, text.len());
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
    sys!(SYS_poll, &mut poll, 1, 0) > 0
}
