//! The flags of `serve` for the times of http, guestbook and relay, and for the rules of relay.

use std::thread;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use duality_architectures::common::children;
use duality_architectures::common::pressure::remedy;
use duality_lab::Mistake;
use duality_lab::ask::settings::parse_duration;
use duality_runtime::block_on;
use duality_services::relay::{self, Forwarded};
use duality_services::{Setup, Times};

use super::heading;
use crate::failure::{Failure, Party};

#[derive(Args)]
pub(in crate::cli) struct RelayingFlags {
    /// How long a request's head may take, from its first byte on [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = positive, help_heading = heading::LIMITS)]
    head_time: Option<Duration>,
    /// How long a request's body may take; behind `relay`, how long it may be silent [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = positive, help_heading = heading::LIMITS)]
    body_time: Option<Duration>,
    /// How long a connection may be silent before a request [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = positive, help_heading = heading::LIMITS)]
    idle_time: Option<Duration>,
    /// How long a client may take nothing of a reply [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = positive, help_heading = heading::LIMITS)]
    write_time: Option<Duration>,
    /// How long `relay` waits for a connection to an upstream [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = positive, help_heading = heading::LIMITS)]
    connect_time: Option<Duration>,
    /// How long an upstream of `relay` may be silent while a reply is due [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = positive, help_heading = heading::LIMITS)]
    reply_time: Option<Duration>,
    /// Have `relay` ask each upstream for this target at intervals; one that does not answer by 2xx
    /// or 3xx gets no requests
    #[arg(long, value_name = "/PATH", value_parser = target, help_heading = heading::SERVICE)]
    health_check: Option<String>,
    /// The interval [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = positive, requires = "health_check", help_heading = heading::SERVICE)]
    health_interval: Option<Duration>,
    /// What `relay` makes of X-Forwarded-For and its like that clients send [default: append]
    ///
    /// append: keeps them, and adds the client's address; replace: removes them, because any client
    /// can write them
    #[arg(long, value_parser = forwarded(), help_heading = heading::SERVICE)]
    forwarded: Option<Forwarded>,
    /// Have `relay`, `guestbook` and `phone` wait on behalf of a client that has ended its sending
    /// side
    ///
    /// Such a client cannot be told from one that has left. Without this flag, an upstream or a
    /// store is waited for half a second for it (docs/relay.md).
    #[arg(long, help_heading = heading::SERVICE)]
    serve_half_closed: bool,
}

impl RelayingFlags {
    /// Adds the values of these flags.
    pub(in crate::cli) fn put_into(&self, setup: Setup) -> Setup {
        let times = Times {
            head: self.head_time,
            body: self.body_time,
            idle: self.idle_time,
            write: self.write_time,
            connect: self.connect_time,
            reply: self.reply_time,
        };
        Setup {
            times,
            health_check: self.health_check.clone(),
            health_interval: self.health_interval,
            forwarded: self.forwarded,
            half_closed: self.serve_half_closed,
            ..setup
        }
    }
}

/// Starts a thread for each relay with upstreams to look at. Call this before processes are forked:
/// they share what the thread finds out.
pub(in crate::cli) fn start_health_checks() -> Result<(), Failure> {
    for relay in relay::checks() {
        children::helper();
        let thread = thread::Builder::new().name("health".into());
        thread.spawn(move || block_on(relay.check_health())).map_err(|error| {
            Failure::new(Party::Machine, format!("--health-check: {error}{}", remedy(&error)))
        })?;
    }
    Ok(())
}

fn positive(text: &str) -> Result<Duration, Mistake> {
    match parse_duration(text)? {
        Duration::ZERO => Err("give a time above 0, such as 30s".into()),
        time => Ok(time),
    }
}

fn target(text: &str) -> Result<String, Mistake> {
    match text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(text.to_owned()),
        false => Err("give a path, such as /healthz".into()),
    }
}

fn forwarded() -> impl TypedValueParser<Value = Forwarded> {
    PossibleValuesParser::new(["append", "replace"]).map(|name| match name.as_str() {
        "replace" => Forwarded::Replace,
        _ => Forwarded::Append,
    })
}
