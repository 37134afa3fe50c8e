//! The measurements of each subject, as points over the number of connections.

use schemars::JsonSchema;
use serde::Serialize;

use crate::judge::faults::{self, Fault};
use crate::judge::summary::Summary;
use crate::record::{Heading, Outcome, Records};
use crate::statistics::{Estimate, median};

/// The farther of two points has at least this many times the connections of the nearer point. The
/// slope between close points is noise.
const APART: usize = 2;

/// A subject at a number of connections.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Point {
    /// The number of connections that the load had open.
    pub connections: usize,
    /// The number of connections that got a reply within the window.
    #[serde(rename = "connections_served")]
    pub served: f64,
    /// The number of connections that the server had open, if the server reported it.
    #[serde(rename = "server_connections_open")]
    pub open: Option<f64>,
    /// The processor time of a request, in microseconds.
    #[serde(rename = "server_cpu_us_per_request")]
    pub processor_time: Estimate,
    /// The memory of the server in bytes.
    #[serde(rename = "server_peak_bytes")]
    pub memory: f64,
}

impl Point {
    /// Whether the connections without service waited, and cost almost nothing.
    pub fn is_saturated(&self) -> bool {
        self.served < crate::judge::rows::SERVED * self.connections as f64
    }
}

/// The measurements of a subject.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurements {
    /// The architecture or peer.
    pub subject: String,
    /// The subject's sound points, at rising numbers of connections.
    pub points: Vec<Point>,
    /// The numbers of connections at which the subject's cells are not sound.
    pub left_out: Vec<usize>,
}

impl Measurements {
    /// The points with at most this many connections.
    pub(crate) fn up_to(&self, connections: usize) -> Vec<Point> {
        let few = self.points.iter().filter(|point| point.connections <= connections);
        few.cloned().collect()
    }
}

/// The measurements of each of `subjects`. Cells are not sound with wrong replies, or where the
/// load generator could not do its work.
pub(super) fn all(heading: &Heading, records: &Records, subjects: &[String]) -> Vec<Measurements> {
    let summary = Summary::of(heading, records);
    let of = |subject: &String| {
        let (mut points, mut left_out) = (Vec::new(), Vec::new());
        for row in summary.rows.iter().filter(|row| row.subject == *subject) {
            let Some(medians) = row.medians() else { continue };
            let (connections, value) = (row.concurrency, medians.cpu.value);
            let is_usable = value > 0.0 && value.is_finite() && connections > 0;
            let is_failing = faults::of(row).into_iter().any(Fault::is_failure);
            if !is_usable || !medians.is_comparable() || is_failing {
                left_out.push(connections);
                continue;
            }
            points.push(Point {
                connections,
                served: medians.served.min(connections as f64),
                open: open(records, subject, connections),
                processor_time: medians.cpu,
                memory: medians.memory_bytes,
            });
        }
        points.sort_by_key(|point| point.connections);
        points.dedup_by_key(|point| point.connections);
        Measurements { subject: subject.clone(), points, left_out }
    };
    subjects.iter().map(of).collect()
}

/// The number of connections that the server had open, as the median over the repeats.
fn open(records: &Records, subject: &str, connections: usize) -> Option<f64> {
    let own = records.cells.iter();
    let own = own.filter(|cell| cell.subject == subject && cell.concurrency == connections);
    let counts: Vec<f64> = own
        .filter_map(|cell| match &cell.outcome {
            Outcome::Measured(measured) => measured.server_connections_open,
            _ => None,
        })
        .map(|count| count as f64)
        .collect();
    median(&counts)
}

/// The point with the most connections, and the next point that is far enough away.
pub(super) fn last_two(points: &[Point]) -> Option<(&Point, &Point)> {
    let last = points.last()?;
    let is_apart = |point: &&Point| point.connections.saturating_mul(APART) <= last.connections;
    Some((points.iter().rev().find(is_apart)?, last))
}
