//! The extended log format of the W3C, which IIS and CloudFront write. A line names the fields:
//!
//! ```text
//! #Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip … time-taken
//! 2024-05-02 17:42:15 172.22.255.255 GET /images/picture.jpg - 80 - 172.22.255.255 … 200 0 0 46
//! ```
//!
//! CloudFront separates by tabs, and its `time-taken` is in seconds. IIS counts milliseconds.

use super::lines::Format;
use crate::clock;
use crate::gather::{Gathering, Protocol, Request, Stamp};

/// This format: the places of the fields in a line.
#[derive(Default)]
pub(super) struct W3c {
    names: Vec<String>,
    is_tabbed: bool,
}

impl W3c {
    /// The fields of `#Fields: …`, or `None` for any other comment.
    fn named(line: &[u8]) -> Option<Vec<String>> {
        let text = str::from_utf8(line).ok()?.strip_prefix("#Fields:")?;
        Some(text.split_ascii_whitespace().map(str::to_owned).collect())
    }

    /// The request of a line, or what is missing.
    fn parse<'l>(&self, line: &'l [u8]) -> Result<Request<'l>, &'static str> {
        let mark = if self.is_tabbed { b'\t' } else { b' ' };
        let values: Vec<&[u8]> = line.split(|byte| *byte == mark).collect();
        if self.names.is_empty() {
            return Err("no line with '#Fields:' before it");
        }
        if values.len() != self.names.len() {
            return Err("not as many values as '#Fields:' names");
        }
        let of = |name: &str| -> &'l [u8] {
            let place = self.names.iter().position(|known| known == name);
            place.map_or(&[], |place| values[place])
        };
        let text = |name: &str| str::from_utf8(of(name)).unwrap_or_default();
        let number = |name: &str| text(name).parse::<u64>().unwrap_or(0);
        let time = clock::date_and_time(of("date"), of("time")).ok_or("no 'date' and 'time'")?;
        let status: u16 = text("sc-status").parse().map_err(|_| "no 'sc-status'")?;
        let took = text("time-taken").parse::<f64>().ok();
        let took = took.map(|took| if self.is_tabbed { took } else { took / 1e3 });
        let version = [text("cs-protocol-version"), text("cs-version")];
        let version = version.into_iter().find(|version| !version.is_empty());
        Ok(Request {
            time,
            stamp: Some(Stamp::End),
            took: took.and_then(clock::length),
            address: of("c-ip"),
            agent: of("cs(User-Agent)"),
            connection: None,
            nth: 0,
            method: text("cs-method"),
            path: text("cs-uri-stem"),
            protocol: Protocol::named(version.unwrap_or("HTTP/1.1")),
            status,
            sizes: [number("cs-bytes"), number("sc-bytes")],
        })
    }
}

impl Format for W3c {
    fn take(&mut self, line: &[u8], gathering: &mut Gathering) -> Result<(), &'static str> {
        if line.starts_with(b"#") {
            if let Some(names) = Self::named(line) {
                // The first line of values shows the mark between them.
                *self = Self { names, is_tabbed: false };
            }
            return Ok(());
        }
        self.is_tabbed = line.contains(&b'\t');
        gathering.add(&self.parse(line)?);
        Ok(())
    }

    fn name(&self) -> &'static str {
        if self.is_tabbed { "log of CloudFront" } else { "log of IIS" }
    }
}

/// Whether a log begins so.
pub(super) fn begins(start: &[u8]) -> bool {
    let mut lines = start.split(|byte| *byte == b'\n').take(8);
    let is_comment = |line: &&[u8]| line.starts_with(b"#Fields:") || line.starts_with(b"#Version:");
    lines.any(|line| is_comment(&line.trim_ascii_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_their_fields_say() {
        let iis = W3c {
            names: W3c::named(b"#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(Referer) sc-status sc-substatus sc-win32-status time-taken").unwrap(),
            is_tabbed: false,
        };
        let line =
            b"2024-05-02 17:42:15 ::1 POST /a.aspx b=1 80 - 192.0.2.7 Mozilla/5.0 - 302 0 0 46";
        let request = iis.parse(line).unwrap();
        assert_eq!((request.time, request.took), (1_714_671_735_000_000, Some(46_000)));
        assert_eq!((request.method, request.path, request.status), ("POST", "/a.aspx", 302));
        assert_eq!((request.address, request.agent), (&b"192.0.2.7"[..], &b"Mozilla/5.0"[..]));
        assert!(iis.parse(b"2024-05-02 17:42:15").is_err());

        let names = b"#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status time-taken cs-protocol-version";
        let cloudfront = W3c { names: W3c::named(names).unwrap(), is_tabbed: true };
        let line = b"2019-12-04\t21:02:31\tLAX1\t392\t192.0.2.100\tGET\td1.cloudfront.net\t/index.html\t200\t0.001\tHTTP/2.0";
        let request = cloudfront.parse(line).unwrap();
        assert_eq!((request.took, request.sizes), (Some(1_000), [0, 392]));
        assert!(request.protocol == Protocol::Multiplexed);
        assert!(W3c::default().parse(line).is_err());
        assert!(begins(b"#Software: Microsoft\r\n#Version: 1.0\r\n") && !begins(b"127.0.0.1 - -"));
    }
}
