//! Plan files: questions as data. docs/plans.md explains them; `plans/` has plans.
//!
//! ```toml
//! title = "Two echoes"
//! [defaults]                  # for all experiments; each may say otherwise
//! service = "echo"
//! [[experiment]]
//! name = "serial"
//! pattern = "serial"
//! [[experiment]]
//! name = "long"
//! pattern = "long"
//! peers = ["mine"]
//! [[peer]]                    # a server that is not ours
//! name = "mine"
//! command = ["my-echo", "{port}"]
//! ```
//!
//! [`parse`] is a pure function of the text. The parser treats the text as hostile and limits every
//! size. A [`Problem`] has its line and column. A mistake that depends on services and
//! architectures is a [`Misfit`], for which [`Entry::problem`] finds the position.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use super::peer::Definition;
use super::settings::{Misfit, Settings};
use super::values::duration;
use crate::names::did_you_mean_by;
use crate::record::Peer;

/// The largest plan that is read, in bytes.
pub const LARGEST: usize = 64 * 1024;
/// The most experiments that a plan may have.
const MOST_EXPERIMENTS: usize = 100;
/// The most peers that a plan may define.
const MOST_PEERS: usize = 100;
/// The longest title or source, in bytes.
const LONGEST_TITLE: usize = 1000;
/// The longest name of an experiment, in bytes.
const LONGEST_NAME: usize = 64;

/// A plan as written in its file.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The question that the plan asks.
    pub title: String,
    /// The source of the question. May be empty.
    pub source: String,
    /// The experiments to run, in this order. There is at least one, and their names differ.
    pub experiments: Vec<Entry>,
    /// The peers that the plan defines. Their names differ.
    pub peers: Vec<Peer>,
    /// The time that the whole plan may take, and the position of that value.
    pub budget: Option<(Duration, Position)>,
}

/// An experiment of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The experiment's name, which is also the name of a directory: letters, digits and dashes.
    pub name: String,
    /// The settings of the experiment, defaults included.
    pub settings: Settings,
    /// The position at which the table begins.
    position: Position,
    /// The position of each key's value.
    positions: BTreeMap<String, Position>,
}

/// A position in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// From 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

/// The error of a plan, its place and the remedy, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{position}: {message}")]
pub struct Problem {
    /// Where.
    pub position: Position,
    /// The problem, and the remedy.
    pub message: String,
}

impl Entry {
    /// An experiment of a plan that no file describes.
    pub(super) fn made(name: &str, settings: Settings) -> Self {
        let position = Position { line: 1, column: 1 };
        Self { name: name.to_owned(), settings, position, positions: BTreeMap::new() }
    }

    /// Turns a misfit of this experiment into a problem with a position.
    pub fn problem(&self, misfit: &Misfit) -> Problem {
        let position = self.positions.get(misfit.key).copied().unwrap_or(self.position);
        let message = match misfit.key {
            Misfit::WHOLE => misfit.problem.to_string(),
            key => format!("{key}: {}", misfit.problem),
        };
        Problem { position, message }
    }
}

/// The error of a file in TOML.
pub(crate) fn refused(text: &str, error: &toml::de::Error) -> Problem {
    Source(text).told(error, "")
}

/// Reads a plan.
///
/// # Errors
///
/// The first [`Problem`].
pub fn parse(text: &str) -> Result<Plan, Problem> {
    let source = Source(text);
    if text.len() > LARGEST {
        let problem = format!("{} bytes: a plan has at most {LARGEST}: split it", text.len());
        return Err(source.problem(0, problem));
    }
    let table = DeTable::parse(text).map_err(|error| source.refused(&error))?;
    let document = Document::deserialize(Deserializer::from(table.clone()))
        .map_err(|error| source.refused(&error))?;
    let table = table.get_ref();
    for (key, value) in [("title", &document.title), ("source", &document.source)] {
        let problem = match value.trim() {
            "" if key == "title" => "an empty title: say what is asked".to_owned(),
            _ if value.chars().any(char::is_control) => {
                "a title and a source are one line each".to_owned()
            }
            _ if value.len() > LONGEST_TITLE => {
                format!("more than {LONGEST_TITLE} bytes: say it shorter")
            }
            _ => continue,
        };
        let at = table.get(key).map_or(0, |value| value.span().start);
        return Err(source.problem(at, format!("{key}: {problem}")));
    }
    let defaults = source.defaults(table)?;
    let written = match table.get("experiment").map(Spanned::get_ref) {
        Some(DeValue::Array(experiments)) if !experiments.is_empty() => experiments,
        _ => {
            return Err(
                source.problem(text.len(), "there is nothing to measure: add an [[experiment]]")
            );
        }
    };
    if written.len() > MOST_EXPERIMENTS {
        let at = written[MOST_EXPERIMENTS].span().start;
        let problem = format!("a plan has at most {MOST_EXPERIMENTS} experiments: split it");
        return Err(source.problem(at, problem));
    }
    let experiments: Vec<Entry> = written
        .iter()
        .map(|experiment| source.experiment(experiment, &defaults))
        .collect::<Result<_, _>>()?;
    let mut names = BTreeSet::new();
    for experiment in &experiments {
        if !names.insert(&experiment.name) {
            let problem =
                format!("another experiment is called `{}`: choose another name", experiment.name);
            return Err(experiment.problem(&Misfit::new("name", problem)));
        }
    }
    let peers = match table.get("peer").map(Spanned::get_ref) {
        Some(DeValue::Array(written)) => source.peers(written)?,
        _ => Vec::new(),
    };
    let budget = document.budget.map(|budget| {
        let at = table.get("budget").map_or(0, |value| value.span().start);
        (budget, source.position(at))
    });
    let Document { title, source, .. } = document;
    Ok(Plan { title, source, experiments, peers, budget })
}

/// The keys at the top. The content of tables is checked later, when defaults and experiments are
/// combined.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    title: String,
    #[serde(default)]
    source: String,
    #[serde(default, deserialize_with = "duration")]
    budget: Option<Duration>,
    #[serde(default, rename = "constraints")]
    _constraints: BTreeMap<String, IgnoredAny>,
    #[serde(default, rename = "defaults")]
    _defaults: BTreeMap<String, IgnoredAny>,
    #[serde(default, rename = "experiment")]
    _experiments: Vec<BTreeMap<String, IgnoredAny>>,
    #[serde(default, rename = "peer")]
    _peers: Vec<BTreeMap<String, IgnoredAny>>,
}

/// The text of a plan, in which positions are found.
struct Source<'a>(&'a str);

impl Source<'_> {
    /// The defaults, for all experiments that do not override them.
    fn defaults<'a>(&self, table: &DeTable<'a>) -> Result<DeTable<'a>, Problem> {
        let mut defaults = match table.get("defaults").map(Spanned::get_ref) {
            Some(DeValue::Table(defaults)) => defaults.clone(),
            _ => DeTable::new(),
        };
        // Constraints apply to all experiments, wherever `[constraints]` stands.
        if let Some((key, constraints)) = table.get_key_value("constraints") {
            if defaults.contains_key("constraints") {
                let problem =
                    "constraints: they stand in [defaults], too: leave out one of the two";
                return Err(self.problem(key.span().start, problem));
            }
            defaults.insert(key.clone(), constraints.clone());
        }
        if let Some((key, _)) = defaults.get_key_value("name") {
            let problem =
                "name: each [[experiment]] has a name of its own, so there is no default for it";
            return Err(self.problem(key.span().start, problem));
        }
        Ok(defaults)
    }

    /// An experiment, with defaults for the settings that it omits.
    fn experiment(
        &self,
        written: &Spanned<DeValue<'_>>,
        defaults: &DeTable<'_>,
    ) -> Result<Entry, Problem> {
        let span = written.span();
        let position = self.position(span.start);
        let mut table = match written.get_ref() {
            DeValue::Table(table) => table.clone(),
            _ => {
                return Err(
                    self.problem(span.start, "an experiment is a table: write [[experiment]]")
                );
            }
        };
        for (key, value) in defaults {
            if !table.contains_key(key) {
                table.insert(key.clone(), value.clone());
            }
        }
        let name = self.name(table.get("name"), &span)?;
        let starts: Vec<(String, usize)> = table
            .iter()
            .map(|(key, value)| (key.get_ref().clone().into_owned(), value.span().start))
            .collect();
        table.remove("name");
        let settings = Settings::deserialize(Deserializer::from(Spanned::new(span, table)))
            .map_err(|error| self.refused(&error))?;
        // All keys are now known to be valid, so there are few.
        let positions = starts.into_iter().map(|(key, at)| (key, self.position(at))).collect();
        let experiment = Entry { name, settings, position, positions };
        experiment.settings.check().map_err(|misfit| experiment.problem(&misfit))?;
        Ok(experiment)
    }

    /// The peers that are defined.
    fn peers(&self, written: &[Spanned<DeValue<'_>>]) -> Result<Vec<Peer>, Problem> {
        if written.len() > MOST_PEERS {
            let at = written[MOST_PEERS].span().start;
            let problem = format!("a plan has at most {MOST_PEERS} peers: split it");
            return Err(self.problem(at, problem));
        }
        let mut peers: Vec<Peer> = Vec::new();
        for written in written {
            let DeValue::Table(table) = written.get_ref() else {
                return Err(self.problem(written.span().start, "a peer is a table: write [[peer]]"));
            };
            let whole = Spanned::new(written.span(), table.clone());
            let definition = Definition::deserialize(Deserializer::from(whole))
                .map_err(|error| self.refused(&error))?;
            let problem_of = |misfit: Misfit| {
                let value = table.get(misfit.key);
                let at = value.map_or(written.span().start, |value| value.span().start);
                self.problem(at, format!("{}: {}", misfit.key, misfit.problem))
            };
            let peer = definition.peer().map_err(problem_of)?;
            if peers.iter().any(|other| other.name == peer.name) {
                let problem = "another peer is called like this: choose another name";
                return Err(problem_of(Misfit::new("name", problem)));
            }
            peers.push(peer);
        }
        Ok(peers)
    }

    fn name(
        &self,
        value: Option<&Spanned<DeValue<'_>>>,
        table: &Range<usize>,
    ) -> Result<String, Problem> {
        let at = value.map_or(table.start, |value| value.span().start);
        let name = value.and_then(|value| value.get_ref().as_str());
        let right = |name: &&str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            (1..=LONGEST_NAME).contains(&name.len())
                && name.bytes().all(plain)
                && !name.starts_with('-')
        };
        name.filter(right).map(str::to_owned).ok_or_else(|| {
            let problem = format!(
                "name: an experiment needs a name of 1 to {LONGEST_NAME} letters, digits and \
                 dashes, as in name = \"serial-50\": its results go into a directory of that name"
            );
            self.problem(at, problem)
        })
    }

    /// The message of the TOML parser, in one line.
    fn refused(&self, error: &toml::de::Error) -> Problem {
        self.told(error, " (`duality plan new` explains every key)")
    }

    /// The message, with a hint.
    fn told(&self, error: &toml::de::Error, hint: &str) -> Problem {
        let message: Vec<&str> = error.message().lines().map(str::trim).collect();
        let at = error.span().map_or(0, |span| span.start);
        let message = message.join(", ");
        let meant = did_you_mean_by(&message);
        self.problem(at, format!("{message}{hint}{meant}"))
    }

    fn problem(&self, at: usize, message: impl Into<String>) -> Problem {
        Problem { position: self.position(at), message: message.into() }
    }

    fn position(&self, at: usize) -> Position {
        let before = &self.0.as_bytes()[..at.min(self.0.len())];
        let line_start =
            before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        Position {
            line: before.iter().filter(|byte| **byte == b'\n').count() + 1,
            // Counts characters. All bytes of a character except the first look like 0b10xx_xxxx.
            column: before[line_start..].iter().filter(|byte| **byte & 0xc0 != 0x80).count() + 1,
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.line, self.column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::store::Store;
    use crate::record::Stop;

    const PLAN: &str = r#"title = "Two echoes"
source = "nowhere"
[defaults]
service = "echo"
repeats = 3
window = "1s"
[[experiment]]
name = "serial-50"
pattern = "serial"
concurrency = [10, 50]
warm-up = "300ms"
[[experiment]]
name = "kept"
service = "guestbook"
store = "redis"
server-arguments = ["--workers=4"]
repeats = 1
"#;

    #[test]
    fn experiments_have_the_defaults_that_they_do_not_say() {
        let plan = parse(PLAN).unwrap();
        assert_eq!((plan.title.as_str(), plan.source.as_str()), ("Two echoes", "nowhere"));
        let [serial, kept] = plan.experiments.as_slice() else { panic!("{plan:?}") };
        assert_eq!(serial.name, "serial-50");
        let expected = Settings {
            service: Some("echo".into()),
            pattern: Some("serial".into()),
            concurrency: Some(vec![10, 50]),
            repeats: Some(3),
            warm_up: Some(Duration::from_millis(300)),
            window: Some(Duration::from_secs(1)),
            ..Settings::default()
        };
        assert_eq!(serial.settings, expected);
        let expected = Settings {
            service: Some("guestbook".into()),
            store: Some(Store::Redis),
            server_arguments: Some(vec!["--workers=4".into()]),
            repeats: Some(1),
            window: Some(Duration::from_secs(1)),
            ..Settings::default()
        };
        assert_eq!(kept.settings, expected);
    }

    #[test]
    fn variants_constraints_and_a_budget_are_read() {
        let plan = parse(
            "title = 'a'\nbudget = '10m'\n[constraints]\nslo = ['p99=5ms', 'p99.9=20ms']\n\
             memory = '200MB'\n[[experiment]]\nname = 'all'\narchitectures = ['epoll', \
             { name = 'ring', architecture = 'uthreads', options = ['--poller=uring'] }]\n\
             [[experiment]]\nname = 'own'\nconstraints = { memory = '1G' }",
        );
        let plan = plan.unwrap();
        assert_eq!(plan.budget, Some((Duration::from_secs(600), Position { line: 2, column: 10 })));
        let [all, own] = plan.experiments.as_slice() else { panic!("{plan:?}") };
        let [epoll, ring] = all.settings.architectures.as_deref().unwrap() else { panic!() };
        assert!(!epoll.is_variant() && ring.is_variant());
        assert_eq!((ring.architecture.as_str(), ring.options.len()), ("uthreads", 1));
        let limits =
            |experiment: &Entry| experiment.settings.constraints.as_ref().unwrap().to_string();
        assert_eq!(limits(all), "p99 ≤ 5.0 ms, p99.9 ≤ 20.0 ms and memory ≤ 191 MiB");
        assert_eq!(limits(own), "memory ≤ 1.0 GiB");
    }

    #[test]
    fn a_misfit_is_found_where_its_value_stands() {
        let plan = parse(PLAN).unwrap();
        let at = |index: usize, key| {
            plan.experiments[index].problem(&Misfit::new(key, "no")).to_string()
        };
        assert_eq!(at(0, "concurrency"), "10:15: concurrency: no");
        // An error in a default points to `[defaults]`. An error about a missing key points to the
        // experiment.
        assert_eq!(at(0, "service"), "4:11: service: no");
        assert_eq!(at(1, "concurrency"), "12:1: concurrency: no");
    }

    /// The test adds each text to a plan with one experiment, from line 4 on.
    const MISTAKES: &[(&str, &str, &str)] = &[
        ("[[experiment]]\nname = 'a'", "5:8", "choose another name"),
        ("sercice = 'echo'", "4:1", "expected one of `service`"),
        ("service = 1", "4:11", "expected a string"),
        ("concurrency = [10, 0]", "4:15", "from 1 to 1000000"),
        ("concurrency = [10, -1]", "4:20", "`-1`"),
        ("concurrency = [10, 10]", "4:15", "10 is there twice"),
        ("concurrency = []", "4:15", "name at least one"),
        ("concurrency = [1000001]", "4:15", "from 1 to 1000000"),
        ("repeats = 0", "4:11", "from 1 to 1000"),
        ("repeats = 99999999999999999999", "4:11", "99999999999999999999"),
        ("window = '1h'", "4:10", "10s, 500ms or 2m"),
        ("window = '0s'", "4:10", "a window of no length"),
        ("window = '49ms'", "4:10", "give 50ms or more"),
        ("warm-up = '1us'", "4:11", "give 10ms or more, or 0s for none"),
        ("warm-up = '1441m'", "4:11", "longer than a day"),
        ("store = 'postgres'", "4:9", "sqlite"),
        ("architectures = ['epoll', 'epoll']", "4:17", "epoll is there twice"),
        ("path = ''", "4:8", "leave it out"),
        ("architectures = [1]", "4:18", "an architecture, or a table with its name"),
        ("architectures = [{ name = 'a' }]", "4:18", "missing field `architecture`"),
        ("architectures = [{ name = 'a', port = 1 }]", "4:32", "expected one of `name`"),
        ("architectures = ['a', { name = 'a', architecture = 'b' }]", "4:17", "a is there twice"),
        ("architectures = [{ name = ' a', architecture = 'b' }]", "4:17", "without spaces"),
        ("constraints = { slo = ['p98=1ms'] }", "4:23", "p99.9"),
        ("constraints = { slo = ['p99.99=1ms'] }", "4:23", "do not keep p99.99"),
        ("constraints = { memory = '1TB' }", "4:26", "200MB"),
        ("constraints = { cpu = 1 }", "4:17", "expected `slo` or `memory`"),
        ("server-arguments = [\"a\\u0000\"]", "4:20", "NUL"),
    ];

    /// The test adds each peer to a plan with one experiment, from line 4 on.
    const WRONG_PEERS: &[(&str, &str, &str)] = &[
        ("name = 'm'", "4:1", "missing field `command`"),
        ("name = 'm m'\ncommand = ['{port}']", "5:8", "1 to 32 letters"),
        ("name = 'nginx'\ncommand = ['{port}']", "5:8", "a ready-made peer"),
        ("name = 'm'\ncommand = []", "6:11", "name the program"),
        ("name = 'm'\ncommand = ['m']", "6:11", "put {port} into it"),
        ("name = 'm'\ncommand = ['m', \"\\u0000\"]", "6:11", "NUL"),
        ("name = 'm'\ncommand = ['m']\nstop = 'HUP'", "7:8", "`TERM`"),
        ("name = 'm'\ncommand = ['m', '{port}']\nready = ''", "7:9", "leave `ready` out"),
        ("name = 'm'\ncommand = ['m', '{port}']\nready = 'a'\nask = 'b'", "8:7", "one of the two"),
        ("name = 'm'\ncommand = ['m', '{port}']\nstart-within = '11m'", "7:16", "10 minutes"),
        ("name = 'm'\ncommand = ['{program}', '{port}']", "6:11", "what `build` makes"),
        (
            "name = 'm'\ncommand = ['m', '{port}']\nbuild = ['cc', '-o', '{program}']",
            "6:11",
            "write it in both",
        ),
        (
            "name = 'm'\ncommand = ['{program}', '{port}']\nbuild = ['make']",
            "7:9",
            "put {program} into it",
        ),
        (
            "name = 'm'\ncommand = ['m', '{port}']\nenvironment = { '' = 'a' }",
            "7:15",
            "without `=`",
        ),
        (
            "name = 'm'\ncommand = ['{port}']\n[[peer]]\nname = 'm'\ncommand = ['{port}']",
            "8:8",
            "another peer",
        ),
    ];

    #[test]
    fn peers_are_defined() {
        let plan = parse(
            "title = 'a'\n[[experiment]]\nname = 'a'\npeers = ['m', 'nginx']\n[[peer]]\nname = 'm'\n\
             command = ['m']\nconfiguration = 'at {port}'\nready = 'up'\nstop = 'INT'\nstart-within = '2s'",
        );
        let plan = plan.unwrap();
        assert_eq!(plan.experiments[0].settings.peers, Some(vec!["m".into(), "nginx".into()]));
        let [peer] = plan.peers.as_slice() else { panic!("{plan:?}") };
        assert_eq!((peer.name.as_str(), peer.start_seconds), ("m", 2.0));
        assert_eq!((peer.stop, peer.ready.as_deref()), (Stop::Int, Some("up")));
        for (lines, position, says) in WRONG_PEERS {
            let text = format!("title = 'é'\n[[experiment]]\nname = 'a'\n[[peer]]\n{lines}");
            refused(&text, position, says);
        }
    }

    /// Whole plans.
    const WRONG_PLANS: &[(&str, &str, &str)] = &[
        ("", "1:1", "missing field `title`"),
        ("title = 1", "1:9", "expected a string"),
        ("title = ' '", "1:9", "say what is asked"),
        ("title = \"a\\nb\"", "1:9", "one line"),
        ("title = 'a'", "1:12", "add an [[experiment]]"),
        ("title = 'a'\ncaption = 1", "2:1", "expected one of `title`, `source`, `budget`"),
        ("title = 'a'\nsource", "2:7", "="),
        ("title = 'a'\nexperiment = 1", "2:14", "expected a sequence"),
        ("title = 'a'\nexperiment = [1]", "2:15", "expected a map"),
        ("title = 'a'\ndefaults = 1", "2:12", "expected a map"),
        ("title = 'a'\nbudget = 'soon'", "2:10", "10s, 500ms or 2m"),
        ("title = 'a'\nconstraints = 1", "2:15", "expected a map"),
        (
            "title = 'a'\n[constraints]\nmemory = '1M'\n[defaults]\nconstraints = {}",
            "2:2",
            "leave out one",
        ),
        ("title = 'a'\n[defaults]\nname = 'b'", "3:1", "name of its own"),
        ("title = 'a'\n[[experiment]]", "2:1", "needs a name"),
        ("title = 'a'\n[[experiment]]\nname = '../b'", "3:8", "letters, digits"),
        ("title = 'a'\n[[experiment]]\nname = '-b'", "3:8", "letters, digits"),
    ];

    #[test]
    fn each_mistake_is_told_with_its_position_and_remedy() {
        for (lines, position, says) in MISTAKES {
            refused(&format!("title = 'é'\n[[experiment]]\nname = 'a'\n{lines}"), position, says);
        }
        for (text, position, says) in WRONG_PLANS {
            refused(text, position, says);
        }
        refused("title = 'é' also", "1:13", "");
    }

    #[test]
    fn what_is_too_much_is_refused() {
        let many = "[[experiment]]\nname = 'a'\n".repeat(101);
        refused(&format!("title = 'a'\n{many}"), "202:1", "split it");
        refused(&format!("title = '{}'", "x".repeat(LARGEST)), "1:1", "split it");
        refused(&format!("title = {}", "[".repeat(LARGEST / 2)), "1:89", "recurs");
        let long = "x".repeat(5000);
        refused(
            &format!("title = 'a'\n[[experiment]]\nname = 'a'\nroot = '{long}'"),
            "4:8",
            "4096",
        );
    }

    fn refused(text: &str, position: &str, says: &str) {
        let error = parse(text).unwrap_err().to_string();
        let shown: String = text.chars().take(100).collect();
        assert!(error.starts_with(&format!("{position}: ")), "{shown}: {error}");
        assert!(error.contains(says), "{shown}: {error}");
        assert!(!error.contains('\n'), "{shown}: {error}");
    }
}
