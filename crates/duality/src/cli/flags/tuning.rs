//! The options of an architecture. `serve` takes these flags, and `compare` hands them on to the
//! servers that it starts. The key `server-arguments` of a plan does the same.
//!
//! A new flag is an entry of the list below, and one of the same name in [`Options`].

use std::num::NonZeroUsize;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Command, FromArgMatches};
use duality_architectures::{Disk, GcdQueues, HandOver, Options, Prefer, WhenFull};
use duality_lab::Mistake;
use duality_lab::ask::settings::{Misfit, parse_bytes, parse_duration};
use duality_poller::Kind;

use super::heading;
use crate::catalogue::Listed;

/// Makes [`Tuning`] from a list of flags.
///
/// An entry of `options` sets the field of the same name in [`Options`]. The second expression is
/// the value that a child process gets if the flag is absent. `None` passes nothing. `serve` itself
/// applies the entries of `limits`.
macro_rules! flags {
    (
        $default:ident;
        options { $($(#[$about:meta])* $option:ident: $type:ty = $passed:expr;)* }
        limits { $($(#[$about_limit:meta])* $limit:ident: $limit_type:ty;)* }
    ) => {
        /// The options of the flags. A flag that is absent has its default.
        #[derive(Clone, Copy, Default, Args)]
        #[command(next_help_heading = heading::SERVER)]
        pub(crate) struct Tuning {
            $($(#[$about])* $option: Option<$type>,)*
            $($(#[$about_limit])* pub(in crate::cli) $limit: Option<$limit_type>,)*
        }

        impl Tuning {
            /// These flags. A flag that is absent here is taken from `other`.
            pub(in crate::cli) fn or(self, other: Self) -> Self {
                Self {
                    $($option: self.$option.or(other.$option),)*
                    $($limit: self.$limit.or(other.$limit),)*
                }
            }

            /// The flags that were given, as arguments.
            pub(in crate::cli) fn given(self) -> Vec<String> {
                let mut given = Vec::new();
                $(given.extend(self.$option.map(|value| argument(stringify!($option), value)));)*
                $(given.extend(self.$limit.map(|value| argument(stringify!($limit), value)));)*
                given
            }

            pub(in crate::cli) fn options(self) -> Options {
                let mut options = Options::default();
                $(if let Some(value) = self.$option {
                    options.$option = value.into();
                })*
                options
            }

            /// The arguments for a server that is started as a child process, defaults included.
            /// All servers of an experiment get the same values, and its record shows them.
            pub(in crate::cli) fn to_arguments(self) -> Vec<String> {
                let $default = Options::default();
                let (mut always, mut where_said) = (Vec::new(), Vec::new());
                $(
                    let passed: Option<$type> = $passed;
                    let arguments = if passed.is_some() { &mut always } else { &mut where_said };
                    let value = self.$option.or(passed);
                    arguments.extend(value.map(|value| argument(stringify!($option), value)));
                )*
                $(where_said.extend(self.$limit.map(|value| argument(stringify!($limit), value)));)*
                [always, where_said].concat()
            }
        }
    };
}

flags! {
    default;
    options {
        /// Processes of prefork, threads of pool and of the work pools [default: 100]
        #[arg(long, value_parser = at_least_one)]
        workers: usize = Some(default.workers);
        /// Kernel threads of uthreads, select, poll, epoll, uring and handwritten, each with a
        /// listener and loop of its own [default: 1]
        #[arg(long, value_parser = at_least_one)]
        cores: usize = Some(default.cores);
        /// Connections that may wait to be accepted; the kernel caps it at net.core.somaxconn
        /// [default: 4096]
        #[arg(long, value_parser = clap::value_parser!(i32).range(1..))]
        backlog: i32 = Some(default.backlog);
        /// Connections served at a time; further ones wait for a slot, then are refused [default:
        /// no limit]
        ///
        /// A slot that becomes free goes to the connection that has waited longest. A connection
        /// that has waited for a second, or for 100 ms under `--when-full shed`, is refused: http
        /// by 503, other services by a close.
        #[arg(long, value_parser = at_least_one, value_name = "N", help_heading = heading::LIMITS)]
        max_connections: usize = None;
        /// Connections of one client address; further ones are refused at once [default: no limit]
        ///
        /// The service answers a refused connection in its own words, and `--metrics` counts it
        /// apart. The first 64 bits of an IPv6 address are the client. Behind a proxy all clients
        /// have the proxy's address: leave the flag out there.
        #[arg(long, value_parser = at_least_one, value_name = "N", help_heading = heading::LIMITS)]
        max_per_address: usize = None;
        /// New connections of one client address in a second; further ones are refused at once
        /// [default: no limit]
        ///
        /// N connections may come at once. Further ones are refused as by --max-per-address.
        #[arg(long, value_parser = parse_rate, value_name = "N", help_heading = heading::LIMITS)]
        rate_per_address: usize = None;
        /// Stack of each thread, kernel or user-level, such as 64K or 1M; a service may need more
        /// than 16K [default: 128K]
        ///
        /// An application of the crate duality-tokio has 1M by default. Only touched pages cost
        /// memory.
        #[arg(long, value_parser = parse_size, value_name = "BYTES")]
        stack_size: usize = Some(default.stack_size);
        /// How the threads of pool come by connections [default: list]
        #[arg(long, value_parser = by_name::<HandOver>())]
        hand_over: HandOver = Some(default.hand_over);
        /// How the loop beneath uthreads learns what is ready: select, poll, epoll or uring
        /// [default: uring, or else epoll]
        ///
        /// On the poller of an event loop, uthreads differ from the loop in the stacks alone:
        /// compare them with epoll on `--poller epoll`. The default costs least when many
        /// connections are busy: uring, or epoll if the kernel refuses io_uring.
        #[arg(long)]
        poller: Kind = Some(Kind::best());
        /// What a loop that is busy with many connections does first [default: serve]
        ///
        /// serve: while 1,024 connections are under way (not waiting for their clients) and the
        /// loop is busy, others wait. This order keeps the rate under overload. accept: each
        /// connection begins as soon as it is accepted. This order is fairer when few clients are
        /// slow to be served. In both, the acceptor's turn in a round is 64 connections long. The
        /// flag is for architectures on loops: uthreads, select, poll, epoll, uring.
        #[arg(long, value_parser = by_name::<Prefer>())]
        prefer: Prefer = Some(default.prefer);
        /// Accepted connections that may wait for their turn in the server; the next wait in the
        /// kernel [default: no limit]
        ///
        /// They wait in the queues of loops that serve first, or in the list of pool. A full accept
        /// queue of the kernel drops connections, and their clients try again after a second.
        /// Without a limit, no client meets such drops. With a limit, the server holds fewer
        /// descriptors, and a load balancer sees overload sooner. 0 accepts no connection before
        /// its turn. With a limit, uring makes a system call for each connection that it accepts.
        #[arg(long, value_name = "N")]
        accept_queue: usize = None;
        /// Connections that a work pool or staged has under way at a time; the next wait to be
        /// accepted [default: no limit]
        ///
        /// With a bound somewhat above the number of workers, the memory of requests stays in the
        /// caches, and the rate holds under overload. A connection that rests between two requests
        /// counts too: leave the flag out where clients keep connections open.
        #[arg(long, value_parser = at_least_one, value_name = "N")]
        admit: usize = None;
        /// The most threads of each stage of staged [default: 10]
        ///
        /// A stage has one thread, and one more for each 100 ms that its queue is long. A thread
        /// that has nothing to do for a second ends.
        #[arg(long, value_name = "N")]
        stage_threads: NonZeroUsize = Some(default.stage_threads);
        /// Tasks that may wait at each stage of staged before it admits no further connection
        /// [default: 1024]
        #[arg(long, value_name = "N")]
        stage_queue: NonZeroUsize = Some(default.stage_queue);
        /// What a full server does with further connections [default: delay]
        ///
        /// A server is full at `--max-connections`. With delay, a connection waits up to a second
        /// for a slot before it is refused. With shed, it waits up to 100 ms, so that a client or a
        /// load balancer can go elsewhere soon. For staged there are two more limits: `--admit`,
        /// and a queue longer than `--stage-queue`. Connections beyond these wait in the kernel's
        /// accept queue (delay), or are refused (shed).
        #[arg(long, value_parser = by_name::<WhenFull>())]
        when_full: WhenFull = Some(default.when_full);
        /// Which queues of libdispatch gcd has [default: concurrent]
        #[arg(long, value_parser = by_name::<GcdQueues>())]
        gcd_queues: GcdQueues = Some(default.gcd_queues);
        /// How long a loop with nothing to do goes on looking before it sleeps, such as 50us
        /// [default: 0ms]
        ///
        /// Whatever comes in that time is answered without waking a processor. This shortens
        /// latencies at low load. The flag costs the time of a processor that is otherwise idle.
        /// Give each loop a processor of its own (--cpus): otherwise the loop takes time from the
        /// clients and helpers that it waits for.
        #[arg(long, value_parser = parse_duration, value_name = "TIME")]
        busy_poll: Duration = Some(default.busy_poll);
        /// Which threads read files for the services on a loop [default: helpers]
        ///
        /// helpers: threads, while the loop serves others. inline: the loop itself, while all its
        /// connections wait; quicker where all files are in the page cache. In both, the loop reads
        /// the files that it sends by sendfile. Work on SQLite goes to helpers always.
        #[arg(long, value_parser = by_name::<Disk>())]
        disk: Disk = Some(default.disk);
        /// The most helper threads, for the disk and other work that would hold up a loop [default:
        /// 4]
        #[arg(long, value_name = "N")]
        disk_helpers: NonZeroUsize = Some(default.disk_helpers);
    }
    limits {
        /// Descriptors that the server may have open; no more than the hard limit [default: the
        /// hard limit]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(16..), help_heading = heading::LIMITS)]
        descriptors: u64;
        /// Address space that the server may have, such as 2G; reserved space, such as stacks,
        /// counts too [default: no limit]
        #[arg(long, value_name = "BYTES", value_parser = parse_address_space, help_heading = heading::LIMITS)]
        address_space: u64;
    }
}

/// The value of a flag, in the form of an argument.
trait Value {
    fn text(self) -> String;
}

macro_rules! shown_as_they_are {
    ($($type:ty),*) => {
        $(impl Value for $type {
            fn text(self) -> String {
                self.to_string()
            }
        })*
    };
}

shown_as_they_are! { usize, i32, u64, NonZeroUsize, Kind }

impl Value for Duration {
    fn text(self) -> String {
        format!("{}us", self.as_micros())
    }
}

/// A choice of two values, each with a name on the command line.
trait ByName: Copy + PartialEq + Send + Sync + 'static {
    /// The values, with their names and their help.
    const NAMES: [(Self, &str, &str); 2];
}

impl ByName for Prefer {
    const NAMES: [(Self, &str, &str); 2] = [
        (Self::Serve, "serve", "Serves the connections under way; others wait"),
        (Self::Accept, "accept", "Begins each connection at once"),
    ];
}

impl ByName for Disk {
    const NAMES: [(Self, &str, &str); 2] =
        [(Self::Helpers, "helpers", "Helper threads"), (Self::Inline, "inline", "The loop")];
}

impl ByName for WhenFull {
    const NAMES: [(Self, &str, &str); 2] = [
        (Self::Delay, "delay", "Leaves them in the accept queue"),
        (Self::Shed, "shed", "Refuses them in order"),
    ];
}

impl ByName for GcdQueues {
    const NAMES: [(Self, &str, &str); 2] = [
        (Self::Concurrent, "concurrent", "One for all; its blocks run side by side"),
        (Self::Serial, "serial", "One for each connection, as in workpool-serial"),
    ];
}

impl ByName for HandOver {
    const NAMES: [(Self, &str, &str); 2] = [
        (Self::List, "list", "One thread accepts and hands over by a list"),
        (Self::Accept, "accept", "Each thread accepts for itself"),
    ];
}

macro_rules! shown_by_name {
    ($($type:ty),*) => {
        $(impl Value for $type {
            fn text(self) -> String {
                let mut names = Self::NAMES.into_iter();
                let found = names.find(|(choice, ..)| *choice == self);
                found.expect("every choice has a name").1.to_owned()
            }
        })*
    };
}

shown_by_name! { Prefer, Disk, HandOver, WhenFull, GcdQueues }

/// Reads a choice by its name.
fn by_name<T: ByName>() -> impl TypedValueParser<Value = T> {
    let names = T::NAMES.map(|(_, name, about)| PossibleValue::new(name).help(about));
    PossibleValuesParser::new(names).map(|text| {
        let found = T::NAMES.into_iter().find(|(_, name, _)| *name == text);
        found.expect("only names are possible").0
    })
}

/// `--stack-size=65536`.
fn argument(field: &str, value: impl Value) -> String {
    format!("--{}={}", field.replace('_', "-"), value.text())
}

impl Tuning {
    /// Reads the arguments that a plan gives to servers.
    ///
    /// # Errors
    ///
    /// The error names the mistake in one line.
    pub(in crate::cli) fn parse(arguments: &[String]) -> Result<Self, Mistake> {
        let command =
            Self::augment_args(Command::new("serve").no_binary_name(true)).args_override_self(true);
        let matches = command
            .disable_help_flag(true)
            .try_get_matches_from(arguments)
            .map_err(|error| crate::cli::in_one_line(&error))?;
        Self::from_arg_matches(&matches).map_err(|error| crate::cli::in_one_line(&error).into())
    }

    /// These flags, with the service's own defaults for those that are absent.
    pub(in crate::cli) fn suited_to(self, service: &Listed) -> Self {
        Self { stack_size: self.stack_size.or(service.stack_size), ..self }
    }

    /// Whether `service` can be served with these flags.
    ///
    /// # Errors
    ///
    /// If the stacks would be too small for it.
    pub(in crate::cli) fn check(self, service: &Listed) -> Result<(), Misfit> {
        let (given, least) = (self.options().stack_size, service.stack);
        if given >= least {
            return Ok(());
        }
        let (name, least) = (&service.name, least / 1024);
        let problem = format!("{name} overflows stacks of {given} bytes: give {least}K at least");
        Err(Misfit::new("stack-size", problem))
    }
}

fn at_least_one(text: &str) -> Result<usize, Mistake> {
    match text.parse() {
        Ok(0) | Err(_) => Err("give a whole number from 1 on".into()),
        Ok(number) => Ok(number),
    }
}

fn parse_rate(text: &str) -> Result<usize, Mistake> {
    let is_possible = |rate: &usize| (1..=10_000).contains(rate);
    text.parse().ok().filter(is_possible).ok_or("give a whole number from 1 to 10000".into())
}

/// In bytes. With less than this, no server of ours starts.
fn parse_address_space(text: &str) -> Result<u64, Mistake> {
    parse_bytes(text)
        .ok()
        .filter(|bytes| *bytes >= 64 << 20)
        .ok_or_else(|| "give a size from 64M on".into())
}

/// Bytes of a stack.
pub(in crate::cli) fn parse_size(text: &str) -> Result<usize, Mistake> {
    parse_bytes(text)
        .ok()
        .filter(|bytes| (16 << 10..=1 << 30).contains(bytes))
        .and_then(|bytes| usize::try_from(bytes).ok())
        .ok_or_else(|| "give a size from 16K to 1G".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Tuning, Mistake> {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        Tuning::parse(&arguments)
    }

    #[test]
    fn what_is_said_to_a_child_says_the_same() {
        let tuning = parse(&["--workers=7", "--stack-size", "64K", "--hand-over=accept"]).unwrap();
        let again = Tuning::parse(&tuning.to_arguments()).unwrap();
        let options = tuning.options().poller(Some(Kind::best()));
        assert_eq!(again.options(), options);
        assert_eq!((again.options().workers, again.options().stack_size), (7, 64 * 1024));
        assert_eq!(Tuning::default().options(), Options::default());
    }

    #[test]
    fn every_policy_reaches_a_child() {
        let policies = [
            "--prefer=accept",
            "--accept-queue=0",
            "--busy-poll=50us",
            "--disk=inline",
            "--disk-helpers=2",
            "--poller=poll",
        ];
        let tuning = parse(&policies).unwrap();
        let options = Tuning::parse(&tuning.to_arguments()).unwrap().options();
        let expected = Options::default()
            .prefer(Prefer::Accept)
            .accept_queue(Some(0))
            .busy_poll(Duration::from_micros(50))
            .disk(Disk::Inline)
            .disk_helpers(NonZeroUsize::new(2).unwrap())
            .poller(Some(Kind::Poll));
        assert_eq!(options, expected);
    }

    #[test]
    fn limits_reach_a_child() {
        let tuning = parse(&["--descriptors=100", "--address-space=2G"]).unwrap();
        let again = Tuning::parse(&tuning.to_arguments()).unwrap();
        let options = Options::default().poller(Some(Kind::best()));
        assert_eq!((again.descriptors, again.address_space), (Some(100), Some(2 << 30)));
        assert_eq!(again.options(), options);
        for wrong in ["--descriptors=3", "--address-space=1M"] {
            assert!(parse(&[wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_first_choice_counts() {
        let flags = parse(&["--workers=7"]).unwrap();
        let options = flags.or(parse(&["--workers=8", "--cores=2"]).unwrap()).options();
        assert_eq!((options.workers, options.cores), (7, 2));
    }

    #[test]
    fn mistakes_are_told_in_one_line() {
        for wrong in [
            &["--workers=0"][..],
            &["--listen=x"],
            &["--help"],
            &["x"],
            &["--cores"],
            &["--prefer=none"],
            &["--accept-queue=-1"],
            &["--busy-poll=long"],
            &["--disk-helpers=0"],
        ] {
            let problem = parse(wrong).err().unwrap().to_string();
            assert!(!problem.contains('\n') && !problem.is_empty(), "{wrong:?}: {problem}");
        }
    }

    #[test]
    fn the_defaults_that_help_tells_are_those() {
        let Options { workers, cores, backlog, stack_size, disk_helpers, .. } = Options::default();
        let help = Tuning::augment_args(Command::new("serve")).render_help().to_string();
        // The test ignores line breaks.
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for value in [workers, cores, backlog as usize, disk_helpers.get()] {
            assert!(help.contains(&format!("[default: {value}]")), "{value}: {help}");
        }
        assert!(help.contains(&format!("[default: {}K]", stack_size / 1024)), "{help}");
    }
}
