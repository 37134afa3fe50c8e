//! The set-up of the http service: where the files are, and the limits of a client.

use std::{path::PathBuf, time::Duration};

/// How an http service is set up.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The directory of the files to serve. `None`: the built-in demonstration pages.
    pub root: Option<PathBuf>,
    /// The bounds on a client's bytes and times.
    pub limits: Limits,
}

/// The bounds on sizes, counts and times. [`Default`] gives the value named at each field.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes in the request line and the header fields together (16 KiB). RFC 9112, section 3,
    /// recommends room for 8,000 in the request line alone. More gets 431, or 414 if the request
    /// line alone does not fit.
    pub head: usize,
    /// Bytes in a request's body (64 KiB). More gets 413. A page may take less.
    pub body: u64,
    /// Requests that one connection may carry (1000, as in nginx), so that no client keeps a
    /// connection for ever.
    pub requests: u32,
    /// The time from the first byte of a request's head to its last (10 s). A slower client gets
    /// 408.
    pub head_time: Duration,
    /// The same for a request's body (10 s). A slower client gets 408.
    pub body_time: Duration,
    /// The silence between two requests, or before the first (60 s). Then the connection closes
    /// without a reply.
    pub idle_time: Duration,
    /// How long a client may take none of the sent bytes (30 s). Then the connection is reset.
    pub write_time: Duration,
    /// Bytes per second that a client must take of a reply (1 KiB/s; 0 is no bound). The rate is an
    /// average over the whole reply, after a first [`write_time`](Self::write_time). Otherwise a
    /// client that takes a byte now and then would keep the connection for ever.
    pub write_rate: u64,
    /// How long the server reads on after the last reply, if the client may still be sending (2 s).
    pub linger_time: Duration,
    /// The most bytes in a file that is kept in memory (64 KiB). Longer files are sent by
    /// sendfile(2).
    pub cached_file: u64,
    /// The most bytes of all cached files together, book-keeping included (64 MiB).
    pub cache: usize,
}

/// The most header fields in one request. More get 431. This is a constant, because the parser has
/// room for the fields on the stack.
pub const HEADER_FIELDS: usize = 64;

/// How many bytes of replies are gathered before they are sent. Longer replies are not worth
/// copying.
pub const GATHERED: usize = 16 << 10;

/// How many bytes of a refused connection are read at a time.
pub const REFUSAL_ROOM: usize = 1 << 10;

impl Limits {
    /// How long it may take to send so many bytes.
    #[must_use]
    pub fn sending_time(&self, length: u64) -> Duration {
        let seconds = length.checked_div(self.write_rate).unwrap_or(u64::MAX);
        self.write_time.saturating_add(Duration::from_secs(seconds))
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            head: 16 << 10,
            body: 64 << 10,
            requests: 1000,
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(10),
            idle_time: Duration::from_secs(60),
            write_time: Duration::from_secs(30),
            write_rate: 1 << 10,
            linger_time: Duration::from_secs(2),
            cached_file: 64 << 10,
            cache: 64 << 20,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_a_reply_the_longer_it_may_take() {
        let limits = Limits::default();
        assert_eq!(limits.sending_time(100), limits.write_time);
        assert_eq!(limits.sending_time(10 << 10), limits.write_time + Duration::from_secs(10));
        assert_eq!(Limits { write_rate: 0, ..limits }.sending_time(1), Duration::MAX);
    }
}
