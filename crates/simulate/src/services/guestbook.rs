//! guestbook: a remark that was kept is on the page, and visitors are counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::http::reply;
use super::wire::{Kept, patiently};
use super::{Client, DURABLE, Days, Simulation, Trouble, wrong};
use crate::violation::Violation;

pub(super) const SIMULATION: Simulation = Simulation {
    name: "guestbook",
    checks: "a remark that was kept is on the next page, also after crashes",
    begin: |days| Box::pin(pass(days, DURABLE)),
};

/// As planted: a remark is acknowledged before it is synced.
pub(super) const PLANTED: Simulation = Simulation {
    name: "guestbook",
    checks: "must fail: a crash of the machine loses acknowledged remarks",
    begin: |days| Box::pin(pass(days, "")),
};

async fn pass(days: Days, options: &'static str) -> Result<(), Violation> {
    let servers = days.servers_with_store(options)?;
    let sent = Arc::default();
    days.pass(servers, move |days, number| Guest::new(&days, number, &sent)).await
}

struct Guest {
    days: Days,
    number: usize,
    remarks: usize,
    kept: Kept,
    /// The number of remarks that all have sent.
    sent: Arc<AtomicUsize>,
    /// The last remark that was kept.
    last: Option<Remark>,
}

/// A remark that was kept.
#[derive(Clone)]
struct Remark {
    text: String,
    /// The number of remarks that had been sent before.
    before: usize,
    /// How often the store had lost its data.
    losses: usize,
}

/// The remarks that the page shows.
const SHOWN: usize = 20;

impl Guest {
    fn new(days: &Days, number: usize, sent: &Arc<AtomicUsize>) -> Self {
        let kept = Kept::new(days, number);
        Self { days: days.clone(), number, remarks: 0, kept, sent: sent.clone(), last: None }
    }
}

impl Client for Guest {
    async fn request(&mut self) -> Result<(), Trouble> {
        let mut wire = self.kept.take().await?;
        self.remarks += 1;
        let own = Remark {
            text: format!("r{}x{}z", self.number, self.remarks),
            before: self.sent.fetch_add(1, Ordering::Relaxed),
            losses: self.days.losses(),
        };
        let form = format!("guest-name=Ann&guest-remarks={}", own.text);
        let request = format!(
            "POST /guestbook HTTP/1.1\r\nHost: server\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
            form.len()
        );
        patiently(wire.send(request.as_bytes())).await?;
        let kept = reply(&mut wire).await?;
        match kept.status {
            303 => {}
            // A partition may hold a part of the request back.
            408 => return Err(Trouble::Broken("the request came too slowly".to_owned())),
            503 => return Err(Trouble::Broken("the store is away".to_owned())),
            status => return wrong(format!("the status {status} for a remark")),
        }
        if !kept.goes_on {
            return Err(Trouble::Broken("the server closes".to_owned()));
        }
        let request = b"GET /guestbook HTTP/1.1\r\nHost: server\r\n\r\n";
        patiently(wire.send(request)).await?;
        let page = reply(&mut wire).await?;
        if matches!(page.status, 408 | 503) {
            return Err(Trouble::Broken(format!("the status {} for the page", page.status)));
        }
        let text = String::from_utf8_lossy(&page.body);
        if page.status != 200 {
            return wrong(format!("the status {} for the page", page.status));
        }
        // Meanwhile, others may have left more remarks than the page shows. Some that broke may
        // come late.
        let (sent, losses) = (self.sent.load(Ordering::Relaxed), self.days.losses());
        for remark in self.last.take().iter().chain([&own]) {
            let is_shown = sent - remark.before < SHOWN / 2 && losses == remark.losses;
            if is_shown && !text.contains(&remark.text) {
                return wrong(format!("the page lacks {}, which was kept", remark.text));
            }
        }
        self.last = Some(own);
        if page.goes_on {
            self.kept.keep(wire);
        }
        Ok(())
    }
}
