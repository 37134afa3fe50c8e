//! Both directions after a switch of protocols: bytes pass as they come, until both sides have
//! ended, or both have been silent for too long.
//!
//! A drain ends the input of the client, and so tells the upstream of the end.

use std::future::poll_fn;
use std::io;
use std::net::Shutdown;
use std::pin::pin;
use std::task::{Context, Poll};

use duality_runtime::net::{Input, TcpStream};
use duality_runtime::task;
use duality_runtime::time::timeout;

use super::back::Back;
use super::limits::{Limits, PIECE};
use crate::http::Wire;

/// Bytes on their way to one side.
struct Direction {
    bytes: Vec<u8>,
    length: usize,
    sent: usize,
    /// The sender has ended.
    has_ended: bool,
    /// The receiver has been told of it.
    is_over: bool,
}

impl Direction {
    /// A direction that begins with bytes that have come already.
    fn new(begun: &[u8]) -> Self {
        let mut bytes = begun.to_vec();
        bytes.resize(PIECE.max(begun.len()), 0);
        Self { bytes, length: begun.len(), sent: 0, has_ended: false, is_over: false }
    }

    /// Tries the operation that is due.
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        from: &mut TcpStream,
        to: &mut TcpStream,
    ) -> Poll<io::Result<()>> {
        if self.sent < self.length {
            let sent = to.poll_write(context, &self.bytes[self.sent..self.length]);
            // A drain ends the client's input here.
            to.set_outlives_drain(false);
            sent.map_ok(|sent| self.sent += sent)
        } else if self.has_ended && !self.is_over {
            let ended = to.poll_shutdown(context);
            to.set_outlives_drain(false);
            ended.map_ok(|()| self.is_over = true)
        } else if self.has_ended {
            Poll::Pending
        } else {
            pin!(from.read(&mut self.bytes)).poll(context).map_ok(|length| {
                (self.length, self.sent, self.has_ended) = (length, 0, length == 0);
            })
        }
    }
}

/// Passes bytes on until both sides have ended. Begins with what has come already.
pub(super) async fn tunnel(
    limits: &Limits,
    wire: &mut Wire<'_>,
    input: &mut Input,
    mut back: Back<'_>,
) -> io::Result<()> {
    task::stage("relay: tunnel").await;
    wire.flush().await?;
    let (mut forth, mut home) =
        (Direction::new(input.unused()), Direction::new(back.input.unused()));
    input.consume(input.unused().len());
    let (client, server) = (wire.stream(), &mut back.stream);
    // The one wait below has its own limit.
    client.set_read_timeout(None)?;
    server.set_read_timeout(None)?;
    server.set_write_timeout(None)?;
    while !(forth.is_over && home.is_over) {
        let step = poll_fn(|context| {
            let steps = [forth.poll(context, client, server), home.poll(context, server, client)];
            let mut moved = steps.into_iter().filter_map(|step| match step {
                Poll::Ready(outcome) => Some(outcome),
                Poll::Pending => None,
            });
            match moved.next() {
                None => Poll::Pending,
                Some(Err(error)) => Poll::Ready(Err(error)),
                Some(Ok(())) => Poll::Ready(moved.next().unwrap_or(Ok(()))),
            }
        });
        match timeout(limits.reply_time, task::gather(step)).await {
            Ok(Ok(())) => {}
            // One side has broken off, or both are silent. There is no reply that could tell of it.
            Ok(Err(_)) | Err(_) => break,
        }
    }
    let _ = client.shutdown(Shutdown::Write).await;
    Ok(())
}
