//! A server of a simulation: a service as it ships, on the loop of its host or under an
//! architecture.

use std::num::NonZeroUsize;
use std::sync::Arc;

use duality_architectures::event_loop::serve_here;
use duality_architectures::{
    ALL, Architecture, HandOver, Needs, Options, Served, Server, find as find_architecture,
};
use duality_runtime::net::{ListenOptions, TcpListener};
use duality_services::{Entry, Setup, find};

use super::{Days, PORT};
use crate::Host;
use crate::violation::Violation;

/// What keeps an architecture out of a simulation, in words with a remedy. `None` if it can be
/// simulated.
#[must_use]
pub fn unsimulated(architecture: &dyn Architecture) -> Option<String> {
    let why = obstacle(architecture)?;
    let able = ALL.iter().filter(|one| obstacle(**one).is_none());
    let able: Vec<_> = able.map(|one| one.name()).collect();
    Some(format!("{} cannot be simulated: {why}; choose {}", architecture.name(), able.join(", ")))
}

fn obstacle(architecture: &dyn Architecture) -> Option<&'static str> {
    let about = architecture.about();
    match about.name {
        _ if about.forks => Some("its processes cannot share a network in memory"),
        "gcd" => Some("libdispatch starts threads of its own"),
        "uring" => Some("a ring is the kernel's own"),
        _ if !about.gives.straight_line => Some("its loop is written by hand"),
        _ => None,
    }
}

/// Why a service cannot have TLS, in words with a remedy. `None` if it can.
#[must_use]
pub fn without_tls(service: &str) -> Option<String> {
    let reads_and_writes_at_once = find(service).is_some_and(|entry| !entry.tls);
    reads_and_writes_at_once
        .then(|| format!("{service} reads and writes at once, which TLS cannot here: leave it out"))
}

/// Why an architecture cannot carry a service, in words. `None` if it can.
#[must_use]
pub fn unfit(architecture: &dyn Architecture, service: &str) -> Option<String> {
    let missing = needs(find(service)?).missing_from(architecture.about().gives)?;
    Some(format!("{service} {missing}: choose another architecture than {}", architecture.name()))
}

fn needs(entry: &Entry) -> Needs {
    Needs {
        shared_memory: entry.shared_memory,
        concurrent_connections: entry.concurrent_connections,
        ..Needs::ALL
    }
}

impl Days {
    /// Adds a server. One of the service that is simulated runs under the architecture of the
    /// simulation, if that has one.
    pub(super) fn server(&self, host: &str, service: &'static str, setup: &Setup) -> Host {
        let setup = setup.clone();
        let tls = self.tls.clone().filter(|_| service == self.name);
        let make = move || {
            let entry = find(service).ok_or_else(|| format!("there is no service {service}"))?;
            let handler = (entry.open)(&setup).map_err(|error| error.to_string())?;
            let served = Served::new(service, needs(entry), handler);
            let served = served.with_descriptors(entry.descriptors);
            match &tls {
                Some(tls) => tls.put_before(served),
                None => Ok(served),
            }
        };
        let is_crowded = find(service).is_some_and(|entry| entry.concurrent_connections);
        let architecture = self.size.architecture.filter(|_| service == self.name);
        self.serve(host, architecture, is_crowded, make)
    }

    /// Adds a server of what `make` makes at each start.
    pub(super) fn serve(
        &self,
        host: &str,
        architecture: Option<&'static str>,
        is_crowded: bool,
        make: impl Fn() -> Result<Served, Violation> + Send + Sync + 'static,
    ) -> Host {
        let Some(name) = architecture else {
            let make = Arc::new(make);
            return self.net.host(host, move || {
                let make = make.clone();
                async move { on_the_loop(make()?).await }
            });
        };
        let options = self.options(is_crowded);
        self.net.program(host, move || under(name, make()?, options.clone()))
    }

    /// Options that the seed draws. The tame ones are the defaults. `is_crowded` says that all
    /// clients must be served at a time.
    fn options(&self, is_crowded: bool) -> Options {
        let draw = |choices: &[usize]| choices[self.net.draw(choices.len() as u64) as usize];
        let all = self.size.clients + 4;
        // A client that finds no place may lose its connection.
        let may_wait = !is_crowded && self.net.faults().break_connections();
        let of_stages = |count| NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN);
        let defaults = Options::default();
        let places = draw(&[all, all, 2, 1]);
        let admit = draw(&[0, 0, 2, 1]);
        let hand_over = draw(&[0, 1]);
        let accept_queue = draw(&[usize::MAX, 1, 0]);
        defaults
            .workers(if may_wait { places } else { all })
            .admit((may_wait && admit > 0).then_some(admit))
            .hand_over(if hand_over == 0 { HandOver::List } else { HandOver::Accept })
            .accept_queue((accept_queue < usize::MAX).then_some(accept_queue))
            .stage_threads(of_stages(draw(&[4, 2, 1])))
            .stage_queue(of_stages(draw(&[1024, 2, 1])))
            .cores(draw(&[1, 2, 4]))
    }
}

/// Serves as `duality serve` does, on the loop of the host.
async fn on_the_loop(served: Served) -> Result<(), Violation> {
    let address = ([0, 0, 0, 0], PORT).into();
    let listener = TcpListener::bind(address, &ListenOptions::default());
    let listener = listener.map_err(|error| error.to_string())?;
    serve_here(listener, served, &Options::default()).await;
    Ok(())
}

/// Serves as `duality serve` does, under an architecture.
fn under(name: &str, served: Served, options: Options) -> Result<(), Violation> {
    let architecture =
        find_architecture(name).ok_or_else(|| format!("there is no architecture {name}"))?;
    let address = ([0, 0, 0, 0], PORT).into();
    let server = Server::bind(architecture, served, address, options);
    let served = server.and_then(|server| architecture.serve(server));
    served.map_err(|error| format!("{name}: {error}").into())
}
