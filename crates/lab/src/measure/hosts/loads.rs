//! The loads of an experiment on all hosts that make load: they begin together, and the lab merges
//! their measurements.
//!
//! ```text
//!   here      load ──▶ ┌ gen1  connections open, warm-up ─ opened ┐        ┌ window ─ closed ┐
//!                      └ gen2  connections open, warm-up ── opened ┤ go ──▶ └ window ─ closed ┤ go
//!                                            servers' counters are read ┘   and again here ───┘
//! ```

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use duality_load::{Observer, Report, Slice};

use super::link::{Answers, Link};
use super::protocol::{Answer, Load, Order};
use crate::failure::{Blame, Failure, Party};
use crate::measure::driver::{After, Driver};
use crate::measure::window::Window;
use crate::record::CellKey;

/// The interval at which the lab checks for interruptions and reads queues.
const GLANCE: Duration = Duration::from_millis(100);

/// Loads on hosts.
pub(crate) struct Loads {
    links: Vec<Arc<Link>>,
    /// The number of the next load on its hosts.
    next: u64,
    /// The loads that have joined, with the hosts that take part in each.
    joined: Vec<(u64, Vec<Arc<Link>>)>,
    round_trip: Option<Duration>,
}

/// A part of a load, on its host.
struct Part {
    link: Arc<Link>,
    answers: Answers,
}

impl Loads {
    pub(super) fn new(links: Vec<Arc<Link>>) -> Self {
        Self { links, next: 0, joined: Vec::new(), round_trip: None }
    }

    fn measure_round_trip(&mut self, address: SocketAddr) {
        for link in &self.links {
            if let Ok(Answer::Time(time)) = link.ask(&Order::RoundTrip { address }) {
                self.round_trip = self.round_trip.max(Some(time));
            }
        }
    }
}

/// The course of a load: all parts pass each edge of the window together.
fn course(
    parts: &[Part],
    window: &mut Window<'_>,
    interrupted: &AtomicBool,
) -> Result<Report, Failure> {
    let begun = Instant::now();
    let hear = |part: &Part, window: &mut Window<'_>| -> Result<Answer, Failure> {
        loop {
            if interrupted.load(Ordering::Relaxed) {
                return Err(duality_load::Error::Interrupted.into());
            }
            match part.answers.next(GLANCE)? {
                Some(answer) => return Ok(answer),
                None => window.progress(0, begun.elapsed()),
            }
        }
    };
    for is_open in [true, false] {
        for part in parts {
            match (hear(part, window)?, is_open) {
                (Answer::Opened, true) | (Answer::Closed, false) => {}
                (other, _) => return Err(part.link.odd(&other)),
            }
        }
        if is_open {
            window.window_opened();
        } else {
            window.window_closed();
        }
        parts.iter().try_for_each(|part| part.link.tell(&Order::Go))?;
    }
    let mut reports = Vec::with_capacity(parts.len());
    for part in parts {
        match hear(part, window)? {
            Answer::Report(report) => reports.push((part.link.host().to_owned(), *report)),
            other => return Err(part.link.odd(&other)),
        }
    }
    let merged = Report::merged(&reports).blame(Party::Load)?;
    merged.ok_or_else(|| Failure::new(Party::Load, "no host makes load"))
}

impl Driver for Loads {
    fn measure(
        &mut self,
        key: &CellKey,
        after: After,
        window: &mut Window<'_>,
        interrupted: &AtomicBool,
    ) -> Result<Report, Failure> {
        let address = window.address();
        self.measure_round_trip(address);
        self.next += 1;
        let (number, stays) = (self.next, after == After::Stay);
        // A host without a connection takes no part.
        let parts = self.links.len().min(key.concurrency.max(1));
        let links: Vec<Arc<Link>> = self.links[..parts].to_vec();
        let begin = |(part, link): (usize, &Arc<Link>)| {
            let load = Load { number, key: key.clone(), address, part, parts, stays };
            let answers = link.order(&Order::Load(Box::new(load)))?;
            Ok(Part { link: Arc::clone(link), answers })
        };
        let begun: Result<Vec<Part>, Failure> = links.iter().enumerate().map(begin).collect();
        let made = begun.and_then(|parts| course(&parts, window, interrupted));
        match made {
            Ok(report) => {
                if stays {
                    self.joined.push((number, links));
                }
                Ok(report)
            }
            Err(problem) => {
                // The remaining hosts would wait for a window that never opens.
                links.iter().for_each(|link| drop(link.tell(&Order::Stop)));
                Err(problem)
            }
        }
    }

    fn slice(&mut self, load: usize, length: Duration) -> Result<Slice, Failure> {
        let (number, links) = &self.joined[load];
        let order = Order::Slice { number: *number, length };
        let begun: Result<Vec<_>, Failure> =
            links.iter().map(|link| Ok((link, link.order(&order)?))).collect();
        let mut whole = Slice::default();
        for (link, answers) in begun? {
            let patience = length + Duration::from_secs(30);
            match answers.next(patience)? {
                Some(Answer::Slice(slice)) => whole.add(&slice),
                Some(other) => return Err(link.odd(&other)),
                None => {
                    let problem = format!("host {}: its load does not end", link.host());
                    return Err(Failure::new(Party::Load, problem));
                }
            }
        }
        Ok(whole)
    }

    fn width(&self, load: usize) -> usize {
        self.joined[load].1.len()
    }

    fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }
}

impl Drop for Loads {
    fn drop(&mut self) {
        for link in &self.links {
            let _ = link.done(&Order::Leave);
        }
    }
}
