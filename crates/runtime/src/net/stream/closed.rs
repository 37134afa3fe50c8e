//! Whether the peer is still there, for a service that waits for something else.
//!
//! A read finds the end of a connection. But a service that waits for a store or another server
//! does not read, and bytes of the next request may stand before the end. The kernel knows the
//! state of the connection in any case (`TCP_INFO`). So this is a look at that
//! state, at intervals. It is the same in every world, with TLS and without. It costs nothing where
//! the other wait is short.

use std::time::Duration;

use super::TcpStream;
pub use crate::tcp_info::Closed;
use crate::time::sleep;

/// The interval between two looks of [`TcpStream::closed`].
const LOOK: Duration = Duration::from_millis(250);

impl TcpStream {
    /// Whether the peer has closed, shut down its sending side, or reset the connection. A look,
    /// without a wait. Unread bytes are still there to be read, except after a reset.
    ///
    /// A client that is [injected](crate::net::Injector) never closes.
    #[must_use]
    pub fn has_closed(&self) -> Option<Closed> {
        self.socket.direct().has_closed()
    }

    /// Waits until the peer has closed, shut down its sending side, or reset the connection, and
    /// learns this within a quarter of a second.
    ///
    /// For a service that waits for something else than its peer:
    ///
    /// ```
    /// # use duality_runtime as duality;
    /// use std::io;
    ///
    /// use duality::net::TcpStream;
    /// use duality::select;
    /// use duality::time::{Duration, sleep};
    ///
    /// /// Thinks for long, but not for a client that has left.
    /// async fn think(stream: &TcpStream) -> io::Result<()> {
    ///     select! {
    ///         () = sleep(Duration::from_secs(3600)) => Ok(()),
    ///         _ = stream.closed() => Err(io::ErrorKind::ConnectionAborted.into()),
    ///     }
    /// }
    /// # use duality::net::{ListenOptions, TcpListener};
    /// # duality::block_on(async {
    /// # let any_port = ([127, 0, 0, 1], 0).into();
    /// # let mut listener = TcpListener::bind(any_port, &ListenOptions::default())?;
    /// # let client = TcpStream::connect(listener.local_addr()?).await?;
    /// # let (stream, _) = listener.accept().await?;
    /// # drop(client);
    /// # assert!(think(&stream).await.is_err());
    /// # io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    pub async fn closed(&self) -> Closed {
        loop {
            if let Some(closed) = self.has_closed() {
                return closed;
            }
            sleep(LOOK).await;
        }
    }
}
