//! The client's side: which servers it trusts.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, RootCertStore,
    SignatureScheme,
};

use super::{HTTP_1, HostClock, Session};

/// Which certificates of servers are accepted.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'a> {
    /// Those of the authorities that the system trusts.
    System,
    /// Those of the authorities in this file (PEM).
    Authority(&'a Path),
    /// All of them, as for a test server that signed its own.
    Anything,
}

/// Makes the client's side of TLS connections to one server. Each has a whole handshake: sessions
/// are not resumed.
#[derive(Clone)]
pub struct Connector {
    config: Arc<ClientConfig>,
    server: ServerName<'static>,
}

impl fmt::Debug for Connector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Connector").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Connector {
    /// A connector to the server of this name, a host name or an address, without a port.
    ///
    /// # Errors
    ///
    /// A line with the remedy: the authorities cannot be read, or the name is none.
    pub fn new(server: &str, trust: Trust<'_>) -> io::Result<Self> {
        let host = server.trim_start_matches('[').trim_end_matches(']').to_owned();
        let server = ServerName::try_from(host)
            .map_err(|_| invalid(format!("{server:?} is no host that a certificate can name")))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_details(provider.clone(), Arc::new(HostClock))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let mut config = match trust {
            Trust::Anything => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Unverified(provider)))
                .with_no_client_auth(),
            trust => builder.with_root_certificates(roots(trust)?).with_no_client_auth(),
        };
        config.alpn_protocols = vec![HTTP_1.to_vec()];
        config.resumption = Resumption::disabled();
        Ok(Self { config: Arc::new(config), server })
    }

    /// Offers these protocols (ALPN, RFC 7301) instead of HTTP/1.1, the preferred one first. If a
    /// server has none of them, the handshake fails, or the server ignores the offer.
    #[must_use]
    pub fn offering(mut self, protocols: &[&[u8]]) -> Self {
        let offered = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Arc::make_mut(&mut self.config).alpn_protocols = offered;
        self
    }

    pub(in crate::net) fn session(&self) -> io::Result<Session> {
        let connection = ClientConnection::new(self.config.clone(), self.server.clone())
            .map_err(io::Error::other)?;
        Ok(Session::new(Connection::Client(connection)))
    }
}

fn invalid(problem: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, problem.into())
}

fn roots(trust: Trust<'_>) -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let Trust::Authority(file) = trust else {
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        return match roots.is_empty() {
            true => Err(invalid("this system has no roots to trust: give --ca FILE")),
            false => Ok(roots),
        };
    };
    let name = file.display();
    let certificates = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| invalid(format!("{name}: {error}: give a file of certificates (PEM)")))?;
    for certificate in certificates {
        roots
            .add(certificate)
            .map_err(|error| invalid(format!("{name}: {error}: give an authority's")))?;
    }
    match roots.is_empty() {
        true => Err(invalid(format!("{name}: there is no certificate in it: give a PEM file"))),
        false => Ok(roots),
    }
}

/// Accepts every certificate. Signatures of the handshake are checked still.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
