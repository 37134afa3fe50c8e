//! `cargo xtask soak` runs the tests of the crates with unsafe code, and then servers under faulty
//! clients. Tests and servers are built with AddressSanitizer. docs/soak.md says what a soak looks
//! for. The clients are in crates/conformance/src/soak/.
//!
//! ```text
//!   target/debug/soak           the clients, built as everything else is
//!   target/soak                 what is built with the sanitizer, and needs the nightly compiler
//!   target/soak/logs            what the servers of the last run said
//! ```

use std::process::Command;

use crate::Workspace;
use crate::fuzz::{nightly, nightly_host};
use crate::outcome::Pass::Passed;
use crate::outcome::{Outcome, cargo_command, execute};

/// The crates that may have unsafe code. The tests of these crates run first.
const UNSAFE: [&str; 4] =
    ["duality-fiber", "duality-poller", "duality-runtime", "duality-architectures"];

/// Tests that the sanitizer disturbs: the sanitizer reports faults before other handlers do, and
/// takes more memory.
const UNFIT: [&str; 5] = [
    "a_signal_that_was_sent_goes_the_way_it_went",
    "a_kernel_threads_own_overflow_is_still_std_s",
    "another_fault_of_a_fiber_is_a_plain_one",
    "the_guard_of_another_is_a_plain_fault",
    "a_million_tasks_wait_in_little_memory_and_all_are_woken",
];

/// Runs a soak. `arguments` go to the clients' program.
pub(crate) fn run(workspace: &Workspace, arguments: &[&str]) -> Outcome {
    // The clients are built first: they check the arguments before any long build begins.
    let mut build = cargo_command(workspace);
    build.args(["build", "--quiet", "--package=duality-conformance", "--bin=soak"]);
    let clients = workspace.target.join("debug").join("soak");
    execute(&mut build)?;
    let checked = execute(Command::new(&clients).args(arguments))?;
    if arguments.iter().any(|argument| ["-h", "--help"].contains(argument)) {
        return Ok(checked);
    }
    let host = nightly_host()?;
    let folder = workspace.target.join("soak");
    let sanitized = |words: &[&str]| {
        let mut command = nightly("cargo");
        // Because of `--target`, cargo builds build scripts and macros without the flags.
        command.args(words).args(["--locked", "--target", &host]);
        command.args(["--features", "duality-runtime/sanitizer"]).current_dir(&workspace.root);
        command.env("CARGO_TARGET_DIR", &folder).env("RUSTFLAGS", "-Zsanitizer=address");
        command
    };
    let mut tests = sanitized(&["test", "--quiet", "--tests"]);
    tests.args(UNSAFE.map(|package| format!("--package={package}"))).arg("--");
    tests.args(UNFIT.map(|test| format!("--skip={test}")));
    // A test may leak memory that it needs for ever. The soak finds leaks of a server when the
    // server ends.
    tests.env("ASAN_OPTIONS", "detect_stack_use_after_return=0:detect_leaks=0");
    let mut build =
        sanitized(&["build", "--quiet", "--package=duality", "--package=duality-runtime"]);
    let server = folder.join(host.as_str()).join("debug").join("duality");
    let mut soak = Command::new(&clients);
    soak.args(arguments).arg("--server").arg(server);
    soak.arg("--folder").arg(folder.join("logs")).current_dir(&workspace.root);
    let steps = [
        ("the tests of the unsafe crates, with AddressSanitizer", &mut tests),
        ("the server, with AddressSanitizer", &mut build),
        ("the soak", &mut soak),
    ];
    for (what, command) in steps {
        println!("--- {what}");
        execute(command)?;
    }
    Ok(Passed)
}
