//! The suite of the pass and of both runtimes: each program of `convert/tests` is compiled natively
//! and converted, and must print the same. Generated programs (`fuzz.py`) follow, as long as there
//! is time.
//!
//! The suite links the object of the reference runtime. `duality cc` or `duality c++` links the
//! product's runtime. Programs in C++, and programs with a line `Runtime: product`, are for the
//! product's runtime only.
//!
//! With AddressSanitizer, frames come from malloc, so that the sanitizer sees a use of a freed
//! frame. The sanitizer's stack checks are off: converted code has moved the variables from the
//! stack.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{files_of, folder, llvm, source};
use crate::Workspace;
use crate::failure::{At as _, Failure, Result};
use crate::files::{make, read};

/// A test program that runs longer than this counts as hung.
const LIMIT: Duration = Duration::from_secs(60);
/// The time for all generated programs.
const FUZZING: Duration = Duration::from_secs(20);
/// The first seed of the generated programs, unless `DUALITY_FUZZ_SEED` gives another seed.
const FIRST_SEED: usize = 1;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Runtime {
    /// The runtime of `convert/reference`.
    Reference,
    /// The runtime of `convert/runtime`, with this number of loops.
    Product(u8),
}

/// One way to compile a test program.
#[derive(Clone, Copy)]
struct Build {
    level: &'static str,
    sanitizer: bool,
    runtime: Runtime,
}

impl Build {
    const fn plain(level: &'static str, runtime: Runtime) -> Self {
        Self { level, sanitizer: false, runtime }
    }

    const fn sanitized(level: &'static str, runtime: Runtime) -> Self {
        Self { level, sanitizer: true, runtime }
    }

    /// The end of the program's name.
    fn kind(self) -> String {
        let runtime = match self.runtime {
            Runtime::Reference => "converted".to_owned(),
            Runtime::Product(loops) => format!("product{loops}"),
        };
        if self.sanitizer { runtime + "-asan" } else { runtime }
    }
}

/// Builds of one level follow each other, so that the native program runs once for all of them.
const BUILDS: &[Build] = &[
    Build::plain("-O0", Runtime::Reference),
    Build::sanitized("-O0", Runtime::Reference),
    Build::plain("-O0", Runtime::Product(1)),
    Build::plain("-O2", Runtime::Reference),
    Build::sanitized("-O2", Runtime::Reference),
    Build::plain("-O2", Runtime::Product(1)),
    Build::plain("-O2", Runtime::Product(3)),
    Build::sanitized("-O2", Runtime::Product(1)),
    Build::plain("-Os", Runtime::Reference),
    Build::plain("-Os", Runtime::Product(1)),
];

struct Suite {
    source: PathBuf,
    folder: PathBuf,
    work: PathBuf,
    /// The command `duality`, which contains the product's runtime.
    command: PathBuf,
}

pub(super) fn run(workspace: &Workspace) -> Result {
    let folder = folder(workspace);
    let suite = Suite {
        source: source(workspace),
        work: folder.join("tests"),
        folder,
        command: workspace.target.join("debug/duality"),
    };
    make(&suite.work)?;
    let tests = suite.source.join("tests");
    // The programs in C++ come first: they take longest.
    let mut programs = files_of(&tests, "cc")?;
    programs.extend(files_of(&tests, "c")?);
    let start = Instant::now();
    let failures = in_parallel(programs.len(), None, |index| suite.program(&programs[index]));
    report(&failures)?;
    println!(
        "{} programs in {} builds: {:.0} s",
        programs.len(),
        BUILDS.len(),
        start.elapsed().as_secs_f64()
    );
    let first = std::env::var("DUALITY_FUZZ_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(FIRST_SEED);
    let made = AtomicUsize::new(0);
    let failures = in_parallel(usize::MAX, Some(Instant::now() + FUZZING), |index| {
        made.fetch_add(1, Ordering::Relaxed);
        suite.generated(first + index)
    });
    report(&failures)?;
    println!("{} generated programs, from seed {first} on", made.load(Ordering::Relaxed));
    Ok(())
}

fn report(failures: &[Failure]) -> Result {
    for failure in failures {
        println!("{failure}");
    }
    match failures.first() {
        None => Ok(()),
        Some(first) => Err(first.clone()),
    }
}

/// Does a job for each index, on two kernel threads, until a time or a failure. Returns the
/// failures.
fn in_parallel(
    count: usize,
    until: Option<Instant>,
    job: impl Fn(usize) -> Result + Sync,
) -> Vec<Failure> {
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let late = until.is_some_and(|until| Instant::now() >= until);
                    let failed = || !failures.lock().expect("no job panics").is_empty();
                    if index >= count || late || (until.is_some() && failed()) {
                        break;
                    }
                    if let Err(failure) = job(index) {
                        failures.lock().expect("no job panics").push(failure);
                    }
                }
            });
        }
    });
    failures.into_inner().expect("no job panics")
}

impl Suite {
    /// Compiles a program in every way, and compares the outputs.
    fn program(&self, file: &Path) -> Result {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = read(file)?;
        let flags: Vec<&str> = text
            .lines()
            .find_map(|line| {
                [" * Flags: ", "// Flags: "].iter().find_map(|key| line.strip_prefix(key))
            })
            .map(|flags| flags.trim_end_matches(" */").split(' ').collect())
            .unwrap_or_default();
        let product_only = text.lines().any(|line| line.contains(" Runtime: product"));
        let builds =
            BUILDS.iter().filter(|build| !product_only || build.runtime != Runtime::Reference);
        let mut expected: Option<(&str, Output)> = None;
        for build in builds {
            let same = expected.as_ref().is_some_and(|(level, _)| *level == build.level);
            if !same {
                let output = self.natively(file, &name, build.level, &flags)?;
                expected = Some((build.level, output));
            }
            let (_, expected) = expected.as_ref().expect("run just now");
            self.compare(file, &name, *build, &flags, expected)?;
        }
        self.compare_report(file, &name)
    }

    /// Generates a program and compares it in one way, which depends on the seed.
    fn generated(&self, seed: usize) -> Result {
        let name = format!("fuzz{seed}");
        let file = self.work.join(&name).with_extension("c");
        let made = Command::new("python3")
            .arg(self.source.join("tests/fuzz.py"))
            .arg(seed.to_string())
            .output();
        let made = made.at("python3")?;
        fs::write(&file, made.stdout).at(file.display())?;
        let runtime = [Runtime::Reference, Runtime::Product(1), Runtime::Product(3)][seed / 5 % 3];
        let level = ["-O0", "-O1", "-O2", "-Os", "-O3"][seed % 5];
        let build = Build { level, sanitizer: seed.is_multiple_of(2), runtime };
        let expected = self.natively(&file, &name, level, &["-lm"])?;
        if !expected.status.success() {
            // The machine could not give the program all its threads.
            println!("{name} left out: natively {}", expected.status);
            return Ok(());
        }
        self.compare(&file, &name, build, &["-lm"], &expected)?;
        let _ = fs::remove_file(file);
        Ok(())
    }

    /// What the native program prints.
    fn natively(&self, file: &Path, name: &str, level: &str, flags: &[&str]) -> Result<Output> {
        let program = self.work.join(format!("{name}{level}"));
        compile(self.native(file, &program, level).args(flags), name)?;
        let output = finish(&program, name, 1, Leaks::Left)?;
        // There are hundreds of programs, and none is needed again.
        let _ = fs::remove_file(program);
        Ok(output)
    }

    fn compare(
        &self,
        file: &Path,
        name: &str,
        build: Build,
        flags: &[&str],
        expected: &Output,
    ) -> Result {
        let kind = build.kind();
        let title = format!("{name} {} {kind}", build.level);
        let program = self.work.join(format!("{name}{}-{kind}", build.level));
        compile(self.converted(file, &program, build).args(flags), &title)?;
        let loops = if let Runtime::Product(loops) = build.runtime { loops } else { 1 };
        let leaks = if is_cxx(file) { Leaks::LookedFor } else { Leaks::Left };
        let output = finish(&program, &title, loops, leaks)?;
        if output.status == expected.status && output.stdout == expected.stdout {
            let _ = fs::remove_file(program);
            return Ok(());
        }
        Err(format!(
            "{title}: differs from the native program\n{}: {}\nnatively {}: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            expected.status,
            String::from_utf8_lossy(&expected.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
        .into())
    }

    /// Each line of NAME.report must be in the report of NAME.c.
    fn compare_report(&self, file: &Path, name: &str) -> Result {
        let Ok(wanted) = fs::read_to_string(file.with_extension("report")) else {
            return Ok(());
        };
        let report = self.work.join(format!("{name}.report"));
        let program = self.work.join(format!("{name}-report"));
        let build = Build::plain("-O1", Runtime::Reference);
        let mut command = self.converted(file, &program, build);
        // The path is relative to the folder, as users see it.
        command
            .current_dir(self.source.join("tests"))
            .arg("-g")
            .env("DUALITY_CONVERT_REPORT", &report);
        compile(&mut command, &format!("{name}: report"))?;
        let text = read(&report)?;
        match wanted.lines().find(|line| !text.contains(line.trim())) {
            None => Ok(()),
            Some(line) => Err(format!("{name}: the report lacks `{}`\n{text}", line.trim()).into()),
        }
    }

    /// A compiler, with the arguments that are common to all ways.
    fn with_arguments(
        &self,
        mut command: Command,
        file: &Path,
        program: &Path,
        level: &str,
    ) -> Command {
        command.args([level, "-w", "-pthread", "-I"]).arg(self.source.join("tests"));
        // The report names files by the paths that the compiler got.
        command.arg(if program.to_string_lossy().ends_with("-report") {
            Path::new(file.file_name().unwrap_or_default())
        } else {
            file
        });
        command.arg("-o").arg(program);
        command
    }

    fn native(&self, file: &Path, program: &Path, level: &str) -> Command {
        let compiler = if is_cxx(file) { "clang++" } else { "clang" };
        self.with_arguments(Command::new(llvm(compiler)), file, program, level)
    }

    fn converted(&self, file: &Path, program: &Path, build: Build) -> Command {
        let compiler = match build.runtime {
            Runtime::Reference => Command::new(llvm("clang")),
            Runtime::Product(_) => {
                let mut command = Command::new(&self.command);
                command.arg(if is_cxx(file) { "c++" } else { "cc" });
                command
            }
        };
        let mut command = self.with_arguments(compiler, file, program, build.level);
        if build.sanitizer {
            command.args(["-fsanitize=address", "-mllvm", "-asan-stack=0"]);
        }
        if build.runtime == Runtime::Reference {
            let mut plugin = std::ffi::OsString::from("-Wl,--load-pass-plugin=");
            plugin.push(self.folder.join("libduality_convert.so"));
            command.args(["-flto=full", "-fuse-ld=lld", "-gline-tables-only"]).arg(plugin);
            let object = if build.sanitizer { "reference-asan.o" } else { "reference.o" };
            command.arg(self.folder.join(object));
        }
        command
    }
}

fn is_cxx(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "cc")
}

fn compile(command: &mut Command, title: &str) -> Result {
    let output = command.output().at("clang")?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{title}: does not compile\n{}", String::from_utf8_lossy(&output.stderr)).into())
}

/// What AddressSanitizer is told about leaks.
#[derive(Clone, Copy)]
enum Leaks {
    /// The check stops all threads by functions that the reference runtime replaces.
    Left,
    /// The product's runtime turns the check off in converted programs.
    LookedFor,
}

/// Runs a program to its end, or ends it after the limit.
fn finish(program: &Path, title: &str, loops: u8, leaks: Leaks) -> Result<Output> {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("DUALITY_CORES", loops.to_string());
    let options = match leaks {
        Leaks::Left => "detect_leaks=0:detect_stack_use_after_return=0",
        Leaks::LookedFor => "detect_leaks=1:detect_stack_use_after_return=0",
    };
    command.env("ASAN_OPTIONS", options);
    let mut child = command.spawn().at(title)?;
    let start = Instant::now();
    // Test programs print little: their output fits into the pipe.
    while child.try_wait().at(title)?.is_none() {
        if start.elapsed() > LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("{title}: does not end within {} s", LIMIT.as_secs()).into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().at(title)
}
