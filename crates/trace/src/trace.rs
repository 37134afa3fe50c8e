//! What a trace is: a head, and the connections in the order in which they began.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of traces that this program writes, and the only one that it reads.
pub const VERSION: u32 = 1;

/// How clients behaved. Made by [`Trace::new`] or read by [`crate::file::read`], so that:
///
/// - connections are sorted by their start, and each has at least one step,
/// - the class of each step is in the head, and the head counts each class rightly,
/// - all times are multiples of [`Head::tick`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The facts that all connections have in common, and the source.
    pub head: Head,
    /// Sorted by their start.
    pub connections: Vec<Connection>,
}

/// One connection of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// When it was opened, from the begin of the trace.
    pub start: Duration,
    /// How fast the client takes a reply, in bytes a second. `None`: as fast as it comes, or
    /// nothing is known.
    pub rate: Option<u64>,
    /// The requests, in order; never empty.
    pub steps: Vec<Step>,
    /// How long the connection stayed open after its last reply.
    pub open_after: Duration,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// From the last byte of the reply before to this request. Zero for the first request, which is
    /// made when the connection is open.
    pub think: Duration,
    /// The class of the request: an index into [`Head::classes`].
    pub class: u16,
}

/// The facts that all connections of a trace have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// [`VERSION`].
    #[serde(rename = "duality_trace")]
    pub version: u32,
    /// How many requests the trace has.
    pub requests: u64,
    /// How many connections the trace has.
    pub connections: u64,
    /// From the first connection's begin to the last thing that the source tells.
    #[serde(rename = "length_us", with = "micros")]
    pub length: Duration,
    /// The unit of all times in the file. At least 1 µs.
    #[serde(rename = "tick_us", with = "micros")]
    pub tick: Duration,
    /// How finely the source tells time: one second for most logs.
    #[serde(rename = "resolution_us", with = "micros")]
    pub resolution: Duration,
    /// The wall clock at the begin of the trace, in seconds since 1970. `None` if the source does
    /// not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<u64>,
    /// What the trace was made from: `combined log`, `pcap`, `proxy`, ….
    pub source: String,
    /// The content that the sizes of its classes cover.
    pub sizes: Sizes,
    /// The figures that the source lacks, and their substitutes.
    #[serde(default)]
    pub inferred: Vec<Inferred>,
    /// What a reader of the trace should know, a sentence each.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Every kind of request, the most frequent first.
    pub classes: Vec<Class>,
    /// SHA-256 of the file's text before compression, in hexadecimal. It names the trace in
    /// reports. Empty until the trace has been read from a file or written to one.
    #[serde(skip)]
    pub checksum: String,
}

/// A figure that the source lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Inferred {
    /// The subject: `connections`, `time`, `client speed`, ….
    pub what: String,
    /// The substitute.
    pub value: String,
    /// The reason for the substitute.
    pub why: String,
}

/// The content that the sizes of a trace's classes cover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sizes {
    /// Of bodies, without their heads: what logs tell.
    #[default]
    Body,
    /// Of all that was sent, with heads, and with TLS where that was used: what a capture and a
    /// proxy see.
    Wire,
}

/// A kind of request: requests of one class are alike to a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Class {
    /// The method.
    pub method: Method,
    /// Bytes of the request in quarter powers of two; 0 if the source does not tell them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub request: u64,
    /// Bytes of the reply, in quarter powers of two ([`crate::size::quantised`]).
    pub reply: u64,
    /// The first digit of the reply's status, 1 to 5; 0 if the source does not tell it.
    pub status: u8,
    /// How many requests of the trace have this class.
    pub count: u64,
    /// The path with its query. `None` unless paths were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// A request's method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// A GET.
    Get,
    /// A HEAD: its reply has no body.
    Head,
    /// A POST.
    Post,
    /// A PUT.
    Put,
    /// A PATCH.
    Patch,
    /// A DELETE.
    Delete,
    /// An OPTIONS.
    Options,
    /// A rarer one, or one that the source does not tell.
    #[default]
    Other,
}

impl Method {
    /// The method of this name, in capitals as in a request.
    pub fn named(name: &str) -> Self {
        match name {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "PATCH" => Self::Patch,
            "DELETE" => Self::Delete,
            "OPTIONS" => Self::Options,
            _ => Self::Other,
        }
    }
}

impl Default for Head {
    fn default() -> Self {
        Self {
            version: VERSION,
            requests: 0,
            connections: 0,
            length: Duration::ZERO,
            tick: Duration::from_micros(1),
            resolution: Duration::from_micros(1),
            began: None,
            source: String::new(),
            sizes: Sizes::Body,
            inferred: Vec::new(),
            warnings: Vec::new(),
            classes: Vec::new(),
            checksum: String::new(),
        }
    }
}

impl Trace {
    /// A trace of these connections, in any order. Drops connections without a request, rounds
    /// times down to the head's tick, counts, and sorts classes by their count. The length of the
    /// head grows to the start of the last connection, where it is less.
    ///
    /// # Panics
    ///
    /// If a step's class is not in the head.
    pub fn new(mut head: Head, mut connections: Vec<Connection>) -> Self {
        head.tick = head.tick.max(Duration::from_micros(1));
        connections.retain(|connection| !connection.steps.is_empty());
        for connection in &mut connections {
            connection.round(head.tick);
        }
        connections.sort_by_key(|connection| connection.start);
        head.version = VERSION;
        head.length = rounded(head.length, head.tick);
        if let Some(last) = connections.last() {
            head.length = head.length.max(last.start);
        }
        let mut trace = Self { head, connections };
        trace.count();
        trace
    }

    /// Counts classes, and gives the lowest numbers to the most frequent.
    fn count(&mut self) {
        let mut counts = vec![0u64; self.head.classes.len()];
        for connection in &self.connections {
            for step in &connection.steps {
                counts[usize::from(step.class)] += 1;
            }
        }
        self.head.connections = self.connections.len() as u64;
        self.head.requests = counts.iter().sum();
        let mut order: Vec<usize> = (0..counts.len()).filter(|&class| counts[class] > 0).collect();
        order.sort_by_key(|&class| std::cmp::Reverse(counts[class]));
        let mut numbers = vec![0u16; counts.len()];
        for (number, &class) in order.iter().enumerate() {
            numbers[class] = u16::try_from(number).expect("a step's class is a u16");
        }
        let old = std::mem::take(&mut self.head.classes);
        self.head.classes = order
            .iter()
            .map(|&class| Class { count: counts[class], ..old[class].clone() })
            .collect();
        for step in self.connections.iter_mut().flat_map(|connection| &mut connection.steps) {
            step.class = numbers[usize::from(step.class)];
        }
    }

    /// How long the trace is, in seconds.
    pub fn seconds(&self) -> f64 {
        self.head.length.as_secs_f64()
    }

    /// How many requests the trace has.
    pub fn requests(&self) -> u64 {
        self.head.requests
    }

    /// The class of a step.
    ///
    /// # Panics
    ///
    /// If the step is of another trace.
    pub fn class(&self, step: Step) -> &Class {
        &self.head.classes[usize::from(step.class)]
    }

    /// The connections, sorted by their start.
    pub fn iter(&self) -> std::slice::Iter<'_, Connection> {
        self.connections.iter()
    }

    /// The connections that are open at `time` from the begin of the trace, if every reply takes no
    /// time.
    pub fn open_at(&self, time: Duration) -> impl Iterator<Item = &Connection> {
        let begun = self.connections.partition_point(|connection| connection.start <= time);
        self.connections[..begun].iter().filter(move |connection| connection.end() > time)
    }

    /// When each request is made if every reply takes no time, sorted.
    pub fn request_times(&self) -> Vec<Duration> {
        let mut times: Vec<Duration> = self.iter().flat_map(Connection::request_times).collect();
        times.sort_unstable();
        times
    }
}

impl<'a> IntoIterator for &'a Trace {
    type Item = &'a Connection;
    type IntoIter = std::slice::Iter<'a, Connection>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Connection {
    /// The time of each request from the beginning of the trace, if replies take no time.
    pub fn request_times(&self) -> impl Iterator<Item = Duration> {
        self.steps.iter().scan(self.start, |time, step| {
            *time = time.saturating_add(step.think);
            Some(*time)
        })
    }

    /// The time of the last request, if replies take no time.
    pub fn last_request(&self) -> Duration {
        let thinks = self.steps.iter().map(|step| step.think);
        thinks.fold(self.start, Duration::saturating_add)
    }

    /// When the connection is closed, if every reply takes no time.
    pub fn end(&self) -> Duration {
        self.last_request().saturating_add(self.open_after)
    }

    /// Rounds times down to whole ticks. The first request does not wait.
    fn round(&mut self, tick: Duration) {
        self.start = rounded(self.start, tick);
        self.open_after = rounded(self.open_after, tick);
        for step in &mut self.steps {
            step.think = rounded(step.think, tick);
        }
        if let Some(first) = self.steps.first_mut() {
            first.think = Duration::ZERO;
        }
    }
}

/// The longest time that a trace tells: a hundred years. So no sum of a few times overflows.
pub(crate) const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);

/// Whole ticks, at most [`LONGEST`].
fn rounded(time: Duration, tick: Duration) -> Duration {
    let (time, tick) = (time.min(LONGEST).as_micros() as u64, tick.as_micros().max(1) as u64);
    Duration::from_micros(time / tick * tick)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// Durations as whole microseconds.
mod micros {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_micros)
    }
}
