//! The servers behind a relay: those that the user names, or one that the lab starts.

use serde::{Deserialize, Serialize};

/// What a relay passes requests on to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Upstream {
    /// A server that the lab starts.
    Own,
    /// Servers that exist, each a `HOST:PORT`.
    At(Vec<String>),
}

impl Upstream {
    /// The upstream, for readers of a plan or of results. `client_cpus` are the load generator's.
    pub fn describe(&self, client_cpus: &[usize]) -> String {
        match self {
            Self::At(names) => names.join(", "),
            Self::Own => {
                let place = match client_cpus {
                    [] => "not pinned".to_owned(),
                    cpus => {
                        let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
                        format!("on the load generator's CPUs ({})", cpus.join(","))
                    }
                };
                format!("http on epoll, one server for the whole experiment, {place}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstreams_are_described() {
        let at = Upstream::At(vec!["127.0.0.1:81".to_owned(), "127.0.0.1:82".to_owned()]);
        assert_eq!(at.describe(&[]), "127.0.0.1:81, 127.0.0.1:82");
        assert!(Upstream::Own.describe(&[1]).contains("CPUs (1)"));
    }
}
