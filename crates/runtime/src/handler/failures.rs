//! Connections that ended with an error of their service. A hook is called for each, or the first
//! few are logged, a line each.
//!
//! The counters are shared with child processes, so that a server of many processes logs no more
//! lines than another.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use rustix::net::getpeername;

use crate::net::{TcpStream, internet_address};
use crate::{log, shared, task};

/// The number of errors that are logged. One more line says that further errors are not logged.
const TOLD: u64 = 5;

/// The addresses of this many clients are looked up from the start. A look-up is a system call
/// (getpeername(2)), which a connection with one request would feel. Once an error has been
/// reported, later addresses are looked up too, until the last report.
const ASKED: u64 = 1000;

/// A function that gets the client's address, if it is known, and the service's error.
pub type ErrorHook = Arc<dyn Fn(Option<SocketAddr>, &io::Error) + Send + Sync>;

/// The client of a connection, which may fail. The client is boxed, and only present if needed:
/// most connections of a large server have none.
#[doc(hidden)]
pub struct Peer(Option<Box<Client>>);

impl fmt::Debug for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Peer").finish_non_exhaustive()
    }
}

/// The recorded data of a client.
struct Client {
    address: Option<SocketAddr>,
    /// This hook is called instead of the report to the operator.
    hook: Option<ErrorHook>,
}

/// The counters of failed connections.
struct Counts {
    /// The number of clients with an address that was looked up.
    asked: &'static AtomicU64,
    /// The number of failures to report to the operator.
    failed: &'static AtomicU64,
    /// Failures of each [`Kind`].
    kinds: [&'static AtomicU64; Kind::ALL.len()],
}

fn counts() -> &'static Counts {
    static COUNTS: OnceLock<Counts> = OnceLock::new();
    COUNTS.get_or_init(|| {
        let [asked, failed, kinds @ ..] = shared::words::<{ 2 + Kind::ALL.len() }>().each_ref();
        Counts { asked, failed, kinds }
    })
}

/// The reason why the service of a connection ended with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The client broke the connection off, or the network lost it.
    Client,
    /// The client took too long.
    Timeout,
    /// Anything else.
    Service,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Client, Self::Timeout, Self::Service];

    /// The name in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Timeout => "timeout",
            Self::Service => "service",
        }
    }

    fn of(error: &io::Error) -> Self {
        match error.kind() {
            _ if is_the_clients(error) => Self::Client,
            ErrorKind::TimedOut => Self::Timeout,
            _ => Self::Service,
        }
    }
}

/// The number of connections of this process and its children that ended with this kind of error.
#[must_use]
pub fn failures(kind: Kind) -> u64 {
    counts().kinds[kind as usize].load(Relaxed)
}

/// To be called before processes are forked that are to share the counters.
pub(super) fn prepare() {
    counts();
}

impl Peer {
    /// The client of a new connection, if its address is needed, as always with a `hook`.
    pub fn of(socket: BorrowedFd<'_>, hook: Option<&ErrorHook>) -> Self {
        Self::at(|| internet_address(getpeername(socket).ok()?).ok(), hook)
    }

    /// As [`of`](Self::of).
    pub(super) fn of_stream(stream: &TcpStream, hook: Option<&ErrorHook>) -> Self {
        Self::at(|| stream.peer_addr().ok(), hook)
    }

    fn at(address: impl FnOnce() -> Option<SocketAddr>, hook: Option<&ErrorHook>) -> Self {
        if let Some(hook) = hook {
            let (address, hook) = (address(), Some(hook.clone()));
            return Self(Some(Box::new(Client { address, hook })));
        }
        let Counts { asked, failed, .. } = counts();
        let failures = failed.load(Relaxed);
        let is_wanted = failures < TOLD && (failures > 0 || asked.load(Relaxed) < ASKED);
        if !is_wanted {
            return Self(None);
        }
        asked.fetch_add(1, Relaxed);
        Self(Some(Box::new(Client { address: address(), hook: None })))
    }

    /// Calls the hook for an error that ended the service of a connection. Without a hook, reports
    /// the error to the operator, unless the client alone caused it.
    #[cold]
    pub fn tell(&self, error: &io::Error) {
        let kind = Kind::of(error);
        counts().kinds[kind as usize].fetch_add(1, Relaxed);
        let client = self.0.as_ref();
        let address = client.and_then(|client| client.address);
        if let Some(hook) = client.and_then(|client| client.hook.as_ref()) {
            hook(address, error);
            return;
        }
        if kind == Kind::Client {
            return;
        }
        let before = counts().failed.fetch_add(1, Relaxed);
        if before < TOLD {
            log::warn(line(address.as_ref(), task::current_stage().as_deref(), error));
        } else if before == TOLD {
            log::warn("further errors of connections are not logged");
        }
    }
}

/// Whether the client or the network alone caused an error. A client may break off, as a load
/// generator does at the end of its load, or the network loses it. A connection that the client has
/// reset no longer has a peer (`NotConnected`).
fn is_the_clients(error: &io::Error) -> bool {
    use ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionReset, HostUnreachable, NetworkUnreachable,
        NotConnected,
    };
    matches!(
        error.kind(),
        BrokenPipe
            | ConnectionAborted
            | ConnectionReset
            | HostUnreachable
            | NetworkUnreachable
            | NotConnected
    )
}

fn line(peer: Option<&SocketAddr>, stage: Option<&str>, error: &io::Error) -> String {
    let from = peer.map_or("a client".to_owned(), SocketAddr::to_string);
    let at = stage.map_or(String::new(), |stage| format!(" at the stage `{stage}`"));
    // The error may contain another program's words, such as a client's.
    let error = error.to_string().replace(char::is_control, " ");
    format!("the connection from {from} ended with an error{at}: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_client_and_the_stage() {
        let peer = "127.0.0.1:4000".parse().unwrap();
        let error = io::Error::other("no such\nkey");
        assert_eq!(
            line(Some(&peer), Some("look up"), &error),
            "the connection from 127.0.0.1:4000 ended with an error at the stage `look up`: no such key"
        );
        let unknown = line(None, None, &error);
        assert_eq!(unknown, "the connection from a client ended with an error: no such key");
    }

    #[test]
    fn clients_that_break_off_are_no_errors() {
        for (kind, is_theirs) in [
            (ErrorKind::ConnectionReset, true),
            (ErrorKind::BrokenPipe, true),
            (ErrorKind::NotConnected, true),
            (ErrorKind::HostUnreachable, true),
            (ErrorKind::UnexpectedEof, false),
            (ErrorKind::InvalidData, false),
            (ErrorKind::TimedOut, false),
        ] {
            assert_eq!(is_the_clients(&kind.into()), is_theirs, "{kind}");
        }
    }
}
