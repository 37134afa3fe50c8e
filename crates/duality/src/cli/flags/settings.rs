//! Flags for the settings of an experiment, made of their registry
//! ([`duality_lab::ask::settings`]).
//!
//! A new setting is an entry there, and a line of the list below. The entry gives a flag of
//! `compare` its name, kind, default and help line. The line gives it a place, and more help.

use std::marker::PhantomData;

use clap::builder::{
    PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser, ValueParser,
};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use duality_lab::ask::settings::{ALL, Kind, Misfit, Setting, Settings};
use duality_load::Pattern;
use duality_services::Setup;
use duality_services::store::RedisCalls;

use super::heading;
use crate::setup;

/// What a flag has beyond the entry of its setting.
struct Look {
    key: &'static str,
    /// The heading in `--help`. Flags without one stand first.
    heading: Option<&'static str>,
    /// The name of the value, where the kind's says too little.
    value: Option<&'static str>,
    /// The paragraph that `--help` adds, in pieces.
    more: &'static [&'static str],
}

/// Makes [`LOOKS`]. The comment of a flag is the paragraph that `--help` adds.
macro_rules! looks {
    () => { None };
    ($value:literal) => { Some($value) };
    ($($heading:expr => { $($(#[doc = $more:literal])* $key:literal $($value:literal)?;)* })*) => {
        /// Every flag, in the order of `--help`.
        const LOOKS: &[Look] = &[$($(
            Look { key: $key, heading: $heading, value: looks!($($value)?), more: &[$($more),*] },
        )*)*];
    };
}

looks! {
    None => {
        "architectures" "A,B,…";
        "concurrency";
        /// `duality trace from` makes a recording from an access log. The answer says which
        /// architecture costs least at this load, and whether the choice matters at your traffic.
        /// It also says how many users each architecture has room for.
        "trace" "TRACE";
        /// Ready-made: nginx, lighttpd, apache-prefork, apache-worker, apache-event; for relay:
        /// nginx, haproxy. `cargo xtask peers` builds st, pth and pthreads. A plan can define
        /// others.
        "peers" "A,B,…";
        "rate" "PER_SECOND";
        "close";
        "root";
    }
    Some(heading::BINARY) => {
        /// The command has {port} and maybe {connections} in it. It is run once for each
        /// measurement. It makes its requests, prints `requests NUMBER`, and ends. It may also
        /// print `seconds NUMBER`, `errors NUMBER`, `p50_us NUMBER` and `p99_us NUMBER`. An exit
        /// status other than 0 fails the measurement. docs/run.md has all names, and
        /// examples/load/ has commands for memcached, Redis and MariaDB.
        "load-command" "COMMAND";
    }
    Some(heading::CLIENTS) => {
        "pattern" "PATTERN";
        /// constant is the kindest to a server; poisson models many independent users.
        "arrivals" "ARRIVALS";
        /// Give the waits instead of a rate. With a rate, uniform waits go from 0 to twice the
        /// mean. A sinusoidal rate swings between half and twice the mean.
        "wait";
        /// A window should be several swings long.
        "period";
        "idle";
        "slow-readers";
        "slow-senders";
        "sources";
        "users";
        "speed" "X";
        "at" "PLACE";
        "bunch";
        "client-rate";
        "http2";
    }
    Some(heading::MEASURING) => {
        "control";
        "repeats";
        /// In a block all servers of a session are driven in turn.
        "blocks";
        "window";
        "warm-up";
        "server-cpus" "CPU,…";
        "client-cpus" "CPU,…";
        "seed";
    }
    Some(heading::RECOMMENDATION) => {
        "margin" "PERCENT";
    }
    Some(heading::HOSTS) => {
        /// Give the flag once for each host. Roles are server, balancer, store and load. Several
        /// servers need a balancer, and several loads make their load together. Other roles
        /// connect to the address; without one, to the host's name. The host `here` is this
        /// machine.
        "hosts" "ROLE=HOST[@ADDRESS]";
        /// A launcher gives the standard streams of a shell on the host. This program sends itself
        /// over these streams. A command of your own is, for example, "ssh -F config {host}".
        "launcher" "NAME|COMMAND";
        "host-program" "PATH";
        "balancer" "NAME";
    }
    Some(heading::SERVICE) => {
        "path" "PATH";
        /// The certificate is made for this experiment.
        "tls";
        "templates";
        /// pipelined: in one round trip; separate: three calls, one after the other, as ZeroHTTPd
        /// makes them
        "redis-calls" "CALLS";
        "data";
        "data-size";
        "read-size";
        /// Repeat the flag for more. A name is looked up once, when the relay starts. A comparison
        /// without this flag has a server of its own: http on epoll, on the load generator's
        /// processors (docs/relay.md).
        "upstream" "HOST:PORT";
        /// sqlite and redis begin a new store for each cell. sqlite:PATH and redis://HOST:PORT are
        /// stores that exist.
        "store" "STORE";
    }
}

/// Which settings a command has flags for.
pub(in crate::cli) trait Chosen {
    fn has(key: &str) -> bool;
}

/// The flags of `compare`: those of [`LOOKS`].
#[derive(Clone)]
pub(in crate::cli) struct All;

impl Chosen for All {
    fn has(_: &str) -> bool {
        true
    }
}

/// How clients behave: flags of `load`, too.
#[derive(Clone)]
pub(in crate::cli) struct Clients;

impl Chosen for Clients {
    fn has(key: &str) -> bool {
        let beside = ["pattern", "arrivals", "wait", "period", "idle", "sources", "rate", "close"];
        beside.contains(&key) || key.starts_with("slow-")
    }
}

/// How a service is set up: flags of all commands that start a server.
#[derive(Clone)]
pub(in crate::cli) struct Service;

impl Chosen for Service {
    fn has(key: &str) -> bool {
        let mut settings = duality_services::Setting::ALL.into_iter();
        key != "store" && settings.any(|setting| setting.name() == key)
    }
}

/// The flags of the settings that `Of` has, and the values that they have.
#[derive(Clone)]
pub(in crate::cli) struct SettingFlags<Of> {
    settings: Settings,
    of: PhantomData<Of>,
}

impl<Of> SettingFlags<Of> {
    pub(in crate::cli) fn settings(&self) -> Settings {
        self.settings.clone()
    }
}

impl SettingFlags<Service> {
    /// The setup that the flags give, without the store.
    pub(in crate::cli) fn setup(&self) -> Result<Setup, Misfit> {
        setup::of(&self.settings)
    }
}

/// The flags of `Of`, each with its setting.
fn chosen<Of: Chosen>() -> impl Iterator<Item = (&'static Look, &'static Setting)> {
    let setting = |look: &Look| ALL.iter().find(|setting| setting.key == look.key);
    LOOKS
        .iter()
        .filter(|look| Of::has(look.key))
        .filter_map(move |look| Some((look, setting(look)?)))
}

impl<Of: Chosen> Args for SettingFlags<Of> {
    fn augment_args(command: Command) -> Command {
        command.args(chosen::<Of>().map(|(look, setting)| flag(look, setting)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<Of: Chosen> FromArgMatches for SettingFlags<Of> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = chosen::<Of>().filter_map(|(_, setting)| {
            let texts: Vec<String> = match setting.kind {
                // The flag says what the default does not.
                Kind::Answer if matches.get_flag(setting.key) => {
                    vec![(setting.default == "false").to_string()]
                }
                Kind::Answer => Vec::new(),
                _ => matches.get_many(setting.key).into_iter().flatten().cloned().collect(),
            };
            (!texts.is_empty()).then_some((setting, texts))
        });
        let settings = Settings::of_flags(given);
        let settings = settings.map_err(|why| Error::raw(ErrorKind::ValueValidation, why))?;
        Ok(Self { settings, of: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn flag(look: &Look, setting: &'static Setting) -> Arg {
    let Setting { key, kind, default, about, .. } = *setting;
    let (name, about) = match key {
        "control" => ("no-control", NO_CONTROL),
        "trace" => ("load-from", LOAD_FROM),
        "hosts" => ("host", about),
        _ => (key, about),
    };
    // A flag that lists its values by itself needs no list in its sentence.
    let about = match possible(key)[..] {
        [] => about,
        _ => about.split(": ").next().unwrap_or(about),
    };
    let help = match (kind, default) {
        (Kind::Answer, _) => capital(about.trim_start_matches("Whether ")),
        (_, "none") => about.to_owned(),
        (Kind::Bytes | Kind::Rate, _) => format!("{about} (such as 128KB) [default: {default}]"),
        _ => format!("{about} [default: {default}]"),
    };
    let arg = Arg::new(key).long(name).help(&help).help_heading(look.heading);
    let arg = match look.more {
        [] => arg,
        more => arg.long_help(format!("{help}\n\n{}", more.concat().trim())),
    };
    let arg = match kind {
        Kind::Answer => arg.action(ArgAction::SetTrue),
        Kind::Choices | Kind::Names | Kind::Wholes => {
            arg.action(ArgAction::Append).value_delimiter(',')
        }
        Kind::Texts => arg.action(ArgAction::Append),
        _ => arg,
    };
    let arg = match kind {
        Kind::Answer => arg,
        _ => arg.value_name(look.value.unwrap_or(value_of(kind))).value_parser(parser(setting)),
    };
    match key {
        "architectures" => arg.short('a').display_order(0),
        "concurrency" => arg.short('c').display_order(0),
        "peers" => arg.display_order(0),
        "trace" => arg
            .visible_alias("trace")
            .conflicts_with_all(["concurrency", "load-command"])
            .display_order(0),
        "rate" => arg.short('R'),
        "server-cpus" => arg.requires("client-cpus"),
        "client-cpus" => arg.requires("server-cpus"),
        "tls" => arg.conflicts_with_all(["binary", "load-command", "hosts"]),
        "http2" => arg.conflicts_with_all(["binary", "load-command"]),
        _ => arg,
    }
}

const NO_CONTROL: &str = "Do not measure an architecture twice, as a control that shows the \
                          effect of chance (docs/method.md)";
const LOAD_FROM: &str = "Your load: a recording, which all servers replay at once (docs/replay.md)";

/// The name of a value in `--help`.
fn value_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Bytes | Kind::Rate => "BYTES",
        Kind::Directory => "DIR",
        Kind::File => "FILE",
        Kind::Range => "MIN..MAX",
        Kind::Time => "TIME",
        Kind::Wholes => "N,…",
        _ => "N",
    }
}

/// Checks one value of a flag. The texts of a flag are read together, at the end.
fn parser(setting: &'static Setting) -> ValueParser {
    let read =
        move |text: String| Settings::of_flags([(setting, vec![text.clone()])]).map(|_| text);
    match possible(setting.key) {
        none if none.is_empty() => StringValueParser::new().try_map(read).into(),
        possible => PossibleValuesParser::new(possible).into(),
    }
}

/// The values that a flag lists, if it lists them.
fn possible(key: &str) -> Vec<PossibleValue> {
    match key {
        "pattern" => Pattern::NAMED
            .iter()
            .map(|named| PossibleValue::new(named.name).help(named.about))
            .collect(),
        "redis-calls" => RedisCalls::ALL.map(|calls| PossibleValue::new(calls.name())).into(),
        _ => Vec::new(),
    }
}

fn capital(text: &str) -> String {
    let (first, rest) = text.split_at(1);
    first.to_uppercase() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The settings that the flags of `compare` give.
    fn read(arguments: &[&str]) -> Result<Settings, String> {
        let command =
            SettingFlags::<All>::augment_args(Command::new("compare").no_binary_name(true))
                // `--tls` names a flag of `compare`'s own.
                .arg(Arg::new("binary").long("binary"));
        let matches = command.try_get_matches_from(arguments).map_err(|error| error.to_string())?;
        SettingFlags::<All>::from_arg_matches(&matches)
            .map(|flags| flags.settings)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn every_setting_has_a_flag_that_gives_it_and_no_other() {
        let otherwise = ["race", "service", "constraints", "current", "server-arguments"];
        for setting in ALL.iter().filter(|setting| !otherwise.contains(&setting.key)) {
            let look = LOOKS.iter().find(|look| look.key == setting.key);
            let look = look.unwrap_or_else(|| panic!("{} has no line here", setting.key));
            let flag = flag(look, setting);
            let name = flag.get_long().expect("all flags have names");
            let value = match setting.kind {
                Kind::Answer => String::new(),
                Kind::Bytes | Kind::Rate => "=64MB".into(),
                Kind::Number | Kind::Whole | Kind::Wholes => "=7".into(),
                Kind::Range => "=1ms..2ms".into(),
                Kind::Time => "=7s".into(),
                _ => match flag.get_possible_values().first() {
                    Some(possible) => format!("={}", possible.get_name()),
                    None if setting.key == "store" => "=redis".into(),
                    None => "=seven".into(),
                },
            };
            let mut arguments = vec![format!("--{name}{value}")];
            // The processors of both sides are given together.
            let other = match setting.key {
                "server-cpus" => "client-cpus",
                "client-cpus" => "server-cpus",
                _ => "",
            };
            arguments.extend((!other.is_empty()).then(|| format!("--{other}=7")));
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let given = read(&arguments).unwrap_or_else(|problem| panic!("{problem}"));
            let keys: Vec<&str> = given.said().filter(|key| *key != other).collect();
            assert_eq!(keys, [setting.key]);
        }
        for Look { key, .. } in LOOKS {
            assert!(ALL.iter().any(|setting| setting.key == *key), "{key} is no setting");
        }
    }

    #[test]
    fn lists_come_from_commas_repeats_and_words() {
        let given =
            read(&["-c", "1,10", "-c", "100", "--upstream=a:1", "--upstream=b:2,3"]).unwrap();
        assert_eq!(given.concurrency, Some(vec![1, 10, 100]));
        assert_eq!(given.upstream, Some(vec!["a:1".to_owned(), "b:2,3".to_owned()]));
        let given = read(&[
            "--load-command",
            "wrk 'a b'",
            "--no-control",
            "--seed",
            "18446744073709551615",
        ]);
        let given = given.unwrap();
        assert_eq!(given.load_command, Some(vec!["wrk".to_owned(), "a b".to_owned()]));
        assert_eq!((given.control, given.seed), (Some(false), Some(u64::MAX)));
        for (wrong, message) in [
            ("--repeats=x", "invalid digit"),
            ("--rate=x", "invalid float"),
            ("--window=3", "has no unit"),
            ("--wait=3", "100us..2ms"),
            ("--data-size=3X", "give a size"),
            ("--store=x", "no store is called `x`"),
            ("--pattern=x", "possible values: closed"),
            ("--load-command='", "a quote is not closed"),
            ("--sources=0", "nonzero"),
        ] {
            let problem = read(&[wrong]).unwrap_err();
            assert!(
                problem.contains(message) && problem.contains(wrong.split('=').next().unwrap()),
                "{problem}"
            );
        }
    }
}
