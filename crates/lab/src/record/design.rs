//! What was to be measured: subjects, numbers of connections, clients, times, and the order of the
//! cells.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::{Carrier, Peer, Recording, Topology, Ways};
use crate::format::listed;
use crate::random::{SplitMix64, shuffle};

/// What was to be measured: all that a resumed experiment must share with the one it resumes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Design {
    /// The service.
    pub service: String,
    /// The architectures, in the order in which they are shown.
    pub architectures: Vec<String>,
    /// The subjects that are an architecture under another name, with options of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<Variant>,
    /// The servers that are not ours, in the order in which they are shown, after the
    /// architectures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<Peer>,
    /// Which of the subjects is the program as it is, and what is asked of the others. None if the
    /// subjects are not ways to run one program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ways: Option<Ways>,
    /// The control: an architecture that is measured once more, under this name
    /// ([`Design::again`]). Its difference from itself shows the influence of chance and of the
    /// machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<String>,
    /// The numbers of connections that are open at once; 0 where only the load command knows.
    pub concurrency: Vec<usize>,
    /// The command that makes the load, in place of the load generator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_command: Option<Vec<String>>,
    /// How clients behave.
    #[serde(default)]
    pub clients: Clients,
    /// Whether a connection carries request after request.
    pub keep_alive: bool,
    /// How often each cell is measured: in how many sessions, each with fresh servers.
    pub repeats: usize,
    /// How many blocks follow the cells in each session; 0 where servers are measured in turn only.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub blocks: usize,
    /// The warm-up before each measurement, in seconds.
    pub warm_up_seconds: f64,
    /// The window of each measurement, in seconds.
    pub window_seconds: f64,
    /// Decides the order of the cells.
    pub seed: u64,
    /// The processors of the server; empty when it was not pinned.
    pub server_cpus: Vec<usize>,
    /// The processors of the load generator; empty when it was not pinned.
    pub client_cpus: Vec<usize>,
    /// Further arguments of the server.
    pub server_arguments: Vec<String>,
    /// How each architecture carries connections, by subject.
    #[serde(default)]
    pub carriers: BTreeMap<String, Carrier>,
    /// The path that an HTTP client asks for.
    pub path: String,
    /// The servers' store. None for a service that keeps nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// The recording that is replayed, where one is. Then [`concurrency`](Self::concurrency) has
    /// how many times the users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<Recording>,
    /// Where the roles run; none where all is on one machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
}

/// An architecture with options of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
    /// What it is called, here and in the cells.
    pub name: String,
    /// The architecture.
    pub architecture: String,
    /// The options that make it one, as they were written.
    pub options: Vec<String>,
    /// All arguments of its server, in place of [`Design::server_arguments`].
    pub server_arguments: Vec<String>,
}

impl Design {
    /// Whether a subject can be chosen: an architecture, or a peer where peers alone are compared
    /// with each other.
    pub fn can_be_chosen(&self, name: &str) -> bool {
        if self.architectures.is_empty() {
            return self.peers.iter().any(|peer| peer.name == name);
        }
        self.architectures.iter().any(|own| own == name) && !self.is_yardstick(name)
    }

    /// What follows the name of a subject in that of its control.
    const AGAIN: &str = " (again)";

    /// The name of a subject that is measured once more.
    pub fn again(subject: &str) -> String {
        format!("{subject}{}", Self::AGAIN)
    }

    /// The subject behind a name, which may be the control's.
    pub fn original<'a>(&self, subject: &'a str) -> &'a str {
        let is_control = self.control.as_deref() == Some(subject);
        subject.strip_suffix(Self::AGAIN).filter(|_| is_control).unwrap_or(subject)
    }

    /// The names of all that is measured: of what is compared, and of the control.
    pub fn measured(&self) -> impl Iterator<Item = &str> {
        self.subjects().chain(self.control.as_deref())
    }

    /// How a subject carries connections; none for a peer.
    pub fn carrier(&self, subject: &str) -> Option<&Carrier> {
        self.carriers.get(self.original(subject))
    }

    /// Whether a subject runs no straight-line service, and so is no choice. It is a state machine
    /// by hand for two of the built-in services, shown beside the compiler's.
    pub fn is_yardstick(&self, subject: &str) -> bool {
        self.carrier(subject).is_some_and(|carrier| carrier.world.is_none())
    }

    /// Whether a subject looks at every open connection in each round, as a loop on select or poll
    /// does: idle ones cost it something, too.
    pub fn looks_at_all(&self, subject: &str) -> bool {
        self.carrier(subject).is_some_and(|carrier| carrier.looks_at_all)
    }

    /// Adds how subjects carry connections, in a design from results that do not say it.
    pub fn add_older_carriers(&mut self) {
        if !self.carriers.is_empty() {
            return;
        }
        let known = |name: &String| {
            let (architecture, arguments) = self.server_of(name);
            Some((name.clone(), Carrier::in_older_results(&architecture, arguments)?))
        };
        self.carriers = self.architectures.iter().filter_map(known).collect();
    }

    /// The architecture that is meant by the name of a subject, and the arguments of its server.
    pub fn server_of(&self, subject: &str) -> (String, &[String]) {
        let subject = self.original(subject);
        match self.variants.iter().find(|variant| variant.name == subject) {
            Some(variant) => (variant.architecture.clone(), &variant.server_arguments),
            None => (subject.to_owned(), &self.server_arguments),
        }
    }

    /// Whether servers and load generator take turns on the same processors.
    pub fn shares_processors(&self) -> bool {
        let beside = self.topology.as_ref().is_none_or(Topology::shares_hosts);
        self.server_cpus.is_empty() && beside
    }

    /// The names of all that is compared, architectures first.
    pub fn subjects(&self) -> impl Iterator<Item = &str> {
        let peers = self.peers.iter().map(|peer| peer.name.as_str());
        self.architectures.iter().map(String::as_str).chain(peers)
    }

    /// The planned number of blocks at each number of connections, in each group.
    pub fn planned_blocks(&self) -> usize {
        self.repeats.saturating_mul(self.blocks)
    }

    /// How many cells it has. The numbers may come from a file of any origin.
    pub fn cells(&self) -> usize {
        (self.measured().count() * self.concurrency.len()).saturating_mul(self.repeats)
    }

    /// What is compared, in words: `9 architectures and 2 peers`.
    pub fn compared(&self) -> String {
        let count = |count: usize, what: &str| {
            format!("{count} {what}{}", if count == 1 { "" } else { "s" })
        };
        if self.architectures.is_empty() {
            let names: Vec<String> = self.peers.iter().map(|peer| peer.name.clone()).collect();
            return listed(&names);
        }
        let architectures = count(self.architectures.len(), "architecture");
        match self.peers.len() {
            0 => architectures,
            peers => format!("{architectures} and {}", count(peers, "peer")),
        }
    }
}

/// How clients behave; in files that were written before there was a choice, the default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clients {
    /// The name of the pattern.
    pub pattern: String,
    /// When the requests of an open loop arrive, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<String>,
    /// Further connections that say nothing.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub idle: usize,
    /// Further connections that take their replies slowly.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub slow_readers: usize,
    /// Further connections that make their requests slowly.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub slow_senders: usize,
    /// How many addresses all of them come from; none: as many as needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<NonZeroU32>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Clients {
    /// The crowd beside the clients that make the requests, in words; none if there is none.
    pub fn crowd(&self) -> Option<String> {
        let kinds = [
            (self.idle, "idle"),
            (self.slow_readers, "slow readers"),
            (self.slow_senders, "slow senders"),
        ];
        let told: Vec<String> = kinds
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, kind)| format!("{count} {kind}"))
            .collect();
        (!told.is_empty()).then(|| listed(&told))
    }
}

impl Default for Clients {
    fn default() -> Self {
        Self {
            pattern: "closed".to_owned(),
            arrivals: None,
            idle: 0,
            slow_readers: 0,
            slow_senders: 0,
            sources: None,
        }
    }
}

/// Names a cell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CellKey {
    /// Which repeat, from 0.
    pub repeat: usize,
    /// What is measured: the name of an architecture or a peer.
    pub subject: String,
    /// How many connections are open at once.
    pub concurrency: usize,
}

/// All cells of a design, in the order of measurement. They go repeat after repeat, at random
/// within each, so that what drifts on the machine hits all subjects alike.
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

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
            recording: None,
            topology: None,
        };
        design.add_older_carriers();
        design
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
    fn the_seed_decides_the_order() {
        assert_eq!(cells(&design()), cells(&design()));
        assert_ne!(cells(&design()), cells(&Design { seed: 8, ..design() }));
    }
}
