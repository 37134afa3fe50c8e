//! What can be chosen about an architecture. `serve` takes these flags, and `compare` hands them on to the
//! servers that it starts; so does the key `server-arguments` of a plan.

use clap::{Args, Command, FromArgMatches, ValueEnum};
use duality_architectures::{HandOver, Options};

/// What was chosen; what was not has its default.
#[derive(Clone, Copy, Default, Args)]
pub(crate) struct Tuning {
    /// Processes of prefork, threads of pool [default: 100]
    #[arg(long, value_parser = at_least_one)]
    workers: Option<usize>,
    /// Kernel threads of uthreads, select, poll, epoll and handwritten, each with a listener and loop of its own [default: 1]
    #[arg(long, value_parser = at_least_one)]
    cores: Option<usize>,
    /// Connections that may wait to be accepted; the kernel caps it at net.core.somaxconn [default: 4096]
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..))]
    backlog: Option<i32>,
    /// Connections served at a time; further ones are refused, http ones by 503 [default: no limit]
    #[arg(long, value_parser = at_least_one, value_name = "N")]
    max_connections: Option<usize>,
    /// Stack of each thread, kernel or user-level, such as 64K or 1M [default: 128K]
    #[arg(long, value_parser = parse_size, value_name = "BYTES")]
    stack_size: Option<usize>,
    /// How the threads of pool come by connections [default: list]
    #[arg(long, value_enum)]
    hand_over: Option<HandOverName>,
}

#[derive(Clone, Copy, ValueEnum)]
enum HandOverName {
    /// One thread accepts and hands over by a list
    List,
    /// Each thread accepts for itself
    Accept,
}

impl Tuning {
    /// Reads the arguments that a plan gives to servers.
    ///
    /// # Errors
    ///
    /// What is wrong with them, in one line.
    pub(super) fn parse(arguments: &[String]) -> Result<Self, String> {
        let command = Self::augment_args(Command::new("serve").no_binary_name(true));
        let matches = command
            .disable_help_flag(true)
            .try_get_matches_from(arguments)
            .map_err(|error| super::in_one_line(&error))?;
        Self::from_arg_matches(&matches).map_err(|error| super::in_one_line(&error))
    }

    /// These choices, and those of `other` where there is none.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            workers: self.workers.or(other.workers),
            cores: self.cores.or(other.cores),
            backlog: self.backlog.or(other.backlog),
            max_connections: self.max_connections.or(other.max_connections),
            stack_size: self.stack_size.or(other.stack_size),
            hand_over: self.hand_over.or(other.hand_over),
        }
    }

    pub(super) fn options(self) -> Options {
        let default = Options::default();
        Options {
            workers: self.workers.unwrap_or(default.workers),
            cores: self.cores.unwrap_or(default.cores),
            backlog: self.backlog.unwrap_or(default.backlog),
            max_connections: self.max_connections.unwrap_or(default.max_connections),
            stack_size: self.stack_size.unwrap_or(default.stack_size),
            hand_over: match self.hand_over {
                None => default.hand_over,
                Some(HandOverName::Accept) => HandOver::Accept,
                Some(HandOverName::List) => HandOver::List,
            },
        }
    }

    /// The arguments that say all this, defaults included, to a server that is started as a child.
    pub(super) fn to_arguments(self) -> Vec<String> {
        let options = self.options();
        let hand_over = match options.hand_over {
            HandOver::Accept => "accept",
            HandOver::List => "list",
        };
        let mut arguments = vec![
            format!("--workers={}", options.workers),
            format!("--cores={}", options.cores),
            format!("--backlog={}", options.backlog),
            format!("--stack-size={}", options.stack_size),
            format!("--hand-over={hand_over}"),
        ];
        arguments.extend(self.max_connections.map(|limit| format!("--max-connections={limit}")));
        arguments
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("give a whole number from 1 on".into()),
        Ok(number) => Ok(number),
    }
}

/// Bytes, with an optional K, M or G.
fn parse_size(text: &str) -> Result<usize, String> {
    let (digits, unit) = match text.char_indices().next_back() {
        Some((end, 'K' | 'k')) => (&text[..end], 1 << 10),
        Some((end, 'M' | 'm')) => (&text[..end], 1 << 20),
        Some((end, 'G' | 'g')) => (&text[..end], 1 << 30),
        _ => (text, 1),
    };
    let bytes = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(unit));
    match bytes {
        Some(bytes) if (16 << 10..=1 << 30).contains(&bytes) => Ok(bytes),
        _ => Err("give a size from 16K to 1G".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Tuning, String> {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        Tuning::parse(&arguments)
    }

    #[test]
    fn what_is_said_to_a_child_says_the_same() {
        let tuning = parse(&["--workers=7", "--stack-size", "64K", "--hand-over=accept"]).unwrap();
        let again = Tuning::parse(&tuning.to_arguments()).unwrap();
        assert_eq!(again.options(), tuning.options());
        assert_eq!((again.options().workers, again.options().stack_size), (7, 64 * 1024));
        assert_eq!(Tuning::default().options(), Options::default());
    }

    #[test]
    fn the_first_choice_counts() {
        let flags = parse(&["--workers=7"]).unwrap();
        let options = flags.or(parse(&["--workers=8", "--cores=2"]).unwrap()).options();
        assert_eq!((options.workers, options.cores), (7, 2));
    }

    #[test]
    fn mistakes_are_told_in_one_line() {
        for wrong in [&["--workers=0"][..], &["--listen=x"], &["--help"], &["x"], &["--cores"]] {
            let problem = parse(wrong).err().unwrap();
            assert!(!problem.contains('\n') && !problem.is_empty(), "{wrong:?}: {problem}");
        }
    }

    #[test]
    fn the_defaults_that_help_tells_are_those() {
        let Options { workers, cores, backlog, stack_size, .. } = Options::default();
        let told = Tuning::augment_args(Command::new("serve")).render_help().to_string();
        for value in [workers.to_string(), cores.to_string(), backlog.to_string()] {
            assert!(told.contains(&format!("[default: {value}]")), "{value}: {told}");
        }
        assert!(told.contains(&format!("[default: {}K]", stack_size / 1024)), "{told}");
    }
}
