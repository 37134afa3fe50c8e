//! Idle connections: one request, and then silence.

use std::time::Instant;

use duality_runtime::net::TcpStream;

use super::Shared;
use super::fate::Gone;
use crate::failure::Failure;

pub(super) async fn enter(shared: &Shared) -> Result<TcpStream, Failure> {
    let mut stream = shared.route.connect(shared.limit).await?;
    // Boxed, so that the resting task has no room reserved for it.
    let reply = Box::pin(shared.question.ask(&mut stream)).await?;
    if !reply.open {
        return Err(Failure::ClosedEarly { received: reply.bytes });
    }
    stream.set_read_timeout(None).map_err(Failure::Io)?;
    Ok(stream)
}

pub(super) async fn stay(mut stream: TcpStream) -> Gone {
    let since = Instant::now();
    // A server that sends data without a request is about to close.
    let _ = stream.read(&mut [0]).await;
    Gone::Cut(since.elapsed())
}
