//! Why there is no whole reply, as the client, the access log and the metrics are told.

use super::head::Malformed;
use crate::http::status::{self, Status};

/// Why there is no whole reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// No upstream can be reached.
    Unreachable,
    /// The upstream took too long.
    Late,
    /// The upstream closed, or broke its connection.
    Gone,
    /// The upstream sent what cannot be relayed.
    Malformed,
    /// The client has left, and waits for no reply.
    ClientLeft,
}

impl Failure {
    pub(super) fn status(self) -> &'static Status {
        match self {
            Self::Late => &status::GATEWAY_TIMEOUT,
            _ => &status::BAD_GATEWAY,
        }
    }

    /// What the client is told, without a word on what stands behind the relay.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Unreachable => "No server behind this one can be reached.",
            Self::Late => "The server behind this one took too long to answer.",
            Self::Gone => "The server behind this one closed its connection without an answer.",
            Self::Malformed => "The answer of the server behind this one cannot be passed on.",
            Self::ClientLeft => "The client has left.",
        }
    }

    /// The same in one word, for the access log.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Late => "late",
            Self::Gone => "closed",
            Self::Malformed => "malformed",
            Self::ClientLeft => "client-left",
        }
    }
}

impl From<Malformed> for Failure {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}
