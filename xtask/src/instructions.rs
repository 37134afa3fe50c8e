//! `cargo xtask instructions`: counts the instructions of what requests run through, and compares
//! them with the list that is kept. Counts hold on a busy machine too, where times do not.
//!
//! Callgrind counts a program with many operations and one with few. The difference is what the
//! operations take. The least of some runs counts, because how the turns of kernel threads fall out
//! differs a little from run to run.
//!
//! Under callgrind a turn takes some fifty times as long as on the processor. What depends on
//! time, such as the strides of a loop (`event_loop/core/pace.rs`), is counted more often than it
//! happens. So a count is to be compared with a count, and says nothing of time.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::{fmt, fs};

use crate::Workspace;
use crate::files::At;
use crate::outcome::Outcome::{self, Failed, Passed, Skipped};
use crate::outcome::{cargo_command, execute};

/// What this command does, for the help.
pub(crate) const ABOUT: &str =
    "instructions of requests, spawns and turns, against the kept list; --keep writes the list";

/// The list: the compiler in the first line, then a world, an operation and a count in each.
const LIST: &str = "crates/services/examples/instructions.txt";
/// The numbers of operations of the two programs. A connection of http carries 1,000 requests.
const COUNTS: [u32; 2] = [200, 900];
const RUNS: u32 = 3;
/// More than this share above the kept count fails.
const MOST: f64 = 0.02;
/// Tasks of the block world have kernel threads of their own, and the reactor waits on another one
/// than the tasks. How often these wait for each other is not the same in each run.
const UNSTEADY: [(&str, &str); 5] = [
    ("block", "spawn"),
    ("block", "yield"),
    ("block", "channel"),
    ("reactor", "echo"),
    ("reactor", "http"),
];

/// The counts of a list, and the compiler that they hold for.
#[derive(Debug, PartialEq)]
struct List {
    compiler: String,
    counts: BTreeMap<(String, String), f64>,
}

pub(crate) fn run(workspace: &Workspace, keeps: bool) -> Outcome {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return Skipped("needs valgrind: apt-get install valgrind".into());
    }
    let Some(compiler) = compiler() else {
        return Failed("rustc does not tell its version".into());
    };
    let path = workspace.root.join(LIST);
    let kept = fs::read_to_string(&path).ok().and_then(|text| List::read(&text));
    let build = ["build", "--release", "--package=duality-services", "--example=instructions"];
    match execute(cargo_command(workspace).args(build)) {
        Passed => {}
        other => return other,
    }
    let program = workspace.target.join("release/examples/instructions");
    let counts = match counts(&program) {
        Ok(counts) => counts,
        Err(problem) => return Failed(problem),
    };
    let list = List { compiler, counts };
    if keeps {
        return match fs::write(&path, list.to_string()) {
            Ok(()) => Passed,
            Err(error) => Failed(format!("{}: {error}", path.display())),
        };
    }
    match kept {
        None => {
            Failed(format!("{LIST} cannot be read: `cargo xtask instructions --keep` writes it"))
        }
        Some(kept) if kept.compiler != list.compiler => {
            Skipped(format!("the list is of {}, and this is {}", kept.compiler, list.compiler))
        }
        Some(kept) => list.compared_with(&kept),
    }
}

fn compiler() -> Option<String> {
    let output = Command::new("rustc").arg("--version").output().ok()?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

/// Counts each operation in each world.
fn counts(program: &Path) -> Result<BTreeMap<(String, String), f64>, String> {
    let listed = Command::new(program).output().at(program.display())?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let pairs = listed.lines().filter_map(|line| line.split_once(' '));
    pairs
        .filter(|pair| !UNSTEADY.contains(pair))
        .map(|(world, operation)| {
            let least = |count| {
                let runs = (0..RUNS).map(|_| instructions(program, world, operation, count));
                runs.collect::<Result<Vec<_>, _>>().map(|all| all.into_iter().min().unwrap_or(0))
            };
            let [few, many] = COUNTS;
            let each = (least(many)? - least(few)?) as f64 / f64::from(many - few);
            println!("{world:<8} {operation:<8} {each:>8.0}");
            Ok(((world.to_owned(), operation.to_owned()), each.round()))
        })
        .collect()
}

/// The instructions of a whole program.
fn instructions(program: &Path, world: &str, operation: &str, count: u32) -> Result<i64, String> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    valgrind.args([world, operation, &count.to_string()]);
    let output = valgrind.output().at("cannot run valgrind")?;
    let printed = String::from_utf8_lossy(&output.stderr);
    let collected = printed.lines().find_map(|line| line.split_once("Collected : "));
    match collected.and_then(|(_, count)| count.trim().parse().ok()) {
        Some(count) if output.status.success() => Ok(count),
        _ => Err(format!("{operation} in {world} cannot be counted: {printed}")),
    }
}

impl List {
    fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let compiler = lines.next()?.to_owned();
        let row = |line: &str| {
            let mut words = line.split_whitespace();
            let key = (words.next()?.to_owned(), words.next()?.to_owned());
            Some((key, words.next()?.parse().ok()?))
        };
        Some(Self { compiler, counts: lines.map(row).collect::<Option<_>>()? })
    }

    fn compared_with(&self, kept: &Self) -> Outcome {
        let mut worse = Vec::new();
        for (key, count) in &self.counts {
            let (world, operation) = key;
            let Some(before) = kept.counts.get(key) else {
                worse.push(format!("{operation} in {world} is not in the list"));
                continue;
            };
            let change = count / before - 1.0;
            if change > MOST {
                let percent = 100.0 * change;
                worse.push(format!("{operation} in {world}: {before} → {count} (+{percent:.1} %)"));
            } else if change < -MOST {
                println!("{operation} in {world}: {before} → {count}; keep it with --keep");
            }
        }
        if worse.is_empty() { Passed } else { Failed(worse.join("; ")) }
    }
}

impl fmt::Display for List {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", self.compiler)?;
        self.counts.iter().try_for_each(|((world, operation), count)| {
            writeln!(formatter, "{world:<8} {operation:<8} {count:>6}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(count: f64) -> List {
        let counts = BTreeMap::from([(("park".to_owned(), "spawn".to_owned()), count)]);
        List { compiler: "rustc 1".into(), counts }
    }

    #[test]
    fn a_list_is_read_as_it_is_written() {
        assert_eq!(List::read(&list(1470.0).to_string()), Some(list(1470.0)));
        assert_eq!(List::read("rustc 1\npark spawn\n"), None);
    }

    #[test]
    fn more_instructions_fail_with_both_counts() {
        assert_eq!(list(1019.0).compared_with(&list(1000.0)), Passed);
        assert_eq!(list(500.0).compared_with(&list(1000.0)), Passed);
        let failed = Failed("spawn in park: 1000 → 1030 (+3.0 %)".into());
        assert_eq!(list(1030.0).compared_with(&list(1000.0)), failed);
    }
}
