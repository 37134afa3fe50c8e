//! Memory in reserve. A server that takes connections until memory runs out fails at the next small
//! allocation, which in Rust ends the process. So it stops while a reserve is left.

use std::io;
use std::ptr;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::process::{Resource, getrlimit};

/// The memory that must be free when the server accepts another connection. Existing connections
/// may need this memory for buffers, helper threads, and a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserve {
    bytes: usize,
}

impl Reserve {
    /// A quarter of the process's limit (`RLIMIT_AS`, `RLIMIT_DATA`), from 8 to 256 MiB. Zero if
    /// the process has no limit.
    #[must_use]
    pub fn of_this_process() -> Self {
        if cfg!(miri) {
            // Miri does not know limits.
            return Self::default();
        }
        let limits = [Resource::As, Resource::Data].map(|limit| getrlimit(limit).current);
        Self::within(limits.into_iter().flatten().min())
    }

    fn within(limit: Option<u64>) -> Self {
        let quarter = |limit: u64| (limit / 4).clamp(8 << 20, 256 << 20);
        Self { bytes: limit.map_or(0, |limit| quarter(limit) as usize) }
    }

    /// The size.
    #[must_use]
    pub fn bytes(self) -> usize {
        self.bytes
    }

    /// Whether this much memory is free. Makes two system calls, or none if the process has no
    /// limit.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if less is free.
    #[inline]
    pub fn is_left(self) -> io::Result<()> {
        if self.bytes == 0 { Ok(()) } else { self.try_to_map() }
    }

    #[cold]
    fn try_to_map(self) -> io::Result<()> {
        let (flags, access) = (MapFlags::PRIVATE, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
        let address = unsafe { mmap_anonymous(ptr::null_mut(), self.bytes, access, flags)? };
        // SAFETY: the mapping is the one just made, whole, and nothing has used it.
        unsafe { munmap(address, self.bytes)? };
        Ok(())
    }
}

/// Fits malloc(3) to a server. Does nothing with another C library than glibc, or if the process
/// has a second thread. Call this before there are threads.
///
/// - If the memory of this process is limited, threads share arenas. An arena takes 64 MiB of
///   address space. Each new thread would get its own arena, up to eight for a processor.
///
/// - Without a limit, an arena keeps 4 MiB of free memory, instead of 128 KiB. Otherwise each long
///   reply gives its pages back to the kernel and takes them again. Over TLS, that was a quarter of
///   such a reply's processor time. `MALLOC_TRIM_THRESHOLD_` of the environment goes before this.
pub fn fit_malloc() {
    #[cfg(target_env = "gnu")]
    if is_alone() {
        /// Of mallopt(3).
        const ARENA_SPACE: usize = 64 << 20;
        const FREE: i32 = 4 << 20;
        let reserve = Reserve::of_this_process().bytes;
        let options: &[_] = if reserve > 0 {
            &[(libc::M_ARENA_MAX, (reserve / ARENA_SPACE).max(1) as i32)]
        } else if std::env::var_os("MALLOC_TRIM_THRESHOLD_").is_none() {
            // glibc makes these two steps by itself, after the first block of 2 MiB is freed.
            &[(libc::M_MMAP_THRESHOLD, FREE / 2), (libc::M_TRIM_THRESHOLD, FREE)]
        } else {
            &[]
        };
        for (option, value) in options {
            // SAFETY: mallopt(3) writes what malloc reads without a lock, so no other thread may
            // allocate meanwhile. `is_alone` has found that no other thread exists.
            unsafe { libc::mallopt(*option, *value) };
        }
    }
}

/// Whether the calling thread is known to be the only one of the process.
#[cfg(target_env = "gnu")]
fn is_alone() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_is_kept_and_without_a_limit_nothing() {
        assert_eq!(Reserve::within(None).bytes(), 0);
        assert_eq!(Reserve::within(Some(1 << 20)).bytes(), 8 << 20);
        assert_eq!(Reserve::within(Some(256 << 20)).bytes(), 64 << 20);
        assert_eq!(Reserve::within(Some(1 << 40)).bytes(), 256 << 20);
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn a_process_with_a_second_thread_is_seen() {
        std::thread::scope(|scope| {
            let (end, is_over) = std::sync::mpsc::channel::<()>();
            scope.spawn(move || is_over.recv());
            assert!(!is_alone());
            drop(end);
        });
    }

    #[test]
    fn what_does_not_fit_is_not_left() {
        assert!(Reserve { bytes: 1 << 20 }.is_left().is_ok());
        let error = Reserve { bytes: 1 << 60 }.is_left().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOMEM));
    }
}
