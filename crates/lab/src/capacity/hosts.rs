//! How many processors and hosts a rate takes: processor time × rate / utilisation.
//!
//! Processors are taken to add up, as under one process for each of them (`--cores`, or several
//! servers behind a balancer). What processors of one host cost each other was not measured.

use super::Question;
use super::forms::Prediction;
use crate::statistics::Interval;

/// What a rate takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Need {
    /// Processors, at the utilisation that is asked for.
    pub processors: f64,
    /// The interval of `processors`, from the interval of the processor time.
    pub interval: Interval,
    /// Whole hosts: at least, as predicted, and at most.
    pub hosts: [f64; 3],
    /// The requests a second that the hosts answer that there are: at least, as predicted, at most.
    pub rate_of_hosts: Option<[f64; 3]>,
}

/// What the rate in question takes on hosts of so many `processors`; none without a rate.
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
