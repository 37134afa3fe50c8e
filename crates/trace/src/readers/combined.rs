//! The common and the combined log format, which Apache and nginx write by default:
//!
//! ```text
//! 192.0.2.7 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 2326 "referrer" "agent"
//! address   identity, user  stamp              request          status bytes  └ combined ┘
//! ```
//!
//! A name of a virtual host may come first, as in Apache's `vhost_combined`. A last field of
//! seconds with a point is nginx's `$request_time`, and one like `12ms` is Traefik's.

use std::net::IpAddr;

use super::lines::Format;
use crate::clock;
use crate::gather::{Gathering, Protocol, Request, Stamp};

/// This format.
#[derive(Default)]
pub(super) struct Combined {
    /// The stamp of the line before, and its time: many lines have the same stamp.
    last: (Vec<u8>, Option<i64>),
    is_combined: bool,
}

impl Format for Combined {
    fn take(&mut self, line: &[u8], gathering: &mut Gathering) -> Result<(), &'static str> {
        let request = parse(line, &mut self.last)?;
        self.is_combined |= !request.agent.is_empty();
        gathering.add(&request);
        Ok(())
    }

    fn name(&self) -> &'static str {
        if self.is_combined { "combined log" } else { "common log" }
    }
}

/// The request of a line, or what is missing.
fn parse<'l>(
    line: &'l [u8],
    last: &mut (Vec<u8>, Option<i64>),
) -> Result<Request<'l>, &'static str> {
    let (before, rest) = split(line, b" [").ok_or("no time in brackets")?;
    let (stamp, rest) = split(rest, b"] ").ok_or("no end of the time in brackets")?;
    if last.0 != stamp {
        *last = (stamp.to_owned(), clock::common_log(stamp));
    }
    let time = last.1.ok_or("a time that is not like 17/May/2015:10:05:03 +0000")?;
    let rest = rest.strip_prefix(b"\"").ok_or("no request in quotes")?;
    let (request, status, rest) = quoted(rest).ok_or("no status after a request in quotes")?;
    let (bytes, rest) = word(rest);
    let reply = match bytes {
        b"-" => 0,
        bytes => number(bytes).ok_or("a size that is no number")?,
    };
    let mut words = request.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let [method, path] = [words.next(), words.next()].map(|word| text(word.unwrap_or_default()));
    let version = words.next_back().map(text).unwrap_or_default();
    let (agent, took) = agent(rest);
    Ok(Request {
        time,
        stamp: took.map(|(_, stamp)| stamp),
        took: took.map(|(took, _)| took),
        address: address(before),
        agent,
        connection: None,
        nth: 0,
        method,
        path,
        protocol: Protocol::named(version),
        status,
        sizes: [0, reply],
    })
}

/// The address of a client, from the text before the time.
fn address(before: &[u8]) -> &[u8] {
    let (first, rest) = word(before);
    let (second, _) = word(rest);
    let is_address = |word: &[u8]| text(word).parse::<IpAddr>().is_ok();
    if !is_address(first) && is_address(second) { second } else { first }
}

/// The request, its status, and the rest, from the text after the opening quote. A request may have
/// quotes in it: some servers write them as they came.
fn quoted(text: &[u8]) -> Option<(&[u8], u16, &[u8])> {
    let mut from = 0;
    loop {
        let end = from + memchr::memchr(b'"', &text[from..])?;
        let (status, rest) = word(text[end + 1..].strip_prefix(b" ").unwrap_or_default());
        if let (3, Some(status)) = (status.len(), number(status)) {
            return Some((&text[..end], status as u16, rest));
        }
        from = end + 1;
    }
}

/// The agent of a combined line, and the time that a last field tells in microseconds. `rest` is
/// the text after the size. nginx's time has a point and stamps the end. Traefik's is `12ms`, and
/// stamps the begin.
fn agent(rest: &[u8]) -> (&[u8], Option<(u64, Stamp)>) {
    let mut quotes = rest.split(|byte| *byte == b'"');
    let agent = quotes.nth(3).unwrap_or_default();
    let last = rest.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    let last = text(last).trim_matches('"');
    if let Some(took) = last.strip_suffix("ms").and_then(|took| number(took.as_bytes())) {
        return (agent, Some((took.saturating_mul(1000), Stamp::Start)));
    }
    let is_decimal = last.contains('.') && last.bytes().all(|byte| b"0123456789.".contains(&byte));
    let took = if is_decimal { last.parse().ok().and_then(clock::length) } else { None };
    (agent, took.map(|took| (took, Stamp::End)))
}

/// The text before a mark, and the text after it.
fn split<'l>(line: &'l [u8], mark: &[u8]) -> Option<(&'l [u8], &'l [u8])> {
    let (&first, rest) = mark.split_first()?;
    let mut from = 0;
    loop {
        let at = from + memchr::memchr(first, &line[from..])?;
        if line[at + 1..].starts_with(rest) {
            return Some((&line[..at], &line[at + mark.len()..]));
        }
        from = at + 1;
    }
}

/// The first word, and the text after its space.
fn word(line: &[u8]) -> (&[u8], &[u8]) {
    split(line, b" ").unwrap_or((line, &[]))
}

/// A number of digits alone.
fn number(digits: &[u8]) -> Option<u64> {
    let is_number = digits.iter().all(u8::is_ascii_digit);
    if is_number { text(digits).parse().ok() } else { None }
}

/// Empty if the bytes are no text: nothing that counts here is lost.
fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Request<'_>, &'static str> {
        parse(line.as_bytes(), &mut (Vec::new(), None))
    }

    #[test]
    fn lines_of_both_formats_are_requests() {
        let common = r#"c1 - - [01/Aug/1995:15:00:01 +0000] "GET /a.gif HTTP/1.0" 200 4179"#;
        let request = parsed(common).unwrap();
        assert_eq!((request.time, request.address), (807_289_201_000_000, &b"c1"[..]));
        assert_eq!((request.method, request.path), ("GET", "/a.gif"));
        assert_eq!((request.status, request.sizes), (200, [0, 4179]));
        assert!(request.protocol == Protocol::Close && request.agent.is_empty());

        let combined = r#"192.0.2.1 - a user [17/May/2015:10:05:03 +0000] "POST /b?c=1 HTTP/1.1" 304 - "-" "agent 1""#;
        let request = parsed(combined).unwrap();
        assert_eq!((request.method, request.path, request.sizes), ("POST", "/b?c=1", [0, 0]));
        assert_eq!((request.address, request.agent), (&b"192.0.2.1"[..], &b"agent 1"[..]));
        assert!(request.protocol == Protocol::Keep && request.took.is_none());

        let timed = format!("{combined} 0.250");
        assert_eq!(parsed(&timed).unwrap().took, Some(250_000));
        let traefik = format!("{combined} 7 \"web@docker\" \"http://10.0.0.2:80\" 12ms");
        let request = parsed(&traefik).unwrap();
        assert_eq!((request.took, request.stamp), (Some(12_000), Some(Stamp::Start)));
        let hosted = format!("example.org:80 {combined}");
        assert_eq!(parsed(&hosted).unwrap().address, b"192.0.2.1");
    }

    #[test]
    fn quotes_in_a_request_and_requests_that_are_none_are_read() {
        let request = |request: &str| {
            let line = format!(r#"::1 - - [01/Aug/1995:15:00:01 +0000] "{request}" 400 10"#);
            parsed(&line).map(|request| (request.method.to_owned(), request.path.to_owned()))
        };
        let both = |method: &str, path: &str| Ok((method.to_owned(), path.to_owned()));
        assert_eq!(request(r#"GET /"a" HTTP/1.0"#), both("GET", "/\"a\""));
        assert_eq!(request(r#"GET /a" 20 HTTP/1.0"#), both("GET", "/a\""));
        assert_eq!(request("-"), both("-", ""));
        assert_eq!(request(""), both("", ""));
        assert_eq!(request("GET /"), both("GET", "/"));
    }

    #[test]
    fn other_lines_say_what_is_missing() {
        let stamp = "[01/Aug/1995:15:00:01 +0000]";
        for (line, what) in [
            (String::new(), "no time in brackets"),
            ("a - - [".to_owned(), "no end of the time in brackets"),
            ("a - - [yesterday] \"".to_owned(), "a time that is not like"),
            (format!("a - - {stamp} GET"), "no request in quotes"),
            (format!("a - - {stamp} \"GET / HTTP/1.0"), "no status"),
            (format!("a - - {stamp} \"GET / HTTP/1.0\" 20 5"), "no status"),
            (format!("a - - {stamp} \"GET / HTTP/1.0\" 200 many"), "a size"),
        ] {
            assert!(parsed(&line).err().unwrap().starts_with(what), "{line}");
        }
    }
}
