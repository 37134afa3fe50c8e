//! `duality compare --binary`: a server given by its command line, natively and on user-level threads.

use std::collections::BTreeMap;
use std::path::Path;

use duality_lab::peers::{Peer, Stop};
use duality_lab::plan::settings::Settings;

use super::Failure;
use crate::run::{self, Program, Verdict};

/// How long the server may take until it listens.
const START_SECONDS: f64 = 20.0;

/// Two subjects leave time for more sessions of fresh servers than many do, and with these for a verdict.
const SESSIONS: usize = 8;

/// Has `settings` compare the server with itself, and returns the two subjects.
///
/// # Errors
///
/// The command is not one, or cannot run on user-level threads.
pub(super) fn put_into(
    settings: &mut Settings,
    command: &str,
    url: Option<&str>,
) -> Result<Vec<Peer>, Failure> {
    let words = shlex::split(command)
        .filter(|words| !words.is_empty())
        .ok_or_else(|| Failure::misuse("--binary: a quote is not closed, or nothing is there"))?;
    if !command.contains("{port}") {
        return Err(Failure::misuse(
            "--binary: the server is not told where to listen: put {port} into the command",
        ));
    }
    check(&words[0])?;
    settings.service = Some("http".to_owned());
    settings.architectures = Some(Vec::new());
    settings.repeats.get_or_insert(SESSIONS);
    if let Some(url) = url {
        settings.path = Some(path_of(url)?);
    }
    let this = std::env::current_exe()
        .map_err(|error| Failure::failed(format!("this program's own file: {error}")))?;
    let ours = [this.to_string_lossy().into_owned(), "run".into(), "--".into()];
    let peers = [("native", Vec::new()), ("duality-run", ours.to_vec())];
    let peers = peers.map(|(name, before)| peer(name, [before, words.clone()].concat()));
    settings.peers = Some(peers.iter().map(|peer| peer.name.clone()).collect());
    Ok(peers.to_vec())
}

/// Refuses a program that `duality run` would refuse, before anything is measured.
fn check(name: &str) -> Result<(), Failure> {
    if let Some(reason) = run::unsupported() {
        return Err(Failure::misuse(reason));
    }
    let path = run::find(name.as_ref())
        .filter(|path| Path::new(path).exists())
        .ok_or_else(|| Failure::misuse(format!("--binary: {name}: no such program")))?;
    let program = Program::open(path).map_err(Failure::misuse)?;
    match program.verdict().map_err(Failure::misuse)? {
        Verdict::Works => Ok(()),
        Verdict::Refused(reason) => Err(Failure::misuse(format!("--binary: {reason}"))),
    }
}

/// The path of `http://127.0.0.1:{port}/path`.
fn path_of(url: &str) -> Result<String, Failure> {
    let rest = url.strip_prefix("http://127.0.0.1:{port}");
    match rest {
        Some("") => Ok("/".to_owned()),
        Some(path) if path.starts_with('/') => Ok(path.to_owned()),
        _ => Err(Failure::misuse(format!(
            "--url: {url}: write http://127.0.0.1:{{port}}/ and the path"
        ))),
    }
}

fn peer(name: &str, command: Vec<String>) -> Peer {
    Peer {
        name: name.to_owned(),
        command,
        configuration: String::new(),
        environment: BTreeMap::new(),
        ready: None,
        ask: String::new(),
        start_seconds: START_SECONDS,
        stop: Stop::Term,
        remedy: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_gives_its_path() {
        assert_eq!(path_of("http://127.0.0.1:{port}/a?b").expect("a path"), "/a?b");
        assert_eq!(path_of("http://127.0.0.1:{port}").expect("a path"), "/");
        assert!(path_of("http://example.org/").is_err());
    }

    #[test]
    fn a_command_names_the_port() {
        let mut settings = Settings::default();
        assert!(put_into(&mut settings, "/bin/sh -c true", None).is_err());
        assert!(put_into(&mut settings, "/bin/sh 'open {port}", None).is_err());
        let peers = put_into(&mut settings, "/bin/sh -c 'serve {port}'", None).expect("two");
        assert_eq!(peers[0].command, ["/bin/sh", "-c", "serve {port}"]);
        assert_eq!(peers[1].command[1..], ["run", "--", "/bin/sh", "-c", "serve {port}"]);
    }
}
