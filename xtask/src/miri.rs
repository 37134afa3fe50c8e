//! `cargo xtask miri`: runs the unsafe code that Miri can run under Miri, which checks every access
//! to memory.
//!
//! Miri interprets: a test takes some thousand times as long as on a processor, and an unknown
//! system call ends the test. So the tests are chosen: tables, queues, join cells and whole loops
//! of state machines, on epoll. Miri knows neither fibers (assembly) nor io_uring; `cargo xtask
//! soak` tests both under AddressSanitizer.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Workspace;
use crate::failure::Failure;
use crate::fuzz::nightly;
use crate::outcome::Pass::Passed;
use crate::outcome::{Outcome, execute};

/// After this time no further group begins. On an idle machine, all groups take half of this time.
const LIMIT: Duration = Duration::from_secs(90);

/// Tests use the machine's clocks and descriptors. Stacks and wakers may turn integers into
/// pointers.
const FLAGS: &str = "-Zmiri-disable-isolation -Zmiri-permissive-provenance";

/// Tests of one program, by parts of their names.
struct Group {
    package: &'static str,
    program: &'static [&'static str],
    tests: &'static [&'static str],
    /// The tests that Miri cannot run, or that take minutes.
    without: &'static [&'static str],
}

const GROUPS: &[Group] = &[
    Group {
        package: "duality-runtime",
        program: &["--lib"],
        tests: &[
            "event_loop::",
            "remote::name::",
            "join_cell::",
            "visibility::label::",
            "visibility::stage_names::",
            "visibility::thread_slots::",
            "visibility::shown_task::",
        ],
        // The first test needs a limit on memory, and the allocator under Miri has none. Threads
        // that contend take seconds.
        without: &["more_than_there_is_is_refused", "a_slot_is_taken_by_one_at_a_time"],
    },
    Group {
        package: "duality-runtime",
        program: &["--test", "all"],
        tests: &[
            "worlds::block::join",
            "worlds::suspend_epoll::a_channel",
            "worlds::suspend_epoll::a_mutex_wait",
            "worlds::suspend_epoll::join",
            "worlds::suspend_epoll::notify",
            "worlds::suspend_epoll::sleep",
            "worlds::suspend_epoll::yield",
        ],
        without: &[],
    },
    Group {
        package: "duality-runtime",
        program: &["--test", "all"],
        tests: &["sync::a_notification", "sync::a_semaphore_may", "sync::who_waits"],
        without: &[],
    },
    Group {
        package: "duality-runtime",
        program: &["--test", "all"],
        tests: &["queue::a_yield"],
        without: &[],
    },
    Group {
        package: "duality-poller",
        program: &["--test", "all"],
        tests: &["timers::a_cleared", "timers::a_deadline_is", "timers::empty"],
        without: &[],
    },
];

/// Runs the groups, one after the other.
pub(crate) fn run(workspace: &Workspace) -> Outcome {
    let mut version = nightly("cargo");
    let version = version.args(["miri", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    if !version.status().is_ok_and(|status| status.success()) {
        let remedy = "rustup toolchain install nightly --component miri,rust-src";
        return Err(Failure::lack("needs Miri", remedy));
    }
    execute(nightly("cargo").args(["miri", "setup"]))
        .map_err(|_| Failure::lack("Miri cannot build its standard library", "see above"))?;
    let mut begin = None;
    for (number, group) in GROUPS.iter().enumerate() {
        execute(group.command(workspace).arg("--no-run"))?;
        // The time to compile the first group does not count.
        if begin.get_or_insert_with(Instant::now).elapsed() > LIMIT {
            println!("after {} of {} groups the time is over", number, GROUPS.len());
            break;
        }
        execute(group.command(workspace).arg("--").args(group.selection()))?;
    }
    Ok(Passed)
}

impl Group {
    fn command(&self, workspace: &Workspace) -> Command {
        let mut command = nightly("cargo");
        command.args(["miri", "test", "--quiet", "--locked", "--package", self.package]);
        command.args(self.program).current_dir(&workspace.root);
        command.env("CARGO_TARGET_DIR", workspace.target.join("miri"));
        // Two cases of each property are enough: Miri sees a faulty access in any case.
        command.env("MIRIFLAGS", FLAGS).env("PROPTEST_CASES", "2");
        command
    }

    fn selection(&self) -> impl Iterator<Item = &'static str> {
        let without = self.without.iter().flat_map(|name| ["--skip", name]);
        self.tests.iter().copied().chain(without)
    }
}
