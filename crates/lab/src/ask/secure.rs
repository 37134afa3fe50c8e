//! TLS and HTTP/2 of an experiment: what can be measured with them, and the certificate of the
//! servers.

use super::settings::{Misfit, Settings};
use crate::measure::certificate::Certificate;
use crate::record::{Design, Peer};

/// The certificate of the servers, if the settings ask for TLS. `speaks_http` tells whether the
/// client of http asks the service.
///
/// # Errors
///
/// A [`Misfit`] names what speaks no TLS here, and the remedy.
pub(super) fn certificate(
    settings: &Settings,
    service: &str,
    speaks_http: bool,
) -> Result<Option<Certificate>, Misfit> {
    if settings.tls != Some(true) {
        return Ok(None);
    }
    let misfit = |problem: String| Err(Misfit::new("tls", problem));
    if settings.load_command.is_some() {
        return misfit("the load command decides that: leave this out".to_owned());
    }
    if settings.hosts.is_some() {
        return misfit("servers on other hosts have no certificate: leave this out".to_owned());
    }
    if !speaks_http {
        return misfit(format!("the clients of `{service}` speak no TLS: measure http"));
    }
    Certificate::new().map(Some).map_err(|failure| Misfit::new("tls", failure.to_string()))
}

/// Refuses HTTP/2 for a `service` that does not speak it. `is_application` tells whether the
/// service is a program's own, with a page.
///
/// # Errors
///
/// A [`Misfit`] names what does not speak HTTP/2, and the remedy.
pub(super) fn check_http2(
    settings: &Settings,
    service: &str,
    is_application: bool,
) -> Result<(), Misfit> {
    if settings.http2 != Some(true) || is_application {
        return Ok(());
    }
    let problem = format!(
        "`{service}` does not speak HTTP/2: compare an application of axum, hyper or tonic \
         (docs/axum.md)"
    );
    Err(Misfit::new("http2", problem))
}

/// The reason why `peer` does not fit an experiment with TLS, or one without, if there is one.
pub(super) fn misfit(design: &Design, peer: &Peer) -> Option<String> {
    let is_named = peer.texts().any(|text| text.contains("{certificate}"));
    let problem = match (design.tls, is_named) {
        (true, false) => "has no TLS here: define a peer that names {certificate} and {key}",
        (false, true) => "names {certificate}, which only an experiment with `tls = true` has",
        _ => return None,
    };
    Some(problem.to_owned())
}
