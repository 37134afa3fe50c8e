//! The behaviour of the clients of an experiment.

use duality_load::{Arrivals, Crowd, Pattern, Sources};
use serde::{Deserialize, Serialize};

use crate::record::Clients;

/// How clients behave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Behaviour {
    /// The times at which clients make requests.
    pub pattern: Pattern,
    /// Whether a connection carries several requests, one after another.
    pub keep_alive: bool,
    /// The crowd that is connected beside the clients that make requests.
    pub crowd: Crowd,
    /// The number of addresses that all clients come from.
    pub sources: Sources,
}

impl Default for Behaviour {
    /// The closed loop on connections that stay, without a crowd.
    fn default() -> Self {
        Self {
            pattern: Pattern::Closed,
            keep_alive: true,
            crowd: Crowd::default(),
            sources: Sources::Automatic,
        }
    }
}

impl Behaviour {
    /// The behaviour's form in the results.
    pub fn record(&self) -> Clients {
        Clients {
            pattern: self.pattern.name().to_owned(),
            arrivals: match self.pattern {
                Pattern::Open(arrivals) => Some(describe(arrivals)),
                _ => None,
            },
            idle: self.crowd.idle,
            slow_readers: self.crowd.slow_readers,
            slow_senders: self.crowd.slow_senders,
            sources: match self.sources {
                Sources::Automatic => None,
                Sources::Count(count) => Some(count),
            },
        }
    }

    /// The number of all connections, if `connections` of them make the requests.
    pub fn connections(&self, connections: usize) -> usize {
        let Crowd { idle, slow_readers, slow_senders, .. } = self.crowd;
        connections.saturating_add(idle + slow_readers + slow_senders)
    }
}

/// `poisson, 1000 requests/s`.
fn describe(arrivals: Arrivals) -> String {
    let waits = match arrivals {
        Arrivals::Constant { .. } | Arrivals::Poisson { .. } => String::new(),
        Arrivals::Uniform { shortest, longest } => {
            format!(", waits from {shortest:?} to {longest:?}")
        }
        Arrivals::Sinusoidal { shortest, longest, period } => {
            format!(", waits from {shortest:?} to {longest:?} and back in {period:?}")
        }
    };
    format!("{}, {} requests/s{waits}", arrivals.name(), arrivals.rate())
}
