//! Roles on hosts: servers, a balancer, a store and loads, each on the host that the user chose.
//!
//! ```text
//!   this process                    a host
//!   ────────────                    ──────
//!   link ── launcher (ssh, srun …) ── duality agent ── server, store, balancer
//!                                          └────────── load
//! ```
//!
//! A launcher (`launcher.rs`) is a command that gives the standard streams of a process there. Over
//! these streams a link (`link.rs`) sends orders (`protocol.rs`). An [agent] carries them out with
//! the code that measures on one machine. So a server on a host is a `Server` like any other, and a
//! load there a `Driver`. The lab never compares clocks of two hosts: each figure is a difference
//! that one host has measured.

pub mod agent;
mod fleet;
pub(crate) mod launcher;
mod link;
mod loads;
mod protocol;
mod server;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::experiment::Experiment;
use super::meter::Meter;
use super::no_server::NoServer;
use super::server::Server;
use super::store::{OpenStore, Store};
use crate::failure::{Blame, Failure, Party};
use crate::record::{CellKey, Disturbance, Machine, Placement, Role, Topology};

use fleet::Fleet;
use launcher::Launcher;
use link::Link;
pub(crate) use loads::Loads;
use protocol::{Answer, Order};
use server::{DistantServer, DistantStore};

/// The number of attempts to reach lost hosts again, in all.
const ATTEMPTS: u32 = 3;

/// The hosts of an experiment.
pub(crate) struct Hosts {
    experiment: Experiment,
    topology: Topology,
    launcher: Launcher,
    links: Mutex<BTreeMap<String, Arc<Link>>>,
    attempts: Mutex<BTreeMap<String, u32>>,
    /// The number of the next process or load that starts on a host.
    next: AtomicU64,
}

impl Hosts {
    /// Reaches every host.
    ///
    /// # Errors
    ///
    /// The error names the host that could not be reached, with the reason, in one line.
    pub(crate) fn connect(experiment: &Experiment, topology: &Topology) -> Result<Self, Failure> {
        let hosts = Self {
            experiment: experiment.clone(),
            topology: topology.clone(),
            launcher: Launcher::read(&topology.launcher).blame(Party::User)?,
            links: Mutex::default(),
            attempts: Mutex::default(),
            next: AtomicU64::new(1),
        };
        for placement in &topology.hosts {
            address_of(placement)?;
        }
        let names = hosts.names();
        std::thread::scope(|scope| {
            let reaching: Vec<_> =
                names.iter().map(|name| scope.spawn(|| hosts.link(name).map(|_| ()))).collect();
            reaching.into_iter().try_for_each(|one| {
                one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        })?;
        Ok(hosts)
    }

    /// The hosts, without repetition.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for Placement { host, .. } in &self.topology.hosts {
            if !names.contains(host) {
                names.push(host.clone());
            }
        }
        names
    }

    /// The description of each host, by name.
    pub(crate) fn machines(&self) -> BTreeMap<String, Machine> {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.iter().map(|(name, link)| (name.clone(), link.machine().clone())).collect()
    }

    /// The link to a host. A lost link is made anew.
    fn link(&self, host: &str) -> Result<Arc<Link>, Failure> {
        let known = self.links.lock().unwrap_or_else(PoisonError::into_inner).get(host).cloned();
        if let Some(link) = known.filter(|link| link.lost().is_none()) {
            return Ok(link);
        }
        {
            let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
            let attempts = attempts.entry(host.to_owned()).or_default();
            if *attempts > ATTEMPTS {
                let problem = format!("host {host}: given up after {attempts} attempts");
                return Err(Failure::new(Party::Machine, problem));
            }
            *attempts += 1;
        }
        let link = Link::open(host, &self.launcher, self.topology.host_program.as_deref())?;
        let own = self.topology.hosts.iter().filter(|placement| placement.host == host);
        let roles = own.map(|placement| placement.role).collect();
        let experiment = Box::new(self.experiment.clone());
        link.done(&Order::Begin { experiment, roles })?;
        let link = Arc::new(link);
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.insert(host.to_owned(), Arc::clone(&link));
        Ok(link)
    }

    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Starts the servers of a cell, and their balancer.
    pub(crate) fn server(
        &self,
        key: &CellKey,
        store: Option<&OpenStore>,
    ) -> Result<Box<dyn Server>, NoServer> {
        let mut servers = Vec::new();
        for placement in self.topology.of(Role::Server) {
            let store = store.map(|store| store.url().to_owned());
            servers.push(self.start(placement, |number, listen| Order::Server {
                number,
                key: key.clone(),
                listen,
                store,
            })?);
        }
        let balancer = match self.topology.of(Role::Balancer).next() {
            None => None,
            Some(placement) => {
                let behind = servers.iter().map(DistantServer::address).collect();
                Some(self.start(placement, |number, listen| Order::Balancer {
                    number,
                    key: key.clone(),
                    listen,
                    servers: behind,
                })?)
            }
        };
        Ok(Box::new(Fleet { balancer, servers }))
    }

    fn start(
        &self,
        placement: &Placement,
        order: impl FnOnce(u64, IpAddr) -> Order,
    ) -> Result<DistantServer, NoServer> {
        let address = address_of(placement)?;
        let link = self.link(&placement.host)?;
        let number = self.number();
        match link.ask(&order(number, any(address)))? {
            Answer::Listens { port, .. } => {
                Ok(DistantServer::new(link, number, SocketAddr::new(address, port)))
            }
            Answer::Unavailable(reason) => Err(NoServer::Unavailable(reason)),
            other => Err(NoServer::Failed(link.odd(&other))),
        }
    }

    /// Makes the store of a cell. `None` if the servers need no store, or make their own.
    pub(crate) fn store(&self) -> Result<Option<OpenStore>, NoServer> {
        match &self.experiment.store {
            None | Some(Store::Sqlite) => Ok(None),
            Some(store @ Store::At(_)) => store.open(&[]).map(Some),
            Some(Store::Redis) => {
                let placement = self.topology.of(Role::Store).next();
                let placement = placement.ok_or_else(|| {
                    Failure::misuse("no host has the role store").remedy("add store=HOST")
                })?;
                let address = address_of(placement)?;
                let link = self.link(&placement.host)?;
                let number = self.number();
                let order = Order::Store { number, listen: any(address) };
                match link.ask(&order)? {
                    Answer::Listens { port, password } => {
                        let address = SocketAddr::new(address, port);
                        let url = format!("redis://:{}@{address}", password.unwrap_or_default());
                        Ok(Some(OpenStore::elsewhere(
                            url,
                            Box::new(DistantStore::new(link, number)),
                        )))
                    }
                    Answer::Unavailable(reason) => Err(NoServer::Unavailable(reason)),
                    other => Err(NoServer::Failed(link.odd(&other))),
                }
            }
        }
    }

    /// The loads of the experiment, on all hosts that make load.
    pub(crate) fn loads(&self) -> Result<Loads, NoServer> {
        let links = self.topology.of(Role::Load).map(|placement| self.link(&placement.host));
        let links: Result<Vec<_>, _> = links.collect();
        Ok(Loads::new(links?))
    }

    /// The disturbances on the processors of servers and loads since the last look.
    pub(crate) fn look(&self) -> Disturbance {
        let mut whole = Disturbance::default();
        for name in self.names() {
            let bears = |placement: &&Placement| {
                placement.host == name && matches!(placement.role, Role::Server | Role::Load)
            };
            if self.topology.hosts.iter().find(bears).is_none() {
                continue;
            }
            // The measurement on a lost host reports the loss.
            let Ok(Answer::Disturbance(found)) =
                self.link(&name).and_then(|link| link.ask(&Order::Look))
            else {
                continue;
            };
            whole.seconds = whole.seconds.max(found.seconds);
            whole.quota = whole.quota.or(found.quota);
            whole.processors.extend(found.processors.into_iter().map(|mut processor| {
                processor.host = Some(name.clone());
                processor
            }));
        }
        whole
    }
}

/// Looks at the processors of hosts. The hosts know the time that their servers and loads have
/// used.
pub(super) struct HostsMeter(pub(super) Arc<Hosts>);

impl Meter for HostsMeter {
    fn look(
        &mut self,
        _: &mut dyn FnMut() -> std::io::Result<Duration>,
    ) -> std::io::Result<Disturbance> {
        Ok(self.0.look())
    }
}

/// The address to which other roles connect, found by this machine.
fn address_of(placement: &Placement) -> Result<IpAddr, Failure> {
    let text = placement.reached_at();
    if let Ok(address) = text.trim_matches(['[', ']']).parse() {
        return Ok(address);
    }
    let found: Vec<SocketAddr> = match (text, 0).to_socket_addrs() {
        Ok(found) => found.collect(),
        Err(error) => {
            let (role, host) = (placement.role.name(), &placement.host);
            return Err(Failure::misuse(format!("host {text}: no address found ({error})"))
                .remedy(format_args!("name it, as in {role}={host}@10.0.0.1")));
        }
    };
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    first
        .map(SocketAddr::ip)
        .ok_or_else(|| Failure::misuse(format!("host {text}: it has no address")))
}

/// All addresses of a host, of the same family.
fn any(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}
