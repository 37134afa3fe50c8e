//! A service's marks of its requests, for records
//! ([`visibility::Record`](crate::visibility::Record)).

use super::TcpStream;

impl TcpStream {
    /// Notes that a request begins: its first bytes have been read. For records
    /// ([`Record`](crate::visibility::Record)); without them, a branch.
    ///
    /// The first request of an accepted connection has begun with the connection, so that its time
    /// in queues counts.
    #[inline]
    pub fn begin_request(&mut self) {
        if let Some(client) = &mut self.client {
            client.begin();
        }
    }

    /// Notes that the oldest request that has begun on this handle and not ended is answered, its
    /// reply written. One that is never answered is not recorded.
    #[inline]
    pub fn end_request(&mut self) {
        if let Some(client) = &mut self.client {
            client.end();
        }
    }

    /// Gives up this process's handle of a connection that a child process goes on with.
    #[doc(hidden)]
    pub fn leave_to_child(mut self) {
        if let Some(client) = &mut self.client {
            client.leave_to_child();
        }
    }
}
