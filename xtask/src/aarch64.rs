//! `cargo xtask aarch64`: compiles the library's crates for aarch64, and runs their tests under
//! qemu-user: stacks, pollers, the runtime with its three worlds, and the architectures.
//!
//! The step needs gcc-aarch64-linux-gnu and qemu-user, which are packages of Debian. If one is
//! missing, the step is skipped. [`ABSENT`] lists the tests that cannot run there. `run`, `cc` and
//! `c++` are for x86_64 only, and are not tested here.

use std::process::Command;

use crate::failure::Failure;
use crate::outcome::Pass::Partly;
use crate::outcome::{Outcome, cargo_command};
use crate::testing::execute_tests;
use crate::{Workspace, tools};

/// The help's text about this command.
pub(crate) const ABOUT: &str =
    "tests fibers, pollers, runtime and architectures for aarch64, under qemu-user";

const TARGET: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64";
/// The longest that the tests of one program may take, in seconds.
const LIMIT: u32 = 600;
/// The cases of each property. An emulated processor is slow, and the host runs all of them.
const CASES: &str = "16";

/// The crates that are tested, those without dependencies first.
const CRATES: [&str; 4] =
    ["duality-fiber", "duality-poller", "duality-runtime", "duality-architectures"];

/// Tests that qemu-user cannot run.
struct Absent {
    package: &'static str,
    why: &'static str,
    tests: &'static [&'static str],
}

/// All tests that do not run, each with its reason. The reasons hold for qemu 7.2, of Debian 12.
const ABSENT: &[Absent] = &[
    Absent {
        package: "duality-fiber",
        why: "qemu accepts any advice of madvise and ignores it, so stacks have no guard pages",
        tests: &["a_stack_can_be_used_down_to_its_guard"],
    },
    Absent {
        package: "duality-fiber",
        why: "qemu has a table for each page of a mapping, and fills its tables for minutes",
        tests: &["no_stack_is_made_of_what_is_to_be_left"],
    },
    Absent {
        package: "duality-fiber",
        why: "the test starts itself again, and the kernel runs no program for aarch64",
        tests: &[
            "protected_stacks_end_before_the_mappings_do",
            "a_kernel_thread_without_a_signal_stack_is_given_one",
            "a_kernel_threads_own_overflow_is_still_std_s",
            "a_signal_that_was_sent_goes_the_way_it_went",
            "an_overflow_is_reported_by_name",
            "an_overflow_on_the_stack_of_a_fiber_that_does_not_run_is_reported_too",
            "another_fault_of_a_fiber_is_a_plain_one",
            "the_guard_of_another_is_a_plain_fault",
        ],
    },
    Absent {
        package: "duality-poller",
        why: "the own select of qemu ends the program",
        tests: &["select::descriptors_beyond_fd_setsize"],
    },
    Absent {
        package: "duality-runtime",
        why: "qemu accepts any advice of madvise and ignores it, so no stack looks small",
        tests: &["a_small_stack_is_not_walked"],
    },
    Absent {
        package: "duality-runtime",
        why: "the test starts itself again, and the kernel runs no program for aarch64",
        tests: &[
            "a_thread_that_overflows_its_stack_is_named",
            "a_combinator_is_reported_once_in_every_world",
            "a_socket_in_a_combinator_is_reported_on_a_loop",
            "our_own_waits_are_not_reported",
        ],
    },
    Absent {
        package: "duality-runtime",
        why: "qemu lacks SO_ATTACH_REUSEPORT_CBPF, so no socket is chosen for a connection",
        tests: &[
            "a_closed_group_completes_what_has_begun_and_answers_no_newcomer",
            "a_taken_address_is_refused_even_by_those_that_would_share_it",
            "connections_are_drawn_by_their_weights",
            "the_chosen_socket_gets_every_connection",
        ],
    },
    Absent {
        package: "duality-runtime",
        why: "qemu lacks IP_BIND_ADDRESS_NO_PORT, so no connection has a source of its own",
        tests: &[
            "a_connection_comes_from_the_address_it_is_told",
            "a_source_that_is_not_local_is_an_error",
        ],
    },
    Absent {
        package: "duality-architectures",
        why: "the own select of qemu ends the program",
        tests: &["a_busy_loop_on_select_begins_and_accepts_as_it_was_told"],
    },
];

/// Builds the crates and runs their tests.
pub(crate) fn run(workspace: &Workspace) -> Outcome {
    for program in [LINKER, EMULATOR] {
        if tools::find(program).is_none() {
            let install = "apt-get install gcc-aarch64-linux-gnu qemu-user";
            return Err(Failure::lack(format_args!("{program} is not installed"), install));
        }
    }
    let installed = tools::run(Command::new("rustup").args(["target", "list", "--installed"]));
    if !installed.is_ok_and(|targets| targets.lines().any(|target| target == TARGET)) {
        let remedy = format_args!("rustup target add {TARGET}");
        return Err(Failure::lack("the target is missing", remedy));
    }
    let mut failed = Vec::new();
    for package in CRATES {
        if execute_tests(&mut command(workspace, package)).is_err() {
            failed.push(package);
        }
    }
    for Absent { package, why, tests } in ABSENT {
        println!("skipped: {package}: {}: {why}", tests.join(", "));
    }
    if !failed.is_empty() {
        return Err(format!("tests of {}: see above", failed.join(", ")).into());
    }
    let count: usize = ABSENT.iter().map(|absent| absent.tests.len()).sum();
    Ok(Partly(format!("without {count} tests that qemu-user cannot run, and io_uring: see above")))
}

/// The command that runs the tests of a crate.
fn command(workspace: &Workspace, package: &str) -> Command {
    let mut tests = cargo_command(workspace);
    tests.args(["test", "--locked", "--target", TARGET, "--package", package, "--tests"]);
    tests.args(["--no-fail-fast", "--"]);
    let absent = ABSENT.iter().filter(|absent| absent.package == package);
    for test in absent.flat_map(|absent| absent.tests) {
        tests.args(["--skip", test]);
    }
    tests.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER);
    tests.env("PROPTEST_CASES", CASES);
    // A program that hangs in qemu-user outlives SIGTERM.
    let runner = format!("timeout --kill-after=5 {LIMIT} {EMULATOR} -L /usr/aarch64-linux-gnu");
    tests.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner);
    tests
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// All sources of a folder, as one text.
    fn sources(folder: &Path) -> String {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let texts = entries.map(|path| match path.extension() {
            _ if path.is_dir() => sources(&path),
            Some(extension) if extension == "rs" => fs::read_to_string(path).unwrap(),
            _ => String::new(),
        });
        texts.collect()
    }

    #[test]
    fn every_absent_test_exists() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for Absent { package, tests, .. } in ABSENT {
            assert!(CRATES.contains(package), "{package} is not tested");
            let folder = root.join("crates").join(package.trim_start_matches("duality-"));
            let sources = sources(&folder);
            for test in *tests {
                let name = test.rsplit("::").next().unwrap();
                // Macros make some of the tests of their names.
                assert!(sources.contains(name), "{package} has no test {test}");
            }
        }
    }
}
