//! A live page: what is known so far, in a browser, while it becomes known.
//!
//! ```text
//!   a measurement          the page's thread                  a browser
//!   ─────────────          ─────────────────                  ─────────
//!   publishes a state ──▶  the newest one  ◀── GET / ──────── the page, with the state as tables
//!     (never waits)                        ── state ────────▶ a script draws it, four times a second
//! ```
//!
//! A state is plain data, and all that the page shows. The measurement replaces it under a lock
//! that no client holds up. The page's thread writes the state as JSON only when a client asks. It
//! has the lowest priority, so it takes a processor only from nothing else.
//!
//! The page is on the loopback device. It answers only requests that name this host. So a site in
//! the same browser cannot read it under a name of its own.

pub mod server;
mod state;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use minijinja::context;

use self::server::{Answer, Reply, Request, Site};
pub use self::state::{Bar, Cell, Figure, Rates, Row, Spark, State, Table};
use crate::page;

/// How long a page that is watched stays after the end, at most. So a browser has the last state,
/// and keeps the report. A page without a script is loaded anew every two seconds.
const FAREWELL: Duration = Duration::from_secs(3);

/// The interval of the checks whether the browser has all.
const GLANCE: Duration = Duration::from_millis(20);

/// A page on the loopback device. Clones show the same.
#[derive(Clone, Debug)]
pub struct Page {
    address: SocketAddr,
    board: Arc<Board>,
}

/// What the page shows.
#[derive(Debug, Default)]
struct Board(Mutex<Shown>);

#[derive(Debug, Default)]
struct Shown {
    state: State,
    number: u64,
    /// The state as JSON, once a client has asked for it.
    json: Option<Arc<str>>,
    report: Option<PathBuf>,
    /// When a client last asked for anything.
    asked: Option<Instant>,
    /// Whether a script has asked for the report, which it does after the last state.
    has_all: bool,
}

impl Page {
    /// Starts a page at a free port of the loopback device.
    ///
    /// # Errors
    ///
    /// If there is no free port, or no further thread.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let page = Self { address: listener.local_addr()?, board: Arc::default() };
        let (title, now) = ("Duality".to_owned(), "Nothing is known yet.".to_owned());
        page.publish(State { title, now, ..State::default() });
        let board = page.board.clone();
        thread::Builder::new().name("live page".into()).spawn(move || {
            yield_to_others();
            server::serve(&listener, &*board);
        })?;
        Ok(page)
    }

    /// The address for a browser.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Shows a state from now on.
    pub fn publish(&self, state: State) {
        let mut shown = self.board.lock();
        shown.state = state;
        shown.number += 1;
        shown.json = None;
    }

    /// Leads to this report at the end.
    pub fn lead_to(&self, report: &Path) {
        self.board.lock().report = Some(report.to_owned());
    }

    /// Says what happens now.
    pub fn say(&self, now: String) {
        let state = self.board.lock().state.clone();
        self.publish(State { now, ..state });
    }

    /// Shows that the present state is the last one, and where the report is. Returns as soon as
    /// the browser has both, or at once if no client watches.
    pub fn finish(&self) {
        let (state, report) = {
            let shown = self.board.lock();
            (shown.state.clone(), shown.report.clone())
        };
        let report = report.map(|path| path.display().to_string());
        self.publish(State { over: true, report, ..state });
        let end = Instant::now() + FAREWELL;
        while self.board.is_waited_for() && Instant::now() < end {
            thread::sleep(GLANCE);
        }
    }
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, Shown> {
        // Each change is a plain assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a client watches that may not have the last state yet.
    fn is_waited_for(&self) -> bool {
        let shown = self.lock();
        !shown.has_all && shown.asked.is_some_and(|asked| asked.elapsed() < FAREWELL)
    }

    fn report(&self) -> Option<Answer> {
        let path = self.lock().report.clone();
        let body = path.and_then(|path| fs::read_to_string(path).ok());
        self.lock().has_all = true;
        Some(Answer { status: "200 OK", content_type: HTML, body: body? })
    }
}

const HTML: &str = "text/html; charset=utf-8";

impl Site for Board {
    fn reply(&self, request: &Request) -> Option<Reply> {
        if !is_of_this_host(&request.host) {
            return None;
        }
        self.lock().asked = Some(Instant::now());
        match &*request.path {
            "/report" => self.report().map(Reply::Page),
            path => reply(path, || self.lock().state.clone()),
        }
    }

    fn state(&self) -> (u64, Arc<str>) {
        let mut shown = self.lock();
        shown.asked = Some(Instant::now());
        let Shown { state, number, json, .. } = &mut *shown;
        (*number, json.get_or_insert_with(|| state.json().into()).clone())
    }
}

/// The reply of a live page at `path`.
pub fn reply(path: &str, state: impl FnOnce() -> State) -> Option<Reply> {
    let (content_type, body) = match path {
        "/" => (HTML, html(&state())),
        "/state.json" => ("application/json", state().json()),
        "/events" => return Some(Reply::Events),
        _ => return None,
    };
    Some(Reply::Page(Answer { status: "200 OK", content_type, body }))
}

/// Whether a client asks for this host by a name that no other host can take.
pub fn is_of_this_host(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    ["127.0.0.1", "localhost", "[::1]"].contains(&name)
}

/// The page with a state as tables, for browsers without scripts.
fn html(state: &State) -> String {
    page::page(
        include_str!("page.html.jinja"),
        context! { state, live_style => include_str!("live.css"), script => include_str!("live.js") },
    )
}

/// Gives the calling thread the lowest priority.
fn yield_to_others() {
    // A thread that stays at the usual priority still works.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), 19);
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    fn ask(page: &Page, path: &str, host: &str) -> String {
        let mut stream = TcpStream::connect(page.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
        io::read_to_string(stream).unwrap()
    }

    fn state(title: &str) -> State {
        State { title: title.to_owned(), ..State::default() }
    }

    #[test]
    fn the_page_is_on_the_loopback_device_alone() {
        let page = Page::start().unwrap();
        assert_eq!(page.address.ip(), Ipv4Addr::LOCALHOST);
        assert_eq!(page.url(), format!("http://127.0.0.1:{}/", page.address.port()));
    }

    #[test]
    fn only_names_of_this_host_are_answered() {
        let page = Page::start().unwrap();
        for host in ["127.0.0.1:80", "localhost", "[::1]:9"] {
            assert!(ask(&page, "/", host).starts_with("HTTP/1.1 200 "), "{host}");
        }
        for host in ["evil.example:80", "", "127.0.0.1.evil.example"] {
            assert!(ask(&page, "/", host).starts_with("HTTP/1.1 404 "), "{host}");
            assert!(ask(&page, "/events", host).starts_with("HTTP/1.1 404 "), "{host}");
        }
    }

    #[test]
    fn the_page_has_what_was_published_and_escapes_it() {
        let page = Page::start().unwrap();
        page.publish(state("a <b> & c"));
        let text = ask(&page, "/", "localhost");
        assert!(text.contains("a &lt;b&gt; &amp; c"), "{text}");
        let json = ask(&page, "/state.json", "localhost");
        assert!(json.ends_with(&state("a <b> & c").json()), "{json}");
    }

    #[test]
    fn without_a_client_the_end_takes_no_time() {
        let page = Page::start().unwrap();
        let begun = Instant::now();
        page.finish();
        assert!(begun.elapsed() < FAREWELL);
        assert!(ask(&page, "/state.json", "localhost").contains(r#""over":true"#));
    }

    #[test]
    fn the_end_waits_until_a_watcher_has_all() {
        let folder = tempfile::tempdir().unwrap();
        let report = folder.path().join("report.html");
        fs::write(&report, "the report").unwrap();
        let page = Page::start().unwrap();
        page.publish(state("one"));
        let mut watcher = TcpStream::connect(page.address).unwrap();
        write!(watcher, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut heard = String::new();
        let mut buffer = [0; 4096];
        let mut hear = |until: &str| {
            while !heard.contains(until) {
                let count = watcher.read(&mut buffer).unwrap();
                heard.push_str(str::from_utf8(&buffer[..count]).unwrap());
            }
        };
        hear(r#""title":"one""#);
        let finishing = page.clone();
        page.lead_to(&report);
        page.say("interrupted".to_owned());
        let finishing = thread::spawn(move || finishing.finish());
        hear(r#""now":"interrupted""#);
        hear(r#""over":true"#);
        assert!(ask(&page, "/report", "localhost").ends_with("\r\n\r\nthe report"));
        finishing.join().unwrap();
    }
}
