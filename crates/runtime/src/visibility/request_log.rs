//! The request log: a line of JSON for each answered request, written to a pipe(7). A thread of the
//! server reads the pipe, and writes the lines to a file.
//!
//! ```text
//!   kernel threads and children ── one write(2) a line ──▶ pipe, a megabyte ──▶ RequestLog::read
//!                                  a full pipe: the line is dropped, and counted
//! ```
//!
//! A pipe takes a line completely or not at all, from any process. It keeps the lines of a killed
//! process. So the log is the same under every architecture. A writer never waits. The reader polls
//! the pipe at intervals, so that no writer has to wake it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use rustix::time::{ClockId, clock_gettime};

use crate::shared;

/// The most bytes of a line: the number that pipe(7) takes as a whole (`PIPE_BUF`).
const LONGEST: usize = 4096;

/// The wanted capacity of the pipe. If the system allows less, the pipe holds less.
const ROOM: usize = 1 << 20;

/// The number of connections, and the number of dropped lines.
type Counts = [AtomicU64; 2];

struct Log {
    pipe: OwnedFd,
    counts: &'static Counts,
}

static LOG: OnceLock<Log> = OnceLock::new();

/// A line about a request.
pub(super) struct Line<'m> {
    /// The number of the connection, from 1.
    pub(super) connection: u64,
    /// The number of the request within the connection, from 1.
    pub(super) request: u64,
    /// The client's address, if it is known.
    pub(super) client: &'m str,
    /// The time of the request, in nanoseconds.
    pub(super) length: u64,
    /// The service's description of the request, as members of a JSON object.
    pub(super) members: &'m str,
    /// Microseconds to the client and back.
    pub(super) round_trip: u32,
}

/// The reader's end.
#[derive(Debug)]
pub struct RequestLog(OwnedFd);

impl RequestLog {
    /// Reads available bytes. 0 means that there are none.
    ///
    /// # Errors
    ///
    /// The errors of read(2).
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match rustix::io::read(&self.0, buffer) {
            Ok(count) => Ok(count),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

/// Begins the log, with a line for each request of this process and the children that it forks
/// later. Call this once, before a connection is accepted.
///
/// # Errors
///
/// If no descriptor is left, or a log already exists.
pub fn prepare_request_log() -> io::Result<RequestLog> {
    let (reader, pipe) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    // An unprivileged user may have used up the kernel's room for pipes.
    let _ = fcntl_setpipe_size(&pipe, ROOM);
    let log = Log { pipe, counts: shared::words() };
    match LOG.set(log) {
        Ok(()) => Ok(RequestLog(reader)),
        Err(_) => Err(io::ErrorKind::AlreadyExists.into()),
    }
}

/// The number of lines that found no room in the pipe.
#[must_use]
pub fn dropped_log_lines() -> u64 {
    LOG.get().map_or(0, |log| log.counts[1].load(Ordering::Relaxed))
}

#[inline]
pub(super) fn is_kept() -> bool {
    LOG.get().is_some()
}

/// The number of a new connection. `None` without a log.
pub(super) fn connection_number() -> Option<u64> {
    LOG.get().map(|log| log.counts[0].fetch_add(1, Ordering::Relaxed) + 1)
}

/// Writes a line, if the pipe has room.
pub(super) fn add(line: &Line<'_>) {
    let Some(log) = LOG.get() else { return };
    let now = clock_gettime(ClockId::Realtime);
    let text = text(line, now.tv_sec as u64, now.tv_nsec as u64 / 1000);
    let written = text.len() <= LONGEST
        && rustix::io::write(&log.pipe, text.as_bytes()).is_ok_and(|count| count == text.len());
    if !written {
        log.counts[1].fetch_add(1, Ordering::Relaxed);
    }
}

/// The line of a request that was answered this many seconds and microseconds after 1970.
fn text(line: &Line<'_>, seconds: u64, microseconds: u64) -> String {
    let Line { connection, request, client, length, members, round_trip } = line;
    let comma = if members.is_empty() { "" } else { "," };
    let length = length / 1000;
    format!(
        "{{\"ts\":{seconds}.{microseconds:06},\"rt\":{}.{:06},\"conn\":{connection},\"n\":{request},\
         \"c\":\"{client}\",{members}{comma}\"rtt\":\"{round_trip}\"}}\n",
        length / 1_000_000,
        length % 1_000_000,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_names_of_the_format() {
        let members = r#""m":"GET","u":"/","s":200"#;
        let line = Line {
            connection: 7,
            request: 2,
            client: "::1",
            length: 1_002_003_999,
            members,
            round_trip: 45,
        };
        assert_eq!(
            text(&line, 1_700_000_000, 42),
            "{\"ts\":1700000000.000042,\"rt\":1.002003,\"conn\":7,\"n\":2,\"c\":\"::1\",\"m\":\"GET\",\"u\":\"/\",\
             \"s\":200,\"rtt\":\"45\"}\n"
        );
        let bare = Line { members: "", ..line };
        assert!(text(&bare, 1, 0).ends_with("\"n\":2,\"c\":\"::1\",\"rtt\":\"45\"}\n"));
    }
}
