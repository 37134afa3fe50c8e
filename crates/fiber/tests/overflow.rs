//! Overflows end the process by name; other faults end it as without a watch.
//!
//! Each case runs in a child process. The child is the same test, and an environment variable tells
//! it to misbehave.

use std::fmt::Write;
use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::{env, ptr, thread};

use duality_fiber::{Fiber, Stack, StackPool, overflow, suspend};

const CASE: &str = "DUALITY_FIBER_FAULT";

/// Drops a fiber, instead of running a function on top of it.
const DROPS: &str = "DUALITY_FIBER_DROPS";

/// Runs the test `test` again, in a child process in which [`told_to`] is true.
fn child(test: &str) -> Output {
    command(test).output().unwrap()
}

fn command(test: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(CASE, test);
    command
}

fn told_to(test: &str) -> bool {
    env::var_os(CASE).is_some_and(|case| case == test)
}

fn name(line: &mut dyn Write) -> std::fmt::Result {
    write!(line, "task {}", 17)
}

fn watch() -> std::io::Result<overflow::Watch> {
    // SAFETY: `name` only formats a number into the given line.
    unsafe { overflow::watch(name) }
}

/// Ends a child process that should have died of its case.
fn survived() -> ! {
    std::process::exit(0)
}

/// Recurses without an end that the compiler could see, a little at a time.
fn descend(depth: u64) -> u64 {
    let frame = black_box([depth; 8]);
    if frame[3] == u64::MAX { 0 } else { 1 + descend(frame[3] + 1) + black_box(frame)[5] }
}

fn overflow_a_fiber(stack: Stack) {
    let fiber = Fiber::new(stack, || {
        black_box(descend(0));
    });
    fiber.resume();
}

fn assert_reported(test: &str) {
    assert_output(&child(test));
}

fn assert_output(output: &Output) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{stderr}");
    let expected =
        "task 17 has overflowed its stack of 64 KiB: give it a larger one (--stack-size)";
    assert_eq!(stderr.lines().filter(|line| *line == expected).count(), 1, "{stderr}");
}

#[test]
fn an_overflow_is_reported_by_name() {
    let test = "an_overflow_is_reported_by_name";
    if told_to(test) {
        let _watch = watch().unwrap();
        let mut pool = StackPool::new(64 << 10);
        let others = [pool.take().unwrap(), pool.take().unwrap()];
        overflow_a_fiber(pool.take().unwrap());
        drop(others);
        survived();
    }
    assert_reported(test);
}

/// The fiber does not run while a function runs on top of it, and not in its drop.
#[test]
fn an_overflow_on_the_stack_of_a_fiber_that_does_not_run_is_reported_too() {
    struct Descends;
    impl Drop for Descends {
        fn drop(&mut self) {
            black_box(descend(0));
        }
    }
    let test = "an_overflow_on_the_stack_of_a_fiber_that_does_not_run_is_reported_too";
    if told_to(test) {
        let _watch = watch().unwrap();
        let fiber = Fiber::new(Stack::new(64 << 10).unwrap(), || {
            let _descends = Descends;
            suspend();
        });
        fiber.resume();
        if env::var_os(DROPS).is_some() {
            drop(fiber);
        } else {
            fiber.run_on_top(|| drop(Descends));
        }
        survived();
    }
    assert_reported(test);
    assert_output(&command(test).env(DROPS, "").output().unwrap());
}

/// A thread of `pthread_create(3)` has no signal stack; a thread of `std::thread` has one.
#[test]
fn a_kernel_thread_without_a_signal_stack_is_given_one() {
    extern "C" fn main(_: *mut libc::c_void) -> *mut libc::c_void {
        let _watch = watch().unwrap();
        overflow_a_fiber(Stack::new(64 << 10).unwrap());
        ptr::null_mut()
    }
    let test = "a_kernel_thread_without_a_signal_stack_is_given_one";
    if told_to(test) {
        let mut thread = 0;
        // SAFETY: `main` takes no argument, and the thread is joined.
        unsafe {
            assert_eq!(libc::pthread_create(&mut thread, ptr::null(), main, ptr::null_mut()), 0);
            libc::pthread_join(thread, ptr::null_mut());
        }
        survived();
    }
    assert_reported(test);
}

#[test]
fn a_kernel_threads_own_overflow_is_still_std_s() {
    let test = "a_kernel_threads_own_overflow_is_still_std_s";
    if told_to(test) {
        let _watch = watch().unwrap();
        let thread = thread::Builder::new().name("of std".to_owned());
        let _ = thread.spawn(|| black_box(descend(0))).unwrap().join();
        survived();
    }
    let output = child(test);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{stderr}");
    assert!(stderr.contains("thread 'of std'"), "{stderr}");
    assert!(stderr.contains("has overflowed its stack\n"), "{stderr}");
}

/// A fault elsewhere, by a fiber or outside, ends the process by SIGSEGV and prints nothing.
#[test]
fn another_fault_of_a_fiber_is_a_plain_one() {
    let test = "another_fault_of_a_fiber_is_a_plain_one";
    if told_to(test) {
        let _watch = watch().unwrap();
        let fiber = Fiber::new(Stack::new(64 << 10).unwrap(), || {
            // SAFETY: none: the write must fault.
            unsafe { ptr::write_volatile(black_box(64) as *mut u8, 1) };
        });
        fiber.resume();
        survived();
    }
    let output = child(test);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{stderr}");
    assert!(!stderr.contains("overflowed"), "{stderr}");
}

/// A fault in the guard of another stack is no overflow of the running stack.
#[test]
fn the_guard_of_another_is_a_plain_fault() {
    let test = "the_guard_of_another_is_a_plain_fault";
    if told_to(test) {
        let _watch = watch().unwrap();
        let mut pool = StackPool::new(64 << 10);
        let fiber = Fiber::new(pool.take().unwrap(), || {
            let here = black_box(0_u8);
            // The guard of the next stack is beyond the top of this stack.
            let above = (&raw const here).addr().next_multiple_of(4096);
            // SAFETY: none: the read must fault.
            unsafe { ptr::read_volatile(ptr::with_exposed_provenance::<u8>(above)) };
        });
        let _above = pool.take().unwrap();
        fiber.resume();
        survived();
    }
    let output = child(test);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{stderr}");
    assert!(!stderr.contains("overflowed"), "{stderr}");
}

/// In this case the watch changes nothing. Std's handler takes the first signal for a fault, and
/// removes itself before the second signal.
#[test]
fn a_signal_that_was_sent_goes_the_way_it_went() {
    fn status(watched: bool) -> Option<i32> {
        let test = "a_signal_that_was_sent_goes_the_way_it_went";
        let mut command = command(test);
        command.env("WATCHED", if watched { "yes" } else { "no" });
        command.output().unwrap().status.signal()
    }
    if told_to("a_signal_that_was_sent_goes_the_way_it_went") {
        let _watch = (env::var_os("WATCHED").unwrap() == "yes").then(watch);
        // SAFETY: the signal must kill this process, at once or the second time.
        unsafe {
            libc::raise(libc::SIGSEGV);
            libc::raise(libc::SIGSEGV);
        }
        survived();
    }
    assert_eq!(status(false), Some(libc::SIGSEGV));
    assert_eq!(status(true), Some(libc::SIGSEGV));
}
