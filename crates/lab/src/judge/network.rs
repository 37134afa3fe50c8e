//! Finds out whether the network, and not the servers, sets the rate.
//!
//! In a closed loop, a request on each connection waits for the round trip of the request before.
//! If the round trip is most of the latency, all servers have the same rate. With a round trip of
//! 25 ms, 100 connections make 4,000 requests/s, whatever server answers. The servers' processor
//! times still differ.

use schemars::JsonSchema;
use serde::Serialize;

use crate::record::{Measured, Outcome, Records};
use crate::statistics::median;

/// From this share of the latency on, the round trip sets the rate.
const MOST: f64 = 0.5;

/// A network that sets the rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Network {
    /// The length of a round trip, in microseconds.
    pub round_trip_us: f64,
    /// The median latency of a request, in microseconds.
    pub latency_us: f64,
    /// The most requests that a server has at a time: rate × (latency − round trip).
    pub load_in_server: f64,
}

impl Network {
    /// The network of `subjects` at a number of connections. `None` if the network does not set
    /// their rate.
    pub(crate) fn of(records: &Records, concurrency: usize, subjects: &[&str]) -> Option<Self> {
        let here = records.cells.iter().filter(|cell| cell.concurrency == concurrency);
        let cells: Vec<(&Measured, f64)> = here
            .filter(|cell| subjects.contains(&cell.subject.as_str()))
            .filter_map(|cell| match &cell.outcome {
                Outcome::Measured(figures) => Some((&**figures, figures.round_trip_us?)),
                _ => None,
            })
            .collect();
        let far = cells.iter().filter(|(cell, trip)| *trip >= MOST * cell.latency_us.p50).count();
        if cells.is_empty() || 2 * far <= cells.len() {
            return None;
        }
        let middle = |figure: &dyn Fn(&(&Measured, f64)) -> f64| {
            median(&cells.iter().map(figure).collect::<Vec<_>>()).unwrap_or_default()
        };
        let in_server = |(cell, _): &(&Measured, f64)| load_in_server(cell).unwrap_or(0.0);
        Some(Self {
            round_trip_us: middle(&|(_, trip)| *trip),
            latency_us: middle(&|(cell, _)| cell.latency_us.p50),
            load_in_server: cells.iter().map(in_server).fold(0.0, f64::max),
        })
    }
}

/// The number of requests that a server has at a time, without requests in transit: rate × (latency
/// − round trip), by Little's law. `None` if server and load are on one machine.
pub(crate) fn load_in_server(cell: &Measured) -> Option<f64> {
    let inside = (cell.latency_us.mean - cell.round_trip_us?).max(0.0);
    Some(cell.requests_per_second * inside / 1e6)
}
