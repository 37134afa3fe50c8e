//! Load patterns, one file each: how many requests are under way at a time, and when the next begins.
//!
//! A pattern knows nothing of what a request is: it drives any [`Client`](crate::client::Client), and
//! tells the [`Recorder`] how each request ended.

pub(crate) mod closed;

use std::time::Duration;

use duality_runtime::net::TcpStream;

use crate::failure::Failure;
use crate::recorder::Recorder;
use crate::sources::Route;

/// What the connections of a load share.
pub(crate) struct Load {
    pub(crate) address: Route,
    /// Whether a connection carries more than one request.
    pub(crate) keep_alive: bool,
    pub(crate) reply_timeout: Duration,
    pub(crate) recorder: Recorder,
}

/// Opens a connection on which no wait is longer than `limit`.
pub(crate) async fn connect(
    address: impl Into<Route>,
    limit: Duration,
) -> Result<TcpStream, Failure> {
    address.into().connect(limit).await
}
