//! Runs the torture suite (`torture/`) natively and on the engine of `duality run`, with every kind
//! of workers, ticks and pollers.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use duality_conformance::programs::{Program, finish, torture};

/// The number of tests of the suite at a time. Most tests sleep.
const AT_A_TIME: usize = 8;

/// A program with the commands of `duality`.
const DUALITY: &str = env!("CARGO_BIN_EXE_served");

/// Runs every test of the suite with `options` of `duality run`, or natively. Panics with the names
/// of all failed tests.
fn suite(options: Option<&[&str]>) {
    let listed = finish(&mut Command::new(torture()));
    let text = String::from_utf8(listed.stdout).expect("names");
    // A test that spins until another thread acts needs preemption.
    let without_ticks = options.is_some_and(|options| options.contains(&"--no-preempt"));
    let needs_ticks = |name: &str| name.starts_with("preempt_") || name.contains("compute");
    let names: Vec<&str> =
        text.lines().filter(|name| !(without_ticks && needs_ticks(name))).collect();
    assert!(names.len() > 250, "the suite has {} tests", names.len());
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut command = match options {
                        None => Command::new(torture()),
                        Some(options) => {
                            let mut command = Command::new(DUALITY);
                            command.arg("run").args(options).arg("--").arg(torture());
                            command
                        }
                    };
                    let output = finish(command.arg(name));
                    if !output.status.success() {
                        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
                        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
                        let failure = format!("{name}: {} {stdout}{complaint}", output.status);
                        failures.lock().expect("a list").push(failure);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("a list");
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), names.len(), failures.join("\n"));
}

#[test]
fn the_torture_suite_passes_natively() {
    suite(None);
}

#[test]
fn the_torture_suite_passes_on_one_worker() {
    suite(Some(&["--cores=1"]));
}

#[test]
fn the_torture_suite_passes_on_one_worker_with_ticks_of_a_millisecond() {
    suite(Some(&["--cores=1", "--tick=1ms"]));
}

#[test]
fn the_torture_suite_passes_on_one_worker_without_ticks() {
    suite(Some(&["--cores=1", "--no-preempt"]));
}

#[test]
fn the_torture_suite_passes_on_two_workers() {
    suite(Some(&["--cores=2"]));
}

#[test]
fn the_torture_suite_passes_on_two_workers_with_ticks_of_a_millisecond() {
    suite(Some(&["--cores=2", "--tick=1ms"]));
}

#[test]
fn the_torture_suite_passes_on_more_workers_than_processors() {
    suite(Some(&["--cores=5", "--tick=1ms"]));
}

/// The kernel threads of a program under `duality run` with these options, once its threads
/// compute.
fn kernel_threads_of_busy_threads(options: &[&str]) -> usize {
    let program = Program::new("busy", &["-pthread"]);
    let mut child = Command::new(DUALITY)
        .arg("run")
        .args(options)
        .arg("--")
        .arg(program.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be started");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    // Each line is another sleep of the main thread, beside four threads that compute.
    for _ in 0..20 {
        lines.next().expect("a line").expect("text");
    }
    let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id())).expect("a process");
    let count = tasks.count();
    child.kill().expect("a child");
    child.wait().expect("a child");
    count
}

#[test]
fn threads_run_on_as_many_kernel_threads_as_asked_for() {
    assert_eq!(kernel_threads_of_busy_threads(&["--cores=1"]), 1);
    assert_eq!(kernel_threads_of_busy_threads(&["--cores=3"]), 3);
}

#[test]
fn the_torture_suite_passes_on_the_ring() {
    suite(Some(&["--poller", "uring", "--cores", "1"]));
}

#[test]
fn the_torture_suite_passes_on_the_ring_with_two_workers() {
    suite(Some(&["--poller", "uring", "--cores", "2"]));
}

#[test]
fn the_torture_suite_passes_on_the_ring_with_ticks_of_a_millisecond() {
    suite(Some(&["--poller", "uring", "--cores", "2", "--tick", "1ms"]));
}

/// The suite cannot have this test: natively, the speed of the machine decides whether the main
/// thread goes on.
#[test]
fn a_timer_that_its_own_handler_sets_again_leaves_the_program_time() {
    let program = Program::new("timer_again", &["-lrt"]);
    for options in [&["--cores=1"][..], &["--cores=2"], &["--cores=1", "--no-preempt"]] {
        let mut command = Command::new(DUALITY);
        let output = finish(command.arg("run").args(options).arg("--").arg(program.path()));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "over\n", "{options:?}");
    }
}

/// The handler of a fast timer does nothing, a thousand times. Each time, the engine enters and
/// leaves the handler. Only one signal may interrupt the engine meanwhile, not all signals that
/// come.
#[test]
fn signals_do_not_interrupt_the_engine_again_and_again() {
    let program = Program::new("often", &["-lrt"]);
    let mut command = Command::new(DUALITY);
    let output = finish(command.args(["run", "--stats", "--cores=1", "--"]).arg(program.path()));
    let stderr = String::from_utf8_lossy(&output.stderr);
    let (_, rest) = stderr.split_once("signals ").expect("a counter");
    let signals: u32 = rest.split(';').next().expect("a number").parse().expect("a number");
    assert!(output.status.success() && (1000..3000).contains(&signals), "{signals} signals");
}
