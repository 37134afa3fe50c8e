//! The peers that a plan defines, as the plan writes them:
//!
//! ```toml
//! [[peer]]
//! name = "caddy"
//! command = ["caddy", "run", "--adapter=caddyfile", "--config={configuration}"]
//! configuration = """
//! http://{host}:{port}
//! root * {root}
//! file_server
//! """
//! environment = { HOME = "{directory}" }
//! start-within = "5s"
//!
//! [[peer]]
//! name = "mine"
//! build = ["cc", "-O2", "{plan}/mine.c", "-o", "{program}"]
//! command = ["{program}", "{port}"]
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::settings::Misfit;
use super::values::{LONGEST_TEXT, duration, too_long, without_nul};
use crate::measure::peers::{PROGRAM, ReadyMade, built};
use crate::record::{Peer, Stop};

/// The most words of a command, and the most variables of an environment.
const MOST_WORDS: usize = 100;
/// The longest name of a peer, in bytes.
const LONGEST_NAME: usize = 32;
/// The default time in which a peer must begin to listen.
const START_WITHIN: Duration = Duration::from_secs(10);
/// The longest such time that a plan may set, in minutes.
const LONGEST_START_MINUTES: u64 = 10;

/// A peer as written in a plan.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Definition {
    name: String,
    command: Vec<String>,
    #[serde(default)]
    build: Vec<String>,
    #[serde(default)]
    configuration: String,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    #[serde(default)]
    ready: Option<String>,
    #[serde(default)]
    ask: String,
    #[serde(default, deserialize_with = "duration")]
    start_within: Option<Duration>,
    #[serde(default)]
    stop: Stop,
}

impl Definition {
    /// The peer that the table describes.
    pub(super) fn peer(self) -> Result<Peer, Misfit> {
        let is_built = self.command.iter().any(|word| word.contains("{peers}"));
        let start = self.start_within.unwrap_or(START_WITHIN);
        let peer = Peer {
            name: self.name,
            command: self.command.iter().map(|word| on_this_machine(word)).collect(),
            build: self.build.iter().map(|word| on_this_machine(word)).collect(),
            configuration: self.configuration,
            environment: self.environment,
            ready: self.ready,
            ask: self.ask,
            start_seconds: start.as_secs_f64(),
            stop: self.stop,
            folder: None,
            remedy: if is_built { "build it by `cargo xtask peers`".into() } else { String::new() },
        };
        match problem(&peer, start) {
            Some((key, problem)) => Err(Misfit::new(key, problem)),
            None => Ok(peer),
        }
    }
}

/// Replaces `{duality}` in a word by this program, and `{peers}` by the folder that `cargo xtask
/// peers` has filled.
fn on_this_machine(word: &str) -> String {
    let this = std::env::current_exe().unwrap_or_default().display().to_string();
    // If the folder does not exist, the error names the missing program as written.
    let peers = built().map_or("{peers}".to_owned(), |folder| folder.display().to_string());
    word.replace("{duality}", &this).replace("{peers}", &peers)
}

/// Makes the error of a key, with the remedy.
fn problem(peer: &Peer, start: Duration) -> Option<(&'static str, String)> {
    too_much(peer, start).or_else(|| {
        let (key, problem) = nonsense(peer)?;
        Some((key, problem.to_owned()))
    })
}

/// Finds the field that is beyond a limit.
fn too_much(peer: &Peer, start: Duration) -> Option<(&'static str, String)> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let name = peer.name.as_str();
    if !(1..=LONGEST_NAME).contains(&name.len()) || !name.bytes().all(plain) {
        let problem =
            format!("a peer has a name of 1 to {LONGEST_NAME} letters, digits, dashes and dots");
        return Some(("name", problem));
    }
    let most = [peer.command.len(), peer.build.len(), peer.environment.len()];
    if most.iter().any(|count| *count > MOST_WORDS) {
        let problem = format!(
            "at most {MOST_WORDS} words, and {MOST_WORDS} variables: put them into a script"
        );
        return Some(("command", problem));
    }
    let mut texts = peer.texts().chain(&peer.build).chain(peer.environment.keys());
    if let Some(problem) = texts.find_map(|text| without_nul(text).err()) {
        return Some(("command", problem.to_string()));
    }
    let mut words = peer.command.iter().chain(&peer.build).chain(peer.environment.values());
    if words.any(|text| text.len() > LONGEST_TEXT) {
        return Some(("command", too_long().to_string()));
    }
    if start.is_zero() || start > Duration::from_secs(60 * LONGEST_START_MINUTES) {
        let problem = format!("give a time of up to {LONGEST_START_MINUTES} minutes");
        return Some(("start-within", problem));
    }
    None
}

/// Finds fields that contradict each other, or are missing.
fn nonsense(peer: &Peer) -> Option<(&'static str, &'static str)> {
    if ReadyMade::named(&peer.name).is_some() {
        return Some(("name", "a ready-made peer has this name: choose another name"));
    }
    if peer.command.first().is_none_or(String::is_empty) {
        return Some((
            "command",
            "name the program, and its arguments, as in [\"caddy\", \"run\"]",
        ));
    }
    let names_it = |words: &[String]| words.iter().any(|word| word.contains(PROGRAM));
    if !peer.build.is_empty() && !names_it(&peer.build) {
        return Some(("build", "the command does not say what to make: put {program} into it"));
    }
    if names_it(&peer.command) != names_it(&peer.build) {
        return Some((
            "command",
            "{program} is what `build` makes: write it in both, or in neither of them",
        ));
    }
    if peer.environment.keys().any(|name| name.is_empty() || name.contains('=')) {
        return Some(("environment", "a variable has a name without `=`"));
    }
    if !peer.texts().any(|text| text.contains("{port}")) {
        return Some(("command", "the command does not say where to listen: put {port} into it"));
    }
    if peer.ready.as_ref().is_some_and(|text| text.trim().is_empty() || text.contains('\n')) {
        return Some((
            "ready",
            "give a part of the line that the peer writes when it listens, or leave `ready` out",
        ));
    }
    if peer.ready.is_some() && !peer.ask.is_empty() {
        return Some(("ask", "`ready` and `ask` exclude each other: leave out one of the two"));
    }
    None
}
