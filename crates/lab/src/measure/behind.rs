//! What is behind the relays of an experiment. The user names servers, or the lab starts one for
//! the whole experiment.
//!
//! The lab's own server is http on epoll, on the load generator's processors. So it takes no time
//! from the relays, as a store of the lab's own takes none from servers that keep data.

use std::net::{SocketAddr, ToSocketAddrs};
use std::process::Command;

use super::experiment::Experiment;
use super::no_server::NoServer;
use super::server::Server;
use super::server::ours::Process;
use super::upstream::Upstream;
use crate::failure::Failure;

/// The lab's own server behind the relays. Dropping this value ends it.
pub(super) struct OwnUpstream(Process);

impl OwnUpstream {
    /// Starts the server, if the experiment needs one.
    pub(super) fn start(experiment: &Experiment) -> Result<Option<Self>, Failure> {
        if experiment.upstream != Some(Upstream::Own) {
            return Ok(None);
        }
        let mut command = Command::new(&experiment.program);
        command.args(["serve", "http", "--architecture=epoll", "--control"]);
        command.arg("--listen=127.0.0.1:0");
        let cpus: Vec<String> =
            experiment.design.client_cpus.iter().map(usize::to_string).collect();
        if !cpus.is_empty() {
            command.arg(format!("--cpus={}", cpus.join(",")));
        }
        match Process::launch(command) {
            Ok(server) => Ok(Some(Self(server))),
            Err(none) => Err(none.failure().at("the server behind the relay")),
        }
    }

    /// The number of its process, which takes time of the load generator's processors.
    pub(super) fn pid(&self) -> u32 {
        self.0.pid()
    }
}

/// The addresses behind the relays of an experiment, which may have its `own` server there.
pub(super) fn addresses(
    experiment: &Experiment,
    own: Option<&OwnUpstream>,
) -> Result<Vec<SocketAddr>, NoServer> {
    let names = match &experiment.upstream {
        None => return Ok(Vec::new()),
        Some(Upstream::Own) => return Ok(own.iter().map(|own| own.0.address()).collect()),
        Some(Upstream::At(names)) => names,
    };
    let resolved = |name: &String| {
        let first = name.to_socket_addrs().map(|mut addresses| addresses.next());
        first.ok().flatten().ok_or_else(|| {
            let problem = format!("the upstream {name} has no address");
            NoServer::Failed(Failure::misuse(problem).remedy("give HOST:PORT"))
        })
    };
    names.iter().map(resolved).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::experiment::tests::experiment;

    #[test]
    fn upstreams_are_looked_up() {
        let mut experiment = experiment();
        assert_eq!(addresses(&experiment, None).ok(), Some(vec![]));
        let named = |names: [&str; 2]| Upstream::At(names.map(str::to_owned).to_vec());
        experiment.upstream = Some(named(["127.0.0.1:81", "127.0.0.1:82"]));
        let expected = ["127.0.0.1:81", "127.0.0.1:82"].map(|text| text.parse().unwrap());
        assert_eq!(addresses(&experiment, None).ok(), Some(expected.to_vec()));
        experiment.upstream = Some(named(["127.0.0.1:81", "nowhere"]));
        assert!(addresses(&experiment, None).is_err());
    }
}
