//! http: pages come whole, also those that were asked for together.

use std::sync::{Arc, Mutex, PoisonError};

use duality_services::Setup;

use super::wire::{Kept, Wire, patiently};
use super::{Client, Days, Simulation, Trouble, wrong};

pub(super) const SIMULATION: Simulation = Simulation {
    name: "http",
    checks: "each page has the same bytes for everyone, in the order of the requests",
    begin: |days| {
        Box::pin(async move {
            let servers = days.servers(&Setup::default());
            let pages = Pages::default();
            days.pass(servers, move |days, number| Http::new(&days, number, &pages)).await
        })
    },
};

/// What is asked for. The last one is not there.
const PATHS: [&str; 3] = ["/", "/hello.txt", "/there-is-no-such-page"];

/// The first page of each path that anyone got.
pub(super) type Pages = Arc<Mutex<[Option<(u16, Vec<u8>)>; PATHS.len()]>>;

/// A client of http, or of a relay to it.
pub(super) struct Http {
    days: Days,
    kept: Kept,
    pages: Pages,
}

/// A reply: its status, whether the connection goes on, its body.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) goes_on: bool,
    pub(super) body: Vec<u8>,
}

impl Http {
    pub(super) fn new(days: &Days, number: usize, pages: &Pages) -> Self {
        let kept = Kept::new(days, number);
        Self { days: days.clone(), kept, pages: pages.clone() }
    }
}

/// Receives a reply with a body of a known length.
pub(super) async fn reply(wire: &mut Wire) -> Result<Reply, Trouble> {
    let head = patiently(wire.until(b"\r\n\r\n")).await?;
    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let status = head.strip_prefix("http/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    let Some(status) = status else { return wrong(format!("no status: {head:?}")) };
    let field =
        |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let Some(length) = field("content-length").and_then(|length| length.parse().ok()) else {
        return wrong(format!("no length: {head:?}"));
    };
    let body = patiently(wire.exactly(length)).await?;
    Ok(Reply { status, goes_on: field("connection") != Some("close"), body })
}

impl Client for Http {
    async fn request(&mut self) -> Result<(), Trouble> {
        let mut wire = self.kept.take().await?;
        let count = self.days.net.draw(3) + 1;
        let asked: Vec<usize> =
            (0..count).map(|_| self.days.net.draw(PATHS.len() as u64) as usize).collect();
        let request: String = asked
            .iter()
            .map(|path| format!("GET {} HTTP/1.1\r\nHost: server\r\n\r\n", PATHS[*path]))
            .collect();
        patiently(wire.send(request.as_bytes())).await?;
        for path in asked {
            let Reply { status, goes_on, body } = reply(&mut wire).await?;
            // Requests that were on their way for too long are answered, too.
            if status >= 500 || status == 408 {
                return Err(Trouble::Broken(format!("the status is {status}")));
            }
            let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
            let first = pages[path].get_or_insert_with(|| (status, body.clone()));
            if *first != (status, body) {
                return wrong(format!("{} has other bytes than before", PATHS[path]));
            }
            drop(pages);
            if !goes_on {
                // A connection has a thousand requests. What was asked for after the last one is
                // not answered, and may be asked for again.
                return match wire.has_rest() {
                    true => wrong("bytes after the last reply"),
                    false => Ok(()),
                };
            }
        }
        if wire.has_rest() {
            return wrong("more replies than requests");
        }
        self.kept.keep(wire);
        Ok(())
    }
}
