//! `duality load`.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser};
use duality_load::{
    Arrivals, Crowd, Error, Named, Observer, Options, Pattern, Probe, Slo, Sources, Stop, Target,
    peak_goodput,
};

use super::Failure;

/// Where a search for a rate begins, in requests a second, if nobody says.
const FIRST_RATE: f64 = 1_000.0;

/// The period of sinusoidal waits, if nobody says.
const PERIOD: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  duality load http://127.0.0.1:8080/
      100 connections, each of which asks again as soon as it is answered: what the server can do at most
  duality load -c 1000 -n 100000 --close http://127.0.0.1:8080/
      100,000 requests, each on a connection of its own, 1,000 at a time
  duality load --pattern serial -c 1000 echo://127.0.0.1:8080
      1,000 connections are open, and one of them at a time is in use
  duality load -R 5000 --arrivals poisson http://127.0.0.1:8080/
      5,000 requests/s, whether or not the server keeps up; latency counts from when a request was due
  duality load --arrivals sinusoidal --wait 100us..2ms --period 2s -d 10s echo://127.0.0.1:8080
      waits between requests that swing from 2 ms to 100 µs and back, every 2 s
  duality load --slo p99=10ms http://127.0.0.1:8080/
      the highest rate at which 99 % of all requests are answered within 10 ms

docs/load.md explains what each of these measures.")]
pub(super) struct Arguments {
    /// What to ask: SERVICE://HOST:PORT, for http and guestbook with a /PATH
    ///
    /// The services are http, echo, time, quote, game, chat, phone and guestbook.
    target: Target,
    /// Connections that are open at once
    #[arg(short, long, default_value_t = 100)]
    connections: usize,
    /// How long to measure, such as 10s, 500ms or 2m
    #[arg(short, long, default_value = "10s", value_parser = parse_duration, conflicts_with = "requests")]
    duration: Duration,
    /// Make exactly this many requests instead
    #[arg(short = 'n', long)]
    requests: Option<u64>,
    /// How long to run before measuring
    #[arg(long, default_value = "1s", value_parser = parse_duration)]
    warm_up: Duration,
    /// A new connection for each request
    #[arg(long)]
    close: bool,
    /// How clients behave; closed, or open if there is a rate
    #[arg(long, value_parser = patterns())]
    pattern: Option<String>,
    /// Make so many requests a second, whether or not the server keeps up
    #[arg(short = 'R', long, value_name = "PER_SECOND")]
    rate: Option<f64>,
    /// How requests come in an open loop; constant if nobody says
    ///
    /// constant is the kindest to a server, poisson what many users make who do not know of each other.
    #[arg(long, value_parser = ["constant", "poisson", "uniform", "sinusoidal"])]
    arrivals: Option<String>,
    /// Shortest and longest wait between uniform or sinusoidal arrivals, such as 100us..2ms
    ///
    /// Instead of a rate. With one, uniform waits go from 0 to twice the mean, and the rate of sinusoidal
    /// ones swings between half and twice of it.
    #[arg(long, value_name = "MIN..MAX", value_parser = parse_range, conflicts_with = "rate")]
    wait: Option<(Duration, Duration)>,
    /// How long sinusoidal waits take to swing to and fro once; 1s if nobody says
    ///
    /// A window should be several of it.
    #[arg(long, value_parser = parse_duration)]
    period: Option<Duration>,
    /// Search for the highest rate that keeps this, such as p99=10ms
    ///
    /// One of p50, p90, p99, p99.9, p99.99 and max, counted from when a request was due; and nothing may
    /// fail. Short loads of a fifth of --duration narrow the rate down from --rate to 3 %, and one of the
    /// whole of it confirms the result.
    #[arg(long, value_name = "PERCENTILE=LIMIT", value_parser = parse_slo, conflicts_with = "requests")]
    slo: Option<Slo>,
    /// What chance depends on: the same seed gives the same arrivals
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The longest wait for a reply
    #[arg(long, default_value = "30s", value_parser = parse_duration)]
    timeout: Duration,
    /// Addresses (127.0.0.1 and up) to connect from [default: as many as a server on the loopback needs]
    #[arg(long, value_name = "N")]
    sources: Option<NonZeroU32>,
    /// Further connections that make one request and then rest in silence
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    idle: usize,
    /// Further connections that make requests and take the replies 100 bytes a second
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    slow_readers: usize,
    /// Further connections that send requests a byte a second
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    slow_senders: usize,
    /// Processors to run on, such as 1 or 1,3
    #[arg(long, value_delimiter = ',', value_name = "CPU,…")]
    cpus: Vec<usize>,
    /// Print JSON (format version 1)
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let options = arguments.options().map_err(Failure::misuse)?;
    let interrupted = on_interrupt()?;
    let text = match &arguments.slo {
        None => {
            let report = duality_load::run(&options, &mut (), &interrupted).map_err(failure)?;
            if arguments.json { serde_json::to_string(&report) } else { Ok(report.render_text()) }
        }
        Some(slo) => {
            let found = peak_goodput(&options, slo, &mut Progress(0), &interrupted);
            let found = found.map_err(failure)?;
            if arguments.json { serde_json::to_string(&found) } else { Ok(found.render_text()) }
        }
    };
    println!("{}", text.expect("a report is plain data").trim_end());
    Ok(())
}

fn failure(error: Error) -> Failure {
    match error {
        Error::Options(_) | Error::Target(_) => Failure::misuse(error.to_string()),
        other => Failure::failed(other.to_string()),
    }
}

/// Tells of each probe of a search, by its number.
struct Progress(usize);

impl Observer for Progress {
    fn probed(&mut self, probe: &Probe) {
        self.0 += 1;
        eprintln!("probe {}: {}", self.0, probe.render_line());
    }
}

impl Arguments {
    fn options(&self) -> Result<Options, String> {
        let named = self.named();
        if named.keep_alive == Some(true) && self.close {
            return Err(
                "--pattern long keeps its connections: leave out --close, or say --pattern short"
                    .into(),
            );
        }
        let pattern = match named.pattern {
            Some(_) if self.says_open() => {
                return Err(format!(
                    "a rate, its arrivals and --slo are for an open loop: leave out --pattern {}",
                    named.name
                ));
            }
            Some(pattern) => pattern,
            None => Pattern::Open(self.arrivals()?),
        };
        Ok(Options {
            pattern,
            connections: self.connections,
            stop: self.requests.map_or(Stop::After(self.duration), Stop::Requests),
            warm_up: self.warm_up,
            keep_alive: named.keep_alive.unwrap_or(!self.close),
            cpus: self.cpus.clone(),
            reply_timeout: self.timeout,
            seed: self.seed,
            sources: self.sources.map_or(Sources::Automatic, Sources::Count),
            crowd: Crowd {
                idle: self.idle,
                slow_readers: self.slow_readers,
                slow_senders: self.slow_senders,
                ..Crowd::default()
            },
            ..Options::new(self.target.clone())
        })
    }

    /// The pattern that is asked for, by its name or by what only an open loop has.
    fn named(&self) -> &'static Named {
        let implied = if self.says_open() { "open" } else { "closed" };
        let name = self.pattern.as_deref().unwrap_or(implied);
        Pattern::named(name).expect("the command line takes no other names")
    }

    fn says_open(&self) -> bool {
        let Self { rate, arrivals, wait, period, slo, .. } = self;
        let rated = rate.is_some() || wait.is_some() || slo.is_some();
        rated || arrivals.is_some() || period.is_some()
    }

    fn arrivals(&self) -> Result<Arrivals, String> {
        let name = self.arrivals.as_deref().unwrap_or("constant");
        if self.period.is_some() && name != "sinusoidal" {
            return Err("--period needs --arrivals sinusoidal".to_owned());
        }
        let period = self.period.unwrap_or(PERIOD);
        let rate = self.rate.or(self.slo.map(|_| FIRST_RATE));
        match (name, self.wait, rate) {
            ("uniform", Some((shortest, longest)), _) => {
                Ok(Arrivals::Uniform { shortest, longest })
            }
            ("sinusoidal", Some((shortest, longest)), _) => {
                Ok(Arrivals::Sinusoidal { shortest, longest, period })
            }
            (_, Some(_), _) => {
                Err("--wait needs --arrivals uniform or --arrivals sinusoidal".to_owned())
            }
            (_, None, None) => Err("an open loop needs a rate, as in --rate 1000".to_owned()),
            ("poisson", None, Some(rate)) => Ok(Arrivals::Poisson { rate }),
            ("uniform", None, Some(rate)) => Ok(Arrivals::uniform(rate)),
            ("sinusoidal", None, Some(rate)) => Ok(Arrivals::sinusoidal(rate, period)),
            (_, None, Some(rate)) => Ok(Arrivals::Constant { rate }),
        }
    }
}

fn patterns() -> PossibleValuesParser {
    let values =
        Pattern::NAMED.iter().map(|named| PossibleValue::new(named.name).help(named.about));
    values.collect::<Vec<_>>().into()
}

/// A flag that the first Ctrl-C or SIGTERM sets; the second ends the process.
pub(super) fn on_interrupt() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, flag.clone())
            .and_then(|_| signal_hook::flag::register(signal, flag.clone()))
            .map_err(|error| Failure::failed(format!("cannot handle signals: {error}")))?;
    }
    Ok(flag)
}

/// A percentile and its limit, as in `p99=10ms`.
fn parse_slo(text: &str) -> Result<Slo, String> {
    let (percentile, limit) = text.split_once('=').ok_or("give a limit such as p99=10ms")?;
    Ok(Slo { percentile: percentile.parse()?, limit: parse_duration(limit)? })
}

/// Two durations, as in `100us..2ms`.
fn parse_range(text: &str) -> Result<(Duration, Duration), String> {
    let (shortest, longest) = text.split_once("..").ok_or("give a range such as 100us..2ms")?;
    Ok((parse_duration(shortest)?, parse_duration(longest)?))
}

/// A number with us, ms, s or m; without a unit, seconds.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, scale) = if let Some(number) = text.strip_suffix("ms") {
        (number, 1e-3)
    } else if let Some(number) = text.strip_suffix("us").or_else(|| text.strip_suffix("µs")) {
        (number, 1e-6)
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        arguments: Arguments,
    }

    /// What a command line asks for, or what is wrong with it.
    fn options(line: &str) -> Result<Options, String> {
        let words = "load echo://127.0.0.1:7".split(' ').chain(line.split_whitespace());
        let parsed = CommandLine::try_parse_from(words).map_err(|error| error.to_string())?;
        parsed.arguments.options()
    }

    #[test]
    fn patterns_are_named_or_follow_from_the_flags() {
        let millisecond = Duration::from_millis(1);
        let (shortest, longest) = (millisecond / 10, 2 * millisecond);
        let period = Duration::from_secs(2);
        for (line, pattern, keep_alive) in [
            ("", Pattern::Closed, true),
            ("--close", Pattern::Closed, false),
            ("--pattern closed --close", Pattern::Closed, false),
            ("--pattern long", Pattern::Closed, true),
            ("--pattern short", Pattern::Closed, false),
            ("--pattern short --close", Pattern::Closed, false),
            ("--pattern serial", Pattern::Serial, true),
            ("--pattern limited", Pattern::Limited, true),
            ("-R 10", Pattern::Open(Arrivals::Constant { rate: 10.0 }), true),
            (
                "--pattern open --rate 10 --close",
                Pattern::Open(Arrivals::Constant { rate: 10.0 }),
                false,
            ),
            ("-R 10 --arrivals poisson", Pattern::Open(Arrivals::Poisson { rate: 10.0 }), true),
            ("-R 10 --arrivals uniform", Pattern::Open(Arrivals::uniform(10.0)), true),
            (
                "--arrivals uniform --wait 100us..2ms",
                Pattern::Open(Arrivals::Uniform { shortest, longest }),
                true,
            ),
            (
                "--arrivals sinusoidal --wait 100µs..2ms --period 2s",
                Pattern::Open(Arrivals::Sinusoidal { shortest, longest, period }),
                true,
            ),
            ("--slo p99=10ms", Pattern::Open(Arrivals::Constant { rate: FIRST_RATE }), true),
            ("--slo p99=10ms -R 50", Pattern::Open(Arrivals::Constant { rate: 50.0 }), true),
        ] {
            let options = options(line).unwrap();
            assert_eq!((options.pattern, options.keep_alive), (pattern, keep_alive), "{line}");
        }
    }

    #[test]
    fn what_does_not_go_together_is_told() {
        for (line, remedy) in [
            ("--pattern long --close", "--pattern short"),
            ("--pattern serial -R 10", "leave out --pattern serial"),
            ("--pattern closed --slo p99=1ms", "leave out --pattern closed"),
            ("--pattern open", "--rate 1000"),
            ("--arrivals poisson", "--rate 1000"),
            ("--pattern serial --arrivals poisson", "leave out --pattern serial"),
            ("-R 10 --period 2s", "--arrivals sinusoidal"),
            ("--wait 1ms..2ms", "--arrivals uniform"),
            ("--wait 1ms..2ms --arrivals uniform -R 10", "--rate"),
            ("--pattern random", "limited"),
            ("--arrivals random", "poisson"),
            ("--slo p98=10ms", "p99.9"),
            ("--slo 10ms", "p99=10ms"),
            ("--slo p99=soon", "500ms"),
            ("--slo p99=10ms -n 5", "--requests"),
            ("--wait 1ms", "100us..2ms"),
        ] {
            let problem = options(line).map(|_| ()).unwrap_err();
            assert!(problem.contains(remedy), "{line}: {problem}");
        }
    }
}
