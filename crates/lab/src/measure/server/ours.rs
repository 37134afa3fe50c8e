//! A server of ours: a process that the lab starts, asks for its counters, and drains.
//!
//! The control channel is a socket on the server's standard input, with lines of JSON. The server's
//! end, `control.rs` in the crate `duality`, has the protocol.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::{DRAIN, Server};
use crate::failure::{Failure, Party};
use crate::measure::experiment::Experiment;
use crate::measure::no_server::NoServer;
use crate::measure::observe::counters::{self, Counters};
use crate::measure::recording::Replay;
use crate::measure::spawn::{how_ended, last_words, log_file, read_log, read_on};
use crate::measure::store::OpenStore;
use crate::measure::upstream::Upstream;
use crate::record::CellKey;
use crate::record::QueueState;

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running server of ours.
pub(crate) struct Process {
    child: Child,
    channel: BufReader<UnixStream>,
    stderr: File,
    /// How much of the server's standard error [`news`](Self::news) has returned.
    heard: u64,
    address: SocketAddr,
}

/// A message of a server.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Message {
    Ready { address: SocketAddr },
    Unavailable(String),
    Counters(Counters),
    Queues(Vec<QueueState>),
    Requests(Requests),
}

/// The outcomes of a server's requests so far, if it was started with `--late-after`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(crate) struct Requests {
    /// Requests of which the first bytes were read.
    pub(crate) begun: u64,
    /// Requests that were answered.
    pub(crate) answered: u64,
    /// The requests that took longer than `--late-after`.
    pub(crate) late: u64,
    /// Connections on which the service failed.
    pub(crate) failed: u64,
    /// Connections that the server refused because it was full.
    pub(crate) refused: u64,
    /// Connections that are open now.
    pub(crate) open: u64,
    /// Connections that have ended.
    pub(crate) ended: u64,
    /// The numbers of requests that were answered within 1 µs, 2 µs, 4 µs …, and later.
    pub(crate) buckets: Vec<u64>,
}

impl Process {
    /// Starts the server of a cell on `store`, and waits until it listens.
    pub(super) fn start(
        experiment: &Experiment,
        key: &CellKey,
        store: Option<&OpenStore>,
        upstreams: &[SocketAddr],
    ) -> Result<Self, NoServer> {
        let design = &experiment.design;
        let mut command = Command::new(&experiment.program);
        let (architecture, arguments) = design.server_of(&key.subject);
        command.args(["serve", &design.service, "--architecture", &architecture, "--control"]);
        command.args(["--listen", &SocketAddr::new(experiment.listen, 0).to_string()]);
        command.args(arguments);
        if let Some(root) = experiment.replay.as_ref().and_then(Replay::root) {
            command.arg("--root").arg(root);
        }
        if let Some(certificate) = &experiment.certificate {
            command.arg("--tls-cert").arg(certificate.chain());
            command.arg("--tls-key").arg(certificate.key());
        }
        if let Some(store) = store {
            command.arg(format!("--store={}", store.url()));
        }
        // The arguments name other upstreams.
        if experiment.upstream == Some(Upstream::Own) {
            command.args(upstreams.iter().map(|address| format!("--upstream={address}")));
        }
        if !design.server_cpus.is_empty() {
            let cpus: Vec<String> = design.server_cpus.iter().map(usize::to_string).collect();
            command.args(["--cpus", &cpus.join(",")]);
        }
        Self::launch(command)
    }

    /// Starts `command`, a server of ours with `--control`, and waits until it listens.
    pub(crate) fn launch(mut command: Command) -> Result<Self, NoServer> {
        let failed =
            |error: io::Error| Failure::new(Party::Machine, error).at("cannot start the server");
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        ours.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        let (stderr, log) = log_file().map_err(failed)?;
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().map_err(failed)?;
        // The command keeps a copy of the server's end, which would hide its death.
        drop(command);
        let address = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut server = Self { child, channel: BufReader::new(ours), stderr, heard: 0, address };
        match server.hear() {
            Ok(Message::Ready { address }) => server.address = address,
            Ok(Message::Unavailable(reason)) => return Err(NoServer::Unavailable(reason)),
            Ok(Message::Counters(_) | Message::Queues(_) | Message::Requests(_)) => {
                return Err(Failure::new(Party::Subject, "it spoke out of turn").into());
            }
            Err(error) => {
                return Err(Failure::new(Party::Subject, server.last_words(Some(&error))).into());
            }
        }
        Ok(server)
    }

    /// The number of the server's process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The server's own report of its resources.
    fn counted(&mut self) -> io::Result<Counters> {
        self.channel.get_mut().write_all(b"counters\n")?;
        match self.hear()? {
            Message::Counters(counters) => Ok(counters),
            _ => Err(io::Error::other("the server answered something else")),
        }
    }

    /// The outcomes of requests so far, if the server was started with `--late-after`.
    pub(crate) fn requests(&mut self) -> io::Result<Requests> {
        self.channel.get_mut().write_all(b"requests\n")?;
        match self.hear()? {
            Message::Requests(requests) => Ok(requests),
            _ => Err(io::Error::other("the server answered something else")),
        }
    }

    /// Asks the server to drain: to answer all accepted requests, and to end.
    pub(crate) fn drain(&mut self) {
        // The server may have ended already.
        let _ = self.channel.get_mut().write_all(b"drain\n");
    }

    /// The way in which the server ended, if it has ended.
    pub(crate) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// How the server ended, if it ends at once. A process that is dying has closed its channel.
    fn await_end(&mut self) -> Option<ExitStatus> {
        const DYING: Duration = Duration::from_millis(100);
        let deadline = Instant::now() + DYING;
        loop {
            match self.child.try_wait() {
                Ok(None) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                ended => return ended.ok().flatten(),
            }
        }
    }

    /// Ends the server at once, if it has not ended.
    pub(crate) fn kill(&mut self) {
        // Both calls fail if the server has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The text that the server has written to standard error since the last call.
    pub(crate) fn news(&mut self) -> String {
        read_on(&self.stderr, &mut self.heard)
    }

    fn hear(&mut self) -> io::Result<Message> {
        let mut line = String::new();
        if self.channel.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_str(&line)?)
    }
}

impl Server for Process {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn cpu(&mut self) -> io::Result<Duration> {
        counters::cpu_of_all(self.child.id(), &counters::children(self.child.id()))
    }

    fn cpu_with_ended_children(&mut self, living: Duration) -> io::Result<Duration> {
        // Most servers have no queues, and the question takes them time.
        if !counters::has_ended_children(self.child.id()) {
            return Ok(living);
        }
        let children = counters::children(self.child.id());
        let total = Duration::from_micros(self.counted()?.cpu_us);
        Ok(total + counters::cpu_of_living(&children))
    }

    fn counters(&mut self, with_memory: bool) -> io::Result<Counters> {
        let mut total = self.counted()?;
        let children = counters::children(self.child.id());
        let living = counters::of_living(&children);
        total.cpu_us += living.cpu_us;
        total.voluntary_switches += living.voluntary_switches;
        total.involuntary_switches += living.involuntary_switches;
        total.operations.page_faults += living.operations.page_faults;
        if with_memory {
            total.peak_bytes = match children.as_slice() {
                [] => counters::peak_memory(self.child.id()),
                children => counters::shared_memory(self.child.id(), children),
            };
        }
        Ok(total)
    }

    fn memory(&mut self) -> io::Result<u64> {
        let children = counters::children(self.child.id());
        Ok(counters::private_memory(children.into_iter().chain([self.child.id()])))
    }

    fn queues(&mut self) -> io::Result<Vec<QueueState>> {
        self.channel.get_mut().write_all(b"queues\n")?;
        match self.hear()? {
            Message::Queues(queues) => Ok(queues),
            _ => Err(io::Error::other("the server answered something else")),
        }
    }

    fn last_words(&mut self, error: Option<&io::Error>) -> String {
        let ended = self.await_end();
        self.kill();
        let last = last_words(&read_log(&self.stderr));
        match (ended, last) {
            (Some(status), Some(last)) => format!("the server {}: {last}", how_ended(status)),
            (Some(status), None) => format!("the server {}", how_ended(status)),
            (None, Some(last)) => last,
            (None, None) => {
                error.map_or(String::new(), |error| format!("the server did not answer: {error}"))
            }
        }
    }
}

impl Drop for Process {
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
