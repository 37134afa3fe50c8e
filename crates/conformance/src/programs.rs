//! Programs in C, compiled and run by tests.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// The longest time of a program. On a quiet machine, no program takes a fiftieth of this time.
/// Beside compilers, each of 10,000 calls of `sched_yield` gave away a slice of some milliseconds.
const LIMIT: Duration = Duration::from_secs(300);

/// A file or folder of this crate.
#[must_use]
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Compiles the files of `sources` to one program.
///
/// # Panics
///
/// Panics if the files do not compile.
pub fn compile(sources: &[PathBuf], flags: &[&str], program: &Path) {
    let status = Command::new("cc")
        .args(["-O1", "-g", "-o"])
        .arg(program)
        .args(sources)
        .args(flags)
        .status()
        .expect("a C compiler");
    assert!(status.success(), "{sources:?} do not compile");
}

/// Copies a program that will be started.
///
/// Another process writes the copy. If this process wrote it, a thread that forks at that moment
/// would give the open file to its child. A start of the program would fail by ETXTBSY (execve(2)).
///
/// # Panics
///
/// Panics if the program cannot be copied.
pub fn copy_program(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-p").args([from, to]).status().expect("cp");
    assert!(status.success(), "{} is not copied", from.display());
}

/// A compiled program of `programs/`. Dropping this value removes the program.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Program {
    /// Compiles `programs/NAME.c`.
    ///
    /// # Panics
    ///
    /// Panics if the program does not compile.
    #[must_use]
    pub fn new(name: &str, flags: &[&str]) -> Self {
        let place = tempfile::tempdir().expect("a folder");
        let path = place.path().join(name);
        compile(&[folder("programs").join(name).with_extension("c")], flags, &path);
        Self { path, _folder: place }
    }

    /// The path of the program.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the program, for a command line.
    ///
    /// # Panics
    ///
    /// Panics if the path of temporary files is no UTF-8.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.to_str().expect("a name")
    }
}

/// The torture suite, compiled once for all tests of this file.
///
/// # Panics
///
/// Panics if the suite does not compile.
pub fn torture() -> &'static Path {
    static PROGRAM: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, program) = PROGRAM.get_or_init(|| {
        let folder_of_program = tempfile::tempdir().expect("a folder");
        let program = folder_of_program.path().join("torture");
        let mut sources: Vec<PathBuf> = std::fs::read_dir(folder("torture"))
            .expect("the suite")
            .map(|entry| entry.expect("readable").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
            .collect();
        sources.sort();
        compile(&sources, &["-pthread", "-lrt", "-ldl", "-lm"], &program);
        (folder_of_program, program)
    });
    program
}

/// Runs a command to its end, or kills it at the limit.
///
/// # Panics
///
/// Panics if the command cannot be started.
pub fn finish(command: &mut Command) -> Output {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it can be started");
    // A pipe holds 64 KiB, and a program may print more before it ends.
    let stdout = all_of(child.stdout.take().expect("it is piped"));
    let stderr = all_of(child.stderr.take().expect("it is piped"));
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        if start.elapsed() > LIMIT {
            child.kill().expect("a child");
        }
        thread::sleep(Duration::from_millis(2));
    };
    let [stdout, stderr] = [stdout, stderr].map(|reader| reader.join().expect("bytes"));
    Output { status, stdout, stderr }
}

/// Reads all that a program prints, on a thread of its own.
fn all_of(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("a pipe can be read");
        bytes
    })
}
