//! The flags about the behaviour of clients. `load` and `compare` have them, and plans have the
//! same keys.

use std::num::NonZeroU32;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser};
use duality_lab::ask::settings::{Settings, Waits, parse_duration};
use duality_load::Pattern;

use super::heading;

#[derive(clap::Args)]
pub(in crate::cli) struct ClientFlags {
    /// Behaviour of the clients [default: closed, or open if there is a rate]
    #[arg(long, value_parser = patterns(), help_heading = heading::CLIENTS)]
    pattern: Option<String>,
    /// Make this many requests a second, whether or not the server keeps up
    #[arg(short = 'R', long, value_name = "PER_SECOND")]
    rate: Option<f64>,
    /// How requests come in an open loop: constant, poisson, uniform or sinusoidal [default:
    /// constant]
    ///
    /// constant is the kindest to a server; poisson models many independent users.
    #[arg(long, help_heading = heading::CLIENTS)]
    arrivals: Option<String>,
    /// Shortest and longest wait between uniform or sinusoidal arrivals, such as 100us..2ms
    ///
    /// Give the waits instead of a rate. With a rate, uniform waits go from 0 to twice the mean. A
    /// sinusoidal rate swings between half and twice the mean.
    #[arg(long, value_name = "MIN..MAX", help_heading = heading::CLIENTS)]
    wait: Option<Waits>,
    /// Length of a swing of sinusoidal waits [default: 1s]
    ///
    /// A window should be several swings long.
    #[arg(long, value_parser = parse_duration, help_heading = heading::CLIENTS)]
    period: Option<Duration>,
    /// A new connection for each request
    #[arg(long)]
    close: bool,
    /// Further connections that make one request and then rest in silence
    #[arg(long, value_name = "N", help_heading = heading::CLIENTS)]
    idle: Option<usize>,
    /// Further connections that make requests and take the replies 100 bytes a second
    #[arg(long, value_name = "N", help_heading = heading::CLIENTS)]
    slow_readers: Option<usize>,
    /// Further connections that send requests a byte a second
    #[arg(long, value_name = "N", help_heading = heading::CLIENTS)]
    slow_senders: Option<usize>,
    /// Addresses (127.0.0.1 and up) that all connections come from [default: as many as needed]
    #[arg(long, value_name = "N", help_heading = heading::CLIENTS)]
    sources: Option<NonZeroU32>,
}

impl ClientFlags {
    /// The settings that these flags ask for.
    pub(in crate::cli) fn settings(&self) -> Settings {
        Settings {
            pattern: self.pattern.clone(),
            rate: self.rate,
            arrivals: self.arrivals.clone(),
            wait: self.wait,
            period: self.period,
            close: self.close.then_some(true),
            idle: self.idle,
            slow_readers: self.slow_readers,
            slow_senders: self.slow_senders,
            sources: self.sources,
            ..Settings::default()
        }
    }
}

fn patterns() -> PossibleValuesParser {
    let values =
        Pattern::NAMED.iter().map(|named| PossibleValue::new(named.name).help(named.about));
    values.collect::<Vec<_>>().into()
}
