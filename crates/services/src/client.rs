//! The client that a wait for a store is made for. If the client leaves, the wait ends early.

use duality_runtime::net::{Closed, TcpStream};
use duality_runtime::time::{Duration, sleep};

/// A wait for the store is cut into slices of this length. After each slice, the call looks whether
/// its client is still there. A shorter wait costs no look.
pub(crate) const SLICE: Duration = Duration::from_millis(500);

/// The client that a call is made for. The default is no client, so the call ends with its result.
#[derive(Clone, Copy, Default)]
pub struct Client<'c> {
    stream: Option<&'c TcpStream>,
    serves_half_closed: bool,
}

impl<'c> Client<'c> {
    /// No client.
    pub(crate) const NONE: Self = Self { stream: None, serves_half_closed: false };

    /// The client at the other end of `stream`.
    ///
    /// A client that has shut down its sending side cannot be told from one that has closed. It
    /// counts as one that has left, unless `serves_half_closed`.
    #[must_use]
    pub fn of(stream: &'c TcpStream, serves_half_closed: bool) -> Self {
        Self { stream: Some(stream), serves_half_closed }
    }

    /// Whether the client waits no more for its reply.
    #[must_use]
    pub fn has_left(&self) -> bool {
        match self.stream.and_then(TcpStream::has_closed) {
            None => false,
            Some(Closed::Sending) => !self.serves_half_closed,
            Some(Closed::Both) => true,
        }
    }

    /// Whether there is a client that may leave.
    pub(crate) fn may_leave(&self) -> bool {
        self.stream.is_some()
    }

    /// Waits until the client has left.
    pub(crate) async fn leaves(&self) {
        loop {
            sleep(SLICE).await;
            if self.has_left() {
                return;
            }
        }
    }
}
