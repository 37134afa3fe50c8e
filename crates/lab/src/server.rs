//! One server process: started, asked for its counters, drained.
//!
//! The control channel is a socket on the server's standard input, with lines of JSON; see the server's
//! end, `control.rs` in the crate `duality`, for what is said over it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::counters::{self, Counters};
use crate::plan::{CellKey, Plan};
use crate::store::OpenStore;

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a server may take to drain.
const DRAIN: Duration = Duration::from_secs(3);

/// A running server.
pub(crate) struct Server {
    child: Child,
    channel: BufReader<UnixStream>,
    stderr: File,
    address: SocketAddr,
}

/// Why there is none.
pub(crate) enum NoServer {
    Unavailable(String),
    Failed(String),
}

/// What a server says.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Message {
    Ready { address: SocketAddr },
    Unavailable(String),
    Counters(Counters),
}

impl Server {
    /// Starts the server of a cell, which keeps what it is told in `store`, and waits until it listens.
    pub(crate) fn start(
        plan: &Plan,
        key: &CellKey,
        store: Option<&OpenStore>,
    ) -> Result<Self, NoServer> {
        let failed =
            |error: io::Error| NoServer::Failed(format!("cannot start the server: {error}"));
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        ours.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        let (stderr, log) = log_file().map_err(failed)?;
        let design = &plan.design;
        let mut command = Command::new(&plan.program);
        command.args(["serve", &design.service, "--architecture", &key.architecture, "--control"]);
        command.args(["--listen", "127.0.0.1:0"]).args(&design.server_arguments);
        if let Some(store) = store {
            command.arg(format!("--store={}", store.url()));
        }
        if !design.server_cpus.is_empty() {
            let cpus: Vec<String> = design.server_cpus.iter().map(usize::to_string).collect();
            command.args(["--cpus", &cpus.join(",")]);
        }
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().map_err(failed)?;
        // The command keeps a copy of the server's end, which would hide its death.
        drop(command);
        let address = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut server = Self { child, channel: BufReader::new(ours), stderr, address };
        match server.hear() {
            Ok(Message::Ready { address }) => server.address = address,
            Ok(Message::Unavailable(reason)) => return Err(NoServer::Unavailable(reason)),
            Ok(Message::Counters(_)) => {
                return Err(NoServer::Failed("it spoke out of turn".into()));
            }
            Err(error) => return Err(NoServer::Failed(server.last_words(&error))),
        }
        Ok(server)
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it and its children have used until now; with their memory if asked.
    pub(crate) fn counters(&mut self, with_memory: bool) -> io::Result<Counters> {
        self.channel.get_mut().write_all(b"counters\n")?;
        let Message::Counters(mut total) = self.hear()? else {
            return Err(io::Error::other("the server answered something else"));
        };
        let children = counters::children(self.child.id());
        let living = counters::of_living(&children);
        total.cpu_us += living.cpu_us;
        total.voluntary_switches += living.voluntary_switches;
        total.involuntary_switches += living.involuntary_switches;
        if with_memory {
            total.peak_bytes = match children.as_slice() {
                [] => counters::peak_memory(self.child.id()),
                children => counters::shared_memory(self.child.id(), children),
            };
        }
        Ok(total)
    }

    /// What it wrote to standard error, in one line, or else what went wrong with the channel.
    pub(crate) fn last_words(&mut self, error: &io::Error) -> String {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let mut text = String::new();
        let read = self.stderr.rewind().and_then(|()| self.stderr.read_to_string(&mut text));
        match text.lines().rfind(|line| !line.trim().is_empty()) {
            Some(line) if read.is_ok() => line.to_owned(),
            _ => format!("the server did not answer: {error}"),
        }
    }

    fn hear(&mut self) -> io::Result<Message> {
        let mut line = String::new();
        if self.channel.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.channel.get_mut().write_all(b"drain\n");
        let deadline = Instant::now() + DRAIN;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A file without a name, to read and to write: a server's standard error cannot fill it up and block.
fn log_file() -> io::Result<(File, File)> {
    use rustix::fs::{MemfdFlags, memfd_create};
    let file = File::from(memfd_create("stderr", MemfdFlags::CLOEXEC)?);
    Ok((file.try_clone()?, file))
}
