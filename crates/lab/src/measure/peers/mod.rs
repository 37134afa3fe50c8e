//! Peers: servers that are not ours, measured in the same experiment.
//!
//! A [`Peer`] is a command line and the facts that the lab must know about it. The peers of
//! [`READY_MADE`] come with their configuration. Plans define other peers
//! ([`[[peer]]`](mod@crate::ask::file)). Command, configuration and environment may have
//! placeholders, which each cell fills in:
//!
//! | placeholder | is |
//! | --- | --- |
//! | `{host}`, `{port}` | where it is to listen |
//! | `{directory}` | a new directory of its own |
//! | `{configuration}` | the file in it with the peer's configuration |
//! | `{root}` | the directory with the files that it is to serve |
//! | `{certificate}`, `{key}` | in experiments with TLS: the files of its certificate and key |
//! | `{connections}` | for how many connections it is to have room |
//! | `{program}` | what its own build has made |
//! | `{server}`, `{number}` | of a balancer: a server and its number, on a line for each server |
//! | `{upstream}` | of a relay: the first server behind it |
//! | `{plan}` | the folder of the plan that defines it, in its commands alone |

mod balancers;
mod build;
mod ready_made;

use std::env;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

pub(crate) use balancers::balancer;
pub(crate) use build::PROGRAM;
pub use build::build;
pub(crate) use ready_made::disclosure;
pub use ready_made::{READY_MADE, REQUESTS_A_CONNECTION, ReadyMade};

use crate::measure::certificate::Certificate;
use crate::record::Peer;

/// How `cargo xtask peers` builds the programs of peers/.
pub(super) const BUILT: &str = "C: cc -std=gnu11 -O2, no LTO; Go: go build";

/// Whether a peer is a program that `cargo xtask peers` builds.
pub(super) fn is_of_workspace(peer: &Peer) -> bool {
    let folder = built().map(|folder| folder.display().to_string());
    let is_there = |word: &String| folder.as_ref().is_some_and(|folder| word.starts_with(folder));
    peer.command.first().is_some_and(is_there)
}

/// The folders of servers that are not on a user's path.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

impl Peer {
    /// If the program is missing: the reason, and the remedy.
    pub fn missing(&self) -> Option<String> {
        let program = self.command.first().map_or("", String::as_str);
        // A program that is not built yet needs the command that builds it.
        let maker = self.build.first().filter(|_| program == PROGRAM);
        let program = maker.map_or(program, String::as_str);
        if find(program).is_some() {
            return None;
        }
        let remedy = if self.remedy.is_empty() { "it is not on the PATH" } else { &self.remedy };
        Some(format!("needs {program}: {remedy}"))
    }

    /// A copy of the peer in which the folder of its plan replaces `{plan}` in its commands.
    #[must_use]
    pub fn beside(&self, folder: &Path) -> Self {
        // The folder of a file that is given without a folder.
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let folder = folder.to_string_lossy();
        let filled = |words: &[String]| -> Vec<String> {
            words.iter().map(|word| word.replace("{plan}", &folder)).collect()
        };
        Self { command: filled(&self.command), build: filled(&self.build), ..self.clone() }
    }

    /// Every text that may have a placeholder.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &String> {
        self.command.iter().chain([&self.configuration]).chain(self.environment.values())
    }
}

/// A program on the path, or in the folders of servers. A name with a slash is itself a path.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| path.is_file());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(SYSTEM_FOLDERS.map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|path| !program.is_empty() && path.is_file())
}

/// The folder into which `cargo xtask peers` builds, beside the folder of this executable. For an
/// installed executable, the folder is `target` of the working directory.
pub fn built() -> Option<PathBuf> {
    let executable = env::current_exe().ok()?;
    // target/release/duality, or target/release/deps/costs-… for a benchmark.
    let beside = executable.ancestors().skip(2).take(2).map(Path::to_owned);
    let here = env::current_dir().ok().map(|folder| folder.join("target"));
    beside.chain(here).map(|folder| folder.join("peers")).find(|peers| peers.is_dir())
}

/// The values of the placeholders in a cell.
pub(crate) struct Places<'a> {
    pub(crate) host: &'a str,
    pub(crate) port: u16,
    /// The servers behind the balancer.
    pub(crate) servers: &'a [SocketAddr],
    pub(crate) directory: &'a Path,
    pub(crate) root: &'a Path,
    pub(crate) certificate: Option<&'a Certificate>,
    pub(crate) connections: usize,
    /// The program that the peer's build has made.
    pub(crate) program: &'a Path,
}

/// The place of the first server behind a relay.
const UPSTREAM: &str = "{upstream}";

impl Places<'_> {
    /// `text` with its placeholders filled in. Other text in braces is the peer's own.
    pub(crate) fn fill(&self, text: &str) -> String {
        let directory = self.directory.display().to_string();
        let file = |of: fn(&Certificate) -> PathBuf| {
            self.certificate.map_or_else(String::new, |own| of(own).display().to_string())
        };
        let values = [
            ("{host}", self.host.to_owned()),
            ("{port}", self.port.to_string()),
            ("{configuration}", self.configuration().display().to_string()),
            ("{root}", self.root.display().to_string()),
            ("{connections}", self.connections.to_string()),
            ("{certificate}", file(Certificate::chain)),
            ("{key}", file(Certificate::key)),
            (PROGRAM, self.program.display().to_string()),
            ("{directory}", directory),
            (UPSTREAM, self.servers.first().map_or(UPSTREAM.into(), SocketAddr::to_string)),
        ];
        let text = self.for_each_server(text);
        values.iter().fold(text, |text, (name, value)| text.replace(name, value))
    }

    /// `text` with a line that names `{server}` once for each server.
    fn for_each_server(&self, text: &str) -> String {
        const SERVER: &str = "{server}";
        if self.servers.is_empty() || !text.contains(SERVER) {
            return text.to_owned();
        }
        let lines = text.split_inclusive('\n').map(|line| match line.contains(SERVER) {
            false => line.to_owned(),
            true => (self.servers.iter().enumerate())
                .map(|(number, server)| {
                    let number = (number + 1).to_string();
                    line.replace(SERVER, &server.to_string()).replace("{number}", &number)
                })
                .collect(),
        });
        lines.collect()
    }

    /// The file that holds the configuration.
    pub(crate) fn configuration(&self) -> PathBuf {
        self.directory.join("configuration")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_in_and_nothing_else_is() {
        let places = Places {
            host: "127.0.0.1",
            port: 81,
            servers: &[],
            directory: Path::new("/d"),
            root: Path::new("/r"),
            certificate: None,
            connections: 42,
            program: Path::new("/p"),
        };
        let text = "listen {host}:{port}; { {root} {connections} } {configuration} {directory}/x {y} {program}";
        let filled = "listen 127.0.0.1:81; { /r 42 } /d/configuration /d/x {y} /p";
        assert_eq!(places.fill(text), filled);
        let servers = ["10.0.0.1:80".parse().unwrap(), "10.0.0.2:81".parse().unwrap()];
        let places = Places { servers: &servers, ..places };
        assert_eq!(places.fill("--to {upstream}"), "--to 10.0.0.1:80");
        let text = "a {\n  s{number} {server};\n}";
        assert_eq!(places.fill(text), "a {\n  s1 10.0.0.1:80;\n  s2 10.0.0.2:81;\n}");
    }

    #[test]
    fn what_is_not_there_is_told_with_the_remedy() {
        let nginx = READY_MADE.iter().find(|ready| ready.name == "nginx").unwrap();
        let peer = Peer { command: vec!["no-such-server".into()], ..nginx.peer(false) };
        assert_eq!(peer.missing().unwrap(), "needs no-such-server: apt-get install nginx-light");
        let shell = Peer { command: vec!["sh".into()], ..peer };
        assert_eq!(shell.missing(), None);
    }
}
