//! The place of an experiment's measurement: this machine alone, or hosts.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::behind::{self, OwnUpstream};
use super::driver::{Driver, InProcess};
use super::experiment::Experiment;
use super::hosts::{Hosts, HostsMeter};
use super::meter::{BesideLoad, Meter, OfThisMachine};
use super::no_server::NoServer;
use super::server::{self, Server};
use super::store::OpenStore;
use crate::failure::Failure;
use crate::record::{CellKey, Machine};

/// The place of an experiment's measurement.
pub struct Stage(Place);

enum Place {
    Here(Here),
    Hosts(Arc<Hosts>),
}

/// This machine.
struct Here {
    /// The lab's own server behind relays, if the experiment has one.
    upstream: Option<OwnUpstream>,
    beside_load: BesideLoad,
}

impl Here {
    fn set(experiment: &Experiment) -> Result<Self, Failure> {
        let here =
            Self { upstream: OwnUpstream::start(experiment)?, beside_load: BesideLoad::default() };
        here.upstream.iter().for_each(|upstream| here.beside_load.add(upstream.pid()));
        Ok(here)
    }
}

impl Stage {
    /// Sets the stage of an experiment: reaches its hosts, where it has some.
    ///
    /// # Errors
    ///
    /// The error names the host that could not be reached, with the reason, in one line.
    pub fn set(experiment: &Experiment) -> Result<Self, Failure> {
        Ok(Self(match &experiment.design.topology {
            None => Place::Here(Here::set(experiment)?),
            Some(topology) => Place::Hosts(Arc::new(Hosts::connect(experiment, topology)?)),
        }))
    }

    /// The descriptions of the hosts, by name. Empty if there is only this machine.
    pub(super) fn machines(&self) -> BTreeMap<String, Machine> {
        match &self.0 {
            Place::Here(_) => BTreeMap::new(),
            Place::Hosts(hosts) => hosts.machines(),
        }
    }

    /// Makes the store of a cell.
    pub(super) fn store(&self, experiment: &Experiment) -> Result<Option<OpenStore>, NoServer> {
        match &self.0 {
            Place::Here(here) => {
                let cpus = &experiment.design.client_cpus;
                let store = experiment.store.as_ref().map(|store| store.open(cpus)).transpose()?;
                let pid = store.as_ref().and_then(OpenStore::pid);
                pid.inspect(|&pid| here.beside_load.add(pid));
                Ok(store)
            }
            Place::Hosts(hosts) => hosts.store(),
        }
    }

    /// Starts the server of a cell, which keeps its data in `store`.
    pub(super) fn server(
        &self,
        experiment: &Experiment,
        key: &CellKey,
        store: Option<&OpenStore>,
    ) -> Result<Box<dyn Server>, NoServer> {
        match &self.0 {
            Place::Here(here) => {
                let upstreams = behind::addresses(experiment, here.upstream.as_ref())?;
                server::start(experiment, key, store, &upstreams)
            }
            Place::Hosts(hosts) => hosts.server(key, store),
        }
    }

    /// The driver of the load.
    pub(super) fn driver<'a>(
        &self,
        experiment: &'a Experiment,
    ) -> Result<Box<dyn Driver + 'a>, NoServer> {
        Ok(match &self.0 {
            Place::Here(_) => Box::new(InProcess::new(experiment)),
            Place::Hosts(hosts) => Box::new(hosts.loads()?),
        })
    }

    /// The meter of the processors of servers and loads.
    pub(super) fn meter(&self, experiment: &Experiment) -> Box<dyn Meter> {
        let design = &experiment.design;
        match &self.0 {
            Place::Here(here) => Box::new(OfThisMachine::new(
                &design.server_cpus,
                &design.client_cpus,
                here.beside_load.clone(),
            )),
            Place::Hosts(hosts) => Box::new(HostsMeter(Arc::clone(hosts))),
        }
    }
}
