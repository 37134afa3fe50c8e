//! Commands of this program that run as processes of their own: servers that are loaded for a
//! moment, and loads.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::failure::{Blame, Failure, Party};

/// The time between two checks whether a process has ended.
const LOOK: Duration = Duration::from_millis(2);

/// The limits of a wait for a process.
#[derive(Clone, Copy, Debug)]
pub struct Patience<'p> {
    /// The process is killed after this time.
    pub limit: Duration,
    /// The process is killed when this flag is set.
    pub interrupted: &'p AtomicBool,
}

/// A process. Dropping this value ends the process.
#[derive(Debug)]
pub struct Running(Child);

impl Running {
    /// Starts the command, and keeps its output.
    ///
    /// # Errors
    ///
    /// One line.
    pub fn start(command: &mut Command) -> Result<Self, Failure> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let program = command.get_program().to_string_lossy().into_owned();
        command.spawn().map(Self).blame_at(Party::Machine, program)
    }

    /// The address at which the process listens, as soon as the process prints it.
    ///
    /// # Errors
    ///
    /// The error holds the output that came instead.
    pub fn address(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        let output = self.0.stdout.take().map(BufReader::new);
        let heard = output.map_or(Ok(0), |mut output| output.read_line(&mut line));
        match line.trim().strip_prefix("listening on ").filter(|_| heard.is_ok()) {
            Some(address) => Ok(address.to_owned()),
            None => {
                let _ = self.0.wait();
                Err(self.reason())
            }
        }
    }

    /// Asks the process to end in order.
    pub fn terminate(&self) {
        // The process may have ended.
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
    }

    /// Waits for the end of the process. The output of the process must fit into a pipe.
    ///
    /// # Errors
    ///
    /// The process did not end in time, or failed.
    pub fn end(mut self, patience: Patience<'_>) -> Result<String, Failure> {
        let deadline = Instant::now() + patience.limit;
        let status = loop {
            match self.0.try_wait() {
                Ok(Some(status)) => break status,
                Err(error) => return Err(Failure::new(Party::Machine, error)),
                Ok(None) if patience.interrupted.load(Ordering::Relaxed) => {
                    return Err(Failure::new(Party::Interruption, "interrupted"));
                }
                Ok(None) if Instant::now() > deadline => {
                    let seconds = patience.limit.as_secs_f64();
                    let problem = format!("not done after {seconds:.0} s");
                    return Err(Failure::new(Party::Subject, problem));
                }
                Ok(None) => std::thread::sleep(LOOK),
            }
        };
        if !status.success() {
            return Err(self.reason());
        }
        let mut output = String::new();
        let read = self.0.stdout.take().map_or(Ok(0), |mut from| from.read_to_string(&mut output));
        read.map(|_| output).blame(Party::Subject)
    }

    /// The last line that the process printed on standard error, without the name of the process.
    fn reason(&mut self) -> Failure {
        let mut errors = String::new();
        // Output that cannot be read counts as none.
        let _ = self.0.stderr.take().map(|mut from| from.read_to_string(&mut errors));
        let last = errors.lines().last().unwrap_or("it ended without a word");
        Failure::new(Party::Subject, last.strip_prefix("duality: ").unwrap_or(last))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both calls fail if the process has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The JSON that a command prints. The command must succeed.
///
/// # Errors
///
/// One line.
pub fn report(command: &mut Command, patience: Patience<'_>) -> Result<Value, Failure> {
    let output = Running::start(command)?.end(patience)?;
    serde_json::from_str(&output).blame_at(Party::Subject, "no report")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_a_command_says_is_its_report_or_its_reason() {
        let interrupted = AtomicBool::new(false);
        let patience = Patience { limit: PATIENCE, interrupted: &interrupted };
        let figures = report(&mut shell("echo '{\"a\": 1}'"), patience).unwrap();
        assert_eq!(figures["a"], 1);
        let refused = report(&mut shell("echo one >&2; echo 'duality: no' >&2; exit 2"), patience);
        assert_eq!(refused, Err(Failure::new(Party::Subject, "no")));
        let silent = report(&mut shell("exit 1"), patience);
        assert_eq!(silent, Err(Failure::new(Party::Subject, "it ended without a word")));
    }

    #[test]
    fn a_process_that_does_not_end_is_ended() {
        let (calm, interrupted) = (AtomicBool::new(false), AtomicBool::new(true));
        let short = Patience { limit: Duration::from_millis(1), interrupted: &calm };
        let late = report(&mut shell("exec sleep 1000"), short).unwrap_err().to_string();
        assert!(late.starts_with("not done after"), "{late}");
        let stopped = report(
            &mut shell("exec sleep 1000"),
            Patience { limit: PATIENCE, interrupted: &interrupted },
        );
        assert_eq!(stopped, Err(Failure::new(Party::Interruption, "interrupted")));
    }

    #[test]
    fn a_server_says_where_it_listens_and_ends_when_it_is_told() {
        let script =
            "trap 'exit 0' TERM; echo listening on 127.0.0.1:80; while :; do sleep 0.01; done";
        let mut server = Running::start(&mut shell(script)).unwrap();
        assert_eq!(server.address().unwrap(), "127.0.0.1:80");
        server.terminate();
        let calm = AtomicBool::new(false);
        assert!(server.end(Patience { limit: PATIENCE, interrupted: &calm }).is_ok());
    }
}
