//! What clients ask for, and how they know where a reply ends.

use std::sync::Arc;

/// What clients of echo send.
const ECHOED: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.\n";

/// A request, and the end of its reply.
#[derive(Clone, Debug)]
pub struct Exchange {
    request: Arc<[u8]>,
    end: End,
    is_persistent: bool,
}

#[derive(Clone, Copy, Debug)]
enum End {
    /// After so many bytes.
    Length(usize),
    /// After a line.
    Line,
    /// Where the head of an HTTP reply says.
    Head,
    /// Where the server closes.
    Close,
}

/// What has come of a reply.
#[derive(Debug, Default)]
pub(super) struct Progress {
    received: usize,
    /// The length of the whole reply, once it is known.
    length: Option<usize>,
    /// A head that is not whole.
    head: Vec<u8>,
}

/// The reply is whole, goes on, or is none that the client understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Whole,
    Part,
    Wrong,
}

impl Exchange {
    /// The exchange that `duality load` has with this service. `None` for services that have no
    /// single reply to a request, or work that no unit cost prices, such as a store's.
    #[must_use]
    pub fn of(service: &str) -> Option<Self> {
        let (request, end, is_persistent): (&[u8], End, bool) = match service {
            "echo" => (ECHOED, End::Length(ECHOED.len()), true),
            "http" => (b"GET / HTTP/1.1\r\nHost: server\r\n\r\n", End::Head, true),
            "quote" => (b"IBM\n", End::Line, true),
            "time" => (b"", End::Close, false),
            _ => return None,
        };
        Some(Self { request: request.into(), end, is_persistent })
    }

    /// A request that is answered by `reply` bytes, on connections that stay.
    #[must_use]
    pub fn new(request: &[u8], reply: usize) -> Self {
        Self { request: request.into(), end: End::Length(reply), is_persistent: true }
    }

    /// The same on a connection for each request.
    #[must_use]
    pub fn once(mut self) -> Self {
        if matches!(self.end, End::Head) {
            self.request = (*b"GET / HTTP/1.1\r\nHost: server\r\nConnection: close\r\n\r\n").into();
        }
        Self { is_persistent: false, ..self }
    }

    pub(super) fn request(&self) -> &[u8] {
        &self.request
    }

    /// Whether a connection carries more than one request.
    pub(super) fn is_persistent(&self) -> bool {
        self.is_persistent
    }

    /// Takes bytes of the reply.
    pub(super) fn take(&self, progress: &mut Progress, bytes: &[u8]) -> Reply {
        progress.received += bytes.len();
        if progress.length.is_none() {
            progress.length = match self.end {
                End::Length(length) => Some(length),
                End::Line if bytes.contains(&b'\n') => Some(progress.received),
                End::Line | End::Close => None,
                End::Head => {
                    progress.head.extend_from_slice(bytes);
                    match length_of(&progress.head) {
                        Ok(length) => length,
                        Err(()) => return Reply::Wrong,
                    }
                }
            };
        }
        match progress.length {
            Some(length) if progress.received > length => Reply::Wrong,
            Some(length) if progress.received == length => {
                *progress = Progress::default();
                Reply::Whole
            }
            _ => Reply::Part,
        }
    }

    /// The server has closed.
    pub(super) fn end(&self, progress: &Progress) -> Reply {
        match self.end {
            End::Close if progress.received > 0 => Reply::Whole,
            _ => Reply::Part,
        }
    }
}

/// The length of an HTTP reply with this beginning. `None` while its head is not whole.
fn length_of(beginning: &[u8]) -> Result<Option<usize>, ()> {
    let Some(head) = beginning.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&beginning[..head]).map_err(|_| ())?;
    let mut lines = text.split("\r\n");
    if !lines.next().is_some_and(|status| status.starts_with("HTTP/1.1 200")) {
        return Err(());
    }
    let value = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    };
    lines.find_map(value).map(|body| Some(head + 4 + body)).ok_or(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reply is whole at its last byte, however it is cut.
    #[test]
    fn a_reply_ends_at_its_last_byte_in_any_pieces() {
        let replies: [(&str, &[u8]); 3] = [
            ("echo", ECHOED),
            ("quote", b"IBM 12.50\n"),
            ("http", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nA: b\r\n\r\nhello"),
        ];
        for (service, reply) in replies {
            let exchange = Exchange::of(service).unwrap();
            for size in 1..=reply.len() {
                let mut progress = Progress::default();
                let mut pieces = reply.chunks(size).peekable();
                while let Some(piece) = pieces.next() {
                    let is_last = pieces.peek().is_none();
                    let expected = if is_last { Reply::Whole } else { Reply::Part };
                    assert_eq!(exchange.take(&mut progress, piece), expected, "{service} {size}");
                }
            }
        }
    }

    #[test]
    fn what_is_no_reply_is_wrong() {
        let http = Exchange::of("http").unwrap();
        for reply in ["HTTP/1.1 404 Not Found\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"] {
            assert_eq!(http.take(&mut Progress::default(), reply.as_bytes()), Reply::Wrong);
        }
        let time = Exchange::of("time").unwrap();
        assert_eq!(time.end(&Progress::default()), Reply::Part, "nothing came before the end");
    }
}
