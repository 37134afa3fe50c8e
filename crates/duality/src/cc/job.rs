//! The job that the arguments of a C compiler describe, reduced to the driver's needs.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::slice;

/// The result of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An object, as bitcode.
    Compile,
    /// A program, converted.
    Link,
    /// A shared library or a relocatable object, compiled natively.
    Native,
    /// A job without conversion, which goes to clang unchanged.
    Other,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) kind: Kind,
    pub(super) shared: bool,
    /// The arguments ask for debugging information.
    pub(super) debug: bool,
    /// A sanitizer checks the program.
    pub(super) sanitized: bool,
    /// Its C++ library is libc++, not libstdc++.
    pub(super) libcxx: bool,
    /// libstdc++ becomes a part of the program.
    pub(super) static_libstdcxx: bool,
    /// It is for another machine than the engine.
    pub(super) foreign: bool,
    /// The reason why a runtime cannot be part of the program, if there is one.
    pub(super) alone: Option<&'static str>,
    pub(super) output: PathBuf,
}

/// Arguments that take the next argument as their value.
const WITH_VALUE: &[&str] = &[
    "-o",
    "-I",
    "-D",
    "-U",
    "-L",
    "-l",
    "-include",
    "-imacros",
    "-isystem",
    "-idirafter",
    "-iquote",
    "-iprefix",
    "-iwithprefix",
    "-isysroot",
    "-MF",
    "-MT",
    "-MQ",
    "-Xlinker",
    "-Xclang",
    "-Xassembler",
    "-Xpreprocessor",
    "-z",
    "-T",
    "-u",
    "-e",
    "-A",
    "-G",
    "-aux-info",
    "--param",
    "--sysroot",
    "-mllvm",
    "-target",
];

/// Whether the next argument is the value of this one.
pub(crate) fn takes_value(argument: &OsStr) -> bool {
    argument == "-x" || WITH_VALUE.iter().any(|name| argument == *name)
}

/// Arguments that ask for other output than an object or a program.
const OTHER: &[&str] = &[
    "-E",
    "-S",
    "-M",
    "-MM",
    "-fsyntax-only",
    "--version",
    "-dumpversion",
    "-dumpmachine",
    "-###",
    "--help",
    "-emit-llvm",
    "-emit-ast",
    "--analyze",
];

/// The files that are compiled or linked.
#[derive(Default)]
struct Inputs {
    any: bool,
    /// One of the files is a header, compiled for later compilations and not linked.
    headers: bool,
}

impl Inputs {
    fn add(&mut self, name: &OsStr, language: &OsStr) {
        self.any = true;
        self.headers |= match language.as_bytes() {
            b"" | b"none" => {
                Path::new(name).extension().is_some_and(|end| end == "h" || end == "hpp")
            }
            named => named.ends_with(b"-header"),
        };
    }
}

impl Job {
    pub(super) fn read(arguments: &[OsString]) -> Self {
        let mut job = Self {
            kind: Kind::Link,
            shared: false,
            debug: false,
            sanitized: false,
            libcxx: false,
            static_libstdcxx: false,
            foreign: false,
            alone: None,
            output: "a.out".into(),
        };
        let (mut compiles, mut other, mut relocatable) = (false, false, false);
        let (mut inputs, mut language) = (Inputs::default(), OsString::new());
        let expanded = expand(arguments);
        let mut rest = expanded.iter();
        while let Some(argument) = rest.next() {
            let text = argument.as_bytes();
            let is = |names: &[&str]| names.iter().any(|name| name.as_bytes() == text);
            if is(&["-o"]) {
                job.output = rest.next().map(PathBuf::from).unwrap_or_default();
            } else if is(&["-x"]) {
                language = rest.next().cloned().unwrap_or_default();
            } else if let Some(target) = target(text, &mut rest) {
                job.foreign = !target.starts_with(b"x86_64") && !target.starts_with(b"amd64");
            } else if is(WITH_VALUE) {
                // A library is an input, for a program of libraries alone.
                inputs.any |= is(&["-l"]);
                rest.next();
            } else if is(&["-c"]) {
                compiles = true;
            } else if is(&["-shared"]) {
                job.shared = true;
            } else if is(&["-r"]) {
                relocatable = true;
            } else if is(&["-static", "-static-pie"]) {
                job.alone = Some(
                    "it is linked with -static, and the engine is a shared library; leave -static out",
                );
            } else if is(&["-nostdlib", "-nodefaultlibs", "-nolibc"]) {
                job.alone = Some("it is linked without libc, which the runtime needs");
            } else if is(OTHER) || text.starts_with(b"-print-") || text.starts_with(b"--print-") {
                other = true;
            } else if is(&["-static-libstdc++"]) {
                job.static_libstdcxx = true;
            } else if text.starts_with(b"-stdlib=") {
                job.libcxx = text == b"-stdlib=libc++";
            } else if text.starts_with(b"-fsanitize=") {
                job.sanitized = true;
            } else if let Some(joined) = text.strip_prefix(b"-x") {
                language = OsStr::from_bytes(joined).into();
            } else if text.starts_with(b"-g") {
                job.debug = text != b"-g0" && !text.starts_with(b"-gcc");
            } else if text.starts_with(b"-o") && text.len() > 2 {
                job.output = OsStr::from_bytes(&text[2..]).into();
            } else if text == b"-" || !text.starts_with(b"-") || text.starts_with(b"-l") {
                inputs.add(argument, &language);
            }
        }
        job.kind = if other || job.foreign || !inputs.any || inputs.headers {
            Kind::Other
        } else if compiles {
            Kind::Compile
        } else if job.shared || relocatable {
            Kind::Native
        } else {
            Kind::Link
        };
        job
    }
}

/// The machine that an argument names.
fn target<'a>(argument: &'a [u8], rest: &mut slice::Iter<'a, OsString>) -> Option<&'a [u8]> {
    match argument {
        b"-m32" | b"-mx32" => Some(b"i386"),
        b"-target" => Some(rest.next().map_or(b"", |target| target.as_bytes())),
        _ => argument.strip_prefix(b"--target="),
    }
}

/// The arguments with those of response files (`@FILE`) in their place. clang reports a file that
/// cannot be read.
fn expand(arguments: &[OsString]) -> Vec<OsString> {
    let mut expanded = Vec::new();
    for argument in arguments {
        let words = argument.as_bytes().strip_prefix(b"@").and_then(|name| {
            let text = fs::read_to_string(OsStr::from_bytes(name)).ok()?;
            shlex::split(&text)
        });
        match words {
            Some(words) => expanded.extend(words.into_iter().map(OsString::from)),
            None => expanded.push(argument.clone()),
        }
    }
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(line: &str) -> Kind {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        Job::read(&words).kind
    }

    #[test]
    fn what_is_asked_for_is_recognised() {
        assert_eq!(kind("-O2 -c a.c -o a.o"), Kind::Compile);
        assert_eq!(kind("-c -MD -MF a.d -o a.o -x c -"), Kind::Compile);
        assert_eq!(kind("a.o b.o -lpthread -o server"), Kind::Link);
        assert_eq!(kind("-pthread a.c"), Kind::Link);
        assert_eq!(kind("-shared -fPIC a.c -o a.so"), Kind::Native);
        assert_eq!(kind("-r a.o b.o -o c.o"), Kind::Native);
        assert_eq!(kind("-x c - -o a.out"), Kind::Link);
        assert_eq!(kind("-xc++ - -o a.out"), Kind::Link);
        for line in ["a.h", "-x c-header a.c -o a.pch", "-xc++-header a.hpp"] {
            assert_eq!(kind(line), Kind::Other, "{line}");
        }
        assert_eq!(kind("-x c a.h -x none b.o"), Kind::Link);
        for line in
            ["-E a.c", "-S a.c", "--version", "-v", "-print-prog-name=ld", "-dumpmachine", ""]
        {
            assert_eq!(kind(line), Kind::Other, "{line}");
        }
    }

    #[test]
    fn a_value_is_no_input() {
        assert_eq!(kind("-v -I include -D X"), Kind::Other);
        assert_eq!(kind("-I -c a.c"), Kind::Link);
    }

    #[test]
    fn output_and_debugging_are_read() {
        let words = ["-g", "-oserver", "a.o"].map(OsString::from);
        let job = Job::read(&words);
        assert_eq!(job.output, PathBuf::from("server"));
        assert!(job.debug);
        assert!(!Job::read(&["-g0", "a.o"].map(OsString::from)).debug);
    }

    #[test]
    fn a_static_program_has_no_runtime() {
        let alone = |line: [&str; 2]| Job::read(&line.map(OsString::from)).alone.is_some();
        assert!(alone(["-static", "a.o"]));
        assert!(!alone(["-static-libgcc", "a.o"]));
    }

    #[test]
    fn another_machine_has_no_engine() {
        for line in ["-m32 -c a.c", "--target=aarch64-linux-gnu a.o", "-target i386-elf a.o"] {
            assert_eq!(kind(line), Kind::Other, "{line}");
        }
        assert_eq!(kind("--target=x86_64-pc-linux-gnu a.o"), Kind::Link);
    }

    #[test]
    fn response_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("arguments");
        fs::write(&file, "-c 'a file.c'").unwrap();
        assert_eq!(kind(&format!("@{}", file.display())), Kind::Compile);
    }
}
