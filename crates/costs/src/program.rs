//! The programs that measure: this executable for our own subjects, and the peers.
//!
//! Each program gets a cost and a count, and answers with one line (`line.rs`). A peer is not our
//! program, so the length and the time of its output are bounded.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::{Reading, Trouble, line};

/// The time after which a batch is given up. Batches are a few hundredths of a second long, but GNU
/// Pth keeps its queues as lists: it is slow with a thousand threads.
const PATIENCE: Duration = Duration::from_secs(20);

/// A package that is not ours.
#[derive(Debug)]
pub struct Peer {
    /// The name of its program in the folder of peers, and of its column.
    pub name: &'static str,
    /// The description of the package.
    pub about: &'static str,
}

/// All peers.
pub const PEERS: &[Peer] = &[
    Peer { name: "st", about: "State Threads" },
    Peer { name: "pth", about: "GNU Pth" },
    Peer { name: "pthreads", about: "kernel threads, by glibc" },
    Peer { name: "go", about: "goroutines, GOMAXPROCS=1" },
];

/// The message for a peer without a built program.
pub const NOT_BUILT: &str = "not built: cargo xtask peers";

/// A program that measures costs.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The executable, and its arguments before the cost and the count.
    pub(crate) command: Vec<OsString>,
}

impl Program {
    /// Tells the program to measure `cost` over `count` operations, if there is time before
    /// `until`.
    pub(crate) fn ask(
        &self,
        cost: &str,
        count: u64,
        until: Option<Instant>,
    ) -> Result<Reading, Trouble> {
        let left = until.map_or(PATIENCE, |until| until.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Err(Trouble::Unavailable("the time for it was spent".to_owned()));
        }
        let (executable, arguments) = self.command.split_first().expect("a command has a name");
        let mut command = Command::new(executable);
        command.args(arguments).arg(cost).arg(count.to_string());
        // The program's complaints go to our standard error, for the user to read.
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let name = Path::new(executable).display();
        let fault = |what: String| Trouble::Unavailable(format!("{name}: {what}"));
        let child = child.map_err(|error| fault(error.to_string()))?;
        let text = answer(child, left.min(PATIENCE)).map_err(|error| fault(error.to_string()))?;
        line::read(cost, &text).map_err(|malformed| fault(malformed.to_string()))?
    }
}

/// The output of `child`, if it comes within `patience` and `child` succeeds. `child` has ended
/// when this function returns.
fn answer(mut child: Child, patience: Duration) -> io::Result<String> {
    let output = child.stdout.take().expect("its standard output is a pipe");
    let (sender, receiver) = mpsc::channel();
    let reader = thread::Builder::new().spawn(move || {
        let mut text = String::new();
        let end = output.take(line::LONGEST as u64).read_to_string(&mut text);
        // The send fails after patience has run out, since the receiver is gone.
        let _ = sender.send(end.map(|_| text));
    });
    if let Err(error) = reader {
        child.kill()?;
        child.wait()?;
        return Err(io::Error::new(error.kind(), format!("cannot start a thread: {error}")));
    }
    let text = receiver.recv_timeout(patience);
    if text.is_err() {
        child.kill()?;
    }
    let status = child.wait()?;
    let patience = patience.as_secs_f64().ceil();
    let text =
        text.map_err(|_| io::Error::other(format!("it took more than {patience} s for a batch")))?;
    if status.success() { text } else { Err(io::Error::other(format!("it failed ({status})"))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unit;

    fn shell(script: &str) -> Program {
        Program { command: ["sh", "-c", script, "peer"].map(OsString::from).to_vec() }
    }

    #[test]
    fn a_program_is_told_cost_and_count_and_answers() {
        let reading = shell("echo $1 $2 4000 ns").ask("switch", 200, None).unwrap();
        assert_eq!(reading, Reading { count: 200, total: 4000, unit: Unit::Nanoseconds });
        assert!((reading.each() - 20.0).abs() < 1e-9);
    }

    #[test]
    fn what_goes_wrong_is_told() {
        let message = |script: &str| shell(script).ask("switch", 1, None).unwrap_err().to_string();
        assert!(message("exit 3").contains("exit status: 3"));
        assert!(message("echo switch 1 5 ns; exit 1").contains("exit status: 1"));
        assert!(message("echo nonsense").contains("not four words"));
        // The driver stops reading this endless output. The program fails at that moment, or
        // because of its output.
        assert!(!message("exec yes").is_empty());
        assert_eq!(message("echo unavailable no threads"), "no threads");
        let absent = Program { command: vec!["/nowhere/st".into()] };
        assert!(
            absent.ask("switch", 1, None).unwrap_err().to_string().starts_with("/nowhere/st: ")
        );
    }

    #[test]
    fn patience_ends() {
        let child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let error = answer(child.unwrap(), Duration::from_millis(10)).unwrap_err();
        assert!(error.to_string().contains("took more than"), "{error}");
    }
}
