//! A certificate for tests of TLS, and a client that is rustls over the streams of `std`.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};

/// No wait of a test is longer.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) type Tls = StreamOwned<ClientConnection, TcpStream>;

/// Makes `cert.pem`, which is its own authority, and `key.pem`.
pub(crate) fn make_certificate(directory: &Path) {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    fs::write(directory.join("cert.pem"), made.cert.pem()).unwrap();
    fs::write(directory.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream
}

/// Connects, and trusts the certificate of the directory alone. The first read or write makes the
/// handshake.
pub(crate) fn connect_tls(
    address: SocketAddr,
    directory: &Path,
    version: &'static SupportedProtocolVersion,
) -> Tls {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(directory.join("cert.pem")).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    let session = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(session, connect(address))
}
