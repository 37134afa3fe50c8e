//! A peer: a tree of processes. The lab starts it, sends it no questions, and ends it with all its
//! processes.
//!
//! The peer has a process group of its own. So a Ctrl-C does not reach the peer, and its remaining
//! processes can be ended together. If `setpriv` is installed, it ends the peer when this process
//! is killed.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Resource, Signal, WaitId, WaitIdOptions, WaitIdStatus, geteuid, getrlimit,
    kill_process, kill_process_group, pidfd_open, pidfd_send_signal, waitid,
};
use tempfile::TempDir;

use super::{DRAIN, Server, tree};
use crate::failure::{Failure, Party};
use crate::measure::experiment::{Experiment, Site};
use crate::measure::no_server::NoServer;
use crate::measure::observe::counters::{self, Counters};
use crate::measure::peers::Places;
use crate::measure::spawn::{self, ended_by, last_words, log_file, pinned, read_log};
use crate::record::{CellKey, Peer};

/// The number of attempts to find a port, since another process may take a free port first.
const ATTEMPTS: usize = 3;
/// Connections beyond the load's: an eighth of the load's, plus this number. Some connections are
/// closing while new ones come. nginx closes silent connections when less than a sixteenth of its
/// places is free.
const SPARE: usize = 32;

/// A running peer.
pub(super) struct Process {
    child: Child,
    stop: Signal,
    address: SocketAddr,
    log: File,
    /// The directory is removed when the processes have ended.
    _directory: TempDir,
}

impl Process {
    /// Starts the peer of a cell, and waits until it listens. A balancer gets the `servers` behind
    /// it.
    pub(super) fn start(
        experiment: &Experiment,
        key: &CellKey,
        peer: &Peer,
        servers: &[SocketAddr],
    ) -> Result<Self, NoServer> {
        let failed = |error: io::Error| {
            Failure::new(Party::Subject, error)
                .at(format_args!("cannot start the peer {}", peer.name))
        };
        if let Some(reason) = peer.missing() {
            return Err(NoServer::Unavailable(reason));
        }
        let connections = experiment.behaviour.connections(key.concurrency);
        let connections = connections.saturating_add(connections / 8).saturating_add(SPARE);
        let mut trouble = io::Error::other("no attempt");
        for _ in 0..ATTEMPTS {
            let mut process =
                Self::spawn(experiment, peer, connections, servers).map_err(failed)?;
            match process.await_readiness(peer) {
                Ok(()) => return Ok(process),
                Err(error) => {
                    trouble = io::Error::new(error.kind(), process.last_words(Some(&error)));
                }
            }
            // Only a peer that ended may have found the port taken.
            if trouble.kind() == io::ErrorKind::TimedOut {
                break;
            }
        }
        Err(failed(trouble).into())
    }

    fn spawn(
        experiment: &Experiment,
        peer: &Peer,
        connections: usize,
        servers: &[SocketAddr],
    ) -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("duality-peer-").tempdir()?;
        if geteuid().is_root() {
            // Servers that root starts change to another user.
            fs::set_permissions(directory.path(), Permissions::from_mode(0o755))?;
        }
        let address = TcpListener::bind((experiment.listen, 0))?.local_addr()?;
        let made = directory.path().join("root");
        let places = Places {
            host: &host_of(address),
            port: address.port(),
            servers,
            directory: directory.path(),
            root: experiment.site.put_into(&made)?,
            certificate: experiment.certificate.as_ref(),
            connections: (connections + to_servers(connections, servers)).min(most_descriptors()),
            program: &experiment.programs.join(&peer.name),
        };
        fs::write(places.configuration(), places.fill(&peer.configuration))?;
        let (log, output) = log_file()?;
        let mut command = command(peer, &places);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).process_group(0);
        let child = pinned(&experiment.design.server_cpus, || command.spawn())?;
        Ok(Self { child, stop: peer.stop.signal(), address, log, _directory: directory })
    }

    fn await_readiness(&mut self, peer: &Peer) -> io::Result<()> {
        let patience = Duration::try_from_secs_f64(peer.start_seconds).unwrap_or(Duration::MAX);
        let begun = Instant::now();
        loop {
            let is_ready = match &peer.ready {
                Some(text) => read_log(&self.log).contains(text),
                None => answers(self.address, &peer.ask).is_ok_and(|answers| answers),
            };
            // Another process that took the port is not the server.
            if self.has_ended() {
                return Err(io::Error::other("it ended before it listened"));
            }
            if is_ready {
                return Ok(());
            }
            if begun.elapsed() > patience {
                let patience = patience.as_secs_f64();
                let problem = format!("it does not listen after {patience} s");
                return Err(io::Error::new(io::ErrorKind::TimedOut, problem));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether the first process has ended. The process is not reaped yet, so the number of its
    /// group stays valid.
    fn has_ended(&self) -> bool {
        !matches!(self.end(), Ok(None))
    }

    fn end(&self) -> rustix::io::Result<Option<WaitIdStatus>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(self.pid()), options)
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Server for Process {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn cpu(&mut self) -> io::Result<Duration> {
        if self.has_ended() {
            return Err(io::Error::other("it has ended"));
        }
        let tree = tree::of(self.child.id());
        counters::cpu_of_all(tree[0], &tree[1..])
    }

    fn cpu_with_ended_children(&mut self, living: Duration) -> io::Result<Duration> {
        Ok(living + tree::of_ended_children(&tree::of(self.child.id())))
    }

    fn counters(&mut self, with_memory: bool) -> io::Result<Counters> {
        if self.has_ended() {
            return Err(io::Error::other("it has ended"));
        }
        Ok(tree::counters(&tree::of(self.child.id()), with_memory))
    }

    fn memory(&mut self) -> io::Result<u64> {
        Ok(counters::private_memory(tree::of(self.child.id()).into_iter()))
    }

    fn last_words(&mut self, error: Option<&io::Error>) -> String {
        let how = match self.end() {
            Ok(Some(end)) => {
                format!("the server {}", ended_by(end.exit_status(), end.terminating_signal()))
            }
            _ => error.map_or(String::new(), ToString::to_string),
        };
        let words = last_words(&read_log(&self.log));
        words.map_or_else(|| how.clone(), |words| format!("{how}: {words}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A pidfd finds a process after it has left the group, and never means a later process with
        // the same number.
        let others: Vec<OwnedFd> = tree::of(self.child.id())
            .into_iter()
            .skip(1)
            .filter_map(|pid| {
                pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()
            })
            .collect();
        let _ = kill_process(self.pid(), self.stop);
        let deadline = Instant::now() + DRAIN;
        while !self.has_ended() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(2));
        }
        let _ = kill_process_group(self.pid(), Signal::KILL);
        for other in &others {
            let _ = pidfd_send_signal(other, Signal::KILL);
        }
        let _ = self.child.wait();
        // The next cell must have the processor for itself.
        let patience = Timespec { tv_sec: 1, tv_nsec: 0 };
        for other in &others {
            let _ = poll(&mut [PollFd::new(other, PollFlags::IN)], Some(&patience));
        }
    }
}

/// The most descriptors of a process, and so the most connections.
fn most_descriptors() -> usize {
    getrlimit(Resource::Nofile).maximum.map_or(usize::MAX, |most| most as usize)
}

/// The number of a balancer's connections to `servers`, besides its clients' connections: as many
/// again, plus the connections that it keeps for later.
fn to_servers(connections: usize, servers: &[SocketAddr]) -> usize {
    const KEPT: usize = 512;
    if servers.is_empty() { 0 } else { connections + KEPT }
}

/// The address without its port, in the form that configurations use.
fn host_of(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    }
}

/// Whether a connection to `address` succeeds, and gets an answer if there is a request.
fn answers(address: SocketAddr, ask: &str) -> io::Result<bool> {
    let patience = Duration::from_secs(1);
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    if ask.is_empty() {
        return Ok(true);
    }
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(ask.as_bytes())?;
    Ok(stream.read(&mut [0])? > 0)
}

/// The command that starts the peer.
fn command(peer: &Peer, places: &Places<'_>) -> Command {
    let mut words = peer.command.iter().map(|word| places.fill(word));
    let program = words.next().unwrap_or_default();
    let mut command = spawn::command(&program, peer.stop.name());
    command.args(words).current_dir(peer.folder.as_deref().unwrap_or(places.directory));
    command.envs(peer.environment.iter().map(|(name, value)| (name, places.fill(value))));
    command
}

impl Site {
    /// The directory of the peer's files, which may be a new one in `made`.
    fn put_into<'a>(&'a self, made: &'a Path) -> io::Result<&'a Path> {
        match self {
            Site::Directory(root) => Ok(root),
            Site::Files(files) => {
                fs::create_dir(made)?;
                files.iter().try_for_each(|(name, body)| fs::write(made.join(name), body))?;
                Ok(made)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::experiment::tests::experiment;
    use crate::record::Stop;

    /// A server with a child process, in a language that every Debian has.
    const SERVER: &str = "use IO::Socket::INET; $SIG{CHLD} = 'IGNORE';
        my $s = IO::Socket::INET->new(LocalAddr => $ARGV[0], Listen => 5, ReuseAddr => 1) or die 'no';
        if (!fork) { setpgrp; sleep 60 while 1; }
        $| = 1; print \"up and running\\n\"; while (my $c = $s->accept) { print $c \"hello\"; close $c; }";

    fn peer(command: &[&str]) -> Peer {
        Peer {
            name: "mine".into(),
            command: command.iter().map(|&word| word.to_owned()).collect(),
            build: vec![],
            configuration: String::new(),
            environment: [("ROOT".to_owned(), "{root}".to_owned())].into(),
            ready: None,
            ask: String::new(),
            start_seconds: 20.0,
            stop: Stop::Term,
            folder: None,
            remedy: String::new(),
        }
    }

    fn start(peer: &Peer) -> Result<Process, NoServer> {
        let key = CellKey { repeat: 0, subject: "mine".into(), concurrency: 1 };
        Process::start(&experiment(), &key, peer, &[])
    }

    #[test]
    fn a_peer_is_measured_and_ended_with_all_that_it_started() {
        for ready in [None, Some("running".to_owned())] {
            let peer = Peer { ready, ..peer(&["perl", "-e", SERVER, "{host}:{port}"]) };
            let mut process = start(&peer).unwrap();
            let mut reply = String::new();
            TcpStream::connect(process.address()).unwrap().read_to_string(&mut reply).unwrap();
            assert_eq!(reply, "hello");
            let counters = process.counters(true).unwrap();
            assert!(counters.cpu_us > 0 && counters.peak_bytes > 0, "{counters:?}");
            let tree = tree::of(process.child.id());
            assert_eq!(tree.len(), 2);
            drop(process);
            for pid in tree {
                let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                assert!(stat.is_empty() || stat.contains(") Z "), "{stat}");
            }
        }
    }

    #[test]
    fn what_goes_wrong_is_told() {
        let failure = |peer: &Peer| match start(peer) {
            Err(none) => none.failure().to_string(),
            Ok(_) => panic!("it started"),
        };
        assert_eq!(
            failure(&peer(&["no-such-server"])),
            "needs no-such-server: it is not on the PATH"
        );
        let ended = failure(&peer(&["sh", "-c", "echo no $0 in $ROOT >&2; exit 3", "{port"]));
        assert!(ended.contains("the server ended with exit code 3: no {port in /"), "{ended}");
        let slow = Peer { start_seconds: 0.05, ..peer(&["sleep", "60"]) };
        assert!(failure(&slow).contains("does not listen after 0.05 s"));
    }

    #[test]
    fn files_are_served_from_where_they_are_or_from_a_directory_of_their_own() {
        let directory = tempfile::tempdir().unwrap();
        let made = directory.path().join("made");
        let site = Site::Files(vec![("a.txt".into(), b"b".to_vec())]);
        let root = site.put_into(&made).unwrap();
        assert_eq!(fs::read(root.join("a.txt")).unwrap(), b"b");
        let site = Site::Directory(root.to_owned());
        assert_eq!(site.put_into(Path::new("/nowhere")).unwrap(), made);
    }
}
