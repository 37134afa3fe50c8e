//! Makes a trace from the requests that readers find.
//!
//! ```text
//!   reader ─ Request ─► classes, traps ─ Event ─► order ─► spread ─► sessions ─► trace
//!   reader of packets, proxy ─ Turns ─────────────────────────────────────────┘
//! ```
//!
//! Addresses end here: they become keyed hashes, and the key is forgotten with the gathering.

use std::hash::{BuildHasher, Hash, RandomState};
use std::time::Duration;

use crate::classes::Classes;
use crate::clock;
use crate::filter::Filter;
use crate::mask::masked;
use crate::order::{Order, Spread};
use crate::outliers;
use crate::sessions::{Event, Opened, Sessions};
use crate::trace::{Head, Inferred, Method, Sizes, Trace};
use crate::traps::Traps;

/// A reply of this size or more does not fit into the buffers of a socket. So its time shows how
/// fast its client is.
pub(crate) const LARGE: u64 = 200_000;
/// A shorter time tells nothing about a client, in microseconds.
pub(crate) const SLOW: u64 = 50_000;
/// The largest number of requests of a trace, and of its file.
pub(crate) const MOST: u64 = 20_000_000;

/// How a log is turned into a trace.
#[derive(Clone, Debug)]
pub struct Rules {
    /// How long a server keeps an idle connection. Zero: a connection for each request.
    pub keep_alive: Duration,
    /// Whether the trace has paths.
    pub paths: bool,
    /// Whether what looks like a secret stays in paths.
    pub keeps_secrets: bool,
    /// The requests that count.
    pub filter: Filter,
    /// The format of the lines, if the user gives it: one that `readers::Pattern` accepts.
    pub pattern: Option<String>,
    /// The size that larger replies count as.
    pub max_size: u64,
    /// The moment that stamps mean, if the format of the log does not say.
    pub stamp: Option<Stamp>,
    /// For a HAR: the host of the requests that count.
    pub host: Option<String>,
    /// For a capture: the port of the server.
    pub port: Option<u16>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            keep_alive: Duration::from_secs(75),
            paths: false,
            keeps_secrets: false,
            filter: Filter::default(),
            pattern: None,
            max_size: 1 << 20,
            stamp: None,
            host: None,
            port: None,
        }
    }
}

/// The moment that the stamp of a line means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// The begin of a request, as Apache writes it.
    Start,
    /// The end of a request, as nginx writes it.
    End,
}

/// A request, as a reader finds it.
pub(crate) struct Request<'a> {
    /// Microseconds since 1970.
    pub(crate) time: i64,
    /// The moment that `time` means, if the format says so.
    pub(crate) stamp: Option<Stamp>,
    /// Microseconds, where the log tells.
    pub(crate) took: Option<u64>,
    /// The client's address, if the log has it.
    pub(crate) address: &'a [u8],
    /// The user agent: two agents behind one address are two clients.
    pub(crate) agent: &'a [u8],
    /// The name of its connection, if the log has it.
    pub(crate) connection: Option<Name<'a>>,
    /// The number in its connection, from 1; 0 if the log does not tell.
    pub(crate) nth: u64,
    pub(crate) method: &'a str,
    /// The target. Empty if it is not known.
    pub(crate) path: &'a str,
    pub(crate) protocol: Protocol,
    pub(crate) status: u16,
    /// Bytes of the request and of its reply; 0 where they are not known.
    pub(crate) sizes: [u64; 2],
}

/// The name of a connection.
#[derive(Clone, Copy, Hash)]
pub(crate) enum Name<'a> {
    Number(u64),
    Text(&'a str),
    /// An address, and its port.
    Peer(&'a str, &'a str),
}

/// How a version of HTTP uses connections.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// A connection for each request: HTTP/1.0 and before.
    Close,
    /// Six connections, each with one request after the other: HTTP/1.1.
    Keep,
    /// One connection with many requests at a time: HTTP/2 and HTTP/3.
    Multiplexed,
}

impl Protocol {
    /// The protocol of a version as logs write it: `HTTP/1.1`, `h2`.
    pub(crate) fn named(version: &str) -> Self {
        let version = version.to_ascii_lowercase();
        match version.trim_start_matches("http/").trim_start_matches('h') {
            "1.1" => Self::Keep,
            "" | "0.9" | "1.0" => Self::Close,
            _ => Self::Multiplexed,
        }
    }
}

/// The facts about a source that are known after reading it.
pub(crate) struct Source {
    /// `combined log`, ….
    pub(crate) name: String,
    /// Further things that were inferred.
    pub(crate) inferred: Vec<Inferred>,
}

/// The trace so far.
pub(crate) struct Gathering {
    rules: Rules,
    classes: Classes,
    traps: Traps,
    order: Order,
    /// For stamps of whole seconds.
    spread: Option<Spread>,
    sessions: Sessions,
    keys: RandomState,
    /// The moment that stamps mean, if all lines agree.
    stamp: Option<Stamp>,
    names_connections: bool,
    tells_length: bool,
    tells_rate: bool,
    /// Requests that the filter left out.
    filtered: u64,
}

impl Gathering {
    pub(crate) fn new(rules: Rules, is_coarse: bool) -> Self {
        Self {
            classes: Classes::new(rules.paths, rules.max_size),
            traps: Traps::new(),
            order: Order::default(),
            spread: is_coarse.then(Spread::new),
            sessions: Sessions::new(rules.keep_alive, is_coarse),
            keys: RandomState::new(),
            stamp: None,
            names_connections: false,
            tells_length: false,
            tells_rate: false,
            filtered: 0,
            rules,
        }
    }

    /// How many requests there are.
    pub(crate) fn requests(&self) -> u64 {
        self.classes.requests
    }

    /// Adds a request.
    pub(crate) fn add(&mut self, request: &Request<'_>) {
        let Request { time, path, status, agent, .. } = *request;
        if !self.rules.filter.takes(time, path, status, agent) {
            self.filtered += 1;
            return;
        }
        let method = Method::named(request.method);
        let address = request.connection.is_none().then(|| self.key(request.address));
        self.traps.look(request.time, address, method == Method::Head, request.status);
        self.stamp = request.stamp.or(self.stamp);
        self.names_connections |= request.connection.is_some();
        self.tells_length |= request.took.is_some();
        let [_, reply] = request.sizes;
        let took = request.took.filter(|took| reply >= LARGE && *took >= SLOW);
        let rate = took.map(|took| (u128::from(reply) * 1_000_000 / u128::from(took)) as u64);
        self.tells_rate |= rate.is_some();
        let event = Event {
            time: request.time,
            took: request.took,
            client: self.key((request.address, request.agent)),
            connection: request.connection.map(|name| self.key(name)),
            nth: request.nth,
            parallel: match request.protocol {
                Protocol::Close => 0,
                Protocol::Keep => 6,
                Protocol::Multiplexed => 1,
            },
            class: self.class(method, request),
            rate,
        };
        // Whole seconds are spread first, and begins come from the spread stamps.
        let event = if self.spread.is_none() { self.begun(event) } else { event };
        if let Some(event) = self.order.add(event) {
            self.pass(event);
        }
    }

    fn class(&mut self, method: Method, request: &Request<'_>) -> u16 {
        let path = match self.rules.paths && !self.rules.keeps_secrets {
            true => masked(request.path),
            false => request.path.into(),
        };
        self.classes.of(method, &path, request.status, request.sizes)
    }

    /// The trace of all requests; `None` if there was none.
    pub(crate) fn finish(mut self, source: Source) -> Option<Trace> {
        while let Some(event) = self.order.next() {
            self.pass(event);
        }
        if let Some(mut spread) = self.spread.take() {
            let mut rest = Vec::new();
            spread.finish(|event| rest.push(event));
            self.spread = Some(spread);
            for event in rest {
                let event = self.begun(event);
                self.sessions.add(&event);
            }
        }
        let inferred = self.inferred(source.inferred);
        let mut warnings = self.warnings();
        let mut last = self.sessions.last;
        let mut opened = self.sessions.into_connections();
        let left = outliers::remove(&mut opened);
        if let Some(first) = left.first {
            last = opened.iter().map(outliers::end).max().unwrap_or(last);
            warnings.push(format!(
                "requests with stamps far from all others, such as {}, which are left out: {}",
                clock::date(first),
                left.requests
            ));
        }
        let head = Head {
            source: source.name,
            sizes: Sizes::Body,
            resolution: Duration::from_micros(self.traps.unit()),
            inferred,
            warnings,
            ..Head::default()
        };
        assemble(head, self.classes, opened, last)
    }

    /// A request that leaves the window.
    fn pass(&mut self, event: Event) {
        match self.spread.take() {
            None => self.sessions.add(&event),
            Some(mut spread) => {
                let mut ready = Vec::new();
                spread.add(event, |event| ready.push(event));
                self.spread = Some(spread);
                for event in ready {
                    let event = self.begun(event);
                    self.sessions.add(&event);
                }
            }
        }
    }

    /// A request with its begin as its time, from one with its stamp as its time.
    fn begun(&self, event: Event) -> Event {
        let took = i64::try_from(event.took.unwrap_or(0)).unwrap_or(i64::MAX);
        let time = match self.stamp() {
            Stamp::End => event.time.saturating_sub(took),
            Stamp::Start => event.time,
        };
        Event { time, ..event }
    }

    /// The moment that stamps mean: as the format or the user says, or else as their order
    /// suggests. Lines are written at the ends of requests, so stamps of ends are in order.
    fn stamp(&self) -> Stamp {
        let guess = if self.traps.disordered == 0 { Stamp::End } else { Stamp::Start };
        self.stamp.or(self.rules.stamp).unwrap_or(guess)
    }

    fn key(&self, of: impl Hash) -> u64 {
        self.keys.hash_one(of)
    }

    fn inferred(&self, mut inferred: Vec<Inferred>) -> Vec<Inferred> {
        let mut infer = |what: &str, value: String, why: &str| {
            inferred.push(Inferred { what: what.to_owned(), value, why: why.to_owned() });
        };
        let keep_alive = self.rules.keep_alive.as_secs_f64();
        if self.spread.is_some() {
            let value = "at random within the second, in the order of lines".to_owned();
            infer("times", value, "stamps are of one second");
        }
        if self.stamp.is_none() {
            let (stamp, why) = match (self.rules.stamp, self.traps.disordered) {
                (Some(_), _) => (self.stamp(), "--stamp says so"),
                (None, 0) => {
                    (Stamp::End, "lines are in the order of their stamps, as nginx has it")
                }
                (None, _) => (Stamp::Start, "lines are out of order, as Apache has it"),
            };
            let of =
                if stamp == Stamp::End { "the end of a request" } else { "the begin of a request" };
            infer("stamps", of.to_owned(), why);
        }
        if !self.names_connections {
            let value = match self.rules.keep_alive {
                Duration::ZERO => "one for each request".to_owned(),
                _ => format!(
                    "shared by requests of a client that are less than {keep_alive} s apart, at \
                     most 6 at a time; HTTP/1.0: one for each request"
                ),
            };
            infer("connections", value, "the log does not name them");
        }
        if !self.rules.keep_alive.is_zero() {
            let value = format!("{keep_alive} s after its last reply; HTTP/1.0: at once");
            infer("end of a connection", value, "the log does not tell it");
        }
        if !self.tells_length {
            let value = "with the time of the reply before".to_owned();
            infer("think times", value, "the log does not tell how long requests took");
        }
        let (value, why) = match self.tells_rate {
            true => (
                "from replies of 200 kB and more that took 50 ms and more",
                "other replies fit into buffers",
            ),
            false => ("unlimited", "no large reply with the time it took"),
        };
        infer("client speed", value.to_owned(), why);
        inferred
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = self.traps.warnings();
        if self.spread.is_none() && self.traps.unit() == 1_000_000 && self.requests() > 1 {
            warnings.push("all stamps are whole seconds: each second begins with a burst".into());
        }
        if self.order.late > 0 {
            warnings.push(format!(
                "lines so far out of order that their times were changed: {}",
                self.order.late
            ));
        }
        if self.filtered > 0 {
            warnings.push(format!("requests that the filter left out: {}", self.filtered));
        }
        warnings.extend(size_warnings(&self.classes, self.rules.max_size));
        warnings
    }
}

/// The sizes and paths that differ from the source.
pub(crate) fn size_warnings(classes: &Classes, max_size: u64) -> impl Iterator<Item = String> {
    let capped = (classes.capped > 0).then(|| {
        format!(
            "replies of more than {max_size} bytes, which count as so many (--max-size): {}",
            classes.capped
        )
    });
    let pathless = (classes.pathless > 0).then(|| {
        format!("requests without a path, since there are too many: {}", classes.pathless)
    });
    capped.into_iter().chain(pathless)
}

/// A trace of these connections, up to the time `last` in microseconds since 1970; `None` without a
/// request. The head has its source, what was inferred, and the warnings.
pub(crate) fn assemble(
    head: Head,
    classes: Classes,
    opened: Vec<Opened>,
    last: i64,
) -> Option<Trace> {
    let begin = opened.iter().map(|opened| opened.start).min()?;
    let requests: usize = opened.iter().map(|opened| opened.connection.steps.len()).sum();
    let since =
        |time: i64| Duration::from_micros(u64::try_from(time.saturating_sub(begin)).unwrap_or(0));
    let length = since(last);
    let head = Head {
        length,
        tick: tick(head.resolution, length.as_micros() as u64 / requests as u64),
        began: u64::try_from(begin / 1_000_000).ok(),
        classes: classes.into_list(),
        ..head
    };
    let connections = opened.into_iter().map(|Opened { start, mut connection }| {
        connection.start = since(start);
        connection
    });
    Some(Trace::new(head, connections.collect()))
}

/// The unit of a file's times: as fine as its source, or a tenth of the mean gap between requests
/// where these are spread. Finer units would only make the file larger.
fn tick(resolution: Duration, gap: u64) -> Duration {
    let coarsest = match resolution.as_micros() {
        1 => 100,
        1_000 => return resolution,
        _ => 1_000,
    };
    let fits = |tick: &u64| *tick <= coarsest && tick * 10 <= gap;
    Duration::from_micros([1_000, 100, 10].into_iter().find(fits).unwrap_or(1))
}
