//! What the crowd asks a service: one request, always the same, of which the server keeps nothing.

use std::sync::Arc;

use duality_runtime::net::TcpStream;

use crate::Target;
use crate::client::{Reply, http};
use crate::failure::Failure;

/// A line that is no shorter is no reply.
const LONGEST_LINE: usize = 512;

/// A request, and how the end of its reply is known.
#[derive(Clone)]
pub(super) struct Question {
    pub(super) request: Arc<[u8]>,
    end: End,
}

#[derive(Clone)]
enum End {
    /// It is a line.
    Line,
    /// It is known.
    Bytes(Arc<[u8]>),
    /// It is a page.
    Page,
}

impl Question {
    /// The question to a service; `None` where nobody can ask one by himself, and be asked to stay.
    pub(super) fn of(target: &Target) -> Option<Self> {
        let (request, end) = match target {
            Target::Http(page) | Target::Guestbook { page, .. } => {
                (http::request(page, true), End::Page)
            }
            Target::Echo { message, .. } => {
                (message.as_slice().into(), End::Bytes(message.as_slice().into()))
            }
            Target::Exchange { request, reply, .. } => {
                (request.as_slice().into(), End::Bytes(reply.as_slice().into()))
            }
            Target::Quote { .. } => (b"DUALITY\n".as_slice().into(), End::Line),
            Target::Phone { .. } => (b"FIND Nobody\n".as_slice().into(), End::Line),
            Target::Time { .. } | Target::Game { .. } | Target::Chat { .. } => return None,
        };
        Some(Self { request, end })
    }

    /// Makes the request and takes the reply, without delay.
    pub(super) async fn ask(&self, stream: &mut TcpStream) -> Result<Reply, Failure> {
        let sent = stream.write_all(&self.request).await;
        sent.map_err(|error| Failure::from_transfer(error, 0))?;
        self.hear(stream).await
    }

    /// Takes the reply to a request that has been made.
    pub(super) async fn hear(&self, stream: &mut TcpStream) -> Result<Reply, Failure> {
        match &self.end {
            End::Page => http::take_page(stream).await,
            End::Bytes(expected) => {
                let reply = take(stream, expected.len(), |reply| reply.len() == expected.len());
                match *reply.await? == **expected {
                    true => Ok(Reply { bytes: expected.len() as u64, open: true }),
                    false => Err(Failure::WrongBytes("it is not what was expected")),
                }
            }
            End::Line => {
                let line = take(stream, LONGEST_LINE, |line| line.ends_with(b"\n")).await?;
                match early(&line) {
                    Failure::ServerFull => Err(Failure::ServerFull),
                    _ => Ok(Reply { bytes: line.len() as u64, open: true }),
                }
            }
        }
    }
}

/// What it means that the server said `words` before it was asked.
pub(super) fn early(words: &[u8]) -> Failure {
    let status = words.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2..5));
    if words.starts_with(b"* the server is full") || status == Some(b"503") {
        Failure::ServerFull
    } else {
        Failure::ClosedEarly { received: words.len() as u64 }
    }
}

/// Reads up to `most` bytes, until they are `complete`.
async fn take(
    stream: &mut TcpStream,
    most: usize,
    complete: impl Fn(&[u8]) -> bool,
) -> Result<Vec<u8>, Failure> {
    let mut bytes = vec![0; most];
    let mut received = 0;
    while received < most {
        match stream.read(&mut bytes[received..]).await {
            Ok(0) => return Err(Failure::ClosedEarly { received: received as u64 }),
            Ok(count) => received += count,
            Err(error) => return Err(Failure::from_transfer(error, received as u64)),
        }
        if complete(&bytes[..received]) {
            bytes.truncate(received);
            return Ok(bytes);
        }
    }
    Err(Failure::Malformed("the line is too long"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_full_says_so() {
        for words in ["HTTP/1.1 503 Service Unavailable\r\n", "* the server is full\n"] {
            assert!(matches!(early(words.as_bytes()), Failure::ServerFull), "{words}");
        }
        for words in ["HTTP/1.1 408 Request Timeout\r\n", "HTTP/1.1", "", "ERROR\n"] {
            assert!(matches!(early(words.as_bytes()), Failure::ClosedEarly { .. }), "{words}");
        }
    }

    #[test]
    fn who_needs_company_is_asked_nothing() {
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
            assert_eq!(Question::of(&target.parse().unwrap()).is_some(), asked, "{target}");
        }
    }
}
