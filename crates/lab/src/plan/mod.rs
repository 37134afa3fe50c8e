//! A plan: which cells to measure, in which order, for how long. [`file`](mod@file) reads plans from TOML,
//! [`settings`] is what a plan file and the command line can ask for; [`resolve`] makes a plan of it.

pub mod budget;
pub mod clients;
pub mod file;
mod peer;
pub mod resolve;
pub mod settings;
pub mod timing;
pub mod variant;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use duality_load::{Options, Relay, Stop, Target, TargetError};

use clients::Behaviour;

use crate::random::SplitMix64;
use crate::record::{Constraints, Design, Origin, UnitCosts, World};
use crate::store::Store;

/// An experiment that can be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is to be measured.
    pub design: Design,
    /// What to send to a service of the user's own, and the reply to expect.
    pub exchange: Option<(Vec<u8>, Vec<u8>)>,
    /// How clients behave.
    pub behaviour: Behaviour,
    /// What peers serve.
    pub site: Site,
    /// The folder of the programs that were made for peers.
    pub programs: PathBuf,
    /// What a subject cannot carry at so many connections, and why.
    pub unavailable: BTreeMap<(String, usize), String>,
    /// What runs with less here than it would elsewhere, and why.
    pub degraded: Vec<String>,
    /// Where the servers keep what they are told.
    pub store: Option<Store>,
    /// The plan file that it is of.
    pub origin: Option<Origin>,
    /// The program whose `serve` command is started for each cell.
    pub program: PathBuf,
    /// The command line that asked for it.
    pub command: Vec<String>,
    /// What must be kept to be recommended.
    pub constraints: Constraints,
    /// What operations cost here, if it was measured: the reasons for what is recommended are made of that.
    pub unit_costs: UnitCosts,
    /// How long it may take in all; none for as long as it takes.
    pub budget: Option<Duration>,
    /// What the budget took away from what was asked, in words.
    pub economies: Vec<String>,
}

impl Plan {
    /// How many cells it has.
    pub fn cells(&self) -> usize {
        self.design.cells()
    }

    /// How many of them are not unavailable from the start.
    pub fn tried(&self) -> usize {
        self.cells() - self.unavailable.len() * self.design.repeats
    }

    /// Adds the control: one architecture that is measured twice.
    ///
    /// It is the one that is available at the most numbers of connections. Of several, state machines
    /// on epoll come first, then the order of the plan. A yardstick is never the control. Where no
    /// architecture is available, there is no control.
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

    /// Why a cell cannot be measured, if so.
    pub(crate) fn why_unavailable(&self, key: &CellKey) -> Option<&str> {
        self.unavailable.get(&(key.subject.clone(), key.concurrency)).map(String::as_str)
    }

    /// How many servers can be alive at once at so many connections, to be driven in turn; 1 where they are measured one after the
    /// other.
    pub fn side_by_side(&self, concurrency: usize) -> usize {
        if self.design.load_command.is_some() {
            return if self.design.blocks > 0 { usize::MAX } else { 1 };
        }
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let cell = CellKey { repeat: 0, subject: String::new(), concurrency };
        match self.load(nowhere, &cell) {
            Ok(load) if self.design.blocks > 0 && Relay::can_carry(&load) => Relay::room_for(&load),
            _ => 1,
        }
    }

    /// The load of a cell whose server listens at `address`.
    ///
    /// # Errors
    ///
    /// When there is no client for the service, in one line.
    pub(crate) fn load(&self, address: SocketAddr, cell: &CellKey) -> Result<Options, String> {
        let design = &self.design;
        Ok(Options {
            pattern: self.behaviour.pattern,
            crowd: self.behaviour.crowd,
            sources: self.behaviour.sources,
            connections: cell.concurrency,
            stop: Stop::After(Duration::from_secs_f64(design.window_seconds)),
            warm_up: Duration::from_secs_f64(design.warm_up_seconds),
            keep_alive: design.keep_alive,
            cpus: design.client_cpus.clone(),
            // The same arrivals for all architectures, and others in each repeat.
            seed: design.seed.wrapping_add(cell.repeat as u64),
            ..Options::new(self.target(address)?)
        })
    }

    /// What is asked of the service at `address`.
    fn target(&self, address: SocketAddr) -> Result<Target, String> {
        if let Some((request, reply)) = self.exchange.clone() {
            return Ok(Target::exchange(address, request, reply));
        }
        let service = self.design.service.as_str();
        let path = Target::default_page(service).map_or("", |_| &self.design.path);
        let target = format!("{service}://{address}{path}");
        target.parse().map_err(|error: TargetError| error.to_string())
    }

    /// Why so many connections cannot be open at once here, if so.
    pub fn too_many(&self, connections: usize) -> Option<String> {
        if self.design.load_command.is_some() {
            return None;
        }
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let cell = CellKey { repeat: 0, subject: String::new(), concurrency: connections };
        let load = self.load(nowhere, &cell).ok()?;
        load.check_descriptors().err().map(|error| error.to_string())
    }

    /// Why no client can load the service with `connections` connections, if so: what is found before
    /// anything starts.
    pub fn misfit(&self, connections: usize) -> Option<String> {
        if self.design.load_command.is_some() {
            return None;
        }
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let cell = CellKey { repeat: 0, subject: String::new(), concurrency: connections };
        match self.load(nowhere, &cell) {
            Ok(load) => load.check().err().map(|error| error.to_string()),
            Err(problem) => Some(problem),
        }
    }
}

/// The files that a peer serves.
#[derive(Clone, Debug)]
pub enum Site {
    /// Those in a directory that is there.
    Directory(PathBuf),
    /// These, by their names.
    Files(Vec<(String, Vec<u8>)>),
}

/// Names a cell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CellKey {
    /// Which repeat, from 0.
    pub repeat: usize,
    /// What is measured: the name of an architecture or a peer.
    pub subject: String,
    /// How many connections are open at once.
    pub concurrency: usize,
}

/// All cells of a design, in the order of measurement: repeat after repeat, at random within each, so
/// that what drifts on the machine hits all subjects alike.
pub fn cells(design: &Design) -> Vec<CellKey> {
    let mut random = SplitMix64::new(design.seed);
    let mut ordered = Vec::new();
    for repeat in 0..design.repeats {
        let begin = ordered.len();
        for subject in design.measured() {
            ordered.extend(design.concurrency.iter().map(|&concurrency| CellKey {
                repeat,
                subject: subject.to_owned(),
                concurrency,
            }));
        }
        shuffle(&mut ordered[begin..], &mut random);
    }
    ordered
}

/// The order is Fisher and Yates's.
pub(crate) fn shuffle<T>(items: &mut [T], random: &mut SplitMix64) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::Clients;

    /// A small design for tests.
    pub(crate) fn design() -> Design {
        let mut design = Design {
            service: "http".into(),
            architectures: vec!["threads".into(), "epoll".into()],
            carriers: BTreeMap::new(),
            variants: vec![],
            peers: vec![],
            ways: None,
            control: None,
            concurrency: vec![1, 10, 100],
            load_command: None,
            clients: Clients::default(),
            keep_alive: true,
            repeats: 3,
            blocks: 0,
            warm_up_seconds: 0.2,
            window_seconds: 0.5,
            seed: 7,
            server_cpus: vec![],
            client_cpus: vec![],
            server_arguments: vec![],
            path: "/".into(),
            store: None,
        };
        design.add_older_carriers();
        design
    }

    /// A small plan for tests.
    pub(crate) fn plan() -> Plan {
        Plan {
            design: design(),
            exchange: None,
            behaviour: clients::behaviour(&settings::Settings::default()).unwrap(),
            site: Site::Files(vec![]),
            programs: PathBuf::new(),
            unavailable: BTreeMap::new(),
            degraded: vec![],
            store: None,
            origin: None,
            program: PathBuf::new(),
            command: vec![],
            constraints: Constraints::default(),
            unit_costs: UnitCosts::default(),
            budget: None,
            economies: vec![],
        }
    }

    #[test]
    fn every_repeat_has_every_cell_once() {
        let ordered = cells(&design());
        assert_eq!(ordered.len(), 18);
        let mut sorted = ordered.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), 18);
        for (index, key) in ordered.iter().enumerate() {
            assert_eq!(key.repeat, index / 6);
        }
    }

    #[test]
    fn the_control_is_one_that_can_be_measured() {
        let control = |architectures: &[&str], unavailable: &[(&str, usize)]| {
            let mut plan = plan();
            plan.design.architectures =
                architectures.iter().map(|name| (*name).to_owned()).collect();
            plan.design.carriers.clear();
            plan.design.add_older_carriers();
            plan.unavailable = unavailable
                .iter()
                .map(|(name, count)| (((*name).to_owned(), *count), "why".to_owned()))
                .collect();
            plan.add_control();
            (plan.design.control.clone(), plan.tried())
        };
        let again = |name: &str| Some(format!("{name} (again)"));
        assert_eq!(control(&["fork", "pool", "epoll"], &[]), (again("epoll"), 36));
        assert_eq!(control(&["handwritten", "fork", "pool"], &[]), (again("fork"), 36));
        assert_eq!(control(&["fork", "pool"], &[("fork", 10)]), (again("pool"), 24));
        assert_eq!(control(&["pool"], &[("pool", 100)]), (again("pool"), 12));
        let never = [1, 10, 100].map(|count| ("pool", count));
        assert_eq!(control(&["handwritten", "pool"], &never), (None, 9));
    }

    #[test]
    fn the_seed_decides_the_order() {
        assert_eq!(cells(&design()), cells(&design()));
        assert_ne!(cells(&design()), cells(&Design { seed: 8, ..design() }));
    }
}
