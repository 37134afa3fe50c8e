//! TLS of `duality serve`: its certificate and key.

use std::path::PathBuf;
use std::time::Duration;

use duality_architectures::Served;
use duality_lab::Mistake;
use duality_lab::units::parse_duration;

use super::heading;
use crate::catalogue::{Catalogue, Listed};
use crate::cli::{Blame, Failure, Party};

/// The least stack of a connection with TLS: a handshake computes on it under threads and pools.
const STACK: usize = 64 << 10;

/// Adds to the needs of a service what TLS needs.
///
/// # Errors
///
/// The reason why the service cannot be served with TLS, and the remedy.
pub(in crate::cli) fn require(listed: &mut Listed) -> Result<(), Mistake> {
    if !listed.tls {
        return Err(format!(
            "{} reads and writes at once, which TLS cannot here: leave it out",
            listed.name
        )
        .into());
    }
    listed.needs.straight_line = true;
    listed.stack = listed.stack.max(STACK);
    Ok(())
}

#[derive(clap::Args)]
pub(in crate::cli) struct TlsFlags {
    /// Serve with TLS 1.2 and 1.3: the certificate, followed by those of its authorities (PEM)
    ///
    /// SIGHUP reads both files again.
    #[arg(long, value_name = "FILE", requires = "tls_key", conflicts_with = "inject", help_heading = heading::SERVICE)]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = heading::SERVICE)]
    tls_key: Option<PathBuf>,
    /// The time that a client has for its whole TLS handshake [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = handshake_time, requires = "tls_cert", help_heading = heading::SERVICE)]
    tls_handshake_time: Option<Duration>,
}

/// A time without which a client of TLS would never be served.
fn handshake_time(text: &str) -> Result<Duration, Mistake> {
    let time = parse_duration(text)?;
    let is_possible = (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&time);
    if is_possible { Ok(time) } else { Err("give a time from 100ms to 60m".into()) }
}

impl TlsFlags {
    /// Refuses services that cannot be served so, and asks for what TLS needs.
    pub(in crate::cli) fn check(&self, listed: &mut Listed) -> Result<(), Failure> {
        match self.tls_cert {
            None => Ok(()),
            Some(_) => require(listed).blame_at(Party::User, "--tls-cert"),
        }
    }

    /// The service, with a handshake before each connection where the flags ask for it.
    #[cfg(feature = "rustls")]
    pub(in crate::cli) fn put_before(
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
            .blame_at(Party::User, "--tls-cert, --tls-key")?
            .with_handshake_time(self.tls_handshake_time.unwrap_or(HANDSHAKE_TIME));
        if let Some(secure) = catalogue.own().and_then(|own| own.secure.as_ref()) {
            return Ok(secure(service, acceptor));
        }
        let acceptor = Arc::new(acceptor);
        Ok(service.after(move |stream| {
            let acceptor = acceptor.clone();
            async move { stream.accept_tls(&acceptor, acceptor.handshake_time()).await }
        }))
    }

    #[cfg(not(feature = "rustls"))]
    pub(in crate::cli) fn put_before(
        &self,
        _: &Catalogue,
        service: Served,
    ) -> Result<Served, Failure> {
        match self.tls_cert.is_some() && self.tls_key.is_some() {
            true => Err(Failure::misuse(
                "--tls-cert: built without TLS: build with `--features rustls`".to_owned(),
            )),
            false => Ok(service),
        }
    }
}
