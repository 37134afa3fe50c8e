//! The parts of loaded objects that the engine reads: segments, and the functions that the vDSO
//! exports.

use libc::{Elf64_Ehdr, Elf64_Phdr, Elf64_Sym};

/// `Elf64_Dyn` of elf(5), which the libc crate lacks.
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: u64,
}

/// The program headers of an object that is mapped whole from its header on, as the vDSO is.
///
/// # Safety
///
/// An ELF header stands at `base`, and its program headers are mapped.
pub(crate) unsafe fn program_headers(base: usize) -> &'static [Elf64_Phdr] {
    // SAFETY: the caller keeps the promise above.
    unsafe {
        let header = &*(base as *const Elf64_Ehdr);
        let first = (base + header.e_phoff as usize) as *const Elf64_Phdr;
        core::slice::from_raw_parts(first, usize::from(header.e_phnum))
    }
}

/// The address of a function that the object at `base`, the vDSO, exports.
pub(crate) fn exported(base: usize, name: &[u8]) -> Option<usize> {
    const STRINGS: i64 = 5;
    const SYMBOLS: i64 = 6;
    const HASH: i64 = 4;
    // SAFETY: the kernel mapped a well-formed object there.
    unsafe {
        let headers = program_headers(base);
        let dynamic = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC)?;
        let load = headers.iter().find(|header| header.p_type == libc::PT_LOAD)?;
        let bias = base.wrapping_sub(load.p_vaddr as usize);
        let mut entry = (bias + dynamic.p_vaddr as usize) as *const Dynamic;
        let (mut strings, mut symbols, mut hash) = (0, 0, 0);
        while (*entry).tag != 0 {
            let address = bias.wrapping_add((*entry).value as usize);
            match (*entry).tag {
                STRINGS => strings = address,
                SYMBOLS => symbols = address,
                HASH => hash = address,
                _ => {}
            }
            entry = entry.add(1);
        }
        if strings == 0 || symbols == 0 {
            return None;
        }
        // The old hash table begins with the counts of its buckets and of the symbols. Where there
        // is none, the strings follow the symbols.
        let count = match hash {
            0 => strings.checked_sub(symbols)? / size_of::<Elf64_Sym>(),
            hash => *(hash as *const u32).add(1) as usize,
        };
        (0..count).find_map(|index| {
            let symbol = &*(symbols as *const Elf64_Sym).add(index);
            let text = (strings + symbol.st_name as usize) as *const u8;
            let equal = name.iter().enumerate().all(|(at, &byte)| *text.add(at) == byte)
                && *text.add(name.len()) == 0;
            (equal && symbol.st_value != 0).then_some(bias + symbol.st_value as usize)
        })
    }
}
