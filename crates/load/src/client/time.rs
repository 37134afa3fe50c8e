//! The client of `time`: connect, and read one line to the end of the connection (RFC 867).

use std::sync::Arc;
use std::time::Instant;

use duality_runtime::net::TcpStream;

use super::{Entry, Protocol};
use crate::announce::EdgeAnnouncer;
use crate::engine::{Engine, Loading};
use crate::failure::Failure;
use crate::pattern;
use crate::request::{Client, Reply, read_more};

/// A longer line is not a time.
const LONGEST_LINE: usize = 128;

pub(crate) static ENTRY: Entry = Entry::plain("time", |_| Arc::new(Time));

/// The client on one connection. The client keeps nothing, because the time differs at each
/// request.
#[derive(Clone, Debug)]
struct Time;

impl Protocol for Time {
    fn service(&self) -> &'static str {
        ENTRY.name
    }

    fn is_persistent(&self) -> bool {
        false
    }

    fn load<'a>(&'a self, engine: &'a Engine, edges: EdgeAnnouncer) -> Loading<'a> {
        Box::pin(pattern::load(engine, Self, edges))
    }
}

impl Client for Time {
    /// A connect is the request.
    async fn send(&mut self, _: &mut TcpStream) -> Result<(), Failure> {
        Ok(())
    }

    async fn receive(&mut self, stream: &mut TcpStream) -> Result<Reply, Failure> {
        let mut line = [0; LONGEST_LINE + 1];
        let (mut filled, mut first) = (0, None);
        loop {
            if filled > 0 {
                first.get_or_insert_with(Instant::now);
            }
            match read_more(stream, &mut line[filled..], filled as u64).await {
                Ok(count) => filled += count,
                Err(Failure::ClosedEarly { received: 1.. }) => break,
                Err(failure) => return Err(failure),
            }
            if filled > LONGEST_LINE {
                return Err(Failure::Malformed("the line is longer than 128 bytes"));
            }
        }
        check_line(&line[..filled])?;
        Ok(Reply { bytes: filled as u64, open: false, first })
    }
}

/// RFC 867 leaves the form of the time open. So a correct reply is one line of printable ASCII with
/// a digit.
fn check_line(text: &[u8]) -> Result<(), Failure> {
    let line = text.strip_suffix(b"\n").ok_or(Failure::Malformed("the line has no end"))?;
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if !line.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        return Err(Failure::Malformed("not one line of printable ASCII"));
    }
    if !line.iter().any(u8::is_ascii_digit) {
        return Err(Failure::Malformed("a time without a digit"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_one_line() {
        for right in ["2026-11-21T02:00:00Z\r\n", "Sat Nov 21 02:00:00 2026\n"] {
            assert!(check_line(right.as_bytes()).is_ok(), "{right}");
        }
        for wrong in ["", "\r\n", "02:00", "02:00\r\n02:01\r\n", "no digit\r\n", "02:00\u{e9}\r\n"]
        {
            assert!(matches!(check_line(wrong.as_bytes()), Err(Failure::Malformed(_))), "{wrong}");
        }
    }
}
