//! Judges from the files of a program whether it can run on user-level threads.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use duality_patcher::{Image, Segment, code_sections, find_sites};
use object::Endianness;
use object::elf::{
    EM_X86_64, FileHeader64, PF_X, PT_GNU_EH_FRAME, PT_INTERP, PT_LOAD, SHN_UNDEF, SHT_DYNSYM,
};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader, Sym};
use object::read::{ReadCache, ReadRef};
use rustix::fs::{Access, access};

use crate::failure::{Blame, Failure, Party};

/// A program's file, and the interpreter that the kernel starts for this file.
#[derive(Debug)]
pub(crate) struct Program {
    /// The file that the user named.
    pub(crate) path: PathBuf,
    /// The file that is executed: the interpreter, for a script.
    pub(crate) binary: PathBuf,
}

/// Whether the engine can run a program.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It can.
    Works,
    /// The program cannot run: the reason, and the remedy.
    Refused(String),
}

/// The findings in one of the program's objects.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) object: PathBuf,
    pub(crate) calls: usize,
    pub(crate) unpatchable: Vec<u64>,
}

impl Program {
    /// Finds the file that the kernel would execute.
    ///
    /// # Errors
    ///
    /// One line that names the file.
    pub(crate) fn open(path: PathBuf) -> Result<Self, Failure> {
        let mut binary = path.clone();
        // A script's interpreter may itself be a script. The kernel follows five.
        for _ in 0..5 {
            let mut start = Vec::new();
            fs::File::open(&binary)
                .and_then(|file| file.take(256).read_to_end(&mut start))
                .blame_at(Party::User, binary.display())?;
            let Some(line) = start.strip_prefix(b"#!") else { break };
            let line = line.split(|&byte| byte == b'\n').next().unwrap_or(line);
            let name = line
                .split(u8::is_ascii_whitespace)
                .find(|word| !word.is_empty())
                .ok_or("no interpreter after #!")
                .blame_at(Party::User, binary.display())?;
            binary = PathBuf::from(OsString::from_vec(name.to_vec()));
        }
        Ok(Self { path, binary })
    }

    /// Whether the program is a script, which starts separate programs.
    pub(crate) fn is_script(&self) -> bool {
        self.path != self.binary
    }

    /// Whether the engine can run the program, judged by its file alone.
    ///
    /// # Errors
    ///
    /// One line that names the file.
    pub(crate) fn verdict(&self) -> Result<Verdict, Failure> {
        let named = |reason: &str| format!("{}: {reason}", self.binary.display());
        // Only a few pages of a large program are read.
        let file = fs::File::open(&self.binary).blame_at(Party::User, self.binary.display())?;
        let bytes = ReadCache::new(file);
        if let Some(reason) = refusal(&bytes).or_else(|| privileges(&self.binary)) {
            return Ok(Verdict::Refused(named(reason)));
        }
        for file in [&self.path, &self.binary] {
            if let Err(error) = access(file, Access::EXEC_OK) {
                let error = io::Error::from(error);
                return Ok(Verdict::Refused(format!(
                    "{}: {error}; make it executable (chmod +x)",
                    file.display()
                )));
            }
        }
        Ok(Verdict::Works)
    }

    /// The objects that the dynamic linker would load: the program and its libraries.
    ///
    /// # Errors
    ///
    /// One line with the dynamic linker's message.
    pub(crate) fn objects(&self) -> Result<Vec<PathBuf>, Failure> {
        let output = Command::new(&self.binary)
            .env("LD_TRACE_LOADED_OBJECTS", "1")
            .output()
            .blame_at(Party::User, self.binary.display())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let missing: Vec<&str> =
            text.lines().filter(|line| line.contains("not found")).map(str::trim).collect();
        if !missing.is_empty() {
            return Err(Failure::misuse(missing.join("; ")));
        }
        // "libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x…)", and the linker itself without an
        // arrow.
        let paths = text.lines().filter_map(|line| {
            let path = line.split("=>").last()?.trim().split(" (").next()?;
            path.starts_with('/').then(|| PathBuf::from(path))
        });
        Ok(std::iter::once(self.binary.clone()).chain(paths).collect())
    }
}

/// The system calls of an object.
///
/// # Errors
///
/// One line that names the file.
pub(crate) fn search(path: &Path) -> Result<Finding, Failure> {
    let bytes = fs::read(path).blame_at(Party::User, path.display())?;
    let file = ElfFile64::<Endianness>::parse(&*bytes).blame_at(Party::User, path.display())?;
    let mut image = Image::default();
    for header in file.elf_program_headers() {
        let address = header.p_vaddr(file.endian());
        match header.p_type(file.endian()) {
            PT_LOAD => {
                let data = header.data(file.endian(), &*bytes);
                let executable = header.p_flags(file.endian()).0 & PF_X.0 != 0;
                let bytes = data.map_err(|()| "cut short").blame_at(Party::User, path.display())?;
                image.segments.push(Segment { address, bytes, executable });
            }
            PT_GNU_EH_FRAME => image.functions = Some(address),
            _ => {}
        }
    }
    image.code = code_sections(&bytes, 0);
    let findings = find_sites(&image);
    let unpatchable = findings.unpatchable;
    Ok(Finding { object: path.to_path_buf(), calls: findings.sites.len(), unpatchable })
}

/// The reason why the engine cannot run the program in these bytes, if there is one.
fn refusal<'a>(bytes: impl ReadRef<'a>) -> Option<&'static str> {
    let parsed = FileHeader64::<Endianness>::parse(bytes)
        .and_then(|header| header.endian().map(|endian| (header, endian)));
    let Ok((header, endian)) = parsed else {
        return Some(if bytes.read_bytes_at(0, 5) == Ok(b"\x7fELF\x01") {
            "a 32-bit program; run it without duality"
        } else {
            "not a program: it is neither ELF nor a script"
        });
    };
    if header.e_machine(endian) != EM_X86_64 {
        return Some("made for another machine than x86_64; run it without duality");
    }
    if is_go(header, endian, bytes) {
        return Some(
            "written in Go: goroutines are user-level threads already; run it without duality",
        );
    }
    let Some(interpreter) = interpreter(header, endian, bytes) else {
        return Some(
            "statically linked, so nothing can be loaded into it; link it dynamically, or run it without duality",
        );
    };
    if interpreter.windows(7).any(|part| part == b"ld-musl") {
        return Some(
            "linked with musl, and the engine knows glibc; build it for glibc, or run it without duality",
        );
    }
    sanitizer(header, endian, bytes)
}

/// The reason why a sanitizer in the program prevents the engine, if one does. MemorySanitizer
/// works, and so does gcc's ThreadSanitizer, which is a separate library.
fn sanitizer<'a>(
    header: &FileHeader64<Endianness>,
    endian: Endianness,
    bytes: impl ReadRef<'a>,
) -> Option<&'static str> {
    let sections = header.sections(endian, bytes).ok()?;
    let symbols = sections.symbols(endian, bytes, SHT_DYNSYM).ok()?;
    symbols.iter().find_map(|symbol| match symbol.name(endian, symbols.strings()).ok()? {
        b"__asan_init" => Some(
            "built with AddressSanitizer: its runtime must be loaded first, and uses the engine's \
             addresses; \
             build it without, or run it without duality",
        ),
        b"__lsan_init" => Some(
            "built with LeakSanitizer: its search for leaks does not end on the engine; build it without, or run it \
             without duality",
        ),
        b"__tsan_init" if symbol.st_shndx(endian) != SHN_UNDEF => Some(
            "built with clang's ThreadSanitizer, which starts before the engine; build it with gcc's, or run it without \
             duality",
        ),
        _ => None,
    })
}

fn interpreter<'a>(
    header: &FileHeader64<Endianness>,
    endian: Endianness,
    bytes: impl ReadRef<'a>,
) -> Option<&'a [u8]> {
    let headers = header.program_headers(endian, bytes).ok()?;
    let named = headers.iter().find(|header| header.p_type(endian) == PT_INTERP)?;
    named.data(endian, bytes).ok()
}

fn is_go<'a>(
    header: &FileHeader64<Endianness>,
    endian: Endianness,
    bytes: impl ReadRef<'a>,
) -> bool {
    const SECTIONS: [&[u8]; 3] = [b".go.buildinfo", b".note.go.buildid", b".gopclntab"];
    header.sections(endian, bytes).is_ok_and(|sections| {
        sections.iter().any(|section| {
            sections.section_name(endian, section).is_ok_and(|name| SECTIONS.contains(&name))
        })
    })
}

/// Programs that gain privileges ignore `LD_PRELOAD` (ld.so(8)).
fn privileges(path: &Path) -> Option<&'static str> {
    const SET_USER: u32 = 0o4000;
    const SET_GROUP: u32 = 0o2000;
    let status = fs::metadata(path).ok()?;
    let user = rustix::process::geteuid();
    let gains_user = status.mode() & SET_USER != 0 && status.uid() != user.as_raw();
    let gains_group =
        status.mode() & SET_GROUP != 0 && status.gid() != rustix::process::getegid().as_raw();
    let mut value = [0; 64];
    let capable = rustix::fs::getxattr(path, "security.capability", &mut value).is_ok();
    (gains_user || gains_group || (capable && !user.is_root())).then_some(
        "runs with other privileges than yours (setuid, setgid or capabilities), so that nothing can be loaded into it; \
         run it as its owner, or without duality",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_program_is_named() {
        assert!(
            refusal(&b"hello"[..])
                .is_some_and(|reason| reason.contains("neither ELF nor a script"))
        );
        assert!(
            refusal(&b"\x7fELF\x01\x01\x01"[..]).is_some_and(|reason| reason.contains("32-bit"))
        );
    }

    #[test]
    fn a_script_is_followed_to_its_interpreter() {
        let folder = tempfile::tempdir().expect("a folder");
        let script = folder.path().join("script");
        fs::write(&script, "#! /bin/sh -e\necho\n").expect("written");
        let program = Program::open(script).expect("readable");
        assert!(program.is_script());
        assert_eq!(program.binary, Path::new("/bin/sh"));
    }
}
