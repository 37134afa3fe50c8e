//! The sites of objects, kept in a folder of the user between runs. A search of libc takes two
//! milliseconds, and a program loads the same libraries each time. The kernel's shared object is
//! kept too. If all objects are, the tables of the decoder are never made.
//!
//! ```text
//!   FOLDER/BUILD-ID   a list of words:
//!   magic │ search │ the file: device, inode, length, times │ libc? │ count │ sites… │ sum
//! ```
//!
//! A file is used only if it belongs to the user alone, its sum is right, and the object is the
//! same. The bytes at each site must be in memory as they were found. Otherwise
//! the object is searched. The engine writes a file under another name first, and renames it. Then
//! it removes old files: [`cache_bounds`].

use alloc::vec::Vec;
use core::ffi::CStr;

use duality_patcher::{Image, Kind, Relative, SEARCH, Site, has_candidates};
use libc::Elf64_Phdr;

use crate::kernel::plain::zeroed;
use crate::kernel::settings;
use crate::kernel::sys::{self, failed, sys};
use crate::objects::cache_bounds;

/// "duality1", and the number of words before the first site.
const MAGIC: u64 = u64::from_le_bytes(*b"duality1");
const HEADER_WORDS: usize = 9;
/// The words of a site, of which four hold the bytes at the site.
const SITE_WORDS: usize = 8;
const SITE_BYTES: usize = 32;
/// A search of less code takes no longer than to read a file, unless it decodes.
const LEAST_CODE: usize = 64 << 10;
/// The longest file.
const MOST_BYTES: usize = 8 << 20;

/// Names an object.
pub(crate) struct Key {
    /// The path of the file in the cache, with its zero.
    path: Vec<u8>,
    identity: [u64; HEADER_WORDS - 1],
}

impl Key {
    /// `None` if there is no cache, or if the object is not kept: nothing in it need be decoded, or
    /// it has no build-id. The kernel's own object has no file, and so no `status`.
    pub(crate) fn new(
        image: &Image<'_>,
        headers: &[Elf64_Phdr],
        base: u64,
        status: Option<&libc::stat>,
    ) -> Option<Self> {
        let code = image.segments.iter().filter(|segment| segment.executable);
        let is_small = code.map(|segment| segment.bytes.len()).sum::<usize>() < LEAST_CODE;
        if is_small && !has_candidates(image) {
            return None;
        }
        let mut path = settings::cache()?;
        path.push(b'/');
        for byte in build_id(image, headers, base)? {
            path.extend([byte >> 4, byte & 15].map(|digit| b"0123456789abcdef"[digit as usize]));
        }
        path.push(0);
        let time = |seconds: i64, nanoseconds: i64| {
            (seconds as u64).wrapping_mul(1_000_000_000).wrapping_add(nanoseconds as u64)
        };
        let nothing: libc::stat = zeroed();
        let status = status.unwrap_or(&nothing);
        let identity = [
            MAGIC,
            SEARCH,
            status.st_dev,
            status.st_ino,
            status.st_size as u64,
            time(status.st_mtime, status.st_mtime_nsec),
            time(status.st_ctime, status.st_ctime_nsec),
            u64::from(image.is_libc),
        ];
        Some(Self { path, identity })
    }

    fn path(&self) -> Option<&CStr> {
        CStr::from_bytes_with_nul(&self.path).ok()
    }

    /// The sites of the object, if they are kept.
    pub(crate) fn load(&self, image: &Image<'_>, base: u64) -> Option<Vec<Site>> {
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = sys!(SYS_openat, libc::AT_FDCWD, self.path()?, flags);
        if failed(file) {
            return None;
        }
        let words = read_own(file);
        sys!(SYS_close, file);
        decode(&words?, &self.identity, image, base)
    }

    /// Keeps the sites of the object. What cannot be written is searched for again next time.
    pub(crate) fn store(&self, sites: &[Site], image: &Image<'_>, base: u64) -> Option<()> {
        // A filter of system calls that was inherited may end the process at a call that writes.
        if sys!(SYS_prctl, libc::PR_GET_SECCOMP) != 0 {
            return None;
        }
        let words = encode(sites, &self.identity, image, base)?;
        let mut other = self.path.clone();
        other.pop();
        other.push(b'.');
        let process = sys!(SYS_getpid) as u32;
        other.extend((0..8).map(|digit| b'a' + (process >> (4 * digit) & 15) as u8));
        other.push(0);
        let other = CStr::from_bytes_with_nul(&other).ok()?;
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        let file = sys!(SYS_openat, libc::AT_FDCWD, other, flags, 0o600);
        if failed(file) {
            return None;
        }
        let length = size_of_val(&words[..]);
        let written = sys::with_large_files(|| sys!(SYS_pwrite64, file, &words[..], length, 0));
        sys!(SYS_close, file);
        if written != length as isize || failed(sys!(SYS_rename, other, self.path()?)) {
            sys!(SYS_unlink, other);
            return None;
        }
        let mut folder = settings::cache()?;
        folder.push(0);
        cache_bounds::keep(CStr::from_bytes_with_nul(&folder).ok()?);
        Some(())
    }
}

/// The words of a file that only the user can have written.
fn read_own(file: isize) -> Option<Vec<u64>> {
    const OTHERS: u32 = 0o077;
    let mut status: libc::stat = zeroed();
    let known = !failed(sys!(SYS_fstat, file, &mut status));
    let length = usize::try_from(status.st_size).ok()?;
    let is_own = status.st_mode & libc::S_IFMT == libc::S_IFREG
        && status.st_mode & OTHERS == 0
        && i64::from(status.st_uid) == sys!(SYS_geteuid) as i64;
    if !known || !is_own || !length.is_multiple_of(size_of::<u64>()) || length > MOST_BYTES {
        return None;
    }
    let mut words = alloc::vec![0u64; length / size_of::<u64>()];
    let read = sys!(SYS_pread64, file, &mut words[..], length, 0);
    (read == length as isize).then_some(words)
}

/// The build-id of an object, from its notes in memory.
fn build_id<'a>(image: &Image<'a>, headers: &[Elf64_Phdr], base: u64) -> Option<&'a [u8]> {
    const GNU_BUILD_ID: [u32; 2] = [3, u32::from_le_bytes(*b"GNU\0")];
    const LENGTHS: core::ops::RangeInclusive<usize> = 8..=32;
    let notes = headers.iter().filter(|header| header.p_type == libc::PT_NOTE);
    notes.into_iter().find_map(|header| {
        let bytes = image.bytes_at(base.wrapping_add(header.p_vaddr))?;
        let mut rest = bytes.get(..header.p_filesz as usize)?;
        loop {
            let word = |at: usize| -> Option<u32> {
                Some(u32::from_le_bytes(rest.get(at..at + 4)?.try_into().ok()?))
            };
            let (name, length) = (word(0)? as usize, word(4)? as usize);
            let start = 12usize.checked_add(name.next_multiple_of(4))?;
            let end = start.checked_add(length)?;
            let contents = rest.get(start..end)?;
            if name == 4 && [word(8)?, word(12)?] == GNU_BUILD_ID && LENGTHS.contains(&length) {
                return Some(contents);
            }
            rest = rest.get(end.next_multiple_of(4)..)?;
        }
    })
}

fn sum(words: &[u64]) -> u64 {
    words
        .iter()
        .fold(MAGIC, |sum, word| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29))
}

fn encode(sites: &[Site], identity: &[u64], image: &Image<'_>, base: u64) -> Option<Vec<u64>> {
    let mut words = identity.to_vec();
    words.push(sites.len() as u64);
    for site in sites {
        let length = (site.range.end - site.range.start) as usize;
        let mut bytes = [0; SITE_BYTES];
        bytes.get_mut(..length)?.copy_from_slice(image.bytes_at(site.range.start)?.get(..length)?);
        let kind =
            [Kind::Number, Kind::Before, Kind::After].iter().position(|&k| k == site.kind)?;
        let number = site.number.map_or(0, |number| u64::from(number) << 32 | 1 << 31);
        words.push(site.syscall.wrapping_sub(base));
        words.push(site.range.start.wrapping_sub(base));
        words.push(number | u64::from(site.vectors) << 16 | (kind as u64) << 8 | length as u64);
        words.extend(bytes.chunks_exact(8).map(word_of));
        let mut relative = [0; 8];
        for (place, operand) in relative.chunks_exact_mut(2).zip(&site.relative) {
            place[0] = (operand.field - site.range.start) as u8;
            place[1] = (operand.end - site.range.start) as u8;
        }
        words.push(word_of(&relative));
        if site.relative.len() > relative.len() / 2 {
            return None;
        }
    }
    words.push(sum(&words));
    Some(words)
}

fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

fn decode(words: &[u64], identity: &[u64], image: &Image<'_>, base: u64) -> Option<Vec<Site>> {
    let (last, words) = words.split_last()?;
    let (header, list) = words.split_at_checked(HEADER_WORDS)?;
    let (count, known) = header.split_last()?;
    let right = sum(words) == *last && known == identity;
    if !right || list.len() as u64 != count.checked_mul(SITE_WORDS as u64)? {
        return None;
    }
    let mut free = 0;
    list.chunks_exact(SITE_WORDS)
        .map(|words| {
            let site = decode_site(words, image, base)?;
            let in_order = free <= site.range.start;
            free = site.range.end;
            in_order.then_some(site)
        })
        .collect()
}

/// A site, if it is in memory as it was found.
fn decode_site(words: &[u64], image: &Image<'_>, base: u64) -> Option<Site> {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    let syscall = base.wrapping_add(words[0]);
    let start = base.wrapping_add(words[1]);
    let length = (words[2] & 0xff) as usize;
    let range = start..start.checked_add(length as u64)?;
    let kind = *[Kind::Number, Kind::Before, Kind::After].get((words[2] >> 8 & 0xff) as usize)?;
    let mut bytes = [0; SITE_BYTES];
    for (place, word) in bytes.chunks_exact_mut(8).zip(&words[3..7]) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    let bytes = bytes.get(..length)?;
    let segment = image.segments.iter().find(|segment| {
        let end = segment.address + segment.bytes.len() as u64;
        segment.executable && segment.address <= range.start && range.end <= end
    })?;
    let in_memory = segment.bytes.get((start - segment.address) as usize..)?.get(..length)?;
    let at = usize::try_from(syscall.checked_sub(start)?).ok()?;
    if in_memory != bytes || bytes.get(at..)?.get(..2)? != SYSCALL {
        return None;
    }
    let mut relative = Vec::new();
    for place in words[7].to_le_bytes().chunks_exact(2).filter(|place| place[1] != 0) {
        let field = bytes.get(usize::from(place[0])..)?.get(..4)?;
        let distance = i32::from_le_bytes(field.try_into().ok()?);
        let end = start + u64::from(place[1]);
        let target = end.wrapping_add_signed(i64::from(distance));
        relative.push(Relative { field: start + u64::from(place[0]), end, target });
    }
    let number = (words[2] & 1 << 31 != 0).then_some((words[2] >> 32) as u32);
    let vectors = words[2] & 1 << 16 != 0;
    Some(Site { syscall, range, kind, number, vectors, relative })
}

#[cfg(test)]
mod tests {
    use duality_patcher::{Segment, find_sites};

    use super::*;

    const BASE: u64 = 0x10_0000;
    const IDENTITY: [u64; HEADER_WORDS - 1] = [MAGIC, SEARCH, 3, 4, 5, 6, 7, 0];
    /// mov $0x27,%eax; syscall; ret; mov $1,%eax; nop; lea 0x10(%rip),%rdi; syscall; ret
    const CODE: [u8; 24] = [
        0xb8, 0x27, 0, 0, 0, 0x0f, 0x05, 0xc3, 0xb8, 1, 0, 0, 0, 0x90, 0x48, 0x8d, 0x3d, 0x10, 0,
        0, 0, 0x0f, 0x05, 0xc3,
    ];

    fn image_of(bytes: &[u8]) -> Image<'_> {
        let address = BASE + 0x1000;
        let segments = vec![Segment { address, bytes, executable: true }];
        let code = Some(core::iter::once(address..address + bytes.len() as u64).collect());
        Image { segments, code, ..Image::default() }
    }

    #[test]
    fn sites_come_back_as_they_were_found() {
        let image = image_of(&CODE);
        let sites = find_sites(&image).sites;
        assert_eq!(sites.len(), 2);
        let words = encode(&sites, &IDENTITY, &image, BASE).expect("short");
        assert_eq!(decode(&words, &IDENTITY, &image, BASE), Some(sites));
        let other = [MAGIC, SEARCH, 3, 4, 5, 6, 8, 0];
        assert_eq!(decode(&words, &other, &image, BASE), None);
        assert_eq!(decode(&words[..words.len() - 1], &IDENTITY, &image, BASE), None);
    }

    #[test]
    fn other_bytes_at_a_site_are_searched_again() {
        let image = image_of(&CODE);
        let words = encode(&find_sites(&image).sites, &IDENTITY, &image, BASE).expect("short");
        for at in [0, 1, 5, 6, 14, 20, 22] {
            let mut changed = CODE;
            changed[at] ^= 0x40;
            assert_eq!(decode(&words, &IDENTITY, &image_of(&changed), BASE), None, "byte {at}");
        }
    }

    #[test]
    fn a_file_with_a_right_sum_changes_nothing_but_calls_in_code() {
        let image = image_of(&CODE);
        let words = encode(&find_sites(&image).sites, &IDENTITY, &image, BASE).expect("short");
        let forged = |index: usize, word: u64| {
            let mut words = words.clone();
            words[index] = word;
            let last = words.len() - 1;
            words[last] = sum(&words[..last]);
            decode(&words, &IDENTITY, &image, BASE)
        };
        // The call, the start and the length elsewhere; too many sites; a kind that does not exist.
        for (index, word) in [
            (HEADER_WORDS, 0x1000),
            (HEADER_WORDS + 1, 0x0),
            (HEADER_WORDS + 1, u64::MAX),
            (HEADER_WORDS + 2, 40),
            (HEADER_WORDS + 2, 3 << 8 | 7),
            (HEADER_WORDS - 1, 3),
            (HEADER_WORDS - 1, u64::MAX),
            (0, 0),
            (1, SEARCH ^ 1),
        ] {
            assert_eq!(forged(index, word), None, "word {index}: {word:#x}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_corrupted_file_is_not_used(at in 0usize..26, change in 1u64..) {
            let image = image_of(&CODE);
            let sites = find_sites(&image).sites;
            let mut words = encode(&sites, &IDENTITY, &image, BASE).expect("short");
            let at = at % words.len();
            words[at] ^= change;
            assert_eq!(decode(&words, &IDENTITY, &image, BASE), None);
        }
    }
}
