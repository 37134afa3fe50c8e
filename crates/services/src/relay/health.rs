//! Looks at the health of upstreams, apart from requests, and the counters of those that this
//! program's relays have.

use std::io;
use std::sync::{Mutex, PoisonError};

use duality_runtime::net::{Input, TcpStream};
use duality_runtime::time::{sleep, timeout};

use super::limits::{Health, REPLY_HEAD};
use super::upstream::{Upstream, UpstreamReport};
use super::{Relay, Shared};

/// The relays that were set up by the command line, for its metrics and its looks at health.
static RELAYS: Mutex<Vec<Relay>> = Mutex::new(Vec::new());

/// Adds a relay to the list.
pub(super) fn enlist(relay: &Relay) {
    RELAYS.lock().unwrap_or_else(PoisonError::into_inner).push(relay.clone());
}

fn relays() -> Vec<Relay> {
    RELAYS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The counters of the upstreams behind the relays of this process and the children that it forks
/// later.
#[must_use]
pub fn upstreams() -> Vec<UpstreamReport> {
    let reports = |relay: Relay| relay.shared.upstreams.iter().map(Upstream::report).collect();
    relays().into_iter().flat_map(|relay| -> Vec<_> { reports(relay) }).collect()
}

/// The relays with upstreams to look at. A program runs
/// [`check_health`](Relay::check_health) of each beside its server.
#[must_use]
pub fn checks() -> Vec<Relay> {
    relays().into_iter().filter(|relay| relay.shared.health.is_some()).collect()
}

impl Relay {
    /// Asks each upstream for [`Health::target`] again and again, one after the other, for ever. An
    /// upstream that does not answer by 2xx or 3xx gets no requests, unless no other can be
    /// reached. Ends at once without a [`Health`].
    pub async fn check_health(&self) {
        let Some(health) = &self.shared.health else { return };
        loop {
            for upstream in &self.shared.upstreams {
                let looked = timeout(health.interval, look(&self.shared, upstream, health)).await;
                let health = looked.unwrap_or_else(|elapsed| Err(elapsed.into()));
                match &health {
                    Ok(()) => upstream.looked(Ok(())),
                    Err(error) => upstream.looked(Err(error)),
                }
            }
            sleep(health.interval).await;
        }
    }
}

/// One look. An error says what is wrong.
async fn look(shared: &Shared, upstream: &Upstream, health: &Health) -> io::Result<()> {
    let connecting = TcpStream::connect(upstream.address);
    let mut stream = timeout(shared.limits.connect_time, connecting).await??;
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: duality\r\nConnection: close\r\n\r\n",
        health.target, upstream.address
    );
    stream.write_all(request.as_bytes()).await?;
    let mut input = Input::new(REPLY_HEAD);
    // "HTTP/1.1 200 "
    while input.unused().len() < 13 {
        if stream.fill(&mut input).await? == 0 {
            return Err(io::Error::other("it closes without an answer"));
        }
    }
    match input.unused() {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', _, b' ', b'2' | b'3', ..] => Ok(()),
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', _, b' ', code @ ..] => {
            let code = String::from_utf8_lossy(&code[..3]);
            Err(io::Error::other(format!(
                "it answers {} to {}",
                code.escape_default(),
                health.target
            )))
        }
        _ => Err(io::Error::other("it does not speak HTTP/1.1")),
    }
}
