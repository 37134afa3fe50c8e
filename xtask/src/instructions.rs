//! `cargo xtask instructions`: counts the instructions of what requests run through, and compares
//! them with the list that is kept. Counts hold on a busy machine too, where times do not.
//!
//! Callgrind counts a program with many operations and one with few. The difference is what the
//! operations take. How the turns of kernel threads fall out differs a little from run to run. So a
//! count that is above the list is made again, and the least counts.
//!
//! Counts depend on the compiler, on the C library, and on whether the processor has AVX2. The list
//! says for which it holds, and elsewhere the step is skipped.
//!
//! Under callgrind a turn takes some fifty times as long as on the processor. What depends on
//! time, such as the strides of a loop (`event_loop/core/pace.rs`), is counted more often than it
//! happens. So a count is to be compared with a count, and says nothing of time.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::{fmt, fs, thread};

use crate::failure::{At as _, Failure, Party, Result};
use crate::files::write;
use crate::outcome::Outcome;
use crate::outcome::Pass::Passed;
use crate::outcome::{cargo_command, execute};
use crate::{Workspace, tools};

/// What this command does, for the help.
pub(crate) const ABOUT: &str =
    "requests, spawns and turns take no more instructions than listed; also: --keep";

/// The list: what it holds for in the first line, then a world, an operation and a count in each.
const LIST: &str = "crates/kit/examples/instructions.txt";
/// The numbers of operations of the two programs. A connection of http carries 1,000 requests.
const COUNTS: [u32; 2] = [200, 900];
/// A count that is above the list is made so many times in all.
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

/// What the C library is not to use, whatever the processor has: its copying would take other
/// counts (GLIBC_TUNABLES).
const TUNABLES: &str =
    "glibc.cpu.hwcaps=-AVX2,-AVX512VL,-AVX512BW,-AVX_Fast_Unaligned_Load,-ERMS,-FSRM,-SSSE3";

/// A world and an operation.
type Key = (String, String);

/// The counts of a list, and what they hold for.
#[derive(Debug, PartialEq)]
struct List {
    holds_for: String,
    counts: BTreeMap<Key, f64>,
}

pub(crate) fn run(workspace: &Workspace, keeps: bool) -> Outcome {
    if tools::find("valgrind").is_none() {
        return Err(Failure::lack("needs valgrind", "apt-get install valgrind"));
    }
    let holds_for = machine().map_err(|problem| problem.blame(Party::Machine))?;
    let path = workspace.root.join(LIST);
    let kept = fs::read_to_string(&path).ok().and_then(|text| List::read(&text));
    match &kept {
        None if !keeps => {
            let remedy = "`cargo xtask instructions --keep` writes it";
            return Err(Failure::from("it cannot be read").remedy(remedy)).at(LIST);
        }
        Some(kept) if !keeps && kept.holds_for != holds_for => {
            let what = format_args!("the list is for {}, and this is {holds_for}", kept.holds_for);
            return Err(Failure::lack(what, ""));
        }
        _ => {}
    }
    let build = ["build", "--release", "--package=duality-kit", "--example=instructions"];
    execute(cargo_command(workspace).args(build))?;
    let program = workspace.target.join("release/examples/instructions");
    let kept = kept.filter(|_| !keeps).map(|kept| kept.counts);
    let counts = counts(&program, kept.as_ref())?;
    match kept {
        Some(kept) => compared(&counts, &kept),
        None => write(&path, &List { holds_for, counts }.to_string()).map(|()| Passed),
    }
}

/// What counts depend on beside the source. Crates choose their code by whether the processor has
/// AVX2.
///
/// # Errors
///
/// Names what cannot be found out.
fn machine() -> Result<String> {
    let compiler = tools::run(Command::new("rustc").arg("--version"))?;
    let library = tools::run(Command::new("getconf").arg("GNU_LIBC_VERSION"))?;
    let processor = fs::read_to_string("/proc/cpuinfo").at("/proc/cpuinfo")?;
    let flags = processor.lines().find(|line| line.starts_with("flags"));
    let has = flags.is_some_and(|flags| flags.split(' ').any(|flag| flag == "avx2"));
    let vectors = if has { "AVX2" } else { "no AVX2" };
    Ok(format!("{}, {}, {vectors}", compiler.trim(), library.trim()))
}

/// Counts each operation in each world, two at a time. What is above `kept` is counted again.
fn counts(program: &Path, kept: Option<&BTreeMap<Key, f64>>) -> Result<BTreeMap<Key, f64>> {
    let listed = tools::run(&mut Command::new(program))?;
    let pairs = listed.lines().filter_map(|line| line.split_once(' '));
    let pairs: Vec<(&str, &str)> = pairs.filter(|pair| !UNSTEADY.contains(pair)).collect();
    let left = Mutex::new(pairs.into_iter());
    let next = || left.lock().expect("no thread panics").next();
    let count_all = || {
        let mut counts = BTreeMap::new();
        while let Some((world, operation)) = next() {
            let key = (world.to_owned(), operation.to_owned());
            let before = kept.map(|kept| kept.get(&key).copied().unwrap_or(f64::INFINITY));
            let count = least(program, &key, before)?;
            println!("{world:<8} {operation:<8} {count:>8}");
            counts.insert(key, count);
        }
        Ok::<_, Failure>(counts)
    };
    thread::scope(|scope| {
        let other = scope.spawn(count_all);
        let mut counts = count_all()?;
        counts.extend(other.join().expect("it does not panic")?);
        Ok(counts)
    })
}

/// The instructions of one operation: the least of [`RUNS`], or the first that is not above
/// `before`.
fn least(program: &Path, (world, operation): &Key, before: Option<f64>) -> Result<f64> {
    let [few, many] = COUNTS;
    let (mut least, mut of_few, mut of_many) = (f64::INFINITY, i64::MAX, i64::MAX);
    for _ in 0..RUNS {
        of_few = of_few.min(instructions(program, world, operation, few)?);
        of_many = of_many.min(instructions(program, world, operation, many)?);
        least = ((of_many - of_few) as f64 / f64::from(many - few)).round();
        if before.is_some_and(|before| least <= before * (1.0 + MOST)) {
            break;
        }
    }
    Ok(least)
}

/// The instructions of a whole program.
fn instructions(program: &Path, world: &str, operation: &str, count: u32) -> Result<i64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    valgrind.args([world, operation, &count.to_string()]).env("GLIBC_TUNABLES", TUNABLES);
    let output = valgrind.output().at("cannot run valgrind")?;
    let printed = String::from_utf8_lossy(&output.stderr);
    let collected = printed.lines().find_map(|line| line.split_once("Collected : "));
    match collected.and_then(|(_, count)| count.trim().parse().ok()) {
        Some(count) if output.status.success() => Ok(count),
        _ => Err(format!("{operation} in {world} cannot be counted: {printed}").into()),
    }
}

impl List {
    fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let holds_for = lines.next()?.to_owned();
        let row = |line: &str| {
            let mut words = line.split_whitespace();
            let key = (words.next()?.to_owned(), words.next()?.to_owned());
            Some((key, words.next()?.parse().ok()?))
        };
        Some(Self { holds_for, counts: lines.map(row).collect::<Option<_>>()? })
    }
}

/// Fails with both figures of what takes more instructions than before.
fn compared(counts: &BTreeMap<Key, f64>, kept: &BTreeMap<Key, f64>) -> Outcome {
    let mut worse = Vec::new();
    for (key, count) in counts {
        let (world, operation) = key;
        let Some(before) = kept.get(key) else {
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
    if worse.is_empty() { Ok(Passed) } else { Err(worse.join("; ").into()) }
}

impl fmt::Display for List {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", self.holds_for)?;
        self.counts.iter().try_for_each(|((world, operation), count)| {
            writeln!(formatter, "{world:<8} {operation:<8} {count:>6}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(count: f64) -> BTreeMap<Key, f64> {
        BTreeMap::from([(("park".to_owned(), "spawn".to_owned()), count)])
    }

    #[test]
    fn a_list_is_read_as_it_is_written() {
        let list = List { holds_for: "rustc 1, AVX2".into(), counts: counts(1470.0) };
        assert_eq!(List::read(&list.to_string()), Some(list));
        assert_eq!(List::read("rustc 1\npark spawn\n"), None);
    }

    #[test]
    fn more_instructions_fail_with_both_counts() {
        let kept = counts(1000.0);
        assert_eq!(compared(&counts(1019.0), &kept), Ok(Passed));
        assert_eq!(compared(&counts(500.0), &kept), Ok(Passed));
        let failed = Err("spawn in park: 1000 → 1030 (+3.0 %)".into());
        assert_eq!(compared(&counts(1030.0), &kept), failed);
    }
}
