//! The file of an object: its program headers, its sections, and its bytes as memory.

use core::ffi::CStr;
use core::marker::PhantomData;
use core::ops::Deref;

use duality_patcher::{Image, Segment, code_sections};
use libc::{Elf64_Ehdr, Elf64_Phdr};

use crate::kernel::plain::zeroed;
use crate::kernel::sys::{self, failed, sys};

/// A file that holds an object.
pub(crate) struct ObjectFile {
    number: i32,
    pub(crate) status: libc::stat,
}

/// A file that was opened here, and is closed when the value is dropped.
pub(crate) struct Opened(ObjectFile);

impl Opened {
    pub(crate) fn at(path: &CStr) -> Option<Self> {
        let number = sys!(SYS_openat, libc::AT_FDCWD, path, libc::O_RDONLY | libc::O_CLOEXEC);
        if failed(number) {
            return None;
        }
        match ObjectFile::of(number as i32) {
            Some(file) => Some(Self(file)),
            None => {
                sys!(SYS_close, number);
                None
            }
        }
    }
}

impl Deref for Opened {
    type Target = ObjectFile;

    fn deref(&self) -> &ObjectFile {
        &self.0
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        sys!(SYS_close, self.0.number);
    }
}

impl ObjectFile {
    /// The file that a descriptor refers to.
    pub(crate) fn of(number: i32) -> Option<Self> {
        let mut status: libc::stat = zeroed();
        let known = !failed(sys!(SYS_fstat, number, &mut status));
        (known && status.st_size >= size_of::<Elf64_Ehdr>() as i64)
            .then_some(Self { number, status })
    }

    /// The bytes of the file as memory.
    pub(crate) fn view(&self) -> Option<View<'_>> {
        let length = self.status.st_size as usize;
        let flags = libc::MAP_PRIVATE;
        let start = sys::map_file(length, libc::PROT_READ, flags, self.number, 0)?;
        Some(View { start, length, file: PhantomData })
    }
}

/// The bytes of a file, which are mapped until the value is dropped. So the pages that a search
/// reads do not stay in the memory of the program.
pub(crate) struct View<'a> {
    start: usize,
    length: usize,
    file: PhantomData<&'a ObjectFile>,
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        // SAFETY: mapped by `ObjectFile::view`, and no reference outlives the value.
        unsafe { sys::unmap(self.start, self.length) };
    }
}

impl View<'_> {
    fn bytes(&self) -> &[u8] {
        // SAFETY: mapped, and the file is code that is executed, so nothing writes it.
        unsafe { core::slice::from_raw_parts(self.start as *const u8, self.length) }
    }

    /// The program headers, if the file is an object for this machine.
    pub(crate) fn headers(&self) -> Option<&[Elf64_Phdr]> {
        const X86_64: u16 = 62;
        let bytes = self.bytes();
        if !bytes.starts_with(b"\x7fELF\x02\x01") {
            return None;
        }
        // SAFETY: the file is long enough (`ObjectFile::of`), the mapping is aligned, and the
        // header has plain integers.
        let header = unsafe { &*bytes.as_ptr().cast::<Elf64_Ehdr>() };
        let size = usize::from(header.e_phnum) * size_of::<Elf64_Phdr>();
        let start = header.e_phoff as usize;
        if header.e_machine != X86_64
            || !start.is_multiple_of(8)
            || start.checked_add(size)? > bytes.len()
        {
            return None;
        }
        // SAFETY: inside the file, aligned, and plain integers.
        Some(unsafe {
            core::slice::from_raw_parts(
                bytes.as_ptr().add(start).cast(),
                usize::from(header.e_phnum),
            )
        })
    }

    /// The object as it is loaded at `base`. Code is searched for in the segments of which
    /// `is_searched` is true.
    pub(crate) fn image(
        &self,
        base: u64,
        is_searched: impl Fn(&Elf64_Phdr) -> bool,
    ) -> Option<Image<'_>> {
        let bytes = self.bytes();
        let mut image = Image::default();
        for header in self.headers()? {
            let address = base.wrapping_add(header.p_vaddr);
            let in_file = header.p_offset as usize..(header.p_offset + header.p_filesz) as usize;
            match (header.p_type, bytes.get(in_file)) {
                (libc::PT_LOAD, Some(part)) => {
                    let executable = header.p_flags & libc::PF_X != 0 && is_searched(header);
                    image.segments.push(Segment { address, bytes: part, executable });
                }
                (libc::PT_GNU_EH_FRAME, _) => image.functions = Some(address),
                _ => {}
            }
        }
        image.code = code_sections(bytes, base);
        Some(image)
    }
}
