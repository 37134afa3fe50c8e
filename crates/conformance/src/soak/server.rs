//! The server of a round, and its possible faults: it dies, it complains, it keeps connections, or
//! it does not end.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use duality_lab::{AtFile as _, Failure};
use rustix::process::{Pid, Signal, kill_process};

use super::rounds::Round;
use super::{Result, wrong};

/// The options of the sanitizers. A report ends the process, with a code that no other end has.
/// Fake stacks would move locals off the fibers' stacks, but the soak must check locals on these
/// stacks.
const SANITIZER: &str = "exitcode=86:detect_stack_use_after_return=0:strict_string_checks=1:check_initialization_order=1:detect_leaks=1";

/// Parts of the output of a faulty server: the sanitizer's report, a panic, a stack overflow.
const COMPLAINTS: &[&str] = &["Sanitizer", "panicked at", "has overflowed its stack"];

/// A server process. Dropping it kills the process.
pub(super) struct Server {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
    /// The number of the server's sockets before the first client came.
    sockets: usize,
}

impl Server {
    /// Starts `program` for a round. Its standard error goes to `NAME.log` in `folder`.
    ///
    /// # Errors
    ///
    /// Fails if the server does not report that it listens.
    pub(super) fn start(program: &Path, round: Round, folder: &Path) -> Result<Self> {
        let name =
            format!("{}-{}", round.variant.concat().replace("--", "-"), round.service.name());
        let log = folder.join(format!("{name}.log"));
        let complaints = File::create(&log).at_file(log.display())?;
        let store = folder.join(format!("{name}.sqlite"));
        for ending in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(format!("{}{ending}", store.display()));
        }
        let mut command = Command::new(program);
        command.args(["serve", round.service.name(), "--listen=127.0.0.1:0"]);
        command.arg("--architecture").args(round.variant);
        // Instrumented frames are several times as large as others.
        command.args(["--stack-size=1M", "--drain-limit=20"]);
        if round.service.name() == "guestbook" {
            command.arg(format!("--store=sqlite:{}", store.display()));
        }
        if round.tells_of_tasks() {
            command.arg("--dump").arg(folder.join(format!("{name}.dump")));
        }
        command.env("ASAN_OPTIONS", SANITIZER).env("RUST_BACKTRACE", "1");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(complaints);
        let mut child = command.spawn().at_file(program.display())?;
        let mut line = String::new();
        let output = child.stdout.take().expect("it is piped");
        let read = BufReader::new(output).read_line(&mut line);
        let address = line.trim().strip_prefix("listening on ").and_then(|text| text.parse().ok());
        let Some(address) = address else {
            let _ = child.kill();
            let _ = child.wait();
            let what = wrong(format_args!("it does not listen ({read:?})"));
            return Err(what.remedy(format_args!("see {}", log.display())));
        };
        let mut server = Self { child, address, log, sockets: 0 };
        server.sockets = server.sockets_now();
        Ok(server)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends a signal, unless the process has ended.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// The exit status of the server. `None` while it runs.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// The most memory that the server has had, in MiB.
    pub(super) fn peak_mebibytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak =
            peak.and_then(|text| text.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        peak.unwrap_or(0) >> 10
    }

    /// Waits until the server has no more sockets than at the beginning. All clients have gone.
    ///
    /// # Errors
    ///
    /// Fails if the server still has more sockets after `limit`.
    pub(super) fn forgets_its_clients(&mut self, limit: Duration) -> Result {
        let deadline = Instant::now() + limit;
        loop {
            let kept = self.sockets_now().saturating_sub(self.sockets);
            if kept == 0 || self.ended().is_some() {
                return Ok(());
            }
            if Instant::now() > deadline {
                let what = "sockets are left";
                return Err(wrong(format_args!(
                    "{kept} {what} {limit:?} after the last client has gone"
                )));
            }
            sleep(Duration::from_millis(20));
        }
    }

    /// Waits for the end after SIGTERM, and checks the output up to the end.
    ///
    /// # Errors
    ///
    /// Fails if the server does not end within `limit`, if its exit code is not 0, or if it has
    /// complained.
    pub(super) fn ends(mut self, limit: Duration) -> Result {
        let log = self.log.clone();
        let see = |failure: Failure| failure.remedy(format_args!("see {}", log.display()));
        let deadline = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.ended() {
                break status;
            }
            if Instant::now() > deadline {
                return Err(see(wrong(format_args!("it has not ended {limit:?} after SIGTERM"))));
            }
            sleep(Duration::from_millis(5));
        };
        let said = fs::read(&self.log).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let complaint = said.lines().find(|line| COMPLAINTS.iter().any(|word| line.contains(word)));
        match complaint {
            Some(line) => Err(see(wrong(format_args!("it said {line:?} and ended with {status}")))),
            None if status.success() => Ok(()),
            None => Err(see(wrong(format_args!("it ended with {status}")))),
        }
    }

    /// The number of the server's sockets. Several descriptors of one socket, such as the listener,
    /// count once.
    fn sockets_now(&self) -> usize {
        let Ok(entries) = fs::read_dir(format!("/proc/{}/fd", self.child.id())) else { return 0 };
        let is_socket = |path: &PathBuf| path.to_string_lossy().starts_with("socket:");
        entries
            .flatten()
            .filter_map(|entry| fs::read_link(entry.path()).ok())
            .filter(is_socket)
            .collect::<BTreeSet<_>>()
            .len()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
