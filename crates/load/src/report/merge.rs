//! One report of several loads that ran at the same time, each on its own host.
//!
//! Counts and rates add up. Latencies are those of all requests: the histograms are merged, which
//! loses nothing. A share of a processor is the largest of the loads. So the merged load was a
//! limit if one of its parts was.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

use super::latency::{HistogramError, encode};
use super::{Latency, OpenLoop, Report, Warning};
use crate::crowd::{Fate, Spans};

impl Report {
    /// The report of all `parts` together, which are loads on the same server in the same window.
    /// Each part has the name of its host, with which its warnings begin.
    ///
    /// `None` without parts.
    ///
    /// # Errors
    ///
    /// If the histogram of a part cannot be read.
    pub fn merged(parts: &[(String, Self)]) -> Result<Option<Self>, HistogramError> {
        let Some(((_, first), others)) = parts.split_first() else { return Ok(None) };
        if others.is_empty() {
            return Ok(Some(first.clone()));
        }
        let reports = || parts.iter().map(|(_, report)| report);
        let latencies = merged(reports().map(Self::latencies))?;
        let sum = |figure: fn(&Self) -> f64| reports().map(figure).sum::<f64>();
        let total = |figure: fn(&Self) -> u64| reports().map(figure).sum::<u64>();
        let most = |figure: fn(&Self) -> f64| reports().map(figure).fold(0.0, f64::max);
        let mut merged = Self {
            connections: reports().map(|report| report.connections).sum(),
            sources: reports().map(|report| report.sources).sum(),
            window_seconds: sum(|report| report.window_seconds) / parts.len() as f64,
            requests: total(|report| report.requests),
            requests_per_second: sum(|report| report.requests_per_second),
            latency_us: Latency::of(&latencies),
            first_byte_us: slowest(reports().filter_map(|report| report.first_byte_us.as_ref())),
            measured_load: sum(|report| report.measured_load),
            errors: BTreeMap::new(),
            bytes_received: total(|report| report.bytes_received),
            connections_opened: total(|report| report.connections_opened),
            connections_served: total(|report| report.connections_served),
            client_cpu_share: most(|report| report.client_cpu_share),
            client_wait_share: most(|report| report.client_wait_share),
            client_was_limit: reports().any(|report| report.client_was_limit),
            listen_overflows: total(|report| report.listen_overflows),
            listen_drops: total(|report| report.listen_drops),
            quota: reports().find_map(|report| report.quota.clone()),
            crowd: BTreeMap::new(),
            invalid: BTreeMap::new(),
            warnings: Vec::new(),
            slices_requests_per_second: Vec::new(),
            histogram: encode(&latencies),
            open_loop: open_loop(parts)?,
            ..first.clone()
        };
        for (host, report) in parts {
            for (kind, count) in &report.errors {
                *merged.errors.entry(kind.clone()).or_default() += count;
            }
            for (kind, fate) in &report.crowd {
                merged.crowd.entry(kind.clone()).or_default().add(fate);
            }
            for (kind, why) in &report.invalid {
                merged.invalid.entry(kind.clone()).or_insert_with(|| format!("{host}: {why}"));
            }
            merged.warnings.extend(report.warnings.iter().map(|warning| Warning {
                text: format!("{host}: {}", warning.text),
                ..warning.clone()
            }));
            let rates = &report.slices_requests_per_second;
            let own = &mut merged.slices_requests_per_second;
            own.resize(own.len().max(rates.len()), 0.0);
            own.iter_mut().zip(rates).for_each(|(sum, rate)| *sum += rate);
        }
        Ok(Some(merged))
    }
}

/// The figures that only an open loop has. Lags have no histogram, so the worst lag counts.
fn open_loop(parts: &[(String, Report)]) -> Result<Option<OpenLoop>, HistogramError> {
    let loops: Option<Vec<(&str, &OpenLoop)>> = parts
        .iter()
        .map(|(_, report)| Some((report.target.as_str(), report.open_loop.as_ref()?)))
        .collect();
    let Some(loops) = loops else { return Ok(None) };
    let Some((_, first)) = loops.first() else { return Ok(None) };
    let raw = merged(loops.iter().map(|(target, open)| decode(target, &open.raw_histogram)))?;
    let own = || loops.iter().map(|(_, open)| *open);
    let worst = |lag: fn(&OpenLoop) -> &Latency| slowest(own().map(lag));
    Ok(Some(OpenLoop {
        arrivals: first.arrivals.clone(),
        intended_per_second: own().map(|open| open.intended_per_second).sum(),
        due: own().map(|open| open.due).sum(),
        planned: own().map(|open| open.planned).sum(),
        unsent: own().map(|open| open.unsent).sum(),
        raw_latency_us: Latency::of(&raw),
        send_lag_us: worst(|open| &open.send_lag_us).unwrap_or_default(),
        generator_lag_us: worst(|open| &open.generator_lag_us).unwrap_or_default(),
        raw_histogram: encode(&raw),
    }))
}

/// The latencies with the longest 99 %. For figures of a part that come without a histogram.
fn slowest<'a>(parts: impl Iterator<Item = &'a Latency>) -> Option<Latency> {
    parts.max_by(|one, other| one.p99.total_cmp(&other.p99)).copied()
}

/// All values of all histograms.
fn merged(
    mut histograms: impl Iterator<Item = Result<Histogram<u64>, HistogramError>>,
) -> Result<Histogram<u64>, HistogramError> {
    let first = histograms.next().unwrap_or_else(|| Ok(crate::histogram::histogram()))?;
    histograms.try_fold(first, |mut sum, next| {
        sum.add(next?).expect("histograms of a report have the same bounds");
        Ok(sum)
    })
}

/// The latencies of several slices together.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Self(crate::histogram::histogram())
    }
}

impl Latencies {
    /// Adds the histograms of a slice.
    ///
    /// # Errors
    ///
    /// If this program did not write them.
    pub fn add(&mut self, histograms: &[String]) -> Result<(), HistogramError> {
        for text in histograms {
            let read = decode("a slice", text)?;
            self.0.add(read).map_err(|problem| HistogramError {
                target: "a slice".to_owned(),
                problem: problem.to_string(),
            })?;
        }
        Ok(())
    }

    /// Their percentiles.
    pub fn summary(&self) -> Latency {
        Latency::of(&self.0)
    }
}

/// A histogram of a report on `target`.
pub(super) fn decode(target: &str, text: &str) -> Result<Histogram<u64>, HistogramError> {
    let error = |problem| HistogramError { target: target.to_owned(), problem };
    let bytes = BASE64.decode(text).map_err(|problem| error(problem.to_string()))?;
    let read: Histogram<u64> = Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .map_err(|problem| error(problem.to_string()))?;
    // The histogram may come from another program. The sum must fit into the counters.
    let mut own = crate::histogram::histogram();
    own.add(read).map_err(|problem| error(problem.to_string()))?;
    Ok(own)
}

impl Fate {
    fn add(&mut self, other: &Self) {
        self.cut_after_seconds = match (self.cut_after_seconds, other.cut_after_seconds) {
            (Some(one), Some(two)) => Some(Spans {
                mean: weighted([(one.mean, self.cut), (two.mean, other.cut)]),
                min: one.min.min(two.min),
                max: one.max.max(two.max),
            }),
            (one, two) => one.or(two),
        };
        self.members += other.members;
        self.open += other.open;
        self.opened += other.opened;
        self.answered += other.answered;
        self.cut += other.cut;
        self.refused += other.refused;
        self.unanswered += other.unanswered;
    }
}

fn weighted(means: [(f64, u64); 2]) -> f64 {
    let weight: u64 = means.iter().map(|(_, weight)| weight).sum();
    means.iter().map(|(mean, weight)| mean * *weight as f64).sum::<f64>() / weight.max(1) as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::{histogram, report};
    use super::*;

    fn of(microseconds: Vec<u64>) -> Report {
        let latencies = histogram(microseconds);
        Report { latency_us: Latency::of(&latencies), histogram: encode(&latencies), ..report() }
    }

    proptest! {
        /// No percentile may reveal whether one host or several made the load.
        #[test]
        fn percentiles_are_those_of_one_histogram_fed_with_all(
            parts in prop::collection::vec(prop::collection::vec(1_u64..3_000_000, 1..200), 1..5)
        ) {
            let all = of(parts.concat());
            let parts: Vec<(String, Report)> =
                parts.into_iter().map(|part| ("host".to_owned(), of(part))).collect();
            let merged = Report::merged(&parts).unwrap().unwrap();
            prop_assert_eq!(merged.latency_us, all.latency_us);
            prop_assert_eq!(merged.latencies().unwrap(), all.latencies().unwrap());
        }
    }

    #[test]
    fn counts_add_up_and_one_part_that_was_the_limit_is_enough() {
        let errors: BTreeMap<String, u64> = [("reset".to_owned(), 3)].into();
        let limited = Report {
            client_was_limit: true,
            client_cpu_share: 0.99,
            errors: errors.clone(),
            slices_requests_per_second: vec![1.0, 2.0],
            invalid: [("starved".to_owned(), "It stood still.".to_owned())].into(),
            ..report()
        };
        let other = Report { errors, slices_requests_per_second: vec![5.0], ..report() };
        let parts = [("gen1".to_owned(), limited), ("gen2".to_owned(), other)];
        let merged = Report::merged(&parts).unwrap().unwrap();
        assert_eq!((merged.requests, merged.connections), (1_000_000, 200));
        assert!(merged.client_was_limit && merged.client_cpu_share > 0.98);
        assert_eq!(merged.errors["reset"], 6);
        assert_eq!(merged.slices_requests_per_second, [6.0, 2.0]);
        assert_eq!(merged.invalid["starved"], "gen1: It stood still.");
        assert!(Report::merged(&[]).unwrap().is_none());
    }

    #[test]
    fn a_part_that_is_no_report_is_told() {
        let broken = Report { histogram: "%".to_owned(), ..report() };
        let parts = [("a".to_owned(), report()), ("b".to_owned(), broken)];
        assert!(Report::merged(&parts).is_err());
    }
}
