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

use duality_patcher::{
    Entries, Image, MAX_STUB_BYTES, Segment, Site, THUNK_BYTES, find_sites, patch,
};
use libc::Elf64_Phdr;

use crate::kernel::frame::{duality_entry, duality_entry_clock, duality_entry_vectors};
use crate::kernel::stats;
use crate::kernel::sys::{self, failed, sys};
use crate::kernel::user;
use crate::objects::object_file::{ObjectFile, Opened};
use crate::objects::site_cache::Key;
use crate::objects::vectors::measure_vector_state;
use crate::show::loaded_objects;

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
    // SAFETY: the object is loaded, so its headers are in memory and stay.
    let headers = unsafe { core::slice::from_raw_parts(object.headers, usize::from(object.count)) };
    // SAFETY: the dynamic linker gives a name that ends with a zero, and keeps it.
    let name = unsafe { CStr::from_ptr(object.name) };
    let base = object.base as u64;
    if is_own(headers, base) {
        return Ok(());
    }
    if name.to_bytes().starts_with(b"linux-vdso") {
        // The clocks of threads are a system call there. If the kernel has sealed the object, they
        // are those of workers.
        let clock = duality_entry_clock as *const () as u64;
        // SAFETY: the caller promises that these headers describe what is at `base`.
        let vdso = unsafe { image_in_memory(headers, base) };
        let entries = Entries { general: clock, vectors: clock };
        let key = Key::new(&vdso, headers, base, None);
        let kept = key.as_ref().and_then(|key| key.load(&vdso, base));
        if kept.is_some_and(|sites| replace(&vdso, &sites, entries).is_ok()) {
            return Ok(());
        }
        let found = find_sites(&vdso);
        if found.unpatchable.is_empty() {
            // The bytes at the sites are kept, so this comes before they change.
            key.and_then(|key| key.store(&found.sites, &vdso, base));
            let _stays_native = replace(&vdso, &found.sites, entries);
        }
        return Ok(());
    }
    let is_libc = is_libc(name.to_bytes());
    // SAFETY: the caller promises that these headers describe what is at `base`.
    let loaded = Image { is_libc, ..unsafe { image_in_memory(headers, base) } };
    let is_program = name.is_empty();
    let shown = if is_program { loaded_objects::PROGRAM } else { name.to_bytes() };
    loaded_objects::remember(&loaded, shown, base);
    let file = Opened::at(if is_program { c"/proc/self/exe" } else { name });
    let key = file.as_ref().and_then(|file| Key::new(&loaded, headers, base, Some(&file.status)));
    let kept = key.as_ref().and_then(|key| key.load(&loaded, base));
    if kept.is_some_and(|sites| replace(&loaded, &sites, entries()).is_ok()) {
        return Ok(());
    }
    let view = file.as_ref().and_then(|file| file.view());
    // The path may lead to another file by now.
    let view = view.as_ref().filter(|view| view.headers().is_some_and(|own| same(own, headers)));
    let result = match view.and_then(|view| view.image(base, |_| true)) {
        Some(image) => match search_and_replace(&Image { is_libc, ..image.clone() }, entries()) {
            Ok(sites) => {
                key.and_then(|key| key.store(&sites, &image, base));
                Ok(())
            }
            // The text is not as in the file: a debugger or a relocation has changed it.
            Err(_) => {
                search_and_replace(&Image { code: image.code, ..loaded }, entries()).map(drop)
            }
        },
        None => search_and_replace(&loaded, entries()).map(drop),
    };
    result.map_err(|address| Unpatchable { object: name.to_bytes().to_vec(), address })
}

/// Whether the object is the engine.
fn is_own(headers: &[Elf64_Phdr], base: u64) -> bool {
    let own = duality_entry as *const () as u64;
    headers.iter().any(|header| {
        let address = base.wrapping_add(header.p_vaddr);
        header.p_type == libc::PT_LOAD && (address..address + header.p_memsz).contains(&own)
    })
}

fn same(one: &[Elf64_Phdr], other: &[Elf64_Phdr]) -> bool {
    let key = |header: &Elf64_Phdr| {
        let Elf64_Phdr { p_type, p_flags, p_offset, p_vaddr, p_filesz, p_memsz, .. } = *header;
        (p_type, p_flags, p_offset, p_vaddr, p_filesz, p_memsz)
    };
    one.iter().map(key).eq(other.iter().map(key))
}

/// The object as it stands in memory, where the sections are not known.
///
/// # Safety
///
/// The object is loaded at `base` as its program headers say.
unsafe fn image_in_memory(headers: &[Elf64_Phdr], base: u64) -> Image<'static> {
    let mut image = Image::default();
    for header in headers {
        let address = base.wrapping_add(header.p_vaddr);
        match header.p_type {
            libc::PT_LOAD if header.p_flags & libc::PF_R != 0 => {
                let length = header.p_memsz as usize;
                // SAFETY: the caller promises that a readable segment is loaded there.
                let bytes = unsafe { core::slice::from_raw_parts(address as *const u8, length) };
                let executable = header.p_flags & libc::PF_X != 0;
                image.segments.push(Segment { address, bytes, executable });
            }
            libc::PT_GNU_EH_FRAME => image.functions = Some(address),
            _ => {}
        }
    }
    image
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

/// Finds the sites of `image` and patches them. The error is the address of a site that cannot be
/// patched.
fn search_and_replace(image: &Image<'_>, entries: Entries) -> Result<Vec<Site>, u64> {
    let findings = find_sites(image);
    match findings.unpatchable.first() {
        Some(&address) => Err(address),
        None => replace(image, &findings.sites, entries).map(|()| findings.sites),
    }
}

/// Patches the sites of `image` in memory. The error is the address of the first site. The memory
/// is then as it was.
fn replace(image: &Image<'_>, sites: &[Site], entries: Entries) -> Result<(), u64> {
    let Some(first) = sites.first() else { return Ok(()) };
    let failure = first.syscall;
    let room = THUNK_BYTES + sites.len() * MAX_STUB_BYTES;
    let room = room.next_multiple_of(PAGE as usize);
    let base = reserve_near(failure as usize, room).ok_or(failure)?;
    let done = patch(image, sites, base as u64, entries).and_then(|patch| {
        let file = sys!(SYS_memfd_create, c"duality-text", libc::MFD_CLOEXEC);
        if failed(file) {
            return None;
        }
        let done = sys::with_large_files(|| write_and_map(file, image, &patch, base, room));
        sys!(SYS_close, file);
        done
    });
    if done.is_none() {
        // SAFETY: reserved above, and no stub has been mapped there.
        unsafe { sys::unmap(base, room) };
        return Err(failure);
    }
    stats::SITES.add_unlocked(sites.len() as u64);
    if sites.iter().any(|site| site.vectors) {
        measure_vector_state();
    }
    Ok(())
}

fn write_and_map(
    file: isize,
    text: &Image<'_>,
    patch: &duality_patcher::Patch,
    base: usize,
    room: usize,
) -> Option<()> {
    let mut pages = Pages::default();
    for (address, bytes) in &patch.writes {
        pages.replace(*address, text.bytes_at(*address)?.get(..bytes.len())?, bytes)?;
    }
    // The stubs come first in the file, then the pages.
    write_all(file, &patch.stubs, 0)?;
    sys!(SYS_ftruncate, file, room + pages.bytes.len());
    write_all(file, &pages.bytes, room as u64)?;
    map_over(file, base, room, 0)?;
    // Neighbouring pages become one mapping.
    let mut index = 0;
    while index < pages.addresses.len() {
        let mut end = index + 1;
        while end < pages.addresses.len()
            && pages.addresses[end] == pages.addresses[index] + (end - index) as u64 * PAGE
        {
            end += 1;
        }
        let address = pages.addresses[index] as usize;
        let offset = room as u64 + index as u64 * PAGE;
        map_over(file, address, (end - index) * PAGE as usize, offset)?;
        index = end;
    }
    Some(())
}

/// The pages that change, as they will be, in order.
#[derive(Default)]
struct Pages {
    addresses: Vec<u64>,
    bytes: Vec<u8>,
}

impl Pages {
    /// Replaces bytes, which must be in memory as the search has found them. The bytes come in the
    /// order of their addresses.
    fn replace(&mut self, address: u64, found: &[u8], bytes: &[u8]) -> Option<()> {
        for (index, (&found, &byte)) in found.iter().zip(bytes).enumerate() {
            let at = address + index as u64;
            let page = self.add(at & !(PAGE - 1))?;
            let place = self.bytes.get_mut(page + (at % PAGE) as usize)?;
            if *place != found {
                return None;
            }
            *place = byte;
        }
        Some(())
    }

    /// The place of the page in `bytes`. The page is the last one, or comes after it.
    fn add(&mut self, address: u64) -> Option<usize> {
        let last = self.addresses.last().copied().unwrap_or(0);
        let end = self.bytes.len();
        if last == address {
            return Some(end - PAGE as usize);
        }
        if last > address {
            return None;
        }
        self.bytes.resize(end + PAGE as usize, 0);
        user::read_slice(address as usize, &mut self.bytes[end..]).ok()?;
        self.addresses.push(address);
        Some(end)
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
pub(crate) fn patch_mapped(number: i32, mapped: Range<usize>, offset: u64) {
    let Some(file) = ObjectFile::of(number) else { return };
    let Some(view) = file.view() else { return };
    let Some(headers) = view.headers() else { return };
    // The object's base, from the segment that has been mapped.
    let Some(text) = headers.iter().find(|header| {
        header.p_type == libc::PT_LOAD
            && header.p_flags & libc::PF_X != 0
            && header.p_offset & !(PAGE - 1) <= offset
            && offset < header.p_offset + header.p_filesz
    }) else {
        return;
    };
    let base = (mapped.start as u64)
        .wrapping_sub(offset)
        .wrapping_add(text.p_offset)
        .wrapping_sub(text.p_vaddr);
    let Some(image) = view.image(base, |header| core::ptr::eq(header, text)) else { return };
    loaded_objects::remember(&image, &path_of(number), base);
    if let Err(address) = search_and_replace(&image, entries()) {
        crate::show::report::unpatchable(b"a library that was loaded later", address);
    }
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

/// Prints a message to standard error: no other report is possible before the program has started.
pub(crate) fn refuse(site: &Unpatchable) -> ! {
    crate::show::report::unpatchable(&site.object, site.address);
    sys::exit_group(2);
}
