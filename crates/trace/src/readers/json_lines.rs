//! Logs with an object of JSON for each request. nginx writes them in the format of
//! `docs/trace.md`, and so does Duality. Caddy has a format of its own.
//!
//! ```text
//! {"ts":1795593284.041,"rt":0.000,"conn":1,"n":1,"m":"GET","u":"/","s":200,"b":64,"p":"HTTP/1.1"}
//! {"ts":1795593284.04,"request":{"remote_ip":"192.0.2.7","remote_port":"4711","proto":"HTTP/1.1",
//!  "method":"GET","uri":"/"},"duration":0.0009,"size":10900,"status":200}       on one line
//! ```

use std::borrow::Cow;

use serde::Deserialize;

use super::lines::Format;
use crate::clock;
use crate::gather::{Gathering, Name, Protocol, Request, Stamp};

/// These formats.
pub(super) struct JsonLines {
    /// What the last line is of.
    name: &'static str,
}

/// A line, of any of these formats.
#[derive(Deserialize)]
struct Line<'l> {
    #[serde(borrow)]
    ts: Option<Time<'l>>,
    // A line of nginx or Duality.
    rt: Option<f64>,
    conn: Option<u64>,
    n: Option<u64>,
    #[serde(borrow)]
    m: Option<Cow<'l, str>>,
    #[serde(borrow)]
    u: Option<Cow<'l, str>>,
    s: Option<u16>,
    b: Option<u64>,
    #[serde(borrow)]
    p: Option<Cow<'l, str>>,
    // A line of Caddy.
    #[serde(borrow)]
    request: Option<Asked<'l>>,
    duration: Option<f64>,
    size: Option<u64>,
    status: Option<u16>,
    bytes_read: Option<u64>,
    // A line of Traefik.
    #[serde(borrow, rename = "StartUTC")]
    start: Option<Cow<'l, str>>,
    #[serde(rename = "Duration")]
    nanoseconds: Option<u64>,
    #[serde(borrow, rename = "ClientAddr")]
    client: Option<Cow<'l, str>>,
    #[serde(borrow, rename = "RequestMethod")]
    request_method: Option<Cow<'l, str>>,
    #[serde(borrow, rename = "RequestPath")]
    request_path: Option<Cow<'l, str>>,
    #[serde(borrow, rename = "RequestProtocol")]
    request_protocol: Option<Cow<'l, str>>,
    #[serde(rename = "DownstreamStatus")]
    downstream_status: Option<u16>,
    #[serde(rename = "DownstreamContentSize")]
    downstream_size: Option<u64>,
}

/// When a line was written.
#[derive(Deserialize)]
#[serde(untagged)]
enum Time<'l> {
    Number(f64),
    Text(#[serde(borrow)] Cow<'l, str>),
}

/// Caddy's `request`.
#[derive(Deserialize)]
struct Asked<'l> {
    #[serde(borrow)]
    remote_ip: Cow<'l, str>,
    #[serde(borrow)]
    remote_port: Cow<'l, str>,
    #[serde(borrow)]
    proto: Cow<'l, str>,
    #[serde(borrow)]
    method: Cow<'l, str>,
    #[serde(borrow)]
    uri: Cow<'l, str>,
}

impl JsonLines {
    pub(super) fn new() -> Self {
        Self { name: "JSON log" }
    }
}

impl Format for JsonLines {
    fn take(&mut self, line: &[u8], gathering: &mut Gathering) -> Result<(), &'static str> {
        let line: Line<'_> = serde_json::from_slice(line).map_err(|_| "no JSON with 'ts'")?;
        self.name = match (&line.request, &line.start) {
            (Some(_), _) => "Caddy's JSON log",
            (None, Some(_)) => "Traefik's JSON log",
            (None, None) => "nginx's JSON log",
        };
        gathering.add(&request(&line)?);
        Ok(())
    }

    fn name(&self) -> &'static str {
        self.name
    }
}

/// The request of a line, or what is missing.
fn request<'l>(line: &'l Line<'_>) -> Result<Request<'l>, &'static str> {
    if let Some(start) = &line.start {
        return of_traefik(line, start);
    }
    let time = match line.ts.as_ref().ok_or("no JSON with 'ts'")? {
        // Caddy's `wall_milli` counts milliseconds.
        Time::Number(number) if *number >= 1e11 => clock::seconds(number / 1e3),
        Time::Number(number) => clock::seconds(*number),
        Time::Text(text) => clock::rfc3339(text),
    };
    let time = time.ok_or("'ts' is no time")?;
    let common = Request {
        time,
        stamp: Some(Stamp::End),
        took: line.rt.or(line.duration).and_then(clock::length),
        address: b"",
        agent: b"",
        connection: None,
        nth: 0,
        method: "",
        path: "",
        protocol: Protocol::Keep,
        status: 0,
        sizes: [0, 0],
    };
    match &line.request {
        Some(asked) => Ok(Request {
            connection: Some(Name::Peer(&asked.remote_ip, &asked.remote_port)),
            method: &asked.method,
            path: &asked.uri,
            protocol: Protocol::named(&asked.proto),
            status: line.status.ok_or("no 'status'")?,
            sizes: [line.bytes_read.unwrap_or(0), line.size.ok_or("no 'size'")?],
            ..common
        }),
        None => Ok(Request {
            connection: line.conn.map(Name::Number),
            nth: line.n.unwrap_or(0),
            method: line.m.as_deref().ok_or("no 'm', the method")?,
            path: line.u.as_deref().unwrap_or_default(),
            protocol: Protocol::named(line.p.as_deref().unwrap_or("HTTP/1.1")),
            status: line.s.ok_or("no 's', the status")?,
            sizes: [0, line.b.ok_or("no 'b', the bytes of the body")?],
            ..common
        }),
    }
}

/// The request of a line of Traefik, which stamps the begin.
fn of_traefik<'l>(line: &'l Line<'_>, start: &str) -> Result<Request<'l>, &'static str> {
    let text = |value: &'l Option<Cow<'_, str>>| value.as_deref().unwrap_or_default();
    let client = text(&line.client);
    let peer = client.rsplit_once(':').map(|(address, port)| Name::Peer(address, port));
    Ok(Request {
        time: clock::rfc3339(start).ok_or("'StartUTC' is no time")?,
        stamp: Some(Stamp::Start),
        took: line.nanoseconds.map(|nanoseconds| nanoseconds / 1000),
        address: client.as_bytes(),
        agent: b"",
        connection: peer,
        nth: 0,
        method: line.request_method.as_deref().ok_or("no 'RequestMethod'")?,
        path: text(&line.request_path),
        protocol: Protocol::named(line.request_protocol.as_deref().unwrap_or("HTTP/1.1")),
        status: line.downstream_status.ok_or("no 'DownstreamStatus'")?,
        sizes: [0, line.downstream_size.unwrap_or(0)],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_nginx_is_a_request() {
        let text = r#"{"ts":1795593284.041,"rt":0.002,"conn":7,"n":2,"m":"GET","u":"/a\"b","s":200,"b":64,"p":"HTTP/1.1","rtt":"13"}"#;
        let line: Line<'_> = serde_json::from_str(text).unwrap();
        let request = request(&line).unwrap();
        assert_eq!((request.time, request.took), (1_795_593_284_041_000, Some(2_000)));
        assert_eq!((request.nth, request.path, request.sizes), (2, "/a\"b", [0, 64]));
        assert!(matches!(request.connection, Some(Name::Number(7))));
    }

    #[test]
    fn a_line_of_caddy_is_a_request() {
        let text = r#"{"level":"info","ts":1646861401.524102,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"127.0.0.1","remote_port":"41342","client_ip":"127.0.0.1","proto":"HTTP/2.0","method":"GET","host":"localhost","uri":"/","headers":{"User-Agent":["curl/7.82.0"]},"tls":{"resumed":false,"version":772}},"bytes_read":0,"user_id":"","duration":0.000929675,"size":10900,"status":200,"resp_headers":{"Server":["Caddy"]}}"#;
        let line: Line<'_> = serde_json::from_str(text).unwrap();
        let request = request(&line).unwrap();
        assert_eq!((request.time, request.took), (1_646_861_401_524_102, Some(930)));
        assert_eq!((request.path, request.status, request.sizes), ("/", 200, [0, 10_900]));
        assert!(matches!(request.connection, Some(Name::Peer("127.0.0.1", "41342"))));
        assert!(request.protocol == Protocol::Multiplexed);
    }

    #[test]
    fn a_line_of_traefik_is_a_request() {
        let text = r#"{"ClientAddr":"192.0.2.7:50000","ClientHost":"192.0.2.7","DownstreamContentSize":19,"DownstreamStatus":404,"Duration":84137,"RequestMethod":"GET","RequestPath":"/a","RequestProtocol":"HTTP/1.1","StartUTC":"2026-11-28T17:00:00.5Z","level":"info","msg":"","time":"2026-11-28T18:00:00+01:00"}"#;
        let line: Line<'_> = serde_json::from_str(text).unwrap();
        let request = request(&line).unwrap();
        assert_eq!((request.time, request.took), (1_795_885_200_500_000, Some(84)));
        assert_eq!((request.path, request.status, request.sizes), ("/a", 404, [0, 19]));
        assert!(matches!(request.connection, Some(Name::Peer("192.0.2.7", "50000"))));
    }

    #[test]
    fn a_time_is_a_number_or_a_text() {
        for time in ["1646861401.5", "1646861401500", r#""2022-03-09T21:30:01.5Z""#] {
            let text = format!(r#"{{"ts":{time},"m":"GET","s":200,"b":1}}"#);
            let line: Line<'_> = serde_json::from_str(&text).unwrap();
            assert_eq!(request(&line).unwrap().time, 1_646_861_401_500_000, "{time}");
        }
    }

    #[test]
    fn other_objects_say_what_is_missing() {
        for (text, what) in [
            (r#"{"ts":1}"#, "no 'm'"),
            ("{}", "no JSON with 'ts'"),
            (r#"{"StartUTC":"now"}"#, "'StartUTC'"),
            (r#"{"StartUTC":"2026-11-28T17:00:00Z"}"#, "no 'RequestMethod'"),
            (r#"{"ts":-1,"m":"GET","s":200,"b":1}"#, "'ts'"),
            (r#"{"ts":"now","m":"GET","s":200,"b":1}"#, "'ts'"),
            (r#"{"ts":1,"m":"GET","b":1}"#, "no 's'"),
            (r#"{"ts":1,"m":"GET","s":200}"#, "no 'b'"),
        ] {
            let line: Line<'_> = serde_json::from_str(text).unwrap();
            assert!(request(&line).err().unwrap().starts_with(what), "{text}");
        }
    }
}
