//! The settings of an experiment. Keys of plan files and flags of `duality compare` have the same
//! names.
//!
//! The registry at the end of this file has an entry for each setting. Plan files, their checks,
//! the flags of `duality compare`, `duality plan new` and the resolution of an experiment read it.
//! Every setting is optional. The
//! default of a setting may depend on the service.
//!
//! ```text
//!   key  field via its parser: type    for which part, its check
//!        its kind, the default in words, the help line
//!        => what it does to an experiment by itself; without it, `resolve` reads the field
//! ```
//!
//! [`Settings::check`] finds settings that make no sense for any service. The serving program
//! checks the rest.

use std::fmt::Display;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use duality_load::Pattern;
use serde::Deserialize;
use serde_json::Value;

use super::values::{self, Checked, duration};
pub use super::values::{Waits, check_warm_up, check_window};
use super::variant::Choice;
use crate::Mistake;
use crate::measure::experiment::Experiment;
use crate::measure::load_command;
use crate::measure::store::Store;
use crate::record::Constraints;
pub use crate::units::{parse_bytes, parse_command, parse_duration, parse_place, parse_slo};

/// An entry of the registry.
#[derive(Debug)]
pub struct Setting {
    /// The key in a plan file. The flag of `duality compare`, where there is one, has the same
    /// name.
    pub key: &'static str,
    /// The part of the experiment that reads the setting.
    pub part: Part,
    /// The kind of the setting's value.
    pub kind: Kind,
    /// The default, in words.
    pub default: &'static str,
    /// The meaning of the setting, in one line.
    pub about: &'static str,
    is_said: fn(&Settings) -> bool,
    check: fn(&Settings) -> Checked,
    forget: fn(&mut Settings),
    effect: fn(&Settings, &mut Experiment),
}

/// The part of an experiment that a setting is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The lab: the subjects, the place, and the number of repeats.
    Lab,
    /// The servers.
    Servers,
    /// The servers. Variants may differ in such settings.
    Variants,
    /// The load generator. A load command replaces these settings.
    Load,
    /// The load generator in an open loop, and in no other pattern.
    OpenLoop,
}

impl Part {
    /// Every part, in the order in which help explains settings.
    pub const ALL: [Self; 5] =
        [Self::Lab, Self::Servers, Self::Variants, Self::Load, Self::OpenLoop];

    /// The heading over the settings of this part.
    #[must_use]
    pub fn heading(self) -> &'static str {
        match self {
            Self::Lab => "What is compared, where, and how often",
            Self::Servers => "What the servers serve",
            Self::Variants => "How the servers run; a variant has its own as `options`",
            Self::Load => "What the clients do; not beside a load-command",
            Self::OpenLoop => "What the clients of the pattern `open` do",
        }
    }
}

/// Makes [`Kind`] of a list of kinds, each with the words that a plan has for it.
macro_rules! kinds {
    ($($kind:ident $words:literal;)*) => {
        /// The kind of a setting's value: its form in a plan, and as a flag.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            $(#[doc = concat!("In a plan: ", $words, ".")] $kind,)*
        }

        impl Kind {
            /// The type of the value in a plan, in words.
            #[must_use]
            pub fn in_plan(self) -> &'static str {
                match self {
                    $(Self::$kind => $words,)*
                }
            }
        }
    };
}

kinds! {
    Answer "true or false";
    Bytes "bytes";
    Choices "list of texts and tables";
    Command "list of texts";
    Directory "directory";
    File "file";
    Names "list of texts";
    Number "number";
    Range "text \"MIN..MAX\"";
    Rate "bytes a second";
    Table "table";
    Text "text";
    Texts "list of texts";
    Time "time";
    Whole "whole number";
    Wholes "list of whole numbers";
}

impl Kind {
    /// The value that a flag has, in the form of a plan.
    fn read(self, texts: &[String]) -> Result<Value, Mistake> {
        fn parsed<T: FromStr<Err: Display> + Into<Value>>(text: &str) -> Result<Value, Mistake> {
            text.parse().map(T::into).map_err(|error: T::Err| error.to_string().into())
        }
        let last = texts.last().map_or("", String::as_str);
        match self {
            Self::Answer => parsed::<bool>(last),
            Self::Bytes | Self::Rate => parse_bytes(last).map(Value::from),
            Self::Number => parsed::<f64>(last),
            Self::Whole => parsed::<u64>(last),
            Self::Wholes => texts.iter().map(|text| parsed::<u64>(text)).collect(),
            Self::Command => parse_command(last).map(Value::from),
            Self::Choices | Self::Names | Self::Texts => Ok(texts.into()),
            _ => Ok(last.into()),
        }
    }
}

/// A setting that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The key.
    pub key: &'static str,
    /// The mistake in the setting, and the remedy.
    pub problem: Mistake,
}

impl Misfit {
    /// The key of a mistake that lies in several settings together.
    pub const WHOLE: &str = "";

    /// A problem with the value of `key`.
    pub fn new(key: &'static str, problem: impl Into<Mistake>) -> Self {
        Self { key, problem: problem.into() }
    }
}

impl Settings {
    /// The settings that flags give, each with its texts: a list has several.
    ///
    /// # Errors
    ///
    /// If the texts are not of a setting's kind.
    pub fn of_flags<'a>(
        flags: impl IntoIterator<Item = (&'a Setting, Vec<String>)>,
    ) -> Result<Self, Mistake> {
        let values = flags.into_iter().map(|(Setting { key, kind, .. }, texts)| {
            kind.read(&texts).map(|value| ((*key).to_owned(), value))
        });
        let table = Value::Object(values.collect::<Result<_, _>>()?);
        Self::deserialize(table).map_err(|error| error.to_string().into())
    }

    /// Finds settings that make no sense for any service.
    ///
    /// # Errors
    ///
    /// The first [`Misfit`].
    pub fn check(&self) -> Result<(), Misfit> {
        for setting in ALL {
            (setting.check)(self).map_err(|problem| Misfit::new(setting.key, problem))?;
        }
        // Without architectures, the lab compares the peers with each other.
        if let (Some(choices), None) = (&self.architectures, &self.peers) {
            values::size(choices).map_err(|problem| Misfit::new("architectures", problem))?;
        }
        let own = self.said_for(Part::Load).or_else(|| self.said_for(Part::OpenLoop));
        match own.filter(|_| self.load_command.is_some()) {
            Some(key) => Err(Misfit::new(key, "the load command decides that: leave this out")),
            None => Ok(()),
        }
    }

    /// The keys that have a value.
    pub fn said(&self) -> impl Iterator<Item = &'static str> {
        ALL.iter().filter(|setting| (setting.is_said)(self)).map(|setting| setting.key)
    }

    /// The first key of `part` that has a value.
    pub(super) fn said_for(&self, part: Part) -> Option<&'static str> {
        let mut given = ALL.iter().filter(|setting| (setting.is_said)(self));
        given.find(|setting| setting.part == part).map(|setting| setting.key)
    }

    /// Applies to `experiment` the settings that depend on nothing else.
    pub(super) fn apply(&self, experiment: &mut Experiment) {
        for setting in ALL {
            (setting.effect)(self, experiment);
        }
    }

    /// These settings. A setting that is missing here is taken from `other`. A pattern brings its
    /// own parameters. The parameters of another pattern are dropped.
    #[must_use]
    pub fn or(self, mut other: Self) -> Self {
        if let Some(pattern) = &self.pattern {
            for setting in ALL.iter().filter(|setting| setting.part == Part::OpenLoop) {
                (setting.forget)(&mut other);
            }
            if Pattern::named(pattern).is_some_and(|named| named.keep_alive.is_some()) {
                other.close = None;
            }
        }
        self.filled(other)
    }
}

fn choices(choices: &[Choice]) -> Checked {
    // The names of variants are names of cells.
    let names: Vec<&str> = choices.iter().map(|choice| choice.name.as_str()).collect();
    if !names.is_empty() {
        values::distinct(&names)?;
    }
    choices.iter().try_for_each(Choice::check)
}

fn words_of_load(words: &[String]) -> Checked {
    load_command::problem(words).map_or(Ok(()), Err)?;
    values::texts(words)
}

fn store(store: &Store) -> Checked {
    match store {
        Store::At(url) => values::text(url),
        _ => Ok(()),
    }
}

/// Makes [`Settings`] and [`ALL`] of the registry.
macro_rules! settings {
    ($(
        $key:literal $field:ident $(via $parser:literal)?: $type:ty, $part:ident, $check:path,
        $kind:ident, $default:literal, $about:literal $(=> $effect:expr)?;
    )*) => {
        /// The settings of an experiment.
        #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Settings {
            $(
                #[doc = $about]
                #[serde(rename = $key $(, deserialize_with = $parser)?)]
                pub $field: Option<$type>,
            )*
        }

        /// Every setting, in the order of the registry.
        pub static ALL: &[Setting] = &[$(
            Setting {
                key: $key,
                part: Part::$part,
                kind: Kind::$kind,
                default: $default,
                about: $about,
                is_said: |settings| settings.$field.is_some(),
                check: |settings| match &settings.$field {
                    Some(value) => $check(value),
                    None => Ok(()),
                },
                forget: |settings| settings.$field = None,
                effect: settings!(@effect $field: $type $(=> $effect)?),
            },
        )*];

        impl Settings {
            /// These settings. A setting that is missing here is taken from `other`.
            fn filled(self, other: Self) -> Self {
                Self { $($field: self.$field.or(other.$field),)* }
            }
        }
    };
    (@effect $field:ident: $type:ty) => {
        |_, _| {}
    };
    (@effect $field:ident: $type:ty => $effect:expr) => {
        |settings, experiment| {
            let effect: fn(&$type, &mut Experiment) = $effect;
            if let Some(value) = &settings.$field {
                effect(value, experiment);
            }
        }
    };
}

settings! {
    "service" service: String, Lab, values::text,
        Text, "http", "What is served; `duality services` lists them";
    "architectures" architectures: Vec<Choice>, Lab, choices,
        Choices, "all", "The architectures, in the order in which they are shown, such as threads,epoll";
    "peers" peers: Vec<String>, Lab, values::names,
        Names, "none", "Servers that are not ours, measured beside the architectures";
    "control" control: bool, Lab, values::any,
        Answer, "true", "Whether an architecture is measured once more, to see what chance does (docs/method.md)";
    "race" race: bool, Lab, values::any,
        Answer, "false", "Whether what is worse for sure gets no more time; not with repeats, blocks or window";
    "load-command" load_command: Vec<String>, Lab, words_of_load,
        Command, "none", "A command that makes the load in place of the load generator, for protocols that it does not speak"
        => |words, experiment| experiment.design.load_command = Some(words.clone());
    "concurrency" concurrency: Vec<usize>, Lab, values::concurrency,
        Wholes, "1, 10, 100, 1000, or those that the service supports", "How many connections are open at once";
    "repeats" repeats: usize, Lab, values::repeats,
        Whole, "3", "How often each cell is measured, each time with a fresh server"
        => |count, experiment| experiment.design.repeats = *count;
    "blocks" blocks: usize, Lab, values::blocks,
        Whole, "such that the whole takes about two minutes", "Blocks of slices in each session, after the windows; 0 measures windows alone";
    "seed" seed: u64, Lab, values::any,
        Whole, "the time", "Decides the order of the cells, and the arrivals of an open loop"
        => |seed, experiment| experiment.design.seed = *seed;
    "server-cpus" server_cpus: Vec<usize>, Lab, values::distinct,
        Wholes, "the first", "The processors of the servers, such as 0 or 0,2; needs client-cpus";
    "client-cpus" client_cpus: Vec<usize>, Lab, values::distinct,
        Wholes, "those that share no core with the server's", "The processors of the load generator; needs server-cpus";
    "hosts" hosts: Vec<String>, Lab, values::texts,
        Texts, "this machine", "Where roles run, such as server=web1 or load=gen1@10.0.0.7 (docs/hosts.md)";
    "launcher" launcher: String, Lab, values::text,
        Text, "ssh", "What reaches hosts: ssh, srun, nsenter, kubectl, docker, or a command with {host}";
    "host-program" host_program: String, Lab, values::text,
        Text, "this program, which is sent there", "Duality's program on the hosts";
    "balancer" balancer: String, Lab, values::text,
        Text, "nginx", "What hands requests to several servers: nginx or haproxy";
    "constraints" constraints: Constraints, Lab, values::any,
        Table, "those at the top", "What must be kept to be recommended: slo, a list such as [\"p99=5ms\"], and memory"
        => |constraints, experiment| experiment.constraints = constraints.clone();
    "current" current: String, Lab, values::text,
        Text, "none", "What runs today, an architecture or a peer: the answer says whether a change pays"
        => |name, experiment| experiment.current = Some(name.clone());
    "margin" margin: f64, Lab, values::margin,
        Number, "5", "Within how many percent two subjects are level, for sure"
        => |percent, experiment| experiment.margin = Some(percent / 100.0);
    "root" root: PathBuf, Servers, values::path,
        Directory, "a few built-in pages", "The directory with the files that http and guestbook serve";
    "templates" templates: PathBuf, Servers, values::path,
        Directory, "the built-in one", "The directory of guestbook's templates: NAME.html is the page /NAME";
    "store" store: Store, Servers, store,
        Text, "sqlite", "Where guestbook and phone keep their data: sqlite, redis, sqlite:PATH, redis://HOST:PORT";
    "redis-calls" redis_calls: String, Servers, values::text,
        Text, "pipelined", "How guestbook talks to Redis: pipelined or separate";
    "data" data: PathBuf, Servers, values::path,
        File, "a temporary file", "The file that blocks reads and writes";
    "tls" tls: bool, Servers, values::any,
        Answer, "false", "Whether servers and clients of http speak TLS 1.3 (docs/tls.md)"
        => |tls, experiment| experiment.design.tls = *tls;
    "upstream" upstream: Vec<String>, Servers, values::texts,
        Texts, "in a comparison a server of its own", "The servers behind relay, each a HOST:PORT, which take turns";
    "server-arguments" server_arguments: Vec<String>, Variants, values::texts,
        Texts, "none", "Flags of `duality serve` about architectures, and limits";
    "pattern" pattern: String, Load, values::text,
        Text, "closed, open if there is a rate, trace if there is a recording", "How clients behave: closed, serial, limited, long, short, open, trace";
    "trace" trace: PathBuf, Load, values::path,
        File, "none", "The recording that is replayed, as `duality trace from` writes it (docs/replay.md)";
    "users" users: Vec<usize>, Load, values::concurrency,
        Wholes, "such that there is enough to measure", "How many times the users of the recording; in place of concurrency";
    "speed" speed: f64, Load, values::speed,
        Number, "1", "How many times as fast the recording is replayed: a what-if, since users do not think faster";
    "at" at: String, Load, values::place,
        Text, "anywhere", "The place in the recording: busiest, median, or a time such as 90s";
    "bunch" bunch: usize, Load, values::bunch,
        Whole, "1", "How many users of the recording come at the same time: a what-if";
    "client-rate" client_rate: u64, Load, values::client_rate,
        Rate, "as recorded", "How fast each client takes its replies at most: a what-if";
    "idle" idle: usize, Load, values::connections,
        Whole, "0", "Further connections that make one request and then rest in silence";
    "slow-readers" slow_readers: usize, Load, values::connections,
        Whole, "0", "Further connections that make requests and take the replies 100 bytes a second";
    "slow-senders" slow_senders: usize, Load, values::connections,
        Whole, "0", "Further connections that send requests a byte a second";
    "sources" sources: NonZeroU32, Load, values::any,
        Whole, "as many as needed", "Addresses (127.0.0.1 and up) that all connections come from";
    "close" close: bool, Load, values::any,
        Answer, "false", "Whether each request has a connection of its own";
    "http2" http2: bool, Load, values::any,
        Answer, "false", "Whether clients speak HTTP/2 to an application of axum, hyper or tonic (docs/axum.md)"
        => |http2, experiment| experiment.design.http2 = *http2;
    "warm-up" warm_up via "duration": Duration, Load, values::warm_up,
        Time, "80ms; without blocks a fifth of a cell's share of the time", "What is dropped before each window";
    "window" window via "duration": Duration, Load, values::window,
        Time, "120ms; without blocks such that the whole takes about two minutes", "How long each cell is measured";
    "path" path: String, Load, values::text,
        Text, "/, of guestbook /guestbook", "The page that clients of http and guestbook ask for";
    "data-size" data_size: u64, Load, values::any,
        Bytes, "1000000", "Bytes of the file of blocks";
    "read-size" read_size: u64, Load, values::any,
        Bytes, "80000", "Bytes that blocks reads for each request";
    "rate" rate: f64, OpenLoop, values::any,
        Number, "none", "Requests a second, on average, whether or not the server keeps up; or give a wait";
    "arrivals" arrivals: String, OpenLoop, values::text,
        Text, "constant", "How requests arrive: constant, poisson, uniform, sinusoidal";
    "wait" wait: Waits, OpenLoop, values::any,
        Range, "from the rate", "Shortest and longest wait between uniform or sinusoidal arrivals, such as 100us..2ms";
    "period" period via "duration": Duration, OpenLoop, values::time,
        Time, "1s", "How long a swing of sinusoidal waits takes";
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
        assert_eq!(parse_place("median"), Ok(duality_load::At::Median));
        assert!(parse_place("noon").unwrap_err().to_string().contains("busiest"));
        for text in ["5", "1.5", "8000000"] {
            let message = parse_duration(text).unwrap_err().to_string();
            assert!(
                message.starts_with(&format!("{text} has no unit: write {text}s")),
                "{message}"
            );
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
