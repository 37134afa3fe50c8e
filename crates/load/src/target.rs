//! The target of a load: `SERVICE://HOST:PORT`, with a path if the service has pages. A chat or a
//! game may be on several servers, `chat://HOST:PORT,HOST:PORT`. A target may also be a fixed
//! exchange of bytes with a service of the user's own.

use std::fmt;
use std::io;
use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use crate::Options;
use crate::announce::EdgeAnnouncer;
use crate::client::chat::Chat;
use crate::client::echo::{self, Echo};
use crate::client::exchange::FixedBytes;
use crate::client::guestbook::Visits;
use crate::client::http::{self, Page, Script, Version};
use crate::client::{ALL, Entry, Protocol};
use crate::crowd::Question;
use crate::engine::{Engine, Loading};
use crate::place::Place;
use crate::tls::{Handshakes, Trust};
use duality_trace::Mistake;

/// The beginning of an http target at a Unix socket, and the `Host` of its requests.
const UNIX: &str = "http+unix://";
const LOCAL_HOST: &str = "localhost";

/// The schemes of http by TLS, of HTTP/2 by TLS, and of HTTP/2 without TLS. HTTP itself has the
/// last two names for HTTP/2 (RFC 7540, section 3.1).
const HTTPS: &str = "https";
const HTTP2: &str = "h2";
const CLEAR_HTTP2: &str = "h2c";

/// The most addresses of one host name that a load uses.
const MOST_ADDRESSES: usize = 64;

/// A service at an address, and the request to make. A target is read from text. Functions make the
/// targets that text cannot fully describe.
#[derive(Clone, Debug)]
pub struct Target {
    /// One place. Or several, if the service can be on several servers, or if a host name has
    /// several addresses.
    places: Vec<Place>,
    /// Whether one of these places is enough, because they belong to one host name.
    alternatives: bool,
    /// Whether the server speaks TLS.
    secure: bool,
    protocol: Arc<dyn Protocol>,
}

impl Target {
    /// The most bytes of one echo request. More could fill the buffers of both directions.
    pub const LONGEST_ECHO: usize = echo::LONGEST;

    /// Sends `message` to an echo server, which returns the same bytes. [`Target::check`] bounds
    /// its length.
    pub fn echo(address: SocketAddr, message: Vec<u8>) -> Self {
        Self::new(address, Arc::new(Echo { message }))
    }

    /// Sends `request` to a service of the user's own. The only correct answer is `reply`.
    pub fn exchange(address: SocketAddr, request: Vec<u8>, reply: Vec<u8>) -> Self {
        Self::new(address, Arc::new(FixedBytes { request, reply }))
    }

    /// Talks in a chat. At most `lines` lines of each member are under way at the same time.
    pub fn chat(address: SocketAddr, lines: u32) -> Self {
        Self::new(address, Arc::new(Chat { lines }))
    }

    /// Reads a page of a guestbook. Every `post_every`-th request of a connection is a POST. 0
    /// means never.
    pub fn guestbook(address: SocketAddr, page: Page, post_every: u32) -> Self {
        Self::new(address, Arc::new(Visits { page, post_every }))
    }

    /// Makes the requests of `script` to this http server, in place of a GET of its page. The
    /// requests have the page's host. The page's path has no meaning then.
    ///
    /// # Errors
    ///
    /// The target is not an http one.
    pub fn with_script(self, script: Script) -> Result<Self, TargetError> {
        let page = self.page().filter(|_| self.service() == http::ENTRY.name);
        let Some(page) = page.cloned() else {
            return Err(TargetError {
                problem: format!(
                    "{} has no requests to choose; load an http server",
                    self.service()
                )
                .into(),
                target: self.to_string(),
            });
        };
        let version = self.protocol.version();
        Ok(Self { protocol: http::asking(page, script, version), ..self })
    }

    /// The http server of a target at a Unix socket. The text is read as usual, but its host only
    /// appears in requests, and is not looked up.
    ///
    /// # Errors
    ///
    /// The target is not an http one, or no socket can have this path.
    pub fn at_unix_socket(text: &str, path: &Path) -> Result<Self, TargetError> {
        let nowhere = |_: &str| Ok(vec![SocketAddr::from(([127, 0, 0, 1], 80))]);
        let target = parse(text, nowhere).and_then(|target| {
            if target.service() != http::ENTRY.name || target.address().is_none() {
                return Err("with a Unix socket, give an http:// target".into());
            }
            Ok(Self { places: vec![Place::unix(path)?], alternatives: false, ..target })
        });
        target.map_err(|problem| TargetError { target: text.to_owned(), problem })
    }

    /// A target at one address.
    fn new(address: SocketAddr, protocol: Arc<dyn Protocol>) -> Self {
        Self { places: vec![address.into()], alternatives: false, secure: false, protocol }
    }

    /// Whether the server speaks TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.secure
    }

    /// Whether its connections speak HTTP/2.
    pub(crate) fn is_http2(&self) -> bool {
        self.protocol.version() == Version::Two
    }

    /// The handshakes of its connections. `None` if the server does not speak TLS.
    ///
    /// # Errors
    ///
    /// [`TargetError`], if the authorities cannot be read, or this build has no TLS.
    pub(crate) fn handshakes(&self, trust: &Trust) -> Result<Option<Handshakes>, TargetError> {
        let Some(page) = self.page().filter(|_| self.is_secure()) else { return Ok(None) };
        let host = match page.host.rfind(':') > page.host.rfind(']') {
            true => page.host.rsplit_once(':').map_or(&*page.host, |(host, _)| host),
            false => &page.host,
        };
        let made = Handshakes::new(host, trust, self.is_http2());
        made.map(Some).map_err(|problem| TargetError { target: self.to_string(), problem })
    }

    /// The page of a target of `service` that names no page. `None` if the service has no pages, or
    /// no client.
    pub fn default_page(service: &str) -> Option<&'static str> {
        ALL.iter().find(|entry| entry.name == service)?.page
    }

    /// The address at which the server listens, or the first of several. `None` for a Unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        self.place().address()
    }

    /// The place where the server listens, or the first of several.
    pub(crate) fn place(&self) -> &Place {
        &self.places[0]
    }

    /// The places where the servers listen. There is at least one.
    pub(crate) fn places(&self) -> &[Place] {
        &self.places
    }

    /// Whether there are several places, and unreachable ones may be left out.
    pub(crate) fn has_alternatives(&self) -> bool {
        self.alternatives && self.places.len() > 1
    }

    /// The name of the service, as in `SERVICE://HOST:PORT`. `exchange` for a service of the user's
    /// own.
    pub fn service(&self) -> &'static str {
        self.protocol.service()
    }

    /// The page that is asked for, if the service has pages.
    pub fn page(&self) -> Option<&Page> {
        self.protocol.page()
    }

    /// Whether this target allows requests at all. An echo message is 1 to
    /// [`LONGEST_ECHO`](Target::LONGEST_ECHO) bytes long. The reply of an exchange is not empty.
    /// The members of a chat say something.
    ///
    /// # Errors
    ///
    /// [`TargetError`], which names the change to make.
    pub fn check(&self) -> Result<(), TargetError> {
        match self.protocol.problem() {
            Some(problem) => Err(TargetError { target: self.to_string(), problem: problem.into() }),
            None => Ok(()),
        }
    }

    /// See [`Protocol::misfit`]. The functions below also call the protocol.
    pub(crate) fn misfit(&self, options: &Options) -> Option<&'static str> {
        self.protocol.misfit(options)
    }

    pub(crate) fn is_persistent(&self) -> bool {
        self.protocol.is_persistent()
    }

    pub(crate) fn has_independent_connections(&self) -> bool {
        self.protocol.has_independent_connections()
    }

    pub(crate) fn asks_one_by_one(&self) -> bool {
        self.protocol.asks_one_by_one()
    }

    pub(crate) fn question(&self) -> Option<Question> {
        self.protocol.question()
    }

    pub(crate) fn load<'a>(&'a self, engine: &'a Engine, edges: EdgeAnnouncer) -> Loading<'a> {
        self.protocol.load(engine, edges)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.page(), self.place()) {
            (Some(Page { host, path }), Place::Unix(socket)) if host == LOCAL_HOST => {
                write!(formatter, "{UNIX}{}:{path}", socket.display())
            }
            (Some(Page { host, path }), place) => {
                let scheme = match (self.is_http2(), self.secure) {
                    (true, true) => HTTP2,
                    (true, false) => CLEAR_HTTP2,
                    (false, true) => HTTPS,
                    (false, false) => self.service(),
                };
                write!(formatter, "{scheme}://{host}{path}")?;
                match place {
                    Place::Internet(_) => Ok(()),
                    Place::Unix(socket) => write!(formatter, " at {}", socket.display()),
                }
            }
            (None, _) => {
                let places: Vec<_> = self.places.iter().map(Place::to_string).collect();
                write!(formatter, "{}://{}", self.service(), places.join(","))
            }
        }
    }
}

/// The reason why a target cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("target {target:?}: {problem}")]
pub struct TargetError {
    target: String,
    problem: Mistake,
}

impl FromStr for Target {
    type Err = TargetError;

    /// Reads `SERVICE://HOST:PORT[/PATH]`. `HOST:PORT[/PATH]` means http, and a port alone also
    /// means 127.0.0.1. `https` is http by TLS, on port 443 if none is given. `h2` is HTTP/2 by
    /// TLS, and `h2c` is HTTP/2 without TLS. Servers of one chat or game are
    /// `chat://HOST:PORT,HOST:PORT`. An http server at a Unix socket is
    /// `http+unix:///PATH/TO.SOCK:/URL`.
    ///
    /// Host names are looked up here. A load of http goes to all of its addresses. Other loads go
    /// to its first IPv4 address, if it has one. The default port of services with pages is 80. The
    /// guestbook's default page is `/guestbook`.
    fn from_str(text: &str) -> Result<Self, TargetError> {
        let look_up = |place: &str| place.to_socket_addrs().map(Iterator::collect);
        parse(text, look_up).map_err(|problem| TargetError { target: text.to_owned(), problem })
    }
}

/// Finds the addresses of `HOST:PORT`. All other parts of a target are read without leaving this
/// process.
pub(crate) type LookUp = fn(&str) -> io::Result<Vec<SocketAddr>>;

/// Reads `SERVICE://HOST:PORT[/PATH]`.
///
/// # Errors
///
/// The error names the mistake and the remedy.
pub(crate) fn parse(text: &str, look_up: LookUp) -> Result<Target, Mistake> {
    if let Some(rest) = text.strip_prefix(UNIX) {
        return local(rest);
    }
    let (scheme, rest) = match text.split_once("://") {
        Some(parts) => parts,
        None => ("http", without_scheme(text)?),
    };
    let secure = matches!(scheme, HTTPS | HTTP2);
    let is_http2 = matches!(scheme, HTTP2 | CLEAR_HTTP2);
    let scheme = if secure || is_http2 { http::ENTRY.name } else { scheme };
    let (authority, path) = http::authority_and_path(rest);
    let authorities: Vec<String> = authority.split(',').map(complete).collect();
    let authority = &*authorities[0];
    let Some(entry) = ALL.iter().find(|entry| entry.name == scheme) else {
        return Err(no_client(scheme));
    };
    if authorities.len() > 1 && !entry.is_across {
        return Err(format!(
            "the clients of {scheme} load one server; write {scheme}://{authority}"
        )
        .into());
    }
    let path = if matches!(path, "" | "/") { entry.page.unwrap_or_default() } else { path };
    if entry.page.is_none() && !path.is_empty() {
        return Err(format!("{scheme} has no path; write {scheme}://{authority}").into());
    }
    let port = if secure { Some(443) } else { entry.port };
    let found = authorities.iter().map(|place| resolve(place, entry, port, look_up));
    let places = found.collect::<Result<Vec<_>, _>>()?.concat();
    let page = Page { host: authority.to_owned(), path: http_path(path)? };
    let alternatives = entry.uses_all_addresses;
    let protocol = if is_http2 { http::by_http2(page) } else { (entry.read)(page) };
    Ok(Target { places, alternatives, secure, protocol })
}

/// The target of `/PATH/TO.SOCK:/URL`.
fn local(text: &str) -> Result<Target, Mistake> {
    let (socket, path) = text.split_once(':').unwrap_or((text, ""));
    let is_path = socket.starts_with('/') && !socket.ends_with('/');
    if !is_path || socket.chars().any(char::is_control) {
        return Err(format!("expected {UNIX}/PATH/TO.SOCK:/URL").into());
    }
    let path = path.split('#').next().unwrap_or_default();
    let page = Page { host: LOCAL_HOST.to_owned(), path: http_path(path)? };
    let places = vec![Place::unix(Path::new(socket))?];
    let protocol = (http::ENTRY.read)(page);
    Ok(Target { places, alternatives: false, secure: false, protocol })
}

fn no_client(scheme: &str) -> Mistake {
    let names: Vec<&str> = ALL.iter().map(|entry| entry.name).collect();
    format!("no client for {scheme:?}; there is one for each of {}", names.join(", ")).into()
}

/// `HOST:PORT`, `:PORT` and `PORT` name an http server, as in `duality serve --listen`.
fn without_scheme(text: &str) -> Result<&str, Mistake> {
    let authority = text.split(['/', '?', '#']).next().unwrap_or_default();
    let port = authority.rsplit(':').next().unwrap_or_default();
    match !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) {
        true => Ok(text),
        false => Err("expected SERVICE://HOST:PORT, as in http://127.0.0.1:8080/".into()),
    }
}

/// The authority, which may leave out this machine: `:PORT`, or `PORT` alone.
fn complete(authority: &str) -> String {
    let port = authority.strip_prefix(':').unwrap_or(authority);
    match !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) {
        true => format!("127.0.0.1:{port}"),
        false => authority.to_owned(),
    }
}

/// The addresses of `HOST:PORT`, `HOST` or `[IPv6]:PORT` to which a service's connections go.
fn resolve(
    authority: &str,
    entry: &Entry,
    port: Option<u16>,
    look_up: LookUp,
) -> Result<Vec<Place>, Mistake> {
    if authority.contains('@') {
        return Err("a target has no user names; write SERVICE://HOST:PORT, and give \
                    `load --user NAME:PASSWORD`"
            .into());
    }
    // A colon within the brackets of an IPv6 address does not begin the port.
    let has_port = authority.rfind(':') > authority.rfind(']');
    let with_port = match (has_port, port) {
        (true, _) => authority.to_owned(),
        (false, Some(port)) => format!("{authority}:{port}"),
        (false, None) => return Err("the port is missing; write SERVICE://HOST:PORT".into()),
    };
    let (host, port) = with_port.rsplit_once(':').expect("the port was added above");
    let bracketed = host.strip_prefix('[').map(|host| host.strip_suffix(']').unwrap_or_default());
    if host.contains(['[', ']', ':'])
        && bracketed.is_none_or(|host| host.parse::<Ipv6Addr>().is_err())
    {
        return Err(format!(
            "{authority:?} is no address; write an IPv6 address in brackets, as in http://[::1]:8080/"
        ).into());
    }
    if host.is_empty() {
        return Err("the host is missing; write SERVICE://HOST:PORT".into());
    }
    if !port.parse().is_ok_and(|port: u16| port > 0) {
        return Err(format!("{port:?} is not a port; ports are 1 to 65535").into());
    }
    let mut found = look_up(&with_port)
        .map_err(|error| format!("no address found for host {host:?} ({error})"))?;
    // A stable sort keeps the order of the name service within a family.
    found.sort_by_key(|address| !address.is_ipv4());
    let mut places: Vec<Place> = Vec::new();
    for place in found.into_iter().map(Place::from) {
        if !places.contains(&place) && places.len() < MOST_ADDRESSES {
            places.push(place);
        }
    }
    if places.is_empty() {
        return Err(format!("host {host:?} has no address").into());
    }
    if !entry.uses_all_addresses {
        places.truncate(1);
    }
    Ok(places)
}

/// The request target of a URL's path and query.
fn http_path(path: &str) -> Result<String, Mistake> {
    if let Some(wrong) = path.chars().find(|character| !character.is_ascii_graphic()) {
        return Err(format!("{wrong:?} must be percent-encoded in a path").into());
    }
    Ok(if path.starts_with('/') { path.to_owned() } else { format!("/{path}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The address, the host and the path of an http target.
    fn read(text: &str) -> (String, String, String) {
        let target: Target = text.parse().unwrap();
        assert_eq!(target.service(), "http", "{text}");
        let page = target.page().unwrap().clone();
        (target.place().to_string(), page.host, page.path)
    }

    fn http(address: &str, host: &str, path: &str) -> (String, String, String) {
        (address.to_owned(), host.to_owned(), path.to_owned())
    }

    #[test]
    fn http_urls_are_read() {
        for (text, expected) in [
            ("http://127.0.0.1:8080/", http("127.0.0.1:8080", "127.0.0.1:8080", "/")),
            ("http://127.0.0.1:8080", http("127.0.0.1:8080", "127.0.0.1:8080", "/")),
            ("http://127.0.0.1", http("127.0.0.1:80", "127.0.0.1", "/")),
            ("http://127.0.0.1:81/a/b?c=d#e", http("127.0.0.1:81", "127.0.0.1:81", "/a/b?c=d")),
            ("http://127.0.0.1:81?c=/d", http("127.0.0.1:81", "127.0.0.1:81", "/?c=/d")),
            ("http://[::1]:8080/x", http("[::1]:8080", "[::1]:8080", "/x")),
            ("http://[::1]/x", http("[::1]:80", "[::1]", "/x")),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn a_port_alone_is_one_of_this_machine_and_without_a_service_it_is_http() {
        let root = http("127.0.0.1:8080", "127.0.0.1:8080", "/");
        for text in ["8080", ":8080", "127.0.0.1:8080", "http://:8080", "8080/", "http://8080/"] {
            assert_eq!(read(text), root, "{text}");
        }
        let page = http("127.0.0.1:8080", "localhost:8080", "/page?a:1");
        assert_eq!(read("localhost:8080/page?a:1"), page);
        assert_eq!("echo://:7".parse::<Target>().unwrap().to_string(), "echo://127.0.0.1:7");
    }

    #[test]
    fn other_services_are_read_and_written_alike() {
        for text in [
            "echo://127.0.0.1:7",
            "time://127.0.0.1:13",
            "echo://[::1]:7",
            "http://127.0.0.1:80/x",
            "https://127.0.0.1:8443/x",
            "h2://127.0.0.1:8443/x",
            "h2c://127.0.0.1:8080/x?y",
            "http+unix:///run/app/server.sock:/x?y",
            "quote://127.0.0.1:8080",
            "game://127.0.0.1:8080",
            "chat://127.0.0.1:8080",
            "chat://127.0.0.1:8080,127.0.0.1:8081,[::1]:8082",
            "game://127.0.0.1:8080,127.0.0.1:8081",
            "phone://127.0.0.1:8080",
            "guestbook://127.0.0.1:8080/guestbook",
            "guestbook://[::1]:8080/about?x",
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.to_string(), text);
            let service = target.service();
            assert!(text.starts_with(service) || target.is_http2(), "{service}");
        }
    }

    #[test]
    fn the_guestbook_has_its_page() {
        for text in
            ["guestbook://127.0.0.1:81", "guestbook://127.0.0.1:81/", "guestbook://127.0.0.1:81#a"]
        {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.to_string(), "guestbook://127.0.0.1:81/guestbook");
            assert_eq!(target.address(), Some("127.0.0.1:81".parse().unwrap()));
        }
    }

    #[test]
    fn a_wrong_target_is_told_the_remedy() {
        for (text, remedy) in [
            ("127.0.0.1", "expected SERVICE://HOST:PORT"),
            ("localhost:http", "expected SERVICE://HOST:PORT"),
            ("echo", "expected SERVICE://HOST:PORT"),
            ("ftp://127.0.0.1:21", "there is one for each of http, echo, time, quote"),
            ("echo://127.0.0.1", "the port is missing"),
            ("echo://127.0.0.1:7/x", "no path"),
            ("echo://127.0.0.1:7,127.0.0.1:8", "load one server; write echo://127.0.0.1:7"),
            ("chat://127.0.0.1:7,", "the port is missing"),
            ("chat://127.0.0.1:7,:70000", "not a port"),
            ("http://:/", "the host is missing"),
            (":65536", "not a port"),
            ("http://", "the host is missing"),
            ("http://127.0.0.1:http/", "not a port"),
            ("http://127.0.0.1:65536/", "not a port"),
            ("time://127.0.0.1:0", "not a port"),
            ("http://me@127.0.0.1:80/", "--user NAME:PASSWORD"),
            ("http+unix://server.sock:/", "http+unix:///PATH/TO.SOCK:/URL"),
            ("http+unix:///", "http+unix:///PATH/TO.SOCK:/URL"),
            ("http+unix:///a.sock:/b c", "percent-encoded"),
            ("http://[::1/", "write an IPv6 address in brackets"),
            ("http://[::1:80/", "write an IPv6 address in brackets"),
            ("http://::1/", "write an IPv6 address in brackets"),
            ("http://[localhost]:80/", "write an IPv6 address in brackets"),
            ("echo://[::1]x:7", "write an IPv6 address in brackets"),
            ("http://[]:80/", "write an IPv6 address in brackets"),
            ("http://127.0.0.1:80/a b", "percent-encoded"),
        ] {
            let message = text.parse::<Target>().unwrap_err().to_string();
            assert!(message.contains(remedy), "{message}");
            assert!(message.contains(text), "{message}");
            assert!(!message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn what_cannot_be_asked_is_refused() {
        let address = "127.0.0.1:7".parse().unwrap();
        for target in [
            Target::echo(address, Vec::new()),
            Target::echo(address, vec![0; Target::LONGEST_ECHO + 1]),
            Target::exchange(address, b"x".to_vec(), Vec::new()),
            Target::chat(address, 0),
        ] {
            assert!(target.check().is_err(), "{target}");
        }
        assert!("echo://127.0.0.1:7".parse::<Target>().unwrap().check().is_ok());
        let http2: Target = "h2c://127.0.0.1:7".parse().unwrap();
        let message = http2.check().err().map(|error| error.to_string());
        assert_eq!(message.is_none(), cfg!(feature = "http2"));
        assert!(message.is_none_or(|message| message.contains("`--features http2`")));
    }
}
