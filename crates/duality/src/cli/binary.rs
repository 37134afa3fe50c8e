//! `duality compare --binary`: a server given by its command line, natively and on user-level threads.
//!
//! The subjects are [`Way`]s to run one server. A further way is one more entry of [`Binary::ways`].

use std::collections::BTreeMap;
use std::env;
use std::path::Path;
use std::time::Duration;

use duality_lab::peers::{Peer, Stop};
use duality_lab::plan::Plan;
use duality_lab::plan::settings::Settings;

use super::{Failure, Tuning};
use crate::run::{self, Program, Verdict};

/// How long the server may take until it listens.
const START_SECONDS: f64 = 20.0;

/// Two subjects leave time for more sessions of fresh servers than many do. A verdict needs these.
const SESSIONS: usize = 8;

/// The flags of `duality compare` that `duality run` has too.
const OF_RUN: [&str; 2] = ["--cores", "--stack-size"];

/// A command line, as words.
#[derive(Clone, Debug)]
pub(super) struct Words(pub(super) Vec<String>);

impl Words {
    /// Splits a command line as a shell does.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match shlex::split(text) {
            Some(words) if !words.is_empty() => Ok(Self(words)),
            Some(_) => Err("no command is given: name a program and its arguments".to_owned()),
            None => Err("a quote is not closed: close it".to_owned()),
        }
    }
}

/// A server given by its command line.
pub(super) struct Binary {
    words: Vec<String>,
    path: Option<String>,
    /// Arguments of `duality run` before the program.
    options: Vec<String>,
}

/// A way to run the server.
struct Way {
    /// What it is called in results.
    name: &'static str,
    command: Vec<String>,
}

impl Binary {
    /// The server of `command`, whose clients ask for `url`. `tuning` and `tick` set up `duality run`.
    ///
    /// # Errors
    ///
    /// The command or a flag makes no sense, or the program cannot run on user-level threads.
    pub(super) fn new(
        command: &str,
        url: Option<&str>,
        tuning: Tuning,
        tick: Option<Duration>,
    ) -> Result<Self, Failure> {
        let Words(words) = Words::parse(command)
            .map_err(|problem| Failure::misuse(format!("--binary: {problem}")))?;
        if !command.contains("{port}") {
            return Err(Failure::misuse(
                "--binary: the server is not told where to listen: put {port} into the command",
            ));
        }
        check(&words[0])?;
        Ok(Self { words, path: url.map(path_of).transpose()?, options: options(tuning, tick)? })
    }

    /// Has `settings` compare the ways to run the server, and returns them as peers.
    ///
    /// # Errors
    ///
    /// This program or the working directory cannot be found.
    pub(super) fn put_into(&self, settings: &mut Settings) -> Result<Vec<Peer>, Failure> {
        settings.service = Some("http".to_owned());
        settings.architectures = Some(Vec::new());
        settings.repeats.get_or_insert(SESSIONS);
        if let Some(path) = &self.path {
            settings.path = Some(path.clone());
        }
        let here = env::current_dir()
            .map_err(|error| Failure::failed(format!("the working directory: {error}")))?;
        let peers: Vec<Peer> = self.ways()?.into_iter().map(|way| peer(way, &here)).collect();
        settings.peers = Some(peers.iter().map(|peer| peer.name.clone()).collect());
        Ok(peers)
    }

    /// The ways to run the server, in the order in which they are shown.
    fn ways(&self) -> Result<Vec<Way>, Failure> {
        let this = env::current_exe()
            .map_err(|error| Failure::failed(format!("this program's own file: {error}")))?;
        let run = [this.to_string_lossy().into_owned(), "run".to_owned()];
        let run = [&run[..], &self.options, &["--".to_owned()], &self.words].concat();
        Ok(vec![
            Way { name: "native", command: self.words.clone() },
            Way { name: "duality-run", command: run },
        ])
    }

    /// A plan whose service is called as the program where a load command speaks the program's own protocol.
    pub(super) fn named(&self, mut plan: Plan) -> Plan {
        if plan.design.load_command.is_some() {
            let name = Path::new(&self.words[0]).file_name().unwrap_or_default();
            plan.design.service = name.to_string_lossy().into_owned();
        }
        plan
    }
}

/// What `duality run` is told before the program.
fn options(tuning: Tuning, tick: Option<Duration>) -> Result<Vec<String>, Failure> {
    let mut options = tuning.given();
    let name = |option: &String| option.split('=').next().unwrap_or_default().to_owned();
    if let Some(other) = options.iter().map(name).find(|name| !OF_RUN.contains(&name.as_str())) {
        return Err(Failure::misuse(format!(
            "{other}: this is about servers of ours: leave it out, or put the server's own option into --binary"
        )));
    }
    options.extend(tick.map(|tick| format!("--tick={}us", tick.as_micros())));
    Ok(options)
}

/// Refuses a program that `duality run` would refuse, before anything is measured.
fn check(name: &str) -> Result<(), Failure> {
    if let Some(reason) = run::unsupported() {
        return Err(Failure::misuse(reason));
    }
    let path = run::find(name.as_ref())
        .filter(|path| path.exists())
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

/// A way as a peer that runs in the folder `here`, where relative paths of the command line lie.
fn peer(way: Way, here: &Path) -> Peer {
    Peer {
        name: way.name.to_owned(),
        command: way.command,
        configuration: String::new(),
        environment: BTreeMap::new(),
        ready: None,
        ask: String::new(),
        start_seconds: START_SECONDS,
        stop: Stop::Term,
        folder: Some(here.to_owned()),
        remedy: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binary(command: &str) -> Result<Binary, Failure> {
        Binary::new(command, None, Tuning::default(), None)
    }

    #[test]
    fn a_url_gives_its_path() {
        assert_eq!(path_of("http://127.0.0.1:{port}/a?b").expect("a path"), "/a?b");
        assert_eq!(path_of("http://127.0.0.1:{port}").expect("a path"), "/");
        assert!(path_of("http://example.org/").is_err());
    }

    #[test]
    fn a_command_names_the_port() {
        assert!(binary("/bin/sh -c true").is_err());
        assert!(binary("/bin/sh 'open {port}").is_err());
        let mut settings = Settings::default();
        let binary = binary("/bin/sh -c 'serve {port}'").expect("right");
        let peers = binary.put_into(&mut settings).expect("two");
        assert_eq!(peers[0].command, ["/bin/sh", "-c", "serve {port}"]);
        assert_eq!(peers[1].command[1..], ["run", "--", "/bin/sh", "-c", "serve {port}"]);
        assert_eq!(settings.peers.expect("two"), ["native", "duality-run"]);
    }

    #[test]
    fn options_of_run_are_passed_on_and_others_refused() {
        let tuning = |given: &[&str]| {
            Tuning::parse(&given.iter().map(|&one| one.to_owned()).collect::<Vec<_>>())
        };
        let right = tuning(&["--cores=2", "--stack-size=64K"]).expect("right");
        let tick = Some(Duration::from_millis(2));
        let given = options(right, tick).expect("right");
        assert_eq!(given, ["--cores=2", "--stack-size=65536", "--tick=2000us"]);
        assert_eq!(options(Tuning::default(), None).expect("right"), [""; 0]);
        let wrong = options(tuning(&["--workers=3"]).expect("right"), None).unwrap_err();
        assert!(wrong.to_string().starts_with("--workers: "), "{wrong}");
    }
}
