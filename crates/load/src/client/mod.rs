//! Clients, one for each service: how one request is sent on a connection, and its reply checked.
//!
//! A new client is a file here, and its line in [`ALL`]. The file has two parts. A [`Client`] sends
//! the requests of one connection and checks the replies. A [`Protocol`] describes the service, and
//! makes the first `Client` of a load. Only chat has no `Client`: its members answer each other, so
//! they are a pattern (`pattern/chat/`).
//!
//! [`Client`]: crate::request::Client

pub(crate) mod blocks;
pub(crate) mod chat;
pub(crate) mod echo;
pub(crate) mod exchange;
pub(crate) mod game;
pub(crate) mod guestbook;
pub(crate) mod http;
pub(crate) mod phone;
pub(crate) mod quote;
pub(crate) mod relay;
pub(crate) mod time;

use std::fmt;
use std::sync::Arc;

use self::http::{Page, Version};
use crate::Options;
use crate::announce::EdgeAnnouncer;
use crate::crowd::Question;
use crate::engine::{Engine, Loading};

/// Every service that has a client, in the order in which they are listed.
pub(crate) static ALL: &[&Entry] = &[
    &http::ENTRY,
    &echo::ENTRY,
    &time::ENTRY,
    &quote::ENTRY,
    &game::ENTRY,
    &chat::ENTRY,
    &phone::ENTRY,
    &guestbook::ENTRY,
    &relay::ENTRY,
    &blocks::ENTRY,
];

/// The entry of a service in a target.
pub(crate) struct Entry {
    /// The name of the service: `echo` in `echo://127.0.0.1:7`.
    pub(crate) name: &'static str,
    /// The page for a target that names none. `None` if the service has no pages.
    pub(crate) page: Option<&'static str>,
    /// The port for a target that names none. `None` if the target must name one.
    pub(crate) port: Option<u16>,
    /// Whether the connections of one load may go to several servers, which serve them together.
    pub(crate) is_across: bool,
    /// Whether connections go to all addresses of a host name in turn. If not, they go to its first
    /// IPv4 address, or to its first address.
    pub(crate) uses_all_addresses: bool,
    /// Makes the protocol of a target. Services without pages ignore the page.
    pub(crate) read: fn(Page) -> Arc<dyn Protocol>,
}

impl Entry {
    /// A service without pages and without a default port.
    const fn plain(name: &'static str, read: fn(Page) -> Arc<dyn Protocol>) -> Self {
        let (is_across, uses_all_addresses) = (false, false);
        Self { name, page: None, port: None, is_across, uses_all_addresses, read }
    }
}

/// The request of a load to a service: all parts of a target except the address.
pub(crate) trait Protocol: fmt::Debug + Send + Sync {
    /// The name of the service.
    fn service(&self) -> &'static str;

    /// The page that is asked for, if the service has pages.
    fn page(&self) -> Option<&Page> {
        None
    }

    /// The version of HTTP, which only http chooses.
    fn version(&self) -> Version {
        Version::One
    }

    /// The reason why the load cannot use this target, if there is one.
    fn problem(&self) -> Option<String> {
        None
    }

    /// The setting among `options` that does not fit this service, if there is one.
    fn misfit(&self, options: &Options) -> Option<&'static str> {
        let _ = options;
        None
    }

    /// Whether a connection can carry more than one request.
    fn is_persistent(&self) -> bool {
        true
    }

    /// Whether connections are independent of each other, so that a relay may pause the load.
    fn has_independent_connections(&self) -> bool {
        true
    }

    /// Whether a connection has one request under way at a time.
    fn asks_one_by_one(&self) -> bool {
        true
    }

    /// The crowd's question. `None` if a connection cannot ask alone, or if the server closes it.
    fn question(&self) -> Option<Question> {
        None
    }

    /// Runs a load with the clients of this service.
    fn load<'a>(&'a self, engine: &'a Engine, edges: EdgeAnnouncer) -> Loading<'a>;
}
