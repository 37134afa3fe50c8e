//! `cargo xtask fuzz`: builds the fuzz targets of `fuzz/` and runs each for a bounded time. The
//! build uses the flags of cargo-fuzz, which need not be installed.
//!
//! ```text
//!   fuzz/corpus/TARGET             seeds, which are read and never written
//!   target/fuzz/found/TARGET       inputs that reached something new: where the next run goes on
//!   target/fuzz/crashes/TARGET     inputs that broke something
//!   target/fuzz/logs/TARGET        what the last run said
//! ```

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{At as _, Failure, Result};
use crate::outcome::Pass::Passed;
use crate::outcome::{Outcome, execute};
use crate::{Workspace, tools};

/// The seconds of all targets together in `cargo xtask test`.
const SECONDS: u64 = 40;

/// The flags that cargo-fuzz passes to rustc: coverage to lead libFuzzer, `cfg(fuzzing)`, and
/// AddressSanitizer. The profile of fuzz/Cargo.toml has assertions and overflow checks.
const FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "--cfg=fuzzing",
    "-Zsanitizer=address",
    "-Ccodegen-units=1",
];

/// The targets to run; see [`Options::read`].
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// The target to run. `None` means all targets.
    target: Option<String>,
    /// The seconds for each target. `None` means a share of [`SECONDS`].
    seconds: Option<u64>,
}

impl Options {
    /// Reads `[TARGET] [--seconds N]`.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with the arguments.
    pub(crate) fn read(arguments: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        let mut rest = arguments.iter();
        while let Some(&argument) = rest.next() {
            if argument == "--seconds" {
                let seconds = rest.next().and_then(|text| text.parse().ok());
                options.seconds = seconds.filter(|&seconds| seconds > 0);
                if options.seconds.is_none() {
                    return Err("after `--seconds` stands a whole number, from 1".into());
                }
            } else if argument.starts_with('-') || options.target.is_some() {
                let problem = format!("`{argument}` is not understood");
                return Err(Failure::from(problem).remedy("[TARGET] [--seconds N]"));
            } else {
                options.target = Some(argument.to_owned());
            }
        }
        Ok(options)
    }
}

/// Builds the targets and runs the requested targets.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Outcome {
    let mut targets = targets(&workspace.root).at("cannot list fuzz/fuzz_targets")?;
    let seconds = options.seconds.unwrap_or_else(|| (SECONDS / targets.len() as u64).max(1));
    // A test gives the same result for the same source. If a time is given, each run has a new seed
    // and reaches new inputs.
    let seed = options.seconds.is_none().then_some(1);
    if let Some(wanted) = &options.target {
        if !targets.contains(wanted) {
            return Err(
                format!("there is no target `{wanted}`, only {}", targets.join(", ")).into()
            );
        }
        targets = vec![wanted.clone()];
    }
    let host = nightly_host()?;
    let folder = workspace.target.join("fuzz");
    build(workspace, &folder, &host, options.target.as_deref())?;
    let programs = folder.join(host).join("brief");
    let mut broken = Vec::new();
    for target in &targets {
        let place = TargetFolders {
            seeds: workspace.root.join("fuzz/corpus").join(target),
            folder: &folder,
            target,
        };
        match place.run(&programs.join(target), seconds, seed) {
            Ok(line) => println!("{target:<16} {line}"),
            Err(problem) => {
                println!("{target:<16} {problem}");
                broken.push(target.as_str());
            }
        }
    }
    match broken.len() {
        0 => Ok(Passed),
        _ => Err(format!("found something in {}", broken.join(", ")).into()),
    }
}

/// The names of the targets, in alphabetical order.
fn targets(root: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root.join("fuzz/fuzz_targets"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(".rs").map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// The platform that the nightly compiler builds for.
///
/// # Errors
///
/// There is no nightly compiler.
pub(crate) fn nightly_host() -> Result<String> {
    let about = tools::run(nightly("rustc").arg("-vV")).unwrap_or_default();
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    let lack = || Failure::lack("needs nightly", "rustup toolchain install nightly");
    host.map(str::to_owned).ok_or_else(lack)
}

/// A program of the nightly toolchain. `cargo +nightly` does not work here: beneath `cargo xtask`,
/// `cargo` is the program of the current toolchain.
pub(crate) fn nightly(program: &str) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", program]);
    // These variables name programs or flags of the other toolchain.
    for name in ["RUSTC", "RUSTDOC", "CARGO", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
        command.env_remove(name);
    }
    command
}

fn build(workspace: &Workspace, folder: &Path, host: &str, target: Option<&str>) -> Result {
    let mut command = nightly("cargo");
    // Because of `--target`, cargo builds build scripts and macros without the flags.
    command.args(["build", "--quiet", "--profile=brief", "--locked", "--target", host]);
    match target {
        Some(target) => command.args(["--bin", target]),
        None => command.arg("--bins"),
    };
    command.current_dir(workspace.root.join("fuzz"));
    command.env("CARGO_TARGET_DIR", folder).env("RUSTFLAGS", FLAGS.join(" "));
    execute(&mut command).at("the targets do not build").map(drop)
}

/// The folders of one target.
struct TargetFolders<'p> {
    seeds: PathBuf,
    folder: &'p Path,
    target: &'p str,
}

impl TargetFolders<'_> {
    /// Runs the target. Returns a line about the run. The error tells the finding, and how to
    /// replay it.
    fn run(&self, program: &Path, seconds: u64, seed: Option<u32>) -> Result<String> {
        let found = self.make("found")?;
        let crashes = self.make("crashes")?;
        let log_path = self.make("logs")?.join("last.txt");
        let log = File::create(&log_path).at(log_path.display())?;
        let mut command = Command::new(program);
        // libFuzzer writes new inputs to the first folder, and reads the other folders.
        command.args([&found, &self.seeds]);
        command.arg(format!("-max_total_time={seconds}"));
        command.arg(format!("-artifact_prefix={}/", crashes.display()));
        command.args(seed.map(|seed| format!("-seed={seed}")));
        // The limits of one input: seconds (the build is not optimised), MiB and bytes.
        command.args(["-timeout=60", "-rss_limit_mb=2048", "-max_len=4096"]);
        command.args(["-print_final_stats=1"]).stderr(log);
        let status = command.status().at("cannot be run")?;
        let log = fs::read(&log_path).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        if status.success() {
            let executions = after(&log, "stat::number_of_executed_units:").unwrap_or("?");
            let inputs = [&found, &self.seeds].map(|folder| count(folder)).iter().sum::<usize>();
            return Ok(format!("{executions:>9} executions {inputs:>6} inputs {seconds:>4} s"));
        }
        let why = log.lines().find(|line| line.contains("panicked at") || line.contains("ERROR:"));
        let mut problem = format!("FAILED: {}", why.unwrap_or("it ended before its time"));
        if let Some(input) = after(&log, "Test unit written to ") {
            problem +=
                &format!("\n  the input: {input}\n  again:     {} {input}", program.display());
        }
        Err((problem + &format!("\n  more:      {}", log_path.display())).into())
    }

    /// Makes a folder of this kind for the target, unless it exists.
    fn make(&self, kind: &str) -> Result<PathBuf> {
        let path = self.folder.join(kind).join(self.target);
        fs::create_dir_all(&path).at(path.display())?;
        Ok(path)
    }
}

/// The rest of the line after `label`.
fn after<'t>(text: &'t str, label: &str) -> Option<&'t str> {
    text.lines().find_map(|line| Some(line.split_once(label)?.1.trim()))
}

fn count(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, Iterator::count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_understood() {
        let options = |target: Option<&str>, seconds| {
            Ok(Options { target: target.map(str::to_owned), seconds })
        };
        assert_eq!(Options::read(&[]), options(None, None));
        assert_eq!(Options::read(&["form"]), options(Some("form"), None));
        assert_eq!(Options::read(&["--seconds", "60"]), options(None, Some(60)));
        assert_eq!(Options::read(&["form", "--seconds", "60"]), options(Some("form"), Some(60)));
        for wrong in [&["--seconds"][..], &["--seconds", "0"], &["a", "b"], &["--jobs"]] {
            assert!(Options::read(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_a_run_said_is_found() {
        let log = "INFO: x\nstat::number_of_executed_units: 12345\nartifact; Test unit written to /a/crash-1\n";
        assert_eq!(after(log, "stat::number_of_executed_units:"), Some("12345"));
        assert_eq!(after(log, "Test unit written to "), Some("/a/crash-1"));
        assert_eq!(after(log, "nothing"), None);
    }

    /// Cargo does not build a target without an entry, and a target without seeds begins with
    /// nothing.
    #[test]
    fn every_target_is_in_the_manifest_and_has_seeds() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let manifest = fs::read_to_string(root.join("fuzz/Cargo.toml")).unwrap();
        for target in targets(root).unwrap() {
            assert!(manifest.contains(&format!("\nname = \"{target}\"\n")), "{target}");
            assert!(count(&root.join("fuzz/corpus").join(&target)) > 0, "{target}");
        }
    }
}
