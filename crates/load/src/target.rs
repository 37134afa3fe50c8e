//! What a load is aimed at: `SERVICE://HOST:PORT`, with a path where the service has pages, or a fixed
//! exchange of bytes with a service of the user's own.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// What `echo://` sends: 64 bytes, no two halves alike, so that a shifted reply is a wrong one.
const ECHO_MESSAGE: &[u8; 64] =
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.\n";

/// How many requests of a connection to a `guestbook://` there are for each POST, itself included.
const POST_EVERY: u32 = 10;

/// How many lines each member of a `chat://` says at a time, if there is room for so many.
const CHAT_LINES: u32 = 100;

/// Those that have a client here.
const SERVICES: &[&str] = &["http", "echo", "time", "quote", "game", "chat", "phone", "guestbook"];

/// A service at an address, and what to ask of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// GET one path, again and again.
    Http(HttpTarget),
    /// Send a message, get the same bytes back (RFC 862).
    Echo {
        /// Where the server listens.
        address: SocketAddr,
        /// The bytes of one request; see [`Target::check`] for their bound.
        message: Vec<u8>,
    },
    /// Connect, get one line with the time, and the end (as in RFC 867).
    Time {
        /// Where the server listens.
        address: SocketAddr,
    },
    /// Ask the prices of stocks, one after the other.
    Quote {
        /// Where the server listens.
        address: SocketAddr,
    },
    /// Play ball with another of the load's connections.
    Game {
        /// Where the server listens.
        address: SocketAddr,
    },
    /// Talk in one room with all the other connections of the load; a request is one delivery, of a line
    /// to one member. Without end, or for so many deliveries; `l (l - 1) m` of them are m lines of each of l
    /// members.
    Chat {
        /// Where the server listens.
        address: SocketAddr,
        /// At most so many lines of each member are under way at a time; they are fewer where so many
        /// would be more than 64 KiB for one that has not heard any.
        lines: u32,
    },
    /// Add an entry and look it up again, in turn; without keep-alive, only add.
    Phone {
        /// Where the server listens.
        address: SocketAddr,
    },
    /// GET a page that counts its visitors, and POST remarks in between.
    Guestbook {
        /// The page.
        page: HttpTarget,
        /// Every so many requests of a connection, one is a POST; 0 is never.
        post_every: u32,
    },
    /// A service of the user's own: fixed bytes out, fixed bytes expected.
    Exchange {
        /// Where the server listens.
        address: SocketAddr,
        /// The bytes of one request.
        request: Vec<u8>,
        /// The bytes of the only correct reply; not empty.
        reply: Vec<u8>,
    },
}

/// A resource of an HTTP/1.1 server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpTarget {
    /// Where the server listens.
    pub address: SocketAddr,
    /// What the `Host` header says: the authority of the URL as it was written.
    pub host: String,
    /// The request target: an absolute path, with a query if there is one.
    pub path: String,
}

impl Target {
    /// The most that one echo request may hold. A client that sends more before it reads could fill
    /// both directions of the connection, and then it and the server would wait for each other.
    pub const LONGEST_ECHO: usize = 32 * 1024;

    /// Where the server listens.
    pub fn address(&self) -> SocketAddr {
        match self {
            Target::Http(page) | Target::Guestbook { page, .. } => page.address,
            Target::Echo { address, .. }
            | Target::Time { address }
            | Target::Quote { address }
            | Target::Game { address }
            | Target::Chat { address, .. }
            | Target::Phone { address }
            | Target::Exchange { address, .. } => *address,
        }
    }

    /// The name of the service, as in `SERVICE://HOST:PORT`; `exchange` for one of the user's own.
    pub fn service(&self) -> &str {
        match self {
            Target::Http(_) => "http",
            Target::Echo { .. } => "echo",
            Target::Time { .. } => "time",
            Target::Quote { .. } => "quote",
            Target::Game { .. } => "game",
            Target::Chat { .. } => "chat",
            Target::Phone { .. } => "phone",
            Target::Guestbook { .. } => "guestbook",
            Target::Exchange { .. } => "exchange",
        }
    }

    /// Whether this can be asked at all: an echo message is 1 to [`LONGEST_ECHO`](Target::LONGEST_ECHO)
    /// bytes long, the reply of an exchange is not empty, and the members of a chat say something.
    ///
    /// # Errors
    ///
    /// [`TargetError`], which says what to change.
    pub fn check(&self) -> Result<(), TargetError> {
        let problem = match self {
            Target::Echo { message, .. } if message.is_empty() => "the message is empty".to_owned(),
            Target::Echo { message, .. } if message.len() > Self::LONGEST_ECHO => {
                format!(
                    "a message of {} bytes; at most {} are sent",
                    message.len(),
                    Self::LONGEST_ECHO
                )
            }
            Target::Exchange { reply, .. } if reply.is_empty() => {
                "the expected reply is empty, so there is nothing to wait for".to_owned()
            }
            Target::Chat { lines: 0, .. } => "no lines: nothing would be said".to_owned(),
            _ => return Ok(()),
        };
        Err(TargetError { target: self.to_string(), problem })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Http(page) | Target::Guestbook { page, .. } => {
                write!(formatter, "{}://{}{}", self.service(), page.host, page.path)
            }
            other => write!(formatter, "{}://{}", other.service(), other.address()),
        }
    }
}

/// A target that cannot be loaded, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("target {target:?}: {problem}")]
pub struct TargetError {
    target: String,
    problem: String,
}

impl FromStr for Target {
    type Err = TargetError;

    /// Reads `SERVICE://HOST:PORT[/PATH]`; `HOST:PORT[/PATH]` is one of http, and a port alone one of 127.0.0.1. A host name is looked up here, and its first IPv4 address
    /// is taken if it has one. Those with pages have port 80 unless it says otherwise; the guestbook's
    /// page is `/guestbook`, likewise.
    fn from_str(text: &str) -> Result<Self, TargetError> {
        let look_up = |place: &str| place.to_socket_addrs().map(Iterator::collect);
        parse(text, look_up).map_err(|problem| TargetError { target: text.to_owned(), problem })
    }
}

/// Finds the addresses of `HOST:PORT`; the one part of reading a target that asks anybody else.
pub(crate) type LookUp = fn(&str) -> io::Result<Vec<SocketAddr>>;

/// Reads `SERVICE://HOST:PORT[/PATH]`.
///
/// # Errors
///
/// What is wrong with it, and the remedy.
pub(crate) fn parse(text: &str, look_up: LookUp) -> Result<Target, String> {
    let (scheme, rest) = match text.split_once("://") {
        Some(parts) => parts,
        None => ("http", without_scheme(text)?),
    };
    // The fragment is the client's own affair.
    let rest = rest.split('#').next().unwrap_or_default();
    let (authority, path) = match rest.find(['/', '?']) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let authority = &*complete(authority);
    match scheme {
        "http" => Ok(Target::Http(page(authority, path, look_up)?)),
        "guestbook" => {
            let path = if matches!(path, "" | "/") { "/guestbook" } else { path };
            Ok(Target::Guestbook { page: page(authority, path, look_up)?, post_every: POST_EVERY })
        }
        _ if SERVICES.contains(&scheme) && !matches!(path, "" | "/") => {
            Err(format!("{scheme} has no path; write {scheme}://{authority}"))
        }
        "echo" => Ok(Target::Echo {
            address: resolve(authority, None, look_up)?,
            message: ECHO_MESSAGE.to_vec(),
        }),
        "time" => Ok(Target::Time { address: resolve(authority, None, look_up)? }),
        "quote" => Ok(Target::Quote { address: resolve(authority, None, look_up)? }),
        "game" => Ok(Target::Game { address: resolve(authority, None, look_up)? }),
        "chat" => {
            Ok(Target::Chat { address: resolve(authority, None, look_up)?, lines: CHAT_LINES })
        }
        "phone" => Ok(Target::Phone { address: resolve(authority, None, look_up)? }),
        "https" => Err("TLS is not spoken here; load the server's http:// address".to_owned()),
        other => Err(format!(
            "no client for {other:?}; there is one for each of {}",
            SERVICES.join(", ")
        )),
    }
}

/// `HOST:PORT`, `:PORT` and `PORT` are an http server's, as in `duality serve --listen`.
fn without_scheme(text: &str) -> Result<&str, String> {
    let authority = text.split(['/', '?', '#']).next().unwrap_or_default();
    let port = authority.rsplit(':').next().unwrap_or_default();
    match !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) {
        true => Ok(text),
        false => Err("expected SERVICE://HOST:PORT, as in http://127.0.0.1:8080/".to_owned()),
    }
}

/// The authority, in which this machine need not be named: `:PORT`, or `PORT` alone.
fn complete(authority: &str) -> String {
    let port = authority.strip_prefix(':').unwrap_or(authority);
    match !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) {
        true => format!("127.0.0.1:{port}"),
        false => authority.to_owned(),
    }
}

fn page(authority: &str, path: &str, look_up: LookUp) -> Result<HttpTarget, String> {
    let address = resolve(authority, Some(80), look_up)?;
    Ok(HttpTarget { address, host: authority.to_owned(), path: http_path(path)? })
}

/// The address of `HOST:PORT`, `HOST` or `[IPv6]:PORT`.
fn resolve(
    authority: &str,
    default_port: Option<u16>,
    look_up: LookUp,
) -> Result<SocketAddr, String> {
    if authority.contains('@') {
        return Err("user names are not supported; write SERVICE://HOST:PORT".to_owned());
    }
    // A colon within the brackets of an IPv6 address does not begin the port.
    let has_port = authority.rfind(':') > authority.rfind(']');
    let with_port = match (has_port, default_port) {
        (true, _) => authority.to_owned(),
        (false, Some(port)) => format!("{authority}:{port}"),
        (false, None) => return Err("the port is missing; write SERVICE://HOST:PORT".to_owned()),
    };
    let (host, port) = with_port.rsplit_once(':').expect("the port was added above");
    if host.is_empty() {
        return Err("the host is missing; write SERVICE://HOST:PORT".to_owned());
    }
    if !port.parse().is_ok_and(|port: u16| port > 0) {
        return Err(format!("{port:?} is not a port; ports are 1 to 65535"));
    }
    let found = look_up(&with_port)
        .map_err(|error| format!("no address found for host {host:?} ({error})"))?;
    let first_choice = found.iter().find(|address| address.is_ipv4()).or(found.first());
    first_choice.copied().ok_or_else(|| format!("host {host:?} has no address"))
}

/// The request target of a URL's path and query.
fn http_path(path: &str) -> Result<String, String> {
    if let Some(wrong) = path.chars().find(|character| !character.is_ascii_graphic()) {
        return Err(format!("{wrong:?} must be percent-encoded in a path"));
    }
    Ok(if path.starts_with('/') { path.to_owned() } else { format!("/{path}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(address: &str, host: &str, path: &str) -> Target {
        Target::Http(HttpTarget {
            address: address.parse().unwrap(),
            host: host.to_owned(),
            path: path.to_owned(),
        })
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
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_port_alone_is_one_of_this_machine_and_without_a_service_it_is_http() {
        let root = http("127.0.0.1:8080", "127.0.0.1:8080", "/");
        for text in ["8080", ":8080", "127.0.0.1:8080", "http://:8080", "8080/", "http://8080/"] {
            assert_eq!(text.parse(), Ok(root.clone()), "{text}");
        }
        let page = http("127.0.0.1:8080", "localhost:8080", "/page?a:1");
        assert_eq!("localhost:8080/page?a:1".parse(), Ok(page));
        assert_eq!("echo://:7".parse::<Target>(), "echo://127.0.0.1:7".parse());
    }

    #[test]
    fn other_services_are_read_and_written_alike() {
        for text in [
            "echo://127.0.0.1:7",
            "time://127.0.0.1:13",
            "echo://[::1]:7",
            "http://127.0.0.1:80/x",
            "quote://127.0.0.1:8080",
            "game://127.0.0.1:8080",
            "chat://127.0.0.1:8080",
            "phone://127.0.0.1:8080",
            "guestbook://127.0.0.1:8080/guestbook",
            "guestbook://[::1]:8080/about?x",
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.to_string(), text);
            assert_eq!(target.service(), text.split(':').next().unwrap());
        }
    }

    #[test]
    fn the_guestbook_has_its_page() {
        for text in
            ["guestbook://127.0.0.1:81", "guestbook://127.0.0.1:81/", "guestbook://127.0.0.1:81#a"]
        {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.to_string(), "guestbook://127.0.0.1:81/guestbook");
            assert_eq!(target.address(), "127.0.0.1:81".parse().unwrap());
        }
    }

    #[test]
    fn a_wrong_target_is_told_the_remedy() {
        for (text, remedy) in [
            ("127.0.0.1", "expected SERVICE://HOST:PORT"),
            ("localhost:http", "expected SERVICE://HOST:PORT"),
            ("echo", "expected SERVICE://HOST:PORT"),
            ("ftp://127.0.0.1:21", "there is one for each of http, echo, time, quote"),
            ("https://127.0.0.1/", "http://"),
            ("echo://127.0.0.1", "the port is missing"),
            ("echo://127.0.0.1:7/x", "no path"),
            ("http://:/", "the host is missing"),
            (":65536", "not a port"),
            ("http://", "the host is missing"),
            ("http://127.0.0.1:http/", "not a port"),
            ("http://127.0.0.1:65536/", "not a port"),
            ("time://127.0.0.1:0", "not a port"),
            ("http://me@127.0.0.1:80/", "user names"),
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
            Target::Echo { address, message: Vec::new() },
            Target::Echo { address, message: vec![0; Target::LONGEST_ECHO + 1] },
            Target::Exchange { address, request: b"x".to_vec(), reply: Vec::new() },
            Target::Chat { address, lines: 0 },
        ] {
            assert!(target.check().is_err(), "{target}");
        }
        assert!("echo://127.0.0.1:7".parse::<Target>().unwrap().check().is_ok());
    }
}
