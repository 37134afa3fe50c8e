//! The hosts on which the roles of an experiment run, as settings name them.

use super::settings::{Misfit, Settings};
use crate::Mistake;
use crate::measure::hosts::launcher::Launcher;
use crate::measure::peers::balancer;
use crate::measure::store::Store;
use crate::record::{Placement, Role, Topology};

/// The default launcher, which reaches the hosts.
const LAUNCHER: &str = "ssh";
/// The default balancer.
const BALANCER: &str = "nginx";

/// The hosts for the roles of an experiment with `service`. `None` if all roles run on this
/// machine.
///
/// # Errors
///
/// The error names the first setting that makes no sense.
pub(super) fn topology(settings: &Settings, service: &str) -> Result<Option<Topology>, Misfit> {
    let Some(written) = &settings.hosts else {
        for (key, is_said) in [
            ("launcher", settings.launcher.is_some()),
            ("host-program", settings.host_program.is_some()),
            ("balancer", settings.balancer.is_some()),
        ] {
            if is_said {
                return Err(Misfit::new(key, "no hosts are named: add hosts (--host ROLE=HOST)"));
            }
        }
        return Ok(None);
    };
    let hosts: Result<Vec<Placement>, Mistake> = written.iter().map(|text| text.parse()).collect();
    let hosts = hosts.map_err(|problem| Misfit::new("hosts", problem))?;
    let launcher = settings.launcher.clone().unwrap_or_else(|| LAUNCHER.to_owned());
    Launcher::read(&launcher).map_err(|problem| Misfit::new("launcher", problem))?;
    let balances = hosts.iter().any(|placement| placement.role == Role::Balancer);
    let balancer = match (balances, &settings.balancer) {
        (false, None) => None,
        (false, Some(_)) => {
            let problem = "no host has the role balancer: add balancer=HOST to hosts";
            return Err(Misfit::new("balancer", problem));
        }
        (true, name) => Some(
            balancer(name.as_deref().unwrap_or(BALANCER), service)
                .map_err(|problem| Misfit::new("balancer", problem))?,
        ),
    };
    let host_program = settings.host_program.clone();
    let topology = Topology { hosts, launcher, host_program, balancer };
    match topology.problem() {
        Some(problem) => Err(Misfit::new("hosts", problem)),
        None if settings.load_command.is_some() => {
            let problem = "a load command runs on this machine: leave out the hosts";
            Err(Misfit::new("load-command", problem))
        }
        None => Ok(Some(topology)),
    }
}

/// Whether the servers of `topology` can share `store`.
///
/// # Errors
///
/// The error names the setting that does not fit, and the remedy.
pub(super) fn check_store(topology: &Topology, store: Option<&Store>) -> Result<(), Misfit> {
    let has_store = topology.of(Role::Store).next().is_some();
    let several = topology.of(Role::Server).count() > 1;
    let problem = match store {
        None if has_store => {
            return Err(Misfit::new("hosts", "this service keeps nothing: leave out the store"));
        }
        Some(Store::Redis) if !has_store => "no host has the role store: add store=HOST to hosts",
        Some(Store::Sqlite | Store::At(_)) if has_store => {
            "a store on a host is Redis: add store = \"redis\" (--store redis)"
        }
        Some(Store::Sqlite) if several => {
            "several servers need one store: add store=HOST to hosts, and store = \"redis\""
        }
        _ => return Ok(()),
    };
    Err(Misfit::new("store", problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(hosts: &[&str]) -> Settings {
        let hosts = hosts.iter().map(|&text| text.to_owned()).collect();
        Settings { hosts: Some(hosts), ..Settings::default() }
    }

    #[test]
    fn what_is_not_said_is_what_most_people_have() {
        let several = settings(&["server=a", "server=b", "balancer=c", "load=d"]);
        let topology = topology(&several, "http").unwrap().unwrap();
        assert_eq!(topology.launcher, "ssh");
        assert_eq!(topology.balancer.unwrap().name, "balancer nginx");
    }

    #[test]
    fn settings_without_their_hosts_are_told() {
        let near = Settings { launcher: Some("srun".into()), ..Settings::default() };
        assert_eq!(topology(&near, "http").unwrap_err().key, "launcher");
        let unbalanced =
            Settings { balancer: Some("nginx".into()), ..settings(&["server=a", "load=b"]) };
        assert_eq!(topology(&unbalanced, "http").unwrap_err().key, "balancer");
        assert_eq!(topology(&settings(&["server=a"]), "http").unwrap_err().key, "hosts");
    }

    #[test]
    fn several_servers_need_one_store() {
        let several = settings(&["server=a", "server=b", "balancer=c", "load=d"]);
        let several = topology(&several, "guestbook").unwrap().unwrap();
        assert!(check_store(&several, Some(&Store::Sqlite)).is_err());
        assert!(check_store(&several, Some(&Store::Redis)).is_err());
        assert!(check_store(&several, None).is_ok());
        let with_store = settings(&["server=a", "store=c", "load=d"]);
        let with_store = topology(&with_store, "guestbook").unwrap().unwrap();
        assert!(check_store(&with_store, Some(&Store::Redis)).is_ok());
        assert!(check_store(&with_store, None).is_err());
    }
}
