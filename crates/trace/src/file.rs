//! A trace as a file: gzip over lines of text.
//!
//! ```text
//!   {"duality_trace":1,"length_us":…,"tick_us":1000,…,"classes":[…]}     the head: one line of JSON
//!   0 0 629:4 83:5 +65000                                                a line for each connection
//!   1361@12000 7
//!   sha256 9f86d081884c7d65…                                             over all lines before
//!
//!   1361   its start, from the start of the connection in the line before
//!   @12000 its client's rate in bytes a second, where that is known
//!   7      the class of its first request
//!   629:4  a further request: its think time, and its class
//!   +65000 how long it stayed open after the last reply, unless that is zero
//! ```
//!
//! All times are in ticks of the head. A line tells its start from the line before, so starts
//! cannot be out of order. A file may be without gzip, too. `docs/trace.md` says the same to users.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::mistake::Mistake;
use crate::trace::{Connection, Head, LONGEST, Step, Trace, VERSION};

/// The longest head, in bytes: 65,536 classes, each with a path of 200 bytes.
const LONGEST_HEAD: u64 = 32 << 20;
/// The longest line of a connection, in bytes: some millions of requests.
const LONGEST_LINE: u64 = 64 << 20;
/// The largest text of a file, in bytes. The bound keeps a small file from unfolding without end.
const MOST_TEXT: u64 = 4 << 30;
/// The largest number of requests, and of connections. They take some two gigabytes of memory.
const MOST: u64 = 20_000_000;
/// The first bytes of gzip.
pub(crate) const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The beginning of the last line.
const SEAL: &str = "sha256 ";

/// A file that could not be read or written as a trace. The message is one line with the file, the
/// place, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}", path.display())]
pub struct Error {
    /// The file.
    pub path: PathBuf,
    /// The mistake in the file.
    #[source]
    pub fault: Fault,
}

/// What is wrong with a trace.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The file cannot be read or written, or its gzip is damaged.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file is something else.
    #[error("line 1: this is no trace; make one by 'duality trace from LOG -o my.trace'")]
    NotATrace,
    /// The trace is of another version.
    #[error(
        "line 1: a trace of version {0}, and this program reads version {VERSION}; make it again \
         by 'duality trace from'"
    )]
    Version(u64),
    /// A line has an impossible value.
    #[error("line {line}: {what}; make the trace again by 'duality trace from'")]
    Line {
        /// Counted from 1, in the text before compression.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// The file ends too early.
    #[error("line {line}: the trace ends here, before its last line; copy or make it again")]
    Truncated {
        /// The line that is missing, counted from 1.
        line: u64,
    },
    /// The trace is larger than what this program reads.
    #[error("line {line}: {what}; make a trace of a shorter log")]
    TooLarge {
        /// Counted from 1.
        line: u64,
        /// Which bound is passed.
        what: String,
    },
    /// The checksum does not fit the text.
    #[error("line {line}: the checksum does not match, so the trace was changed; make it again")]
    Checksum {
        /// Counted from 1.
        line: u64,
    },
}

/// Reads a trace from a file, and checks everything that [`Trace`] promises.
pub fn read(path: &Path) -> Result<Trace, Error> {
    let failed = |fault| Error { path: path.to_owned(), fault };
    let file = File::open(path).map_err(|error| failed(error.into()))?;
    decode(file).map_err(failed)
}

/// Reads a trace from bytes, with or without gzip.
pub fn decode(from: impl Read) -> Result<Trace, Fault> {
    let mut from = BufReader::with_capacity(1 << 16, from);
    if from.fill_buf()?.starts_with(&GZIP) {
        Lines::of(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(from))).trace()
    } else {
        Lines::of(from).trace()
    }
}

/// Writes a trace as a file's bytes, and returns its checksum.
pub fn encode(trace: &Trace, to: impl Write) -> io::Result<String> {
    let mut to = BufWriter::new(GzEncoder::new(to, Compression::best()));
    let mut hash = Sha256::new();
    let mut line = serde_json::to_string(&trace.head)?;
    line.push('\n');
    let tick = trace.head.tick;
    let mut before = Duration::ZERO;
    hash.update(&line);
    to.write_all(line.as_bytes())?;
    for connection in trace {
        line.clear();
        write_connection(&mut line, connection, before, tick);
        before = connection.start;
        hash.update(&line);
        to.write_all(line.as_bytes())?;
    }
    let checksum = hexadecimal(&hash.finalize());
    writeln!(to, "{SEAL}{checksum}")?;
    to.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?.flush()?;
    Ok(checksum)
}

fn write_connection(line: &mut String, connection: &Connection, before: Duration, tick: Duration) {
    let ticks = |time: Duration| time.as_micros() / tick.as_micros().max(1);
    let Connection { start, rate, steps, open_after } = connection;
    let _ = write!(line, "{}", ticks(start.saturating_sub(before)));
    if let Some(rate) = rate {
        let _ = write!(line, "@{rate}");
    }
    for (number, step) in steps.iter().enumerate() {
        let _ = match number {
            0 => write!(line, " {}", step.class),
            _ => write!(line, " {}:{}", ticks(step.think), step.class),
        };
    }
    if ticks(*open_after) > 0 {
        let _ = write!(line, " +{}", ticks(*open_after));
    }
    line.push('\n');
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The lines of a trace, as they are read.
struct Lines<R> {
    from: R,
    line: Vec<u8>,
    /// The number of `line`, counted from 1.
    number: u64,
    /// Bytes of text so far.
    text: u64,
    hash: Sha256,
}

impl<R: BufRead> Lines<R> {
    fn of(from: R) -> Self {
        Self { from, line: Vec::new(), number: 0, text: 0, hash: Sha256::new() }
    }

    fn trace(mut self) -> Result<Trace, Fault> {
        let mut head = self.head()?;
        let mut connections = Vec::new();
        let mut counts = vec![0u64; head.classes.len()];
        let mut start = Duration::ZERO;
        let mut requests = 0;
        let last = loop {
            let before = self.hash.clone();
            if !self.advance(LONGEST_LINE)? {
                return Err(Fault::Truncated { line: self.number });
            }
            if self.line.starts_with(SEAL.as_bytes()) {
                break self.seal(&before, &mut head)?;
            }
            if connections.len() as u64 >= head.connections {
                return Err(self.wrong(format!("more than {} connections", head.connections)));
            }
            let connection = self.connection(start, &head)?;
            start = connection.start;
            requests += connection.steps.len() as u64;
            if requests > head.requests {
                return Err(self.wrong(format!("more than {} requests", head.requests)));
            }
            for step in &connection.steps {
                counts[usize::from(step.class)] += 1;
            }
            connections.push(connection);
        };
        let claimed = head.classes.iter().map(|class| class.count);
        if connections.len() as u64 != head.connections || !claimed.eq(counts) {
            let what = "the counts of the head are not those of the lines".to_owned();
            return Err(Fault::Line { line: last, what });
        }
        if start > head.length {
            let what = "a connection starts after the trace's end".to_owned();
            return Err(Fault::Line { line: last, what });
        }
        Ok(Trace { head, connections })
    }

    /// Reads the next line, without its end. `false` at the end of the file.
    fn advance(&mut self, longest: u64) -> Result<bool, Fault> {
        self.line.clear();
        self.number += 1;
        let read = (&mut self.from).take(longest + 1).read_until(b'\n', &mut self.line);
        let read = match read {
            Ok(read) => read as u64,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(Fault::Truncated { line: self.number });
            }
            Err(error) => return Err(error.into()),
        };
        self.text += read;
        if read > longest || self.text > MOST_TEXT {
            let bound = if read > longest { longest } else { MOST_TEXT };
            let what = format!("more than {} MB of text", bound >> 20);
            return Err(Fault::TooLarge { line: self.number, what });
        }
        if read == 0 {
            return Ok(false);
        }
        self.hash.update(&self.line);
        if self.line.pop() != Some(b'\n') {
            // Also where the text is not a trace's at all.
            return match self.number {
                1 => Err(Fault::NotATrace),
                line => Err(Fault::Truncated { line }),
            };
        }
        Ok(true)
    }

    fn head(&mut self) -> Result<Head, Fault> {
        #[derive(Deserialize)]
        struct Version {
            duality_trace: u64,
        }
        match self.advance(LONGEST_HEAD) {
            // An array of one number would do for a version, too.
            Ok(true) if self.line.starts_with(b"{") => {}
            Ok(_) | Err(Fault::TooLarge { .. }) => return Err(Fault::NotATrace),
            Err(fault) => return Err(fault),
        }
        match serde_json::from_slice(&self.line) {
            Ok(Version { duality_trace }) if duality_trace == u64::from(VERSION) => {}
            Ok(Version { duality_trace }) => return Err(Fault::Version(duality_trace)),
            Err(_) => return Err(Fault::NotATrace),
        }
        let head: Head =
            serde_json::from_slice(&self.line).map_err(|error| self.wrong(error.to_string()))?;
        if head.requests > MOST || head.connections > MOST {
            let what = format!("more than {MOST} requests or connections");
            return Err(Fault::TooLarge { line: 1, what });
        }
        match flaw(&head) {
            Some(what) => Err(self.wrong(what.to_owned())),
            None => Ok(head),
        }
    }

    fn connection(&self, before: Duration, head: &Head) -> Result<Connection, Fault> {
        let text = str::from_utf8(&self.line).map_err(|_| self.wrong("not text".to_owned()))?;
        parse_connection(text, before, head).map_err(|what| self.wrong(what.to_string()))
    }

    /// Checks the last line, and that nothing follows. Returns the number of the last line.
    fn seal(&mut self, before: &Sha256, head: &mut Head) -> Result<u64, Fault> {
        let last = self.number;
        let checksum = hexadecimal(&before.clone().finalize());
        if self.line[SEAL.len()..] != *checksum.as_bytes() {
            return Err(Fault::Checksum { line: self.number });
        }
        head.checksum = checksum;
        if self.advance(LONGEST_LINE)? {
            return Err(self.wrong("something follows the checksum".to_owned()));
        }
        Ok(last)
    }

    fn wrong(&self, what: String) -> Fault {
        Fault::Line { line: self.number, what }
    }
}

/// The mistake in a head, if there is one.
fn flaw(head: &Head) -> Option<&'static str> {
    let count = head.classes.iter().try_fold(0u64, |sum, class| sum.checked_add(class.count));
    if head.classes.len() > 1 << 16 {
        Some("more than 65536 classes")
    } else if head.classes.iter().any(|class| class.status > 5) {
        Some("a status that begins with neither of 1 to 5")
    } else if count != Some(head.requests) {
        Some("the counts of its classes do not add up to its requests")
    } else if head.tick.is_zero() {
        Some("a tick of no length")
    } else if [head.tick, head.length, head.resolution].iter().any(|time| *time > LONGEST) {
        Some("a time of more than 100 years")
    } else {
        None
    }
}

/// Reads the line of a connection. An error says what is wrong with the line.
fn parse_connection(text: &str, before: Duration, head: &Head) -> Result<Connection, Mistake> {
    let time = |text: &str| time(text, head.tick);
    let mut words = text.split(' ');
    let first = words.next().unwrap_or_default();
    let (start, rate) = match first.split_once('@') {
        Some((start, rate)) => (start, Some(number(rate, "a rate")?)),
        None => (first, None),
    };
    if rate == Some(0) {
        return Err("a rate of no bytes a second".into());
    }
    let start = before.saturating_add(time(start)?);
    let mut connection = Connection { start, rate, ..Connection::default() };
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        if let Some(open) = word.strip_prefix('+') {
            connection.open_after = time(open)?;
            if words.peek().is_some() {
                return Err("something follows the time that the connection stayed open".into());
            }
            break;
        }
        let (think, class) = match (connection.steps.is_empty(), word.split_once(':')) {
            (true, None) => (Duration::ZERO, word),
            (false, Some((think, class))) => (time(think)?, class),
            _ => return Err(format!("'{}' is no request", shortened(word)).into()),
        };
        let class = number(class, "a class")?;
        if class >= head.classes.len() as u64 {
            return Err(format!("class {class}, and the head has {}", head.classes.len()).into());
        }
        connection.steps.push(Step { think, class: class as u16 });
    }
    match &connection {
        connection if connection.steps.is_empty() => Err("a connection without a request".into()),
        connection if connection.end() > LONGEST => Err("a time of more than 100 years".into()),
        _ => Ok(connection),
    }
}

fn time(text: &str, tick: Duration) -> Result<Duration, Mistake> {
    let ticks = number(text, "a time")?;
    let micros = u128::from(ticks) * tick.as_micros();
    match u64::try_from(micros).map(Duration::from_micros) {
        Ok(time) if time <= LONGEST => Ok(time),
        _ => Err("a time of more than 100 years".into()),
    }
}

/// A whole number of digits alone. `what` names the number, with its article.
fn number(text: &str, what: &str) -> Result<u64, Mistake> {
    let is_negative = text.starts_with('-');
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(number) if digits => Ok(number),
        _ if is_negative => Err(format!("{what} is negative: '{}'", shortened(text)).into()),
        _ => Err(format!("{what} is no whole number: '{}'", shortened(text)).into()),
    }
}

/// The beginning of a file's text, for an error of one line.
fn shortened(text: &str) -> String {
    text.chars()
        .take(20)
        .map(|character| if character.is_control() { '?' } else { character })
        .collect()
}
