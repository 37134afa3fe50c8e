//! mini-redis, as its own binary runs it: the library behind a listener, until ctrl-c.

use tokio::net::TcpListener;
use tokio::signal;

/// Serves until ctrl-c.
///
/// # Errors
///
/// If the port is taken, or connections can no longer be accepted.
pub async fn run() -> mini_redis::Result<()> {
    let listener = TcpListener::bind("0.0.0.0:6379").await?;
    mini_redis::server::run(listener, signal::ctrl_c()).await
}
