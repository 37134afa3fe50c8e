//! `duality cc` and `duality c++`: compilers that make event-driven programs.
//!
//! A driver around clang. Objects are bitcode, so that the linker sees the whole program. At link
//! time lld loads the pass of `convert`. The pass turns each function that may block into a
//! coroutine, in the code that threads run. All other work of a C compiler goes to clang unchanged:
//! preprocessing, assembly, shared libraries, versions.
//!
//! [`job`] reads the command line as cc(1) does, and [`toolchain`] finds the programs. [`runtime`]
//! makes the runtime of converted programs. [`link`] links, and reports. [`links`] keeps programs
//! that were linked before.

mod doctor;
mod job;
mod link;
mod links;
mod runtime;
mod toolchain;

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use duality_runtime::log;

pub(crate) use doctor::doctor;
pub(crate) use job::takes_value;
use job::{Job, Kind};
use toolchain::Toolchain;

use crate::failure::{Failure, Party};

/// The files to write besides the compilation's.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Wishes {
    /// The file of the report. `-` is standard error.
    pub(crate) report: Option<PathBuf>,
    /// The file of the graph, as DOT. A drawing as SVG goes beside it.
    pub(crate) graph: Option<PathBuf>,
}

/// The language of the compiler, which decides about libraries too.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    #[default]
    C,
    Cxx,
}

impl Language {
    /// The compiler's name.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Self::C => "cc",
            Self::Cxx => "c++",
        }
    }
}

/// One of the binary utilities that must know bitcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Utility {
    Ar,
    Ranlib,
    Nm,
}

/// Compiles or links, as the arguments of a compiler ask.
pub(crate) fn compile(
    language: Language,
    arguments: &[OsString],
    wishes: &Wishes,
) -> Result<ExitCode, Failure> {
    let toolchain = Toolchain::find(language)?;
    let job = Job::read(arguments);
    let mut clang = Command::new(&toolchain.compiler);
    if job.foreign {
        log::tell(format_args!(
            "duality {}: {}: it is for another machine (-m32, --target), and the engine is for x86-64 only: compiled natively",
            language.command(),
            job.output.display()
        ));
    }
    match job.kind {
        Kind::Other => {}
        Kind::Compile => {
            clang.args(debugging(&job, wishes.report.is_some()));
            // Native code beside the bitcode lets every ar, nm and linker read the object.
            // Sanitizers and other checks exist in the native code only. So programs with such
            // checks do without.
            if !job.sanitized {
                clang.arg("-ffat-lto-objects");
            }
        }
        Kind::Native => {
            let what = if job.shared {
                "a shared library is compiled natively; threads that run its code use its originals"
            } else {
                "a relocatable object (-r) is native code, and so its threads are not converted; link the objects themselves"
            };
            log::tell(format_args!(
                "duality {}: {}: {what}",
                language.command(),
                job.output.display()
            ));
            clang.args(debugging(&job, wishes.report.is_some())).arg("-fuse-ld=lld");
        }
        Kind::Link => {
            clang
                .args(debugging(&job, wishes.report.is_some()))
                .args(["-fuse-ld=lld", "-Wl,--fat-lto-objects"]);
        }
    }
    clang.args(arguments);
    // These options come last, so that they override the program's own -flto=… and -fuse-ld=….
    if job.kind != Kind::Other {
        clang.args(["-flto=full", "-Wno-unused-command-line-argument"]);
    }
    if job.kind != Kind::Link {
        return become_program(&mut clang);
    }
    clang.arg("-fuse-ld=lld");
    link::link(&clang, &toolchain, language, &job, wishes)
}

/// Every diagnostic names its line. The report names variables too, which only full debugging
/// information has.
fn debugging(job: &Job, names: bool) -> Option<&'static str> {
    match (job.debug, names) {
        (true, _) => None,
        (false, true) => Some("-g"),
        (false, false) => Some("-gline-tables-only"),
    }
}

/// Runs a binary utility in place of this process.
pub(crate) fn utility(which: Utility, arguments: &[OsString]) -> Result<ExitCode, Failure> {
    let name = match which {
        Utility::Ar => "llvm-ar",
        Utility::Ranlib => "llvm-ranlib",
        Utility::Nm => "llvm-nm",
    };
    let mut command = Command::new(toolchain::program(name)?);
    become_program(command.args(arguments))
}

fn become_program(command: &mut Command) -> Result<ExitCode, Failure> {
    let error = command.exec();
    Err(cannot_run(command, &error))
}

fn cannot_run(command: &Command, error: &io::Error) -> Failure {
    Failure::new(Party::Machine, format!("{}: {error}", command.get_program().display()))
}
