//! Idle connections to the upstreams. Each event loop has its own pool; tasks that are kernel
//! threads share one.

use std::sync::Arc;

use duality_runtime::net::TcpStream;
use duality_runtime::time::Duration;

use crate::idle::Idle;

/// A bounded number of idle connections, each with the number of its upstream.
#[derive(Debug)]
pub(super) struct Pool(Arc<Idle<(usize, TcpStream)>>);

impl Pool {
    /// A pool of at most `limit` connections, none of them idle for longer than `longest`.
    pub(super) fn new(limit: usize, longest: Duration) -> Self {
        Self(Idle::new(limit, Some(longest)))
    }

    /// The connection to an upstream that was used last, if it is still good.
    ///
    /// The look at the socket costs a system call. In return, a connection that the upstream has
    /// closed is found out before a request is sent, so that no outcome is in doubt. And bytes that
    /// no request has asked for begin no reply.
    pub(super) fn take(&self, upstream: usize) -> Option<TcpStream> {
        loop {
            let (_, stream) = self.0.take(|(number, _)| *number == upstream)?;
            if stream.is_quiet() {
                return Some(stream);
            }
        }
    }

    /// Keeps a connection after a complete reply.
    pub(super) fn put(&self, upstream: usize, stream: TcpStream) {
        self.0.put((upstream, stream));
    }
}
