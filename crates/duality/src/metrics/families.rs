//! The families of metrics, read from the counters at each scrape.

use std::fmt::{self, Debug};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use duality_architectures::common::refusals::{self, Reason};
use duality_runtime::handler::{FailureKind, failures};
use duality_runtime::visibility;
use duality_services::relay::{self, UpstreamReport};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use super::page::Page;
use super::processor::Processor;

/// All families of a server.
#[derive(Debug)]
pub(super) struct Families {
    processor: Mutex<Processor>,
    panics: &'static AtomicU64,
    /// Seconds since 1970.
    started: f64,
}

impl Families {
    pub(super) fn new(forks: bool, panics: &'static AtomicU64) -> Self {
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let processor = Mutex::new(Processor::new(forks));
        Self { processor, panics, started: started.as_secs_f64() }
    }
}

impl Collector for Families {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page::new(encoder);
        let totals = visibility::totals();
        let latencies = visibility::latencies();
        page.counter("requests", "Requests that were answered.", None, latencies.count())?;
        page.histogram(
            "request_duration",
            "From the first byte read to the last one sent.",
            latencies.sum,
            latencies.count(),
            &latencies.buckets,
        )?;
        page.gauge("connections_open", "Connections that are open.", totals.connections_now())?;
        let waiting = totals.connections_accepted.saturating_sub(totals.connections_begun);
        page.gauge(
            "connections_waiting",
            "Accepted connections that wait for their turn.",
            waiting,
        )?;
        let accepted = totals.connections_accepted;
        page.counter("connections_accepted", "Connections that were accepted.", None, accepted)?;
        let refused = Reason::ALL.map(|reason| (reason.name(), refusals::refused(reason)));
        let help = "Connections that were refused.";
        page.labelled("connections_refused", help, "reason", &refused, ConstCounter::new)?;
        let failed = FailureKind::ALL.map(|kind| (kind.name(), failures(kind)));
        let panics = [("panic", self.panics.load(Ordering::Relaxed))];
        let errors = [&failed[..], &panics].concat();
        let help = "Connections that ended with an error.";
        page.labelled("errors", help, "kind", &errors, ConstCounter::new)?;
        let help = "Requests with an answer that tells of a failure, such as status 500.";
        page.counter("requests_failed", help, None, totals.requests_failed)?;
        page.gauge("tasks", "Tasks that are alive.", totals.tasks_now())?;
        page.counter("read", "Bytes read from sockets.", Some(&Unit::Bytes), totals.read_bytes)?;
        page.counter(
            "written",
            "Bytes written to sockets.",
            Some(&Unit::Bytes),
            totals.written_bytes,
        )?;
        write_queues(&mut page)?;
        write_upstreams(&mut page)?;
        let seconds = self.processor.lock().unwrap_or_else(PoisonError::into_inner).seconds();
        let help = "Processor time of the server and its child processes.";
        page.counter("process_cpu", help, Some(&Unit::Seconds), seconds)?;
        let dropped = visibility::dropped_log_lines();
        page.counter("access_log_dropped", "Lines that the access log has lost.", None, dropped)?;
        page.gauge(
            "start_time_seconds",
            "When the server started, in seconds since 1970.",
            self.started,
        )
    }
}

/// Writes the queues, for an architecture that has queues.
fn write_queues(page: &mut Page<'_>) -> fmt::Result {
    let queues = visibility::queues();
    if queues.is_empty() {
        return Ok(());
    }
    let of = |value: fn(&visibility::QueueReport) -> u64| -> Vec<(&str, u64)> {
        queues.iter().map(|queue| (queue.name.as_str(), value(queue))).collect()
    };
    let (lengths, threads) = (of(|queue| queue.length), of(|queue| queue.threads));
    let help = "Blocks that wait in a queue.";
    page.labelled("queue_length", help, "queue", &lengths, ConstGauge::new)?;
    let help = "Kernel threads that take from a queue.";
    page.labelled("queue_threads", help, "queue", &threads, ConstGauge::new)?;
    let executed = of(|queue| queue.executed);
    let help = "Blocks that were taken from a queue.";
    page.labelled("queue_executed", help, "queue", &executed, ConstCounter::new)
}

/// The name and the help of a counter, and its value.
type Counter = (&'static str, &'static str, fn(&UpstreamReport) -> u64);

/// Writes the upstreams, if the service is a relay.
fn write_upstreams(page: &mut Page<'_>) -> fmt::Result {
    let upstreams = relay::upstreams();
    if upstreams.is_empty() {
        return Ok(());
    }
    let of = |value: fn(&UpstreamReport) -> u64| -> Vec<(String, u64)> {
        upstreams.iter().map(|report| (report.address.to_string(), value(report))).collect()
    };
    let is_up = of(|report| report.is_up.into());
    let help = "Whether requests go to an upstream: it is neither left out nor ill.";
    page.labelled("upstream_up", help, "upstream", &is_up, ConstGauge::new)?;
    let counters: [Counter; 5] = [
        ("upstream_requests", "Requests that were sent to an upstream.", |report| report.requests),
        ("upstream_unreached", "Connections to an upstream that did not come about.", |report| {
            report.unreached
        }),
        (
            "upstream_unanswered",
            "Requests that an upstream left without a whole reply.",
            |report| report.unanswered,
        ),
        ("upstream_late", "Requests that an upstream took too long for.", |report| report.late),
        ("upstream_abandoned", "Requests whose clients left before the end.", |report| {
            report.abandoned
        }),
    ];
    for (name, help, value) in counters {
        page.labelled(name, help, "upstream", &of(value), ConstCounter::new)?;
    }
    Ok(())
}
