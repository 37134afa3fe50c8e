//! The hosts of an experiment's roles, if some are not on this machine.
//!
//! ```text
//!   load ×n ──▶ balancer ──▶ server ×n ──▶ store        each on a host, by `--host ROLE=HOST`
//!          └────────────────▶ server ────▶ store        one server needs no balancer
//! ```

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Peer;
use crate::Mistake;

/// This machine, as a host, which needs no launcher.
pub const HERE: &str = "here";

/// A part of an experiment with its own host.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Answers requests. Several servers stand behind a balancer.
    Server,
    /// Hands connections or requests to the servers.
    Balancer,
    /// Keeps the servers' data.
    Store,
    /// Makes load. Several hosts make the load together.
    Load,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::Server, Self::Balancer, Self::Store, Self::Load];

    /// The name in plans and flags.
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Balancer => "balancer",
            Self::Store => "store",
            Self::Load => "load",
        }
    }
}

/// A role on a host: `ROLE=HOST[@ADDRESS]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Placement {
    /// The role on the host.
    pub role: Role,
    /// The host's name for the launcher.
    pub host: String,
    /// The address for other roles. Without one, the host's name.
    pub address: Option<String>,
}

impl Placement {
    /// The longest name of a host, in bytes (RFC 1035).
    const LONGEST: usize = 255;

    /// The name or address to which other roles connect.
    pub fn reached_at(&self) -> &str {
        match (&self.address, self.host.as_str()) {
            (Some(address), _) => address,
            (None, HERE) => "127.0.0.1",
            (None, host) => host,
        }
    }
}

impl FromStr for Placement {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        let remedy = "write ROLE=HOST or ROLE=HOST@ADDRESS, such as server=web1@10.0.0.1";
        let (role, place) =
            text.split_once('=').ok_or_else(|| format!("`{text}` has no role: {remedy}"))?;
        let known = Role::ALL.into_iter().find(|known| known.name() == role);
        let role = known.ok_or_else(|| {
            let names = Role::ALL.map(Role::name).join(", ");
            format!("`{role}` is no role: choose from {names}")
        })?;
        // A user's name may stand before the host, as in me@web1. An address has no such prefix.
        let (host, address) = match place.rsplit_once('@') {
            Some((host, address)) => (host, Some(address)),
            None => (place, None),
        };
        let is_plain = |name: &str| {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:@/[]".contains(&byte);
            (1..=Self::LONGEST).contains(&name.len())
                && name.bytes().all(allowed)
                && !name.starts_with('-')
        };
        let mut names = [Some(host), address].into_iter().flatten();
        if let Some(wrong) = names.find(|name| !is_plain(name)) {
            return Err(format!("`{wrong}` is no name of a host: {remedy}").into());
        }
        Ok(Self { role, host: host.to_owned(), address: address.map(str::to_owned) })
    }
}

impl TryFrom<String> for Placement {
    type Error = Mistake;

    fn try_from(text: String) -> Result<Self, Mistake> {
        text.parse()
    }
}

impl From<Placement> for String {
    fn from(placement: Placement) -> Self {
        placement.to_string()
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}={}", self.role.name(), self.host)?;
        self.address.iter().try_for_each(|address| write!(formatter, "@{address}"))
    }
}

/// The hosts of all roles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Topology {
    /// The hosts of each role, in the given order.
    pub hosts: Vec<Placement>,
    /// The launcher, as the user wrote it.
    pub launcher: String,
    /// The path of Duality's program on the hosts. Without a path, this program is sent there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_program: Option<String>,
    /// The balancer's program, if a host is named for the role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balancer: Option<Peer>,
}

impl Topology {
    /// The hosts of a role.
    pub fn of(&self, role: Role) -> impl Iterator<Item = &Placement> {
        self.hosts.iter().filter(move |placement| placement.role == role)
    }

    /// Whether a server and a load share a host.
    pub fn shares_hosts(&self) -> bool {
        let mut servers = self.of(Role::Server);
        servers.any(|server| self.of(Role::Load).any(|load| load.host == server.host))
    }

    /// The contradiction in the topology, and the remedy.
    pub fn problem(&self) -> Option<String> {
        let count = |role| self.of(role).count();
        for role in [Role::Server, Role::Load] {
            if count(role) == 0 {
                let name = role.name();
                return Some(format!(
                    "no host has the role {name}: add {name}=HOST, or {name}={HERE} for this machine"
                ));
            }
        }
        for role in [Role::Balancer, Role::Store] {
            if count(role) > 1 {
                let name = role.name();
                return Some(format!("{} hosts have the role {name}: name one", count(role)));
            }
        }
        if count(Role::Server) > 1 && count(Role::Balancer) == 0 {
            let servers = count(Role::Server);
            return Some(format!("{servers} servers need a balancer: add balancer=HOST"));
        }
        let mut known: Vec<&Placement> = Vec::new();
        for placement in &self.hosts {
            let is_here = |other: &&&Placement| other.host == placement.host;
            if let Some(other) = known.iter().find(is_here)
                && other.reached_at() != placement.reached_at()
            {
                let host = &placement.host;
                return Some(format!("{host} has two addresses: give each of its roles the same"));
            }
            known.push(placement);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology(hosts: &[&str]) -> Topology {
        Topology {
            hosts: hosts.iter().map(|text| text.parse().unwrap()).collect(),
            launcher: "ssh".to_owned(),
            host_program: None,
            balancer: None,
        }
    }

    #[test]
    fn placements_are_read_and_written_alike() {
        for (text, host, reached_at) in [
            ("server=web1", "web1", "web1"),
            ("load=me@gen1@10.0.0.7", "me@gen1", "10.0.0.7"),
            ("store=here", "here", "127.0.0.1"),
            ("balancer=pod/lb@fd00::1", "pod/lb", "fd00::1"),
        ] {
            let placement: Placement = text.parse().unwrap();
            assert_eq!((placement.host.as_str(), placement.reached_at()), (host, reached_at));
            assert_eq!(placement.to_string(), text);
        }
        for (text, message) in [
            ("web1", "has no role"),
            ("client=web1", "choose from server, balancer, store, load"),
            ("server=", "is no name of a host"),
            ("server=-oProxyCommand=x", "is no name of a host"),
            ("server=a;b", "is no name of a host"),
            ("server=a@", "is no name of a host"),
        ] {
            let problem = text.parse::<Placement>().unwrap_err().to_string();
            assert!(problem.contains(message), "{text}: {problem}");
        }
    }

    #[test]
    fn roles_that_are_missing_or_too_many_are_told() {
        for (hosts, message) in [
            (&["server=a"][..], "no host has the role load"),
            (&["load=a"], "no host has the role server"),
            (&["server=a", "server=b", "load=c"], "need a balancer"),
            (&["server=a", "load=c", "store=d", "store=e"], "2 hosts have the role store"),
            (&["server=a@10.0.0.1", "load=a@10.0.0.2"], "a has two addresses"),
        ] {
            let problem = topology(hosts).problem().unwrap_or_default();
            assert!(problem.contains(message), "{hosts:?}: {problem}");
        }
        let right = topology(&["server=a", "server=b", "balancer=a", "load=c", "load=here"]);
        assert_eq!(right.problem(), None);
        assert!(!right.shares_hosts() && topology(&["server=a", "load=a"]).shares_hosts());
    }
}
