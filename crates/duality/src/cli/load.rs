//! `duality load`.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use duality_load::{Crowd, Options, Sources, Stop, Target};

use super::Failure;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// What to ask: http://HOST:PORT/PATH, echo://HOST:PORT or time://HOST:PORT
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
    let options = Options {
        target: arguments.target.clone(),
        connections: arguments.connections,
        stop: arguments.requests.map_or(Stop::After(arguments.duration), Stop::Requests),
        warm_up: arguments.warm_up,
        keep_alive: !arguments.close,
        cpus: arguments.cpus.clone(),
        reply_timeout: arguments.timeout,
        sources: arguments.sources.map_or(Sources::Automatic, Sources::Count),
        crowd: Crowd {
            idle: arguments.idle,
            slow_readers: arguments.slow_readers,
            slow_senders: arguments.slow_senders,
            ..Crowd::default()
        },
        ..Options::new(arguments.target.clone())
    };
    let interrupted = on_interrupt()?;
    let report = duality_load::run(&options, &mut (), &interrupted)
        .map_err(|error| Failure::failed(error.to_string()))?;
    if arguments.json {
        let json = serde_json::to_string(&report).expect("a report is plain data");
        println!("{json}");
    } else {
        println!("{}", report.render_text().trim_end());
    }
    Ok(())
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

/// A number with ms, s or m; without a unit, seconds.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
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
