//! A web server for a few short pages, on one kernel thread: one request for each connection, one
//! connection at a time.
//!
//! All resources of a client are bounded: 8 KiB for a head, two seconds for the whole exchange.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// The most bytes of a request's head, and the most header fields.
const HEAD: usize = 8 << 10;
const FIELDS: usize = 64;

/// The most time that one connection may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// The pause if no connection can be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// A page.
pub(super) struct Answer {
    /// The code and its reason.
    pub(super) status: &'static str,
    pub(super) content_type: &'static str,
    pub(super) body: String,
}

/// Answers requests for ever. `page` finds the page at a path.
pub(super) fn serve(listener: &TcpListener, page: impl Fn(&str) -> Option<Answer>) {
    loop {
        match listener.accept() {
            // A client may break off for its own reasons.
            Ok((stream, _)) => drop(converse(&stream, &page)),
            Err(_) => thread::sleep(PAUSE),
        }
    }
}

fn converse(stream: &TcpStream, page: impl Fn(&str) -> Option<Answer>) -> io::Result<()> {
    let end = Instant::now() + PATIENCE;
    let mut head = Vec::with_capacity(1024);
    let reply = loop {
        match request(&head) {
            Some(reply) => break reply,
            None => receive(stream, &mut head, end)?,
        }
    };
    let (method, answer) = match reply {
        Ok((method, path)) => (method, page(&path).unwrap_or_else(|| bare("404 Not Found"))),
        Err(status) => (Method::Get, bare(status)),
    };
    send(stream, &text(method, &answer), end)?;
    // A child process that was forked meanwhile also has the connection.
    stream.shutdown(Shutdown::Both)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Get,
    Head,
}

/// The method and the path of a request, or the status that refuses it. `None` if it has not come
/// completely.
fn request(head: &[u8]) -> Option<Result<(Method, String), &'static str>> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(head) {
        Ok(httparse::Status::Partial) if head.len() < HEAD => return None,
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Some(Err("431 Request Header Fields Too Large"));
        }
        Err(_) => return Some(Err("400 Bad Request")),
    }
    let target = request.path.unwrap_or_default();
    let path = target.split_once('?').map_or(target, |(path, _)| path);
    Some(match request.method {
        Some("GET") => Ok((Method::Get, path.to_owned())),
        Some("HEAD") => Ok((Method::Head, path.to_owned())),
        _ => Err("405 Method Not Allowed"),
    })
}

fn receive(mut stream: &TcpStream, head: &mut Vec<u8>, end: Instant) -> io::Result<()> {
    stream.set_read_timeout(Some(left(end)?))?;
    let mut buffer = [0; 1024];
    let room = buffer.len().min(HEAD - head.len());
    match stream.read(&mut buffer[..room])? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        count => {
            head.extend_from_slice(&buffer[..count]);
            Ok(())
        }
    }
}

fn send(mut stream: &TcpStream, mut bytes: &[u8], end: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(end)?))?;
        let count = stream.write(bytes)?;
        bytes = &bytes[count..];
    }
    Ok(())
}

/// The remaining time.
fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn bare(status: &'static str) -> Answer {
    Answer { status, content_type: "text/plain", body: format!("{status}\n") }
}

fn text(method: Method, answer: &Answer) -> Vec<u8> {
    let Answer { status, content_type, body } = answer;
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let mut text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n{allow}\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n",
        body.len()
    );
    if method == Method::Get {
        text.push_str(body);
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(head: &str) -> Option<Result<(Method, String), &'static str>> {
        request(head.as_bytes())
    }

    #[test]
    fn a_request_is_its_method_and_path() {
        let found = |method, path: &str| Some(Ok((method, path.to_owned())));
        assert_eq!(asked("GET /metrics HTTP/1.1\r\n\r\n"), found(Method::Get, "/metrics"));
        assert_eq!(asked("HEAD /healthz?now HTTP/1.0\r\n\r\n"), found(Method::Head, "/healthz"));
        assert_eq!(asked("GET /metrics HTTP/1.1\r\nHost: "), None);
        assert_eq!(asked(""), None);
    }

    #[test]
    fn what_cannot_be_answered_is_refused() {
        assert_eq!(asked("POST / HTTP/1.1\r\n\r\n"), Some(Err("405 Method Not Allowed")));
        assert_eq!(asked("\0\r\n\r\n"), Some(Err("400 Bad Request")));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(FIELDS + 1));
        assert_eq!(asked(&many), Some(Err("431 Request Header Fields Too Large")));
        let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(HEAD));
        assert_eq!(asked(&long), Some(Err("431 Request Header Fields Too Large")));
    }

    #[test]
    fn a_client_gets_the_page_and_the_end() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let page = |path: &str| {
            (path == "/a").then(|| Answer {
                status: "200 OK",
                content_type: "x/y",
                body: "A".into(),
            })
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..2 {
                    let (stream, _) = listener.accept().unwrap();
                    converse(&stream, page).unwrap();
                }
            });
            for (path, begin, end) in
                [("/a", "HTTP/1.1 200 OK\r\n", "\r\n\r\nA"), ("/b", "HTTP/1.1 404 ", "Not Found\n")]
            {
                let mut stream = TcpStream::connect(address).unwrap();
                write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
                let reply = io::read_to_string(stream).unwrap();
                assert!(reply.starts_with(begin) && reply.ends_with(end), "{reply}");
            }
        });
    }
}
