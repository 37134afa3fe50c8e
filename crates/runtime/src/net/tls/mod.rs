//! TLS beneath a [`TcpStream`](super::TcpStream), by rustls. Feature `rustls`.
//!
//! ```text
//!   TcpStream::accept_tls, connect_tls     the handshake, straight-line: write, read, write …
//!        │
//!        ▼
//!   Session: a channel of the socket       read, write, fill, shutdown: as before
//! ```
//!
//! rustls makes no system call. So each read and write of a session waits in the way of its world.
//! A service is the same code with TLS and without.
//!
//! A read reaches the network only when no decrypted byte is left. A write returns once its records
//! are with the kernel. A write that is dropped earlier may have been sent.

mod acceptor;
mod clock;
mod connector;
mod plain;
mod session;

pub use acceptor::{Acceptor, HANDSHAKE_TIME};
use clock::HostClock;
pub use connector::{Connector, Trust};
pub(super) use plain::reply_to;
pub(super) use session::Session;

/// The name of HTTP/1.1 in a handshake (ALPN, RFC 7301), which both sides offer by default.
pub const HTTP_1: &[u8] = b"http/1.1";

/// The name of HTTP/2 in a handshake (RFC 9113, section 3.1).
pub const HTTP_2: &[u8] = b"h2";
