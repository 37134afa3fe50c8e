//! Caches finished links. A program with the same inputs comes from the cache, and is not converted
//! again.
//!
//! lld writes the names of the files that it has read (`--dependency-file`). A program is
//! identified by its command, and is the same as long as each of these files has the same contents.

use std::collections::hash_map::DefaultHasher;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::hash::{Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::job::Job;
use super::{runtime, toolchain};

/// The number of programs that stay in the cache.
const KEPT: usize = 24;

/// Options with which a link writes other output besides the program. A link with such an option is
/// never cached.
const MORE_THAN_A_PROGRAM: &[&str] = &[
    "-Map",
    "-M",
    "--print",
    "--trace",
    "-t",
    "-v",
    "--verbose",
    "--version",
    "--cref",
    "--reproduce",
    "dependency-file",
    "save-temps",
    "time-",
    "-stats",
    "-mllvm",
    "plugin-opt",
    "emit",
];

/// The environment variables that the compiler and the linker read.
const VARIABLES: &[&str] =
    &["LIBRARY_PATH", "COMPILER_PATH", "CPATH", "C_INCLUDE_PATH", "SOURCE_DATE_EPOCH"];

/// A link in the form that the cache stores.
pub(super) struct Link {
    /// The list of the link's inputs in the cache. The file is called like its program there, with
    /// a suffix.
    list: PathBuf,
    output: PathBuf,
    /// A folder for incomplete files.
    work: TempDir,
}

impl Link {
    /// The link that this command makes. `None` if there is no cache, or the link makes more than a
    /// program.
    pub(super) fn of(clang: &Command, job: &Job) -> Option<Self> {
        let arguments: Vec<&OsStr> = clang.get_args().collect();
        // A probe of configure may link to /dev/null.
        let is_special = fs::metadata(&job.output).is_ok_and(|output| !output.is_file());
        if is_special || arguments.iter().any(|argument| makes_more(argument)) {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        (clang.get_program(), env::current_dir().ok()?).hash(&mut hasher);
        without_output(&arguments).for_each(|argument| argument.hash(&mut hasher));
        libraries(&arguments).hash(&mut hasher);
        VARIABLES.iter().map(env::var_os).for_each(|value| value.hash(&mut hasher));
        contents(&toolchain::pass()?)?.hash(&mut hasher);
        let cache = runtime::cache()?;
        let list = cache.join(format!("link-{:016x}.inputs", hasher.finish()));
        Some(Self { list, output: job.output.clone(), work: tempfile::tempdir_in(cache).ok()? })
    }

    /// The argument with which lld writes the list of its inputs.
    pub(super) fn argument(&self) -> OsString {
        let mut argument = OsString::from("-Wl,--dependency-file=");
        argument.push(self.work.path().join("rule"));
        argument
    }

    /// Copies the program from the cache, if all of its inputs are unchanged.
    pub(super) fn take(&self) -> bool {
        let Ok(list) = fs::read_to_string(&self.list) else { return false };
        let Some((program, inputs)) = list.split_once('\n') else { return false };
        let is_same = |line: &str| {
            let (hash, path) = line.split_once(' ')?;
            Some(contents(Path::new(path))? == u64::from_str_radix(hash, 16).ok()?)
        };
        if !inputs.lines().all(|line| is_same(line) == Some(true)) {
            return false;
        }
        // The old program may be running, or have another link.
        let _ = fs::remove_file(&self.output);
        fs::copy(self.list.with_file_name(program), &self.output).is_ok()
    }

    /// Keeps the finished program. A program that cannot be kept is linked again the next time.
    pub(super) fn keep(&self) {
        let rule = fs::read_to_string(self.work.path().join("rule"));
        // An object that clang made for this link alone no longer exists.
        let Some(inputs) = rule.ok().as_deref().and_then(inputs) else { return };
        let Some(hash) = contents(&self.output) else { return };
        let program = format!("{hash:016x}.program");
        let made = self.work.path().join("made");
        let kept = fs::copy(&self.output, &made)
            .and_then(|_| fs::rename(&made, self.list.with_file_name(&program)))
            .and_then(|()| fs::write(&made, format!("{program}\n{inputs}")))
            .and_then(|()| fs::rename(&made, &self.list));
        if let (Ok(()), Some(cache)) = (kept, self.list.parent()) {
            runtime::prune(cache, "inputs", KEPT);
            runtime::prune(cache, "program", KEPT);
        }
    }
}

fn makes_more(argument: &OsStr) -> bool {
    let bytes = argument.as_bytes();
    let Some(words) = bytes.strip_prefix(b"-Wl,") else {
        // The linker's own options, and options in a file, would need the same checks.
        let hidden: &[&[u8]] =
            &[b"-Xlinker", b"-v", b"-###", b"-t", b"-M", b"-save-temps", b"-mllvm"];
        return hidden.contains(&bytes) || bytes.starts_with(b"@") || bytes == b"-";
    };
    words.split(|byte| *byte == b',').any(|word| {
        MORE_THAN_A_PROGRAM.iter().any(|more| {
            let more = more.as_bytes();
            word.starts_with(more)
                || (more.len() > 2 && word.windows(more.len()).any(|part| part == more))
        })
    })
}

/// The arguments without the name of the program.
fn without_output<'a>(arguments: &'a [&'a OsStr]) -> impl Iterator<Item = &'a &'a OsStr> {
    arguments.iter().enumerate().filter_map(|(index, argument)| {
        let is_name = index > 0 && arguments[index - 1] == "-o";
        (!is_name && !argument.as_bytes().starts_with(b"-o")).then_some(argument)
    })
}

/// The libraries in the folders of `-L`, which the linker searches first. A new library could hide
/// a library that was read.
fn libraries(arguments: &[&OsStr]) -> Vec<PathBuf> {
    let all = |option: &[u8]| -> Vec<&OsStr> {
        let named = arguments.iter().enumerate().filter_map(|(index, argument)| {
            let value = argument.as_bytes().strip_prefix(option)?;
            let next = arguments.get(index + 1).copied();
            if value.is_empty() { next } else { Some(OsStr::from_bytes(value)) }
        });
        named.collect()
    };
    let (folders, names) = (all(b"-L"), all(b"-l"));
    let candidates = folders.iter().flat_map(|folder| {
        names.iter().flat_map(move |name| {
            ["so", "a"].map(|end| {
                let mut file = OsString::from("lib");
                file.push(name);
                file.push(".");
                file.push(end);
                Path::new(folder).join(file)
            })
        })
    });
    candidates.filter(|candidate| candidate.exists()).collect()
}

fn contents(path: &Path) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    fs::read(path).ok()?.hash(&mut hasher);
    Some(hasher.finish())
}

/// The inputs in the language of make, as lines with a hash and a path.
fn inputs(rule: &str) -> Option<String> {
    // The rule, and then an empty rule for each input, against missing files.
    let (_, inputs) = rule.split_once(':')?;
    let inputs = inputs.split("\n\n").next()?;
    let paths = inputs.split("\\\n").map(str::trim).filter(|path| !path.is_empty());
    paths
        .map(|path| {
            // Programs with names that make would have to quote are always linked again.
            let plain = !path.contains(['\\', '$', ' ']);
            plain.then(|| Some(format!("{:016x} {path}\n", contents(Path::new(path))?)))?
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_write_more_are_known() {
        for option in
            ["-Wl,-Map=a.map", "-Wl,-O1,--cref", "-Wl,--save-temps", "-Xlinker", "@file", "-v"]
        {
            assert!(makes_more(OsStr::new(option)), "{option}");
        }
        for option in [
            "-Wl,-O1",
            "-Wl,--as-needed",
            "-Wl,-z,relro",
            "a.o",
            "-Wl,--start-group",
            "-Wl,-Bsymbolic",
        ] {
            assert!(!makes_more(OsStr::new(option)), "{option}");
        }
    }

    #[test]
    fn the_name_of_the_program_is_no_part_of_it() {
        let words = ["-O2", "-o", "one", "a.o", "-oone"].map(OsStr::new);
        let left: Vec<_> = without_output(&words).copied().collect();
        assert_eq!(left, ["-O2", "a.o"].map(OsStr::new));
    }

    #[test]
    fn a_new_library_in_front_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let words = ["-L", folder.path().to_str().unwrap(), "-lm", "-l", "waits"].map(OsStr::new);
        assert!(libraries(&words).is_empty());
        fs::write(folder.path().join("libwaits.a"), "").unwrap();
        assert_eq!(libraries(&words), [folder.path().join("libwaits.a")]);
    }

    #[test]
    fn inputs_are_read_from_a_rule_of_make() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.o");
        fs::write(&file, "code").unwrap();
        let rule = format!("server: \\\n  {0}\n\n{0}:\n", file.display());
        let line = format!("{:016x} {}\n", contents(&file).unwrap(), file.display());
        assert_eq!(inputs(&rule), Some(line));
        assert_eq!(inputs("server: \\\n  /tmp/gone.o\n"), None);
    }
}
