//! TLS of a simulation: the servers have a certificate, and clients trust its authority.
//!
//! The key is in the repository, so that the certificate is good for nothing but simulations.

use std::path::PathBuf;
use std::sync::Arc;

use duality_architectures::Served;
use duality_runtime::net::TcpStream;
use duality_runtime::net::tls::{Acceptor, Connector, Trust};

use super::{Days, PATIENCE, Trouble};
use crate::violation::Violation;

/// What stands in the certificate.
const NAME: &str = "server";

const FILES: [(&str, &str); 3] = [
    ("root.pem", include_str!("root.pem")),
    ("server.pem", include_str!("server.pem")),
    ("server.key", include_str!("server.key")),
];

/// The files of the certificate, its key and its authority, and the clients' side.
#[derive(Clone)]
pub(super) struct Tls {
    folder: PathBuf,
    connector: Connector,
}

impl Tls {
    pub(super) fn new(days: &Days) -> Result<Self, Violation> {
        let folder = days.directory()?;
        for (name, text) in FILES {
            let path = folder.join(name);
            let problem = |error| format!("{}: {error}", path.display());
            std::fs::write(&path, text).map_err(problem)?;
        }
        let trust = folder.join("root.pem");
        let connector = Connector::new(NAME, Trust::Authority(&trust));
        let connector = connector.map_err(|error| error.to_string())?;
        Ok(Self { folder, connector })
    }

    /// The service, with a handshake before each connection, as in `duality serve --tls-cert`.
    pub(super) fn put_before(&self, served: Served) -> Result<Served, Violation> {
        let (certificate, key) = (self.folder.join("server.pem"), self.folder.join("server.key"));
        let acceptor = Acceptor::new(&certificate, &key).map_err(|error| error.to_string())?;
        let acceptor = Arc::new(acceptor);
        Ok(served.after(move |stream| {
            let acceptor = acceptor.clone();
            async move { stream.accept_tls(&acceptor, acceptor.handshake_time()).await }
        }))
    }

    /// The client's side of a handshake.
    pub(super) async fn connect(&self, stream: TcpStream) -> Result<TcpStream, Trouble> {
        Ok(stream.connect_tls(&self.connector, PATIENCE).await?)
    }
}
