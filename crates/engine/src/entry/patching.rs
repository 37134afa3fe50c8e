//! Patches the objects of the process: loaded objects at the start, and newly mapped objects later.
//!
//! No memory is writable and executable at once. The engine writes the changed pages and the stubs
//! into a file in memory, and maps the file over the text:
//!
//! ```text
//!   before   [ text of libc, from its file                      ]
//!   after    [ text ][ page ][ text ][ page ][ text            ]      [ stubs ]
//!                    └──────── from the file in memory ────────────────┘
//! ```

use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ops::Range;

use duality_patcher::{Entries, Image, MAX_STUB_BYTES, Segment, THUNK_BYTES, find_sites, patch};
use libc::{Elf64_Ehdr, Elf64_Phdr};

use crate::entry::frame::{duality_entry, duality_entry_clock, duality_entry_vectors};
use crate::entry::vectors::measure_vector_state;
use crate::kernel::plain::zeroed;
use crate::kernel::sys::{self, failed, sys};
use crate::show::loaded_objects;
use crate::show::stats;

const PAGE: u64 = 4096;
/// The longest distance of the stubs from the text.
const NEAR: usize = 0x7000_0000;
const STEP: usize = 1 << 20;

/// `struct dl_phdr_info`, of dl_iterate_phdr(3).
#[repr(C)]
struct LoadedObject {
    base: usize,
    name: *const c_char,
    headers: *const Elf64_Phdr,
    count: u16,
}

unsafe extern "C" {
    fn dl_iterate_phdr(
        callback: extern "C" fn(&LoadedObject, usize, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
}

/// A site that cannot be patched. The call there would run natively, and block the whole program.
pub(crate) struct Unpatchable {
    pub(crate) object: Vec<u8>,
    pub(crate) address: u64,
}

/// Patches the objects that the dynamic linker has loaded.
///
/// # Errors
///
/// The error is the first site that cannot be patched.
pub(crate) fn patch_loaded() -> Result<(), Unpatchable> {
    struct Walk {
        result: Result<(), Unpatchable>,
    }
    extern "C" fn visit(object: &LoadedObject, _: usize, data: *mut c_void) -> c_int {
        // SAFETY: the address is that of the walk below.
        let walk = unsafe { &mut *data.cast::<Walk>() };
        // SAFETY: the dynamic linker describes what it has loaded.
        walk.result = unsafe { patch_object(object) };
        c_int::from(walk.result.is_err())
    }
    let mut walk = Walk { result: Ok(()) };
    // SAFETY: the callback gets what it expects.
    unsafe { dl_iterate_phdr(visit, (&raw mut walk).cast()) };
    walk.result
}

/// # Safety
///
/// The object is loaded as its program headers say.
unsafe fn patch_object(object: &LoadedObject) -> Result<(), Unpatchable> {
    // SAFETY: promised by the caller.
    let headers = unsafe { core::slice::from_raw_parts(object.headers, usize::from(object.count)) };
    // SAFETY: as above.
    let name = unsafe { CStr::from_ptr(object.name) }.to_bytes();
    let mut image = Image::default();
    let own = duality_entry as *const () as u64;
    for header in headers {
        let address = (object.base as u64).wrapping_add(header.p_vaddr);
        match header.p_type {
            libc::PT_LOAD if header.p_flags & libc::PF_R != 0 => {
                if (address..address + header.p_memsz).contains(&own) {
                    return Ok(());
                }
                let length = header.p_memsz as usize;
                // SAFETY: as above.
                let bytes = unsafe { core::slice::from_raw_parts(address as *const u8, length) };
                let executable = header.p_flags & libc::PF_X != 0;
                image.segments.push(Segment { address, bytes, executable });
            }
            libc::PT_GNU_EH_FRAME => image.functions = Some(address),
            _ => {}
        }
    }
    if name.starts_with(b"linux-vdso") {
        // The clocks of threads are a system call there. If the kernel has sealed the object, they
        // are those of workers.
        let clock = duality_entry_clock as *const () as u64;
        let _stays_native = apply(&image, name, Entries { general: clock, vectors: clock });
        return Ok(());
    }
    image.is_libc = is_libc(name);
    let shown = if name.is_empty() { loaded_objects::PROGRAM } else { name };
    loaded_objects::remember(&image, shown, object.base as u64);
    apply(&image, name, entries())
}

/// Where the stubs of the program's objects lead.
fn entries() -> Entries {
    Entries {
        general: duality_entry as *const () as u64,
        vectors: duality_entry_vectors as *const () as u64,
    }
}

fn is_libc(path: &[u8]) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    name == b"libc.so.6" || name.starts_with(b"ld-linux") || name.starts_with(b"libpthread.so")
}

/// Finds the sites of `image` and patches them.
fn apply(image: &Image<'_>, name: &[u8], entries: Entries) -> Result<(), Unpatchable> {
    let findings = find_sites(image);
    if let Some(&address) = findings.unpatchable.first() {
        return Err(Unpatchable { object: name.to_vec(), address });
    }
    if findings.sites.is_empty() {
        return Ok(());
    }
    stats::SITES.add_unlocked(findings.sites.len() as u64);
    if findings.sites.iter().any(|site| site.vectors) {
        measure_vector_state();
    }
    let first = findings.sites[0].syscall;
    let failure = || Unpatchable { object: name.to_vec(), address: first };
    let room = THUNK_BYTES + findings.sites.len() * MAX_STUB_BYTES;
    let room = room.next_multiple_of(PAGE as usize);
    let base = reserve_near(first as usize, room).ok_or_else(failure)?;
    let patch = patch(image, &findings.sites, base as u64, entries).ok_or_else(failure)?;
    let file = sys!(SYS_memfd_create, c"duality-text", libc::MFD_CLOEXEC);
    if failed(file) {
        return Err(failure());
    }
    let done = sys::with_large_files(|| write_and_map(file, image, &patch, base, room));
    sys!(SYS_close, file);
    done.ok_or_else(failure)
}

fn write_and_map(
    file: isize,
    text: &Image<'_>,
    patch: &duality_patcher::Patch,
    base: usize,
    room: usize,
) -> Option<()> {
    let mut pages = Pages { list: Vec::new() };
    for (address, bytes) in &patch.writes {
        pages.write(text, *address, bytes)?;
    }
    // The stubs come first in the file, then the pages.
    write_all(file, &patch.stubs, 0)?;
    sys!(SYS_ftruncate, file, room as u64 + pages.list.len() as u64 * PAGE);
    map_over(file, base, room, 0)?;
    for (index, (_, page)) in pages.list.iter().enumerate() {
        write_all(file, page, room as u64 + index as u64 * PAGE)?;
    }
    // Neighbouring pages become one mapping.
    let mut index = 0;
    while index < pages.list.len() {
        let mut end = index + 1;
        while end < pages.list.len()
            && pages.list[end].0 == pages.list[index].0 + (end - index) as u64 * PAGE
        {
            end += 1;
        }
        let address = pages.list[index].0 as usize;
        let offset = room as u64 + index as u64 * PAGE;
        map_over(file, address, (end - index) * PAGE as usize, offset)?;
        index = end;
    }
    Some(())
}

/// The pages that change, as they will be, in order.
struct Pages {
    list: Vec<(u64, Vec<u8>)>,
}

impl Pages {
    fn write(&mut self, text: &Image<'_>, address: u64, bytes: &[u8]) -> Option<()> {
        for (index, &byte) in bytes.iter().enumerate() {
            let at = address + index as u64;
            let page = self.page(text, at & !(PAGE - 1))?;
            page[(at % PAGE) as usize] = byte;
        }
        Some(())
    }

    fn page(&mut self, text: &Image<'_>, address: u64) -> Option<&mut Vec<u8>> {
        let index = match self.list.binary_search_by_key(&address, |page| page.0) {
            Ok(index) => index,
            Err(index) => {
                let mut page = alloc::vec![0; PAGE as usize];
                let segment = text.segments.iter().find(|segment| {
                    let end = segment.address + segment.bytes.len() as u64;
                    segment.executable && address < end && segment.address < address + PAGE
                })?;
                // A segment may begin or end inside the page, and the rest of the page is padding.
                let end = segment.address + segment.bytes.len() as u64;
                let from = address.max(segment.address);
                let to = (address + PAGE).min(end);
                let part = &segment.bytes
                    [(from - segment.address) as usize..(to - segment.address) as usize];
                let at = (from - address) as usize;
                page[at..at + part.len()].copy_from_slice(part);
                self.list.insert(index, (address, page));
                index
            }
        };
        Some(&mut self.list[index].1)
    }
}

fn write_all(file: isize, mut bytes: &[u8], mut offset: u64) -> Option<()> {
    while !bytes.is_empty() {
        let count = sys!(SYS_pwrite64, file, bytes, bytes.len(), offset);
        if count <= 0 {
            return None;
        }
        bytes = &bytes[count as usize..];
        offset += count as u64;
    }
    Some(())
}

fn map_over(file: isize, address: usize, length: usize, offset: u64) -> Option<()> {
    let protection = libc::PROT_READ | libc::PROT_EXEC;
    let flags = libc::MAP_PRIVATE | libc::MAP_FIXED;
    let [protection, flags] = [protection as usize, flags as usize];
    let arguments = [address, length, protection, flags, file as usize, offset as usize];
    // SAFETY: the file contains the bytes that are mapped there now, with the system calls patched.
    let mapped = unsafe { sys::call(libc::SYS_mmap, arguments) };
    (mapped == address as isize).then_some(())
}

/// Reserves addresses that a jump from the text reaches.
fn reserve_near(text: usize, length: usize) -> Option<usize> {
    let text = text & !(PAGE as usize - 1);
    let below = (1..NEAR / STEP).filter_map(|step| text.checked_sub(step * STEP));
    // A program at a fixed low address has its heap above; far enough away, there is room.
    let above = (16..NEAR / STEP).map(|step| text + step * STEP);
    below
        .filter(|&address| address > STEP)
        .chain(above)
        .find(|&address| sys::map_exactly(address, length, libc::PROT_NONE, 0))
}

/// Patches code that the program has mapped from a file just now: dlopen(3).
pub(crate) fn patch_mapped(file: i32, mapped: Range<usize>, offset: u64) {
    let mut status: libc::stat = zeroed();
    if failed(sys!(SYS_fstat, file, &mut status)) || status.st_size < 64 {
        return;
    }
    let length = status.st_size as usize;
    let view = sys::map_file(length, libc::PROT_READ, libc::MAP_PRIVATE, file, 0);
    let Some(view) = view else { return };
    // SAFETY: mapped just now; the file is code that is about to be executed, and is not being
    // written.
    let bytes = unsafe { core::slice::from_raw_parts(view as *const u8, length) };
    if let Err(site) = patch_from_file(file, bytes, &mapped, offset) {
        crate::show::report::unpatchable(&site.object, site.address);
    }
    // SAFETY: the memory was mapped above, and its content is no longer used.
    unsafe { sys::unmap(view, length) };
}

fn patch_from_file(
    file: i32,
    bytes: &[u8],
    mapped: &Range<usize>,
    offset: u64,
) -> Result<(), Unpatchable> {
    let Some(headers) = headers_of_file(bytes) else { return Ok(()) };
    // The object's base, from the segment that has been mapped.
    let Some(text) = headers.iter().find(|header| {
        header.p_type == libc::PT_LOAD
            && header.p_flags & libc::PF_X != 0
            && header.p_offset & !(PAGE - 1) <= offset
            && offset < header.p_offset + header.p_filesz
    }) else {
        return Ok(());
    };
    let base = (mapped.start as u64)
        .wrapping_sub(offset)
        .wrapping_add(text.p_offset)
        .wrapping_sub(text.p_vaddr);
    let mut image = Image::default();
    for header in headers {
        let address = base.wrapping_add(header.p_vaddr);
        let in_file = header.p_offset as usize..(header.p_offset + header.p_filesz) as usize;
        match (header.p_type, bytes.get(in_file)) {
            (libc::PT_LOAD, Some(part)) => {
                let executable = core::ptr::eq(header, text);
                image.segments.push(Segment { address, bytes: part, executable });
            }
            (libc::PT_GNU_EH_FRAME, _) => image.functions = Some(address),
            _ => {}
        }
    }
    loaded_objects::remember(&image, &path_of(file), base);
    apply(&image, b"a library that was loaded later", entries())
}

/// The path that a descriptor was opened with, as far as the kernel knows.
fn path_of(file: i32) -> Vec<u8> {
    const PREFIX: &[u8] = b"/proc/self/fd/";
    let mut link = PREFIX.to_vec();
    let mut digits = [0u8; 11];
    let (mut number, mut at) = (file.max(0), digits.len() - 1);
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    link.extend_from_slice(&digits[at..]);
    let mut path = alloc::vec![0u8; 256];
    let room = path.len();
    let length = sys!(SYS_readlink, &link[..], &mut path[..], room);
    path.truncate(length.max(0) as usize);
    path
}

/// The program headers of an ELF file for this machine.
fn headers_of_file(bytes: &[u8]) -> Option<&[Elf64_Phdr]> {
    const X86_64: u16 = 62;
    if !bytes.starts_with(b"\x7fELF\x02\x01") || bytes.len() < size_of::<Elf64_Ehdr>() {
        return None;
    }
    // SAFETY: long enough, aligned as every mapping, and plain integers.
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
        core::slice::from_raw_parts(bytes.as_ptr().add(start).cast(), usize::from(header.e_phnum))
    })
}

/// Prints a message to standard error: no other report is possible before the program has started.
pub(crate) fn refuse(site: &Unpatchable) -> ! {
    crate::show::report::unpatchable(&site.object, site.address);
    sys::exit_group(2);
}
