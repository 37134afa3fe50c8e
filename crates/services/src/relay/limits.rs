//! The set-up of a relay: its upstreams, the bounds on both sides, and its rules.

use std::net::SocketAddr;
use std::time::Duration;

use crate::http;

/// How a relay is set up.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The servers behind the relay, at most [`MOST_UPSTREAMS`].
    pub upstreams: Vec<SocketAddr>,
    /// The bounds on both sides.
    pub limits: Limits,
    /// What becomes of the fields that name the origin of a request.
    pub forwarded: Forwarded,
    /// Whether a client that has ended its sending side still gets its reply, however long the
    /// upstream takes. Then a client that has left is only noticed if it has reset its connection.
    pub serves_half_closed: bool,
    /// The target that [`Relay::check_health`](super::Relay::check_health) asks each upstream for.
    pub health: Option<Health>,
}

/// What becomes of fields of a request such as `X-Forwarded-For`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Forwarded {
    /// They stay. The client's address is added to `X-Forwarded-For`, and `X-Forwarded-Proto` if it
    /// is missing. For a relay behind another one.
    #[default]
    Append,
    /// They are removed, because any client can write them, and made anew. For a relay that clients
    /// reach directly.
    Replace,
}

/// A look at upstreams, apart from requests.
#[derive(Clone, Debug)]
pub struct Health {
    /// The target, such as `/healthz`.
    pub target: String,
    /// The time between two looks, and the longest that one may take.
    pub interval: Duration,
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
    /// How often a wait for an upstream looks whether the client is still there (500 ms).
    pub look_time: Duration,
    /// The most idle connections to upstreams (256). Each event loop has as many, and so has each
    /// process.
    pub idle: usize,
    /// The longest time that a connection to an upstream is idle before it is used again (30 s).
    pub idle_time: Duration,
}

/// The most servers behind one relay.
pub const MOST_UPSTREAMS: usize = 64;

/// How many bytes of a body are read at a time.
pub(super) const PIECE: usize = 32 << 10;

/// The most bytes in the head of a reply.
pub(super) const REPLY_HEAD: usize = 32 << 10;

/// The most interim replies before a reply.
pub(super) const INTERIM_REPLIES: u32 = 16;

impl Limits {
    /// The longest single wait for an upstream.
    pub(super) fn slice(&self) -> Duration {
        self.look_time.min(self.reply_time)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            client: http::Limits::default(),
            connect_time: Duration::from_secs(5),
            reply_time: Duration::from_secs(60),
            look_time: Duration::from_millis(500),
            idle: 256,
            idle_time: Duration::from_secs(30),
        }
    }
}
