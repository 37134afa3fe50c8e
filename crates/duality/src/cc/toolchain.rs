//! Finds the programs that do the work: clang, lld and the binary utilities of LLVM 19, and the
//! pass.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Language;
use crate::failure::{Failure, Party};

/// The LLVM that the pass is built for. A plugin works only with the LLVM that it was built for.
pub(super) const VERSION: &str = "19";
/// The packages of the programs on Debian and Ubuntu.
pub(super) const PACKAGES: &str = "apt-get install clang-19 lld-19 llvm-19";
const PASS: &str = "libduality_convert.so";
/// The variable that names the folder of the pass, if the pass is not beside the command.
const FOLDER: &str = "DUALITY_CONVERT_DIR";

pub(super) struct Toolchain {
    /// The compiler of the runtime, and of programs in C.
    pub(super) clang: PathBuf,
    /// The compiler of the program.
    pub(super) compiler: PathBuf,
}

impl Toolchain {
    pub(super) fn find(language: Language) -> Result<Self, Failure> {
        let clang = program("clang")?;
        let compiler = match language {
            Language::C => clang.clone(),
            Language::Cxx => program("clang++")?,
        };
        Ok(Self { clang, compiler })
    }

    /// The argument by which clang has lld load the pass.
    pub(super) fn load_pass(&self) -> Result<OsString, Failure> {
        program("ld.lld")?;
        let pass = pass().ok_or_else(|| Failure::new(Party::Machine, missing_pass()))?;
        let mut argument = OsString::from("-Wl,--load-pass-plugin=");
        argument.push(pass);
        Ok(argument)
    }
}

/// A program of LLVM 19: under its Debian name, or in LLVM's own folder.
pub(super) fn program(name: &str) -> Result<PathBuf, Failure> {
    find(name).ok_or_else(|| {
        Failure::new(Party::Machine, format!("{name} of LLVM {VERSION} is missing: {PACKAGES}"))
    })
}

pub(super) fn find(name: &str) -> Option<PathBuf> {
    let own = Path::new("/usr/lib").join(format!("llvm-{VERSION}")).join("bin").join(name);
    let suffixed = format!("{name}-{VERSION}");
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path).map(|folder| folder.join(&suffixed));
    on_path.chain([own]).find(|program| program.is_file())
}

/// The pass: in the folder that the environment names, beside the installed command, or in xtask's
/// build folder.
pub(super) fn pass() -> Option<PathBuf> {
    if let Some(folder) = env::var_os(FOLDER) {
        return Some(Path::new(&folder).join(PASS)).filter(|pass| pass.is_file());
    }
    let command = env::current_exe().ok()?;
    let folder = command.parent()?;
    ["../convert", "../lib/duality"]
        .into_iter()
        .map(|place| folder.join(place).join(PASS))
        .find(|pass| pass.is_file())
}

pub(super) fn missing_pass() -> String {
    format!(
        "the pass {PASS} is missing: build it with `cargo xtask convert`, or name its folder, target/convert, in {FOLDER}"
    )
}
