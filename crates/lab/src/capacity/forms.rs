//! Predicts the processor time of a request beyond the measured numbers of connections.
//!
//! ```text
//!   constant        y(n) = y₂
//!   logarithmic     y(n) = y₂ + (y₂ − y₁) · ln(n/n₂) / ln(n₂/n₁)
//!   prediction      their mean, and for short requests cache misses(n)
//! ```
//!
//! Either form predicts a request of 50 µs and more within 10 %. A short request also meets cache
//! misses. From 4,000 to 16,000 connections, requests got longer by 1 to 2 µs under most
//! architectures, on two machines. Cells with fewer connections do not show this growth. Beyond
//! 16,000, the prediction assumes that the misses keep growing over the logarithm.
//!
//! If the last point did not serve all its connections, further connections wait too. Then the
//! constant is the prediction, and the other form only widens the interval.

use schemars::JsonSchema;
use serde::Serialize;

use super::points::{Point, last_two};
use crate::failure::{Failure, Party};
use crate::statistics::Interval;

/// From this processor time on, in microseconds, a request is long.
pub const LONG_US: f64 = 50.0;
/// The least half of the interval, as a share: for long requests and for short requests.
pub const LEAST: [f64; 2] = [0.10, 0.25];
/// Forms that differ by more than this share of the prediction call for a measurement.
pub const WIDE: f64 = 0.20;
/// The range of connections over which cache misses lengthen a request.
const MISSES: [f64; 2] = [4000.0, 16_000.0];
/// The added time over that range in microseconds: the middle of the findings, and the most.
const MISSES_US: [f64; 2] = [1.5, 2.0];
/// A falling line is followed down to this share of the last value.
const LOWEST: f64 = 0.1;

/// A processor time that was not measured, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Prediction {
    /// The number of open connections.
    pub connections: f64,
    /// The prediction.
    pub value: f64,
    /// The interval of the true value.
    pub interval: Interval,
    /// The value of the first form.
    pub constant: f64,
    /// The value of the second form.
    pub logarithmic: f64,
}

impl Prediction {
    /// The difference of the two forms, as a share of the prediction.
    pub fn spread(&self) -> f64 {
        (self.constant - self.logarithmic).abs() / self.value
    }

    /// Whether the forms differ so much that a measurement is needed.
    pub fn is_wide(&self) -> bool {
        self.spread() > WIDE
    }
}

/// Predicts the processor time of a request with `at` open connections.
///
/// # Errors
///
/// The error tells why the time cannot be predicted.
pub fn processor_time(points: &[Point], at: f64) -> Result<Prediction, Failure> {
    let (before, last) = last_two(points).ok_or_else(|| {
        let why = match points {
            [] => "no sound cell",
            _ => "measured at one number of connections only",
        };
        Failure::new(Party::Load, why)
    })?;
    let (constant, earlier) = (last.processor_time.value, before.processor_time.value);
    let (from, to) = (before.connections as f64, last.connections as f64);
    // No connection beyond the hard limits of a server is open.
    let at = at.max(to);
    let steps = (at / to).ln() / (to / from).ln();
    let logarithmic = (constant + (constant - earlier) * steps).max(LOWEST * constant);
    let is_long = constant >= LONG_US;
    let [added, most] = match is_long {
        true => [0.0; 2],
        false => MISSES_US.map(|misses| misses * (share_of_misses(at) - share_of_misses(to))),
    };
    let value = match last.is_saturated() {
        true => constant,
        false => f64::midpoint(constant, logarithmic) + added,
    };
    // The prediction cannot be more certain than the measurement of the last point.
    let (below, above) = match last.processor_time.interval {
        Some(interval) => (interval.low / constant, interval.high / constant),
        None => (1.0, 1.0),
    };
    let least = if is_long { LEAST[0] } else { LEAST[1] };
    let low = constant.min(logarithmic) * below.min(1.0);
    let high = (constant.max(logarithmic) + most) * above.max(1.0);
    let interval =
        Interval { low: low.min(value * (1.0 - least)), high: high.max(value * (1.0 + least)) };
    Ok(Prediction { connections: at, value, interval, constant, logarithmic })
}

/// The growth of cache misses, as a multiple of the growth over the range [`MISSES`].
fn share_of_misses(connections: f64) -> f64 {
    let [from, to] = MISSES;
    ((connections / from).ln() / (to / from).ln()).max(0.0)
}
