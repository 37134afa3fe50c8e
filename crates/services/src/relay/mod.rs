//! The relay: a reverse proxy for HTTP/1.1 and HTTP/1.0 (RFC 9110, RFC 9112). It passes requests on
//! to the servers behind it, its *upstreams*.
//!
//! ```text
//!   client ──> head ──> reach ──> upstream      the request: head, and body piece by piece
//!     ^                   │ pool: idle connections, a turn for each upstream
//!     └──── output <── answer <── upstream      the reply, piece by piece
//! ```
//!
//! A request that has come as a whole takes single waits: write, read, write. While the body of a
//! longer one is on its way, `duplex` waits for both directions at once, so an early reply
//! reaches the client. A body never has more than a buffer in memory. After a switch to WebSocket,
//! `tunnel` passes bytes on.
//!
//! A wait for an upstream is cut into slices (`back`). After each it looks whether the client is
//! still there.
//!
//! The parser of requests is http's, with its refusals: a message is not relayed if its end is in
//! doubt. [`Limits`] bounds what clients and upstreams decide.

mod answer;
mod back;
mod duplex;
mod exchange;
mod failure;
mod flow;
mod head;
mod health;
mod journal;
mod limits;
mod pool;
mod reach;
mod tunnel;
mod upstream;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use duality_runtime::block_on;
use duality_runtime::handler::Handler;
use duality_runtime::net::{Input, Output, TcpStream, lookup_host};
use duality_runtime::{shared, task};

pub use health::{checks, upstreams};
pub use limits::{Config, Forwarded, Health, Limits, MOST_UPSTREAMS};
pub use upstream::UpstreamReport;

use crate::http::{self, Deadline, Filled, Unread, Wire, status};
use crate::per_loop::PerLoop;
use crate::{Entry, Setting, Setup, SetupError};
use back::Asked;
use exchange::{LEFT, Next};
use head::Ends;
use pool::Pool;
use upstream::Upstream;

/// The access log's reason if the client has left within its reply.
const CLIENT_LEFT: &str = "\"why\":\"client-left\"";

/// The relay, as the registry lists it.
pub const ENTRY: Entry = Entry {
    name: "relay",
    summary: "passes requests on to the servers behind it (a reverse proxy)",
    protocol: "RFC 9110 and RFC 9112 (HTTP/1.0 and HTTP/1.1)",
    open: |setup| Ok(Relay::set_up(setup)?.handler()),
    settings: &[
        Setting::Upstream,
        Setting::HeadTime,
        Setting::BodyTime,
        Setting::IdleTime,
        Setting::WriteTime,
        Setting::ConnectTime,
        Setting::ReplyTime,
        Setting::HealthCheck,
        Setting::HealthInterval,
        Setting::Forwarded,
        Setting::HalfClosed,
    ],
    logs_requests: true,
    descriptors: 2,
    stack: 64 * 1024,
    ..Entry::PLAIN
};

/// A relay, shared by all its connections; a clone is the same relay.
#[derive(Clone)]
pub struct Relay {
    shared: Arc<Shared>,
}

struct Shared {
    upstreams: Vec<Upstream>,
    /// The requests that were given an upstream so far.
    turns: &'static [AtomicU64; 1],
    limits: Limits,
    forwarded: Forwarded,
    serves_half_closed: bool,
    health: Option<Health>,
    pools: PerLoop<Pool>,
}

impl Relay {
    /// A relay to the upstreams of `config`. Connects to none of them yet.
    ///
    /// # Errors
    ///
    /// `config` names no upstream, or more than [`MOST_UPSTREAMS`].
    pub fn new(config: Config) -> io::Result<Self> {
        let Config { upstreams, limits, forwarded, serves_half_closed, health } = config;
        let problem = match upstreams.len() {
            0 => "a relay needs a server behind it: give HOST:PORT",
            1..=MOST_UPSTREAMS => "",
            _ => "a relay has at most 64 servers behind it: leave some out",
        };
        if !problem.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        let upstreams = upstreams.into_iter().map(Upstream::new).collect();
        let pools = PerLoop::default();
        let turns = shared::words();
        let shared =
            Shared { upstreams, turns, limits, forwarded, serves_half_closed, health, pools };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The relay that `setup` describes. Looks the upstreams' names up, once.
    fn set_up(setup: &Setup) -> Result<Self, SetupError> {
        let mistake = |error| SetupError::Choice { flags: "--upstream", error };
        let mut upstreams = Vec::with_capacity(setup.upstreams.len());
        for name in &setup.upstreams {
            upstreams.push(look_up(name).map_err(mistake)?);
        }
        let relay = Self::new(setup.relay(upstreams)).map_err(mistake)?;
        health::enlist(&relay);
        Ok(relay)
    }

    fn handler(&self) -> Handler {
        let (relay, refusing) = (self.clone(), self.clone());
        Handler::new(move |stream| relay.serve(stream)).refusing(move |stream| {
            let relay = refusing.clone();
            async move { http::refuse(stream, &relay.shared.limits.client).await }
        })
    }

    /// Relays the requests on one connection until either side ends it.
    ///
    /// # Errors
    ///
    /// The connection broke, or the client took a reply too slowly. A bad request, and an upstream
    /// that fails, get a reply, and are not errors here.
    pub fn serve(
        &self,
        mut stream: TcpStream,
    ) -> impl Future<Output = io::Result<()>> + Send + use<> {
        let shared = self.shared.clone();
        async move {
            let mut wire = Wire::new(&mut stream, &shared.limits.client)?;
            let served = shared.serve_requests(&mut wire).await;
            if served.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut) {
                wire.reset();
            }
            served
        }
    }
}

/// The first address of a `HOST:PORT`.
fn look_up(name: &str) -> io::Result<SocketAddr> {
    let problem = |reason: &dyn std::fmt::Display| {
        let problem = format!("{name}: {reason}: give HOST:PORT, such as 127.0.0.1:9001");
        io::Error::new(io::ErrorKind::InvalidInput, problem)
    };
    let addresses = block_on(lookup_host(name)).map_err(|error| problem(&error))?;
    addresses.first().copied().ok_or_else(|| problem(&"the host has no address"))
}

impl Shared {
    async fn serve_requests(&self, wire: &mut Wire<'_>) -> io::Result<()> {
        let limits = &self.limits.client;
        let pool = self.pools.here(|| Pool::new(self.limits.idle, self.limits.idle_time));
        let mut input = Input::new(limits.head);
        let mut ends = None;
        let mut requests_left = limits.requests;
        loop {
            let mut deadline = Deadline::new(limits.head_time);
            let mut forward = Output::new();
            let request = loop {
                task::stage("relay: request").await;
                if !input.is_empty() {
                    let ends = ends.get_or_insert_with(|| Ends::of(wire.client(), self.forwarded));
                    // One call, on a stack that is in the processor's cache.
                    match task::leaf(|| head::read_request(input.unused(), ends, forward.gather()))
                    {
                        Ok(request) => break request,
                        Err(Unread::Bad(status)) => {
                            let is_head = http::is_head(input.unused());
                            return Box::pin(wire.reject(status, is_head, &mut input)).await;
                        }
                        Err(Unread::Partial) if input.is_full() => {
                            let status = http::too_long(input.unused());
                            return Box::pin(wire.reject(status, false, &mut input)).await;
                        }
                        Err(Unread::Partial) => forward.clear(),
                    }
                }
                let is_idle = input.is_empty();
                let left = if is_idle { Some(limits.idle_time) } else { deadline.left() };
                let filled = match left {
                    Some(left) => wire.fill(&mut input, left).await?,
                    None => Filled::TimedOut,
                };
                match filled {
                    Filled::Some => wire.begin_request_if(is_idle),
                    Filled::TimedOut if !is_idle => {
                        let status = &status::REQUEST_TIMEOUT;
                        return Box::pin(wire.reject(status, false, &mut input)).await;
                    }
                    Filled::End | Filled::TimedOut => return wire.flush().await,
                }
            };
            let head = if wire.is_logged() { input.unused().into() } else { Box::default() };
            input.consume(request.length);
            requests_left = requests_left.saturating_sub(1);
            let asked = Asked { request, head, is_last: requests_left == 0 };
            let next = match self.exchange(&asked, forward, wire, &mut input, &pool).await {
                Ok(next) => next,
                Err(error) => {
                    // The client's connection broke within the reply.
                    wire.lost(asked.logged(CLIENT_LEFT), LEFT, 0);
                    return Err(error);
                }
            };
            let is_over = match next {
                Next::Request => continue,
                Next::Over => true,
                Next::End => wire.finish().await?,
                Next::Linger => false,
            };
            if !is_over {
                Box::pin(wire.linger(&mut input, limits.linger_time)).await?;
            }
            return Ok(());
        }
    }
}
