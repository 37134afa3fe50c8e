//! Links a program: loads the pass, adds the runtime, and reports the result.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use duality_runtime::log;
use object::Endianness;
use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSection as _};

use super::job::Job;
use super::links::Link;
use super::toolchain::Toolchain;
use super::{Language, Wishes, cannot_run, runtime};
use crate::failure::{Blame, Failure, Party};

/// The environment variables for the pass. The pass cannot have options, because lld reads its own
/// before it loads the pass.
const REPORT: &str = "DUALITY_CONVERT_REPORT";
const GRAPH: &str = "DUALITY_CONVERT_GRAPH";
const NO_RUNTIME: &str = "DUALITY_CONVERT_NO_RUNTIME";
/// The name that stands for the whole program in a line of the report.
const PROGRAM: &str = "DUALITY_CONVERT_PROGRAM";

/// Adds the pass and the runtime to the link command `native`, and runs it.
pub(super) fn link(
    native: &Command,
    toolchain: &Toolchain,
    language: Language,
    job: &Job,
    wishes: &Wishes,
) -> Result<ExitCode, Failure> {
    let mut clang = Command::new(native.get_program());
    let front = in_front(toolchain, language, job)?;
    clang.args(front.iter().flat_map(|front| &front.arguments)).args(native.get_args());
    if front.is_some() && job.static_libstdcxx {
        // The archive defines some of it once more. The first definition counts.
        clang.arg("-Wl,--allow-multiple-definition");
    }
    clang.arg(toolchain.load_pass()?).env(PROGRAM, &job.output);
    let runtime = runtime::choose(job, &toolchain.clang);
    match &runtime {
        // The program's own `-x` applies to its own files.
        Ok(runtime) => clang.args(["-x", "none"]).args(&runtime.arguments),
        // A program without threads needs no runtime. The pass reports a runtime that is missing.
        Err(why) => clang.env(NO_RUNTIME, why.to_string()),
    };
    let known = match wishes {
        Wishes { report: None, graph: None } => Link::of(&clang, job),
        _ => None,
    };
    if let Some(known) = &known {
        if known.take() {
            log::tell(format_args!(
                "duality cc: {}: its inputs are those of the last time, and so is the program",
                job.output.display()
            ));
            return Ok(ExitCode::SUCCESS);
        }
        clang.arg(known.argument());
    }
    // The pass writes no report for a program without work. So remove an old report, which would
    // seem to belong to this program.
    for path in [&wishes.report, &wishes.graph].into_iter().flatten() {
        if path.as_os_str() != "-" {
            let _ = fs::remove_file(path);
        }
    }
    if let Some(graph) = &wishes.graph {
        clang.env(GRAPH, graph);
    }
    let report = wishes.report.as_deref().map(Report::new).transpose()?;
    if let Some(report) = &report {
        clang.env(REPORT, report.file());
    }
    let start = Instant::now();
    let status = clang.status().map_err(|error| cannot_run(&clang, &error))?;
    if status.success() {
        known.iter().for_each(Link::keep);
        if let Some(report) = report {
            report.finish(native, job, start.elapsed())?;
        }
        wishes.graph.as_deref().inspect(|graph| draw(graph));
    }
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

/// What stands in front of libstdc++ in a program of C++. It comes before the program's own
/// arguments, and so before each library that defines the same.
fn in_front(
    toolchain: &Toolchain,
    language: Language,
    job: &Job,
) -> Result<Option<runtime::Runtime>, Failure> {
    if language == Language::C || job.alone.is_some() || job.libcxx {
        return Ok(None);
    }
    runtime::libstdcxx(&toolchain.compiler).map(Some)
}

/// Runs the same command once more.
fn again(command: &Command) -> Command {
    let mut again = Command::new(command.get_program());
    again.args(command.get_args());
    again
}

/// The pass's report. The driver adds a line about the whole program.
struct Report<'a> {
    /// The file of the report. `-` is standard error.
    to: &'a Path,
    folder: tempfile::TempDir,
}

impl<'a> Report<'a> {
    fn new(to: &'a Path) -> Result<Self, Failure> {
        let folder = tempfile::tempdir().blame_at(Party::Machine, "no folder for the report")?;
        Ok(Self { to, folder })
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("report")
    }

    fn finish(&self, native: &Command, job: &Job, time: Duration) -> Result<(), Failure> {
        let mut text = fs::read_to_string(self.file()).unwrap_or_default();
        let line = summary(
            &job.output,
            counts(&text),
            text_size(&job.output),
            self.native_size(native),
            time,
        );
        log::tell(format_args!("duality cc: {line}"));
        if self.to == OsStr::new("-") {
            log::tell(format_args!("{}", text.trim_end()));
            return Ok(());
        }
        let _ = writeln!(text, "\n{line}");
        fs::write(self.to, text).blame_at(Party::Machine, self.to.display())
    }

    /// Links the program natively, for comparison.
    fn native_size(&self, native: &Command) -> Option<u64> {
        let program = self.folder.path().join("native");
        let mut clang = again(native);
        clang.arg("-o").arg(&program).stdin(Stdio::null()).stdout(Stdio::null());
        let done = clang.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        if done { text_size(&program) } else { None }
    }
}

/// The number of functions that may block, and of converted functions, from the first line of the
/// pass's report.
fn counts(report: &str) -> Option<(u64, u64)> {
    let (blocking, rest) = report.lines().next()?.split_once(" functions may block; ")?;
    Some((blocking.parse().ok()?, rest.split(' ').next()?.parse().ok()?))
}

fn summary(
    output: &Path,
    counts: Option<(u64, u64)>,
    size: Option<u64>,
    native: Option<u64>,
    time: Duration,
) -> String {
    let mut line = format!("{}: ", output.display());
    line += &match counts {
        Some((blocking, converted)) => {
            format!("{converted} of {blocking} functions that may block converted")
        }
        None => "nothing to convert".into(),
    };
    let kibibytes = |size: u64| size.div_ceil(1024);
    if let Some(size) = size {
        let _ = write!(line, ", text {} KiB", kibibytes(size));
    }
    if let Some(native) = native {
        let _ = write!(line, " (native {})", kibibytes(native));
    }
    let _ = write!(line, ", link {:.1} s", time.as_secs_f64());
    line
}

/// The bytes of a program's machine code.
fn text_size(program: &Path) -> Option<u64> {
    let bytes = fs::read(program).ok()?;
    let file = ElfFile64::<Endianness>::parse(&*bytes).ok()?;
    Some(file.section_by_name(".text")?.size())
}

/// Draws the graph as SVG, if graphviz is installed.
fn draw(graph: &Path) {
    if !graph.exists() {
        return;
    }
    let svg = graph.with_extension("svg");
    match Command::new("dot").arg("-Tsvg").arg("-o").arg(&svg).arg(graph).status() {
        Ok(status) if status.success() => {}
        Ok(status) => {
            log::tell(format_args!("duality cc: {}: dot ended with {status}", svg.display()));
        }
        Err(_) => log::tell(format_args!(
            "duality cc: {}: not drawn, since `dot` is missing (apt-get install graphviz)",
            svg.display()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_has_what_is_known() {
        let report =
            "14 functions may block; 12 of them were converted\n\nFunctions that may block\n";
        assert_eq!(counts(report), Some((14, 12)));
        assert_eq!(counts(""), None);
        let output = Path::new("server");
        let time = Duration::from_millis(1940);
        assert_eq!(
            summary(output, Some((14, 12)), Some(122_000), Some(100_000), time),
            "server: 12 of 14 functions that may block converted, text 120 KiB (native 98), link 1.9 s"
        );
        assert_eq!(
            summary(output, None, None, None, time),
            "server: nothing to convert, link 1.9 s"
        );
    }
}
