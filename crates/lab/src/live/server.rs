//! A web server for a few short pages, on one kernel thread: one request for each connection.
//!
//! No client waits for another one: the thread waits for all of them by one poll(2). All resources
//! of a client are bounded: 8 KiB for a head, two seconds for the whole exchange. Of too many
//! clients, the oldest is closed.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The most bytes of a request's head, and the most header fields.
const HEAD: usize = 8 << 10;
const FIELDS: usize = 64;

/// The most time that one connection may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// The most connections at a time.
const CLIENTS: usize = 64;

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
    // Otherwise accept(2) would wait for a client that has left the queue.
    let _ = listener.set_nonblocking(true);
    let mut clients = Vec::new();
    loop {
        wait(listener, &clients);
        accept(listener, &mut clients);
        clients.retain_mut(|client: &mut Client| client.go_on(&page).unwrap_or(false));
    }
}

/// Waits until a client comes, can go on, or has had its time.
fn wait(listener: &TcpListener, clients: &[Client]) {
    let mut watched = vec![PollFd::new(listener, PollFlags::IN)];
    watched.extend(clients.iter().map(|client| {
        let flags = if client.reply.is_empty() { PollFlags::IN } else { PollFlags::OUT };
        PollFd::new(&client.stream, flags)
    }));
    let first = clients.iter().map(|client| client.end).min();
    let left = first.map(|end| end.saturating_duration_since(Instant::now()));
    let left = left.and_then(|left| Timespec::try_from(left).ok());
    // A signal may end the wait early.
    let _ = poll(&mut watched, left.as_ref());
}

fn accept(listener: &TcpListener, clients: &mut Vec<Client>) {
    loop {
        match listener.accept().and_then(|(stream, _)| Client::new(stream)) {
            Ok(client) => {
                if clients.len() == CLIENTS {
                    clients.remove(0);
                }
                clients.push(client);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            // A client may break off for its own reasons.
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            Err(_) => return thread::sleep(PAUSE),
        }
    }
}

/// A connection, of which the oldest is first.
struct Client {
    stream: TcpStream,
    head: Vec<u8>,
    /// Empty until the head has come.
    reply: Vec<u8>,
    sent: usize,
    end: Instant,
}

impl Client {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let (head, reply) = (Vec::new(), Vec::new());
        Ok(Self { stream, head, reply, sent: 0, end: Instant::now() + PATIENCE })
    }

    /// Reads and writes what it can without a wait. Returns whether the connection goes on.
    fn go_on(&mut self, page: &impl Fn(&str) -> Option<Answer>) -> io::Result<bool> {
        match self.try_all(page) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Instant::now() < self.end),
            // A child process that was forked meanwhile also has the connection.
            ended => ended.and_then(|()| self.stream.shutdown(Shutdown::Both)).map(|()| false),
        }
    }

    fn try_all(&mut self, page: &impl Fn(&str) -> Option<Answer>) -> io::Result<()> {
        while self.reply.is_empty() {
            let Some(request) = request(&self.head) else {
                self.receive()?;
                continue;
            };
            let (method, answer) = match request {
                Ok((method, path)) => {
                    (method, page(&path).unwrap_or_else(|| bare("404 Not Found")))
                }
                Err(status) => (Method::Get, bare(status)),
            };
            self.reply = text(method, &answer);
        }
        while self.sent < self.reply.len() {
            self.sent += self.stream.write(&self.reply[self.sent..])?;
        }
        Ok(())
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut buffer = [0; 1024];
        let room = buffer.len().min(HEAD - self.head.len());
        match self.stream.read(&mut buffer[..room])? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            count => {
                self.head.extend_from_slice(&buffer[..count]);
                Ok(())
            }
        }
    }
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

    /// Serves one page, for as long as the test process lives.
    fn start() -> std::net::SocketAddr {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let page = |path: &str| {
            let is_it = path == "/a";
            is_it.then(|| Answer { status: "200 OK", content_type: "x/y", body: "A".into() })
        };
        thread::spawn(move || serve(&listener, page));
        address
    }

    fn ask(address: std::net::SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        io::read_to_string(stream).unwrap()
    }

    #[test]
    fn a_client_gets_the_page_and_the_end() {
        let address = start();
        for (path, begin, end) in
            [("/a", "HTTP/1.1 200 OK\r\n", "\r\n\r\nA"), ("/b", "HTTP/1.1 404 ", "Not Found\n")]
        {
            let reply = ask(address, path);
            assert!(reply.starts_with(begin) && reply.ends_with(end), "{reply}");
        }
    }

    /// There are more silent clients than the server keeps, and others are answered.
    #[test]
    fn no_client_waits_for_a_silent_one() {
        let address = start();
        let begun = Instant::now();
        let silent: Vec<_> =
            (0..CLIENTS + 10).map(|_| TcpStream::connect(address).unwrap()).collect();
        assert!(ask(address, "/a").ends_with("\r\n\r\nA"));
        // One after the other, they would have had two seconds each.
        assert!(begun.elapsed() < PATIENCE * CLIENTS as u32);
        // The last one is still there, and is answered too.
        let mut last = silent.last().unwrap();
        write!(last, "GET /a HTTP/1.1\r\n").unwrap();
        assert!(ask(address, "/a").ends_with("\r\n\r\nA"));
        write!(last, "\r\n").unwrap();
        assert!(io::read_to_string(last).unwrap().ends_with("\r\n\r\nA"));
    }
}
