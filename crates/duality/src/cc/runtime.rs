//! Chooses the runtime that converted programs are linked with.
//!
//! The command carries the sources of the runtime (`convert/runtime`) and the engine. The clang
//! that compiles the program also compiles these sources into one object. The object is native code
//! that the pass does not see. A build links often, so the object is kept in the user's cache
//! folder. The linker uses the object only if the pass has left calls to the runtime.

use std::collections::hash_map::DefaultHasher;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::job::Job;
use super::toolchain;
use crate::failure::{Blame, Failure, Party};
use crate::run::ENGINE;

/// Names the objects of another runtime, separated by colons. Used by tests.
const HIDDEN: &str = "DUALITY_CC_RUNTIME";

/// The reason for a missing runtime on machines that the engine does not support.
pub(super) const MISSING: &str = "the engine does not support this machine; only x86-64 Linux";

macro_rules! sources {
    ($($name:literal),* $(,)?) => {
        &[$((
            $name,
            include_str!(concat!("../../../../convert/runtime/", $name)),
        )),*]
    };
}

/// The files of the runtime.
const SOURCES: &[(&str, &str)] = sources![
    "attributes.c",
    "barriers.c",
    "cleanups.c",
    "conditions.c",
    "descriptors.c",
    "engine.S",
    "engine.h",
    "environment.c",
    "exceptions.c",
    "files.c",
    "fork.c",
    "front.c",
    "functions.c",
    "futexes.c",
    "libc.h",
    "memory.c",
    "mutexes.c",
    "once.c",
    "processor.c",
    "runtime.h",
    "rwlocks.c",
    "semaphores.c",
    "side.c",
    "signals.c",
    "specific.c",
    "start.c",
    "tasks.c",
    "threads.c",
    "times.c",
    "waiting.c",
];
const CONTRACT: (&str, &str) =
    ("duality_convert.h", include_str!("../../../../convert/contract/duality_convert.h"));

/// The engine as an object, in which `start.c` finds the engine. Whole pages of the executable can
/// be mapped.
const IMAGE: &str = "\
    .section .rodata
    .globl duality_engine_image, duality_engine_image_end
    .balign 4096
duality_engine_image:
    .incbin \"engine.so\"
duality_engine_image_end:
    .section .note.GNU-stack, \"\", @progbits
";

const FLAGS: &[&str] =
    &["-std=gnu11", "-O2", "-fPIE", "-ftls-model=initial-exec", "-fno-lto", "-I."];

/// Functions of libc that the runtime replaces, also for libraries.
const IN_FRONT: &[&str] = &[
    "pthread_join",
    "pthread_detach",
    "pthread_cancel",
    "pthread_kill",
    "pthread_cond_signal",
    "pthread_cond_broadcast",
    "pthread_rwlock_unlock",
];

/// What stands in front of libstdc++, as code of the program.
const LIBSTDCXX: (&str, &str) =
    ("libstdcxx.cc", include_str!("../../../../convert/runtime/libstdcxx.cc"));
const LIBSTDCXX_FLAGS: &[&str] =
    &["-std=gnu++17", "-O2", "-g", "-fPIE", "-flto=full", "-pthread", "-c"];

/// The number of objects that stay in the cache.
const KEPT: usize = 6;

/// The arguments for the linker.
pub(super) struct Runtime {
    pub(super) arguments: Vec<OsString>,
    /// The folder of the object, if there is no cache. The folder is removed after the link.
    _folder: Option<TempDir>,
}

/// The runtime for a program, or the reason why it is missing.
pub(super) fn choose(job: &Job, clang: &Path) -> Result<Runtime, Failure> {
    if let Some(objects) = hidden() {
        return Ok(Runtime { arguments: objects, _folder: None });
    }
    if ENGINE.is_empty() {
        return Err(Failure::new(Party::Machine, MISSING));
    }
    if let Some(why) = job.alone {
        return Err(Failure::new(Party::Machine, why));
    }
    let (object, folder) = object(clang, job.sanitized)?;
    // libc comes first: its functions satisfy the program where the runtime offers the same names.
    // So a program without tasks is linked without the runtime.
    let mut arguments: Vec<OsString> = ["-lc", "-ldl", "-Wl,--start-lib"].map(Into::into).into();
    arguments.push(object.into());
    arguments.push("-Wl,--end-lib".into());
    let export = |name: &&str| format!("-Wl,--export-dynamic-symbol={name}").into();
    arguments.extend(IN_FRONT.iter().map(export));
    Ok(Runtime { arguments, _folder: folder })
}

fn hidden() -> Option<Vec<OsString>> {
    let named = env::var_os(HIDDEN).filter(|named| !named.is_empty())?;
    Some(env::split_paths(&named).map(OsString::from).collect())
}

/// The file of the runtime, if there is one.
pub(super) fn place() -> Option<PathBuf> {
    match hidden() {
        Some(objects) => objects.into_iter().next().map(PathBuf::from),
        None if ENGINE.is_empty() => None,
        None => env::current_exe().ok(),
    }
}

/// The runtime's object.
fn object(clang: &Path, sanitized: bool) -> Result<(PathBuf, Option<TempDir>), Failure> {
    let mut hasher = DefaultHasher::new();
    (SOURCES, CONTRACT, IMAGE, ENGINE, FLAGS, sanitized, clang).hash(&mut hasher);
    let name = format!("runtime-{:016x}.o", hasher.finish());
    made_once(&name, |work| compile(clang, work, sanitized))
}

/// The arguments for what stands in front of libstdc++. The linker takes it only if the program has
/// threads, conditions or futures.
pub(super) fn libstdcxx(clang: &Path) -> Result<Runtime, Failure> {
    let mut hasher = DefaultHasher::new();
    (LIBSTDCXX, LIBSTDCXX_FLAGS, clang).hash(&mut hasher);
    let name = format!("libstdcxx-{:016x}.o", hasher.finish());
    let (object, folder) = made_once(&name, |work| {
        let (source, text) = LIBSTDCXX;
        fs::write(work.join(source), text).blame_at(Party::Machine, work.join(source).display())?;
        let mut compiler = Command::new(clang);
        run(compiler.args(LIBSTDCXX_FLAGS).args([source, "-o", "made.o"]).current_dir(work))?;
        Ok(work.join("made.o"))
    })?;
    let arguments = ["-Wl,--start-lib".into(), object.into(), "-Wl,--end-lib".into()].into();
    Ok(Runtime { arguments, _folder: folder })
}

/// An object from the cache, or made now in a folder. Without a cache, the folder must live until
/// the link is done.
fn made_once(
    name: &str,
    make: impl FnOnce(&Path) -> Result<PathBuf, Failure>,
) -> Result<(PathBuf, Option<TempDir>), Failure> {
    match cache() {
        Some(cache) => {
            let object = cache.join(name);
            if !object.is_file() {
                let work =
                    tempfile::tempdir_in(&cache).blame_at(Party::Machine, cache.display())?;
                let made = make(work.path())?;
                fs::rename(&made, &object).blame_at(Party::Machine, object.display())?;
                prune(&cache, "o", KEPT);
            }
            Ok((object, None))
        }
        None => {
            let work = tempfile::tempdir().blame_at(Party::Machine, env::temp_dir().display())?;
            let made = make(work.path())?;
            Ok((made, Some(work)))
        }
    }
}

/// The folder of the cache, if the user has a cache folder.
pub(super) fn cache() -> Option<PathBuf> {
    let cache = crate::cache::folder()?;
    fs::create_dir_all(&cache).ok()?;
    // A folder may exist and not be writable.
    tempfile::tempfile_in(&cache).ok().map(|_| cache)
}

/// Removes the oldest files of one kind, and keeps `kept`.
pub(super) fn prune(cache: &Path, extension: &str, kept: usize) {
    let Ok(entries) = fs::read_dir(cache) else { return };
    let mut files: Vec<_> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let is_of_the_kind = path.extension() == Some(OsStr::new(extension));
            let modified = fs::metadata(&path).and_then(|metadata| metadata.modified()).ok()?;
            is_of_the_kind.then_some((modified, path))
        })
        .collect();
    files.sort();
    for (_, path) in files.iter().rev().skip(kept) {
        let _ = fs::remove_file(path);
    }
}

/// Compiles the runtime in this folder. Returns the object.
fn compile(clang: &Path, work: &Path, sanitized: bool) -> Result<PathBuf, Failure> {
    let write = |name: &str, bytes: &[u8]| {
        let path = work.join(name);
        fs::write(&path, bytes).blame_at(Party::Machine, path.display())
    };
    for (name, text) in SOURCES.iter().chain([&CONTRACT]) {
        write(name, text.as_bytes())?;
    }
    write("engine.so", ENGINE)?;
    write("image.S", IMAGE.as_bytes())?;
    let units = SOURCES.iter().map(|(name, _)| *name).filter(|name| !name.ends_with(".h"));
    let units: Vec<&str> = units.chain(["image.S"]).collect();
    let mut compiler = Command::new(clang);
    compiler.args(FLAGS).arg("-c").args(&units);
    if sanitized {
        // Frames come from malloc, so that the sanitizer sees a use of a freed frame.
        compiler.arg("-DMALLOC_FRAMES");
    }
    run(compiler.current_dir(work))?;
    let objects = units.iter().map(|name| Path::new(name).with_extension("o"));
    let mut linker = Command::new(clang);
    linker.args(["-fuse-ld=lld", "-nostdlib", "-r", "-o", "runtime.object"]).args(objects);
    run(linker.current_dir(work))?;
    // The program may have functions of the same names as the runtime's own.
    let objcopy = toolchain::program("llvm-objcopy")?;
    let mut hide = Command::new(objcopy);
    hide.arg("--wildcard");
    for name in ["rt_*", "duality_*_task", "__lsan_is_turned_off"].iter().chain(IN_FRONT) {
        hide.arg(format!("--keep-global-symbol={name}"));
    }
    run(hide.arg("runtime.object").current_dir(work))?;
    Ok(work.join("runtime.object"))
}

fn run(command: &mut Command) -> Result<(), Failure> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .blame_at(Party::Machine, Path::new(command.get_program()).display())?;
    if output.status.success() {
        return Ok(());
    }
    Err(Failure::new(
        Party::Machine,
        format!(
            "the runtime does not compile ({}):\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ),
    ))
}
