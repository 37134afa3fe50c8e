//! Searches the file of an object as the engine does. Then it checks what would change by the
//! section headers, which it reads with other code than the patcher.

use std::fs;
use std::path::{Path, PathBuf};

use duality_patcher::{Entries, Image, Segment, code_sections, find_sites, patch};
use object::elf::{EM_X86_64, PF_X, PT_GNU_EH_FRAME, PT_LOAD};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSection, SectionKind};

/// The result for one object.
#[derive(Debug, Default)]
#[allow(dead_code, reason = "the test of a sample asks for less than the example")]
pub(crate) struct Result {
    /// System calls that would be replaced.
    pub(crate) sites: usize,
    /// Addresses of calls for which the object would be refused.
    pub(crate) refused: Vec<u64>,
    /// Sections that hold no code, in a segment that may be executed.
    pub(crate) data_among_code: usize,
    /// Changes of bytes that are no code: the address, and the section.
    pub(crate) changes_of_data: Vec<(u64, String)>,
}

/// Checks one object. `None` if the file is no object for x86_64 with code, or cannot be read.
/// `by_sections`: the patcher sees the section headers.
pub(crate) fn check(path: &Path, by_sections: bool) -> Option<Result> {
    let bytes = fs::read(path).ok()?;
    let file = ElfFile64::<Endianness>::parse(&*bytes).ok()?;
    let endian = file.endian();
    if file.elf_header().e_machine(endian) != EM_X86_64 {
        return None;
    }
    let mut image = Image::default();
    for header in file.elf_program_headers() {
        let address = header.p_vaddr(endian);
        match header.p_type(endian) {
            PT_LOAD => {
                let bytes = header.data(endian, &*bytes).ok()?;
                let executable = header.p_flags(endian).0 & PF_X.0 != 0;
                image.segments.push(Segment { address, bytes, executable });
            }
            PT_GNU_EH_FRAME => image.functions = Some(address),
            _ => {}
        }
    }
    let text = image.segments.iter().find(|segment| segment.executable)?.address;
    if by_sections {
        image.code = code_sections(&bytes, 0);
    }
    let findings = find_sites(&image);
    let entries = Entries { general: 0, vectors: 0 };
    let stubs = text + (1 << 30);
    let patch = patch(&image, &findings.sites, stubs, entries)?;
    let changes_of_data = patch
        .writes
        .iter()
        .filter_map(|(address, bytes)| {
            let section = section_of(&file, *address..*address + bytes.len() as u64);
            (!section.1).then_some((*address, section.0))
        })
        .collect();
    let executable = |address: u64| {
        image.segments.iter().any(|segment| {
            let end = segment.address + segment.bytes.len() as u64;
            segment.executable && (segment.address..end).contains(&address)
        })
    };
    let data_among_code = file
        .sections()
        .filter(|section| !is_code(section) && section.size() > 0 && executable(section.address()))
        .count();
    Some(Result {
        sites: findings.sites.len(),
        refused: findings.unpatchable,
        data_among_code,
        changes_of_data,
    })
}

fn is_code<'a>(section: &impl ObjectSection<'a>) -> bool {
    // The crate calls a section of this kind if it is loaded and its instructions are executed.
    section.kind() == SectionKind::Text
}

/// The name of the section that holds all of these addresses, and whether it is code.
fn section_of(file: &ElfFile64<'_, Endianness>, addresses: std::ops::Range<u64>) -> (String, bool) {
    let holds = |start: u64, size: u64| start <= addresses.start && addresses.end <= start + size;
    file.sections().find(|section| holds(section.address(), section.size())).map_or_else(
        || ("no section".to_owned(), false),
        |section| (section.name().unwrap_or("?").to_owned(), is_code(&section)),
    )
}

/// The files beneath a folder, in order, without symbolic links.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found.sort();
    found
}
