//! Writes the replacement of a site: a jump in the text, and the stub that it leads to.
//!
//! ```text
//!   text                                   stub, within two gibibytes of the text
//!   start:  jmp stub ────────────────────▶ moved:    what stood before the syscall
//!           (a Number site ends with a     restart:  lea after(%rip), %rcx
//!            jump back to its start)                 jmp thunk ──▶ the dispatcher's entry
//!   end: ◀─────────────────┐                         [restart address][address after the syscall]
//!                          │               raw:      syscall
//!                          │               after:    what stood after the syscall
//!                          └────────────────────────  jmp end
//! ```
//!
//! A stub enters the dispatcher with `rcx` at `after`. The dispatcher reads the two addresses below
//! `after`. The dispatcher returns to `after`, or to `raw` if the kernel itself must execute the
//! call.

use alloc::vec::Vec;

use crate::image::Image;
use crate::sites::{JUMP_BYTES, Kind, Site};

/// The length of the longest stub.
pub const MAX_STUB_BYTES: usize = 96;
/// Room for the two jumps to the entries, before the first stub.
pub const THUNK_BYTES: usize = 32;

/// The addresses that stubs lead to.
#[derive(Debug, Clone, Copy)]
pub struct Entries {
    /// The dispatcher, which keeps general registers.
    pub general: u64,
    /// The dispatcher, which keeps vector registers too.
    pub vectors: u64,
}

/// The bytes to write, and their addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patch {
    /// The bytes that replace bytes of the text, by address.
    pub writes: Vec<(u64, Vec<u8>)>,
    /// The stubs. The stubs must be placed at the address for which they were written.
    pub stubs: Vec<u8>,
}

/// Writes the patch of `sites` for stubs that will stand at `base`.
///
/// Returns `None` if `base` is further than two gibibytes from a site.
pub fn patch(image: &Image<'_>, sites: &[Site], base: u64, entries: Entries) -> Option<Patch> {
    let mut patch = Patch::default();
    for entry in [entries.general, entries.vectors] {
        // jmp *0(%rip); the address.
        patch.stubs.extend_from_slice(&[0xff, 0x25, 0, 0, 0, 0]);
        patch.stubs.extend_from_slice(&entry.to_le_bytes());
        patch.stubs.resize(patch.stubs.len().next_multiple_of(THUNK_BYTES / 2), 0xcc);
    }
    for site in sites {
        let stub = base + patch.stubs.len() as u64;
        let code = image.bytes_at(site.range.start)?;
        append_stub(&mut patch.stubs, site, code, base)?;
        patch.writes.push((site.range.start, replacement(site, stub)?));
    }
    Some(patch)
}

fn append_stub(stubs: &mut Vec<u8>, site: &Site, code: &[u8], base: u64) -> Option<()> {
    let (before, rest) = code.split_at_checked((site.syscall - site.range.start) as usize)?;
    let after = rest.get(2..(site.range.end - site.syscall) as usize)?;
    append_moved(stubs, site, before, site.range.start, base)?;
    let restart = base + stubs.len() as u64;
    // lea 21(%rip), %rcx: over the jump of five bytes, two addresses and the syscall.
    stubs.extend_from_slice(&[0x48, 0x8d, 0x0d, 23, 0, 0, 0]);
    let thunk = base + if site.vectors { THUNK_BYTES as u64 / 2 } else { 0 };
    append_jump(stubs, base, thunk)?;
    let restart = if site.kind == Kind::Number { site.syscall } else { restart };
    // If the instructions after the call have moved, the text has no place after the call to return
    // to.
    let returns_to = if site.kind == Kind::After { 0 } else { site.range.end };
    stubs.extend_from_slice(&restart.to_le_bytes());
    stubs.extend_from_slice(&returns_to.to_le_bytes());
    stubs.extend_from_slice(&[0x0f, 0x05]);
    append_moved(stubs, site, after, site.syscall + 2, base)?;
    append_jump(stubs, base, site.range.end)?;
    stubs.resize(stubs.len().next_multiple_of(8), 0xcc);
    Some(())
}

/// Appends the instructions that stood at `from` in the text, and adjusts the operands that depend
/// on their address.
fn append_moved(stubs: &mut Vec<u8>, site: &Site, code: &[u8], from: u64, base: u64) -> Option<()> {
    let first = stubs.len();
    stubs.extend_from_slice(code);
    let moved = |address: u64| base + first as u64 + (address - from);
    let until = from + code.len() as u64;
    for operand in site.relative.iter().filter(|operand| (from..until).contains(&operand.field)) {
        let at = first + (operand.field - from) as usize;
        let distance = distance(moved(operand.end), operand.target)?;
        stubs.get_mut(at..at + 4)?.copy_from_slice(&distance.to_le_bytes());
    }
    Some(())
}

fn append_jump(stubs: &mut Vec<u8>, base: u64, target: u64) -> Option<()> {
    let distance = distance(base + stubs.len() as u64 + JUMP_BYTES, target)?;
    stubs.push(0xe9);
    stubs.extend_from_slice(&distance.to_le_bytes());
    Some(())
}

fn distance(from: u64, to: u64) -> Option<i32> {
    i32::try_from(to.wrapping_sub(from).cast_signed()).ok()
}

/// The bytes in the text that replace the site.
fn replacement(site: &Site, stub: u64) -> Option<Vec<u8>> {
    let length = (site.range.end - site.range.start) as usize;
    let mut bytes = Vec::with_capacity(length);
    bytes.push(0xe9);
    bytes.extend_from_slice(&distance(site.range.start + JUMP_BYTES, stub)?.to_le_bytes());
    bytes.resize(length, 0xcc);
    if site.kind == Kind::Number {
        // A call that a signal interrupted is restarted at its own address.
        bytes[length - 2] = 0xeb;
        bytes[length - 1] = (length as u8).wrapping_neg();
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Segment, find_sites};

    const ENTRIES: Entries = Entries { general: 0x1111, vectors: 0x2222 };

    fn image_of(bytes: &[u8]) -> Image<'_> {
        let segment = Segment { address: 0x10_1000, bytes, executable: true };
        let code = 0x10_1000..0x10_1000 + bytes.len() as u64;
        let (segments, code) = (alloc::vec![segment], Some(alloc::vec![code]));
        Image { segments, code, ..Image::default() }
    }

    #[test]
    fn a_number_site_jumps_to_its_stub_and_back() {
        let bytes = [0xb8, 0x27, 0, 0, 0, 0x0f, 0x05, 0xc3];
        let image = image_of(&bytes);
        let sites = find_sites(&image).sites;
        let patch = patch(&image, &sites, 0x20_0000, ENTRIES).expect("near enough");
        let (address, text) = &patch.writes[0];
        assert_eq!(*address, 0x10_1000);
        let stub: i32 = 0x20_0000 + THUNK_BYTES as i32;
        assert_eq!(text[..5], [&[0xe9][..], &(stub - 0x10_1005).to_le_bytes()].concat());
        assert_eq!(text[5..], [0xeb, 0xf9]);
        let stub = &patch.stubs[THUNK_BYTES..];
        assert_eq!(stub[..5], bytes[..5]);
        // `rcx` is loaded with the address after the raw system call.
        assert_eq!(stub[5..12], [0x48, 0x8d, 0x0d, 23, 0, 0, 0]);
        assert_eq!(stub[12 + 23 - 2..12 + 23], [0x0f, 0x05]);
        assert_eq!(stub[17..25], 0x10_1005u64.to_le_bytes());
        assert_eq!(stub[25..33], 0x10_1007u64.to_le_bytes());
    }

    #[test]
    fn an_operand_relative_to_its_instruction_refers_to_the_same_place() {
        // mov $1,%eax; nop; lea 0x10(%rip),%rdi; syscall
        let bytes = [0xb8, 1, 0, 0, 0, 0x90, 0x48, 0x8d, 0x3d, 0x10, 0, 0, 0, 0x0f, 0x05];
        let image = image_of(&bytes);
        let sites = find_sites(&image).sites;
        let patch = patch(&image, &sites, 0x20_0000, ENTRIES).expect("near enough");
        let stub = &patch.stubs[THUNK_BYTES..];
        let distance = i32::from_le_bytes([stub[3], stub[4], stub[5], stub[6]]);
        let end = 0x20_0000 + THUNK_BYTES as i32 + 7;
        assert_eq!(end + distance, 0x10_100d + 0x10);
    }

    #[test]
    fn too_far_is_refused() {
        let bytes = [0xb8, 0x27, 0, 0, 0, 0x0f, 0x05, 0xc3];
        let image = image_of(&bytes);
        let sites = find_sites(&image).sites;
        assert_eq!(patch(&image, &sites, 0x1_0000_0000, ENTRIES), None);
    }
}
