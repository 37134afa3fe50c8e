//! One connection to Redis: commands out, replies in, within bounds of time and size.

use std::io;

use duality_runtime::net::TcpStream;
use duality_runtime::time::{self, Duration, Instant};

use super::codec::{Reply, decode_reply};
use super::{Fault, Subscription};
use crate::client::{Client, SLICE};

/// The room for bytes that a connection keeps between calls.
const ROOM: usize = 4 << 10;

/// A connection on which every command has had its reply. Drop a connection that fails.
pub(super) struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    limit: Duration,
}

impl Connection {
    /// A connection with a time limit for each exchange.
    pub(super) fn new(mut stream: TcpStream, limit: Duration) -> io::Result<Self> {
        stream.set_read_timeout(Some(limit.min(SLICE)))?;
        stream.set_write_timeout(Some(limit.min(SLICE)))?;
        Ok(Self { stream, input: vec![0; ROOM], limit })
    }

    /// Whether the peer has neither closed nor sent anything since the last exchange.
    ///
    /// The check costs a system call for each use of an idle connection. In return, a restart of
    /// Redis is noticed *before* a command is sent, so no outcome is in doubt.
    pub(super) fn is_quiet(&self) -> bool {
        self.stream.is_quiet()
    }

    /// Turns the connection into a subscription to `channel`.
    pub(super) async fn subscribe(mut self, channel: &[u8]) -> Result<Subscription, Fault> {
        self.stream.set_read_timeout(Some(self.limit)).map_err(Fault::Gone)?;
        self.stream.set_write_timeout(Some(self.limit)).map_err(Fault::Gone)?;
        Subscription::begin(self.stream, channel, self.limit).await
    }

    /// Sends `commands`, and waits for their `count` replies, but not longer than the client does.
    pub(super) async fn exchange(
        &mut self,
        mut commands: &[u8],
        count: usize,
        client: Client<'_>,
    ) -> Result<Vec<Reply>, Fault> {
        // A limit on each read would not stop a peer that sends byte by byte.
        let deadline = time::now() + self.limit;
        while !commands.is_empty() {
            match self.stream.write(commands).await {
                Ok(sent) => commands = &commands[sent..],
                Err(error) => goes_on(error, deadline, client)?,
            }
        }
        let mut replies = Vec::with_capacity(count);
        let (mut decoded, mut filled) = (0, 0);
        loop {
            while replies.len() < count
                && let Some((reply, length)) = decode_reply(&self.input[decoded..filled])?
            {
                decoded += length;
                replies.push(reply);
            }
            if replies.len() == count {
                break;
            }
            if filled == self.input.len() {
                // The size is bounded, because the decoder bounds the length of a reply.
                self.input.resize(2 * filled, 0);
            }
            match self.stream.read(&mut self.input[filled..]).await {
                Ok(0) => return Err(Fault::Gone(io::ErrorKind::UnexpectedEof.into())),
                Ok(length) => filled += length,
                Err(error) => goes_on(error, deadline, client)?,
            }
            if time::now() > deadline {
                return Err(Fault::Late);
            }
        }
        if decoded < filled {
            return Err(Fault::Confused("goes on after its end"));
        }
        if self.input.len() > ROOM {
            self.input = vec![0; ROOM];
        }
        Ok(replies)
    }
}

/// Judges the error of a wait, which had a slice of time. No fault: the wait goes on.
fn goes_on(error: io::Error, deadline: Instant, client: Client<'_>) -> Result<(), Fault> {
    match Fault::from_exchange(error) {
        Fault::Late if time::now() >= deadline => Err(Fault::Late),
        Fault::Late if client.has_left() => Err(Fault::ClientLeft),
        Fault::Late => Ok(()),
        fault => Err(fault),
    }
}
