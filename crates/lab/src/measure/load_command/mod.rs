//! Load commands. A load command makes requests to a server, prints how many were answered, and
//! ends.
//!
//! The lab runs the command once for each measurement, and measures the server meanwhile. So any
//! protocol can be compared. A command is a list of words with placeholders:
//!
//! | placeholder | is |
//! | --- | --- |
//! | `{host}`, `{port}` | where the server listens |
//! | `{connections}` | how many connections to open |

mod figures;

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

pub(crate) use figures::Figures;

use crate::failure::{Blame, Failure, Party};
use crate::measure::peers::find;
use crate::measure::spawn::{command, last_words, log_file, name_of, pinned, read_log};

/// The longest time that one run may take.
const LONGEST_RUN: Duration = Duration::from_secs(120);
/// The most MiB that a run may print.
const MOST_OUTPUT: u64 = 1;
/// The most words.
const MOST_WORDS: usize = 100;
/// The assumed length of a run when the lab estimates the length of an experiment.
pub(crate) const USUAL_RUN: Duration = Duration::from_secs(1);

/// The error of a load command, and the remedy. `None` if the command can be run.
pub(crate) fn problem(words: &[String]) -> Option<String> {
    let program = words.first().map_or("", String::as_str);
    if program.is_empty() {
        return Some("name the program that makes the load, and its arguments".to_owned());
    }
    if words.len() > MOST_WORDS {
        return Some(format!("more than {MOST_WORDS} words: put them into a script"));
    }
    if !words.iter().any(|word| word.contains("{port}")) {
        return Some(
            "the load command is not told where the server listens: put {port} into it".to_owned(),
        );
    }
    if find(program).is_none() {
        return Some(format!("{program}: no such program; install it, or give its path"));
    }
    None
}

/// Whether the command opens the requested number of connections.
pub(crate) fn takes_connections(words: &[String]) -> bool {
    words.iter().any(|word| word.contains("{connections}"))
}

/// One run of a load command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) figures: Figures,
    /// The time from the start of the command to its end.
    pub(crate) elapsed: Duration,
    /// The processor time of the command, and of the children that it waited for.
    pub(crate) cpu: Duration,
}

impl Run {
    /// The time that the requests took, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.figures.seconds.unwrap_or(self.elapsed.as_secs_f64()).max(1e-6)
    }
}

/// Runs the command once against the server at `address`, on `cpus`.
///
/// # Errors
///
/// The error tells in one line why there are no figures.
pub(crate) fn run(
    words: &[String],
    address: SocketAddr,
    connections: usize,
    cpus: &[usize],
    interrupted: &AtomicBool,
) -> Result<Run, Failure> {
    let name = name_of(words.first().map_or("", String::as_str));
    let place = format!("the load command {name}");
    let fill = |word: &String| {
        word.replace("{host}", &address.ip().to_string())
            .replace("{port}", &address.port().to_string())
            .replace("{connections}", &connections.to_string())
    };
    let words: Vec<String> = words.iter().map(fill).collect();
    let (program, arguments) = words.split_first().expect("it has been checked");
    let start = || {
        let ((output, stdout), (complaints, stderr)) = (log_file()?, log_file()?);
        let mut command = command(program, "KILL");
        command.args(arguments).stdin(Stdio::null()).stdout(stdout).stderr(stderr).process_group(0);
        Ok((pinned(cpus, || command.spawn())?, output, complaints))
    };
    let (begun, before) = (Instant::now(), cpu_of_children());
    let (child, output, complaints) =
        start().map_err(|error: std::io::Error| Failure::new(Party::Machine, error).at(&place))?;
    let ended = await_end(child, &output, interrupted);
    let elapsed = begun.elapsed();
    ended.map_err(|failure| {
        let errors = read_log(&complaints);
        let last = last_words(&errors).map_or(String::new(), |line| format!(": {line}"));
        Failure::new(failure.party, format!("{failure}{last}")).at(&place)
    })?;
    let figures = Figures::parse(&read_log(&output), elapsed).blame_at(Party::Load, &place)?;
    Ok(Run { figures, elapsed, cpu: cpu_of_children().saturating_sub(before) })
}

/// Waits until the command ends. A command that does not end in time, prints too much, or is
/// interrupted is killed with all its processes.
fn await_end(mut child: Child, output: &File, interrupted: &AtomicBool) -> Result<(), Failure> {
    /// The interval at which the lab checks the command's output and interruptions.
    const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    let begun = Instant::now();
    let group = Pid::from_child(&child);
    let handle = pidfd_open(group, PidfdFlags::empty()).blame(Party::Machine)?;
    let problem = loop {
        if poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&GLANCE)) == Ok(1) {
            break None;
        }
        if interrupted.load(Ordering::Relaxed) {
            break Some(Failure::new(Party::Interruption, "interrupted"));
        }
        if begun.elapsed() > LONGEST_RUN {
            let longest = LONGEST_RUN.as_secs();
            let problem = format!("it ran for more than {longest} s");
            break Some(Failure::new(Party::Load, problem).remedy("have it make fewer requests"));
        }
        if output.metadata().is_ok_and(|about| about.len() > MOST_OUTPUT << 20) {
            let problem = format!("it printed more than {MOST_OUTPUT} MiB");
            break Some(
                Failure::new(Party::Load, problem).remedy("have it print the figures only"),
            );
        }
    };
    // Kill also the processes that an ended command left behind. These processes would disturb the
    // next measurement.
    let _ = kill_process_group(group, Signal::KILL);
    let status = child.wait().blame(Party::Machine)?;
    match problem {
        Some(problem) => Err(problem),
        None if !status.success() => {
            Err(Failure::new(Party::Load, format!("it failed ({status})")))
        }
        None => Ok(()),
    }
}

/// The processor time of all children of this process that have ended.
pub(crate) fn cpu_of_children() -> Duration {
    use nix::sys::resource::{UsageWho, getrusage};
    let duration = |time: nix::sys::time::TimeVal| {
        let microseconds = 1_000_000 * i128::from(time.tv_sec()) + i128::from(time.tv_usec());
        Duration::from_micros(u64::try_from(microseconds).unwrap_or(0))
    };
    let used = getrusage(UsageWho::RUSAGE_CHILDREN);
    used.map_or(Duration::ZERO, |used| duration(used.user_time()) + duration(used.system_time()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    fn ran(script: &str) -> Result<Run, Failure> {
        let address = SocketAddr::from(([127, 0, 0, 1], 4711));
        let words = words(&["sh", "-c", script, "{port}", "{connections}"]);
        run(&words, address, 8, &[], &AtomicBool::new(false))
    }

    #[test]
    fn a_command_is_told_the_server_and_tells_its_figures() {
        let ran = ran("echo requests $1$0; echo hm >&2").unwrap();
        assert_eq!(ran.figures.requests, 84711);
        assert!(ran.seconds() > 0.0 && ran.seconds() <= ran.elapsed.as_secs_f64());
    }

    #[test]
    fn why_there_are_no_figures_is_told_in_one_line() {
        for (script, message) in [
            (
                "echo refused >&2; exit 3",
                "the load command sh: it failed (exit status: 3): refused",
            ),
            ("kill -9 $$", "signal: 9"),
            ("true", "the load command sh: it printed no requests"),
            (
                "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done",
                "more than 1 MiB",
            ),
        ] {
            let problem = ran(script).unwrap_err().to_string();
            assert!(problem.contains(message) && !problem.contains('\n'), "{script}: {problem}");
        }
    }

    #[test]
    fn an_interruption_ends_it_with_its_children() {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let words = words(&["sh", "-c", "sleep 60 & sleep 60; : {port}"]);
        let begun = Instant::now();
        let problem = run(&words, address, 1, &[], &AtomicBool::new(true)).unwrap_err().to_string();
        assert!(problem.contains("interrupted"), "{problem}");
        assert!(begun.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn what_cannot_be_run_is_known_beforehand() {
        for (given, message) in [
            (&[][..], "name the program"),
            (&["sh"][..], "put {port} into it"),
            (&["no-such-load", "{port}"][..], "no such program"),
        ] {
            let problem = problem(&words(given)).unwrap();
            assert!(problem.contains(message), "{problem}");
        }
        assert_eq!(problem(&words(&["sh", "-c", "load {port}"])), None);
    }
}
