//! The peers that need no definition: web servers in a usual set-up for the pages of a comparison.
//! How to find their programs, and how to ask for the version.
//!
//! Each peer has one worker for its processor, no log of requests, and a queue as long as ours.
//! Each closes a connection after as many requests as our service ([`REQUESTS_A_CONNECTION`]). A
//! new peer is an entry of [`READY_MADE`], and a file with its configuration.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use super::{built, find};
use crate::record::{Peer, Stop};

/// The seconds that a ready-made peer may take until it listens.
const START_SECONDS: f64 = 10.0;
/// The command that builds the peers of `peers/`.
const BUILT: &str = "cargo xtask peers";

/// Our http service and each of these peers close a persistent connection after this many requests.
/// To open and close a connection costs a multiple of a request. So a peer without this limit would
/// have less work to do. The toys of `peers/` have the same number in `peers/http.h`.
pub const REQUESTS_A_CONNECTION: u32 = 1000;

/// A short cut of our `service` that other servers lack, to be told to readers. `None` if there is
/// none.
pub(crate) fn disclosure(service: &str) -> Option<&'static str> {
    (service == "http").then_some(
        "Where a connection carries several requests, our http keeps its last page for a second, \
         and loads like this one ask for that page again and again. The kept page saves our http \
         some 6 % of its processor time at 100 connections (docs/http.md).",
    )
}

/// A peer that needs no definition.
#[derive(Debug)]
pub struct ReadyMade {
    /// The peer's name.
    pub name: &'static str,
    /// A description in a few words.
    pub about: &'static str,
    /// The service that it gives.
    service: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    configuration: &'static str,
    /// The placeholders that only TLS fills in, and the texts. Empty if the peer has no TLS here.
    secure: &'static [(&'static str, &'static str)],
    /// The arguments with which the program prints its version, on either output.
    version: &'static [&'static str],
    remedy: &'static str,
}

/// TLS of nginx.
const SECURE_NGINX: &[(&str, &str)] =
    &[("{ssl}", " ssl"), ("{tls}", "ssl_certificate {certificate}; ssl_certificate_key {key};")];

/// TLS of Apache.
const SECURE_APACHE: &[(&str, &str)] = &[(
    "{tls}",
    "LoadModule ssl_module /usr/lib/apache2/modules/mod_ssl.so\nSSLEngine on\n\
     SSLCertificateFile {certificate}\nSSLCertificateKeyFile {key}",
)];

macro_rules! apache {
    ($model:literal) => {
        ReadyMade {
            name: concat!("apache-", $model),
            about: concat!("Apache's httpd, ", $model, " model"),
            service: "http",
            program: "apache2",
            arguments: &["-f", "{configuration}", "-D", "FOREGROUND"],
            configuration: concat!(
                include_str!("apache.conf"),
                include_str!(concat!("apache-", $model, ".conf"))
            ),
            secure: SECURE_APACHE,
            version: &["-v"],
            remedy: "apt-get install apache2-bin",
        }
    };
}

const fn toy(name: &'static str, about: &'static str, program: &'static str) -> ReadyMade {
    ReadyMade {
        name,
        about,
        service: "http",
        program,
        arguments: &["--listen", "{host}:{port}"],
        configuration: "",
        secure: &[],
        version: &[],
        remedy: BUILT,
    }
}

/// The ready-made peers of the relay.
const RELAYS: &[ReadyMade] = &[
    ReadyMade {
        name: "nginx",
        about: "nginx with one worker, as a relay",
        service: "relay",
        program: "nginx",
        arguments: &["-p", "{directory}", "-e", "{directory}/error.log", "-c", "{configuration}"],
        configuration: include_str!("relay-nginx.conf"),
        secure: &[],
        version: &["-v"],
        remedy: "apt-get install nginx-light",
    },
    ReadyMade {
        name: "haproxy",
        about: "HAProxy with one thread",
        service: "relay",
        program: "haproxy",
        arguments: &["-db", "-f", "{configuration}"],
        configuration: include_str!("relay-haproxy.conf"),
        secure: &[],
        version: &["-v"],
        remedy: "apt-get install haproxy",
    },
];

/// All ready-made peers of http.
pub const READY_MADE: &[ReadyMade] = &[
    ReadyMade {
        name: "nginx",
        about: "nginx with one worker",
        service: "http",
        program: "nginx",
        arguments: &["-p", "{directory}", "-e", "{directory}/error.log", "-c", "{configuration}"],
        configuration: include_str!("nginx.conf"),
        secure: SECURE_NGINX,
        version: &["-v"],
        remedy: "apt-get install nginx-light",
    },
    ReadyMade {
        name: "lighttpd",
        about: "lighttpd",
        service: "http",
        program: "lighttpd",
        arguments: &["-D", "-f", "{configuration}"],
        configuration: include_str!("lighttpd.conf"),
        secure: &[],
        version: &["-v"],
        remedy: "apt-get install lighttpd",
    },
    apache!("prefork"),
    apache!("worker"),
    apache!("event"),
    toy("st", "a toy server on State Threads (peers/http_st.c)", "http_st"),
    toy("pth", "a toy server on GNU Pth (peers/http_pth.c)", "http_pth"),
    toy("pthreads", "a toy server on kernel threads (peers/http_pthreads.c)", "http_pthreads"),
];

impl ReadyMade {
    /// The ready-made peer with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        READY_MADE.iter().chain(RELAYS).find(|ready| ready.name == name)
    }

    /// The ready-made peers of `service`, or else of http.
    pub fn of_service(service: &str) -> &'static [Self] {
        if service == RELAYS[0].service { RELAYS } else { READY_MADE }
    }

    /// The ready-made peer with this name: of `service`, if there is one.
    pub fn serving(service: &str, name: &str) -> Option<&'static Self> {
        let of_service = Self::of_service(service).iter().find(|ready| ready.name == name);
        of_service.or_else(|| Self::named(name))
    }

    /// The definition, with TLS or without.
    pub fn peer(&self, tls: bool) -> Peer {
        let program = match built() {
            Some(folder) if self.is_toy() => folder.join(self.program).display().to_string(),
            _ => self.program.to_owned(),
        };
        let arguments = self.arguments.iter().map(|&argument| argument.to_owned());
        Peer {
            name: self.name.to_owned(),
            command: [program].into_iter().chain(arguments).collect(),
            build: Vec::new(),
            configuration: self.configuration(tls),
            environment: BTreeMap::new(),
            ready: None,
            // Apache listens before its workers can serve.
            ask: if tls { String::new() } else { "GET / HTTP/1.0\r\n\r\n".to_owned() },
            start_seconds: START_SECONDS,
            stop: Stop::Term,
            folder: None,
            remedy: self.remedy.to_owned(),
        }
    }

    fn configuration(&self, tls: bool) -> String {
        let requests = REQUESTS_A_CONNECTION.to_string();
        let plain = self.configuration.replace("{requests}", &requests);
        self.secure.iter().fold(plain, |text, (placeholder, secure)| {
            text.replace(placeholder, if tls { secure } else { "" })
        })
    }

    /// The reason why the peer cannot answer the requests of `service`'s clients, if there is one.
    /// `is_demo` tells whether these clients ask for the built-in page.
    pub fn misfit(&self, service: &str, is_demo: bool) -> Option<String> {
        if service != self.service {
            return Some(format!("serves {}, and not {service}", self.service));
        }
        (self.is_toy() && !is_demo).then(|| "serves the built-in page, and no other".to_owned())
    }

    /// The version that the program prints, if the program is installed.
    pub fn version(&self) -> Option<String> {
        if self.version.is_empty() {
            return None;
        }
        let mut command = Command::new(find(self.program)?);
        let output = command.args(self.version).stdin(Stdio::null()).output().ok()?;
        let printed = [output.stdout, output.stderr].concat();
        let line = String::from_utf8_lossy(&printed).lines().next()?.trim().to_owned();
        Some(line)
    }

    fn is_toy(&self) -> bool {
        self.remedy == BUILT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_listens_where_it_is_told() {
        for ready in READY_MADE.iter().chain(RELAYS) {
            let peer = ready.peer(false);
            assert!(peer.texts().any(|text| text.contains("{port}")), "{}", ready.name);
            let found = ReadyMade::serving(ready.service, ready.name).unwrap();
            assert_eq!(found.about, ready.about);
        }
    }

    #[test]
    fn each_closes_connections_as_ours_do() {
        for ready in READY_MADE.iter().filter(|ready| !ready.is_toy()) {
            let configuration = ready.peer(false).configuration;
            let lines: Vec<&str> = configuration
                .lines()
                .map(str::trim)
                .filter(|line| {
                    let name = line.to_ascii_lowercase().replace(['-', '_'], "");
                    name.contains("keepaliverequests")
                })
                .collect();
            let [line] = lines[..] else { panic!("{}: {lines:?}", ready.name) };
            assert!(line.trim_end_matches(';').ends_with(" 1000"), "{}: {line}", ready.name);
        }
        // Each configuration names its limit in its own way. The toys have the limit from one
        // place.
        let header = include_str!("../../../../../peers/http.h");
        let limit = format!("REQUESTS_A_CONNECTION = {REQUESTS_A_CONNECTION},");
        assert!(header.contains(&limit), "peers/http.h: {limit}");
    }

    #[test]
    fn toys_have_one_page() {
        let toy = ReadyMade::named("st").unwrap();
        assert_eq!(toy.misfit("http", true), None);
        assert!(toy.misfit("http", false).is_some());
        let nginx = ReadyMade::named("nginx").unwrap();
        assert_eq!(nginx.misfit("http", false), None);
        assert_eq!(nginx.misfit("echo", false).unwrap(), "serves http, and not echo");
    }
}
