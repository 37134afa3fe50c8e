//! Bounds the folder of the cache of sites: [`site_cache`](crate::objects::site_cache). A library
//! of an older version leaves a file that no program uses again.
//!
//! The engine looks at the folder when it has added a file, so a start that adds none costs
//! nothing. It removes files that are too old, then the oldest files beyond the bounds. Each
//! removal is one call of unlink(2). A process that reads the file meanwhile still reads all of it.
//! The next start searches the object again. Two processes may remove the same file.

use alloc::vec::Vec;
use core::ffi::CStr;

use crate::kernel::clock;
use crate::kernel::plain::zeroed;
use crate::kernel::sys::{failed, sys};

/// The most files that stay, their most bytes together, and their greatest age in seconds. An
/// object has some 20 KiB. The age counts from the search, so each object is searched again some
/// four times a year.
const MOST_FILES: usize = 256;
const MOST_BYTES: u64 = 16 << 20;
const MOST_AGE: i64 = 90 * 24 * 3600;

/// A file of the cache.
struct CachedFile {
    /// The name, with its zero.
    name: Vec<u8>,
    bytes: u64,
    written: i64,
}

/// Removes what is beyond the bounds from the folder with this path.
pub(crate) fn keep(folder: &CStr) {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC | libc::O_NOFOLLOW;
    let opened = sys!(SYS_openat, libc::AT_FDCWD, folder, flags);
    if failed(opened) {
        return;
    }
    let now = clock::now_of(libc::CLOCK_REALTIME) / 1_000_000_000;
    for file in beyond_bounds(list(opened), now) {
        if let Ok(name) = CStr::from_bytes_with_nul(&file.name) {
            sys!(SYS_unlinkat, opened, name, 0);
        }
    }
    sys!(SYS_close, opened);
}

/// The files of the cache in the open folder. Other files are not the engine's to remove.
fn list(folder: isize) -> Vec<CachedFile> {
    const ROOM: usize = 8 << 10;
    let mut buffer = alloc::vec![0u8; ROOM];
    let mut files = Vec::new();
    loop {
        let length = sys!(SYS_getdents64, folder, &mut buffer[..], ROOM);
        if length <= 0 {
            return files;
        }
        let mut rest = &buffer[..length as usize];
        while let Some((name, next)) = first_entry(rest) {
            rest = next;
            let mut status: libc::stat = zeroed();
            let flags = libc::AT_SYMLINK_NOFOLLOW;
            if is_of_cache(name.to_bytes())
                && !failed(sys!(SYS_newfstatat, folder, name, &mut status, flags))
                && status.st_mode & libc::S_IFMT == libc::S_IFREG
            {
                let name = name.to_bytes_with_nul().to_vec();
                files.push(CachedFile {
                    name,
                    bytes: status.st_size as u64,
                    written: status.st_mtime,
                });
            }
        }
    }
}

/// The name of the first entry of getdents64(2), and the entries behind it.
fn first_entry(entries: &[u8]) -> Option<(&CStr, &[u8])> {
    const LENGTH_AT: usize = 16;
    const NAME_AT: usize = 19;
    let length = entries.get(LENGTH_AT..LENGTH_AT + 2)?;
    let length = usize::from(u16::from_le_bytes([length[0], length[1]]));
    let name = CStr::from_bytes_until_nul(entries.get(NAME_AT..length)?).ok()?;
    Some((name, entries.get(length..)?))
}

/// Whether the cache gives files such a name: the digits of a build-id, and eight letters behind a
/// dot while the file is being written.
fn is_of_cache(name: &[u8]) -> bool {
    const DIGITS: core::ops::RangeInclusive<usize> = 16..=64;
    const LETTERS: usize = 8;
    let (digits, letters) = match name.iter().position(|&byte| byte == b'.') {
        Some(at) => (&name[..at], &name[at + 1..]),
        None => (name, &[][..]),
    };
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    DIGITS.contains(&digits.len())
        && digits.iter().all(is_digit)
        && (digits.len() == name.len() || letters.len() == LETTERS)
        && letters.iter().all(u8::is_ascii_lowercase)
}

/// The files that are to go. Names come into it where times are equal, so that all processes choose
/// the same files.
fn beyond_bounds(mut files: Vec<CachedFile>, now: i64) -> Vec<CachedFile> {
    files.sort_unstable_by(|one, other| {
        other.written.cmp(&one.written).then_with(|| one.name.cmp(&other.name))
    });
    let mut total = 0u64;
    let within = files.iter().take(MOST_FILES).take_while(|file| {
        total = total.saturating_add(file.bytes);
        total <= MOST_BYTES && now.saturating_sub(file.written) <= MOST_AGE
    });
    files.split_off(within.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 2_000_000_000;

    fn file(number: usize, bytes: u64, age: i64) -> CachedFile {
        let name = format!("{number:016x}\0").into_bytes();
        CachedFile { name, bytes, written: NOW - age }
    }

    /// The ages of the files that go.
    fn gone(files: Vec<CachedFile>) -> Vec<i64> {
        beyond_bounds(files, NOW).iter().map(|file| NOW - file.written).collect()
    }

    #[test]
    fn the_oldest_beyond_the_number_go() {
        let files = |count: usize| (0..count).map(|at| file(at, 1, at as i64)).rev().collect();
        assert_eq!(gone(files(MOST_FILES)), []);
        let last = MOST_FILES as i64;
        assert_eq!(gone(files(MOST_FILES + 2)), [last, last + 1]);
    }

    #[test]
    fn the_oldest_beyond_the_bytes_go() {
        assert_eq!(gone(vec![file(1, MOST_BYTES, 3), file(2, 1, 2), file(3, 1, 1)]), [3]);
        assert_eq!(gone(vec![file(1, MOST_BYTES - 2, 3), file(2, 1, 2), file(3, 1, 1)]), []);
    }

    #[test]
    fn old_files_go() {
        assert_eq!(gone(vec![file(1, 1, MOST_AGE + 1), file(2, 1, MOST_AGE)]), [MOST_AGE + 1]);
        // The clock may have been set back.
        assert_eq!(gone(vec![file(1, 1, -MOST_AGE)]), []);
    }

    #[test]
    fn only_files_of_the_cache_are_looked_at() {
        for name in ["0123456789abcdef", "0123456789abcdef0123456789abcdef01234567.abcdefgh"] {
            assert!(is_of_cache(name.as_bytes()), "{name}");
        }
        for name in ["", ".", "..", "0123456789abcde", "0123456789abcdeg", "0123456789ABCDEF"] {
            assert!(!is_of_cache(name.as_bytes()), "{name}");
        }
        for name in ["0123456789abcdef.", "0123456789abcdef.txt", "0123456789abcdef.abcd.fgh"] {
            assert!(!is_of_cache(name.as_bytes()), "{name}");
        }
    }
}
