//! The sections that hold code, read from the section headers of an ELF file.
//!
//! A segment that may be executed need not be code. The gold linker, and `-z noseparate-code`, put
//! symbols, relocations and constants into it. Only the section headers tell these from code.
//!
//! Source: System V Application Binary Interface, chapter "Object Files".

use alloc::vec::Vec;
use core::ops::Range;

const ELF_HEADER_BYTES: usize = 64;
const ENTRY_BYTES: usize = 64;
/// The section is in memory; it holds instructions; it has no bytes in the file.
const SHF_ALLOC: u64 = 2;
const SHF_EXECINSTR: u64 = 4;
const SHT_NOBITS: u32 = 8;

/// The addresses of the sections that hold code, in order, for the object in the bytes of `file`
/// that is loaded at `base`. `None` if the file has no section headers (some tools remove them), or
/// if they name no code.
#[must_use]
pub fn code_sections(file: &[u8], base: u64) -> Option<Vec<Range<u64>>> {
    in_table(section_table(file)?, base)
}

fn section_table(file: &[u8]) -> Option<&[u8]> {
    let header = file.get(..ELF_HEADER_BYTES)?;
    let start = usize::try_from(u64::from_le_bytes(header[40..48].try_into().ok()?)).ok()?;
    let size = usize::from(u16::from_le_bytes([header[58], header[59]]));
    let count = usize::from(u16::from_le_bytes([header[60], header[61]]));
    if !header.starts_with(b"\x7fELF\x02\x01") || size != ENTRY_BYTES || start == 0 {
        return None;
    }
    file.get(start..start.checked_add(count * ENTRY_BYTES)?)
}

fn in_table(table: &[u8], base: u64) -> Option<Vec<Range<u64>>> {
    let number = |entry: &[u8], at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&entry[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    let code = |entry: &[u8]| {
        let kind = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        let wanted = SHF_ALLOC | SHF_EXECINSTR;
        if kind == SHT_NOBITS || number(entry, 8) & wanted != wanted {
            return None;
        }
        let start = base.wrapping_add(number(entry, 16));
        let end = start.checked_add(number(entry, 32))?;
        (start < end).then_some(start..end)
    };
    let mut sections: Vec<Range<u64>> = table.chunks_exact(ENTRY_BYTES).filter_map(code).collect();
    sections.sort_unstable_by_key(|section| section.start);
    // Each address is searched once.
    let mut end = 0;
    for section in &mut sections {
        section.start = section.start.max(end);
        end = end.max(section.end);
    }
    sections.retain(|section| section.start < section.end);
    (!sections.is_empty()).then_some(sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: u32, flags: u64, address: u64, length: u64) -> [u8; ENTRY_BYTES] {
        let mut entry = [0; ENTRY_BYTES];
        entry[4..8].copy_from_slice(&kind.to_le_bytes());
        entry[8..16].copy_from_slice(&flags.to_le_bytes());
        entry[16..24].copy_from_slice(&address.to_le_bytes());
        entry[32..40].copy_from_slice(&length.to_le_bytes());
        entry
    }

    #[test]
    fn only_sections_with_instructions_are_code() {
        let table = [
            entry(0, 0, 0, 0),
            // .text, .plt, .rodata, .bss, and a section that is not loaded.
            entry(1, 6, 0x2000, 0x100),
            entry(1, 6, 0x1000, 0x40),
            entry(1, 2, 0x3000, 0x100),
            entry(SHT_NOBITS, 6, 0x5000, 0x100),
            entry(1, 4, 0x6000, 0x100),
        ]
        .concat();
        let found = in_table(&table, 0x40_0000).expect("two");
        assert_eq!(found, [0x40_1000..0x40_1040, 0x40_2000..0x40_2100]);
        assert_eq!(in_table(&entry(1, 2, 0x1000, 8), 0), None);
    }

    #[test]
    fn a_file_without_a_table_says_so() {
        let mut file = alloc::vec![0; ELF_HEADER_BYTES + 2 * ENTRY_BYTES];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[ELF_HEADER_BYTES..][..ENTRY_BYTES].copy_from_slice(&entry(1, 6, 0x1000, 8));
        assert_eq!(code_sections(&file, 0), None);
        file[40..48].copy_from_slice(&(ELF_HEADER_BYTES as u64).to_le_bytes());
        file[58..60].copy_from_slice(&(ENTRY_BYTES as u16).to_le_bytes());
        assert_eq!(code_sections(&file, 0), None);
        file[60..62].copy_from_slice(&2u16.to_le_bytes());
        assert_eq!(code_sections(&file, 0), Some(alloc::vec![0x1000..0x1008]));
        file[60..62].copy_from_slice(&3u16.to_le_bytes());
        assert_eq!(code_sections(&file, 0), None);
        assert_eq!(code_sections(&file[..50], 0), None);
    }

    proptest::proptest! {
        #[test]
        fn any_table_is_survived(
            table in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..400),
            base in proptest::prelude::any::<u64>(),
        ) {
            let mut end = 0;
            for section in in_table(&table, base).into_iter().flatten() {
                assert!(end <= section.start && section.start < section.end);
                end = section.end;
            }
        }
    }
}
