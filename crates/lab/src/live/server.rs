//! A web server for a few short pages, on one kernel thread: one request for each connection.
//!
//! ```text
//!   a page     connect ── head ──▶ reply ──▶ close       two seconds for all of it
//!   a watcher  connect ── head ──▶ event ──▶ event ──▶ … until the client leaves
//! ```
//!
//! No client waits for another one: the thread waits for all of them by one poll(2). All resources
//! of a client are bounded: 8 KiB for a head, two seconds for the whole exchange. Of too many
//! clients, the oldest is closed.
//!
//! A watcher receives server-sent events (HTML, section 9.2). It gets the newest state four times a
//! second at most. A watcher that reads slowly misses states. One that reads nothing for two
//! seconds is closed. Without a watcher, the thread sleeps until a client comes.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The most bytes of a request's head, and the most header fields.
const HEAD: usize = 8 << 10;
const FIELDS: usize = 64;

/// The most time that one connection may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// The interval at which watchers get a new state.
const REFRESH: Duration = Duration::from_millis(250);

/// The most connections at a time.
const CLIENTS: usize = 64;

/// The pause if no connection can be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// A page.
pub struct Answer {
    /// The code and its reason.
    pub status: &'static str,
    /// The media type.
    pub content_type: &'static str,
    /// The text.
    pub body: String,
}

/// The reply to a request.
pub enum Reply {
    /// A page.
    Page(Answer),
    /// The states, from the present one on.
    Events,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The path without its query.
    pub path: String,
    /// The host that the client asks for. Empty if it names none.
    pub host: String,
}

/// What a server shows.
pub trait Site {
    /// The reply to a request. `None` if there is no such page.
    fn reply(&self, request: &Request) -> Option<Reply>;

    /// The present state in one line, with a number that grows with each state.
    fn state(&self) -> (u64, Arc<str>) {
        (0, Arc::default())
    }
}

/// Answers requests for ever.
pub fn serve(listener: &TcpListener, site: &impl Site) {
    // Otherwise accept(2) would wait for a client that has left the queue.
    let _ = listener.set_nonblocking(true);
    let mut clients = Vec::new();
    loop {
        wait(listener, &clients);
        accept(listener, &mut clients);
        clients.retain_mut(|client: &mut Client| client.go_on(site).unwrap_or(false));
    }
}

/// Waits until a client comes, can go on, or has had its time.
fn wait(listener: &TcpListener, clients: &[Client]) {
    let mut watched = vec![PollFd::new(listener, PollFlags::IN)];
    watched.extend(clients.iter().map(|client| PollFd::new(&client.stream, client.waits_for())));
    let first = clients.iter().map(Client::next).min();
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
    watcher: Option<Watcher>,
}

/// A client that gets each state.
struct Watcher {
    /// The number of the last state that was sent to it.
    seen: Option<u64>,
    /// When it gets the next one.
    next: Instant,
}

impl Client {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let (head, reply) = (Vec::new(), Vec::new());
        Ok(Self { stream, head, reply, sent: 0, end: Instant::now() + PATIENCE, watcher: None })
    }

    fn is_sending(&self) -> bool {
        self.sent < self.reply.len()
    }

    /// Whether the client has been told the last state, and waits for the next one.
    fn rests(&self) -> bool {
        self.watcher.is_some() && !self.is_sending()
    }

    fn waits_for(&self) -> PollFlags {
        if self.is_sending() { PollFlags::OUT } else { PollFlags::IN }
    }

    /// When the client is to go on, whatever it sends.
    fn next(&self) -> Instant {
        match &self.watcher {
            Some(watcher) if self.rests() => watcher.next,
            _ => self.end,
        }
    }

    /// Reads and writes what it can without a wait. Returns whether the connection goes on.
    fn go_on(&mut self, site: &impl Site) -> io::Result<bool> {
        match self.try_all(site) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                Ok(self.rests() || Instant::now() < self.end)
            }
            // A child process that was forked meanwhile also has the connection.
            ended => ended.and_then(|()| self.stream.shutdown(Shutdown::Both)).map(|()| false),
        }
    }

    fn try_all(&mut self, site: &impl Site) -> io::Result<()> {
        while self.reply.is_empty() {
            let Some(request) = request(&self.head) else {
                self.receive()?;
                continue;
            };
            let (method, reply) = match request {
                Ok((method, request)) => (method, site.reply(&request)),
                Err(status) => (Method::Get, Some(Reply::Page(bare(status)))),
            };
            self.reply = match reply {
                Some(Reply::Page(answer)) => text(method, &answer),
                Some(Reply::Events) if method == Method::Get => {
                    self.watcher = Some(Watcher { seen: None, next: Instant::now() });
                    EVENTS.into()
                }
                Some(Reply::Events) => EVENTS.into(),
                None => text(method, &bare("404 Not Found")),
            };
        }
        loop {
            while self.is_sending() {
                self.sent += self.stream.write(&self.reply[self.sent..])?;
            }
            let Some(watcher) = &mut self.watcher else { return Ok(()) };
            let now = Instant::now();
            if now < watcher.next {
                return self.expect_silence();
            }
            watcher.next = now + REFRESH;
            let (number, state) = site.state();
            if watcher.seen.replace(number) != Some(number) {
                self.reply = format!("data: {state}\n\n").into_bytes();
                (self.sent, self.end) = (0, now + PATIENCE);
            }
        }
    }

    /// A watcher has nothing more to say. It may leave.
    fn expect_silence(&mut self) -> io::Result<()> {
        self.stream.read(&mut [0; 1]).and(Err(ErrorKind::UnexpectedEof.into()))
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

/// The head of the reply to a watcher.
const EVENTS: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
    Cache-Control: no-store\r\nConnection: close\r\n\r\n";

/// A request and its method, or the status that refuses it. `None` if it has not come completely.
fn request(head: &[u8]) -> Option<Result<(Method, Request), &'static str>> {
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
    let path = target.split_once('?').map_or(target, |(path, _)| path).to_owned();
    let named = request.headers.iter().find(|field| field.name.eq_ignore_ascii_case("host"));
    let host = named.and_then(|field| str::from_utf8(field.value).ok()).unwrap_or_default();
    let own = Request { path, host: host.to_owned() };
    Some(match request.method {
        Some("GET") => Ok((Method::Get, own)),
        Some("HEAD") => Ok((Method::Head, own)),
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
    use std::io::{BufRead, BufReader};
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn asked(head: &str) -> Option<Result<(Method, String), &'static str>> {
        request(head.as_bytes()).map(|asked| asked.map(|(method, asked)| (method, asked.path)))
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

    /// One page, and a state that is another one whenever it is asked for.
    struct Counting(AtomicU64);

    impl Site for Counting {
        fn reply(&self, request: &Request) -> Option<Reply> {
            let page = Answer { status: "200 OK", content_type: "x/y", body: "A".into() };
            match &*request.path {
                "/a" => Some(Reply::Page(page)),
                "/events" => Some(Reply::Events),
                _ => None,
            }
        }

        fn state(&self) -> (u64, Arc<str>) {
            let number = self.0.fetch_add(1, Ordering::Relaxed);
            // Many of them fill the buffers of a connection.
            (number, format!("{number} {}", "x".repeat(1 << 20)).into())
        }
    }

    /// Serves one page, for as long as the test process lives.
    fn start() -> std::net::SocketAddr {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || serve(&listener, &Counting(AtomicU64::new(1))));
        address
    }

    fn watch(address: std::net::SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET /events HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        stream
    }

    #[test]
    fn a_request_names_its_host() {
        let host = |head: &str| request(head.as_bytes()).unwrap().unwrap().1.host;
        assert_eq!(host("GET / HTTP/1.1\r\nhost: a:1\r\n\r\n"), "a:1");
        assert_eq!(host("GET / HTTP/1.0\r\n\r\n"), "");
    }

    #[test]
    fn a_watcher_gets_state_after_state() {
        let mut reader = BufReader::new(watch(start()));
        let mut lines = Vec::new();
        while lines.len() < 3 {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            lines.extend(line.strip_prefix("data: ").map(|state| state[..2].to_owned()));
        }
        assert_eq!(lines, ["1 ", "2 ", "3 "]);
    }

    #[test]
    fn watchers_that_read_nothing_or_leave_hinder_no_other_client() {
        let address = start();
        let _silent: Vec<_> = (0..10).map(|_| watch(address)).collect();
        drop((0..10).map(|_| watch(address)).collect::<Vec<_>>());
        for _ in 0..20 {
            assert!(ask(address, "/a").ends_with("\r\n\r\nA"));
        }
    }

    #[test]
    fn a_watcher_that_reads_nothing_has_its_time_and_one_that_rests_stays() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let mut watcher = watch(listener.local_addr().unwrap());
        let mut client = Client::new(listener.accept().unwrap().0).unwrap();
        let site = Counting(AtomicU64::new(1));
        let go_on = |client: &mut Client| client.go_on(&site).unwrap_or(false);
        while !client.is_sending() {
            assert!(go_on(&mut client));
        }
        // It reads, and then rests, for as long as it likes.
        let mut buffer = vec![0; 1 << 20];
        while client.is_sending() {
            assert!(watcher.read(&mut buffer).unwrap() > 0);
            assert!(go_on(&mut client));
        }
        client.end = Instant::now();
        client.watcher.as_mut().unwrap().next = Instant::now() + PATIENCE;
        assert!(go_on(&mut client));
        // It reads no more.
        while !client.is_sending() {
            client.watcher.as_mut().unwrap().next = Instant::now();
            assert!(go_on(&mut client));
        }
        client.end = Instant::now();
        assert!(!go_on(&mut client));
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
