//! Load patterns, one file each: how many requests are under way at a time, and when the next begins.
//!
//! A pattern knows nothing of what a request is: it drives any [`Client`](crate::client::Client), and
//! tells the [`Recorder`] how each request ended.

pub(crate) mod closed;

use std::net::SocketAddr;
use std::time::Duration;

use duality_runtime::net::TcpStream;
use duality_runtime::time;

use crate::failure::Failure;
use crate::recorder::Recorder;

/// What the connections of a load share.
pub(crate) struct Load {
    pub(crate) address: SocketAddr,
    /// Whether a connection carries more than one request.
    pub(crate) keep_alive: bool,
    pub(crate) reply_timeout: Duration,
    pub(crate) recorder: Recorder,
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
