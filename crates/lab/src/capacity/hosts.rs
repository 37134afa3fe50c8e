//! The number of processors and hosts that a rate takes: processor time × rate / utilisation.
//!
//! The formula assumes that processors add up, as with one process for each (`--cores`, or several
//! servers behind a balancer). No measurement covers how the processors of one host slow each
//! other.

use super::Question;
use super::forms::Prediction;
use crate::statistics::Interval;

/// The processors and hosts that a rate takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Need {
    /// Processors, at the requested utilisation.
    pub processors: f64,
    /// The interval of `processors`, from the interval of the processor time.
    pub interval: Interval,
    /// Whole hosts: the minimum, the prediction and the maximum.
    pub hosts: [f64; 3],
    /// The requests a second that the existing hosts answer: the minimum, the prediction and the
    /// maximum.
    pub rate_of_hosts: Option<[f64; 3]>,
}

/// The processors and hosts that the rate takes, with `processors` on each host. `None` without a
/// rate.
pub fn need(time: &Prediction, question: &Question, processors: usize) -> Option<Need> {
    let (rate, each) = (question.rate?, processors.max(1) as f64);
    let needed = |us: f64| us * rate / 1e6 / question.utilisation;
    let hosts = |us: f64| (needed(us) / each).ceil().max(1.0);
    let Interval { low, high } = time.interval;
    let rate_of_hosts = question.hosts.map(|count| {
        [high, time.value, low].map(|us| count as f64 * each * question.utilisation * 1e6 / us)
    });
    Some(Need {
        processors: needed(time.value),
        interval: Interval { low: needed(low), high: needed(high) },
        hosts: [hosts(low), hosts(time.value), hosts(high)],
        rate_of_hosts,
    })
}
