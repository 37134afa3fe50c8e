//! TLS of a load: the certificates that the load trusts, and the handshakes of its connections. A
//! build without the feature `rustls` refuses `https://`.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use duality_runtime::net::TcpStream;

use duality_trace::Mistake;

/// The certificates of servers that a load trusts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// The certificates of authorities that the system trusts.
    #[default]
    System,
    /// The certificates of the authorities in this file (PEM).
    Authority(PathBuf),
    /// All certificates, also those that a test server signed for itself.
    Anything,
}

/// Makes the handshakes with one server.
#[derive(Clone, Debug)]
pub(crate) struct Handshakes {
    #[cfg(feature = "rustls")]
    connector: duality_runtime::net::tls::Connector,
    /// The server must agree on HTTP/2.
    #[cfg(feature = "rustls")]
    http2: bool,
}

#[cfg(feature = "rustls")]
impl Handshakes {
    /// Handshakes with the server of this name, a host name or an address without a port. With
    /// `http2`, the server must agree on HTTP/2.
    ///
    /// # Errors
    ///
    /// The authorities that cannot be read, or the name, and the remedy.
    pub(crate) fn new(server: &str, trust: &Trust, http2: bool) -> Result<Self, Mistake> {
        use duality_runtime::net::tls;

        let trust = match trust {
            Trust::System => tls::Trust::System,
            Trust::Authority(file) => tls::Trust::Authority(file),
            Trust::Anything => tls::Trust::Anything,
        };
        let connector = tls::Connector::new(server, trust).map_err(|error| error.to_string())?;
        let connector = if http2 { connector.offering(&[tls::HTTP_2]) } else { connector };
        Ok(Self { connector, http2 })
    }

    /// Makes the handshake of a connection within `limit`.
    pub(crate) async fn make(&self, stream: TcpStream, limit: Duration) -> io::Result<TcpStream> {
        use duality_runtime::net::tls::HTTP_2;

        let stream = stream.connect_tls(&self.connector, limit).await?;
        if self.http2 && stream.agreed_protocol().as_deref() != Some(HTTP_2) {
            return Err(io::Error::other("the server does not agree on h2"));
        }
        Ok(stream)
    }
}

#[cfg(not(feature = "rustls"))]
impl Handshakes {
    /// Refuses `https://`: this build has no TLS.
    pub(crate) fn new(_: &str, _: &Trust, _: bool) -> Result<Self, Mistake> {
        Err("this program was built without TLS: build it with `--features rustls`".into())
    }

    #[expect(clippy::unused_async, reason = "the build with TLS waits here")]
    pub(crate) async fn make(&self, stream: TcpStream, _: Duration) -> io::Result<TcpStream> {
        Ok(stream)
    }
}
