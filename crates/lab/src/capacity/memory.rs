//! Predicts the memory of a server: a line over the connections that are open at the server. The
//! line goes through the two points with the most connections.
//!
//! The load's number of connections would be the wrong axis, since a pool holds only as many
//! connections as workers. If each request has its own connection, the server's speed decides how
//! many are open. Then no line holds.

use schemars::JsonSchema;
use serde::Serialize;

use super::points::{Point, last_two};
use crate::ask::resolve::Architecture;
use crate::failure::{Failure, Party};
use crate::record::Design;
use crate::statistics::Interval;

/// Half of the interval, as a share. Of 25 predictions from the kept runs, 21 are within the
/// interval (docs/capacity.md).
const LEAST: f64 = 0.15;

/// Memory that was not measured, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Memory {
    /// The number of connections that are open at the server.
    #[serde(rename = "server_connections_open")]
    pub open: f64,
    /// The prediction.
    #[serde(rename = "value")]
    pub bytes: f64,
    /// The interval of the true value.
    pub interval: Interval,
    /// The memory of each connection.
    pub bytes_per_connection: f64,
    /// The memory of the server without connections.
    #[serde(skip)]
    pub base: f64,
    /// Whether the server reported its open connections. Otherwise the number comes from the
    /// architecture's declaration.
    #[serde(rename = "open_is_measured")]
    pub is_open_known: bool,
}

/// Predicts the memory of a server that has `fit` connections, or fewer if it accepts fewer.
///
/// # Errors
///
/// The error tells why memory cannot be predicted.
pub(super) fn predict(
    design: &Design,
    points: &[Point],
    architecture: Option<&Architecture>,
    fit: f64,
) -> Result<Memory, Failure> {
    if !design.keep_alive {
        return Err(Failure::new(Party::Load, "connections come and go"));
    }
    let (before, last) =
        last_two(points).ok_or_else(|| Failure::new(Party::Load, "too few sound cells"))?;
    // A connection that waits for a worker costs almost nothing.
    let held = architecture
        .and_then(|found| [found.footprint.accepted, found.workers].into_iter().flatten().min());
    let held = held.map_or(f64::INFINITY, |held| held as f64);
    let open_at = |point: &Point| point.open.unwrap_or(point.connections as f64).min(held);
    let (from, to) = (open_at(before), open_at(last));
    // A server that opened few of the last point's connections also opens few of a larger number.
    let is_full = to < crate::judge::rows::SERVED * last.connections as f64;
    let open = if is_full { to } else { fit.min(held).max(to) };
    let slope =
        if to > from { ((last.memory - before.memory) / (to - from)).max(0.0) } else { 0.0 };
    let bytes = last.memory + slope * (open - to);
    Ok(Memory {
        open,
        bytes,
        interval: Interval { low: bytes * (1.0 - LEAST), high: bytes * (1.0 + LEAST) },
        bytes_per_connection: slope,
        base: (last.memory - slope * to).max(0.0),
        is_open_known: last.open.is_some(),
    })
}
