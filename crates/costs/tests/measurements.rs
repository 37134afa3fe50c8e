//! Runs each measurement briefly: each must end and give a figure in its unit. The size of a figure
//! decides no test.
//!
//! Each measurement runs in its own process, as under the command. Some measurements fork, and a
//! process with the threads of a test harness must not fork. So this program has no test harness,
//! and starts itself for each measurement.

#![expect(clippy::print_stdout, reason = "what a test program says")]

use std::process::{Command, ExitCode};

use duality_costs::{ALL, Reading, Trouble, Unit, measure, subjects};

/// Few operations, so that each world is quick. The number is no multiple of a number of tasks.
const COUNT: u64 = 99;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, subject, cost] = arguments.as_slice()
        && flag == "--measure"
    {
        check(subject, cost);
        return ExitCode::SUCCESS;
    }
    let own = std::env::current_exe().expect("this program has a path");
    let mut failed = 0;
    let timed = ALL.iter().filter(|cost| cost.unit == Unit::Nanoseconds);
    let all = timed.flat_map(|cost| subjects(cost).into_iter().map(move |subject| (subject, cost)));
    let mut passed = 0;
    for (subject, cost) in all {
        let status = Command::new(&own).args(["--measure", subject, cost.name]).status();
        let is_right = status.expect("this program can be started again").success();
        *(if is_right { &mut passed } else { &mut failed }) += 1;
    }
    println!("every cost of every subject is a time: {passed} passed, {failed} failed");
    ExitCode::from(u8::from(failed > 0))
}

/// Measures once.
///
/// # Panics
///
/// Panics if there is no figure, or if the figure is no time.
fn check(subject: &str, cost: &str) {
    let what = format!("{cost} of {subject}");
    let reading: Reading = match measure(subject, cost, COUNT) {
        Ok(reading) => reading,
        // Not every machine has 15,000 descriptors, a second processor or a ring.
        Err(Trouble::Unavailable(why))
            if ["descriptors", "no other processor", "refuses uring"]
                .iter()
                .any(|lack| why.contains(lack)) =>
        {
            return;
        }
        Err(trouble) => panic!("{what}: {trouble}"),
    };
    let what = format!("{what}: {reading:?}");
    assert_eq!(reading.unit, Unit::Nanoseconds, "{what}");
    assert!(reading.count >= COUNT && reading.total > 0, "{what}");
    assert!(reading.each().is_finite() && reading.each() > 0.0, "{what}");
}
