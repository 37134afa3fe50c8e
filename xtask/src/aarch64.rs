//! `cargo xtask aarch64`: compiles the crates with code for aarch64, and runs their tests under
//! qemu-user: the switch of stacks, and the pollers.
//!
//! The step needs gcc-aarch64-linux-gnu and qemu-user, which are packages of Debian. If one is
//! missing, the step is skipped. `run`, `cc` and `c++` are for x86_64 only, and are not tested
//! here.

use std::process::Command;

use crate::outcome::Outcome::{self, Partly, Passed, Skipped};
use crate::outcome::{cargo_command, execute_tests};
use crate::{Workspace, tools};

/// The help's text about this command.
pub(crate) const ABOUT: &str = "tests fibers and pollers for aarch64, under qemu-user";

const TARGET: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64";

/// The tests: a crate, the selection of its tests, the tests that qemu-user cannot run, and the
/// reason.
const TESTS: [(&str, &str, &str, &str); 2] = [
    (
        "duality-fiber",
        "--lib",
        "pool::",
        "it has no guard pages by madvise, and tables for all pages",
    ),
    (
        "duality-poller",
        "--tests",
        "descriptors_beyond_fd_setsize",
        "its own select ends the program",
    ),
];

/// Builds the crates and runs their tests.
pub(crate) fn run(workspace: &Workspace) -> Outcome {
    for program in [LINKER, EMULATOR] {
        if tools::find(program).is_none() {
            let install = "apt-get install gcc-aarch64-linux-gnu qemu-user";
            return Skipped(format!("{program} is not installed: {install}"));
        }
    }
    let installed = tools::run(Command::new("rustup").args(["target", "list", "--installed"]));
    if !installed.is_ok_and(|targets| targets.lines().any(|target| target == TARGET)) {
        return Skipped(format!("the target is missing: rustup target add {TARGET}"));
    }
    for (package, which, skipped, why) in TESTS {
        println!("skipped: {package}, tests called {skipped}: under qemu-user, {why}");
        let mut tests = cargo_command(workspace);
        tests.args(["test", "--locked", "--target", TARGET, "--package", package, which]);
        tests.args(["--", "--skip", skipped]);
        tests.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER);
        let runner = format!("{EMULATOR} -L /usr/aarch64-linux-gnu");
        tests.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner);
        match execute_tests(&mut tests) {
            Passed | Partly(_) => {}
            other => return other,
        }
    }
    Partly("without what qemu-user cannot run: see above".into())
}
