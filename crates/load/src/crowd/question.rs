//! The crowd's request to a service. The request is always the same, and leaves nothing on the
//! server.

use std::pin::Pin;
use std::sync::Arc;

use duality_runtime::net::TcpStream;

use crate::failure::Failure;
use crate::request::{Reply, read_more};

/// A reply of one line is shorter than this.
const LONGEST_LINE: usize = 512;

/// A request, and the rule for the end of its reply.
#[derive(Clone)]
pub(crate) struct Question {
    pub(super) request: Arc<[u8]>,
    end: End,
}

#[derive(Clone)]
enum End {
    /// The reply is a line.
    Line,
    /// The reply is known.
    Bytes(Arc<[u8]>),
    /// The client finds the end of the reply.
    Client(Take),
}

/// Takes a reply from a connection.
type Take = Arc<dyn for<'a> Fn(&'a mut TcpStream) -> Taking<'a> + Send + Sync>;
type Taking<'a> = Pin<Box<dyn Future<Output = Result<Reply, Failure>> + Send + 'a>>;

impl Question {
    /// A question with a reply that the client's own `take` takes.
    pub(crate) fn new(
        request: Arc<[u8]>,
        take: impl for<'a> Fn(&'a mut TcpStream) -> Taking<'a> + Send + Sync + 'static,
    ) -> Self {
        Self { request, end: End::Client(Arc::new(take)) }
    }

    /// A question with one line as its reply.
    pub(crate) fn line(request: &[u8]) -> Self {
        Self { request: request.into(), end: End::Line }
    }

    /// A question with these bytes as its reply.
    pub(crate) fn exchange(request: &[u8], reply: &[u8]) -> Self {
        Self { request: request.into(), end: End::Bytes(reply.into()) }
    }

    /// Makes the request and takes the reply, without delay.
    pub(super) async fn ask(&self, stream: &mut TcpStream) -> Result<Reply, Failure> {
        let sent = stream.write_all(&self.request).await;
        sent.map_err(|error| Failure::from_transfer(error, 0))?;
        self.hear(stream, Vec::new()).await
    }

    /// Judges `words` that the server sent before the request was complete. Echo answers byte for
    /// byte. No other service can have an answer yet.
    pub(super) fn hear_early(&self, words: &[u8]) -> Result<(), Failure> {
        match &self.end {
            End::Bytes(reply) if !words.is_empty() && reply.starts_with(words) => Ok(()),
            _ => Err(parting(words)),
        }
    }

    /// Takes the rest of the reply to a request, after the bytes that have been read.
    pub(super) async fn hear(
        &self,
        stream: &mut TcpStream,
        heard: Vec<u8>,
    ) -> Result<Reply, Failure> {
        match &self.end {
            End::Client(take) => take(stream).await,
            End::Bytes(expected) => {
                let all = |reply: &[u8]| reply.len() == expected.len();
                let reply = take(stream, heard, expected.len(), all).await?;
                if *reply != **expected {
                    return Err(Failure::WrongBytes("it is not what was expected"));
                }
                Ok(Reply::at_once(reply.len() as u64, true))
            }
            End::Line => {
                let ended = |line: &[u8]| line.ends_with(b"\n");
                let line = take(stream, heard, LONGEST_LINE, ended).await?;
                if says_full(&line) {
                    return Err(Failure::ServerFull);
                }
                Ok(Reply::at_once(line.len() as u64, true))
            }
        }
    }
}

/// The reason why a server closes a connection, judged by its last bytes.
fn parting(words: &[u8]) -> Failure {
    match says_full(words) {
        true => Failure::ServerFull,
        false => Failure::ClosedEarly { received: words.len() as u64 },
    }
}

/// Whether `words` say that the server has no room for the client.
pub(super) fn says_full(words: &[u8]) -> bool {
    let status = words.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2..5));
    words.starts_with(b"* the server is full") || status == Some(b"503")
}

/// Continues from the first `bytes` and reads up to `most` bytes in all, until they are `complete`.
async fn take(
    stream: &mut TcpStream,
    mut bytes: Vec<u8>,
    most: usize,
    complete: impl Fn(&[u8]) -> bool,
) -> Result<Vec<u8>, Failure> {
    let mut received = bytes.len();
    bytes.resize(most.max(received), 0);
    while !complete(&bytes[..received]) {
        if received == bytes.len() {
            return Err(Failure::Malformed("it is too long"));
        }
        received += read_more(stream, &mut bytes[received..], received as u64).await?;
    }
    bytes.truncate(received);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;

    #[test]
    fn a_server_that_is_full_says_so() {
        for words in ["HTTP/1.1 503 Service Unavailable\r\n", "* the server is full\n"] {
            assert!(says_full(words.as_bytes()), "{words}");
        }
        for words in ["HTTP/1.1 408 Request Timeout\r\n", "HTTP/1.1", "", "ERROR\n"] {
            assert!(!says_full(words.as_bytes()), "{words}");
        }
    }

    #[test]
    fn only_an_echo_may_come_early() {
        let early = |target: &str, words: &[u8]| {
            target.parse::<Target>().unwrap().question().unwrap().hear_early(words)
        };
        assert!(early("echo://127.0.0.1:80", b"0123").is_ok());
        for words in [&b""[..], b"0124"] {
            assert!(early("echo://127.0.0.1:80", words).is_err());
        }
        assert!(early("quote://127.0.0.1:80", b"DUALITY").is_err());
    }

    #[test]
    fn services_that_cannot_be_asked_alone_have_no_question() {
        for (target, asked) in [
            ("http://127.0.0.1:80/", true),
            ("guestbook://127.0.0.1:80", true),
            ("echo://127.0.0.1:80", true),
            ("quote://127.0.0.1:80", true),
            ("phone://127.0.0.1:80", true),
            ("chat://127.0.0.1:80", false),
            ("game://127.0.0.1:80", false),
            ("time://127.0.0.1:80", false),
        ] {
            let parsed: Target = target.parse().unwrap();
            assert_eq!(parsed.question().is_some(), asked, "{target}");
        }
    }
}
