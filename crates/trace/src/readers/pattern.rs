//! Logs with a format for their lines. A user gives it (`--format '$remote_addr … $status'`), or it
//! is one of the known formats of load balancers.
//!
//! ```text
//! $remote_addr:$remote_port [$time_local] "$request" $status $bytes_sent
//! └ a field, up to the text that follows it in the format
//! ```
//!
//! The names are those of nginx's variables; `$_` and unknown names are read over. A line may go on
//! after the end of the format.

use super::lines::Format;
use crate::clock;
use crate::gather::{Gathering, Name, Protocol, Request, Stamp};
use crate::mistake::Mistake;

/// Application Load Balancer of AWS. The stamp is of the end, and the three times add up.
const ALB: &str = "$_ $time_iso8601 $_ $remote_addr:$remote_port $_ $request_time $request_time \
                   $request_time $status $_ $request_length $bytes_sent \"$request\" \
                   \"$http_user_agent\"";
/// HAProxy's `option httplog`, behind what syslog writes before it.
const HAPROXY: &str = "$_]: $remote_addr:$remote_port [$time_accept] $_ $_ $timers $status \
                       $bytes_sent $_ \"$request\"";
/// The same without syslog.
const HAPROXY_ALONE: &str = "$remote_addr:$remote_port [$time_accept] $_ $_ $timers $status \
                             $bytes_sent $_ \"$request\"";

/// A format, as its fields with the text behind each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    begin: Vec<u8>,
    fields: Vec<(Field, Vec<u8>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Ignored,
    /// `17/May/2015:10:05:03 +0000`.
    CommonTime,
    /// The same, of the begin of a request.
    AcceptTime,
    IsoTime,
    /// Seconds since 1970.
    Seconds,
    Address,
    Port,
    Request,
    Method,
    Path,
    Protocol,
    Status,
    ReplyBytes,
    RequestBytes,
    /// Seconds; several fields add up.
    Took,
    /// Milliseconds.
    TookMilliseconds,
    /// HAProxy's `TR/Tw/Tc/Tr/Ta`: the last one is the whole time in milliseconds.
    Timers,
    Agent,
    Connection,
    Nth,
}

impl Field {
    fn named(name: &str) -> Self {
        match name {
            "time_local" => Self::CommonTime,
            "time_accept" => Self::AcceptTime,
            "time_iso8601" => Self::IsoTime,
            "msec" => Self::Seconds,
            "remote_addr" => Self::Address,
            "remote_port" => Self::Port,
            "request" => Self::Request,
            "request_method" => Self::Method,
            "request_uri" | "uri" => Self::Path,
            "server_protocol" => Self::Protocol,
            "status" => Self::Status,
            "body_bytes_sent" | "bytes_sent" => Self::ReplyBytes,
            "request_length" => Self::RequestBytes,
            "request_time" => Self::Took,
            "request_time_ms" => Self::TookMilliseconds,
            "timers" => Self::Timers,
            "http_user_agent" => Self::Agent,
            "connection" => Self::Connection,
            "connection_requests" => Self::Nth,
            _ => Self::Ignored,
        }
    }

    fn is_time(self) -> bool {
        matches!(self, Self::CommonTime | Self::AcceptTime | Self::IsoTime | Self::Seconds)
    }
}

impl std::str::FromStr for Pattern {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        let mut parts = text.split('$');
        let begin = parts.next().unwrap_or_default().as_bytes().to_vec();
        let field = |part: &str| {
            let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let end = part.find(|letter| !is_of_name(letter)).unwrap_or(part.len());
            (Field::named(&part[..end]), part.as_bytes()[end..].to_vec())
        };
        let fields: Vec<(Field, Vec<u8>)> = parts.map(field).collect();
        let has = |is_it: &dyn Fn(Field) -> bool| fields.iter().any(|(field, _)| is_it(*field));
        if !has(&Field::is_time) {
            return Err("a format needs a time: $time_local, $time_iso8601 or $msec".into());
        }
        if !has(&|field| matches!(field, Field::Request | Field::Path | Field::Method)) {
            return Err("a format needs $request, or $request_method and $request_uri".into());
        }
        let last = fields.len() - 1;
        let has_mark = |(at, (_, mark)): (usize, &(Field, Vec<u8>))| at == last || !mark.is_empty();
        if !fields.iter().enumerate().all(has_mark) {
            return Err("two fields of a format need a text between them".into());
        }
        Ok(Self { begin, fields })
    }
}

impl Pattern {
    fn known(text: &str) -> Self {
        text.parse().expect("the known formats are right")
    }

    /// The request of a line, or what is missing.
    fn parse<'l>(&self, line: &'l [u8]) -> Result<Request<'l>, &'static str> {
        let mut rest = line.strip_prefix(&*self.begin).ok_or("it does not begin as the format")?;
        let mut found = Found::default();
        for (field, mark) in &self.fields {
            let end = match mark.as_slice() {
                [] => rest.len(),
                mark => find(rest, mark).ok_or("a field of the format has no end")?,
            };
            found.take(*field, &rest[..end])?;
            rest = rest.get(end + mark.len()..).unwrap_or_default();
        }
        found.request()
    }
}

/// The fields of a line.
#[derive(Default)]
struct Found<'l> {
    time: Option<i64>,
    is_begin: bool,
    took: Option<u64>,
    address: &'l str,
    port: Option<&'l str>,
    request: Option<&'l str>,
    method: &'l str,
    path: &'l str,
    protocol: Option<&'l str>,
    status: u16,
    sizes: [u64; 2],
    agent: &'l str,
    connection: Option<u64>,
    nth: u64,
}

impl<'l> Found<'l> {
    fn take(&mut self, field: Field, value: &'l [u8]) -> Result<(), &'static str> {
        let text = str::from_utf8(value).unwrap_or_default();
        let number = || text.parse::<u64>().unwrap_or(0);
        match field {
            Field::Ignored => {}
            Field::CommonTime | Field::AcceptTime => {
                self.time = Some(clock::common_log(value).ok_or("a time that is none")?);
                self.is_begin = field == Field::AcceptTime;
            }
            Field::IsoTime => self.time = Some(clock::rfc3339(text).ok_or("a time that is none")?),
            Field::Seconds => {
                let seconds = text.parse().ok().and_then(clock::seconds);
                self.time = Some(seconds.ok_or("a time that is none")?);
            }
            Field::Address => self.address = text,
            Field::Port => self.port = Some(text),
            Field::Request => self.request = Some(text),
            Field::Method => self.method = text,
            Field::Path => self.path = text,
            Field::Protocol => self.protocol = Some(text),
            Field::Status => self.status = text.parse().unwrap_or(0),
            Field::ReplyBytes => self.sizes[1] = number(),
            Field::RequestBytes => self.sizes[0] = number(),
            // A balancer writes -1 for a time that there was not.
            Field::Took => self.add(text.parse().ok().and_then(clock::length)),
            Field::TookMilliseconds => self.add(Some(number().saturating_mul(1000))),
            Field::Timers => {
                let whole = text.rsplit('/').next().map(|whole| whole.trim_start_matches('+'));
                let whole = whole.and_then(|whole| whole.parse::<u64>().ok());
                self.add(whole.map(|whole| whole.saturating_mul(1000)));
            }
            Field::Agent => self.agent = text,
            Field::Connection => self.connection = text.parse().ok(),
            Field::Nth => self.nth = number(),
        }
        Ok(())
    }

    fn add(&mut self, took: Option<u64>) {
        let sum = took.map(|took| self.took.unwrap_or(0).saturating_add(took));
        self.took = sum.or(self.took);
    }

    fn request(self) -> Result<Request<'l>, &'static str> {
        let Self { time, took, address, port, request, .. } = self;
        let mut words = request.unwrap_or_default().split(' ').filter(|word| !word.is_empty());
        let method = words.next().unwrap_or(self.method);
        let path = words.next().unwrap_or(self.path);
        let protocol = self.protocol.or(words.next_back()).unwrap_or("HTTP/1.1");
        if self.status == 0 {
            return Err("no status");
        }
        // A balancer's port is that of a connection. Without one, clients are told by addresses.
        let of_port = port.map(|port| Name::Peer(address, port));
        Ok(Request {
            time: time.ok_or("no time")?,
            stamp: took.map(|_| if self.is_begin { Stamp::Start } else { Stamp::End }),
            took,
            address: address.as_bytes(),
            agent: self.agent.as_bytes(),
            connection: self.connection.map(Name::Number).or(of_port),
            nth: self.nth,
            method,
            path: without_host(path),
            protocol: Protocol::named(protocol),
            status: self.status,
            sizes: self.sizes,
        })
    }
}

/// The path of a target that may be a whole URL, as a balancer writes it.
pub(super) fn without_host(target: &str) -> &str {
    match target.split_once("://") {
        Some((scheme, rest)) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
            rest.find('/').map_or("/", |at| &rest[at..])
        }
        _ => target,
    }
}

/// The place of a mark.
fn find(text: &[u8], mark: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, mark)
}

/// One format of lines, which may have several forms.
pub(super) struct Patterns {
    name: &'static str,
    first: Pattern,
    others: Vec<Pattern>,
}

impl Patterns {
    /// A format that the user gives.
    pub(super) fn given(pattern: Pattern) -> Self {
        Self { name: "log of the given format", first: pattern, others: Vec::new() }
    }

    pub(super) fn alb() -> Self {
        let name = "log of a load balancer of AWS";
        Self { name, first: Pattern::known(ALB), others: Vec::new() }
    }

    pub(super) fn haproxy() -> Self {
        let others = vec![Pattern::known(HAPROXY_ALONE)];
        Self { name: "HAProxy's log", first: Pattern::known(HAPROXY), others }
    }

    /// Whether stamps are of whole seconds.
    pub(super) fn is_coarse(&self) -> bool {
        self.first.fields.iter().any(|(field, _)| *field == Field::CommonTime)
    }
}

impl Format for Patterns {
    fn take(&mut self, line: &[u8], gathering: &mut Gathering) -> Result<(), &'static str> {
        let Self { first, others, .. } = self;
        let parsed = others
            .iter()
            .fold(first.parse(line), |parsed, other| parsed.or_else(|_| other.parse(line)));
        gathering.add(&parsed?);
        Ok(())
    }

    fn name(&self) -> &'static str {
        self.name
    }
}

/// Whether a log that begins so is one of a load balancer of AWS: `https 2018-07-02T22:23:00.1Z`.
pub(super) fn begins_as_alb(start: &[u8]) -> bool {
    let mut words = start.split(|byte| *byte == b' ');
    let kind = words.next().unwrap_or_default();
    let stamp = words.next().and_then(|word| str::from_utf8(word).ok()).unwrap_or_default();
    [&b"http"[..], b"https", b"h2", b"grpcs", b"ws", b"wss"].contains(&kind)
        && clock::rfc3339(stamp).is_some()
}

/// Whether a log that begins so is HAProxy's.
pub(super) fn begins_as_haproxy(start: &[u8]) -> bool {
    let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
    [HAPROXY, HAPROXY_ALONE].iter().any(|text| Pattern::known(text).parse(line).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALB_LINE: &str = r#"https 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.168.131.39:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 "GET https://www.example.com:443/a?b=1 HTTP/1.1" "curl/7.46.0" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2"#;
    const HAPROXY_LINE: &str = r#"Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html HTTP/1.1""#;

    #[test]
    fn lines_of_balancers_are_requests() {
        let request = Pattern::known(ALB).parse(ALB_LINE.as_bytes()).unwrap();
        assert_eq!((request.time, request.took), (1_530_570_180_186_641, Some(171_000)));
        assert_eq!((request.method, request.path), ("GET", "/a?b=1"));
        assert_eq!((request.status, request.sizes), (200, [0, 57]));
        assert!(matches!(request.connection, Some(Name::Peer("192.168.131.39", "2817"))));
        assert!(begins_as_alb(ALB_LINE.as_bytes()) && !begins_as_alb(HAPROXY_LINE.as_bytes()));

        let alone = HAPROXY_LINE.split_once("]: ").unwrap().1;
        for (pattern, line) in [(HAPROXY, HAPROXY_LINE), (HAPROXY_ALONE, alone)] {
            let request = Pattern::known(pattern).parse(line.as_bytes()).unwrap();
            assert_eq!((request.time, request.took), (1_233_922_454_655_000, Some(109_000)));
            assert_eq!((request.stamp, request.sizes), (Some(Stamp::Start), [0, 2750]));
            assert!(begins_as_haproxy(line.as_bytes()));
        }
        assert!(!begins_as_haproxy(ALB_LINE.as_bytes()));
    }

    #[test]
    fn a_format_of_a_users_own_is_read() {
        let format = r#"$remote_addr|$msec|$request_method $request_uri|$status|$body_bytes_sent|$upstream_addr|$request_time"#;
        let pattern: Pattern = format.parse().unwrap();
        let line = "192.0.2.7|1795593284.041|GET /a?b|304|17|10.0.0.1:80|0.25";
        let request = pattern.parse(line.as_bytes()).unwrap();
        assert_eq!((request.time, request.took), (1_795_593_284_041_000, Some(250_000)));
        assert_eq!((request.path, request.status, request.sizes), ("/a?b", 304, [0, 17]));
        assert!(pattern.parse(b"192.0.2.7|x|GET /|200|1|a|0").is_err());
        for (format, message) in [
            ("$request $status", "a time"),
            ("$msec $status", "$request"),
            ("$msec$request", "between"),
            ("", "a time"),
        ] {
            assert!(
                format.parse::<Pattern>().unwrap_err().to_string().contains(message),
                "{format}"
            );
        }
    }
}
