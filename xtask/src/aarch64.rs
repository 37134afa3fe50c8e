//! `cargo xtask aarch64`: compiles the command for aarch64, and runs the tests of the crates with
//! code for that processor under qemu-user.
//!
//! Debian has what it needs: gcc-aarch64-linux-gnu and qemu-user. Where one is missing, the step is
//! skipped.
//!
//! qemu-user translates the system calls of a foreign program. It has no io_uring, so tests of the
//! ring say that they are skipped. `run`, `cc` and `c++` are for x86_64, and are not tested here.

use std::process::Command;

use crate::outcome::Outcome::{self, Passed, Skipped};
use crate::outcome::{cargo_command, execute, execute_tests};
use crate::{Workspace, tools};

/// What this command does, for the help.
pub(crate) const ABOUT: &str = "compiles for aarch64, and tests the library under qemu-user";

const TARGET: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64";

/// The crates that the tests are of.
const CRATES: [&str; 3] = ["duality-poller", "duality-fiber", "duality-architectures"];

/// Builds and tests.
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
    let mut build = cargo(workspace, "build");
    match execute(build.args(["--package", "duality"])) {
        Passed => {}
        failed => return failed,
    }
    let mut tests = cargo(workspace, "test");
    for name in CRATES {
        tests.args(["--package", name]);
    }
    execute_tests(&mut tests)
}

fn cargo(workspace: &Workspace, command: &str) -> Command {
    let mut cargo = cargo_command(workspace);
    cargo.args([command, "--locked", "--target", TARGET]);
    cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER);
    let runner = format!("{EMULATOR} -L /usr/aarch64-linux-gnu");
    cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner);
    // SQLite is compiled by this compiler.
    cargo.env("CC_aarch64_unknown_linux_gnu", LINKER);
    cargo
}
