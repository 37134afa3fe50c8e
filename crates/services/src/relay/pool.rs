//! Idle connections to the upstreams. Each event loop has its own pool; tasks that are kernel
//! threads share one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use duality_runtime::net::TcpStream;
use duality_runtime::time::{self, Duration, Instant};

/// A bounded number of idle connections.
#[derive(Debug)]
pub(super) struct Pool {
    inner: Mutex<Inner>,
    limit: usize,
    longest: Duration,
}

#[derive(Debug, Default)]
struct Inner {
    /// The connection that was used last is last.
    idle: Vec<Idle>,
}

#[derive(Debug)]
struct Idle {
    upstream: usize,
    stream: TcpStream,
    since: Instant,
}

impl Pool {
    /// A pool of at most `limit` connections, none of them idle for longer than `longest`.
    pub(super) fn new(limit: usize, longest: Duration) -> Self {
        Self { inner: Mutex::default(), limit, longest }
    }

    /// The connection to an upstream that was used last, if it is still good.
    ///
    /// The look at the socket costs a system call. In return, a connection that the upstream has
    /// closed is found out before a request is sent, so that no outcome is in doubt. And bytes that
    /// no request has asked for begin no reply.
    pub(super) fn take(&self, upstream: usize) -> Option<TcpStream> {
        loop {
            let mut inner = self.inner();
            let at = inner.idle.iter().rposition(|idle| idle.upstream == upstream)?;
            let idle = inner.idle.remove(at);
            drop(inner);
            if time::since(idle.since) <= self.longest && idle.stream.is_quiet() {
                return Some(idle.stream);
            }
        }
    }

    /// Keeps a connection after a complete reply.
    pub(super) fn put(&self, upstream: usize, stream: TcpStream) {
        let now = time::now();
        let mut inner = self.inner();
        let old = |idle: &Idle| now.saturating_duration_since(idle.since) > self.longest;
        let is_full = inner.idle.len() >= self.limit;
        // The oldest one is first.
        let dropped = match inner.idle.first() {
            Some(first) if is_full || old(first) => Some(inner.idle.remove(0)),
            _ => None,
        };
        if inner.idle.len() < self.limit {
            inner.idle.push(Idle { upstream, stream, since: now });
        }
        drop(inner);
        // Closing takes a system call, which needs no lock.
        drop(dropped);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // No code can panic while it holds the lock.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
