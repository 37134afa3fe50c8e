//! The services that ship with Duality, each written once as straight-line code.
//!
//! A service handles one connection: it is an `async fn` that takes a [`TcpStream`] and returns
//! when the connection has been served. A service cannot name an architecture, because this crate
//! depends only on the runtime.
//!
//! To add a service, write one file (or folder) here that has
//!
//! * A header that describes the protocol and names its specification.
//! * An `async` function or method `serve`, with a future that is `Send`. It takes a [`TcpStream`]
//!   and the connections' shared state, and returns `io::Result<()>`. `Ok` means that the
//!   connection ended in order, maybe with an error reply. `Err` means that the connection broke or
//!   ran out of time.
//! * A bound on everything that a client decides: lengths, counts and times.
//! * A constant `ENTRY: Entry`, which says what the service needs of an architecture and of its
//!   user, and how to open the service. Add it to [`ALL`], which the command line, the comparison
//!   and the tests read.
//!
//! Describe a protocol of lines in `docs/protocols.md` too, with a session to type.
//!
//! [`TcpStream`]: duality_runtime::net::TcpStream

#![forbid(unsafe_code)]

pub mod blocks;
pub mod chat;
pub mod client;
mod clock;
pub mod echo;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
pub mod game;
pub mod guestbook;
pub mod http;
mod idle;
mod line;
mod per_loop;
pub mod phone;
pub mod quote;
pub mod relay;
mod setup;
pub mod store;
pub mod time;

use std::{future::Future, io};

use duality_runtime::{handler::Handler, net::TcpStream};

pub use setup::{Setting, Setup, SetupError, Times};

/// The description of a service for other crates.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The name on the command line, and the scheme of its address in `duality load
    /// NAME://HOST:PORT`.
    pub name: &'static str,
    /// The service's purpose, in one line without a full stop.
    pub summary: &'static str,
    /// The document that specifies the protocol, or its content.
    pub protocol: &'static str,
    /// Sets the service up, and returns its handler of connections. A server calls it once, before
    /// there are tasks and child processes, which share the opened resources.
    pub open: fn(&Setup) -> Result<Handler, SetupError>,
    /// The settings of the service.
    pub settings: &'static [Setting],
    /// Whether it keeps data in a store. If not, its [`Setting::Store`] only joins servers.
    pub keeps: bool,
    /// Whether one connection can carry more than one request.
    pub persistent: bool,
    /// Whether it can be served with TLS. If not, a connection has two handles.
    pub tls: bool,
    /// Whether its connections must be able to reach the same memory, and so the same process.
    pub shared_memory: bool,
    /// Whether more than one of its connections must be served at a time.
    pub concurrent_connections: bool,
    /// Whether its requests can be injected without TCP: a request is any 8 bytes.
    pub injectable: bool,
    /// Whether it describes its requests, for the access log.
    pub logs_requests: bool,
    /// The number of descriptors that a connection keeps, its own socket included. The server
    /// accepts correspondingly fewer connections.
    pub descriptors: usize,
    /// The least stack for its connections, in bytes. It has room to spare even in the dev profile,
    /// which makes larger frames.
    pub stack: usize,
}

impl Entry {
    /// The values of most services: persistent, without settings and needs, with one descriptor and
    /// 16 KiB of stack.
    const PLAIN: Self = Self {
        name: "",
        summary: "",
        protocol: "",
        open: |_| Ok(Handler::new(|_| std::future::ready(Ok(())))),
        settings: &[],
        keeps: false,
        persistent: true,
        tls: true,
        shared_memory: false,
        concurrent_connections: false,
        injectable: false,
        logs_requests: false,
        descriptors: 1,
        stack: 16 * 1024,
    };

    /// Whether the service has this setting.
    #[must_use]
    pub fn has(&self, setting: Setting) -> bool {
        self.settings.contains(&setting)
    }
}

/// A handler for connections that share a value, each with a clone of it.
fn shared<T, S, F>(value: T, serve: S) -> Handler
where
    T: Clone + Send + Sync + 'static,
    S: Fn(T, TcpStream) -> F + Send + Sync + 'static,
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    Handler::new(move |stream| serve(value.clone(), stream))
}

/// Every service, in the order of help and reports.
pub const ALL: &[Entry] = &[
    echo::ENTRY,
    time::ENTRY,
    http::ENTRY,
    guestbook::ENTRY,
    relay::ENTRY,
    quote::ENTRY,
    phone::ENTRY,
    game::ENTRY,
    chat::ENTRY,
    blocks::ENTRY,
];

/// The entry called `name`, if there is one.
#[must_use]
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_found_by_its_own_name_only() {
        for entry in ALL {
            assert_eq!(find(entry.name).map(|found| found.summary), Some(entry.summary));
            assert_eq!(ALL.iter().filter(|other| other.name == entry.name).count(), 1);
            assert!(
                entry.name.bytes().all(|byte| byte.is_ascii_lowercase()),
                "{} is not a plain word",
                entry.name
            );
            assert!(!entry.summary.ends_with('.'));
            // Connections that need one another need shared memory too.
            assert!(!entry.concurrent_connections || entry.shared_memory, "{}", entry.name);
        }
        assert!(find("gopher").is_none());
    }
}
