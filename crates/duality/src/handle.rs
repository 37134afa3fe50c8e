//! A service that a thread of this program serves.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::thread::{self, JoinHandle};

use duality_architectures::{Architecture, Options, Server};
use duality_runtime::drain::Scope;
use duality_runtime::log;

use crate::Service;

/// A service that is being served, as [`Service::serve`] returns it.
///
/// Dropping the handle shuts the service down and waits until it has ended, as
/// [`shutdown`](Handle::shutdown) and [`join`](Handle::join) do. The drop logs an error. Drop a
/// handle outside the service: a connection that drops the handle of its own server waits for
/// itself.
#[must_use = "dropping the handle shuts the service down"]
pub struct Handle {
    address: SocketAddr,
    architecture: &'static str,
    scope: Scope,
    /// `None` after `join`.
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Handle {
    /// Starts the thread that serves. [`Service::serve_with`] documents the errors.
    pub(crate) fn start(
        service: &Service,
        architecture: &str,
        address: impl ToSocketAddrs,
        options: &Options,
    ) -> io::Result<Self> {
        let architecture = (service.architectures.named(architecture))
            .map_err(|problem| io::Error::new(io::ErrorKind::InvalidInput, problem))?;
        if let Some(reason) = refusal(service, architecture, options) {
            let (service, name) = (service.served.name(), architecture.name());
            let problem = format!("{service} under {name}: {reason}");
            return Err(io::Error::new(io::ErrorKind::Unsupported, problem));
        }
        let server = bind(service, architecture, address, options)?;
        let (address, scope) = (server.address(), Scope::new());
        let own = scope.clone();
        let thread = thread::Builder::new().name("duality-server".into()).spawn(move || {
            own.enter(|| {
                server.service.prepare_for(architecture)?;
                architecture.serve(server)
            })
        })?;
        Ok(Self { address, architecture: architecture.name(), scope, thread: Some(thread) })
    }

    /// The address at which the service listens, with the port that the kernel chose.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Asks the service to drain, and returns at once. Other services of this program are not
    /// affected.
    ///
    /// The service accepts no more connections. An accepted connection that waits for input sees
    /// the end of its input, so a service finishes its current request, writes the reply, and
    /// returns. A second call does nothing.
    pub fn shutdown(&self) {
        self.scope.request();
    }

    /// Waits until the service has ended and all its connections are closed. The service ends after
    /// [`shutdown`](Handle::shutdown), or when the whole process drains.
    ///
    /// Connections are not cut off. A service that waits for something other than input, such as a
    /// long [`sleep`](crate::time::sleep), delays the end.
    ///
    /// # Errors
    ///
    /// The architecture could not start: it lacked descriptors, memory or threads. Or the
    /// architecture panicked, which is a bug in Duality. A panic of the service closes one
    /// connection only.
    pub fn join(mut self) -> io::Result<()> {
        self.wait()
    }

    fn wait(&mut self) -> io::Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let name = self.architecture;
        match thread.join() {
            Ok(served) => served.map_err(|error| {
                io::Error::new(error.kind(), format!("{name}: cannot serve: {error}"))
            }),
            Err(_) => {
                let problem = "the server panicked: its message is on standard error";
                Err(io::Error::other(format!("{name}: {problem}")))
            }
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.thread.is_none() {
            return;
        }
        self.shutdown();
        if let Err(error) = self.wait() {
            log::warn(error);
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Handle")
            .field("address", &self.address)
            .field("architecture", &self.architecture)
            .finish_non_exhaustive()
    }
}

/// The reason why a thread of this program cannot serve `service` under `architecture`, if there is
/// one.
pub(crate) fn refusal(
    service: &Service,
    architecture: &dyn Architecture,
    options: &Options,
) -> Option<String> {
    if architecture.about().forks {
        // A child process would be a copy of one thread of this program, with the locks that other
        // threads held.
        let remedy =
            "choose an architecture without processes, or run the service by `Service::main`";
        return Some(format!(
            "it makes child processes, which a program with threads cannot: {remedy}"
        ));
    }
    let missing = service.served.needs().missing_from(architecture.about().gives);
    missing.map(str::to_owned).or_else(|| architecture.unavailable(options))
}

/// Listens at the first of the addresses that works.
fn bind(
    service: &Service,
    architecture: &dyn Architecture,
    addresses: impl ToSocketAddrs,
    options: &Options,
) -> io::Result<Server> {
    let mut problem = None;
    for address in addresses.to_socket_addrs()? {
        match Server::bind(architecture, service.served.clone(), address, options.clone()) {
            Ok(server) => return Ok(server),
            Err(error) => {
                let message = format!("cannot listen at {address}: {error}");
                problem = Some(io::Error::new(error.kind(), message));
            }
        }
    }
    Err(problem
        .unwrap_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no address to listen at")))
}
