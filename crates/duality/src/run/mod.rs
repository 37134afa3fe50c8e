//! `duality run`: an unmodified program on user-level threads.
//!
//! The command carries the engine (`crates/engine`, built by `build.rs`), and puts it into a file
//! in memory. The dynamic linker loads that file before all else (`LD_PRELOAD`, ld.so(8)). The
//! command then becomes the program (execve(2)): same process, same exit status. First, [`program`]
//! looks at the program's file and refuses a program that cannot work.

mod program;

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

pub(crate) use program::{Program, Verdict, search};

/// The engine, a shared object. Empty on machines that the engine does not support.
pub(crate) static ENGINE: &[u8] = include_bytes!(env!("DUALITY_ENGINE"));

/// The script with which gdb lists threads.
pub(crate) static GDB_SCRIPT: &str = include_str!("threads.py");

/// How the engine learns that a thread can go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Poller {
    // Plain comments, because help for the values would lengthen all of `--help`.
    // The kernel reports that a descriptor is ready, and the thread receives.
    Epoll,
    // The kernel receives for a thread that waits for a stream. epoll reports all other events.
    Uring,
}

/// The settings of the engine.
#[derive(Debug, Clone)]
pub(crate) struct EngineOptions {
    /// Kernel threads that run the program's threads.
    pub(crate) cores: u16,
    /// Processor time after which another thread has its turn. `None` means never.
    pub(crate) tick: Option<Duration>,
    /// The bytes of a thread's stack, if the thread does not ask for a size.
    pub(crate) stack_size: Option<u64>,
    /// Print counters at the end.
    pub(crate) stats: bool,
    /// Check the engine's own state at every step.
    pub(crate) assertions: bool,
    /// Report calls that keep all threads waiting for longer than this.
    pub(crate) stall: Option<Duration>,
    pub(crate) poller: Poller,
    /// Programs started by the program run on the engine too.
    pub(crate) children: bool,
    /// List all threads on this signal.
    pub(crate) dump_signal: Option<i32>,
    /// The folder where the engine keeps the places of system calls, if it may.
    pub(crate) cache: Option<PathBuf>,
}

/// The folder where the engine keeps the places of system calls in libraries. `None` if the folder
/// cannot be made, or if another user can write into it.
pub(crate) fn cache() -> Option<PathBuf> {
    const OTHERS_WRITE: u32 = 0o022;
    let folder = crate::cache::folder()?.join("sites");
    let status = fs::metadata(&folder).or_else(|_| {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        fs::metadata(&folder)
    });
    let status = status.ok().filter(fs::Metadata::is_dir)?;
    let is_own =
        status.uid() == rustix::process::geteuid().as_raw() && status.mode() & OTHERS_WRITE == 0;
    // A colon separates the settings of the engine.
    let fits = folder.is_absolute() && !folder.as_os_str().as_encoded_bytes().contains(&b':');
    (is_own && fits).then_some(folder)
}

/// Becomes the program, on the engine. Returns only if execve(2) fails.
pub(crate) fn exec(program: &OsStr, arguments: &[OsString], settings: &EngineOptions) -> io::Error {
    match prepare(settings) {
        Ok((library, variable)) => {
            let mut command = Command::new(program);
            command.args(arguments).env("DUALITY_RUN", variable);
            command.env("LD_PRELOAD", preload(&library));
            let error = command.exec();
            drop(library);
            error
        }
        Err(error) => error,
    }
}

/// The list of libraries to load first: the engine, then the former entries.
fn preload(library: &OwnedFd) -> OsString {
    let mut list = OsString::from(format!("/proc/self/fd/{}", library.as_raw_fd()));
    if let Some(before) = env::var_os("LD_PRELOAD").filter(|before| !before.is_empty()) {
        list.push(":");
        list.push(before);
    }
    list
}

/// Puts the engine where the dynamic linker finds it, and encodes the settings.
fn prepare(settings: &EngineOptions) -> io::Result<(OwnedFd, OsString)> {
    let library = out_of_the_way(engine_file()?)?;
    fcntl_setfd(&library, FdFlags::empty())?;
    let mut stack_before = 0;
    if let Some(size) = settings.stack_size {
        // libc takes the size of its threads' stacks from this limit. The engine restores the
        // limit.
        let limit = getrlimit(Resource::Stack);
        stack_before = limit.current.unwrap_or(u64::MAX);
        setrlimit(Resource::Stack, Rlimit { current: Some(size), maximum: limit.maximum })?;
    }
    let mut variable = OsString::from(format!(
        "fd={}:cores={}:uring={}:tick={}:stats={}:stall={}:children={}:signal={}:stack={stack_before}:assertions={}",
        library.as_raw_fd(),
        settings.cores,
        u8::from(settings.poller == Poller::Uring),
        settings.tick.map_or(0, |tick| tick.as_micros()),
        u8::from(settings.stats),
        settings.stall.map_or(0, |stall| stall.as_millis()),
        u8::from(settings.children),
        settings.dump_signal.unwrap_or(0),
        u8::from(settings.assertions),
    ));
    if let Some(folder) = &settings.cache {
        variable.push(":cache=");
        variable.push(folder);
    }
    variable.push(":preload=");
    variable.push(env::var_os("LD_PRELOAD").unwrap_or_default());
    Ok((library, variable))
}

fn engine_file() -> io::Result<OwnedFd> {
    // Some systems make such files non-executable without this flag. Older kernels do not know the
    // flag.
    let file = memfd_create("duality-engine", MemfdFlags::CLOEXEC | MemfdFlags::EXEC)
        .or_else(|_| memfd_create("duality-engine", MemfdFlags::CLOEXEC))?;
    let mut file = std::fs::File::from(file);
    let limit = getrlimit(Resource::Fsize);
    let unlimited = Rlimit { current: None, maximum: None };
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if limit.current.is_some() {
        // The kernel applies the limit to files in memory too.
        setrlimit(Resource::Fsize, unlimited).or_else(|_| setrlimit(Resource::Fsize, raised))?;
        let room = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
        if room < ENGINE.len() as u64 {
            setrlimit(Resource::Fsize, limit)?;
            let advice = "the limit of file sizes is too small for the engine; raise `ulimit -f`";
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, advice));
        }
    }
    file.write_all(ENGINE)?;
    setrlimit(Resource::Fsize, limit)?;
    Ok(file.into())
}

/// Moves a descriptor away from the low numbers, because the program may count on them. The
/// descriptor goes far up, or above a low limit, or at least to the end of that limit.
fn out_of_the_way(file: OwnedFd) -> io::Result<OwnedFd> {
    const MOST: u64 = 1 << 20;
    const ROOM: u64 = 16;
    // The number is that of `engine/src/descriptors/spare_numbers.rs`: fork copies a table that
    // reaches to the highest number.
    const FAR: u64 = 4096;
    let before = getrlimit(Resource::Nofile);
    let limit = before.current.unwrap_or(MOST).min(MOST);
    if limit >= FAR + ROOM {
        return Ok(fcntl_dupfd_cloexec(&file, i32::try_from(FAR).unwrap_or(0)).unwrap_or(file));
    }
    let higher = (limit + ROOM).min(MOST);
    // If the hard limit is as low, the number is above it, which takes a privilege. The limit is
    // changed only for a moment.
    let maximum = before.maximum.map(|maximum| maximum.max(higher));
    let raised = Rlimit { current: Some(higher), maximum };
    let room_above = limit < higher && setrlimit(Resource::Nofile, raised).is_ok();
    let from = if room_above { limit } else { limit.saturating_sub(ROOM) };
    let moved = fcntl_dupfd_cloexec(&file, i32::try_from(from).unwrap_or(0));
    if room_above {
        setrlimit(Resource::Nofile, before)?;
    }
    Ok(moved.unwrap_or(file))
}

/// The processors that this process may use, up to the engine's limit.
pub(crate) fn processors() -> u16 {
    const MOST: usize = 64;
    std::thread::available_parallelism().map_or(1, |count| count.get().min(MOST) as u16)
}

/// The reason why the engine cannot work on this machine, if it cannot.
pub(crate) fn unsupported() -> Option<&'static str> {
    if ENGINE.is_empty() {
        return Some("`duality run` is for x86_64 Linux; docs/run.md says what aarch64 needs");
    }
    // Without /proc, the dynamic linker would ignore the engine, and the program would run
    // natively.
    (!Path::new("/proc/self/fd").exists())
        .then_some("/proc is not mounted, and the program loads the engine from there; mount it")
}

/// The file of a name on the command line, as the shell would find it.
pub(crate) fn find(name: &OsStr) -> Option<PathBuf> {
    let path = PathBuf::from(name);
    if name.as_encoded_bytes().contains(&b'/') {
        return Some(path);
    }
    let list = env::var_os("PATH")?;
    env::split_paths(&list).map(|folder| folder.join(name)).find(|path| path.is_file())
}
