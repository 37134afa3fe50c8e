//! What requests know of their client: an extension made of the client's address.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper::http::Extensions;

type Insert = dyn Fn(SocketAddr, &mut Extensions) + Send + Sync;

/// Makes an extension for the requests of each client. By default, requests know nothing.
#[derive(Clone, Default)]
pub(crate) struct ClientInfo(Option<Arc<Insert>>);

impl ClientInfo {
    pub(crate) fn new<T: Clone + Send + Sync + 'static>(
        info: impl Fn(SocketAddr) -> T + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(move |address, extensions: &mut Extensions| {
            extensions.insert(info(address));
        })))
    }

    /// The client of one connection. A client that has reset its connection has no address, and its
    /// requests no extension.
    pub(crate) fn of(&self, address: impl FnOnce() -> io::Result<SocketAddr>) -> Client {
        Client(self.0.as_ref().and_then(|_| address().ok()).map(|address| (self.clone(), address)))
    }
}

impl fmt::Debug for ClientInfo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("ClientInfo").field(&self.0.is_some()).finish()
    }
}

/// The client of a connection.
#[derive(Debug)]
pub(crate) struct Client(Option<(ClientInfo, SocketAddr)>);

impl Client {
    /// Adds the extension to a request.
    pub(crate) fn extend(&self, extensions: &mut Extensions) {
        if let Some((ClientInfo(Some(insert)), address)) = &self.0 {
            insert(*address, extensions);
        }
    }
}
