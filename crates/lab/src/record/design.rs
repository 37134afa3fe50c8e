//! The design of an experiment: subjects, numbers of connections, clients, times, and the order of
//! the cells.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::carrier::{Family, World};
use super::{Carrier, Peer, Recording, Topology, Ways};
use crate::format::{Counted, listed};
use crate::random::{SplitMix64, shuffle};

/// The design: all properties that a resumed experiment must share with the earlier run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Design {
    /// The service.
    pub service: String,
    /// The architectures, in the order in which they are shown.
    pub architectures: Vec<String>,
    /// The subjects that are an architecture under another name, with its own options.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<Variant>,
    /// The servers that are not ours, in the order in which they are shown, after the
    /// architectures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<Peer>,
    /// The subject that is the program as it is, and the questions about the others. `None` if the
    /// subjects are not ways to run one program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ways: Option<Ways>,
    /// The control: an architecture that is measured once more, under this name
    /// ([`Design::again`]). The difference between the two measurements shows the influence of
    /// chance and of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<String>,
    /// The numbers of connections that are open at once. 0 where only the load command knows.
    pub concurrency: Vec<usize>,
    /// The command that makes the load, in place of the load generator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_command: Option<Vec<String>>,
    /// How clients behave.
    #[serde(default)]
    pub clients: Clients,
    /// Whether a connection carries several requests, one after another.
    pub keep_alive: bool,
    /// Whether servers and clients speak TLS.
    #[serde(default, skip_serializing_if = "is_false")]
    pub tls: bool,
    /// Whether clients speak HTTP/2.
    #[serde(default, skip_serializing_if = "is_false")]
    pub http2: bool,
    /// The number of repeats of each cell: the number of sessions, each with fresh servers.
    pub repeats: usize,
    /// The number of blocks after the cells in each session. 0 if servers are only measured in
    /// turn.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub blocks: usize,
    /// Whether the subjects race: a subject that is worse for sure gets no more blocks, and an
    /// answered load no more time. `repeats` is then the number of sessions that each load has at
    /// least.
    #[serde(default, skip_serializing_if = "is_false")]
    pub race: bool,
    /// The warm-up before each measurement, in seconds.
    pub warm_up_seconds: f64,
    /// The window of each measurement, in seconds.
    pub window_seconds: f64,
    /// Decides the order of the cells.
    pub seed: u64,
    /// The processors of the server. Empty without pinning.
    pub server_cpus: Vec<usize>,
    /// The processors of the load generator. Empty without pinning.
    pub client_cpus: Vec<usize>,
    /// Further arguments of the server.
    pub server_arguments: Vec<String>,
    /// How each architecture carries connections, by subject.
    #[serde(default)]
    pub carriers: BTreeMap<String, Carrier>,
    /// The path that an HTTP client asks for.
    pub path: String,
    /// The servers' store. `None` for a service without data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// The recording that is replayed, if there is one. Then [`concurrency`](Self::concurrency) has
    /// the multiples of its users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<Recording>,
    /// The hosts of the roles. `None` if all roles are on one machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
}

/// An architecture with its own options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Variant {
    /// The variant's name, here and in the cells.
    pub name: String,
    /// The architecture.
    pub architecture: String,
    /// The options of the variant, as they were written.
    pub options: Vec<String>,
    /// All arguments of its server, in place of [`Design::server_arguments`].
    pub server_arguments: Vec<String>,
}

impl Design {
    /// What clients speak in addition to HTTP/1.1 without TLS, each after a comma.
    pub fn protocols(&self) -> &'static str {
        match (self.tls, self.http2) {
            (true, true) => ", TLS, HTTP/2",
            (true, false) => ", TLS",
            (false, true) => ", HTTP/2",
            (false, false) => "",
        }
    }

    /// Whether a subject can be chosen: an architecture, or a peer where peers alone are compared
    /// with each other.
    pub fn can_be_chosen(&self, name: &str) -> bool {
        if self.architectures.is_empty() {
            return self.peers.iter().any(|peer| peer.name == name);
        }
        self.architectures.iter().any(|own| own == name) && !self.is_yardstick(name)
    }

    /// The suffix of a control's name, after the name of its subject.
    const AGAIN: &str = " (again)";

    /// The name of a subject's second measurement.
    pub fn again(subject: &str) -> String {
        format!("{subject}{}", Self::AGAIN)
    }

    /// The subject behind a name, which may be the control's.
    pub fn original<'a>(&self, subject: &'a str) -> &'a str {
        let is_control = self.control.as_deref() == Some(subject);
        subject.strip_suffix(Self::AGAIN).filter(|_| is_control).unwrap_or(subject)
    }

    /// The names of all measured subjects, the control included.
    pub fn measured(&self) -> impl Iterator<Item = &str> {
        self.subjects().chain(self.control.as_deref())
    }

    /// How a subject carries connections. `None` for a peer.
    pub fn carrier(&self, subject: &str) -> Option<&Carrier> {
        self.carriers.get(self.original(subject))
    }

    /// Whether a subject runs no straight-line service, and so is no choice. A yardstick is a
    /// hand-written state machine for two of the built-in services, shown beside the compiler's.
    pub fn is_yardstick(&self, subject: &str) -> bool {
        self.carrier(subject).is_some_and(|carrier| carrier.world.is_none())
    }

    /// Whether a subject examines every open connection in each round, as a loop on select or poll
    /// does, so that idle connections cost time.
    pub fn looks_at_all(&self, subject: &str) -> bool {
        self.carrier(subject).is_some_and(|carrier| carrier.looks_at_all)
    }

    /// The family of a subject. `None` for peers and yardsticks.
    pub fn family(&self, subject: &str) -> Option<Family> {
        Family::of(&self.server_of(subject).0, self.carrier(subject)?)
    }

    /// Adds how subjects carry connections to a design from results without this information. In
    /// results of before the world `reactor` had a name, `staged` is said to suspend.
    pub fn add_older_carriers(&mut self) {
        if !self.carriers.is_empty() {
            let is_staged = |name: &&str| self.server_of(name).0 == "staged";
            let staged: Vec<String> =
                self.subjects().filter(is_staged).map(str::to_owned).collect();
            for name in &staged {
                if let Some(carrier) = self.carriers.get_mut(name) {
                    carrier.world = Some(World::Reactor);
                    carrier.beside_others = true;
                }
            }
            return;
        }
        let known = |name: &String| {
            let (architecture, arguments) = self.server_of(name);
            Some((name.clone(), Carrier::in_older_results(&architecture, arguments)?))
        };
        self.carriers = self.architectures.iter().filter_map(known).collect();
    }

    /// The architecture behind the name of a subject, and the arguments of its server.
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

    /// The names of all compared subjects, architectures first.
    pub fn subjects(&self) -> impl Iterator<Item = &str> {
        let peers = self.peers.iter().map(|peer| peer.name.as_str());
        self.architectures.iter().map(String::as_str).chain(peers)
    }

    /// The things that [`concurrency`](Self::concurrency) counts.
    pub fn counted(&self) -> Counted {
        match self.recording {
            None => Counted::Connections,
            Some(_) => Counted::Users,
        }
    }

    /// The planned number of blocks at each number of connections, in each group.
    pub fn planned_blocks(&self) -> usize {
        self.repeats.saturating_mul(self.blocks)
    }

    /// The number of cells of the design. The numbers may come from a file of any origin.
    pub fn cells(&self) -> usize {
        (self.measured().count() * self.concurrency.len()).saturating_mul(self.repeats)
    }

    /// The compared subjects in words: `9 architectures and 2 peers`.
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

/// The behaviour of clients. In files from before there was a choice, the default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Clients {
    /// The name of the pattern.
    pub pattern: String,
    /// The arrival times in an open loop, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<String>,
    /// Further connections that send nothing.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub idle: usize,
    /// Further connections that take their replies slowly.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub slow_readers: usize,
    /// Further connections that make their requests slowly.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub slow_senders: usize,
    /// The number of addresses of all connections. `None` means as many as needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<NonZeroU32>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Clients {
    /// The crowd beside the clients that make the requests, in words. `None` without a crowd.
    pub fn crowd(&self) -> Option<String> {
        let kinds = [
            (self.idle, "idle"),
            (self.slow_readers, "slow readers"),
            (self.slow_senders, "slow senders"),
        ];
        let parts: Vec<String> = kinds
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, kind)| format!("{count} {kind}"))
            .collect();
        (!parts.is_empty()).then(|| listed(&parts))
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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct CellKey {
    /// The repeat, from 0.
    pub repeat: usize,
    /// The name of the measured architecture or peer.
    pub subject: String,
    /// The number of connections that are open at once.
    pub concurrency: usize,
}

/// All cells of a design, in the order of measurement. Repeats follow each other, in random order
/// within each, so that a drift of the machine affects all subjects alike.
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
            tls: false,
            http2: false,
            repeats: 3,
            blocks: 0,
            race: false,
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
