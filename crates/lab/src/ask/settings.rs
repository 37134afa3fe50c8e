//! What an experiment asks for, in the words that plan files (their keys) and `duality compare`
//! (its flags) share.
//!
//! Everything is optional: what is not said has a default, which may depend on the service.
//! [`check`] finds what makes no sense whatever the service is; who knows the services checks the
//! rest.
//!
//! [`check`]: Settings::check

use std::collections::BTreeSet;
use std::fmt::Display;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};

use super::clients;
use super::variant::Choice;
use crate::measure::load_command;
use crate::measure::store::Store;
use crate::record::Constraints;
pub use crate::units::{parse_bytes, parse_duration, parse_slo};

/// The most values that a list may hold.
const MOST_VALUES: usize = 100;
/// The most connections that can be asked for.
const MOST_CONNECTIONS: usize = 1_000_000;
/// The most repeats of a cell.
const MOST_REPEATS: usize = 1000;
/// The most blocks of a session.
const MOST_BLOCKS: usize = 100_000;
/// The most bytes of a text.
pub(super) const LONGEST_TEXT: usize = 4096;
/// The longest warm-up or window.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// The shortest window: in less, a server is not in a steady state, and a tick of the machine is a
/// tenth of what is counted.
const SHORTEST_WINDOW: Duration = Duration::from_millis(50);
/// The shortest warm-up that warms anything up; none at all is 0.
const SHORTEST_WARM_UP: Duration = Duration::from_millis(10);

/// What an experiment asks for.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Settings {
    /// The service that is served.
    pub service: Option<String>,
    /// How clients behave.
    pub pattern: Option<String>,
    /// How many requests a second are made, on average, by the pattern `open`.
    pub rate: Option<f64>,
    /// The process by which requests arrive in the pattern `open`.
    pub arrivals: Option<String>,
    /// The waits between its arrivals.
    pub wait: Option<Waits>,
    /// How long sinusoidal waits take to swing to and fro once.
    #[serde(deserialize_with = "duration")]
    pub period: Option<Duration>,
    /// How many further connections say nothing.
    pub idle: Option<usize>,
    /// How many further connections take their replies slowly.
    pub slow_readers: Option<usize>,
    /// How many further connections make their requests slowly.
    pub slow_senders: Option<usize>,
    /// How many addresses the connections come from.
    pub sources: Option<NonZeroU32>,
    /// The architectures, in the order in which they are shown.
    pub architectures: Option<Vec<Choice>>,
    /// The servers that are not ours, shown after the architectures.
    pub peers: Option<Vec<String>>,
    /// Whether an architecture is measured once more, as a control.
    pub control: Option<bool>,
    /// The command that makes the load, in place of the load generator.
    pub load_command: Option<Vec<String>>,
    /// The numbers of connections that are open at once.
    pub concurrency: Option<Vec<usize>>,
    /// Whether each request has a connection of its own.
    pub close: Option<bool>,
    /// How often each cell is measured.
    pub repeats: Option<usize>,
    /// How many blocks of slices follow the windows of a session; 0 has servers measured in turn.
    pub blocks: Option<usize>,
    /// What is dropped before each measurement.
    #[serde(deserialize_with = "duration")]
    pub warm_up: Option<Duration>,
    /// How long each cell is measured.
    #[serde(deserialize_with = "duration")]
    pub window: Option<Duration>,
    /// Decides the order of the cells.
    pub seed: Option<u64>,
    /// The path that an HTTP client asks for.
    pub path: Option<String>,
    /// The directory whose files the servers serve.
    pub root: Option<PathBuf>,
    /// The directory of the servers' templates.
    pub templates: Option<PathBuf>,
    /// Where the servers keep what they are told.
    pub store: Option<Store>,
    /// How the servers talk to Redis.
    pub redis_calls: Option<String>,
    /// The file that the servers of `blocks` read and write.
    pub data: Option<PathBuf>,
    /// Bytes of that file.
    pub data_size: Option<u64>,
    /// Bytes that each request reads.
    pub read_size: Option<u64>,
    /// Further arguments of the servers.
    pub server_arguments: Option<Vec<String>>,
    /// The processors of the servers.
    pub server_cpus: Option<Vec<usize>>,
    /// The processors of the load generator.
    pub client_cpus: Option<Vec<usize>>,
    /// What must be kept to be recommended.
    pub constraints: Option<Constraints>,
    /// The subject that runs today.
    pub current: Option<String>,
}

/// A setting that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Its key.
    pub key: &'static str,
    /// What is wrong with it, and the remedy.
    pub problem: String,
}

impl Misfit {
    /// The key of what lies in no single setting, but in what they are together.
    pub const WHOLE: &str = "";

    /// A problem with the value of `key`.
    pub fn new(key: &'static str, problem: impl Into<String>) -> Self {
        Self { key, problem: problem.into() }
    }
}

impl Settings {
    /// Finds what makes no sense whatever the service is.
    ///
    /// # Errors
    ///
    /// The first [`Misfit`].
    pub fn check(&self) -> Result<(), Misfit> {
        // Their names are those of cells.
        let names: Option<Vec<&str>> = self
            .architectures
            .as_ref()
            .map(|all| all.iter().map(|choice| choice.name.as_str()).collect());
        // Without architectures, the peers are compared with each other.
        let peers_alone = names.as_ref().is_some_and(Vec::is_empty) && self.peers.is_some();
        if !peers_alone {
            list("architectures", names.as_deref())?;
        }
        list("peers", self.peers.as_deref())?;
        list("concurrency", self.concurrency.as_deref())?;
        list("server-cpus", self.server_cpus.as_deref())?;
        list("client-cpus", self.client_cpus.as_deref())?;
        // An argument may well come twice.
        size("server-arguments", self.server_arguments.as_deref())?;
        for &connections in self.concurrency.iter().flatten() {
            number("concurrency", connections, MOST_CONNECTIONS)?;
        }
        self.repeats.map_or(Ok(()), |repeats| number("repeats", repeats, MOST_REPEATS))?;
        if self.blocks.is_some_and(|blocks| blocks > MOST_BLOCKS) {
            return Err(Misfit::new("blocks", format!("at most {MOST_BLOCKS}")));
        }
        self.check_load_command()?;
        time("warm-up", self.warm_up)?;
        time("window", self.window)?;
        time("period", self.period)?;
        for (key, count) in [
            ("idle", self.idle),
            ("slow-readers", self.slow_readers),
            ("slow-senders", self.slow_senders),
        ] {
            count.map_or(Ok(()), |count| number(key, count, MOST_CONNECTIONS))?;
        }
        text("pattern", self.pattern.as_deref())?;
        text("arrivals", self.arrivals.as_deref())?;
        self.window.map_or(Ok(()), |window| {
            check_window(window).map_err(|problem| Misfit::new("window", problem))
        })?;
        self.warm_up.map_or(Ok(()), |warm_up| {
            check_warm_up(warm_up).map_err(|problem| Misfit::new("warm-up", problem))
        })?;
        text("service", self.service.as_deref())?;
        text("current", self.current.as_deref())?;
        text("path", self.path.as_deref())?;
        for (key, path) in
            [("root", &self.root), ("templates", &self.templates), ("data", &self.data)]
        {
            text(key, path.as_ref().map(|path| path.to_string_lossy()).as_deref())?;
        }
        if let Some(Store::At(url)) = &self.store {
            text("store", Some(url))?;
        }
        text("redis-calls", self.redis_calls.as_deref())?;
        for choice in self.architectures.iter().flatten() {
            choice.check().map_err(|problem| Misfit::new("architectures", problem))?;
        }
        for name in self.peers.iter().flatten() {
            text("peers", Some(name))?;
        }
        for argument in self.server_arguments.iter().flatten() {
            text("server-arguments", Some(argument))?;
        }
        Ok(())
    }
}

impl Settings {
    /// What a load command is, and what it decides alone.
    fn check_load_command(&self) -> Result<(), Misfit> {
        const ITS_OWN: [&str; 15] = [
            "pattern",
            "rate",
            "arrivals",
            "wait",
            "period",
            "idle",
            "slow-readers",
            "slow-senders",
            "sources",
            "close",
            "warm-up",
            "window",
            "path",
            "data-size",
            "read-size",
        ];
        let Some(words) = &self.load_command else { return Ok(()) };
        if let Some(problem) = load_command::problem(words) {
            return Err(Misfit::new("load-command", problem));
        }
        for word in words {
            text("load-command", Some(word))?;
        }
        match ITS_OWN.into_iter().find(|key| self.says(key)) {
            Some(key) => Err(Misfit::new(key, "the load command decides that: leave this out")),
            None => Ok(()),
        }
    }
}

/// What is done with all settings alike, from one list of them.
macro_rules! alike {
    ($($key:literal $field:ident,)*) => {
        impl Settings {
            /// Whether anything is said about `key`.
            pub fn says(&self, key: &str) -> bool {
                match key {
                    $($key => self.$field.is_some(),)*
                    _ => false,
                }
            }

            /// The keys about which something is said.
            pub fn said(&self) -> impl Iterator<Item = &'static str> {
                [$(self.$field.is_some().then_some($key),)*].into_iter().flatten()
            }

            /// These settings, and those of `other` where nothing is said. A pattern comes with its
            /// parameters: those that another pattern had are forgotten.
            #[must_use]
            pub fn or(self, mut other: Self) -> Self {
                if let Some(pattern) = &self.pattern {
                    (other.rate, other.arrivals, other.wait, other.period) = (None, None, None, None);
                    if clients::keep_alive(pattern).is_some() {
                        other.close = None;
                    }
                }
                Self { $($field: self.$field.or(other.$field),)* }
            }
        }
    };
}

alike! {
    "service" service,
    "pattern" pattern,
    "rate" rate,
    "arrivals" arrivals,
    "wait" wait,
    "period" period,
    "idle" idle,
    "slow-readers" slow_readers,
    "slow-senders" slow_senders,
    "sources" sources,
    "architectures" architectures,
    "peers" peers,
    "control" control,
    "load-command" load_command,
    "concurrency" concurrency,
    "close" close,
    "repeats" repeats,
    "blocks" blocks,
    "warm-up" warm_up,
    "window" window,
    "seed" seed,
    "path" path,
    "root" root,
    "templates" templates,
    "store" store,
    "redis-calls" redis_calls,
    "data" data,
    "data-size" data_size,
    "read-size" read_size,
    "server-arguments" server_arguments,
    "server-cpus" server_cpus,
    "client-cpus" client_cpus,
    "constraints" constraints,
    "current" current,
}

/// The shortest and the longest wait, as in `100us..2ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Waits {
    /// The shortest.
    pub shortest: Duration,
    /// The longest.
    pub longest: Duration,
}

impl FromStr for Waits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (shortest, longest) =
            text.split_once("..").ok_or("give the shortest and the longest, as in 100us..2ms")?;
        Ok(Self { shortest: parse_duration(shortest)?, longest: parse_duration(longest)? })
    }
}

impl TryFrom<String> for Waits {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// Whether a window of this length measures anything.
///
/// # Errors
///
/// What to write instead.
pub fn check_window(window: Duration) -> Result<(), String> {
    let problem = match window {
        Duration::ZERO => "a window of no length measures nothing".to_owned(),
        short if short < SHORTEST_WINDOW => format!("{short:?} is too short to measure anything"),
        _ => return Ok(()),
    };
    Err(format!("{problem}: give {SHORTEST_WINDOW:?} or more, such as 1s"))
}

/// Whether a warm-up of this length is one, or none.
///
/// # Errors
///
/// What to write instead.
pub fn check_warm_up(warm_up: Duration) -> Result<(), String> {
    match warm_up {
        Duration::ZERO => Ok(()),
        short if short < SHORTEST_WARM_UP => Err(format!(
            "{short:?} warms nothing up: give {SHORTEST_WARM_UP:?} or more, or 0s for none"
        )),
        _ => Ok(()),
    }
}

fn list<T: Ord + Display>(key: &'static str, values: Option<&[T]>) -> Result<(), Misfit> {
    size(key, values)?;
    let mut seen = BTreeSet::new();
    match values.unwrap_or_default().iter().find(|value| !seen.insert(*value)) {
        None => Ok(()),
        Some(twice) => Err(Misfit::new(key, format!("{twice} is there twice: leave one out"))),
    }
}

fn size<T>(key: &'static str, values: Option<&[T]>) -> Result<(), Misfit> {
    match values.map(<[T]>::len) {
        Some(0) => {
            Err(Misfit::new(key, "nothing is in this list: name at least one, or leave it out"))
        }
        Some(length) if length > MOST_VALUES => {
            Err(Misfit::new(key, format!("{length} values: give at most {MOST_VALUES}")))
        }
        _ => Ok(()),
    }
}

fn number(key: &'static str, value: usize, most: usize) -> Result<(), Misfit> {
    if (1..=most).contains(&value) {
        return Ok(());
    }
    Err(Misfit::new(key, format!("{value} is out of range: give numbers from 1 to {most}")))
}

fn time(key: &'static str, time: Option<Duration>) -> Result<(), Misfit> {
    match time {
        Some(time) if time > LONGEST => {
            Err(Misfit::new(key, "longer than a day: give a shorter time"))
        }
        _ => Ok(()),
    }
}

/// What is wrong with a text that is longer than any may be.
pub(super) fn too_long() -> String {
    format!("longer than {LONGEST_TEXT} bytes: give a shorter one")
}

fn text(key: &'static str, text: Option<&str>) -> Result<(), Misfit> {
    let problem = match text.unwrap_or("-") {
        "" => "an empty text says nothing: leave it out".to_owned(),
        long if long.len() > LONGEST_TEXT => too_long(),
        // No argument of a process can hold it.
        odd if odd.contains('\0') => "a NUL is in it: leave it out".to_owned(),
        _ => return Ok(()),
    };
    Err(Misfit::new(key, problem))
}

pub(super) fn duration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_duration(&text).map(Some).map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, seconds) in [
            ("250us", 250e-6),
            ("300ms", 0.3),
            ("1s", 1.0),
            ("2m", 120.0),
            ("1.5s", 1.5),
            ("0", 0.0),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
        for text in ["", "s", "-1s", "nan", "infs", "8000000s", "1h", "inf", "-1", "1e400s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        for text in ["5", "1.5", "8000000"] {
            let told = parse_duration(text).unwrap_err();
            assert!(told.starts_with(&format!("{text} has no unit: write {text}s")), "{told}");
        }
    }

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("4096", 4096),
            ("200MB", 200_000_000),
            ("512K", 512 << 10),
            ("1.5GiB", 3 << 29),
            ("2 G", 2 << 30),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "M", "0", "-1M", "1TB", "1.2.3", "9e99", "99999999GB"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn nothing_said_is_right() {
        assert_eq!(Settings::default().check(), Ok(()));
    }
}
