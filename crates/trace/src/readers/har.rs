//! HAR 1.2: what a browser did, as its developer tools export it.
//!
//! The entries are read one after the other, and no body is kept. A page fetches from many hosts,
//! so only one counts: that of the first entry, unless the user names another.

use std::io::BufRead;

use serde::Deserialize;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use super::{Error, Input, Rejected, check_room, source};
use crate::clock;
use crate::gather::{Gathering, Name, Protocol, Request, Rules, Stamp};
use crate::trace::{Inferred, Trace};

/// Reads HARs into one trace.
pub(super) struct Reader {
    gathering: Gathering,
    /// Only requests to this host count.
    host: Option<String>,
    /// Whether the user named the host.
    is_named: bool,
    /// Requests to other hosts.
    others: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    started_date_time: String,
    /// Milliseconds.
    time: Option<f64>,
    connection: Option<String>,
    request: Asked,
    response: Replied,
    #[serde(default)]
    timings: Timings,
    #[serde(rename = "_fromCache")]
    from_cache: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    method: String,
    url: String,
    #[serde(default)]
    http_version: String,
    body_size: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Replied {
    status: u16,
    body_size: Option<i64>,
    #[serde(default)]
    content: Content,
}

#[derive(Default, Deserialize)]
struct Content {
    size: Option<i64>,
}

/// In milliseconds; -1 where nothing was done.
#[derive(Default, Deserialize)]
struct Timings {
    send: Option<f64>,
    wait: Option<f64>,
    receive: Option<f64>,
}

impl Reader {
    pub(super) fn new(rules: &Rules) -> Self {
        Self {
            gathering: Gathering::new(rules.clone(), false),
            host: rules.host.clone(),
            is_named: rules.host.is_some(),
            others: 0,
        }
    }

    pub(super) fn read(
        &mut self,
        mut input: Input,
        file: &str,
        rejected: &mut Rejected,
    ) -> Result<(), Error> {
        skip_mark(&mut input).map_err(|error| Error::misuse(file, error))?;
        let mut from = serde_json::Deserializer::from_reader(input);
        let mut full = None;
        let entries = Entries { reader: self, file, rejected, number: 0, full: &mut full };
        let read = Document(entries).deserialize(&mut from);
        match (full, read) {
            (Some(error), _) => Err(error),
            (None, Err(error)) => {
                let what = format!("no HAR, or not whole: {error}; export it again");
                Err(Error::failed(file, what))
            }
            (None, Ok(())) => Ok(()),
        }
    }

    pub(super) fn finish(self) -> Option<Trace> {
        let mut source = source("HAR");
        if !self.is_named {
            // Not its name: a trace has no addresses.
            source.inferred.push(Inferred {
                what: "host".to_owned(),
                value: format!("that of the first request; {} to others left out", self.others),
                why: "a page fetches from many (--host names another)".to_owned(),
            });
        }
        self.gathering.finish(source)
    }

    /// Takes an entry, or says why it is no request to the server.
    fn take(&mut self, entry: &Entry) -> Result<(), &'static str> {
        if entry.from_cache.is_some() {
            return Err("from the browser's cache");
        }
        if entry.response.status == 0 {
            return Err("without a reply");
        }
        let start = clock::rfc3339(&entry.started_date_time).ok_or("no time that it started")?;
        let (host, path) = host_and_path(&entry.request.url).ok_or("no URL of http")?;
        if self.host.get_or_insert_with(|| host.to_owned()) != host {
            self.others += 1;
            return Ok(());
        }
        let spent = |milliseconds: Option<f64>| {
            milliseconds.and_then(|time| clock::length(time / 1e3)).unwrap_or(0)
        };
        let Timings { send, wait, receive } = entry.timings;
        let took = spent(send) + spent(wait) + spent(receive);
        // The time before is the browser's queue, name resolution and the handshake.
        let waited = spent(entry.time).saturating_sub(took);
        let size = |bytes: Option<i64>| bytes.and_then(|bytes| u64::try_from(bytes).ok());
        let replied = &entry.response;
        let reply = size(replied.body_size).or(size(replied.content.size)).unwrap_or(0);
        self.gathering.add(&Request {
            time: start.saturating_add(i64::try_from(waited).unwrap_or(0)),
            stamp: Some(Stamp::Start),
            took: Some(took),
            address: b"",
            agent: b"",
            connection: entry.connection.as_deref().filter(|name| !name.is_empty()).map(Name::Text),
            nth: 0,
            method: &entry.request.method,
            path,
            protocol: Protocol::named(&entry.request.http_version),
            status: replied.status,
            sizes: [size(entry.request.body_size).unwrap_or(0), reply],
        });
        Ok(())
    }
}

/// Skips a byte order mark.
fn skip_mark(input: &mut Input) -> std::io::Result<()> {
    if input.fill_buf()?.starts_with(b"\xef\xbb\xbf") {
        input.consume(3);
    }
    Ok(())
}

/// The host with its port, and the path with its query, of a URL.
fn host_and_path(url: &str) -> Option<(&str, &str)> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"))?;
    let rest = rest.split('#').next().unwrap_or_default();
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    Some((host, if path.is_empty() { "/" } else { path }))
}

/// The whole of a HAR: an object with a `log`. The log is an object with `entries`, an array.
struct Document<'r>(Entries<'r>);

/// The `log`.
struct Log<'r>(Entries<'r>);

/// The entries, each taken as it comes.
struct Entries<'r> {
    reader: &'r mut Reader,
    file: &'r str,
    rejected: &'r mut Rejected,
    number: u64,
    /// Why reading ended, if it was not the file's fault.
    full: &'r mut Option<Error>,
}

impl<'de> DeserializeSeed<'de> for Document<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an object with a log")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        only(map, "log", Log(self.0))
    }
}

impl<'de> DeserializeSeed<'de> for Log<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Log<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a log with entries")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        only(map, "entries", self.0)
    }
}

impl<'de> DeserializeSeed<'de> for Entries<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Entries<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("entries")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        while let Some(entry) = entries.next_element::<Entry>()? {
            self.number += 1;
            if let Err(error) = check_room(&self.reader.gathering, self.file) {
                *self.full = Some(error);
                return Err(A::Error::custom("too many"));
            }
            if let Err(why) = self.reader.take(&entry) {
                self.rejected.add(self.file, format_args!("entry {}", self.number), why);
            }
        }
        Ok(())
    }
}

/// Gives the member of this name to `take`, and skips all others.
fn only<'de, A: MapAccess<'de>>(
    mut map: A,
    name: &str,
    take: impl DeserializeSeed<'de, Value = ()>,
) -> Result<(), A::Error> {
    let mut take = Some(take);
    while let Some(key) = map.next_key::<String>()? {
        match if key == name { take.take() } else { None } {
            Some(take) => map.next_value_seed(take)?,
            None => {
                map.next_value::<IgnoredAny>()?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_host_and_a_path() {
        assert_eq!(host_and_path("https://a.test/b?c#d"), Some(("a.test", "/b?c")));
        assert_eq!(host_and_path("http://a.test:8080"), Some(("a.test:8080", "/")));
        assert_eq!(host_and_path("http://a.test?b"), Some(("a.test", "?b")));
        assert_eq!(host_and_path("data:text/plain,x"), None);
    }
}
