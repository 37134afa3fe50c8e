//! Readers, which make a trace from logs and captures.
//!
//! A reader gives each request that it finds to the gathering, and counts each line that is no
//! request. The format is found by the first bytes of a file. A file may be compressed by gzip.

mod combined;
mod har;
mod json_lines;
mod lines;
mod pattern;
mod pcap;
mod w3c;

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use crate::file::GZIP;
use crate::gather::{Gathering, MOST, Source};
use crate::trace::Trace;

pub use crate::filter::{self, Filter, Glob, StatusSet};
pub use crate::gather::{Rules, Stamp};
pub use pattern::Pattern;

/// The number of bytes in which the format is found.
const START: u64 = 1 << 16;
/// The number of bad lines that are shown.
const SHOWN: usize = 3;

/// The format of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The common and the combined log format of Apache, nginx and Traefik.
    Combined,
    /// The log of an Application Load Balancer of AWS.
    Alb,
    /// HAProxy's `option httplog`.
    Haproxy,
    /// The extended format of the W3C, as IIS and CloudFront write it.
    W3c,
    /// The format of [`Rules::pattern`].
    Pattern,
    /// A line of JSON for each request: that of nginx in the format of `docs/trace.md`, Duality's
    /// own access log, Caddy's, and Traefik's.
    Json,
    /// HAR 1.2, as browsers export it.
    Har,
    /// A capture of packets: pcap or pcapng.
    Pcap,
}

impl Format {
    /// All formats that have a name.
    pub const ALL: [Self; 7] =
        [Self::Combined, Self::Alb, Self::Haproxy, Self::W3c, Self::Json, Self::Har, Self::Pcap];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Combined => "combined",
            Self::Alb => "alb",
            Self::Haproxy => "haproxy",
            Self::W3c => "w3c",
            Self::Pattern => "the given format",
            Self::Json => "json",
            Self::Har => "har",
            Self::Pcap => "pcap",
        }
    }

    /// The format of a file that begins with these bytes.
    fn of(start: &[u8]) -> Self {
        if pcap::begins(start) {
            return Self::Pcap;
        }
        // A byte order mark comes before some HARs.
        let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start).trim_ascii_start();
        match text.strip_prefix(b"{") {
            Some(rest) if rest.trim_ascii_start().starts_with(b"\"log\"") => Self::Har,
            Some(_) => Self::Json,
            None if w3c::begins(text) => Self::W3c,
            None if pattern::begins_as_alb(text) => Self::Alb,
            None if pattern::begins_as_haproxy(text) => Self::Haproxy,
            None => Self::Combined,
        }
    }
}

/// A trace from logs, and what was left out.
#[derive(Debug)]
pub struct Made {
    /// The trace.
    pub trace: Trace,
    /// The format of the logs.
    pub format: Format,
    /// The parts that were no record.
    pub rejected: Rejected,
}

/// Lines, packets or entries that are no request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rejected {
    /// How many.
    pub count: u64,
    /// The first few, each with its file, its number and why: `access.log: line 7: no time`.
    pub first: Vec<String>,
}

impl Rejected {
    /// Counts a bad record of this file, with its place and the reason.
    fn add(&mut self, file: &str, place: std::fmt::Arguments<'_>, why: &str) {
        self.count += 1;
        if self.first.len() < SHOWN {
            self.first.push(format!("{file}: {place}: {why}"));
        }
    }
}

/// The reason why there is no trace: one line, with the file and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {what}")]
pub struct Error {
    file: String,
    what: String,
    /// Whether the caller named the wrong files. Otherwise a file is not as it should be.
    pub is_misuse: bool,
}

impl Error {
    fn misuse(file: &str, what: impl Display) -> Self {
        Self { file: file.to_owned(), what: what.to_string(), is_misuse: true }
    }

    fn failed(file: &str, what: impl Display) -> Self {
        Self { file: file.to_owned(), what: what.to_string(), is_misuse: false }
    }
}

/// Makes a trace from logs, all of one format: this one, or the one that the first bytes of each
/// file show. `-` is standard input.
pub fn make(paths: &[PathBuf], format: Option<Format>, rules: &Rules) -> Result<Made, Error> {
    let mut making: Option<Making> = None;
    for path in in_order(paths, format, rules) {
        let file = path.display().to_string();
        let unreadable = |error: io::Error| Error::misuse(&file, error);
        let input: Box<dyn Read + Send> = match &*file {
            "-" => Box::new(io::stdin()),
            _ => Box::new(File::open(path).map_err(unreadable)?),
        };
        read_one(input, &file, format, rules, &mut making)?;
    }
    let all = || paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    making.ok_or_else(|| Error::failed(&all(), "it is empty"))?.finish()
}

/// Makes a trace from the bytes of one log. Errors call the log `name`.
pub fn make_of(
    input: impl Read + Send + 'static,
    name: &str,
    format: Option<Format>,
    rules: &Rules,
) -> Result<Made, Error> {
    let mut making = None;
    read_one(Box::new(input), name, format, rules, &mut making)?;
    making.ok_or_else(|| Error::failed(name, "it is empty"))?.finish()
}

/// A log that is being read.
type Input = BufReader<Box<dyn Read + Send>>;

/// The trace so far, and its reader.
struct Making {
    format: Format,
    reader: Reader,
    rejected: Rejected,
    /// The files so far, for an error.
    files: Vec<String>,
}

enum Reader {
    Lines(lines::Reader),
    Har(har::Reader),
    Pcap(Box<pcap::Reader>),
}

impl Making {
    fn new(format: Format, rules: &Rules) -> Self {
        let of_lines = |format: Box<dyn lines::Format>, is_coarse: bool| {
            Reader::Lines(lines::Reader::new(rules, format, is_coarse))
        };
        let reader = match format {
            Format::Combined => of_lines(Box::<combined::Combined>::default(), true),
            Format::Alb => of_lines(Box::new(pattern::Patterns::alb()), false),
            Format::Haproxy => of_lines(Box::new(pattern::Patterns::haproxy()), false),
            Format::Pattern => {
                let pattern = rules.pattern.as_deref().unwrap_or_default();
                let given =
                    pattern::Patterns::given(pattern.parse().expect("the format was checked"));
                let is_coarse = given.is_coarse();
                of_lines(Box::new(given), is_coarse)
            }
            Format::W3c => of_lines(Box::<w3c::W3c>::default(), true),
            Format::Json => of_lines(Box::new(json_lines::JsonLines::new()), false),
            Format::Har => Reader::Har(har::Reader::new(rules)),
            Format::Pcap => Reader::Pcap(Box::new(pcap::Reader::new(rules))),
        };
        Self { format, reader, rejected: Rejected::default(), files: Vec::new() }
    }

    fn read(&mut self, input: Input, file: &str) -> Result<(), Error> {
        self.files.push(file.to_owned());
        let rejected = &mut self.rejected;
        match &mut self.reader {
            Reader::Lines(reader) => reader.read(input, file, rejected),
            Reader::Har(reader) => reader.read(input, file, rejected),
            Reader::Pcap(reader) => reader.read(input, file, rejected),
        }
    }

    fn finish(self) -> Result<Made, Error> {
        let Self { format, reader, rejected, files } = self;
        let trace = match reader {
            Reader::Lines(reader) => reader.finish(),
            Reader::Har(reader) => reader.finish(),
            Reader::Pcap(reader) => reader.finish(),
        };
        let Some(mut trace) = trace else {
            let first = rejected.first.into_iter().next();
            let first = first.unwrap_or_else(|| format!("{}: it is empty", files.join(", ")));
            let (file, why) = first.split_once(": ").unwrap_or(("", &first));
            let remedy = "--format names another";
            let format = format.name();
            let what = format!("{why}; no request was found (read as {format}; {remedy})");
            return Err(Error::failed(file, what));
        };
        if rejected.count > 0 {
            let unit = match format {
                Format::Pcap => "packets",
                Format::Har => "entries",
                _ => "lines",
            };
            let requests = trace.requests();
            trace.head.warnings.push(format!(
                "{unit} that are no request, which are left out: {}, beside {requests} requests",
                rejected.count,
            ));
        }
        Ok(Made { trace, format, rejected })
    }
}

/// Reads one file into the trace. The first one decides on the format.
fn read_one(
    input: Box<dyn Read + Send>,
    file: &str,
    format: Option<Format>,
    rules: &Rules,
    making: &mut Option<Making>,
) -> Result<(), Error> {
    let unreadable = |error: io::Error| Error::misuse(file, error);
    let (input, start) = unfolded(input).map_err(unreadable)?;
    if start.is_empty() {
        return Ok(());
    }
    let given = rules.pattern.as_ref().map(|_| Format::Pattern);
    let found = given.or(format).unwrap_or_else(|| Format::of(&start));
    let making = making.get_or_insert_with(|| Making::new(found, rules));
    if making.format != found {
        let found = found.name();
        let what = format!("this is {found}, and the file before is not; make a trace of each");
        return Err(Error::misuse(file, what));
    }
    making.read(input, file)
}

/// The content of a file, without its gzip, and its beginning.
fn unfolded(mut input: Box<dyn Read + Send>) -> io::Result<(Input, Vec<u8>)> {
    let mut start = Vec::new();
    (&mut input).take(START).read_to_end(&mut start)?;
    let is_folded = start.starts_with(&GZIP);
    let mut input: Box<dyn Read + Send> = Box::new(Cursor::new(start.clone()).chain(input));
    if is_folded {
        input = Box::new(MultiGzDecoder::new(input));
        start.clear();
        (&mut input).take(START).read_to_end(&mut start)?;
        input = Box::new(Cursor::new(start.clone()).chain(input));
    }
    Ok((BufReader::with_capacity(START as usize, input), start))
}

/// Files in the order of their first requests, because rotated logs may be given in any order.
/// Names that are no files stay where they are.
fn in_order<'p>(paths: &'p [PathBuf], format: Option<Format>, rules: &Rules) -> Vec<&'p Path> {
    let mut paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    if paths.len() > 1 && paths.iter().all(|path| path.is_file()) {
        paths.sort_by_cached_key(|path| begin(path, format, rules));
    }
    paths
}

/// The time of the first requests of a file, in seconds since 1970. `None` if it is not known.
fn begin(path: &Path, format: Option<Format>, rules: &Rules) -> Option<u64> {
    let (_, start) = unfolded(Box::new(File::open(path).ok()?)).ok()?;
    // The last line is cut off, which does no harm here.
    make_of(Cursor::new(start), "", format, rules).ok()?.trace.head.began
}

fn too_many(file: &str) -> Error {
    Error::failed(file, format_args!("more than {MOST} requests; give a shorter log"))
}

/// Whether a trace has room for another request.
fn check_room(gathering: &Gathering, file: &str) -> Result<(), Error> {
    match gathering.requests() < MOST {
        true => Ok(()),
        false => Err(too_many(file)),
    }
}

/// What a trace from a log is made from.
fn source(name: &str) -> Source {
    Source { name: name.to_owned(), inferred: Vec::new() }
}
