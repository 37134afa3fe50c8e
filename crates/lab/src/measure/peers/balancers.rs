//! Balancers over several servers: the two most common programs.

use std::collections::BTreeMap;

use crate::Mistake;
use crate::record::{Peer, Stop};

/// The seconds that a balancer may take until it listens.
const START_SECONDS: f64 = 10.0;

/// A balancer that needs no definition.
#[derive(Debug)]
struct Balancer {
    name: &'static str,
    command: &'static [&'static str],
    configuration: &'static str,
    /// Whether the balancer can pass on protocols other than HTTP.
    any_protocol: bool,
    remedy: &'static str,
}

const BALANCERS: [Balancer; 2] = [
    Balancer {
        name: "nginx",
        command: &[
            "nginx",
            "-p",
            "{directory}",
            "-e",
            "{directory}/error.log",
            "-c",
            "{configuration}",
        ],
        configuration: include_str!("balance-nginx.conf"),
        any_protocol: false,
        remedy: "apt-get install nginx-light",
    },
    Balancer {
        name: "haproxy",
        command: &["haproxy", "-db", "-f", "{configuration}"],
        configuration: include_str!("balance-haproxy.conf"),
        any_protocol: true,
        remedy: "apt-get install haproxy",
    },
];

/// The balancer called `name`, for a service.
///
/// # Errors
///
/// The error says that the name is unknown, or that the balancer does not fit the service, and
/// gives the remedy.
pub(crate) fn balancer(name: &str, service: &str) -> Result<Peer, Mistake> {
    let is_http = matches!(service, "http" | "guestbook" | "relay");
    let known = BALANCERS.iter().find(|balancer| balancer.name == name);
    let balancer = known.ok_or_else(|| {
        let names = BALANCERS.each_ref().map(|balancer| balancer.name).join(", ");
        format!("there is no balancer `{name}`: choose from {names}")
    })?;
    if !is_http && !balancer.any_protocol {
        return Err(format!("{name} balances http, and not {service}: choose haproxy").into());
    }
    let mode = if is_http { "http" } else { "tcp" };
    Ok(Peer {
        name: format!("balancer {name}"),
        command: balancer.command.iter().map(|&word| word.to_owned()).collect(),
        build: Vec::new(),
        configuration: balancer.configuration.replace("{mode}", mode),
        environment: BTreeMap::new(),
        ready: None,
        ask: String::new(),
        start_seconds: START_SECONDS,
        stop: Stop::Term,
        folder: None,
        remedy: balancer.remedy.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_listens_where_it_is_told_and_names_every_server() {
        for known in BALANCERS {
            let peer = balancer(known.name, "http").unwrap();
            assert!(peer.texts().any(|text| text.contains("{host}:{port}")), "{}", known.name);
            let lines = peer.configuration.lines().filter(|line| line.contains("{server}"));
            assert_eq!(lines.count(), 1, "{}", known.name);
        }
    }

    #[test]
    fn what_cannot_balance_a_service_is_told() {
        assert!(balancer("nginx", "chat").unwrap_err().to_string().ends_with("choose haproxy"));
        assert!(balancer("haproxy", "chat").unwrap().configuration.contains("mode tcp"));
        assert!(balancer("haproxy", "guestbook").unwrap().configuration.contains("mode http"));
        assert!(
            balancer("ipvs", "http")
                .unwrap_err()
                .to_string()
                .contains("choose from nginx, haproxy")
        );
    }
}
