//! The set-up of a relay: its upstreams, and the bounds on both sides.

use std::net::SocketAddr;
use std::time::Duration;

use crate::http;

/// How a relay is set up.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The servers behind the relay.
    pub upstreams: Vec<SocketAddr>,
    /// The bounds on both sides.
    pub limits: Limits,
}

/// The bounds on sizes, counts and times. [`Default`] gives the value named at each field.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The bounds on clients, as http has them. A body may have any length, because it is passed
    /// on: `body` bounds nothing here. `body_time` bounds the silence within a body, and
    /// `write_rate` the rate at which a body comes, too.
    pub client: http::Limits,
    /// How long it may take to connect to an upstream (5 s).
    pub connect_time: Duration,
    /// How long an upstream may send nothing of a reply, or take nothing of a request (60 s). Then
    /// the client gets 504, if the reply has not begun.
    pub reply_time: Duration,
    /// The most idle connections to upstreams (256). Each event loop has as many, and so has each
    /// process.
    pub idle: usize,
    /// The longest time that a connection to an upstream is idle before it is used again (30 s).
    pub idle_time: Duration,
}

/// How many bytes of a body are read at a time.
pub(super) const PIECE: usize = 32 << 10;

/// The most bytes in the head of a reply.
pub(super) const REPLY_HEAD: usize = 32 << 10;

/// The most interim replies before a reply.
pub(super) const INTERIM_REPLIES: u32 = 16;

impl Default for Limits {
    fn default() -> Self {
        Self {
            client: http::Limits::default(),
            connect_time: Duration::from_secs(5),
            reply_time: Duration::from_secs(60),
            idle: 256,
            idle_time: Duration::from_secs(30),
        }
    }
}
