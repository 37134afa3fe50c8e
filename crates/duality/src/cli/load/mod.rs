//! `duality load`.

mod display;
mod output;
mod requests;
mod shown;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use duality_lab::Mistake;
use duality_lab::ask::clients;
use duality_lab::ask::replay::read_trace;
use duality_lab::ask::settings::{
    check_warm_up, check_window, parse_bytes, parse_duration, parse_place, parse_slo,
};
use duality_lab::ask::thresholds::Threshold;
use duality_lab::live::Page;
use duality_lab::measure::behaviour::Behaviour;
use duality_load::{
    At, Cut, Options, Pattern, Piece, Report, Slo, Stop, Trust, peak_goodput, write_files,
};
use duality_runtime::log;

use self::display::Display;
use self::output::Format;
use self::requests::RequestFlags;
use super::flags::settings::{Clients, SettingFlags};
use super::live::LiveFlags;
use super::{Blame, Failure, Party, flag, for_terminal, heading, print};

/// Where a search for a rate begins by default, in requests a second.
const FIRST_RATE: f64 = 1_000.0;

#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  duality load http://127.0.0.1:8080/
      100 connections, each of which asks again as soon as it is answered: what
      the server can do at most
  duality load -c 1000 -n 100000 --close http://127.0.0.1:8080/
      100,000 requests, each on a connection of its own, 1,000 at a time
  duality load --pattern serial -c 1000 echo://127.0.0.1:8080
      1,000 connections are open, and one of them at a time is in use
  duality load -R 5000 --arrivals poisson http://127.0.0.1:8080/
      5,000 requests/s, whether or not the server keeps up; latency counts from
      when a request was due
  duality load --arrivals sinusoidal --wait 100us..2ms --period 2s \\
          -d 10s echo://127.0.0.1:8080
      waits between requests that swing from 2 ms to 100 µs and back, every 2 s
  duality load --slo p99=10ms http://127.0.0.1:8080/
      the highest rate at which 99 % of all requests are answered within 10 ms
  duality load -H 'Accept: application/json' --expect-status 2xx \\
          --expect-body any --fail-if 'p99>10ms' http://127.0.0.1:8080/api
      exit code 1 if p99 is above 10 ms, or if the load failed
  duality load --urls urls.txt --values users.csv http://127.0.0.1:8080
      requests from a file, each connection with the values of one line
  duality load --live --open http://127.0.0.1:8080/
      a page in the browser that follows the load (docs/live.md)
  duality load --trace my.trace --users 10 http://127.0.0.1:8080/
      the load of an access log, as ten times as many people would make it
      (docs/replay.md)

docs/load.md explains what each of these measures, docs/requests.md what an
http load may ask.")]
pub(super) struct Arguments {
    /// What to ask: SERVICE://HOST:PORT, for http, guestbook and relay with a /PATH
    ///
    /// The services are http, echo, time, quote, game, chat, phone, guestbook, relay and blocks. A
    /// target of http may be localhost:8080, :8080 or 8080, or http+unix:///PATH/TO.SOCK:/URL.
    /// HTTP/2 is h2://HOST:PORT by TLS, and h2c://HOST:PORT without TLS (docs/load.md). A chat or a
    /// game on several servers is chat://HOST:PORT,HOST:PORT: the clients go to each in turn.
    #[arg(required_unless_present_any = ["urls", "files"])]
    target: Option<String>,
    /// Connections that are open at once
    #[arg(short, long, default_value_t = 100)]
    connections: usize,
    /// Length of the measurement, such as 10s, 500ms or 2m
    #[arg(short, long, default_value = "10s", value_parser = parse_window, conflicts_with = "requests")]
    duration: Duration,
    /// Make exactly this many requests instead, those of the warm-up included
    #[arg(short = 'n', long)]
    requests: Option<u64>,
    /// Length of the warm-up before the measurement
    #[arg(long, default_value = "1s", value_parser = parse_warm_up, help_heading = heading::MEASURING)]
    warm_up: Duration,
    #[command(flatten)]
    clients: SettingFlags<Clients>,
    #[command(flatten)]
    requests_of: RequestFlags,
    /// Fail if a figure passes its limit, such as 'p99>10ms'; may be given again
    ///
    /// Figures are p50 to p99.99, max and mean, with a duration. Further figures are errors
    /// ('errors>0'), failures as a share of all requests ('failures>1%') and rate ('rate<1000/s').
    /// The exit code is then 1. The exit code is also 1 if a rate (-R) was not kept.
    #[arg(long, value_name = "CONDITION", conflicts_with = "slo", help_heading = heading::CHECKS)]
    fail_if: Vec<Threshold>,
    /// Search for the highest rate that keeps this, such as p99=10ms
    ///
    /// Percentiles are p50, p90, p99, p99.9, p99.99 and max, counted from the time at which a
    /// request was due. No request may fail. Short loads of a fifth of --duration narrow the rate
    /// down from --rate to 3 %. One load of the whole --duration confirms the result. A percentile
    /// needs enough requests: 1,000 for p99, 10,000 for p99.9. If the loads are too short for that,
    /// short loads take --duration, and the last load takes up to three times as long.
    #[arg(long, value_name = "PERCENTILE=LIMIT", value_parser = parse_slo, conflicts_with = "requests")]
    slo: Option<Slo>,
    /// Replay a recorded load: connections come, ask, think and stay as they did
    ///
    /// `duality trace from` makes a recording from an access log. The piece that is replayed is as
    /// long as --duration. With --close, each request has a connection of its own (docs/replay.md).
    #[arg(long, value_name = "TRACE", conflicts_with_all = ["requests", "slo", "connections"], help_heading = heading::CLIENTS)]
    trace: Option<PathBuf>,
    /// Replay a multiple of the users, with pieces from as many places of the recording [default:
    /// 1]
    #[arg(long, value_name = "N", requires = "trace", conflicts_with = "speed", help_heading = heading::CLIENTS)]
    users: Option<usize>,
    /// Replay the recording faster by this factor: a what-if, since users do not think faster
    #[arg(long, value_name = "X", requires = "trace", help_heading = heading::CLIENTS)]
    speed: Option<f64>,
    /// Replay the piece from there: busiest, median, or a time such as 90s [default: anywhere]
    #[arg(long, value_name = "PLACE", requires = "trace", value_parser = parse_place, help_heading = heading::CLIENTS)]
    at: Option<At>,
    /// How many users of --trace come at the same time: a what-if [default: 1]
    #[arg(long, value_name = "N", requires = "trace", help_heading = heading::CLIENTS)]
    bunch: Option<usize>,
    /// The speed at which each client of --trace takes its replies, in bytes a second such as
    /// 128KB: a what-if [default: as recorded]
    #[arg(long, value_name = "BYTES", requires = "trace", value_parser = parse_bytes, help_heading = heading::CLIENTS)]
    client_rate: Option<u64>,
    /// Trust the authorities in this file (PEM) for https:// and h2:// [default: those of the
    /// system]
    #[arg(long, value_name = "FILE", conflicts_with = "insecure", help_heading = heading::CLIENTS)]
    ca: Option<PathBuf>,
    /// Trust every certificate for https:// and h2://, as test servers sign their own
    #[arg(long, help_heading = heading::CLIENTS)]
    insecure: bool,
    /// Write the files that --trace asks for into DIR, to be served by --root, and do nothing else
    #[arg(long, value_name = "DIR", requires = "trace", help_heading = heading::CLIENTS)]
    files: Option<PathBuf>,
    /// Seed of random choices: the same seed gives the same arrivals
    #[arg(long, default_value_t = 1, help_heading = heading::MEASURING)]
    seed: u64,
    /// The longest wait for a reply
    #[arg(long, default_value = "30s", value_parser = parse_duration, help_heading = heading::MEASURING)]
    timeout: Duration,
    /// Processors to run on, such as 1 or 1,3
    #[arg(long, value_delimiter = ',', value_name = "CPU,…", help_heading = heading::MEASURING)]
    cpus: Vec<usize>,
    /// Show a histogram of the last seconds while the load runs, on a terminal
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    live: LiveFlags,
    /// How to write the report: text, json, csv or prometheus
    #[arg(long, value_enum, default_value_t = Format::Text, hide_possible_values = true)]
    format: Format,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

fn parse_window(text: &str) -> Result<Duration, Mistake> {
    let window = parse_duration(text)?;
    check_window(window).map(|()| window)
}

fn parse_warm_up(text: &str) -> Result<Duration, Mistake> {
    let warm_up = parse_duration(text)?;
    check_warm_up(warm_up).map(|()| warm_up)
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let (Some(folder), Some(trace)) = (&arguments.files, &arguments.trace) {
        let trace = read_trace(trace).blame(Party::User)?;
        let count = write_files(&trace, folder).blame_at(Party::Machine, folder.display())?;
        let folder = folder.display();
        return print(&format!(
            "{count} files in {folder}: serve them by `duality serve http --root {folder}`"
        ));
    }
    let options = arguments.options()?;
    let interrupted = on_interrupt()?;
    let live = arguments.live.or_open();
    live.beside(|page| carry_out(arguments, &options, &interrupted, page.cloned()))
}

/// Makes the load, and tells what came of it.
fn carry_out(
    arguments: &Arguments,
    options: &Options,
    interrupted: &AtomicBool,
    page: Option<Page>,
) -> Result<(), Failure> {
    let format = if arguments.json { Format::Json } else { arguments.format };
    let mut display = Display::new(options, arguments.verbose, page);
    let unreadable = |error: duality_load::HistogramError| Failure::new(Party::Load, error);
    let (text, failures, report) = match &arguments.slo {
        None => {
            let report = duality_load::run(options, &mut display, interrupted);
            display.clear();
            let report = report?;
            let failures = arguments.failures(&report).map_err(unreadable)?;
            (output::report(&report, format), failures, Some(report))
        }
        Some(slo) => {
            let found = peak_goodput(options, slo, &mut display, interrupted);
            display.clear();
            let found = found?;
            (output::goodput(&found, format), Vec::from_iter(found.failure()), found.report)
        }
    };
    let text = text.map_err(unreadable)?;
    let is_text = matches!(format, Format::Text);
    print(&if is_text { for_terminal(text, &io::stdout()) } else { text })?;
    display.finish(report.as_ref());
    let Some((last, others)) = failures.split_last() else { return Ok(()) };
    for why in others {
        log::tell(format_args!("duality: {why}"));
    }
    Err(Failure::new(Party::Subject, last))
}

impl Arguments {
    /// The reasons why the load has failed: its faults, and the thresholds that it has passed.
    fn failures(&self, report: &Report) -> Result<Vec<String>, duality_load::HistogramError> {
        let mut failures: Vec<String> = report
            .failure()
            .map(|why| format!("{why}{}", self.requests_of.hint(report)))
            .into_iter()
            .collect();
        for threshold in &self.fail_if {
            let broken = threshold.broken(report)?;
            failures.extend(broken.map(|reason| format!("{}: {reason}", report.target)));
        }
        Ok(failures)
    }

    fn options(&self) -> Result<Options, Failure> {
        let mut settings = self.clients.settings();
        if self.trace.is_some() {
            settings.pattern.get_or_insert_with(|| Pattern::Trace.name().to_owned());
        }
        if self.slo.is_some() {
            let named = settings.pattern.get_or_insert_with(|| "open".to_owned());
            if named != "open" {
                return Err(Failure::misuse(format!(
                    "--slo searches for a rate, which only an open loop has: leave out --pattern {named}"
                )));
            }
            if settings.wait.is_none() {
                settings.rate.get_or_insert(FIRST_RATE);
            }
        }
        let Behaviour { pattern, keep_alive, crowd, sources } =
            clients::behaviour(&settings).map_err(flag)?;
        let target = self.requests_of.target(self.target.as_deref())?;
        let options = Options {
            pattern,
            connections: self.connections,
            stop: self.requests.map_or(Stop::After(self.duration), Stop::Requests),
            warm_up: self.warm_up,
            keep_alive,
            cpus: self.cpus.clone(),
            reply_timeout: self.timeout,
            seed: self.seed,
            sources,
            crowd,
            requests_per_connection: self.requests_of.requests_per_connection,
            expected: self.requests_of.expected_statuses(),
            trust: match (&self.ca, self.insecure) {
                (_, true) => Trust::Anything,
                (Some(file), false) => Trust::Authority(file.clone()),
                (None, false) => Trust::System,
            },
            ..Options::new(target)
        };
        let Some(trace) = &self.trace else { return Ok(options) };
        if pattern != Pattern::Trace {
            return Err(Failure::misuse(format!(
                "--trace has a pattern of its own: leave out --pattern {}",
                pattern.name()
            )));
        }
        let trace = read_trace(trace).blame(Party::User)?;
        let cut = Cut {
            users: self.users.unwrap_or(1),
            speed: self.speed.unwrap_or(1.0),
            at: self.at,
            bunch: self.bunch.unwrap_or(1),
            client_rate: self.client_rate,
            seed: self.seed,
            keep_alive,
            ..Cut::of(self.duration)
        };
        Ok(options.replaying(Arc::new(Piece::cut(&trace, &cut))))
    }
}

/// A flag that the first Ctrl-C or SIGTERM sets; the second ends the process.
pub(super) fn on_interrupt() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, flag.clone())
            .and_then(|_| signal_hook::flag::register(signal, flag.clone()))
            .blame_at(Party::Machine, "cannot handle signals")?;
    }
    Ok(flag)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use duality_load::{Arrivals, Pattern};

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        arguments: Arguments,
    }

    /// The options of a command line, or its error.
    fn options(line: &str) -> Result<Options, Mistake> {
        let words = "load echo://127.0.0.1:7".split(' ').chain(line.split_whitespace());
        let parsed = CommandLine::try_parse_from(words).map_err(|error| error.to_string())?;
        parsed.arguments.options().map_err(|failure| failure.to_string().into())
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
            ("--pattern long --close", "--close: the pattern long"),
            ("--pattern serial -R 10", "--rate: only the pattern open"),
            ("--pattern closed --slo p99=1ms", "leave out --pattern closed"),
            ("--pattern open", "--rate: the pattern open"),
            ("--arrivals poisson", "--rate: the pattern open"),
            ("--pattern serial --arrivals poisson", "--arrivals: only the pattern open"),
            ("-R 10 --period 2s", "--period: only sinusoidal"),
            ("--wait 1ms..2ms", "uniform or sinusoidal"),
            ("--wait 1ms..2ms --arrivals uniform -R 10", "--rate"),
            ("--pattern random", "limited"),
            ("--arrivals random", "poisson"),
            ("--slo p98=10ms", "p99.9"),
            ("--slo 10ms", "p99=10ms"),
            ("--slo p99=soon", "500ms"),
            ("--slo p99=10ms -n 5", "--requests"),
            ("--wait 1ms", "100us..2ms"),
        ] {
            let problem = options(line).map(|_| ()).unwrap_err().to_string();
            assert!(problem.contains(remedy), "{line}: {problem}");
        }
    }
}
