//! A connection on which Redis sends the messages of a channel.
//!
//! Redis sends every message to each of its subscriptions in the order in which it executed
//! PUBLISH, and the connection keeps that order. If a subscriber is too slow, Redis closes the
//! connection (`client-output-buffer-limit pubsub`). So a subscription has no gaps until it ends.
//! Which messages come later is unknown.

use std::io;

use duality_runtime::net::TcpStream;
use duality_runtime::time::{self, Duration, Instant};

use super::Fault;
use super::codec::{Reply, decode_reply, push_command};

/// The most bytes of one read.
const ROOM: usize = 16 << 10;

/// The silence after which the subscriber pings Redis.
const SILENCE: Duration = Duration::from_secs(1);

/// A subscription to one channel. Drop a subscription that fails.
pub(in crate::store) struct Subscription {
    stream: TcpStream,
    input: Vec<u8>,
    /// The received bytes from `decoded` to `filled` are not decoded yet.
    decoded: usize,
    filled: usize,
    /// How long Redis may take to reply.
    limit: Duration,
    /// The time by which Redis must answer a ping, if one was sent.
    asked: Option<Instant>,
}

/// A message of Redis to a subscriber.
enum Said {
    /// Redis has confirmed the subscription.
    Subscribed,
    /// A message was published.
    Message(Vec<u8>),
    /// Redis has answered a ping.
    Pong,
}

impl Subscription {
    /// Subscribes to `channel` on a good connection.
    pub(super) async fn begin(
        mut stream: TcpStream,
        channel: &[u8],
        limit: Duration,
    ) -> Result<Self, Fault> {
        let mut command = Vec::new();
        push_command(&mut command, &[b"SUBSCRIBE", channel]);
        stream.write_all(&command).await.map_err(Fault::from_exchange)?;
        let input = vec![0; ROOM];
        let mut new = Self { stream, input, decoded: 0, filled: 0, limit, asked: None };
        // The first read has the time limit of a reply. Redis normally sends the reply in one
        // piece.
        match new.said().await? {
            Some(Said::Subscribed) => {}
            Some(_) => return Err(Fault::Confused("is no answer to SUBSCRIBE")),
            None => return Err(Fault::Late),
        }
        new.stream.set_read_timeout(Some(SILENCE.min(limit))).map_err(Fault::Gone)?;
        Ok(new)
    }

    /// Waits for the next message. `None` if there was none for about a second.
    pub(in crate::store) async fn next(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        loop {
            match self.said().await? {
                Some(Said::Message(message)) => return Ok(Some(message)),
                Some(Said::Pong) => {}
                Some(Said::Subscribed) => return Err(Fault::Confused("was not asked for")),
                None => {
                    self.look_after().await?;
                    return Ok(None);
                }
            }
        }
    }

    /// Whether `next` may return a message without a wait.
    pub(in crate::store) fn has_more(&self) -> bool {
        self.decoded < self.filled
    }

    /// Pings a silent Redis, and gives it up if it does not answer in time.
    async fn look_after(&mut self) -> Result<(), Fault> {
        match self.asked {
            Some(until) if time::now() > until => Err(Fault::Late),
            Some(_) => Ok(()),
            None => {
                let mut ping = Vec::new();
                push_command(&mut ping, &[b"PING"]);
                self.asked = Some(time::now() + self.limit);
                self.stream.write_all(&ping).await.map_err(Fault::from_exchange)
            }
        }
    }

    /// The next message of Redis. `None` after a silence.
    async fn said(&mut self) -> Result<Option<Said>, Fault> {
        loop {
            if let Some((reply, length)) = decode_reply(&self.input[self.decoded..self.filled])? {
                self.decoded += length;
                self.asked = None;
                return understand(reply).map(Some);
            }
            self.make_room();
            match self.stream.read(&mut self.input[self.filled..]).await {
                Ok(0) => return Err(Fault::Gone(io::ErrorKind::UnexpectedEof.into())),
                Ok(length) => self.filled += length,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(None),
                Err(error) => return Err(Fault::Gone(error)),
            }
        }
    }

    /// Makes room for more of a reply that is not complete.
    fn make_room(&mut self) {
        self.input.copy_within(self.decoded..self.filled, 0);
        (self.decoded, self.filled) = (0, self.filled - self.decoded);
        if self.filled == self.input.len() {
            // The size is bounded, because the decoder bounds the length of a reply.
            self.input.resize(2 * self.filled, 0);
        }
    }
}

/// Redis sends `subscribe`, a channel and a count; `message`, a channel and a message; or `pong`
/// and an empty text.
fn understand(reply: Reply) -> Result<Said, Fault> {
    const STRANGE: Fault = Fault::Confused("is nothing that a subscriber is told");
    let words = match reply {
        Reply::Array(words) => words,
        Reply::Error(text) => return Err(Fault::Refused(text)),
        _ => return Err(STRANGE),
    };
    let mut words = words.into_iter();
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some(Reply::BulkString(word)), Some(Reply::BulkString(_)), third, None) => {
            match (&word[..], third) {
                (b"subscribe", Some(Reply::Integer(_))) => Ok(Said::Subscribed),
                (b"message", Some(Reply::BulkString(message))) => Ok(Said::Message(message)),
                (b"pong", None) => Ok(Said::Pong),
                _ => Err(STRANGE),
            }
        }
        _ => Err(STRANGE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn understood(bytes: &str) -> Option<String> {
        let (reply, length) = decode_reply(bytes.as_bytes()).unwrap().unwrap();
        assert_eq!(length, bytes.len());
        Some(match understand(reply).ok()? {
            Said::Subscribed => "subscribed".to_owned(),
            Said::Message(message) => String::from_utf8(message).unwrap(),
            Said::Pong => "pong".to_owned(),
        })
    }

    #[test]
    fn what_redis_says_to_a_subscriber_is_understood() {
        for (reply, expected) in [
            ("*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n", Some("subscribed")),
            ("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n", Some("hi")),
            ("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$0\r\n\r\n", Some("")),
            ("*2\r\n$4\r\npong\r\n$0\r\n\r\n", Some("pong")),
            ("+PONG\r\n", None),
            ("-ERR no\r\n", None),
            ("*0\r\n", None),
            ("*2\r\n$7\r\nmessage\r\n$1\r\nc\r\n", None),
            ("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n:1\r\n", None),
            ("*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\nc\r\n$2\r\nhi\r\n", None),
        ] {
            assert_eq!(understood(reply).as_deref(), expected, "{reply:?}");
        }
    }
}
