//! A page in Prometheus's text format: metrics with names and help, each read once.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// The page so far.
pub(crate) struct Page<'e>(DescriptorEncoder<'e>);

impl<'e> Page<'e> {
    /// A page that `encoder` writes.
    pub(crate) fn new(encoder: DescriptorEncoder<'e>) -> Self {
        Self(encoder)
    }

    /// A count that only grows. The encoder adds the unit and `_total` to its name.
    pub(crate) fn counter<N>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        value: N,
    ) -> fmt::Result
    where
        ConstCounter<N>: EncodeMetric,
    {
        let encoder = self.0.encode_descriptor(name, help, unit, MetricType::Counter)?;
        ConstCounter::new(value).encode(encoder)
    }

    /// A value that rises and falls.
    pub(crate) fn gauge<N>(&mut self, name: &str, help: &str, value: N) -> fmt::Result
    where
        ConstGauge<N>: EncodeMetric,
    {
        let encoder = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(value).encode(encoder)
    }

    /// A metric for each value of a label.
    pub(crate) fn labelled<M: EncodeMetric>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: &[(impl AsRef<str>, u64)],
        metric: fn(u64) -> M,
    ) -> fmt::Result {
        let kind = metric(0).metric_type();
        let mut encoder = self.0.encode_descriptor(name, help, None, kind)?;
        for (of, value) in values {
            let labels = [(label, of.as_ref())];
            metric(*value).encode(encoder.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// Durations in seconds: their sum, their number, and the number in each bucket. The upper
    /// bound of the last bucket is infinite.
    pub(crate) fn histogram(
        &mut self,
        name: &str,
        help: &str,
        sum: f64,
        count: u64,
        buckets: &[(f64, u64)],
    ) -> fmt::Result {
        let unit = Some(&Unit::Seconds);
        let mut encoder = self.0.encode_descriptor(name, help, unit, MetricType::Histogram)?;
        encoder.encode_histogram::<NoLabelSet>(sum, count, buckets, None)
    }
}
