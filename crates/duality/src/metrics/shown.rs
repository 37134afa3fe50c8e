//! The live page of a server: requests, latencies, connections, queues, and whether it drains.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use duality_lab::live::{Bar, Cell, Figure, Rates, Row, State, Table};
use duality_load::duration_text;
use duality_runtime::visibility::{self, Latencies, QueueReport, Totals};
use duality_runtime::{drain, handler};

use crate::watch::Subject;

/// The interval between two looks at the counters.
const LOOK: Duration = Duration::from_secs(1);

/// The counters of a server at one moment.
struct Look {
    at: Instant,
    totals: Totals,
    /// The buckets of all requests so far: the longest time in seconds, and the number.
    latencies: Latencies,
    queues: Vec<QueueReport>,
    errors: u64,
    drains: bool,
}

impl Look {
    fn now() -> Self {
        Self {
            at: Instant::now(),
            totals: visibility::totals(),
            latencies: visibility::latencies(),
            queues: visibility::queues(),
            errors: handler::FailureKind::ALL.into_iter().map(handler::failures).sum(),
            drains: drain::requested(),
        }
    }
}

/// The page, which looks at the counters only when a client asks, once a second at most.
pub(super) struct Shown {
    subject: Subject,
    past: Mutex<Past>,
}

#[derive(Default)]
struct Past {
    last: Option<Look>,
    rates: Rates,
    state: State,
    /// The state as JSON, and its number.
    json: (u64, Arc<str>),
}

impl Shown {
    pub(super) fn new(subject: Subject) -> Self {
        Self { subject, past: Mutex::default() }
    }

    /// The state, and its number.
    pub(super) fn json(&self) -> (u64, Arc<str>) {
        self.look().json.clone()
    }

    pub(super) fn state(&self) -> State {
        self.look().state.clone()
    }

    fn look(&self) -> MutexGuard<'_, Past> {
        // Each change is a plain assignment.
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        if past.last.as_ref().is_none_or(|last| last.at.elapsed() >= LOOK) {
            past.renew(&self.subject, Look::now());
        }
        past
    }
}

impl Past {
    fn renew(&mut self, subject: &Subject, now: Look) {
        let before = self.last.as_ref();
        if let Some(before) = before {
            self.rates.push(rate(&now, before));
        }
        self.state = state(subject, &now, before, &self.rates);
        self.json = (self.json.0 + 1, self.state.json().into());
        self.last = Some(now);
    }
}

/// Requests a second since a look.
fn rate(now: &Look, before: &Look) -> f64 {
    let requests = now.latencies.count().saturating_sub(before.latencies.count());
    requests as f64 / now.at.saturating_duration_since(before.at).as_secs_f64().max(1e-3)
}

/// The page at a look. Rates and latencies are those since the look before.
fn state(subject: &Subject, now: &Look, before: Option<&Look>, rates: &Rates) -> State {
    let Subject { service, architecture } = subject;
    let buckets = since(&now.latencies, before.map(|before| &before.latencies));
    let percentile = |share| longest_of(&buckets, share).map_or("–".to_owned(), duration_text);
    let per_second = before.map_or("–".to_owned(), |before| format!("{:.0}", rate(now, before)));
    let Totals { requests_failed, .. } = now.totals;
    State {
        title: format!("{service} under {architecture}"),
        now: match now.drains {
            true => "The server drains: it answers what has come, and takes nothing new.",
            false => "The server serves.",
        }
        .to_owned(),
        figures: vec![
            Figure::new("requests/s", per_second),
            Figure::new("50 % within", percentile(0.5)),
            Figure::new("99 % within", percentile(0.99)),
            Figure::new("connections", now.totals.connections_now().to_string()),
            Figure::new("requests", now.latencies.count().to_string()),
            Figure::new("requests failed", requests_failed.to_string()),
            Figure::new("connections failed", now.errors.to_string()),
        ],
        spark: rates.spark(),
        tables: [histogram(&buckets), queues(&now.queues)].into_iter().flatten().collect(),
        ..State::default()
    }
}

/// The requests of each bucket since an earlier look.
fn since(now: &Latencies, before: Option<&Latencies>) -> Vec<(f64, u64)> {
    let earlier = |place: usize| {
        before.and_then(|before| before.buckets.get(place)).map_or(0, |(_, count)| *count)
    };
    let all = now.buckets.iter().enumerate();
    all.map(|(place, (bound, count))| (*bound, count.saturating_sub(earlier(place)))).collect()
}

/// The microseconds that this share of the requests did not exceed: the bound of a bucket. `None`
/// without requests, and beyond the last bound.
fn longest_of(buckets: &[(f64, u64)], share: f64) -> Option<f64> {
    let all: u64 = buckets.iter().map(|(_, count)| count).sum();
    let mut below = 0;
    let bucket = buckets.iter().find(|(_, count)| {
        below += count;
        below > 0 && below as f64 >= share * all as f64
    });
    bucket.map(|(bound, _)| 1e6 * bound).filter(|bound| bound.is_finite())
}

/// The histogram from the first bucket with requests to the last. `None` without requests.
fn histogram(buckets: &[(f64, u64)]) -> Option<Table> {
    let first = buckets.iter().position(|(_, count)| *count > 0)?;
    let last = buckets.iter().rposition(|(_, count)| *count > 0)?;
    let name = |bound: f64| match bound.is_finite() {
        true => duration_text(1e6 * bound),
        false => "longer".to_owned(),
    };
    let rows = buckets[first..=last].iter().map(|(bound, count)| (name(*bound), *count));
    let title = "Requests since the last look, by time in the server";
    Table::histogram(title, "requests", &rows.collect::<Vec<_>>())
}

/// The queues of an architecture that has queues: those of stages, and of pools.
fn queues(queues: &[QueueReport]) -> Option<Table> {
    let row = |queue: &QueueReport| {
        let QueueReport { name, length, length_most, threads, executed, .. } = queue;
        let share = *length as f64 / (*length_most).max(1) as f64;
        Row {
            name: name.clone(),
            cells: vec![
                Cell { bar: Some(Bar::of(share)), ..Cell::plain(length.to_string()) },
                Cell::plain(length_most.to_string()),
                Cell::plain(threads.to_string()),
                Cell::plain(executed.to_string()),
            ],
        }
    };
    let columns = ["queue", "waiting", "at most", "threads", "blocks taken"];
    (!queues.is_empty()).then(|| Table {
        title: "Queues".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: queues.iter().map(row).collect(),
        ..Table::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(at: Instant, counts: [u64; 3]) -> Look {
        let buckets = [0.001, 0.002, f64::INFINITY].into_iter().zip(counts).collect();
        Look {
            at,
            totals: Totals::default(),
            latencies: Latencies { buckets, sum: 0.0, late: 0, begun: 0 },
            queues: Vec::new(),
            errors: 0,
            drains: false,
        }
    }

    fn value(state: &State, name: &str) -> String {
        state.figures.iter().find(|figure| figure.name == name).unwrap().value.clone()
    }

    #[test]
    fn figures_are_those_since_the_last_look() {
        let subject = Subject { service: "http".into(), architecture: "staged" };
        let begun = Instant::now();
        let mut past = Past::default();
        past.renew(&subject, look(begun, [100, 0, 0]));
        assert_eq!(value(&past.state, "requests/s"), "–");
        assert_eq!(value(&past.state, "99 % within"), "1.00 ms");
        past.renew(&subject, look(begun + LOOK, [100, 10, 0]));
        assert_eq!(value(&past.state, "requests/s"), "10");
        assert_eq!(value(&past.state, "50 % within"), "2.00 ms");
        assert_eq!(value(&past.state, "requests"), "110");
        assert_eq!(past.json.0, 2);
        // Nothing came.
        past.renew(&subject, look(begun + 2 * LOOK, [100, 10, 0]));
        assert_eq!(value(&past.state, "50 % within"), "–");
        assert!(past.state.tables.is_empty());
    }

    #[test]
    fn a_drain_and_queues_are_shown() {
        let queue = QueueReport {
            name: "respond".into(),
            length: 3,
            length_most: 6,
            threads: 2,
            threads_most: 4,
            executed: 50,
        };
        let now = Look { drains: true, queues: vec![queue], ..look(Instant::now(), [0; 3]) };
        let subject = Subject { service: "http".into(), architecture: "staged" };
        let state = state(&subject, &now, None, &Rates::default());
        assert!(state.now.contains("drains"), "{}", state.now);
        let row = &state.tables[0].rows[0];
        assert_eq!((row.name.as_str(), row.cells[0].bar.unwrap().to), ("respond", 0.5));
    }
}
