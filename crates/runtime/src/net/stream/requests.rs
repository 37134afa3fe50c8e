//! A service's notes on its requests, for records
//! ([`visibility::Record`](crate::visibility::Record)), the histogram of latencies and the request
//! log.

use std::any::Any;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::getpeername;

use super::TcpStream;
use crate::net::internet_address;
use crate::tcp_info::tcp_info;
use crate::visibility::{Client, note_failed_request};

impl TcpStream {
    /// Notes that a request begins: its first bytes have been read. Records
    /// ([`Record`](crate::visibility::Record)) need this note. Without them, the call costs a
    /// branch.
    ///
    /// The first request of an accepted connection began with the connection, so that its time in
    /// queues counts.
    #[inline]
    pub fn begin_request(&mut self) {
        if let Some(client) = &mut self.client {
            let socket = self.socket.as_fd();
            client.begin(|| address_of_peer(socket));
        }
    }

    /// Notes that the reply to the oldest unanswered request of this handle has been written. A
    /// request without a reply is not recorded.
    #[inline]
    pub fn end_request(&mut self) {
        if let Some(client) = &mut self.client {
            let socket = self.socket.as_fd();
            client.end(|| tcp_info(socket).map_or(0, |info| info.rtt));
        }
    }

    /// Notes that the answer to a request tells of a failure of the service, such as the status 500
    /// of HTTP. A trial counts it as an error, and so do the metrics. The request ends by
    /// [`end_request`](TcpStream::end_request), too.
    pub fn fail_request(&mut self) {
        note_failed_request();
    }

    /// Whether the request log wants [`describe_request`](TcpStream::describe_request).
    #[inline]
    #[doc(hidden)]
    pub fn is_logged(&self) -> bool {
        self.client.as_ref().is_some_and(|client| client.is_logged())
    }

    /// Describes the oldest request without a description, for the request log. The description has
    /// the request and its reply, as members of a JSON object.
    #[doc(hidden)]
    pub fn describe_request(&mut self, members: String) {
        if let Some(client) = &mut self.client {
            client.describe(members);
        }
    }

    /// Keeps `held` until this handle is dropped. If it is the only handle, that is the end of the
    /// connection.
    #[doc(hidden)]
    pub fn hold(&mut self, held: Box<dyn Any + Send + Sync>) {
        self.client.get_or_insert_with(Client::new).hold(held);
    }

    /// The argument of [`hold`](TcpStream::hold).
    #[doc(hidden)]
    pub fn release(&mut self) -> Option<Box<dyn Any + Send + Sync>> {
        self.client.as_mut().and_then(|client| client.release())
    }

    /// Gives up this process's handle of a connection that a child process takes over.
    #[doc(hidden)]
    pub fn leave_to_child(mut self) {
        if let Some(client) = &mut self.client {
            client.leave_to_child();
        }
    }
}

/// The address of the other end, without its port. `None` if there is none any more.
fn address_of_peer(socket: BorrowedFd<'_>) -> Option<String> {
    let peer = internet_address(getpeername(socket).ok()?).ok()?;
    Some(peer.ip().to_canonical().to_string())
}
