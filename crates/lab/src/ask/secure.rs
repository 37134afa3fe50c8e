//! TLS of an experiment: what can be measured with it, and the certificate of the servers.

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
    Certificate::new().map(Some).map_err(|problem| Misfit::new("tls", problem))
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
