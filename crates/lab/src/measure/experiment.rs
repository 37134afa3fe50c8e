//! An experiment that can be run: a design, and this machine's set-up for the design.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use duality_load::{Crowd, Options, Pattern, Relay, Stop, Target, Trust};
use serde::{Deserialize, Serialize};

use super::behaviour::Behaviour;
use super::certificate::Certificate;
use super::recording::Replay;
use super::store::Store;
use super::upstream::Upstream;
use crate::failure::Failure;
use crate::record::{CellKey, Constraints, Design, Origin, Role, UnitCosts, World};

/// An experiment that can be run. The agents on hosts get the parts that servers and loads are made
/// from. The parts that only this command needs are not sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Experiment {
    /// The design of the measurements.
    pub design: Design,
    /// The request to send to a service of the user's own, and the reply to expect.
    pub exchange: Option<(Vec<u8>, Vec<u8>)>,
    /// Whether a service of the user's own is asked for a page, by the client of http.
    #[serde(default)]
    pub speaks_http: bool,
    /// How clients behave.
    pub behaviour: Behaviour,
    /// The pages that peers serve.
    pub site: Site,
    /// The folder of the programs that were made for peers.
    #[serde(skip)]
    pub programs: PathBuf,
    /// The cells that a subject cannot carry, with reasons.
    #[serde(skip)]
    pub unavailable: BTreeMap<(String, usize), String>,
    /// The subjects that lack a facility on this machine, with the reason.
    #[serde(skip)]
    pub degraded: Vec<String>,
    /// The recording that is replayed, if there is one.
    #[serde(skip)]
    pub replay: Option<Replay>,
    /// The certificate of servers with TLS. `None` without TLS, and if the servers bring their own.
    #[serde(skip)]
    pub certificate: Option<Certificate>,
    /// The servers' store.
    pub store: Option<Store>,
    /// What relays pass requests on to. `None` for a service that is no relay.
    #[serde(default)]
    pub upstream: Option<Upstream>,
    /// The addresses on which servers listen: loopback, or all addresses of a host.
    #[serde(skip, default = "loopback")]
    pub listen: IpAddr,
    /// The plan that contains the experiment.
    #[serde(skip)]
    pub origin: Option<Origin>,
    /// The program with the `serve` command that the lab starts for each cell.
    #[serde(skip)]
    pub program: PathBuf,
    /// The command line that started the experiment.
    #[serde(skip)]
    pub command: Vec<String>,
    /// The constraints that a recommended subject must keep.
    #[serde(skip)]
    pub constraints: Constraints,
    /// The subject that runs today. The report compares all other subjects with this one.
    #[serde(skip)]
    pub current: Option<String>,
    /// The share within which two subjects are level. `None` for the usual one.
    #[serde(skip)]
    pub margin: Option<f64>,
    /// The costs of operations on this machine, if they were measured. A recommendation takes its
    /// reasons from these costs.
    #[serde(skip)]
    pub unit_costs: UnitCosts,
    /// The time that the experiment may take. `None` means no limit.
    #[serde(skip)]
    pub budget: Option<Duration>,
    /// The reductions by the budget, in words.
    #[serde(skip)]
    pub economies: Vec<String>,
}

impl Experiment {
    /// Whether a store of its own, or a server behind relays, shares the only processor of the load
    /// generator.
    pub(crate) fn store_is_beside_load(&self) -> bool {
        let one_host = self.design.topology.is_none();
        let is_beside = self.store == Some(Store::Redis) || self.upstream == Some(Upstream::Own);
        one_host && is_beside && self.design.client_cpus.len() == 1
    }

    /// The number of cells of the experiment.
    pub fn cells(&self) -> usize {
        self.design.cells()
    }

    /// The number of cells that are available at the start.
    pub fn tried(&self) -> usize {
        self.cells() - self.unavailable.len() * self.design.repeats
    }

    /// Adds the control: one architecture that is measured twice.
    ///
    /// The control is the architecture that is available at the most numbers of connections. If
    /// several are, state machines on epoll come first, then the order of the design decides. A
    /// yardstick is never the control. If no architecture is available, there is no control.
    pub fn add_control(&mut self) {
        let design = &self.design;
        let missing = |name: &str| {
            let at = |count: &&usize| self.unavailable.contains_key(&(name.to_owned(), **count));
            design.concurrency.iter().filter(at).count()
        };
        let is_preferred = |name: &str| {
            design.carriers.get(name).is_some_and(|carrier| {
                carrier.world == Some(World::Suspend) && carrier.poller.as_deref() == Some("epoll")
            })
        };
        let candidates = design.architectures.iter().filter(|name| !design.is_yardstick(name));
        let usable = candidates.filter(|name| missing(name) < design.concurrency.len());
        let Some(chosen) = usable.min_by_key(|name| (missing(name), !is_preferred(name))).cloned()
        else {
            return;
        };
        let control = Design::again(&chosen);
        let unavailable = self.unavailable.iter().filter(|((name, _), _)| *name == chosen);
        let its: Vec<_> =
            unavailable.map(|((_, count), why)| ((control.clone(), *count), why.clone())).collect();
        self.unavailable.extend(its);
        self.design.control = Some(control);
    }

    /// The reason why a cell cannot be measured, if there is one.
    pub(crate) fn why_unavailable(&self, key: &CellKey) -> Option<&str> {
        self.unavailable.get(&(key.subject.clone(), key.concurrency)).map(String::as_str)
    }

    /// The number of servers that can be alive at once with this many connections, to be driven in
    /// turn. The number is 1 if the lab measures servers one after the other.
    pub fn side_by_side(&self, concurrency: usize) -> usize {
        if self.design.load_command.is_some() {
            return if self.design.blocks > 0 { usize::MAX } else { 1 };
        }
        // A replay goes to all servers at once.
        if self.replay.is_some() {
            return if self.design.blocks > 0 { usize::MAX } else { 1 };
        }
        // If several hosts make the load, each host makes a part of it.
        match self.load_of(concurrency.div_ceil(self.loads())) {
            Ok(load) if self.design.blocks > 0 && Relay::can_carry(&load) => Relay::room_for(&load),
            _ => 1,
        }
    }

    /// The load of a cell, for a server that listens at `address`.
    ///
    /// # Errors
    ///
    /// Fails if there is no client for the service.
    pub(crate) fn load(&self, address: SocketAddr, cell: &CellKey) -> Result<Options, Failure> {
        let design = &self.design;
        let load = Options {
            pattern: self.behaviour.pattern,
            crowd: self.behaviour.crowd,
            sources: self.behaviour.sources,
            connections: cell.concurrency,
            stop: Stop::After(Duration::from_secs_f64(design.window_seconds)),
            warm_up: Duration::from_secs_f64(design.warm_up_seconds),
            keep_alive: design.keep_alive,
            cpus: design.client_cpus.clone(),
            // Arrivals are the same for all architectures, and differ between repeats.
            seed: design.seed.wrapping_add(cell.repeat as u64),
            trust: if design.tls { Trust::Anything } else { Trust::default() },
            ..Options::new(self.target(address)?)
        };
        Ok(match &self.replay {
            None => load,
            Some(replay) => {
                let length = Duration::from_secs_f64(design.window_seconds);
                // All architectures get the same piece, and each repeat gets another piece.
                let salt = [cell.concurrency as u64, cell.repeat as u64, 0];
                load.replaying(replay.piece(cell.concurrency, length, design.seed, salt))
            }
        })
    }

    /// The part of a load that a host makes: the connections and the rate are shared out. `part` is
    /// the index of the part, from 0, among `parts`.
    ///
    /// # Errors
    ///
    /// Fails if there is no client for the service.
    pub(crate) fn part_of_load(
        &self,
        address: SocketAddr,
        cell: &CellKey,
        part: usize,
        parts: usize,
    ) -> Result<Options, Failure> {
        let whole = self.load(address, cell)?;
        let own = |count: usize| count / parts + usize::from(part < count % parts);
        let Crowd { idle, slow_readers, slow_senders, rest } = whole.crowd;
        Ok(Options {
            connections: own(whole.connections),
            crowd: Crowd {
                idle: own(idle),
                slow_readers: own(slow_readers),
                slow_senders: own(slow_senders),
                rest,
            },
            pattern: match whole.pattern {
                Pattern::Open(arrivals) => {
                    Pattern::Open(arrivals.at_rate(arrivals.rate() / parts as f64))
                }
                other => other,
            },
            // The seeds differ, so that the parts' arrivals are not in step.
            seed: whole.seed.wrapping_add((part as u64) << 32),
            ..whole
        })
    }

    /// The number of hosts that make the load. 1 on this machine.
    fn loads(&self) -> usize {
        let hosts = self.design.topology.as_ref().map(|topology| topology.of(Role::Load).count());
        hosts.unwrap_or(1).max(1)
    }

    /// The load of any server at this many connections: the part of the load that is known before a
    /// server exists.
    fn load_of(&self, concurrency: usize) -> Result<Options, Failure> {
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        self.load(nowhere, &CellKey { repeat: 0, subject: String::new(), concurrency })
    }

    /// The requests to the service at `address`.
    pub(crate) fn target(&self, address: SocketAddr) -> Result<Target, Failure> {
        if let Some((request, reply)) = self.exchange.clone() {
            return Ok(Target::exchange(address, request, reply));
        }
        let service = if self.speaks_http { "http" } else { self.design.service.as_str() };
        let path = Target::default_page(service).map_or("", |_| &self.design.path);
        let scheme = match (self.design.http2, self.design.tls) {
            (true, true) => "h2".to_owned(),
            (true, false) => "h2c".to_owned(),
            (false, true) => format!("{service}s"),
            (false, false) => service.to_owned(),
        };
        let target = format!("{scheme}://{address}{path}");
        Ok(target.parse::<Target>()?)
    }

    /// The reason why this many connections cannot be open at once here, if there is one.
    pub fn too_many(&self, connections: usize) -> Option<String> {
        // The agents check the limits of other hosts.
        if self.design.load_command.is_some() || self.design.topology.is_some() {
            return None;
        }
        let load = self.load_of(connections).ok()?;
        load.check_descriptors().err().map(|error| error.to_string())
    }

    /// The reason why no client can load the service with `connections` connections, if there is
    /// one. The lab checks this before anything starts.
    pub fn misfit(&self, connections: usize) -> Option<String> {
        if self.design.load_command.is_some() {
            return None;
        }
        match self.load_of(connections) {
            Ok(load) => load.check().err().map(|error| error.to_string()),
            Err(failure) => Some(failure.to_string()),
        }
    }
}

fn loopback() -> IpAddr {
    Ipv4Addr::LOCALHOST.into()
}

/// The files that a peer serves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Site {
    /// The files in an existing directory.
    Directory(PathBuf),
    /// These files, by name.
    Files(Vec<(String, Vec<u8>)>),
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::design::tests::design;

    /// A small experiment for tests.
    pub(crate) fn experiment() -> Experiment {
        Experiment {
            design: design(),
            exchange: None,
            speaks_http: false,
            behaviour: Behaviour::default(),
            site: Site::Files(vec![]),
            programs: PathBuf::new(),
            unavailable: BTreeMap::new(),
            degraded: vec![],
            replay: None,
            certificate: None,
            store: None,
            upstream: None,
            listen: loopback(),
            origin: None,
            program: PathBuf::new(),
            command: vec![],
            constraints: Constraints::default(),
            current: None,
            margin: None,
            unit_costs: UnitCosts::default(),
            budget: None,
            economies: vec![],
        }
    }

    #[test]
    fn the_control_is_one_that_can_be_measured() {
        let control = |architectures: &[&str], unavailable: &[(&str, usize)]| {
            let mut experiment = experiment();
            experiment.design.architectures =
                architectures.iter().map(|name| (*name).to_owned()).collect();
            experiment.design.carriers.clear();
            experiment.design.add_older_carriers();
            experiment.unavailable = unavailable
                .iter()
                .map(|(name, count)| (((*name).to_owned(), *count), "why".to_owned()))
                .collect();
            experiment.add_control();
            (experiment.design.control.clone(), experiment.tried())
        };
        let again = |name: &str| Some(format!("{name} (again)"));
        assert_eq!(control(&["fork", "pool", "epoll"], &[]), (again("epoll"), 36));
        assert_eq!(control(&["handwritten", "fork", "pool"], &[]), (again("fork"), 36));
        assert_eq!(control(&["fork", "pool"], &[("fork", 10)]), (again("pool"), 24));
        assert_eq!(control(&["pool"], &[("pool", 100)]), (again("pool"), 12));
        let never = [1, 10, 100].map(|count| ("pool", count));
        assert_eq!(control(&["handwritten", "pool"], &never), (None, 9));
    }
}
