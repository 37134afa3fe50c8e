//! The names of the program's functions, from the symbols of its file, which are not in memory.

use core::mem::size_of;

use libc::{Elf64_Ehdr, Elf64_Shdr, Elf64_Sym};

use crate::kernel::plain::Plain;
use crate::kernel::sys::{self, failed, sys};
use crate::kernel::user;

/// The program's file, mapped while the engine reads it.
struct File {
    start: usize,
    length: usize,
}

impl File {
    fn open() -> Option<Self> {
        let (path, flags) = (c"/proc/self/exe", libc::O_RDONLY | libc::O_CLOEXEC);
        let number = sys!(SYS_openat, libc::AT_FDCWD, path, flags);
        if failed(number) {
            return None;
        }
        let length = sys!(SYS_lseek, number, 0, libc::SEEK_END) as usize;
        let start = sys::map_file(length, libc::PROT_READ, libc::MAP_PRIVATE, number as i32, 0);
        sys!(SYS_close, number);
        Some(Self { start: start?, length })
    }

    /// A structure at an offset of the file.
    fn read<T: Plain>(&self, offset: u64) -> Option<T> {
        let end = (offset as usize).checked_add(size_of::<T>())?;
        if end > self.length {
            return None;
        }
        user::read(self.start + offset as usize).ok()
    }

    fn section(&self, header: &Elf64_Ehdr, index: u64) -> Option<Elf64_Shdr> {
        self.read(header.e_shoff.checked_add(index * size_of::<Elf64_Shdr>() as u64)?)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: `open` mapped it, and nothing that was read refers to it.
        unsafe { sys::unmap(self.start, self.length) };
    }
}

/// The name of the function at an address of the file. `None`: the file has no symbols.
pub(crate) fn name_of(address: u64, into: &mut [u8]) -> Option<&[u8]> {
    const SYMBOLS: u32 = 2;
    const FUNCTION: u8 = 2;
    let file = File::open()?;
    let header: Elf64_Ehdr = file.read(0)?;
    let mut sections =
        (0..u64::from(header.e_shnum)).filter_map(|index| file.section(&header, index));
    let symbols = sections.find(|section| section.sh_type == SYMBOLS)?;
    let strings = file.section(&header, u64::from(symbols.sh_link))?;
    let size = size_of::<Elf64_Sym>() as u64;
    let found = (0..symbols.sh_size / size).find_map(|index| {
        let symbol: Elf64_Sym = file.read(symbols.sh_offset + index * size)?;
        let inside = address.checked_sub(symbol.st_value)? < symbol.st_size;
        (inside && symbol.st_info & 0xf == FUNCTION).then_some(symbol)
    })?;
    let at = strings.sh_offset.checked_add(u64::from(found.st_name))?;
    let _inside: u8 = file.read(at)?;
    user::read_text(file.start + at as usize, into).ok()
}
