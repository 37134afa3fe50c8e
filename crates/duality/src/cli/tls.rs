//! TLS of `duality serve`: its certificate and key.

use std::path::PathBuf;

use duality_architectures::Served;

use super::{Failure, heading};
use crate::catalogue::{Catalogue, Listed};

/// The least stack of a connection with TLS: a handshake computes on it under threads and pools.
const STACK: usize = 64 << 10;

/// Adds to the needs of a service what TLS needs.
///
/// # Errors
///
/// The reason why the service cannot be served with TLS, and the remedy.
pub(super) fn require(listed: &mut Listed) -> Result<(), String> {
    if !listed.tls {
        return Err(format!(
            "{} reads and writes at once, which TLS cannot here: leave it out",
            listed.name
        ));
    }
    listed.needs.straight_line = true;
    listed.stack = listed.stack.max(STACK);
    Ok(())
}

#[derive(clap::Args)]
pub(super) struct TlsFlags {
    /// Serve with TLS 1.2 and 1.3: the certificate, followed by those of its authorities (PEM)
    ///
    /// SIGHUP reads both files again.
    #[arg(long, value_name = "FILE", requires = "tls_key", conflicts_with = "inject", help_heading = heading::SERVICE)]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = heading::SERVICE)]
    tls_key: Option<PathBuf>,
}

impl TlsFlags {
    /// Refuses services that cannot be served so, and asks for what TLS needs.
    pub(super) fn check(&self, listed: &mut Listed) -> Result<(), Failure> {
        match self.tls_cert {
            None => Ok(()),
            Some(_) => {
                require(listed).map_err(|problem| Failure::misuse(format!("--tls-cert: {problem}")))
            }
        }
    }

    /// The service, with a handshake before each connection where the flags ask for it.
    #[cfg(feature = "rustls")]
    pub(super) fn put_before(
        &self,
        catalogue: &Catalogue,
        service: Served,
    ) -> Result<Served, Failure> {
        use std::sync::Arc;

        use duality_runtime::net::tls::{Acceptor, HANDSHAKE_TIME};

        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return Ok(service);
        };
        let acceptor = Acceptor::new(certificate, key)
            .map_err(|problem| Failure::misuse(format!("--tls-cert, --tls-key: {problem}")))?;
        if let Some(secure) = catalogue.own().and_then(|own| own.secure.as_ref()) {
            return Ok(secure(service, acceptor));
        }
        let acceptor = Arc::new(acceptor);
        Ok(service.after(move |stream| {
            let acceptor = acceptor.clone();
            async move { stream.accept_tls(&acceptor, HANDSHAKE_TIME).await }
        }))
    }

    #[cfg(not(feature = "rustls"))]
    pub(super) fn put_before(&self, _: &Catalogue, service: Served) -> Result<Served, Failure> {
        match self.tls_cert.is_some() && self.tls_key.is_some() {
            true => Err(Failure::misuse(
                "--tls-cert: built without TLS: build with `--features rustls`".to_owned(),
            )),
            false => Ok(service),
        }
    }
}
