//! Load patterns, one file each: how many requests are under way at a time, and when the next begins.
//!
//! A pattern knows nothing of what a request is: it drives any [`Client`](crate::client::Client), and
//! tells the [`Recorder`] how each request ended.

pub(crate) mod closed;
pub(crate) mod open;

use std::net::SocketAddr;
use std::time::Duration;

use duality_runtime::net::TcpStream;
use duality_runtime::time;

use crate::client::{Client, Reply};
use crate::failure::Failure;
use crate::recorder::Recorder;

pub use open::arrivals::Arrivals;

/// How clients behave: how many requests are under way at a time, and when the next begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// Every connection makes its next request when the last is answered. Demsky's *long* with
    /// keep-alive, and his *short* without.
    Closed,
    /// Requests are due when these arrivals say, whatever became of those before.
    Open(Arrivals),
}

impl Pattern {
    /// The name on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Pattern::Closed => "closed",
            Pattern::Open(_) => "open",
        }
    }
}

/// How long a connection that could not be opened waits before the next attempt: this at first, twice
/// as long each time it fails again, and no longer than a second.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What the connections of a load share.
pub(crate) struct Load {
    pub(crate) address: SocketAddr,
    /// Whether a connection carries more than one request.
    pub(crate) keep_alive: bool,
    pub(crate) reply_timeout: Duration,
    pub(crate) recorder: Recorder,
}

impl Load {
    /// Opens a connection of the load.
    async fn connect<C: Client>(&self, client: &mut C) -> Result<TcpStream, Failure> {
        let stream = connect(self.address, self.reply_timeout).await?;
        self.recorder.connected();
        client.connected();
        Ok(stream)
    }

    /// Makes one request on the open connection, or on a new one if there is none, and leaves the
    /// connection open only if it may carry another. A connection that turns out to have been closed
    /// between two requests is replaced, and that is no failure.
    #[inline]
    async fn request<C: Client>(
        &self,
        client: &mut C,
        connection: &mut Option<TcpStream>,
    ) -> Result<Reply, Failure> {
        if let Some(stream) = connection {
            match client.exchange(stream).await {
                Err(failure) if failure.is_before_reply() => {}
                other => return other,
            }
        }
        *connection = None;
        let stream = self.connect(client).await?;
        client.exchange(connection.insert(stream)).await
    }
}

/// Waits ever longer, so that a server that cannot be reached is not asked in a busy loop.
struct Pauses {
    next: Duration,
}

impl Pauses {
    fn new() -> Self {
        Self { next: FIRST_PAUSE }
    }

    /// Waits if it was the connection that failed.
    async fn after(&mut self, failure: &Failure) {
        if failure.is_connect() {
            time::sleep(self.next).await;
            self.next = (2 * self.next).min(LONGEST_PAUSE);
        }
    }
}

/// Opens a connection on which no wait is longer than `limit`.
pub(crate) async fn connect(address: SocketAddr, limit: Duration) -> Result<TcpStream, Failure> {
    let connected = time::timeout(limit, TcpStream::connect(address)).await;
    let connected = connected.map_err(|_| Failure::ConnectTimeout)?;
    let mut stream = connected.map_err(Failure::from_connect)?;
    stream.set_read_timeout(Some(limit)).map_err(Failure::Io)?;
    stream.set_write_timeout(Some(limit)).map_err(Failure::Io)?;
    Ok(stream)
}
