//! The reasons for failed requests.

use std::io;

use rustix::io::Errno;

/// The kinds of failures with a wrong reply.
pub(crate) const WRONG_REPLIES: [&str; 5] =
    ["wrong-status", "wrong-bytes", "malformed", CUT_SHORT, WRONG_OUTSIDE];
/// Replies that began and did not end. A client has a part of a reply, as with wrong bytes.
const CUT_SHORT: &str = "cut-short";
/// Wrong replies of all kinds before the window opened or after it closed.
pub(crate) const WRONG_OUTSIDE: &str = "wrong-outside";

/// Whether failures of a kind are wrong replies. [`Report::errors`](crate::Report::errors) names
/// the kinds.
pub fn is_wrong_reply(kind: &str) -> bool {
    WRONG_REPLIES.contains(&kind)
}

/// Whether the load generator's side, and not the server, is the cause of failures of a kind.
pub fn is_own_failure(kind: &str) -> bool {
    ["no-ports", "no-descriptors", "other-left"].contains(&kind)
}

/// The reason why a request got no correct reply.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("connection refused")]
    ConnectRefused,
    #[error("no answer to the connect within the time limit")]
    ConnectTimeout,
    #[error("no local port is left to connect from")]
    NoPorts,
    #[error("no file descriptor is left")]
    NoDescriptors,
    #[error("the connect failed: {0}")]
    Connect(io::Error),
    #[error("the handshake of TLS failed: {0}")]
    Handshake(io::Error),
    #[error("the server reset the connection after {received} bytes of a reply")]
    Reset { received: u64 },
    #[error("the server closed the connection after {received} bytes of a reply")]
    ClosedEarly { received: u64 },
    #[error("the reply was not complete within the time limit")]
    TimedOut,
    #[error("unexpected status {0}")]
    WrongStatus(u16),
    #[error("a wrong reply: {0}")]
    WrongBytes(&'static str),
    #[error("not a well-formed reply: {0}")]
    Malformed(&'static str),
    #[cfg_attr(
        not(any(test, feature = "http2")),
        expect(dead_code, reason = "only HTTP/2 has streams")
    )]
    #[error("the server reset the stream (HTTP/2 error {code}) after {received} bytes")]
    StreamReset { code: u32, received: u64 },
    #[cfg_attr(
        not(any(test, feature = "http2")),
        expect(dead_code, reason = "only HTTP/2 has GOAWAY")
    )]
    #[error("the server ended the connection by GOAWAY (HTTP/2 error {0})")]
    GoneAway(u32),
    /// The server answered correctly that its store is unavailable.
    #[error("the server's store is unavailable")]
    StoreUnavailable,
    #[error("the other player has left")]
    OtherLeft,
    #[error("the server parted with a member that it found too slow")]
    TooSlow,
    #[error("the server says that it is full")]
    ServerFull,
    #[error("{0}")]
    Io(io::Error),
}

impl Failure {
    /// The failure behind a failed connect.
    pub(crate) fn from_connect(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(Errno::CONNREFUSED) => Failure::ConnectRefused,
            Some(Errno::TIMEDOUT) => Failure::ConnectTimeout,
            Some(Errno::ADDRNOTAVAIL) => Failure::NoPorts,
            Some(Errno::MFILE | Errno::NFILE) => Failure::NoDescriptors,
            // The connection was accepted, and reset before this call.
            Some(Errno::CONNRESET) => Failure::Reset { received: 0 },
            _ => Failure::Connect(error),
        }
    }

    /// The failure behind a failed read or write, after `received` bytes of the reply.
    pub(crate) fn from_transfer(error: io::Error, received: u64) -> Self {
        match error.kind() {
            io::ErrorKind::TimedOut => Failure::TimedOut,
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                Failure::Reset { received }
            }
            _ => Failure::Io(error),
        }
    }

    /// The failure's name in the report.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Failure::ConnectRefused => "connect-refused",
            Failure::ConnectTimeout => "connect-timeout",
            Failure::NoPorts => "no-ports",
            Failure::NoDescriptors => "no-descriptors",
            Failure::Connect(_) => "connect-failed",
            Failure::Handshake(_) => "handshake-failed",
            Failure::Reset { received: 1.. }
            | Failure::ClosedEarly { received: 1.. }
            | Failure::StreamReset { received: 1.., .. } => CUT_SHORT,
            Failure::Reset { .. } => "reset",
            Failure::ClosedEarly { .. } => "closed-early",
            Failure::TimedOut => "timed-out",
            Failure::WrongStatus(_) => "wrong-status",
            Failure::WrongBytes(_) => "wrong-bytes",
            Failure::Malformed(_) => "malformed",
            Failure::StreamReset { .. } => "stream-reset",
            Failure::GoneAway(_) => "gone-away",
            Failure::StoreUnavailable => "store-unavailable",
            Failure::OtherLeft => "other-left",
            Failure::TooSlow => "too-slow",
            Failure::ServerFull => "server-full",
            Failure::Io(_) => "io",
        }
    }

    /// Whether the connection ended before any byte of the reply came. A server may close a
    /// connection between two requests. A player may leave in the same way.
    pub(crate) fn is_before_reply(&self) -> bool {
        matches!(
            self,
            Failure::Reset { received: 0 }
                | Failure::ClosedEarly { received: 0 }
                | Failure::OtherLeft
        )
    }

    /// Whether there was no connection, so that an immediate retry would be a busy loop.
    pub(crate) fn is_connect(&self) -> bool {
        matches!(
            self,
            Failure::ConnectRefused
                | Failure::ConnectTimeout
                | Failure::NoPorts
                | Failure::NoDescriptors
                | Failure::Connect(_)
                | Failure::Handshake(_)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_errors_are_told_apart() {
        for (errno, kind) in [
            (Errno::CONNREFUSED, "connect-refused"),
            (Errno::TIMEDOUT, "connect-timeout"),
            (Errno::ADDRNOTAVAIL, "no-ports"),
            (Errno::MFILE, "no-descriptors"),
            (Errno::NFILE, "no-descriptors"),
            (Errno::HOSTUNREACH, "connect-failed"),
        ] {
            assert_eq!(Failure::from_connect(errno.into()).kind(), kind);
        }
        for (errno, kind) in [
            (Errno::CONNRESET, "reset"),
            (Errno::PIPE, "reset"),
            (Errno::TIMEDOUT, "timed-out"),
            (Errno::NOBUFS, "io"),
        ] {
            assert_eq!(Failure::from_transfer(errno.into(), 0).kind(), kind);
        }
    }

    #[test]
    fn a_reply_that_began_and_did_not_end_is_a_wrong_reply() {
        for (received, kinds) in [
            (0, ["closed-early", "reset", "stream-reset"]),
            (1, ["cut-short", "cut-short", "cut-short"]),
        ] {
            let ends = [
                Failure::ClosedEarly { received },
                Failure::from_transfer(Errno::CONNRESET.into(), received),
                Failure::StreamReset { code: 2, received },
            ];
            assert_eq!(ends.map(|end| end.kind()), kinds);
        }
        assert!(is_wrong_reply("cut-short") && !is_wrong_reply("closed-early"));
    }

    #[test]
    fn only_an_end_before_the_first_byte_may_be_between_two_requests() {
        assert!(Failure::ClosedEarly { received: 0 }.is_before_reply());
        assert!(Failure::from_transfer(Errno::PIPE.into(), 0).is_before_reply());
        assert!(!Failure::ClosedEarly { received: 1 }.is_before_reply());
        assert!(!Failure::TimedOut.is_before_reply());
    }
}
