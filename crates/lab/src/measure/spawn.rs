//! How the lab starts programs that are not ours: their processors, their end, and their output.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::process::{Resource, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::measure::peers::find;

/// A command that starts `program`. Where setpriv(1) is installed, the program gets `signal` when
/// this process is killed.
pub(crate) fn command(program: &str, signal: &str) -> Command {
    let program = find(program).unwrap_or_else(|| program.into());
    // The program may get another working directory, in which a relative path would mean another
    // file.
    let program = std::path::absolute(&program).unwrap_or(program);
    match find("setpriv") {
        Some(setpriv) => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", signal, "--"]).arg(program);
            command
        }
        None => Command::new(program),
    }
}

/// Calls `spawn` while this thread is on `cpus`, so that the started program and its children run
/// there. The program and its children may have as many descriptors as the hard limit allows.
pub(crate) fn pinned<T>(cpus: &[usize], spawn: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit)?;
    if cpus.is_empty() {
        return spawn();
    }
    let before = sched_getaffinity(None)?;
    let mut only = CpuSet::new();
    cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU).for_each(|&cpu| only.set(cpu));
    sched_setaffinity(None, &only)?;
    let spawned = spawn();
    sched_setaffinity(None, &before)?;
    spawned
}

/// A file without a name, for reading and writing. A program that writes to this file never blocks.
pub(crate) fn log_file() -> io::Result<(File, File)> {
    use rustix::fs::{MemfdFlags, memfd_create};
    let file = File::from(memfd_create("log", MemfdFlags::CLOEXEC)?);
    Ok((file.try_clone()?, file))
}

/// The end of the contents of such a file. Both handles of the file share one position, which is
/// the writer's.
pub(crate) fn read_log(log: &File) -> String {
    /// This limit is above the output of any program before it listens.
    const MOST: u64 = 64 * 1024;
    let length = log.metadata().map_or(0, |about| about.len());
    let mut bytes = vec![0; length.min(MOST) as usize];
    // Output that cannot be read counts as none.
    let read = log.read_at(&mut bytes, length.saturating_sub(MOST)).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..read]).into_owned()
}

/// The whole lines of such a file from `place` on. Moves `place` behind these lines.
pub(crate) fn read_on(log: &File, place: &mut u64) -> String {
    /// One call returns at most this many bytes.
    const MOST: usize = 64 * 1024;
    /// The most bytes of output that are kept.
    const KEPT: u64 = 1 << 20;
    if log.metadata().is_ok_and(|about| about.len() <= *place) {
        return String::new();
    }
    let mut bytes = vec![0; MOST];
    // Output that cannot be read counts as none.
    let read = log.read_at(&mut bytes, *place).unwrap_or(0);
    let whole = match bytes[..read].iter().rposition(|byte| *byte == b'\n') {
        Some(end) => end + 1,
        // A line without an end is returned in parts.
        None if read == MOST => read,
        None => 0,
    };
    *place += whole as u64;
    if *place > KEPT {
        // Otherwise a server with much output would fill the memory.
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = fallocate(log, flags, 0, *place);
    }
    String::from_utf8_lossy(&bytes[..whole]).into_owned()
}

/// How a process ended, in words.
pub(crate) fn how_ended(status: ExitStatus) -> String {
    ended_by(status.code(), status.signal())
}

/// How a process ended, in words, from its exit code or the signal that ended it.
pub(crate) fn ended_by(code: Option<i32>, signal: Option<i32>) -> String {
    match (code, signal) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// The most letters of a program's last words.
const LONGEST: usize = 300;

/// What a program said last, in one line: the last line of its output, and its first panic. Blank
/// lines do not count, and neither do backtraces. A long line is cut, and no letter controls a
/// terminal.
pub fn last_words(output: &str) -> Option<String> {
    let words = last_line(output)?;
    let mut letters = words.chars().map(|one| if one.is_control() { ' ' } else { one });
    let mut kept: String = letters.by_ref().take(LONGEST).collect();
    if letters.next().is_some() {
        kept.push('…');
    }
    Some(kept)
}

fn last_line(output: &str) -> Option<String> {
    let lines = output.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<&str> = lines.collect();
    let mut places = lines.iter().map(|line| place_of_panic(line)).enumerate();
    let Some((header, place)) = places.find_map(|(at, place)| Some((at, place?))) else {
        return lines.last().map(|&last| last.to_owned());
    };
    let message = lines.get(header + 1).copied().unwrap_or_default();
    let panic = format!("panicked at {place} {message}");
    let last = lines.iter().skip(header + 2).rfind(|line| !is_backtrace(line));
    Some(last.map_or_else(|| panic.clone(), |last| format!("{last} ({panic})")))
}

/// The place of a panic, if `line` begins the report of a panic in Rust. The message is the next
/// line.
fn place_of_panic(line: &str) -> Option<&str> {
    let (_, place) = line.strip_prefix("thread '")?.split_once(" panicked at ")?;
    place.ends_with(':').then_some(place)
}

/// Whether Rust's report of a panic has such a line after its message.
fn is_backtrace(line: &str) -> bool {
    let is_frame = || {
        let (number, _) = line.split_once(": ").unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let begins = ["note: ", "stack backtrace:", "at "].iter().any(|begin| line.starts_with(begin));
    begins || is_frame()
}

/// The last component of a program's path.
pub(crate) fn name_of(program: &str) -> &str {
    Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_are_short_and_control_no_terminal() {
        let told = last_words(&format!("first\n\u{1b}[31m{}\n\n", "é".repeat(5000))).unwrap();
        assert!(told.starts_with(" [31mé") && told.ends_with("é…"), "{told}");
        assert_eq!(told.chars().count(), LONGEST + 1);
        assert_eq!(last_words("\n \n"), None);
    }

    #[test]
    fn the_last_words_are_the_last_line_and_the_first_panic() {
        let words = |output: &str| last_words(output);
        assert_eq!(words(" \n\n"), None);
        assert_eq!(words("starting\ncannot bind\n\n").unwrap(), "cannot bind");
        let panic = "\nthread 'main' (7) panicked at src/main.rs:4:5:\nno \"database\"\n";
        let expected = "panicked at src/main.rs:4:5: no \"database\"";
        let note =
            "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n";
        assert_eq!(words(&[panic, note].concat()).unwrap(), expected);
        let frames = "stack backtrace:\n   0: std::panicking::begin\n             at ./lib.rs:9\n";
        assert_eq!(words(&["hello\n", panic, frames, note].concat()).unwrap(), expected);
        let later = [panic, note, &panic.replace("no", "a"), note, "cannot serve\n"].concat();
        assert_eq!(words(&later).unwrap(), format!("cannot serve ({expected})"));
        assert_eq!(
            words("thread 'a' panicked at src/a.rs:1:1:").unwrap(),
            "panicked at src/a.rs:1:1: "
        );
    }
}
