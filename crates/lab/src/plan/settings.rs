//! What an experiment asks for, in the words that plan files (their keys) and `duality compare` (its
//! flags) share.
//!
//! Everything is optional: what is not said has a default, which may depend on the service. [`check`]
//! finds what makes no sense whatever the service is; who knows the services checks the rest.
//!
//! [`check`]: Settings::check

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};

use crate::store::Store;

/// How clients behave when nothing is said: each sends its next request as soon as it has the reply.
pub const CLOSED: &str = "closed";

/// The most values that a list may hold.
const MOST_VALUES: usize = 100;
/// The most connections that can be asked for.
const MOST_CONNECTIONS: usize = 1_000_000;
/// The most repeats of a cell.
const MOST_REPEATS: usize = 1000;
/// The most bytes of a text.
const LONGEST_TEXT: usize = 4096;
/// The longest warm-up or window.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// What an experiment asks for.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Settings {
    /// The service that is served.
    pub service: Option<String>,
    /// How clients behave.
    pub pattern: Option<String>,
    /// The architectures, in the order in which they are shown.
    pub architectures: Option<Vec<String>>,
    /// The numbers of connections that are open at once.
    pub concurrency: Option<Vec<usize>>,
    /// Whether each request has a connection of its own.
    pub close: Option<bool>,
    /// How often each cell is measured.
    pub repeats: Option<usize>,
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
    /// Further arguments of the servers.
    pub server_arguments: Option<Vec<String>>,
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
        list("architectures", self.architectures.as_deref())?;
        list("concurrency", self.concurrency.as_deref())?;
        // An argument may well come twice.
        size("server-arguments", self.server_arguments.as_deref())?;
        for &connections in self.concurrency.iter().flatten() {
            number("concurrency", connections, MOST_CONNECTIONS)?;
        }
        self.repeats.map_or(Ok(()), |repeats| number("repeats", repeats, MOST_REPEATS))?;
        time("warm-up", self.warm_up)?;
        time("window", self.window)?;
        if self.window == Some(Duration::ZERO) {
            return Err(Misfit::new(
                "window",
                "a window of no length measures nothing: give a time such as 1s",
            ));
        }
        text("service", self.service.as_deref())?;
        text("path", self.path.as_deref())?;
        for (key, path) in [("root", &self.root), ("templates", &self.templates)] {
            text(key, path.as_ref().map(|path| path.to_string_lossy()).as_deref())?;
        }
        if let Some(Store::At(url)) = &self.store {
            text("store", Some(url))?;
        }
        text("redis-calls", self.redis_calls.as_deref())?;
        for architecture in self.architectures.iter().flatten() {
            text("architectures", Some(architecture))?;
        }
        for argument in self.server_arguments.iter().flatten() {
            text("server-arguments", Some(argument))?;
        }
        Ok(())
    }

    /// Whether anything is said about `key`.
    pub fn says(&self, key: &str) -> bool {
        match key {
            "service" => self.service.is_some(),
            "pattern" => self.pattern.is_some(),
            "architectures" => self.architectures.is_some(),
            "concurrency" => self.concurrency.is_some(),
            "close" => self.close.is_some(),
            "repeats" => self.repeats.is_some(),
            "warm-up" => self.warm_up.is_some(),
            "window" => self.window.is_some(),
            "seed" => self.seed.is_some(),
            "path" => self.path.is_some(),
            "root" => self.root.is_some(),
            "templates" => self.templates.is_some(),
            "store" => self.store.is_some(),
            "redis-calls" => self.redis_calls.is_some(),
            "server-arguments" => self.server_arguments.is_some(),
            _ => false,
        }
    }

    /// These settings, and those of `other` where nothing is said.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            service: self.service.or(other.service),
            pattern: self.pattern.or(other.pattern),
            architectures: self.architectures.or(other.architectures),
            concurrency: self.concurrency.or(other.concurrency),
            close: self.close.or(other.close),
            repeats: self.repeats.or(other.repeats),
            warm_up: self.warm_up.or(other.warm_up),
            window: self.window.or(other.window),
            seed: self.seed.or(other.seed),
            path: self.path.or(other.path),
            root: self.root.or(other.root),
            templates: self.templates.or(other.templates),
            store: self.store.or(other.store),
            redis_calls: self.redis_calls.or(other.redis_calls),
            server_arguments: self.server_arguments.or(other.server_arguments),
        }
    }
}

/// Reads a number with ms, s or m; without a unit, seconds.
///
/// # Errors
///
/// What to write instead.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, scale) = if let Some(number) = text.strip_suffix("ms") {
        (number, 1e-3)
    } else if let Some(number) = text.strip_suffix('s') {
        (number, 1.0)
    } else if let Some(number) = text.strip_suffix('m') {
        (number, 60.0)
    } else {
        (text, 1.0)
    };
    let seconds = number.parse::<f64>().ok().map(|number| number * scale);
    match seconds {
        Some(seconds) if (0.0..=86_400.0 * 7.0).contains(&seconds) => {
            Ok(Duration::from_secs_f64(seconds))
        }
        _ => Err("give a duration such as 10s, 500ms or 2m".into()),
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

fn text(key: &'static str, text: Option<&str>) -> Result<(), Misfit> {
    let problem = match text.unwrap_or("-") {
        "" => "an empty text says nothing: leave it out",
        long if long.len() > LONGEST_TEXT => "longer than 4096 bytes: give a shorter one",
        // No argument of a process can hold it.
        odd if odd.contains('\0') => "a NUL is in it: leave it out",
        _ => return Ok(()),
    };
    Err(Misfit::new(key, problem))
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_duration(&text).map(Some).map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, seconds) in [("300ms", 0.3), ("1s", 1.0), ("2m", 120.0), ("1.5", 1.5)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
        for text in ["", "s", "-1s", "nan", "infs", "8000000", "1h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn nothing_said_is_right() {
        assert_eq!(Settings::default().check(), Ok(()));
    }
}
