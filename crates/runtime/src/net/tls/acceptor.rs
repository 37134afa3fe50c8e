//! The server's side: its certificate and key, read again on a reload.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{Connection, ServerConfig, ServerConnection};

use super::{HTTP_1, HostClock, Session};
use crate::{log, reload};

/// The time that a client has for its handshake, by default.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Makes the server's side of TLS connections, of TLS 1.2 and 1.3.
pub struct Acceptor {
    certificate: PathBuf,
    key: PathBuf,
    config: RwLock<Arc<ServerConfig>>,
    /// The reload that the files were last read for.
    reloads: AtomicU64,
    handshake_time: Duration,
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Acceptor")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

impl Acceptor {
    /// Reads the certificate, followed by those of its authorities, and the key of the certificate.
    /// Both files are PEM (RFC 7468).
    ///
    /// To be called before processes are forked, so that tickets are good for all of them.
    ///
    /// # Errors
    ///
    /// A line that names the file and the remedy.
    pub fn new(certificate: &Path, key: &Path) -> io::Result<Self> {
        let config = RwLock::new(Arc::new(read(certificate, key)?));
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        let reloads = AtomicU64::new(reload::requests());
        Ok(Self { certificate, key, config, reloads, handshake_time: HANDSHAKE_TIME })
    }

    /// Gives a client this time for its whole handshake, instead of [`HANDSHAKE_TIME`].
    #[must_use]
    pub fn with_handshake_time(self, limit: Duration) -> Self {
        Self { handshake_time: limit, ..self }
    }

    /// The time that a client has for its whole handshake: the limit for
    /// [`accept_tls`](crate::net::TcpStream::accept_tls).
    #[must_use]
    pub fn handshake_time(&self) -> Duration {
        self.handshake_time
    }

    /// Offers these protocols (ALPN, RFC 7301) instead of HTTP/1.1, the preferred one first.
    /// [`TcpStream::agreed_protocol`](crate::net::TcpStream::agreed_protocol) returns the choice.
    #[must_use]
    pub fn offering(mut self, protocols: &[&[u8]]) -> Self {
        let config = self.config.get_mut().unwrap_or_else(PoisonError::into_inner);
        let offered = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Arc::make_mut(config).alpn_protocols = offered;
        self
    }

    /// The settings of a new connection, for a library that makes handshakes of rustls itself, such
    /// as tokio-rustls. Reads the files again after a reload.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        let requests = reload::requests();
        if self.reloads.swap(requests, Ordering::Relaxed) != requests {
            self.read_again();
        }
        self.config.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(in crate::net) fn session(&self) -> io::Result<Session> {
        let connection = ServerConnection::new(self.config()).map_err(io::Error::other)?;
        Ok(Session::new(Connection::Server(connection)))
    }

    /// Reads the files again. Connections go on with what they have.
    #[cold]
    fn read_again(&self) {
        match read(&self.certificate, &self.key) {
            Ok(mut config) => {
                let mut current = self.config.write().unwrap_or_else(PoisonError::into_inner);
                // Tickets of before stay good.
                config.ticketer = current.ticketer.clone();
                config.alpn_protocols.clone_from(&current.alpn_protocols);
                *current = Arc::new(config);
            }
            Err(problem) => log::warn(format_args!("{problem}; the old certificate stays")),
        }
    }
}

fn read(certificate: &Path, key: &Path) -> io::Result<ServerConfig> {
    let at = |file: &Path, problem: &str| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {problem}", file.display()))
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| at(certificate, &unreadable(&error, "certificate")))?;
    if chain.is_empty() {
        return Err(at(certificate, &unreadable(&pem::Error::NoItemsFound, "certificate")));
    }
    let private = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| at(key, &unreadable(&error, "private key")))?;
    let provider = Arc::new(ring::default_provider());
    let versions = ServerConfig::builder_with_details(provider, Arc::new(HostClock))
        .with_safe_default_protocol_versions();
    let builder = versions.map_err(io::Error::other)?.with_no_client_auth();
    let mut config = builder.with_single_cert(chain, private).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            at(key, "is not the key of the certificate: give the key that it was made with")
        }
        error => at(certificate, &format!("{error}: give a certificate (PEM) and its key")),
    })?;
    config.alpn_protocols = vec![HTTP_1.to_vec()];
    config.ticketer = ring::Ticketer::new().map_err(io::Error::other)?;
    Ok(config)
}

fn unreadable(error: &pem::Error, what: &str) -> String {
    match error {
        pem::Error::Io(error) => format!("{error}: give a file with a {what} (PEM)"),
        pem::Error::NoItemsFound => format!("there is no {what} in it: give a PEM file"),
        error => format!("{error}: give a file with a {what} (PEM)"),
    }
}
