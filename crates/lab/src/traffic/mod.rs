//! The content of a trace: the numbers of requests and connections, their times, and the inferred
//! properties. A summary serialises as JSON.

use std::time::Duration;

use duality_trace::{Class, Connection, Inferred, Method, Trace};
use schemars::JsonSchema;
use serde::Serialize;

/// The version of a summary as JSON.
const VERSION: u32 = 1;
/// A trace is cut into this many slices, each a column of text.
const SLICES: usize = 64;
/// The number of points of a distribution.
const POINTS: usize = 64;

/// The content of a trace.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Summary {
    /// The version of the JSON form.
    #[schemars(extend("const" = VERSION))]
    version: u32,
    /// The trace's checksum, which identifies the trace.
    pub checksum: String,
    /// The origin of the trace.
    pub source: String,
    /// The length.
    pub seconds: f64,
    /// The number of requests in the trace.
    pub requests: u64,
    /// The number of connections in the trace.
    pub connections: u64,
    /// Requests in each of equal slices of the trace.
    pub arrivals: Vec<u64>,
    /// The length of a slice in seconds.
    pub slice_seconds: f64,
    /// Connections open on average in each slice.
    pub open: Vec<f64>,
    /// Connections open on average.
    pub open_mean: f64,
    /// The most connections that were open at once.
    pub open_most: u64,
    /// Variance over mean of the number of requests in 1, 10 and 60 s. The ratio is 1 for
    /// independent clients. `None` if the trace is too short.
    pub dispersion: [Option<f64>; 3],
    /// The number of requests on a connection.
    pub per_connection: Distribution,
    /// Think times in microseconds.
    pub think_us: Distribution,
    /// Sizes of replies in bytes.
    pub reply: Distribution,
    /// Requests by method, the most frequent first.
    pub methods: Vec<(Method, u64)>,
    /// Replies by the first digit of their status. The digit 0 stands for an unknown status.
    pub status: [u64; 6],
    /// Connections of clients with a known speed.
    pub limited: u64,
    /// The number of paths in the trace.
    pub paths: usize,
    /// Properties that the source lacks, and that were inferred.
    pub inferred: Vec<Inferred>,
    /// Warnings for readers.
    pub warnings: Vec<String>,
}

/// How values are distributed.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Distribution {
    /// The number of values.
    pub count: u64,
    /// The mean of the values. 0 without values.
    pub mean: f64,
    /// The median. 0 without values.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The maximum.
    pub most: f64,
    /// Values, each with the share of all values that are at most as large.
    #[serde(skip)]
    pub(crate) shares: Vec<(f64, f64)>,
}

impl Summary {
    /// The content of a trace.
    pub fn of(trace: &Trace) -> Self {
        let head = &trace.head;
        let slice = (head.length.as_secs_f64() / SLICES as f64).max(1e-6);
        let times = trace.request_times();
        let (open, open_mean, open_most) = open(trace, slice);
        let thinks = trace.iter().flat_map(|connection| connection.steps.iter().skip(1));
        let sizes = head.classes.iter().map(|class| (class.reply as f64, class.count));
        Self {
            version: VERSION,
            checksum: head.checksum.clone(),
            source: head.source.clone(),
            seconds: trace.seconds(),
            requests: trace.requests(),
            connections: head.connections,
            arrivals: counts(&times, slice, SLICES),
            slice_seconds: slice,
            open,
            open_mean,
            open_most,
            dispersion: [1.0, 10.0, 60.0].map(|scale| dispersion(&times, scale, head.length)),
            per_connection: distribution(
                trace.iter().map(|connection| (connection.steps.len() as f64, 1)).collect(),
            ),
            think_us: distribution(thinks.map(|step| (step.think.as_micros() as f64, 1)).collect()),
            reply: distribution(sizes.collect()),
            methods: methods(&head.classes),
            status: std::array::from_fn(|digit| {
                let has_it = |class: &&Class| usize::from(class.status) == digit;
                head.classes.iter().filter(has_it).map(|class| class.count).sum()
            }),
            limited: trace.iter().filter(|connection| connection.rate.is_some()).count() as u64,
            paths: head.classes.iter().filter(|class| class.path.is_some()).count(),
            inferred: head.inferred.clone(),
            warnings: head.warnings.clone(),
        }
    }

    /// Requests a second on average.
    pub fn rate(&self) -> f64 {
        self.requests as f64 / self.seconds.max(1e-6)
    }

    /// Requests a second in each slice.
    pub(crate) fn rates(&self) -> Vec<f64> {
        self.arrivals.iter().map(|count| *count as f64 / self.slice_seconds).collect()
    }

    /// The summary as JSON.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("it is plain data")
    }
}

/// Requests by method, the most frequent first.
fn methods(classes: &[Class]) -> Vec<(Method, u64)> {
    let mut counts: Vec<(Method, u64)> = Vec::new();
    for class in classes {
        match counts.iter_mut().find(|(method, _)| *method == class.method) {
            Some((_, count)) => *count += class.count,
            None => counts.push((class.method, class.count)),
        }
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

/// The number of times in each of `slices` slices. `slice` is the length of a slice in seconds. The
/// last slice includes later times.
fn counts(times: &[Duration], slice: f64, slices: usize) -> Vec<u64> {
    let mut counts = vec![0; slices];
    for time in times {
        counts[((time.as_secs_f64() / slice) as usize).min(slices - 1)] += 1;
    }
    counts
}

/// Variance over mean of the counts in pieces of this many seconds.
fn dispersion(times: &[Duration], scale: f64, length: Duration) -> Option<f64> {
    let pieces = (length.as_secs_f64() / scale) as usize;
    // More pieces would take much memory, and reveal nothing about a server's load.
    if !(5..=100_000_000).contains(&pieces) {
        return None;
    }
    let within = times.partition_point(|time| time.as_secs_f64() < scale * pieces as f64);
    let counts = counts(&times[..within], scale, pieces);
    let mean = within as f64 / pieces as f64;
    let variance = counts.iter().map(|count| (*count as f64 - mean).powi(2)).sum::<f64>();
    (mean > 0.0).then(|| variance / pieces as f64 / mean)
}

/// The connections open on average in each slice, on average overall, and at most.
fn open(trace: &Trace, slice: f64) -> (Vec<f64>, f64, u64) {
    let mut open = vec![0.0; SLICES];
    let span = |connection: &Connection| {
        [connection.start.as_secs_f64(), connection.end().as_secs_f64().min(trace.seconds())]
    };
    for [start, end] in trace.iter().map(span) {
        let first = ((start / slice) as usize).min(SLICES - 1);
        let last = ((end / slice) as usize).min(SLICES - 1);
        for (number, open) in open.iter_mut().enumerate().take(last + 1).skip(first) {
            let [from, to] = [number as f64 * slice, (number + 1) as f64 * slice];
            *open += (end.min(to) - start.max(from)).max(0.0) / slice;
        }
    }
    let mean = open.iter().sum::<f64>() / SLICES as f64;
    let mut ends: Vec<Duration> = trace.iter().map(Connection::end).collect();
    ends.sort_unstable();
    let mut ended = 0;
    let mut most = 0;
    for (begun, connection) in trace.iter().enumerate() {
        while ended < ends.len() && ends[ended] <= connection.start && ended < begun {
            ended += 1;
        }
        most = most.max(begun + 1 - ended);
    }
    (open, mean, most as u64)
}

/// The distribution of values, each with its number of occurrences.
fn distribution(mut values: Vec<(f64, u64)>) -> Distribution {
    values.sort_by(|one, other| one.0.total_cmp(&other.0));
    let count: u64 = values.iter().map(|(_, count)| count).sum();
    if count == 0 {
        return Distribution::default();
    }
    let sum: f64 = values.iter().map(|(value, times)| value * *times as f64).sum();
    let mut upto = Vec::with_capacity(values.len());
    let mut so_far = 0;
    for (value, times) in values {
        so_far += times;
        upto.push((value, so_far));
    }
    let at = |share: f64| {
        let wanted = ((share * count as f64).ceil() as u64).clamp(1, count);
        upto[upto.partition_point(|(_, so_far)| *so_far < wanted)].0
    };
    let mut shares: Vec<(f64, f64)> = (1..=POINTS)
        .map(|point| point as f64 / POINTS as f64)
        .map(|share| (at(share), share))
        .collect();
    // For equal values, keep the largest share.
    shares.reverse();
    shares.dedup_by_key(|(value, _)| *value);
    shares.reverse();
    Distribution {
        count,
        mean: sum / count as f64,
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        most: at(1.0),
        shares,
    }
}

#[cfg(test)]
pub(crate) mod tests;
